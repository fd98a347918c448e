from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.scheduler.scheduling_failure import make_unscheduled_patch
from tests.scheduler.fakes import pod

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
    return {**pod("a"), "status": {"phase": "Pending", "conditions": list(conditions)}}


def test_the_first_condition() -> None:
    assert make_unscheduled_patch(pod("a"), "Unschedulable", "no room", "now") == {
        "metadata": {"uid": "uid-a"},
        "status": {"conditions": [{**CONDITION, "lastTransitionTime": "now"}]},
    }


def test_the_same_again_is_not_written() -> None:
    known = with_conditions({"type": "Initialized", "status": "True"}, CONDITION)
    assert make_unscheduled_patch(known, "Unschedulable", "no room", "now") is None


@pytest.mark.parametrize("change", [{"message": "other"}, {"reason": "SchedulerError"}])
def test_another_message_keeps_the_time_of_transition(change: dict[str, str]) -> None:
    known = with_conditions({**CONDITION, **change})
    patch = make_unscheduled_patch(known, "Unschedulable", "no room", "now")
    assert patch is not None
    assert patch["status"]["conditions"] == [CONDITION]


def test_another_status_has_a_time_of_its_own() -> None:
    known = with_conditions({**CONDITION, "status": "True"})
    patch = make_unscheduled_patch(known, "Unschedulable", "no room", "now")
    assert patch is not None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "now"


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": [{}]}])
def test_a_status_with_nothing_in_it(status: Any) -> None:
    patch = make_unscheduled_patch(
        {**pod("a"), "status": status}, "Unschedulable", "no room", "now"
    )
    assert patch is not None


def test_servers_that_count_no_generations_are_told_none() -> None:
    old = pod("a")
    del old["metadata"]["generation"]
    patch = make_unscheduled_patch(old, "Unschedulable", "no room", "now")
    assert patch is not None
    assert "observedGeneration" not in patch["status"]["conditions"][0]
