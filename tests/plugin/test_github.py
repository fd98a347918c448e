from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.plugin.outputs import hide_random_parts, list_lines

if TYPE_CHECKING:
    from pathlib import Path

FakeCluster = Callable[[], str]

_SUITE = """
import pytest

def test_late(wait_for_job_complete):
    wait_for_job_complete("pi", timeout="100ms")

def test_plain():
    assert 1 == 2, "50%"

@pytest.fixture
def broken(): raise ValueError("no")

def test_setup(broken): pass

def test_good(kwait): pass
"""


@pytest.fixture
def step_summary(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> Path:
    path = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    monkeypatch.setenv("GITHUB_RUN_ID", "5")
    return path


def told(result: pytest.RunResult) -> list[str]:
    return [line for line in list_lines(result) if line.startswith("::")]


def test_failures_are_annotated_and_summed_up(
    pytester: pytest.Pytester, step_summary: Path
) -> None:
    step_summary.write_text("before\n")
    pytester.makepyfile(test_it=_SUITE)
    result = pytester.runpytest("--kwait-run-id=r1", "--kwait-artifacts=art")
    result.assert_outcomes(failed=2, errors=1, passed=1)
    late = "job t-late-########/pi did not become complete within 100ms: not found yet"
    assert told(result) == [
        f"::error file=test_it.py,line=4,title=test_it.py%3A%3Atest_late::{late}",
        "::error file=test_it.py,line=7,title=test_it.py%3A%3Atest_plain::AssertionError: 50%25",
        "::error file=test_it.py,line=10,title=test_it.py%3A%3Atest_setup (setup)::ValueError: no",
    ]
    link = '<a href="https://github.com/o/r/actions/runs/5#artifacts"><code>art/test&#95;it-'
    assert hide_random_parts(step_summary.read_text()).splitlines() == [
        "before",
        "### pytest-kwait: 2 failed, 1 error, 1 passed",
        "",
        "Run <code>r1</code>.",
        "",
        "| test | what happened | awaited | artifacts |",
        "| --- | --- | --- | --- |",
        f"| <code>test&#95;it.py::test&#95;late</code> | {late} "
        "| job t-late-########/pi to become complete "
        f"| {link}test&#95;late-########</code></a> |",
        "| <code>test&#95;it.py::test&#95;plain</code> | AssertionError: 50% |  "
        f"| {link}test&#95;plain-########</code></a> |",
        "| <code>test&#95;it.py::test&#95;setup (setup)</code> | ValueError: no |  "
        f"| {link}test&#95;setup-########</code></a> |",
        "",
    ]


def test_no_secret_is_annotated_or_summed_up(pytester: pytest.Pytester, step_summary: Path) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture(scope="session")
        def kwait_cluster(kwait_cluster):
            kwait_cluster.transport.credentials = frozenset({"own-credential"})
            return kwait_cluster

        def test_own(kwait): assert False, "refused: own-credential"

        def test_form(): raise ValueError("token=abcdefgh")

        def test_awaited(kwait):
            kwait.wait_for("cm/x", "jsonpath={.data.a}=own-credential", timeout="100ms")
        """
    )
    result = pytester.runpytest("--kwait-run-id=r1")
    result.assert_outcomes(failed=3)
    lines = [line.rpartition("::")[2] for line in told(result)]
    assert lines[:2] == ["AssertionError: refused: (hidden)", "ValueError: token=(hidden)"]
    assert "equal to '(hidden)'" in lines[2]
    summary = step_summary.read_text()
    assert summary.count("equal to '(hidden)'") == 2
    assert "own-credential" not in summary
    assert "abcdefgh" not in summary


def test_the_controller_tells_once_for_all_workers(
    pytester: pytest.Pytester, step_summary: Path
) -> None:
    pytester.makepyfile(test_it=_SUITE + "\ndef test_killed():\n    import os; os._exit(1)\n")
    result = pytester.runpytest("--kwait-run-id=r1", "-n2", "--max-worker-restart=1")
    result.assert_outcomes(failed=3, errors=1, passed=1)
    assert sorted(line.partition("title=")[2].partition("::")[0] for line in told(result)) == [
        "test_it.py%3A%3Atest_killed",
        "test_it.py%3A%3Atest_late",
        "test_it.py%3A%3Atest_plain",
        "test_it.py%3A%3Atest_setup (setup)",
    ]
    text = step_summary.read_text()
    assert text.count("###") == 1
    assert "artifacts" not in text
    assert re.search(r"test&#95;killed</code> \| worker 'gw\d' crashed while running ", text)


def test_no_output_outside_of_github_or_without_failures(
    pytester: pytest.Pytester, step_summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_good="def test_good(kwait): pass")
    assert told(pytester.runpytest()) == []
    pytester.makepyfile(test_good="def test_good(kwait): assert False")
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    assert told(pytester.runpytest()) == []
    assert not step_summary.exists()


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_suites_without_waits_get_no_annotations(
    pytester: pytest.Pytester, step_summary: Path, workers: list[str]
) -> None:
    pytester.makepyfile(test_it="def test_it(): assert False")
    result = pytester.runpytest(*workers, "-c", "/dev/null", "--rootdir=.")
    result.assert_outcomes(failed=1)
    assert told(result) == []
    assert not step_summary.exists()


def test_a_summary_that_is_full_already_is_not_made_too_long(
    pytester: pytest.Pytester, step_summary: Path
) -> None:
    step_summary.write_bytes(b"x" * 1024 * 1024)
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    pytester.runpytest().assert_outcomes(failed=1)
    assert step_summary.stat().st_size == 1024 * 1024


def test_a_summary_that_cannot_be_written_is_one_line(
    pytester: pytest.Pytester, step_summary: Path
) -> None:
    step_summary.mkdir()
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert (
        "kwait: the step summary could not be written: [Errno 21] Is a directory: "
        f"'{step_summary}'" in result.stdout.str().splitlines()
    )


def test_other_annotating_plugin_takes_precedence(
    pytester: pytest.Pytester, step_summary: Path
) -> None:
    pytester.makepyfile(
        pytest_github_actions_annotate_failures="",
        test_it="def test_it(kwait): assert False",
    )
    pytester.syspathinsert()
    result = pytester.runpytest("-p", "pytest_github_actions_annotate_failures")
    result.assert_outcomes(failed=1)
    assert told(result) == []
    assert step_summary.exists()


def test_lines_outside_of_the_repository_are_not_named(
    pytester: pytest.Pytester, step_summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path / "elsewhere"))
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    assert told(pytester.runpytest()) == [
        "::error title=test_it.py%3A%3Atest_it::AssertionError: assert False"
    ]
