"""Waiting for one container of a pod, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.objects import container, pod
from e2e.raising import raises
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_container_started_running_terminated(kwait: Kwait) -> None:
    containers = (container("server"), container("short", "exit 0"))
    kwait.create(pod("two", *containers, initContainers=[container("prepare", "true")]))

    kwait.wait_for_container_started("two", "server")
    kwait.wait_for_container_running("two", "server")
    ended = kwait.wait_for_container_terminated("two", "short")
    kwait.wait_for_container_terminated("two", "prepare")

    statuses = {each["name"]: each for each in ended["status"]["containerStatuses"]}
    assert statuses["short"]["state"]["terminated"]["exitCode"] == 0
    with raises(WaitFailed, "container short ended with exit code 0"):
        kwait.wait_for_container_running("two", "short")


def test_container_that_fails(kwait: Kwait) -> None:
    """A container that ought to fail, and for which reason."""
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a"}}}]
    kwait.create(pod("broken", container(env=env)))

    broken = kwait.wait_for_container_to_fail("broken", "main", "CreateContainerConfigError")

    assert broken["status"]["phase"] == "Pending"


def test_a_container_that_is_not_there(kwait: Kwait) -> None:
    """Names are checked against the pod; what is there is named."""
    kwait.create(pod("web"))

    with raises(WaitFailed, "the pod has no container mian, it has main"):
        kwait.wait_for_container_running("web", "mian", grace="500ms")
