from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.perturbations import PERTURBATIONS
from pytest_kwait.suite.explore.plan import (
    Effort,
    Plan,
    derive_seed,
    parse_effort,
    parse_perturbations,
    parse_seed,
)
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ", ".join(each.name for each in PERTURBATIONS)
ANY = PERTURBATIONS[0].name


@pytest.mark.parametrize(
    ("text", "effort"),
    [
        ("200", Effort(200)),
        (1, Effort(1)),
        ("10m", Effort(0, 600.0)),
        ("1m30s", Effort(0, 90.0)),
        ("500ms", Effort(0, 0.5)),
        (Effort(3), Effort(3)),
    ],
)
def test_an_effort_is_a_number_or_a_duration(text: object, effort: Effort) -> None:
    assert parse_effort(text, "explore") == effort


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "often", "0s", "-3m", "", "10 m x", "1e3"])
def test_an_invalid_effort_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_effort(text, "explore", "env KWAIT_EXPLORE")
    assert str(caught.value) == (
        f"explore={text!r} (from env KWAIT_EXPLORE) is not valid: use a number of runs of each "
        "test, for example 200, or a duration with its unit, for example 10m"
    )


@pytest.mark.parametrize(
    ("effort", "text"),
    [
        (Effort(1), "1 run of each test"),
        (Effort(200), "200 runs of each test"),
        (Effort(0, 600.0), "each test equally often for 10m0s"),
    ],
)
def test_an_effort_says_how_much_is_run(effort: Effort, text: str) -> None:
    assert str(effort) == text


def test_seeds_are_whole_numbers() -> None:
    assert parse_seed("0012", "seed") == 12
    for value in ("-1", "x", "1.0", "9" * 19):
        with pytest.raises(InvalidArgument) as caught:
            parse_seed(value, "seed", "option --kwait-seed")
        assert str(caught.value) == (
            f"seed={value!r} (from option --kwait-seed) is not valid: use a whole number of at "
            "most 18 digits"
        )


def test_perturbations_are_names_and_decisions() -> None:
    text = f" {ANY},{ANY}@watch pods MODIFIED web 3, {ANY}"
    assert parse_perturbations(text, "perturbations") == (ANY, f"{ANY}@watch pods MODIFIED web 3")


def test_perturbations_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text(f"# found tonight\n{ANY}@request list pods, all 1\n\n")
    expected = (f"{ANY}@request list pods, all 1",)
    assert parse_perturbations(f"@{file}", "perturbations") == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no-such", f"='no-such' is not valid: use NAME or NAME@EVENT; the names are {NAMES}"),
        (f"{ANY}@", f"='{ANY}@' is not valid: use NAME or NAME@EVENT; the names are {NAMES}"),
        (" , ", f"=' , ' is not valid: give at least one; the names are {NAMES}"),
        (
            "@/no/such/file",
            "='@/no/such/file' is not valid: use a file with a decision a line (No such file or "
            "directory)",
        ),
    ],
)
def test_invalid_perturbations_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_perturbations(text, "perturbations")
    assert str(caught.value) == f"perturbations{problem}"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "list.bin"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument, match="it is no text"):
        parse_perturbations(f"@{file}", "perturbations")


def test_derived_seeds_differ_and_stay() -> None:
    seeds = [derive_seed(7, run) for run in range(200)]
    assert seeds == [derive_seed(7, run) for run in range(200)]
    assert len(set(seeds)) == 200
    assert derive_seed(8, 0) != derive_seed(7, 0)
    assert max(seeds) < 10**9


def runs_of(plan: Plan) -> list[tuple[int, list[int]]]:
    found = []
    while (assignment := plan.next()) is not None:
        found.append((assignment.run, assignment.tests))
    return found


def test_all_tests_run_equally_often_module_by_module() -> None:
    plan = Plan(Effort(2), 7)
    plan.open([[0, 1], [2]])
    assert plan.total() == 6
    assert runs_of(plan) == [(0, [0, 1]), (0, [2]), (1, [0, 1]), (1, [2])]
    assert plan.is_over


def test_the_runs_of_a_round_have_one_seed() -> None:
    plan = Plan(Effort(3), 7)
    plan.open([[0], [1]])
    seeds = [found.seed for _ in range(6) if (found := plan.next()) is not None]
    assert seeds == [derive_seed(7, run) for run in (0, 0, 1, 1, 2, 2)]


def test_the_seed_of_one_run_is_the_given_one() -> None:
    plan = Plan(Effort(1), 1234)
    plan.open([[0]])
    found = plan.next()
    assert found is not None
    assert found.seed == 1234


def test_the_units_are_those_of_the_first_worker() -> None:
    plan = Plan(Effort(1), 7)
    plan.open([[0]])
    plan.open([[0], [1]])
    assert runs_of(plan) == [(0, [0])]


def test_a_time_ends_the_plan() -> None:
    clock = FakeClock()
    plan = Plan(Effort(0, 60.0), 7, clock)
    plan.open([[0]])
    clock.advance(20)
    found = plan.next()
    assert found is not None
    assert found.left == pytest.approx(40)
    assert plan.total() is None
    clock.advance(40)
    assert plan.next() is None
    assert plan.is_stopped


def test_tests_with_nothing_to_explore_run_once() -> None:
    plan = Plan(Effort(2), 7)
    plan.open([[0, 1], [2]])
    assert plan.next() is not None
    plan.leave_out(0)
    plan.leave_out(2)
    assert runs_of(plan) == [(1, [1])]
    assert plan.total() == 4


def test_a_plan_without_tests_is_over() -> None:
    plan = Plan(Effort(0, 60.0), 7)
    plan.open([[0]])
    plan.leave_out(0)
    assert plan.next() is None
    empty = Plan(Effort(3), 7)
    empty.open([])
    assert empty.is_over


def test_what_a_worker_left_is_given_out_again() -> None:
    plan = Plan(Effort(1), 7)
    plan.open([[0, 1]])
    found = plan.next()
    assert found is not None
    assert plan.is_over
    plan.give_back(found._replace(tests=[1]))
    plan.give_back(found._replace(tests=[]))
    assert runs_of(plan) == [(0, [1])]


def test_a_stopped_plan_gives_out_nothing() -> None:
    plan = Plan(Effort(2), 7)
    plan.open([[0]])
    plan.stop()
    assert plan.next() is None
    assert plan.is_stopped
