from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.simulator.clock import FAST
from pytest_kwait.simulator.exploration.exploration import (
    MAX_SEED,
    Exploration,
    InvalidExploration,
    make_stable_name,
)
from pytest_kwait.simulator.protocol.perturbations import (
    LEVELS,
    PERTURBATIONS,
    PERTURBATIONS_BY_NAME,
)
from tests.simulator.exploration.seeds import find_seed
from tests.simulator.manual_clock import ManualClock

SEEDS = st.integers(0, MAX_SEED)
NAMES = st.sampled_from([one.name for one in PERTURBATIONS])


def decisions(seed: int, level: str, events: list[tuple[str, str]], **more: Any) -> dict[Any, Any]:
    exploration = Exploration(ManualClock(), seed, level, **more)
    return {(name, event): exploration.decide(name, event) for name, event in events}


@given(
    seed=SEEDS,
    level=st.sampled_from(LEVELS),
    events=st.lists(st.tuples(NAMES, st.text(max_size=12)), unique=True, max_size=20),
    order=st.randoms(use_true_random=False),
)
def test_decisions_depend_on_seed_and_event_and_not_on_their_order(
    seed: int, level: str, events: list[tuple[str, str]], order: Any
) -> None:
    shuffled = [*events]
    order.shuffle(shuffled)
    assert decisions(seed, level, shuffled) == decisions(seed, level, events)


def test_decisions_are_the_same_in_every_process() -> None:
    events = [("watch-delay", f"watch pods 1 MODIFIED web {number}") for number in range(1, 9)]
    made = decisions(7, "usual", events)
    assert [event[-1] for (_, event), size in made.items() if size is not None] == ["1"]
    chance = PERTURBATIONS_BY_NAME["watch-delay"].chance("usual")
    share = (made[events[0]] - chance.shortest) / (chance.longest - chance.shortest)
    assert share == pytest.approx(0.9741, abs=1e-4)


@pytest.mark.parametrize("perturbation", PERTURBATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize("level", LEVELS)
def test_share_and_sizes_of_decisions_are_those_of_the_level(perturbation: Any, level: str) -> None:
    clock = ManualClock(FAST)
    exploration = Exploration(clock, 1, level)
    chance, count = perturbation.chance(level), 3000
    sizes = [exploration.decide(perturbation.name, f"e {number}") for number in range(count)]
    made = [size for size in sizes if size is not None]
    expected = chance.probability * count
    assert len(made) == pytest.approx(expected, abs=4 * math.sqrt(expected))
    scale = FAST if perturbation.scaled else 1.0
    assert all(chance.shortest * scale <= size <= chance.longest * scale for size in made)


def test_other_seeds_make_other_decisions() -> None:
    events = [("work-delay", f"work scheduler web {number}") for number in range(300)]
    made = [decisions(seed, "usual", events) for seed in range(5)]
    assert all(one != other for at, one in enumerate(made) for other in made[:at])


@given(seed=SEEDS, only=st.sets(NAMES, max_size=4))
def test_only_restricts_to_names_and_single_decisions(seed: int, only: set[str]) -> None:
    events = [(one.name, f"e {number}") for one in PERTURBATIONS for number in range(12)]
    every = {event: size for event, size in decisions(seed, "harsh", events).items() if size}
    single = sorted(every)[:3]
    selection = [*only, *(f"{name}@{event}" for name, event in single)]
    made = {
        event: size
        for event, size in decisions(seed, "harsh", events, only=selection).items()
        if size
    }
    assert made == {
        event: size for event, size in every.items() if event[0] in only or event in single
    }


def test_decision_that_the_seed_does_not_make_is_not_made_by_naming_it() -> None:
    event = ("watch-cut", "watch pods 1 ADDED web 1")
    seed = find_seed("usual", [], [event])
    assert decisions(seed, "usual", [event], only=["watch-cut@" + event[1]]) == {event: None}


@pytest.mark.parametrize(
    ("seed", "level", "only", "message"),
    [
        (-1, "usual", None, f"seed: -1 is invalid: use 0 to {MAX_SEED}"),
        (MAX_SEED + 1, "usual", None, f"seed: {MAX_SEED + 1} is invalid: use 0 to {MAX_SEED}"),
        (1, "brutal", None, "level: 'brutal' is invalid: use gentle, usual, harsh"),
        (1, "usual", ["slow"], "only: 'slow' is unknown: use one of work-delay, work-order"),
        (1, "usual", ["slow@e 1"], "only: 'slow' is unknown: use one of work-delay, work-order"),
    ],
)
def test_invalid_explorations_name_the_value(
    seed: int, level: str, only: list[str] | None, message: str
) -> None:
    with pytest.raises(InvalidExploration) as caught:
        Exploration(ManualClock(), seed, level, only)
    assert str(caught.value).startswith(message)


def test_events_are_numbered_by_their_text() -> None:
    exploration = Exploration(ManualClock(), 1, "usual")
    texts = ["watch pods", "watch jobs", "watch pods"]
    assert [exploration.event(text) for text in texts] == [
        "watch pods 1",
        "watch jobs 1",
        "watch pods 2",
    ]


def test_each_client_has_its_own_numbers() -> None:
    exploration = Exploration(ManualClock(), 1, "usual", client="admin/pytest")
    clients = ["admin/pytest", "operator/kopf", "", "operator/kopf"]
    texts = [exploration.add_client("request get pods web", client) for client in clients]
    assert [exploration.event(text) for text in texts] == [
        "request get pods web 1",
        "request get pods web by operator/kopf 1",
        "request get pods web 2",
        "request get pods web by operator/kopf 2",
    ]


def test_events_of_a_namespace_that_was_deleted_before_are_left_alone() -> None:
    exploration = Exploration(ManualClock(), 1, "harsh", ended=["t-old"])
    event = exploration.event("work job-controller pi", "t-old", "pi")
    decisions = [exploration.decide("work-order", event) for _ in range(100)]
    assert (event, decisions, exploration.applied) == ("", [None] * 100, [])
    assert exploration.event("work job-controller pi", "t-new", "pi") == "work job-controller pi 1"


def test_a_watch_that_goes_on_after_an_end_of_the_exploration_is_the_same_one() -> None:
    exploration = Exploration(ManualClock(), 1, "usual")
    first = exploration.start_watch("watch pods")
    second = exploration.start_watch("watch pods")
    assert (first, second) == (("watch pods 1",) * 2, ("watch pods 2",) * 2)
    exploration.end_watch("watch pods", "watch pods 2")
    exploration.end_watch("watch pods", "watch pods 1")
    assert [exploration.start_watch(f"watch {kind}") for kind in ("jobs", *["pods"] * 3)] == [
        ("watch jobs 1", "watch jobs 1"),
        ("watch pods 2", "watch pods 2 RESTARTED 1"),
        ("watch pods 1", "watch pods 1 RESTARTED 1"),
        ("watch pods 3", "watch pods 3"),
    ]


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("web", "web"),
        ("web-0", "web-0"),
        ("my-proxy-v2", "my-proxy-v2"),
        ("web-x7k2p", "web-*"),
        ("web-6d4cf56db6-x7k2p", "web-*-*"),
        ("data-web-0", "data-web-0"),
        ("nightly-29384756-x7k2p", "nightly-*-*"),
        ("claim-3f2a91bc", "claim-*"),
        ("pvc-0f8fad5b-d9cb-469f-a165-70867728950e", "pvc-*"),
        ("web.18e9f2df4b1c7def", "web.18e9f2df4b1c7def"),
    ],
)
def test_stable_names_have_no_generated_parts(name: str, stable: str) -> None:
    assert make_stable_name(name) == stable


def test_decisions_beyond_the_recorded_ones_are_counted() -> None:
    exploration = Exploration(ManualClock(), 1, "harsh")
    made = 0
    for number in range(9000):
        made += exploration.decide("work-order", f"e {number}") is not None
    report = exploration.report()
    applied = report["applied"]
    assert isinstance(applied, list)
    assert (len(applied), report["dropped"]) == (2000, made - 2000)
    assert applied[0].keys() == {"name", "event", "size"}


def test_end_releases_what_is_held_in_its_order_and_decides_nothing_more() -> None:
    clock, released = ManualClock(), []
    exploration = Exploration(clock, 1, "harsh")
    for number in (3, 1, 2):
        exploration.hold(number, lambda number=number: released.append(number))  # type: ignore[misc]
    exploration.hold(9, lambda: released.append(9)).cancel()
    clock.advance(1.5)
    assert released == [1]
    exploration.end()
    assert released == [1]
    clock.advance(0)
    assert released == [1, 3, 2]
    exploration.hold(5, lambda: released.append(5))
    clock.advance(0)
    assert released == [1, 3, 2, 5]
    events = [exploration.event("e") for _ in range(50)]
    assert all(exploration.decide("work-order", event) is None for event in events)


def test_pause_ends_with_the_exploration() -> None:
    clock = ManualClock()
    exploration = Exploration(clock, 1, "harsh")

    async def test() -> bool:
        paused = asyncio.create_task(exploration.pause(60))
        await asyncio.sleep(0)  # noqa: TID251 - a turn of the loop, no time
        was_done = paused.done()
        exploration.end()
        clock.advance(0)
        await paused
        return was_done

    assert asyncio.run(test()) is False


@pytest.mark.parametrize(("level", "most"), [("gentle", 1), ("usual", 1), ("harsh", 3)])
def test_refusals_in_a_row_are_limited(level: str, most: int) -> None:
    name = "watch-expired"
    events = [f"e {number}" for number in range(1, most + 2)]
    if level == "gentle":
        seed = find_seed(level, [(name, events[0])])
    else:
        seed = find_seed(level, [(name, event) for event in events])
    exploration = Exploration(ManualClock(), seed, level)
    refused = [exploration.decide_refusal(name, event, "s") for event in events]
    assert refused == [*[True] * most, False]
    exploration.accept("s")
    assert exploration.decide_refusal(name, events[0], "s")


def test_levels_grow_and_sizes_are_ordered() -> None:
    for perturbation in PERTURBATIONS:
        probabilities = [chance.probability for chance in perturbation.chances]
        assert probabilities == sorted(probabilities), perturbation.name
        assert all(
            0 <= chance.probability <= 1 and 0 < chance.shortest <= chance.longest
            for chance in perturbation.chances
        ), perturbation.name
    assert len(PERTURBATIONS_BY_NAME) == len(PERTURBATIONS)


def test_gentle_delays_are_tens_of_milliseconds() -> None:
    for perturbation in PERTURBATIONS:
        chance = perturbation.chance("gentle")
        if perturbation.has_size and chance.probability:
            longest = chance.longest * (FAST if perturbation.scaled else 1.0)
            assert longest <= (0.2 if perturbation.scaled else 0.05), perturbation.name
