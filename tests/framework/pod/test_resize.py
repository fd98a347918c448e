"""Waiting for a resize: its conditions, sizes, restarts and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import PODS
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from tests.objects import condition, pod

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

NO_ROOM = "Node didn't have enough resource: memory, requested: 900, used: 300, capacity: 1000"


def sized(
    present: str = "8Mi",
    *,
    observed: int = 2,
    restarts: int = 0,
    allocated: str | None = None,
    ready: bool = True,
    **resize: Any,
) -> dict[str, Any]:
    """A pod of generation 2 whose container wants 64Mi.

    Args:
        present: the memory that its status has.
        observed: the generation of its status.
        resize: the type of a condition about its resize, and reason and message of it.
    """
    conditions = [condition("Ready", "True" if ready else "False")]
    for kind, (reason, message) in resize.items():
        facts = {"reason": reason, "message": message, "observedGeneration": observed}
        conditions.append({"type": kind, "status": "True", **facts})
    status = {
        "name": "main",
        "restartCount": restarts,
        "resources": {"requests": {"memory": present}},
        "allocatedResources": {"memory": allocated or present},
    }
    found = pod("web", "Running", memory="64Mi", conditions=conditions, containerStatuses=[status])
    found["metadata"]["generation"] = 2
    found["status"]["observedGeneration"] = observed
    return found


def test_a_resize_that_is_made(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, sized(observed=1))
    session.at(2, session.put, PODS, sized(PodResizeInProgress=("", "")))
    session.at(3, session.put, PODS, sized("64Mi", allocated="8Mi"))
    session.at(4, session.put, PODS, sized("65536Ki", ready=False))
    session.at(5, session.put, PODS, sized("65536Ki"))

    found = kw.wait_for_pod_resized(client, "ci-1", "pod/web")

    assert found["status"]["containerStatuses"][0]["allocatedResources"] == {"memory": "65536Ki"}
    assert session.clock.monotonic() == 5.0


def test_a_restart_that_its_policy_asks_for(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, sized("64Mi"))
    session.at(2, session.put, PODS, sized("64Mi", restarts=1))

    kw.wait_for_pod_resized(client, "ci-1", "web", restart_counts={"main": 1})

    assert session.clock.monotonic() == 2.0


EARLY = [
    (
        sized(PodResizePending=("Infeasible", "Node didn't have enough capacity: memory")),
        {},
        5.0,
        "its resize is pending (infeasible), container main has requests.memory 8Mi instead of "
        "64Mi: Node didn't have enough capacity: memory",
    ),
    (
        sized(PodResizePending=("Deferred", NO_ROOM)),
        {},
        45.0,
        "its resize is pending (deferred), container main has requests.memory 8Mi instead of "
        f"64Mi: {NO_ROOM}",
    ),
    (
        sized(PodResizeInProgress=("Error", "memory limit is below its usage")),
        {},
        45.0,
        "its resize is in progress (error), container main has requests.memory 8Mi instead of "
        "64Mi: memory limit is below its usage",
    ),
    (
        sized("64Mi", restarts=2),
        {"restart_counts": {"main": 1}},
        0.0,
        "container main has 2 restarts instead of 1",
    ),
    (
        sized("64Mi"),
        {"restart_counts": {"other": 1}},
        0.0,
        "the pod has no container other, but main",
    ),
    (pod("web", "Succeeded"), {}, 0.0, "the pod has succeeded"),
]


@pytest.mark.parametrize(("obj", "arguments", "after", "reason"), EARLY)
def test_a_resize_that_will_not_be_made(
    client: ApiClient,
    session: FakeSession,
    obj: Any,
    arguments: dict[str, Any],
    after: float,
    reason: str,
) -> None:
    session.put(PODS, obj)
    session.log_texts = {"web/main": ""}

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_pod_resized(client, "ci-1", "web", **arguments)

    assert caught.value.args == (f"pod ci-1/web can no longer get resized: {reason}",)
    assert session.clock.monotonic() == after


def test_a_deferred_resize_whose_room_comes(client: ApiClient, session: FakeSession) -> None:
    session.put(PODS, sized(PodResizePending=("Deferred", NO_ROOM)))
    session.at(30, session.put, PODS, sized("64Mi"))

    kw.wait_for_pod_resized(client, "ci-1", "web")

    assert session.clock.monotonic() == 30.0


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (
            sized(observed=1, PodResizePending=("Infeasible", "of the former size")),
            "generation 1 is observed, not yet 2",
        ),
        (
            sized(),
            "container main has requests.memory 8Mi instead of 64Mi",
        ),
        (
            sized("64Mi", allocated="8Mi"),
            "container main is allocated memory 8Mi instead of 64Mi",
        ),
        (sized("64Mi", restarts=0), "container main has 0 restarts instead of 1"),
    ],
)
def test_a_resize_that_does_not_come(
    client: ApiClient, session: FakeSession, obj: Any, reason: str
) -> None:
    session.put(PODS, obj)
    session.log_texts = {"web/main": ""}

    with pytest.raises(WaitTimeout) as caught:
        kw.wait_for_pod_resized(client, "ci-1", "web", restart_counts={"main": 1}, timeout="1m")

    assert caught.value.args == (f"pod ci-1/web did not get resized within 1m0s: {reason}",)


def test_resources_of_the_whole_pod(client: ApiClient, session: FakeSession) -> None:
    obj = sized("64Mi")
    obj["spec"]["resources"] = {"limits": {"cpu": "2"}}
    session.put(PODS, obj)
    obj["status"]["resources"] = {"limits": {"cpu": "1"}}
    late = sized("64Mi")
    late["spec"]["resources"] = {"limits": {"cpu": "2"}}
    late["status"]["resources"] = {"limits": {"cpu": "2000m"}}
    session.at(3, session.put, PODS, late)

    kw.wait_for_pod_resized(client, "ci-1", "web")

    assert session.clock.monotonic() == 3.0


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (
            1,
            'restart_counts=1 is not valid: use numbers of restarts by container: {"main": 1}',
        ),
        (
            {"main": -1},
            "restart_counts main=-1 is not valid: use a whole number, 0 or more",
        ),
    ],
)
def test_refused_arguments(client: ApiClient, counts: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_pod_resized(client, "ci-1", "web", restart_counts=counts)

    assert str(caught.value) == message
