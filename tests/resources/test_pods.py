from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.resources import pods
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
    assert pods.phase_label(obj) == label


def test_predicates() -> None:
    ready = pod("a", conditions=[condition("Ready")], metadata={"deletionTimestamp": "now"})

    assert pods.is_ready(ready)
    assert not pods.is_ready(pod("a", conditions=[condition("Ready", "False")]))
    assert not pods.is_ready(pod("a"))
    assert pods.condition_of(ready, "Ready") == {"type": "Ready", "status": "True"}
    assert pods.condition_of(ready, "Initialized") is None
    assert pods.is_terminating(ready)
    assert not pods.is_terminating(pod("a"))
    assert pods.node_of(ready) == "node-1"
    assert pods.node_of({"metadata": {"name": "a"}, "spec": None}) == ""
    assert [pods.is_finished(pod("a", phase)) for phase in pods.PHASES] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_controller() -> None:
    owners = [{"uid": "x"}, {"uid": "y", "controller": True}]

    assert pods.controller_uid(pod("a", metadata={"ownerReferences": owners})) == "y"
    assert pods.controller_uid(pod("a", metadata={"ownerReferences": owners[:1]})) == ""
    assert pods.controller_uid(pod("a", metadata={"ownerReferences": None})) == ""
