"""Verbs that wait: create, scale, restart and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import (
    TYPO,
    container,
    daemon_set,
    deployment,
    pod,
    replica_set,
    replication_controller,
    stateful_set,
)
from e2e.raising import raises, times_out
from pytest_kwait import ApiError, InvalidArgument, WaitFailed, scale

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def uids(pods: list[dict[str, Any]]) -> set[str]:
    return {each["metadata"]["uid"] for each in pods}


def test_scale_up_and_down(kwait: Kwait) -> None:
    """Afterwards exactly that many pods exist."""
    kwait.create_and_wait(deployment("web", 1))

    assert kwait.scale("deployment/web", 3)["status"]["readyReplicas"] == 3
    assert len(kwait.list("pods")) == 3
    kwait.scale("deployment/web", 1)
    assert len(kwait.list("pods")) == 1
    assert "readyReplicas" not in kwait.scale("deployment/web", 0)["status"]
    assert kwait.list("pods") == []


@pytest.mark.parametrize("made", [replica_set("web"), replication_controller("web")])
def test_scale_of_every_scalable_kind(kwait: Kwait, made: dict[str, Any]) -> None:
    """As a function, over any client of the official library."""
    kwait.create(made)

    found = scale(kwait.client, kwait.namespace, f"{made['kind']}/web", 2, timeout="4m")

    assert found["kind"] == made["kind"]
    assert found["status"]["readyReplicas"] == 2


def test_stateful_sets_are_scaled_and_restarted(kwait: Kwait) -> None:
    kwait.create_and_wait(stateful_set("web", 1))
    assert kwait.scale("statefulset/web", 2)["status"]["readyReplicas"] == 2

    before = kwait.list("pods")
    kwait.restart("statefulset/web")

    assert not uids(before) & uids(kwait.list("pods"))


def test_daemon_sets_are_restarted(kwait: Kwait) -> None:
    kwait.create_and_wait(daemon_set("agent"))
    before = kwait.list("pods")

    kwait.restart("daemonset/agent")

    assert not uids(before) & uids(kwait.list("pods"))


def test_restart_deployment(kwait: Kwait) -> None:
    """All pods are replaced, and the workload is rolled out again when the call returns."""
    slow = deployment("web", 2)
    slow["spec"]["template"]["spec"] |= {
        "terminationGracePeriodSeconds": 3,
        "containers": [container(script="trap '' TERM; while true; do sleep 1; done")],
    }
    kwait.create_and_wait(slow)
    before = kwait.list("pods")

    kwait.restart("deployment/web")

    after = kwait.list("pods")
    assert len(after) == 2
    assert not uids(before) & uids(after), "pods that take their time to end are gone as well"


def test_scale_with_failing_pods(kwait: Kwait) -> None:
    kwait.create(replication_controller("web", 0, TYPO))

    with raises(WaitFailed, "exactly 1 pod, Running and ready: pod web-.*: InvalidImageName"):
        kwait.scale("rc/web", 1, grace="500ms")


def test_delete_and_wait(kwait: Kwait) -> None:
    """An object that owns pods is gone only when they are."""
    kwait.create_and_wait(deployment("web", 2))

    kwait.delete_and_wait("deployment/web")

    assert kwait.list("pods") == []
    with raises(ApiError, "not found"):
        kwait.delete_and_wait("deployment/web")


def test_blocked_deletion_names_its_finalizers(kwait: Kwait) -> None:
    held = {"name": "held", "finalizers": ["example.com/hold"]}
    kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})

    times_out(
        "within LIMIT: being deleted, held by example.com/hold",
        kwait.delete_and_wait,
        "configmap/held",
    )

    # A manifest with finalizers updates the object being deleted.
    let_go = {"name": "held", "finalizers": []}
    kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": let_go})
    kwait.wait_for("configmap/held", "delete")


def test_create_and_wait(kwait: Kwait) -> None:
    """Until each is ready by the rule of its kind, or meets a condition."""
    (started,) = kwait.create_and_wait(pod("a"))
    assert started["status"]["phase"] == "Running"

    done = "jsonpath={.status.phase}=Succeeded"
    (finished,) = kwait.create_and_wait(pod("b", container(script="true")), condition=done)
    assert finished["status"]["phase"] == "Succeeded"
    with raises(InvalidArgument, "say what is awaited of a ConfigMap"):
        kwait.create_and_wait({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
