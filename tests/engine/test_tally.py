from __future__ import annotations

from typing import Any

from pytest_kwait.api.resource import PODS
from pytest_kwait.engine.tally import Doom, State, Tally
from pytest_kwait.engine.verdicts import Patience

SURE = Doom("never", Patience.SHORT)
PERHAPS = Doom("perhaps", Patience.LONG)


def state(obj: dict[str, Any], before: Doom | None) -> State:
    phase = obj["phase"]
    doom = {"sure": SURE, "perhaps": PERHAPS}.get(phase)
    return State(phase, (phase, "all"), keep=phase == "good", doom=doom)


def put(tally: Tally, name: str, phase: str, now: float = 0.0) -> None:
    raw = f'{{"metadata":{{"name":"{name}"}},"phase":"{phase}"}}'.encode()
    tally.put({"metadata": {"name": name, "uid": name}, "phase": phase}, raw, now)


def test_counts_follow_every_change() -> None:
    tally = Tally(state)

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
    tally = Tally(state)
    for name in "cab":
        put(tally, name, "good")
    put(tally, "b", "new")

    assert tally.objects(PODS) == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "phase": "good"}
        for name in "ac"
    ]


def test_doom_is_that_of_the_object_that_makes_it_enough() -> None:
    tally = Tally(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "b", "sure", 2.0)
    put(tally, "c", "sure", 3.0)

    def told(n: int) -> object:
        doom = tally.nth_doomed(n)
        return doom and (doom[0].name, doom[1], doom[2])

    assert told(1) == ("b", Patience.SHORT, 2.0)
    assert told(2) == ("b", Patience.SHORT, 3.0)
    assert told(3) == ("a", Patience.LONG, 3.0)
    assert told(4) is None
    assert tally.doomed == 3
    assert tally.suspects() == ["a", "b", "c"]


def test_doom_lasts_while_it_changes_its_words_and_ends_with_a_break() -> None:
    tally = Tally(state)
    put(tally, "a", "perhaps", 1.0)
    put(tally, "a", "sure", 5.0)
    put(tally, "a", "perhaps", 6.0)

    first = tally.nth_doomed(1)
    assert first is not None
    assert first[1:] == (Patience.LONG, 1.0)

    put(tally, "a", "new", 7.0)
    assert tally.nth_doomed(1) is None

    put(tally, "a", "sure", 8.0)
    second = tally.nth_doomed(1)
    assert second is not None
    assert second[1:] == (Patience.SHORT, 8.0)
