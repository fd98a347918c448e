from __future__ import annotations

import gc
from typing import Any

import pytest

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.object_counter import (
    ObjectCounter,
    ObjectState,
    ObjectStateCache,
    TerminalState,
)
from pytest_kwait.engine.verdicts import Patience

SURE = TerminalState("never", Patience.SHORT)
PERHAPS = TerminalState("perhaps", Patience.LONG)


def state(obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
    phase = obj["phase"]
    doom = {"sure": SURE, "perhaps": PERHAPS}.get(phase)
    return ObjectState(phase, (phase, "all"), keep=phase == "good", doom=doom)


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


def test_doom_is_that_of_the_object_that_makes_it_enough() -> None:
    tally = ObjectCounter(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "b", "sure", 2.0)
    put(tally, "c", "sure", 3.0)

    def told(n: int) -> object:
        doom = tally.nth_terminal(n)
        return doom and (doom[0].name, doom[1], doom[2])

    assert told(1) == ("b", Patience.SHORT, 2.0)
    assert told(2) == ("b", Patience.SHORT, 3.0)
    assert told(3) == ("a", Patience.LONG, 3.0)
    assert told(4) is None
    assert tally.doomed == 3
    assert tally.suspects() == ["a", "b", "c"]


def test_doom_lasts_while_it_changes_its_words_and_ends_with_a_break() -> None:
    tally = ObjectCounter(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "a", "sure", 5.0)
    put(tally, "a", "perhaps", 6.0)

    first = tally.nth_terminal(1)
    assert first is not None
    assert first[1:] == (Patience.LONG, 1.0)

    put(tally, "a", "new", 7.0)
    assert tally.nth_terminal(1) is None

    put(tally, "a", "sure", 8.0)
    second = tally.nth_terminal(1)
    assert second is not None
    assert second[1:] == (Patience.SHORT, 8.0)


def test_objects_that_look_alike_are_judged_once() -> None:
    judged: list[dict[str, Any]] = []

    def judge(obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        judged.append(obj)
        return ObjectState(obj["status"]["phase"])

    memo = ObjectStateCache(judge)
    doom = TerminalState("stuck", Patience.LONG)
    first = memo.get_state({"metadata": {"name": "a"}, "status": {"phase": "Running"}}, None, False)
    again = memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, None, False)
    assert first is again
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, doom, False)
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Running"}}, None, True)
    memo.get_state({"metadata": {"name": "b"}, "status": {"phase": "Failed"}}, None, False)
    assert len(judged) == 4


def test_what_is_remembered_is_bounded() -> None:
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
