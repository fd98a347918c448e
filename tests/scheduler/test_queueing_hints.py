from __future__ import annotations

import copy
from typing import Any

import pytest

from pytest_kwait.scheduler.queueing_hints import (
    has_node_scheduling_change,
    has_pod_scheduling_change,
    is_scaled_down,
)
from tests.scheduler.fakes import node, pod


def changed(obj: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    new = copy.deepcopy(obj)
    *parents, last = path.split(".")
    where = new
    for parent in parents:
        where = where.setdefault(parent, {})
    where[last] = value
    return new


@pytest.mark.parametrize(
    ("path", "value", "matters"),
    [
        ("metadata.labels", {"disk": "ssd"}, True),
        ("metadata.labels", {}, False),
        ("metadata.annotations", {"a": "b"}, True),
        ("metadata.resourceVersion", "9", False),
        ("spec.taints", [{"key": "a", "effect": "NoSchedule"}], True),
        ("spec.taints", None, False),
        ("spec.unschedulable", True, False),
        ("status.allocatable", {"cpu": "5"}, True),
        ("status.capacity", {"cpu": "5"}, False),
        ("status.conditions", [{"type": "Ready", "status": "True"}], True),
        ("status.conditions", None, False),
        ("status.images", [{}], False),
    ],
)
def test_node_changes_that_help_pods(path: str, value: Any, matters: bool) -> None:
    assert bool(has_node_scheduling_change(node("n"), changed(node("n"), path, value))) is matters


def test_uncordoned_node_helps_pods() -> None:
    assert has_node_scheduling_change(node("n", unschedulable=True), node("n"))


def test_heartbeat_helps_no_pod() -> None:
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}
    old = changed(node("n"), "status.conditions", [ready])
    new = changed(node("n"), "status.conditions", [{**ready, "lastHeartbeatTime": "2"}])
    assert not has_node_scheduling_change(old, new)
    assert has_node_scheduling_change(
        old, changed(node("n"), "status.conditions", [{**ready, "status": "False"}])
    )


@pytest.mark.parametrize(
    ("path", "value", "matters"),
    [
        ("metadata.labels", {"app": "web"}, True),
        ("metadata.annotations", {"a": "b"}, True),
        ("metadata.generation", 2, False),
        ("metadata.managedFields", [{}], False),
        ("metadata.finalizers", ["a"], False),
        ("spec.tolerations", [{}], True),
        ("spec.schedulingGates", [], True),
        ("status.conditions", [{}], False),
    ],
)
def test_pod_changes_that_help_itself(path: str, value: Any, matters: bool) -> None:
    assert has_pod_scheduling_change(pod("p"), changed(pod("p"), path, value)) is matters


@pytest.mark.parametrize(
    ("before", "after", "down"),
    [("1", "500m", True), ("1", "2", False), ("1", "1000m", False), ("1", "little", False)],
)
def test_scaling_down(before: str, after: str, down: bool) -> None:
    assert is_scaled_down(pod("p", cpu=before), pod("p", cpu=after)) is down


def test_null_fields_do_not_crash_hints() -> None:
    nothing = {"metadata": None, "spec": None, "status": None}
    assert not has_node_scheduling_change(nothing, nothing)
    assert not has_pod_scheduling_change(nothing, nothing)
