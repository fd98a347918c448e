from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.scheduler.schedule_one import make_unscheduled_patch
from tests.scheduler.fakes import queued_pod

CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no room",
    "lastProbeTime": None,
    "lastTransitionTime": "then",
    "observedGeneration": 1,
}


def with_conditions(*conditions: dict[str, Any] | None) -> dict[str, Any]:
    return {**queued_pod("a"), "status": {"phase": "Pending", "conditions": list(conditions)}}


def test_first_condition_patch() -> None:
    assert make_unscheduled_patch(queued_pod("a"), "Unschedulable", "no room", "now") == {
        "metadata": {"uid": "uid-a"},
        "status": {"conditions": [{**CONDITION, "lastTransitionTime": "now"}]},
    }


def test_unchanged_condition_is_not_written() -> None:
    known = with_conditions({"type": "Initialized", "status": "True"}, CONDITION)
    assert make_unscheduled_patch(known, "Unschedulable", "no room", "now") is None


@pytest.mark.parametrize("change", [{"message": "other"}, {"reason": "SchedulerError"}])
def test_new_message_keeps_transition_time(change: dict[str, str]) -> None:
    known = with_conditions({**CONDITION, **change})
    patch = make_unscheduled_patch(known, "Unschedulable", "no room", "now")
    assert patch is not None
    assert patch["status"]["conditions"] == [CONDITION]


def test_new_status_has_new_transition_time() -> None:
    known = with_conditions({**CONDITION, "status": "True"})
    patch = make_unscheduled_patch(known, "Unschedulable", "no room", "now")
    assert patch is not None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "now"


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": [{}]}])
def test_empty_status_is_patched(status: Any) -> None:
    patch = make_unscheduled_patch(
        {**queued_pod("a"), "status": status}, "Unschedulable", "no room", "now"
    )
    assert patch is not None


def test_patch_without_generation_has_no_observed_generation() -> None:
    old = queued_pod("a")
    del old["metadata"]["generation"]
    patch = make_unscheduled_patch(old, "Unschedulable", "no room", "now")
    assert patch is not None
    assert "observedGeneration" not in patch["status"]["conditions"][0]
