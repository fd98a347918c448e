"""Waiting for replication controllers, and for the pods of any controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import TYPO, container, deployment, pod, replication_controller
from e2e.raising import raises
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_replication_controllers(kwait: Kwait) -> None:
    kwait.create(replication_controller("web", 2))

    pods = kwait.wait_for_rc_pods_running("web", 2)
    assert {each["status"]["phase"] for each in pods} == {"Running"}
    assert kwait.wait_for_rc_to_stabilize("web")["status"]["replicas"] == 2


def test_pods_of_any_controller(kwait: Kwait) -> None:
    """The number is the controller's own."""
    kwait.create(
        replication_controller("rc", 2),
        deployment("web", 2),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "work"},
            "spec": {"template": {"spec": pod("p", container())["spec"]}},
        },
    )

    assert kwait.wait_for_controlled_pods("rc/rc")
    for controller, number in (("rc/rc", 2), ("deployment/web", 2), ("job/work", 1)):
        assert len(kwait.wait_for_controlled_pods_running(controller)) == number


def test_pods_that_will_not_run(kwait: Kwait) -> None:
    """The pods exist."""
    kwait.create(replication_controller("web", 1, TYPO))

    kwait.wait_for_rc_to_stabilize("web")
    with raises(WaitFailed, "exactly 1 pod Running: pod web-.*: InvalidImageName"):
        kwait.wait_for_rc_pods_running("web", 1, grace="500ms")
    with raises(WaitFailed, "it is to have 1 pod"):
        kwait.wait_for_rc_pods_running("web", 2, grace="500ms")
