from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.engine import pod_fields
from pytest_kwait.framework import named_objects
from tests.objects import condition, job_pod


@pytest.mark.parametrize(
    ("obj", "label"),
    [
        (job_pod("a"), "Running"),
        (job_pod("a", "Pending"), "Pending"),
        (
            job_pod("a", "Pending", waiting=("ContainerCreating", None)),
            "Pending (ContainerCreating)",
        ),
        (job_pod("a", "Running", waiting=("CrashLoopBackOff", "")), "Running (CrashLoopBackOff)"),
        (
            job_pod(
                "a", "Pending", conditions=[condition("PodScheduled", "False", reason="Gated")]
            ),
            "Pending (Gated)",
        ),
        (
            job_pod("a", "Pending", conditions=[condition("PodScheduled", "False")]),
            "Pending (not scheduled)",
        ),
        (job_pod("a", "Failed"), "Failed"),
        (job_pod("a", "Failed", reason="Evicted"), "Failed (Evicted)"),
        ({"metadata": {"name": "a"}}, "Pending"),
        ({"metadata": {"name": "a"}, "status": {"phase": None, "conditions": None}}, "Pending"),
    ],
)
def test_labels(obj: dict[str, Any], label: str) -> None:
    assert pod_fields.phase_label(obj) == label


def test_predicates() -> None:
    ready = job_pod("a", conditions=[condition("Ready")], metadata={"deletionTimestamp": "now"})

    assert pod_fields.is_ready(ready)
    assert not pod_fields.is_ready(job_pod("a", conditions=[condition("Ready", "False")]))
    assert not pod_fields.is_ready(job_pod("a"))
    assert get_condition(ready, "Ready") == {"type": "Ready", "status": "True"}
    assert get_condition(ready, "Initialized") is None
    assert pod_fields.is_terminating(ready)
    assert not pod_fields.is_terminating(job_pod("a"))
    assert pod_fields.node_of(ready) == "node-1"
    assert pod_fields.node_of({"metadata": {"name": "a"}, "spec": None}) == ""
    assert [
        pod_fields.is_finished(job_pod("a", phase))
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    ] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_controller() -> None:
    owners = [{"uid": "x"}, {"uid": "y", "controller": True}]

    assert named_objects.controller_uid(job_pod("a", metadata={"ownerReferences": owners})) == "y"
    assert (
        named_objects.controller_uid(job_pod("a", metadata={"ownerReferences": owners[:1]})) == ""
    )
    assert named_objects.controller_uid(job_pod("a", metadata={"ownerReferences": None})) == ""
