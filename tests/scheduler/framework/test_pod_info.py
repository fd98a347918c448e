from __future__ import annotations

import pytest

from pytest_kwait.scheduler.framework.pod_info import (
    PodRequests,
    has_port_conflict,
    list_host_ports,
    sum_pod_requests,
)

Container = dict[str, object]


def _c(cpu: str, *, always: bool = False) -> Container:
    made: Container = {"resources": {"requests": {"cpu": cpu}}}
    if always:
        made["restartPolicy"] = "Always"
    return made


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [_c("1"), _c("500m")]}, 1500),
        ({"containers": [_c("1")], "initContainers": [_c("3"), _c("2")]}, 3000),
        ({"containers": [_c("1")], "initContainers": [_c("1", always=True)]}, 2000),
        (
            # The second init container runs beside the sidecar before it.
            {"containers": [_c("1")], "initContainers": [_c("1", always=True), _c("5")]},
            6000,
        ),
        ({"containers": [_c("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [_c("1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
    ],
)
def test_pod_requests_are_containers_or_init_peak(spec: dict[str, object], cpu: int) -> None:
    assert sum_pod_requests({"spec": spec}) == {"cpu": cpu}


def test_resources_have_own_units_and_absent_ones_are_omitted() -> None:
    requests = {"memory": "1Ki", "example.com/gpu": "2"}
    spec = {"containers": [{"resources": {"requests": requests}}, {}]}
    assert sum_pod_requests({"spec": spec}) == {"memory": 1024, "example.com/gpu": 2}
    assert sum_pod_requests({"spec": {"containers": [{}]}}) == {}


def test_host_ports_are_those_of_containers_and_sidecars() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    sidecar = {
        "restartPolicy": "Always",
        "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}],
    }
    spec = {
        "containers": [{"ports": ports}],
        "initContainers": [sidecar, {"ports": [{"hostPort": 99}]}],
    }
    assert list_host_ports({"spec": spec}) == {("TCP", "0.0.0.0", 8080), ("UDP", "10.0.0.1", 53)}


@pytest.mark.parametrize(
    ("used", "conflict"),
    [
        (("TCP", "0.0.0.0", 80), True),
        (("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.2", 80), False),
        (("UDP", "10.0.0.1", 80), False),
        (("TCP", "10.0.0.1", 81), False),
    ],
)
def test_port_conflicts_on_the_same_address_or_on_all(
    used: tuple[str, str, int], conflict: bool
) -> None:
    assert has_port_conflict({("TCP", "10.0.0.1", 80)}, {used}) is conflict


def test_pod_level_requests_replace_only_pod_level_resources() -> None:
    resources = {"requests": {"cpu": "4", "hugepages-2Mi": "2Mi", "example.com/gpu": "9"}}
    container = {"resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    spec = {"containers": [container], "resources": resources}
    assert sum_pod_requests({"spec": spec}) == {
        "cpu": 4000,
        "hugepages-2Mi": 2 * 1024 * 1024,
        "example.com/gpu": 1,
    }


def test_untracked_resources_are_left_out() -> None:
    requests = {"cpu": "1", "pods": "1", "something": "3"}
    spec = {"containers": [{"resources": {"requests": requests}}]}
    assert sum_pod_requests({"spec": spec}) == {"cpu": 1000}


_ASSUMED_MEMORY = 200 * 1024 * 1024


@pytest.mark.parametrize(
    ("spec", "on_a_node", "before"),
    [
        ({"containers": [{}, {}]}, (200, 2), (200, 2)),
        ({"containers": [_c("1"), {}]}, (1100, 2), (1100, 2)),
        ({"containers": [{}], "initContainers": [_c("3"), {}]}, (3000, 1), (3000, 1)),
        ({"containers": [{}], "overhead": {"cpu": "1"}}, (1100, 1), (1100, 1)),
        (
            # Of a pod as a whole nothing is assumed that it or a container requests.
            {"containers": [_c("1"), {}], "resources": {"requests": {"cpu": "3"}}},
            (3000, 2),
            (1100, 2),
        ),
    ],
)
def test_scores_assume_requests_of_containers_without(
    spec: dict[str, object], on_a_node: tuple[int, int], before: tuple[int, int]
) -> None:
    requests = PodRequests({"spec": spec})
    for assumed, (cpu, memory) in (
        (requests.assumed(), on_a_node),
        (requests.assumed(whole=False), before),
    ):
        assert assumed == {"cpu": cpu, "memory": memory * _ASSUMED_MEMORY}


def _resized(spec: str, actuated: str, allocated: str, **status: object) -> dict[str, object]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": spec}}}]
    given = {
        "name": "c",
        "resources": {"requests": {"cpu": actuated}},
        "allocatedResources": {"cpu": allocated},
    }
    return {"spec": {"containers": containers}, "status": {"containerStatuses": [given], **status}}


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (_resized("1", "1", "1"), 1000),
        # Grows: it will be given that.
        (_resized("3", "1", "2"), 3000),
        # Shrinks: it still has that.
        (_resized("1", "3", "2"), 3000),
        # Cannot grow on this node.
        (
            _resized(
                "9", "1", "2", conditions=[{"type": "PodResizePending", "reason": "Infeasible"}]
            ),
            2000,
        ),
        (
            _resized(
                "9", "1", "2", conditions=[{"type": "PodResizePending", "reason": "Deferred"}]
            ),
            9000,
        ),
        ({"spec": {"containers": [_c("1")]}, "status": {"containerStatuses": None}}, 1000),
    ],
)
def test_resized_pod_requests_are_the_larger_of_both(pod: dict[str, object], cpu: int) -> None:
    assert sum_pod_requests(pod, started=True) == {"cpu": cpu}


def test_pod_level_resize_requests_are_the_larger_of_both() -> None:
    pod = {
        "spec": {"containers": [{}], "resources": {"requests": {"cpu": "1"}}},
        "status": {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}},
    }
    assert sum_pod_requests(pod, started=True) == {"cpu": 2000}
    assert sum_pod_requests(pod) == {"cpu": 1000}
