from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.framework import named_objects
from pytest_kwait.framework.pod import fields
from tests.engine.fake_session import condition, pod


@pytest.mark.parametrize(
    ("obj", "label"),
    [
        (pod("a"), "Running"),
        (pod("a", "Pending"), "Pending"),
        (pod("a", "Pending", waiting=("ContainerCreating", None)), "Pending (ContainerCreating)"),
        (pod("a", "Running", waiting=("CrashLoopBackOff", "")), "Running (CrashLoopBackOff)"),
        (
            pod("a", "Pending", conditions=[condition("PodScheduled", "False", reason="Gated")]),
            "Pending (Gated)",
        ),
        (
            pod("a", "Pending", conditions=[condition("PodScheduled", "False")]),
            "Pending (not scheduled)",
        ),
        (pod("a", "Failed"), "Failed"),
        (pod("a", "Failed", reason="Evicted"), "Failed (Evicted)"),
        ({"metadata": {"name": "a"}}, "Pending"),
        ({"metadata": {"name": "a"}, "status": {"phase": None, "conditions": None}}, "Pending"),
    ],
)
def test_labels(obj: dict[str, Any], label: str) -> None:
    assert fields.phase_label(obj) == label


def test_predicates() -> None:
    ready = pod("a", conditions=[condition("Ready")], metadata={"deletionTimestamp": "now"})

    assert fields.is_ready(ready)
    assert not fields.is_ready(pod("a", conditions=[condition("Ready", "False")]))
    assert not fields.is_ready(pod("a"))
    assert get_condition(ready, "Ready") == {"type": "Ready", "status": "True"}
    assert get_condition(ready, "Initialized") is None
    assert fields.is_terminating(ready)
    assert not fields.is_terminating(pod("a"))
    assert fields.node_of(ready) == "node-1"
    assert fields.node_of({"metadata": {"name": "a"}, "spec": None}) == ""
    assert [fields.is_finished(pod("a", phase)) for phase in fields.PHASES] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_controller() -> None:
    owners = [{"uid": "x"}, {"uid": "y", "controller": True}]

    assert named_objects.controller_uid(pod("a", metadata={"ownerReferences": owners})) == "y"
    assert named_objects.controller_uid(pod("a", metadata={"ownerReferences": owners[:1]})) == ""
    assert named_objects.controller_uid(pod("a", metadata={"ownerReferences": None})) == ""
