from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_VALID = (
    "use I/N with I from 1 to N, for example 2/4; or auto, or auto/N, to have I read from the "
    "CI system"
)
_COUNTED = ("-p", "no:pytest-split")
"""Without pytest-split tests are counted, whether it is installed here or not."""
_WORKERS = pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])


@pytest.fixture(autouse=True)
def _strict(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --strict-markers\n")


_SUITE = """
import pytest

@pytest.mark.kwait_serial
def test_alone(): pass

@pytest.mark.parametrize("n", range(6))
def test_usual(n): pass

@pytest.mark.kwait_slow
def test_slow_one(): pass

@pytest.mark.kwait_slow
def test_slow_two(): pass

@pytest.mark.kwait_disruptive
def test_disruptive(): pass
"""


def ran(result: pytest.RunResult) -> list[str]:
    """Return the names of the tests that passed, in their order."""
    found = re.findall(r"::(\S+) PASSED|PASSED \S+::(\S+)", result.stdout.str())
    return [alone or shared for alone, shared in found]


def test_shard_runs_slow_tests_first_and_serial_ones_last(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    first = pytester.runpytest("-v", "--kwait-shard=1/2", *_COUNTED)
    first.assert_outcomes(passed=5, deselected=5)
    first.stdout.fnmatch_lines(
        [
            "kwait: shard 1/2 (option --kwait-shard), by count",
            "*collected 10 items / 5 deselected / 5 selected",
            "kwait: shard 1/2 is 5 of 10 tests",
        ]
    )
    second = pytester.runpytest("-v", "--kwait-shard=2/2", *_COUNTED)
    assert ran(first) == [
        "test_slow_one",
        "test_usual[0]",
        "test_usual[1]",
        "test_usual[2]",
        "test_alone",
    ]
    assert len({*ran(first), *ran(second)}) == 10
    for each in (ran(first), ran(second)):
        assert each[0].startswith("test_slow_")
        assert each[-1] in ("test_alone", "test_disruptive")


def test_all_tests_run_without_the_option(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_NODE_INDEX", "2")
    monkeypatch.setenv("CI_NODE_TOTAL", "4")
    pytester.makepyfile(test_it=_SUITE)
    for args in ([], ["--kwait-poll=1s"]):
        result = pytester.runpytest(*args, *_COUNTED)
        result.assert_outcomes(passed=10)
        assert "shard" not in result.stdout.str()


def test_workers_agree_on_the_shard(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=_SUITE)
    alone = pytester.runpytest("-v", "--kwait-shard=1/3", *_COUNTED)
    shared = pytester.runpytest("-v", "-n2", "--kwait-shard=1/3", *_COUNTED)
    shared.assert_outcomes(passed=4)
    assert set(ran(shared)) == set(ran(alone))
    shared.stdout.fnmatch_lines(
        [
            "kwait: shard 1/3 (option --kwait-shard), by count",
            "kwait: shard 1/3 is 4 of 10 tests",
        ]
    )


@pytest.mark.parametrize(("place", "workers"), [("env", ["-n2"]), ("ini", [])])
def test_auto_reads_variables_of_the_ci_system(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: list[str], place: str
) -> None:
    monkeypatch.setenv("BUILDKITE_PARALLEL_JOB", "1")
    monkeypatch.setenv("BUILDKITE_PARALLEL_JOB_COUNT", "5")
    if place == "env":
        monkeypatch.setenv("KWAIT_SHARD", "auto")
    else:
        pytester.makeini("[pytest]\nkwait_shard = auto\naddopts = --strict-markers\n")
    source = {"env": "env KWAIT_SHARD", "ini": "ini kwait_shard"}[place]
    pytester.makepyfile(test_it=_SUITE)
    result = pytester.runpytest(*workers, *_COUNTED)
    assert result.parseoutcomes()["passed"] == 2
    result.stdout.fnmatch_lines(
        [
            "kwait: shard 2/5 (Buildkite: BUILDKITE_PARALLEL_JOB=1, "
            f"BUILDKITE_PARALLEL_JOB_COUNT=5; {source}), by count"
        ]
    )


@_WORKERS
def test_a_shard_without_a_test_passes(pytester: pytest.Pytester, workers: list[str]) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest("--kwait-shard=2/2", *workers, *_COUNTED)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["kwait: shard 2/2 is 0 of 1 tests"])


@_WORKERS
def test_a_suite_without_a_test_does_not(pytester: pytest.Pytester, workers: list[str]) -> None:
    result = pytester.runpytest("--kwait-shard=1/2", *workers, *_COUNTED)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


_MODULE = """
import pytest

def test_one(): pass

class TestPair:
    def test_two(self): pass
    def test_three(self): pass
"""


@pytest.mark.parametrize(
    ("scope", "together"),
    [
        ("module", r"(\w+)\.py"),
        ("class", r"(\w+\.py::(?:TestPair|test_one))"),
    ],
)
def test_tests_of_a_shared_namespace_stay_in_one_shard(
    pytester: pytest.Pytester, scope: str, together: str
) -> None:
    pytester.makepyfile(test_a=_MODULE, test_b=_MODULE, test_c=_MODULE)
    seen: list[str] = []
    for index in (1, 2, 3, 4):
        result = pytester.runpytest(
            "-v", f"--kwait-shard={index}/4", f"--kwait-namespace-scope={scope}", *_COUNTED
        )
        seen += {
            match[1]
            for line in result.outlines
            if "PASSED" in line and (match := re.match(together, line))
        }
    assert len(seen) == len(set(seen)) == (3 if scope == "module" else 6)


def test_each_shard_has_its_own_session_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=_SUITE)
    result = pytester.runpytest("--kwait-shard=1/2", "--kwait-namespace-scope=session", *_COUNTED)
    result.assert_outcomes(passed=5, deselected=5)


def test_namespaces_name_the_shard(
    pytester: pytest.Pytester, fake_cluster: Callable[[], str]
) -> None:
    pytester.makepyfile(
        """
        def test_it(kwait, kwait_cluster):
            assert kwait.namespace.startswith("t-it-")
            made = kwait_cluster.transport.objects[f"/api/v1/namespaces/{kwait.namespace}"]
            assert made["metadata"]["labels"]["pytest-kwait/shard"] == "1-2"
            assert made["metadata"]["annotations"]["pytest-kwait/shard"] == "1/2"
        """
    )
    pytester.runpytest("--kwait-shard=1/2", "--kwait-run-id=r1", *_COUNTED).assert_outcomes(
        passed=1
    )


@_WORKERS
def test_suite_is_split_by_recorded_durations(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytest.importorskip("pytest_split")
    pytester.makepyfile(
        test_it="import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n): pass\n"
    )
    path = pytester.path / "recorded"
    path.write_text(
        json.dumps({f"test_it.py::test_it[{n}]": 10.0 if n == 5 else 1.0 for n in range(6)})
    )
    result = pytester.runpytest(
        "-v",
        "--kwait-shard=1/2",
        "--durations-path",
        str(path),
        "--splitting-algorithm=least_duration",
        *workers,
    )
    assert ran(result) == ["test_it[5]"]
    result.stdout.re_match_lines(
        [
            r"kwait: shard 1/2 \(option --kwait-shard\), least_duration by 6 durations in "
            rf"{re.escape(str(path))} \([0-9a-f]{{8}}\)$"
        ]
    )


def test_header_warns_of_missing_durations(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_split")
    result = pytester.runpytest("--kwait-shard=1/2")
    result.stdout.fnmatch_lines(
        [
            "kwait: shard 1/2 (option --kwait-shard), by count, as there are no durations in "
            f"{pytester.path / '.test_durations'}"
        ]
    )


@_WORKERS
def test_durations_that_cannot_be_read_end_the_run(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytest.importorskip("pytest_split")
    pytester.makepyfile("def test_it(): pass")
    path = pytester.path / ".test_durations"
    path.write_text('{"a": -1}')
    result = pytester.runpytest("--kwait-shard=1/2", *workers)
    _refused(
        result,
        f"durations_path={str(path)!r} (from pytest-split's default) is not valid: it says that a "
        "took -1 seconds; use a file that pytest-split's --store-durations wrote, or remove it",
    )


def test_two_ways_to_split_at_once_are_refused(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_split")
    result = pytester.runpytest("--kwait-shard=1/2", "--splits=3", "--group=1")
    _refused(
        result,
        "shard='1/2' (from option --kwait-shard) is not valid: pytest-split is given --splits=3 "
        "as well; give one of them",
    )


@_WORKERS
@pytest.mark.parametrize("value", ["5/4", "0/4", "-1/4", "half", "2", "auto/0"])
def test_invalid_shard_ends_the_run(
    pytester: pytest.Pytester, workers: list[str], value: str
) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest(f"--kwait-shard={value}", *workers, *_COUNTED)
    _refused(result, f"shard={value!r} (from option --kwait-shard) is not valid: {_VALID}")


@_WORKERS
@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2", "JOB_COMPLETION_INDEX": "0"},
            "shard='auto' (from env KWAIT_SHARD) is not valid: GitLab (CI_NODE_INDEX=1, "
            "CI_NODE_TOTAL=2) and Kubernetes Indexed Job (JOB_COMPLETION_INDEX=0) each say which "
            "job this is; use I/N, for example 2/4",
        ),
        (
            {"CIRCLE_NODE_INDEX": "2"},
            "CIRCLE_NODE_INDEX='2' (from CircleCI, as env KWAIT_SHARD asks for auto) is not valid: "
            "CIRCLE_NODE_TOTAL is not set, so the number of jobs is unknown; use auto/N",
        ),
        (
            {"CIRCLE_NODE_INDEX": "2", "CIRCLE_NODE_TOTAL": "2"},
            "CIRCLE_NODE_INDEX='2' (from CircleCI, as env KWAIT_SHARD asks for auto) is not valid: "
            "CircleCI counts from 0, which makes 1 the last of CIRCLE_NODE_TOTAL=2",
        ),
    ],
    ids=["two systems", "no total", "out of range"],
)
def test_invalid_ci_variables_end_the_run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    workers: list[str],
    environ: dict[str, str],
    message: str,
) -> None:
    for name, value in {**environ, "KWAIT_SHARD": "auto"}.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile("def test_it(): pass")
    _refused(pytester.runpytest(*workers, *_COUNTED), message)


def _refused(result: pytest.RunResult, message: str) -> None:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().splitlines().count(f"ERROR: {message}") == 1
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
