"""Waiting for many pods: a number, all selected ones, or almost all of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import container, pod, replica_set
from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


WEB = {"app": "web"}


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def test_number_of_pods(kwait: Kwait) -> None:
    """Exactly so many, 0 included."""
    assert kwait.wait_for_number_of_pods(0) == []
    kwait.create(pod("c", container(script="true")))
    kwait.wait_for_pod_success("c")
    kwait.create(pod("a", labels=WEB), pod("b", labels=WEB))

    assert names(kwait.wait_for_number_of_pods(3)) == ["a", "b", "c"]
    assert names(kwait.wait_for_pods_running(2)) == ["a", "b"]
    assert names(kwait.wait_for_number_of_pods(2, selector=WEB)) == ["a", "b"]
    times_out(
        r"did not come to exactly 1 pod within LIMIT: 3, 2 more", kwait.wait_for_number_of_pods, 1
    )


def test_pods_by_label(kwait: Kwait) -> None:
    kwait.create(pod("a", labels=WEB), pod("b", labels=WEB), pod("stranger"))

    assert set(names(kwait.wait_for_pods_with_label("app=web"))) <= {"a", "b"}
    assert names(kwait.wait_for_pods_with_label_scheduled(WEB)) == ["a", "b"]
    assert names(kwait.wait_for_pods_with_label_running(WEB, 2)) == ["a", "b"]
    assert names(kwait.wait_for_pods_with_label_running_ready(WEB, 2)) == ["a", "b"]


def test_one_failing_pod_of_many(kwait: Kwait) -> None:
    kwait.create(pod("a", labels=WEB), pod("b", container(image="Busybox:not a tag"), labels=WEB))

    with raises(WaitFailed, "pod b: InvalidImageName"):
        kwait.wait_for_pods_with_label_running_ready(WEB, 2, timeout="4m", grace="2s")


def test_running_and_ready_except_a_few(kwait: Kwait) -> None:
    """Succeeded pods do not matter; what is hopeless may be allowed for."""
    kwait.create(pod("over", container(script="true")))
    kwait.wait_for_pod_success("over")
    kwait.create(pod("a"), pod("b"), pod("c", container(image="Busybox:not a tag")))

    assert names(kwait.wait_for_pods_running_ready(2, 1, timeout="4m")) == ["a", "b"]
    with raises(WaitFailed, "pod c: InvalidImageName"):
        kwait.wait_for_pods_running_ready(2, timeout="4m", grace="2s")


def test_almost_all_pods(kwait: Kwait) -> None:
    """Controllers must have the replicas they are to have."""
    kwait.create(replica_set("web", 2), replica_set("api", 1))

    ready = kwait.wait_for_almost_all_pods_ready(3, timeout="4m")

    assert len(ready) == 3


def test_scheduling_gates(kwait: Kwait) -> None:
    gates = ["kwait.example/first", "kwait.example/second"]
    kwait.create(
        pod("gated", schedulingGates=[{"name": gate} for gate in gates]),
        pod("free"),
    )

    assert names(kwait.wait_for_pods_scheduling_gated(1)) == ["gated"]
    assert names(kwait.wait_for_pods_with_scheduling_gates(1, gates)) == ["gated"]
    assert names(kwait.wait_for_pods_with_scheduling_gates(1, [])) == ["free"]
    times_out(r"behind scheduling gate kwait\.example/first", kwait.wait_for_pod_scheduled, "gated")


@pytest.mark.kwait_manifests("web.yaml")
@pytest.mark.wait_for_pod_ready("web")
@pytest.mark.wait_for_pods_running(1)
def test_pod_set_markers(kwait: Kwait) -> None:
    """As preconditions."""
    assert kwait.get("pod/web")["status"]["phase"] == "Running"
