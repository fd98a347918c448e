from __future__ import annotations

import gc
from typing import Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import Grace, TerminalState
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState, ObjectStateCache

SURE = TerminalState("never", Grace.SHORT)
PERHAPS = TerminalState("perhaps", Grace.LONG)


def state(obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
    phase = obj["phase"]
    terminal = {"sure": SURE, "perhaps": PERHAPS}.get(phase)
    return ObjectState(phase, (phase, "all"), keep=phase == "good", terminal_state=terminal)


def put(tally: ObjectCounter, name: str, phase: str, now: float = 0.0) -> None:
    raw = f'{{"metadata":{{"name":"{name}"}},"phase":"{phase}"}}'.encode()
    tally.put({"metadata": {"name": name, "uid": name}, "phase": phase}, raw, now)


def test_counts_follow_every_change() -> None:
    tally = ObjectCounter(state)

    put(tally, "a", "new")
    put(tally, "b", "new")
    put(tally, "a", "good")
    put(tally, "c", "good")
    tally.drop("c")
    tally.drop("unheard of")

    assert (tally.count("new"), tally.count("good"), tally.count("all")) == (1, 1, 2)
    assert len(tally) == 2
    assert sorted(tally.uids()) == ["a", "b"]
    assert tally.summary() == "1 new, 1 good"


def test_only_what_is_to_be_kept_is_returned_as_it_came() -> None:
    tally = ObjectCounter(state)
    for name in "cab":
        put(tally, name, "good")
    put(tally, "b", "new")

    assert tally.objects(PODS) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "phase": "good"}
        for name in "ac"
    ]


def test_nth_terminal_returns_the_object_that_makes_it_enough() -> None:
    tally = ObjectCounter(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "b", "sure", 2.0)
    put(tally, "c", "sure", 3.0)

    def told(n: int) -> object:
        terminal = tally.nth_terminal(n)
        return terminal and (terminal[0].name, terminal[1], terminal[2])

    assert told(1) == ("b", Grace.SHORT, 2.0)
    assert told(2) == ("b", Grace.SHORT, 3.0)
    assert told(3) == ("a", Grace.LONG, 3.0)
    assert told(4) is None
    assert tally.terminal_count == 3
    assert tally.suspects() == ["a", "b", "c"]


def test_a_terminal_state_lasts_while_its_reason_changes_and_ends_with_a_break() -> None:
    tally = ObjectCounter(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "a", "sure", 5.0)
    put(tally, "a", "perhaps", 6.0)

    first = tally.nth_terminal(1)
    assert first is not None
    assert first[1:] == (Grace.LONG, 1.0)

    put(tally, "a", "new", 7.0)
    assert tally.nth_terminal(1) is None

    put(tally, "a", "sure", 8.0)
    second = tally.nth_terminal(1)
    assert second is not None
    assert second[1:] == (Grace.SHORT, 8.0)


def test_objects_of_equal_status_are_classified_once() -> None:
    classified: list[dict[str, Any]] = []

    def classify(obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        classified.append(obj)
        return ObjectState(obj["status"]["phase"])

    memo = ObjectStateCache(classify)
    terminal = TerminalState("stuck", Grace.LONG)
    first = memo.get_state({"metadata": {"name": "a"}, "status": {"phase": "Running"}}, None, False)
    again = memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, None, False)
    assert first is again
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, terminal, False)
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, None, True)
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Failed"}}, None, False)
    assert len(classified) == 4


def test_state_cache_is_bounded() -> None:
    memo = ObjectStateCache(lambda obj, before: ObjectState("pod"))
    for number in range(3000):
        memo.get_state({"status": {"message": str(number)}}, None, False)
    assert len(memo._states) <= 1024


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    tally = ObjectCounter(lambda pod, _: ObjectState("pod", keep=True))
    tally.put({"metadata": {"name": "a", "uid": "a"}}, b'{"metadata":{"name":"a"}}', 0.0)
    try:
        (gc.enable if enabled else gc.disable)()
        assert [obj["metadata"]["name"] for obj in tally.objects(PODS)] == ["a"]
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
