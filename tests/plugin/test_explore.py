from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from pytest_kwait.plugin.explore import coordinator
from pytest_kwait.suite.explore.plan import Effort, Plan, derive_seed
from pytest_kwait.suite.explore.verdict import ExploredFailure, ExploredRun
from tests.plugin.conftest import FAKE_CLUSTER
from tests.plugin.given_cluster import given

if TYPE_CHECKING:
    from collections.abc import Callable

_WORKERS = pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])

_PERTURBING = """
import hashlib
import pytest_kwait.clusters.exploration as exploration


class Exploration:
    \"\"\"Perturbs an event that a test announces, in a third of all seeds.\"\"\"

    def __init__(self):
        self.running = None
        self.applied = []
        self.starts = []

    def start(self, seed, level, only=None):
        self.running, self.applied = (seed, level, only), []
        self.starts.append(self.running)

    def end(self):
        self.running = None
        return exploration.AppliedPerturbations(tuple(self.applied))

    def perturbs(self, event, name="watch-delay"):
        assert self.running is not None
        seed, _, only = self.running
        decision = f"{name}@{event}"
        if only is not None and name not in only and decision not in only:
            return False
        digest = hashlib.blake2b(f"{seed} {decision}".encode(), digest_size=1).digest()
        if digest[0] % 3:
            return False
        self.applied.append(decision)
        return True


@pytest.fixture
def event(kwait_cluster, kwait_namespace):
    return kwait_cluster.exploration.perturbs
"""


@pytest.fixture
def explored(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> Callable[..., pytest.RunResult]:
    """Explore a suite on a cluster that is a dictionary."""
    place = "return cluster"
    made = FAKE_CLUSTER.replace(place, f"cluster.exploration = Exploration()\n    {place}")
    pytester.makeconftest(made + _PERTURBING)

    def explore(*args: str, own_process: bool = False) -> pytest.RunResult:
        run = pytester.runpytest_subprocess if own_process else pytester.runpytest
        result = run("--kwait-seed=7", *args)
        shown = result.stdout.str() + result.stderr.str()
        assert "INTERNALERROR" not in shown
        return result

    return explore


_RACE = """
def test_race(event):
    # Many perturbations, of which one matters.
    late = [event(f"watch pods ADDED web {number}") for number in range(1, 9)]
    event("request list pods 1", "too-many-requests")
    assert not late[2]
"""


def section(result: pytest.RunResult) -> list[str]:
    """Return the lines of the verdict."""
    lines = result.outlines
    start = next(n for n, line in enumerate(lines) if "kwait: explored" in line)
    end = next(n for n, line in enumerate(lines[start + 1 :]) if line.startswith("="))
    return [line for line in lines[start + 1 : start + 1 + end] if line]


def junit_properties(pytester: pytest.Pytester) -> dict[str | None, str | None]:
    """Return the properties of the first test in `junit.xml`."""
    case = ElementTree.parse(pytester.path / "junit.xml").find(".//testcase")
    assert case is not None
    return {each.get("name"): each.get("value") for each in case.iter("property")}


@_WORKERS
def test_a_race_is_found_shrunk_and_reproduced(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    workers: list[str],
) -> None:
    pytester.makepyfile(test_it=_RACE)
    result = explored("--kwait-explore=20", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    first, test, failure, *rest = section(result)
    assert re.fullmatch(r"seed 7, level usual: 20 runs in \d+m?s, \d+ failed, 1 distinct", first)
    found = re.fullmatch(r"test_it\.py::test_race: (\d+) of 20 passed", test)
    assert found
    number = 20 - int(found[1])
    assert 0 < number < 20
    assert failure == f"  {number} runs: AssertionError: assert not True"
    assert rest[:2] == [
        "    1 perturbation (failed in 3 of 3 runs):",
        "      watch-delay@watch pods ADDED web 3",
    ]
    command = re.fullmatch(
        r"    pytest test_it\.py::test_race --kwait-explore 1 --kwait-seed (\d+) "
        r"--kwait-perturbations '(.+)'",
        rest[2],
    )
    assert command
    result.stdout.fnmatch_lines(
        [
            f"{number} of 20 runs failed, seed {command[1]}:",
            "1 perturbation (failed in 3 of 3 runs):",
            "  watch-delay@watch pods ADDED web 3",
            f"reproduce: {rest[2].strip()}",
            "*assert not late[[]2[]]",
            "test_it.py:5: AssertionError",
            f"FAILED test_it.py::test_race - {number} of 20 runs failed: *",
        ]
    )
    again = pytester.runpytest(
        "test_it.py::test_race",
        *("--kwait-explore", "1", "--kwait-seed", command[1], "--kwait-perturbations", command[2]),
    )
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    assert "    not shrunk: 1 perturbation in this run" in section(again)


@_WORKERS
def test_a_correct_suite_passes(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    workers: list[str],
) -> None:
    pytester.makepyfile(
        test_it="""
        import unittest
        import pytest

        @pytest.mark.parametrize("name", ["a", "b"])
        def test_names(event, name):
            event(f"watch pods ADDED {name} 1")

        @pytest.mark.xfail(strict=True)
        def test_wrong(event):
            assert event is None

        @pytest.mark.skip
        def test_skipped(event): pass

        def test_plain(): pass

        class TestCase(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _event(self, event):
                self.event = event

            def test_method(self):
                self.event("watch pods ADDED web 1")
        """
    )
    result = explored("--kwait-explore=3", "-v", *workers)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=4, xfailed=1, skipped=1)
    first, *tests = section(result)
    assert re.fullmatch(r"seed 7, level usual: \d+ runs in .*, none failed", first)
    assert tests == [
        "test_it.py::test_names[a]: 3 of 3 passed",
        "test_it.py::test_names[b]: 3 of 3 passed",
        "test_it.py::test_wrong: 3 of 3 passed",
        "test_it.py::test_skipped: skipped",
        "test_it.py::test_plain: not explored: it does not use the cluster",
        "test_it.py::TestCase::test_method: 3 of 3 passed",
    ]
    result.stdout.fnmatch_lines(["kwait: exploring 3 runs of each test, seed 7, level usual"])


def test_each_run_is_whole(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pathlib
        import pytest

        @pytest.fixture(scope="session", autouse=True)
        def session():
            made = []
            yield made
            pathlib.Path("made.txt").write_text(" ".join(made))

        @pytest.fixture(scope="module")
        def module(session):
            session.append("module")

        @pytest.fixture
        def function(session, module, kwait_namespace):
            session.append("function")
            yield
            session.append("end")

        seen = set()

        def test_one(function, kwait_namespace, kwait_cluster):
            assert kwait_namespace not in seen
            seen.add(kwait_namespace)
            seed, level, only = kwait_cluster.exploration.running
            assert (level, only) == ("harsh", ["work-order"])

        def test_two(function): pass
        """
    )
    arguments = ("--kwait-explore-level=harsh", "--kwait-perturbations=work-order")
    explored("--kwait-explore=2", *arguments).assert_outcomes(passed=2)
    each = "module function end function end"
    assert (pytester.path / "made.txt").read_text() == f"{each} {each}"


def test_a_namespace_of_several_tests_is_perturbed_from_the_setup_on(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def mine(kwait, kwait_cluster):
            return kwait_cluster.exploration.running

        @pytest.mark.kwait(namespace_scope="module")
        def test_one(mine): assert mine

        @pytest.mark.kwait(namespace_scope="module")
        def test_two(mine): assert mine

        def test_client_alone(kwait_client, kwait_cluster):
            assert kwait_cluster.exploration.running
        """
    )
    explored("--kwait-explore=2").assert_outcomes(passed=3)


@_WORKERS
def test_a_failure_without_perturbations_says_so(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    workers: list[str],
) -> None:
    pytester.makepyfile(test_it="def test_wrong(event): assert 1 == 2")
    result = explored("--kwait-explore=4", *workers)
    result.assert_outcomes(failed=1)
    assert section(result)[1:2] + section(result)[3:] == [
        "test_it.py::test_wrong: 0 of 4 passed",
        "    fails without perturbations (failed in 3 of 3 runs)",
        "    pytest test_it.py::test_wrong",
    ]


def test_distinct_failures_are_told_apart(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import uuid

        def test_race(event):
            if event("watch pods ADDED web 1"):
                raise ValueError(f"no pod {uuid.uuid4()} at {id(event)}")
            if event("watch pods MODIFIED web 1"):
                raise ValueError("no status")
        """
    )
    result = explored("--kwait-explore=20")
    assert "2 distinct" in section(result)[0]
    assert len([line for line in section(result) if " runs: ValueError: no " in line]) == 2
    assert len([line for line in result.outlines if line.startswith("reproduce: ")]) == 2


@pytest.mark.parametrize(("option", "distinct"), [("-x", 1), ("--maxfail=2", 2)])
def test_distinct_failures_end_an_exploration(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    option: str,
    distinct: int,
) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_wrong(event, number): assert False
        """
    )
    result = explored("--kwait-explore=20", option)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert f"{distinct} runs in" in section(result)[0].replace("1 run ", "1 runs ")
    assert section(result)[-1].endswith(": not run")


def test_a_time_ends_an_exploration(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile("def test_it(event): event('watch pods ADDED web 1')")
    result = explored("--kwait-explore=500ms")
    result.assert_outcomes(passed=1)
    assert re.search(r"::test_it: (\d+) of \1 passed", "\n".join(section(result)))


def test_the_cache_has_the_plain_tests(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:anyio -p no:hypothesispytest")
    pytester.makepyfile(test_it=_RACE + "\ndef test_other(event): pass\n")
    explored("--kwait-explore=20").assert_outcomes(failed=1, passed=1)
    again = explored("--kwait-explore=20", "--lf")
    again.assert_outcomes(failed=1)
    assert "test_other" not in "\n".join(section(again))


@_WORKERS
def test_reports_and_artifacts_have_one_failure(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    workers: list[str],
) -> None:
    pytester.makepyfile(test_it=_RACE)
    result = explored(
        "--kwait-explore=20",
        "--kwait-artifacts=art",
        "--kwait-record=never",
        "--junitxml=junit.xml",
        "--kwait-report=report.json",
        *workers,
    )
    command = section(result)[-1].strip()
    folders = [each for each in (pytester.path / "art").iterdir() if each.is_dir()]
    assert len(folders) == 1
    assert (folders[0] / "failure.txt").exists()
    properties = junit_properties(pytester)
    passed = section(result)[1].partition(": ")[2]
    assert properties["kwait_explored"] == passed
    assert properties["kwait_reproduce"] == command
    report = json.loads((pytester.path / "report.json").read_text())
    (test,) = report["tests"]
    (failure,) = test["explored"]["failures"]
    assert failure["command"] == command
    assert failure["perturbations"] == ["watch-delay@watch pods ADDED web 3"]
    assert f"{test['explored']['passed']} of {test['explored']['runs']} passed" == passed
    assert test["outcome"] == "failed"


def test_many_perturbations_are_in_a_file(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_race(event):
            late = [event(f"watch pods MODIFIED {'x' * 40} {number}") for number in range(40)]
            assert sum(late) < 10
        """
    )
    result = explored("--kwait-explore=6", "--kwait-artifacts=art", "--kwait-record=never")
    found = re.search(r"--kwait-perturbations=(@art\S+perturbations\.txt)", result.stdout.str())
    assert found
    command = section(result)[-1].split()
    again = pytester.runpytest(*command[1:])
    assert again.ret == pytest.ExitCode.TESTS_FAILED


def test_each_run_has_the_limit_of_its_test(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import signal
        import pytest

        @pytest.mark.timeout(300, method="signal")
        def test_hangs(event):
            assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 300
            signal.setitimer(signal.ITIMER_REAL, 3000)  # A timer that is not the next run's.
            if event("watch pods ADDED web 1"):
                signal.raise_signal(signal.SIGALRM)  # Its time is up.
        """
    )
    result = explored("--kwait-explore=8")
    result.assert_outcomes(failed=1)
    lines = section(result)
    assert re.fullmatch(
        r"  \d runs?: Timeout (>300\.0s|\(>300\.0s\) from pytest-timeout\.)", lines[2]
    )
    assert "      watch-delay@watch pods ADDED web 1" in lines


def test_an_interrupt_prints_the_verdict_so_far(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        runs = []

        def test_it(event):
            runs.append(1)
            if len(runs) == 3:
                raise KeyboardInterrupt
        """
    )
    result = explored("--kwait-explore=20", own_process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert section(result)[1] == "test_it.py::test_it: 2 of 2 passed"


@pytest.mark.parametrize("end", ["finish", "record_crash"])
def test_the_failure_that_a_worker_shrinks_is_kept(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The worker ends before it has reported the run: by an interrupt, or a crash."""
    monkeypatch.setattr(coordinator, "show_progress", lambda *_: True)
    kept: list[str] = []
    owner = coordinator.Coordinator(pytestconfig, Plan(Effort(20), 7), 0, kept.append)
    name = "test_it.py::test_it"
    owner.join("gw0", [coordinator.CollectedTest(name, ("test_it.py", 0, "test_it"), 0, name)])
    assignment = owner.next("gw0")
    assert assignment is not None
    failure = ExploredFailure("signature", "assert 1 == 2", applied=3)
    owner.shrink("gw0", ExploredRun(0, assignment.seed, "failed", failure=failure))
    assert owner.verdict.runs == 0
    if end == "finish":
        owner.finish()
    else:
        owner.record_crash("gw0")
    (test,) = owner.verdict.tests
    assert (test.failed, test.runs) == (1, 1)
    assert test.failures[0].failure == failure
    owner.finish()
    assert test.runs == 1


def test_an_interrupt_of_shrinking_keeps_the_failure(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        runs = []

        def test_it(event):
            runs.append(1)
            if len(runs) == 2:
                raise KeyboardInterrupt
            assert not runs
        """
    )
    result = explored("--kwait-explore=20", own_process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert section(result)[1:4] == [
        "test_it.py::test_it: 0 of 1 passed",
        "  1 run: AssertionError: assert not [1]",
        "    not shrunk: 0 perturbations in this run",
    ]


@_WORKERS
def test_a_failure_before_the_cluster_is_used_is_a_failed_run(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult], workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="""
        from pathlib import Path

        import pytest

        @pytest.fixture
        def flaky():
            Path("runs").touch()
            runs = Path("runs").read_text()
            Path("runs").write_text(runs + ".")
            if runs in ("..", "...."):
                raise ValueError("flaky")

        def test_it(flaky, event): pass

        def test_plain(): raise ValueError("plain")
        """
    )
    result = explored("--kwait-explore=7", *workers[:1] and ["-n1"])
    result.assert_outcomes(failed=1, errors=1)
    lines = section(result)
    assert lines[1:3] == ["test_it.py::test_it: 5 of 7 passed", "  2 runs: ValueError: flaky"]
    assert lines[5:7] == [
        "test_it.py::test_plain: not explored: it does not use the cluster",
        "  1 run: ValueError: plain",
    ]


def test_a_test_with_a_skipped_subtest_is_explored(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytest.importorskip("_pytest.subtests")
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_it(event, subtests):
            with subtests.test("part"):
                pytest.skip("not here")
        """
    )
    result = explored("--kwait-explore=3")
    assert section(result)[1:] == ["test_it.py::test_it: 3 of 3 passed"]


def test_a_passed_test_with_much_output_is_reported(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_it(event):
            print("x" * 5_000_000)

        @pytest.mark.xfail
        def test_expected(event):
            print("x" * 5_000_000)
            raise ValueError
        """
    )
    result = explored("--kwait-explore=2", "-n1", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, xfailed=1)
    properties = junit_properties(pytester)
    assert properties["kwait_explored"] == "2 of 2 passed"


def test_waits_of_the_first_round_are_recorded_and_no_others(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        from pathlib import Path

        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        def test_it(event):
            assert ACTIVE_WAITS.locate_call is not None
            recorders = sum("Recorder" in type(o).__name__ for o in ACTIVE_WAITS._observers)
            with Path("recorders").open("a") as file:
                file.write(str(recorders))
            raise ValueError

        def test_other(event):
            test_it(event)
        """
    )
    explored("--kwait-explore=2", "--kwait-report=report.json")
    # Each test: a run, one without perturbations, three that confirm it; then the second round.
    assert (pytester.path / "recorders").read_text() == "100001000000"


def test_a_crashed_worker_is_a_failed_run(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import os
        from pathlib import Path

        def test_it(event):
            if not Path("crashed").exists():
                Path("crashed").touch()
                os._exit(1)

        def test_after(event): pass
        """
    )
    result = explored("--kwait-explore=3", "-n1")
    result.assert_outcomes(failed=1, passed=1)
    assert section(result)[1:] == [
        "test_it.py::test_it: 2 of 3 passed",
        "  1 run: the worker crashed while it ran this test",
        "    not shrunk",
        f"    pytest test_it.py::test_it --kwait-explore 1 --kwait-seed {derive_seed(7, 0)}",
        "test_it.py::test_after: 3 of 3 passed",
    ]


def test_an_error_of_a_session_fixture_is_a_failure(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture(scope="session")
        def session():
            yield
            raise ValueError("not tidy")

        def test_it(event, session): pass
        """
    )
    result = explored("--kwait-explore=2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert section(result)[1:3] == [
        "test_it.py::test_it: 2 of 3 passed",
        "  1 run: ValueError: not tidy",
    ]


def test_subtests_are_not_logged_for_each_run(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytest.importorskip("_pytest.subtests")
    pytester.makepyfile(
        test_it="""
        def test_it(event, subtests):
            with subtests.test("part"):
                assert not event("watch pods ADDED web 1")
        """
    )
    result = explored("--kwait-explore=9", "-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "SUBFAIL" not in "".join(result.outlines[:10])
    assert "      watch-delay@watch pods ADDED web 1" in section(result)


@_WORKERS
def test_workers_share_the_runs(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    workers: list[str],
) -> None:
    pytester.makepyfile(
        test_it="""
        from pathlib import Path

        def test_it(event, kwait_cluster):
            (seed, *_), = kwait_cluster.exploration.starts[-1:]
            with open(Path("seeds.txt"), "a") as file:
                file.write(f"{seed}\\n")
        """
    )
    explored("--kwait-explore=12", "--dist=loadfile", *workers).assert_outcomes(passed=1)
    seeds = sorted(map(int, (pytester.path / "seeds.txt").read_text().split()))
    assert seeds == sorted(derive_seed(7, run) for run in range(12))


@_WORKERS
def test_each_shard_explores_its_own_tests(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult], workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(number, event):
            event("watch pods ADDED web 1")
        """
    )
    tests: list[str] = []
    for shard in ("1/2", "2/2"):
        result = explored("--kwait-explore=4", f"--kwait-shard={shard}", *workers)
        assert result.ret == pytest.ExitCode.OK
        found = re.findall(r"test_it\.py::test_it\[\d\]: 4 of 4 passed", result.stdout.str())
        result.assert_outcomes(passed=len(found))
        tests += found
    assert sorted(tests) == [f"test_it.py::test_it[{n}]: 4 of 4 passed" for n in range(6)]


def test_workers_with_other_tests_end_the_run(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import os
        import pytest

        @pytest.mark.parametrize("name", [os.environ["PYTEST_XDIST_WORKER"]])
        def test_it(event, name): pass
        """
    )
    result = explored("--kwait-explore=50", "-n2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert re.search(r"gw\d collected other tests than gw\d", result.stdout.str())


def test_collection_only_runs_nothing(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_it=_RACE)
    result = explored("--kwait-explore=20", "--collect-only")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*<Function test_race>"])


def test_a_collection_error_ends_the_run(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_it=_RACE, test_broken="1 / 0")
    assert explored("--kwait-explore=20").ret == pytest.ExitCode.INTERRUPTED


_EFFORT = (
    "use a number of runs of each test, for example 200, or a duration with its unit, for example "
    "10m"
)


@_WORKERS
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--kwait-explore=often"],
            f"explore='often' (from option --kwait-explore) is not valid: {_EFFORT}",
        ),
        (
            ["--kwait-explore=0"],
            f"explore='0' (from option --kwait-explore) is not valid: {_EFFORT}",
        ),
        (
            ["--kwait-explore=5", "--kwait-seed=x"],
            "seed='x' (from option --kwait-seed) is not valid: use a whole number of at most 18 "
            "digits",
        ),
        (
            ["--kwait-explore=5", "--kwait-explore-level=wild"],
            "explore_level='wild' (from option --kwait-explore-level) is not valid: use gentle, "
            "usual or harsh",
        ),
        (
            ["--kwait-explore=5", "--kwait-cluster=existing"],
            "explore='5' (from option --kwait-explore) is not valid: only the embedded cluster "
            "can be explored; leave it out, or use that one",
        ),
        (
            ["--kwait-seed=5"],
            "seed='5' (from option --kwait-seed) is not valid: nothing is explored; give "
            "--kwait-explore=N as well",
        ),
    ],
    ids=["no number", "no run", "seed", "level", "cluster", "nothing explored"],
)
def test_bad_input_ends_the_run(
    pytester: pytest.Pytester, workers: list[str], args: list[str], message: str
) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest(*args, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().splitlines().count(f"ERROR: {message}") == 1
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_an_unknown_perturbation_ends_the_run(pytester: pytest.Pytester) -> None:
    from pytest_kwait.simulator.protocol.perturbations import PERTURBATIONS

    result = pytester.runpytest("--kwait-explore=5", "--kwait-perturbations=watch-dealy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    names = ", ".join(each.name for each in PERTURBATIONS)
    assert result.stderr.str().splitlines()[-2 if not result.stderr.str().strip() else 0] == (
        "ERROR: perturbations='watch-dealy' (from option --kwait-perturbations) is not valid: use "
        f"NAME or NAME@EVENT; the names are {names}"
    )


def test_a_seed_of_the_ini_file_is_no_request(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkwait_seed = 5\nkwait_perturbations = work-order\n")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    assert "explor" not in result.stdout.str()


def test_each_run_has_a_new_seed(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile("def test_it(): pass")
    seeds = set()
    for _ in range(2):
        result = pytester.runpytest("--kwait-explore=1m")
        found = re.search(
            r"kwait: exploring each test equally often for 1m0s, seed (\d+), level usual",
            result.stdout.str(),
        )
        assert found
        seeds.add(found[1])
    assert len(seeds) == 2


def test_one_line_shows_the_progress_on_a_terminal(
    pytester: pytest.Pytester, explored: Callable[..., pytest.RunResult]
) -> None:
    pytest.importorskip("termios")
    from tests.plugin.test_live_status import DRAWN, on_a_terminal

    pytester.makepyfile(
        test_it="""
        def test_it(event, wait_for_job_complete):
            event("watch pods ADDED web 1")
            try:
                wait_for_job_complete("pi", timeout="700ms")
            except Exception:
                return
        """
    )
    output = on_a_terminal(pytester, "--kwait-explore=4", "--kwait-seed=7")
    assert DRAWN.findall(output) == [
        "kwait: exploring [....................] 0 of 4 runs, 0 failed",
        "kwait: exploring [#####...............] 1 of 4 runs, 0 failed",
        "kwait: exploring [##########..........] 2 of 4 runs, 0 failed",
        "kwait: exploring [###############.....] 3 of 4 runs, 0 failed",
        "kwait: exploring [####################] 4 of 4 runs, 0 failed",
    ]
    # No waits are drawn, and the dot of the test comes once.
    assert DRAWN.sub("", output).count("test_it.py .") == 1


def test_a_log_has_a_line_of_progress_now_and_then(
    pytester: pytest.Pytester,
    explored: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pytest_kwait.plugin.explore import coordinator

    monkeypatch.setattr(coordinator, "_LINE_INTERVAL", 0.0)
    pytester.makepyfile(test_it="def test_it(event): assert event is None")
    with pytest.MonkeyPatch.context() as patched:
        written: list[str] = []
        patched.setattr(coordinator, "write_line", lambda config, line: written.append(line))
        explored("--kwait-explore=2")
    assert written == [
        "exploring: 0 of 2 runs, 0 failed",
        "exploring: 0 of 2 runs, 0 failed, shrinking",
        "exploring: 1 of 2 runs, 1 failed, 1 distinct",
        "exploring: 2 of 2 runs, 2 failed, 1 distinct",
    ]


_OWN_CLUSTERS = """
class Cluster(GivenCluster):
    provider = "embedded"

    def __init__(self):
        super().__init__()
        self._log("made", "")

    def record_history(self, folder):
        self._log("recorded", folder.name)

    def _log(self, what, name):
        with open("clusters.txt", "a") as file:
            file.write(f"{what} {os.environ.get('PYTEST_XDIST_WORKER', 'main')} {name}\\n")
"""


def test_each_worker_has_a_cluster_and_its_journals(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makeconftest(given(_OWN_CLUSTERS))
    pytester.makepyfile(
        """
        import time
        from pathlib import Path

        def test_it(kwait_namespace):
            made = Path("clusters.txt")
            limit = time.monotonic() + 30
            while made.read_text().count("made") < 2 and time.monotonic() < limit:
                time.sleep(0.01)
        """
    )
    result = pytester.runpytest_subprocess(
        "-n2", "--kwait-explore=2", "--kwait-run-id=r1", "--kwait-artifacts=art"
    )
    result.assert_outcomes(passed=1)
    lines = set((pytester.path / "clusters.txt").read_text().splitlines())
    assert lines == {
        "made gw0 ",
        "made gw1 ",
        "recorded gw0 history-r1-gw0",
        "recorded gw1 history-r1-gw1",
    }
