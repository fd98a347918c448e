from __future__ import annotations

import pytest

from pytest_kwait.suite.explore.shrink import Shrunk
from pytest_kwait.suite.explore.verdict import (
    ExploredFailure,
    ExploredRun,
    TestVerdict,
    Verdict,
    describe_cause,
    make_command,
    needs_file,
)

DECISION = "watch-delay@watch pods MODIFIED web 3"


def failed(
    signature: str = "a",
    seed: int = 1,
    shrunk: Shrunk | None = None,
    folder: str = "",
    reports: tuple[object, ...] = ("report",),
    *,
    is_explored: bool = True,
) -> ExploredRun:
    failure = ExploredFailure(signature, f"it failed {signature}", shrunk=shrunk, folder=folder)
    return ExploredRun(
        0, seed, "failed", is_explored=is_explored, failure=failure, reports=list(reports)
    )


def passed(outcome: str = "passed", *, is_explored: bool = True) -> ExploredRun:
    return ExploredRun(0, 1, outcome, is_explored=is_explored, reports=["passed"])


def test_equal_failures_are_counted_together() -> None:
    test = TestVerdict()
    for result in (passed(), failed("a"), failed("b"), failed("b"), passed()):
        test.add(result)
    assert str(test) == "2 of 5 passed"
    assert [(each.failure.signature, each.runs) for each in test.failures] == [("b", 2), ("a", 1)]
    verdict = Verdict(1)
    verdict.tests[0] = test
    assert (verdict.runs, verdict.failed, verdict.distinct) == (5, 3, 2)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (passed(), "1 of 1 passed"),
        (passed("skipped"), "skipped"),
        (passed(is_explored=False), "not explored: it does not use the cluster"),
        (failed(), "0 of 1 passed"),
    ],
)
def test_a_verdict_says_what_happened(result: ExploredRun, text: str) -> None:
    test = TestVerdict()
    test.add(result)
    assert str(test) == text


def test_a_run_that_does_not_reach_the_cluster_is_one_of_many() -> None:
    test = TestVerdict()
    for result in (passed(), failed(is_explored=False), passed("skipped", is_explored=False)):
        test.add(result)
    assert str(test) == "2 of 3 passed"


def test_the_smallest_confirmed_set_stands_for_a_failure() -> None:
    test = TestVerdict()
    results = [
        failed(seed=1, shrunk=Shrunk(["x", "y"], 3, 3), folder="one"),
        failed(seed=2, shrunk=Shrunk([DECISION], 1, 3), folder="two"),
        failed(seed=3, shrunk=Shrunk(None, 1, 3), folder="three"),
        failed(seed=4, shrunk=Shrunk(["z"], 0, 3), folder="four"),
        failed(seed=5, reports=()),
    ]
    # The folders of the others are needed no more.
    assert [test.add(each) for each in results] == ["", "one", "three", "four", ""]
    (failure,) = test.failures
    assert failure.runs == 5
    assert failure.result.seed == 2


@pytest.mark.parametrize(
    ("shrunk", "lines"),
    [
        (None, ["not shrunk: 4 perturbations in this run"]),
        (Shrunk([], 3, 3), ["fails without perturbations (failed in 3 of 3 runs)"]),
        (Shrunk(None, 3, 3), ["all 4 perturbations of the seed (failed in 3 of 3 runs)"]),
        (
            Shrunk(None, 0, 5),
            [
                "not reproduced: 4 perturbations in this run; it failed in 0 of 5 runs with the "
                "same seed"
            ],
        ),
        (
            Shrunk(None, 3, 5),
            [
                "not reproducible: 4 perturbations in this run; it failed in 3 of 5 runs with the "
                "same seed"
            ],
        ),
        (
            Shrunk(None, 1, 2, is_complete=False),
            [
                "not reproducible: 4 perturbations in this run; it failed in 1 of 2 runs with the "
                "same seed; the bounds of shrinking were reached"
            ],
        ),
        (
            Shrunk([DECISION], 4, 5, True, 3, 5),
            [
                "1 perturbation (failed in 4 of 5 runs, all 4 perturbations of the seed in 3 of "
                "5):",
                f"  {DECISION}",
            ],
        ),
        (Shrunk(None, 0, 0), ["not shrunk: 4 perturbations in this run; the time was up"]),
        (Shrunk([DECISION], 2, 3), ["1 perturbation (failed in 2 of 3 runs):", f"  {DECISION}"]),
        (
            Shrunk(["work-order"], 1, 3, is_complete=False),
            [
                "1 perturbation (failed in 1 of 3 runs; the bounds of shrinking were reached):",
                "  work-order",
            ],
        ),
        (
            Shrunk(["work-order"], 0, 0),
            ["1 perturbation (not confirmed: the time was up):", "  work-order"],
        ),
    ],
)
def test_the_cause_says_how_surely(shrunk: Shrunk | None, lines: list[str]) -> None:
    assert describe_cause(ExploredFailure("a", "it failed", applied=4, shrunk=shrunk)) == lines


def test_a_long_list_is_cut() -> None:
    shrunk = Shrunk([f"watch-delay@watch pods ADDED web {n}" for n in range(20)], 3, 3)
    lines = describe_cause(ExploredFailure("a", "it failed", shrunk=shrunk))
    assert len(lines) == 10
    assert lines[-1] == "  and 12 more"


@pytest.mark.parametrize(
    ("level", "only", "command"),
    [
        (
            "usual",
            [DECISION],
            "pytest test_it.py::test_it --kwait-explore 1 --kwait-seed 12 --kwait-perturbations "
            f"'{DECISION}' --kwait-timing=real",
        ),
        (
            "harsh",
            None,
            "pytest test_it.py::test_it --kwait-explore 1 --kwait-seed 12 --kwait-explore-level "
            "harsh --kwait-timing=real",
        ),
        (
            "usual",
            None,
            "pytest test_it.py::test_it --kwait-explore 1 --kwait-seed 12 --kwait-timing=real",
        ),
        ("usual", [], "pytest test_it.py::test_it --kwait-timing=real"),
    ],
)
def test_one_command_reproduces_a_failure(level: str, only: list[str] | None, command: str) -> None:
    options = ["--kwait-timing=real"]
    assert make_command("test_it.py::test_it", 12, level, only, options) == command


def test_a_long_list_is_named_by_its_file() -> None:
    only = [f"watch-delay@watch pods ADDED web {n}" for n in range(20)]
    assert needs_file(only)
    assert not needs_file([DECISION])
    start = "pytest test_it --kwait-explore 1 --kwait-seed 12"
    assert make_command("test_it", 12, "usual", only, file="a/b.txt") == (
        f"{start} --kwait-perturbations=@a/b.txt"
    )
    # Without a folder of artifacts there is no file: the seed has more perturbations.
    assert make_command("test_it", 12, "usual", only) == start
