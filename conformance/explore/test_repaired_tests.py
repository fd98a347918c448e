"""The tests of `planted_tests` without their races: each awaits what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.explore.workloads import (
    BUSY,
    PROBED,
    SERVICE,
    is_ready,
    second_connection,
)
from e2e.objects import container, deployment, job, pod
from pytest_kwait.wait import poll_immediate

if TYPE_CHECKING:
    from typing import Any

    from pytest_kwait import Kwait


def test_status_after_a_change(kwait: Kwait) -> None:
    """Awaits a status that has observed the change."""
    kwait.create_and_wait(deployment("web", 1, BUSY))
    kwait.patch("deployment/web", {"spec": {"replicas": 2}})
    found = kwait.wait_for_deployment_complete("web")
    assert found["status"]["readyReplicas"] == 2


def test_readiness_of_a_running_pod(kwait: Kwait) -> None:
    """Awaits Ready."""
    kwait.create(pod("web", PROBED))
    assert is_ready(kwait.wait_for_pod_ready("web"))


def test_number_of_events(kwait: Kwait) -> None:
    """Awaits one event by its reason."""
    kwait.create(pod("web", BUSY))
    kwait.wait_for_event("Started", about="pod/web")


def test_same_name_again(kwait: Kwait) -> None:
    """Awaits the end of the deletion."""
    kwait.create(job("pi", BUSY))
    kwait.wait_for_job_ready("pi", 1)
    kwait.delete_and_wait("job/pi", propagation="Foreground")
    kwait.create(job("pi", BUSY))


def test_endpoints_of_a_ready_pod(kwait: Kwait) -> None:
    """Awaits that the endpoint is ready: it is there before, once the pod has its address."""

    def states(slices: list[dict[str, Any]]) -> list[bool]:
        return [
            endpoint["conditions"]["ready"]
            for found in slices
            for endpoint in found.get("endpoints") or ()
        ]

    kwait.create(SERVICE, pod("web", PROBED, labels={"app": "web"}))
    found = kwait.wait_for_endpoint_slices("web", lambda slices: states(slices) == [True])
    assert states(found) == [True]


def test_update_of_an_earlier_state(kwait: Kwait) -> None:
    """Reads again and writes again after a conflict, as `kwait.update` does."""

    def pause(found: dict[str, Any]) -> None:
        found["spec"]["paused"] = True

    kwait.create(deployment("web", 1, BUSY))
    kwait.wait_for_pods_running_ready(1)
    kwait.create_and_wait(pod("client", BUSY))
    assert kwait.update("deployment/web", pause)["spec"]["paused"]


def test_cache_after_a_wait(kwait: Kwait) -> None:
    """Awaits the state in the cache that is read."""
    with second_connection(kwait, "pods") as seen:
        kwait.create(pod("web", BUSY))
        poll_immediate(
            0.01, 60, lambda: [each["status"]["phase"] for each in seen.list()] == ["Running"]
        )


def test_order_of_two_pods(kwait: Kwait) -> None:
    """Awaits both, in whatever order they come."""
    kwait.create(pod("database", BUSY), pod("web", BUSY))
    kwait.wait_for(["pod/database", "pod/web"], "condition=Ready")


def test_address_of_a_scheduled_pod(kwait: Kwait) -> None:
    """Awaits the address itself."""
    kwait.create(pod("web", BUSY))
    found = kwait.wait_for("pod/web", "jsonpath={.status.podIP}")
    assert found["status"]["podIP"]


def test_passing_state(kwait: Kwait) -> None:
    """Awaits the end alone, which stays."""
    kwait.create(pod("hello", container(command=["sleep", "0.1"])))
    kwait.wait_for_pod_success("hello")
