from __future__ import annotations

import pytest

from pytest_kwait.scheduler.algorithm.requests import host_ports, ports_conflict, resource_requests

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
def test_a_pod_needs_its_containers_or_the_peak_of_its_start(
    spec: dict[str, object], cpu: int
) -> None:
    assert resource_requests({"spec": spec}) == {"cpu": cpu}


def test_resources_have_their_own_units_and_absent_ones_are_absent() -> None:
    requests = {"memory": "1Ki", "example.com/gpu": "2"}
    spec = {"containers": [{"resources": {"requests": requests}}, {}]}
    assert resource_requests({"spec": spec}) == {"memory": 1024, "example.com/gpu": 2}
    assert resource_requests({"spec": {"containers": [{}]}}) == {}


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
    assert host_ports({"spec": spec}) == {("TCP", "0.0.0.0", 8080), ("UDP", "10.0.0.1", 53)}


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
def test_a_port_conflicts_on_the_same_address_or_on_all(
    used: tuple[str, str, int], conflict: bool
) -> None:
    assert ports_conflict({("TCP", "10.0.0.1", 80)}, {used}) is conflict
