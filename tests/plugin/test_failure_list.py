from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from tests.plugin.outputs import hide_random_parts

FakeCluster = Callable[[], str]

_SUITE = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(kwait, number):
    with kwait.step("create it"):
        kwait.wait_for_job_complete("pi", timeout="100ms")

def test_other():
    assert 1 == 2

def test_good(kwait): pass
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--kwait-artifacts=art", "--kwait-run-id=r1", *options)


def read_list(pytester: pytest.Pytester) -> str:
    return hide_random_parts((pytester.path / "art" / "failures.md").read_text())


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_each_distinct_failure_is_listed_once(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    result = run(pytester, *workers)
    result.assert_outcomes(failed=4, passed=1)
    line = "kwait: 4 failed tests, 2 distinct failures: art/failures.md"
    assert result.stdout.str().splitlines().count(line) == 1
    text = read_list(pytester)
    title = "`job pi did not become complete within 100ms: not found yet`"
    assert f"\n1. {title} (3 tests)\n" in text
    assert text.count(f"## 1. {title}\n") == 1
    assert "\n## 2. `AssertionError: assert 1 == 2`\n" in text
    for number in range(3):
        assert f"- `test_it.py::test_it[{number}]`" in text
    assert "- test: `test_it.py:6`\n- step: `create it`\n" in text
    assert "       0.0s  not found yet\n" in text
    assert re.search(
        r"^kubectl --kubeconfig /fake/kubeconfig --namespace t-it-\d-#{8} get jobs.batch$",
        text,
        re.M,
    )
    assert re.search(r"^cat art/test_it-test_it-\d-#{8}(-gw\d)?/failure.txt$", text, re.M)


def test_green_run_writes_none_and_removes_that_of_an_earlier_run(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    run(pytester).assert_outcomes(failed=4, passed=1)
    path = pytester.path / "art" / "failures.md"
    os.utime(path, (10, 10))
    # Nothing is known of the tests without a run of them.
    run(pytester, "--collect-only")
    run(pytester, "-k", "nothing")
    assert path.exists()
    result = run(pytester, "-k", "good")
    result.assert_outcomes(passed=1, deselected=4)
    assert not path.exists()
    assert "failures.md" not in result.stdout.str()


def test_shards_in_one_folder_have_one_list(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    run(pytester, "--kwait-shard=1/2")
    result = run(pytester, "--kwait-shard=2/2")
    assert "kwait: 4 failed tests, 2 distinct failures: art/failures.md" in result.outlines
    text = read_list(pytester)
    assert ", shard 1/2, " in text
    assert ", shard 2/2, " in text


def test_list_names_the_report_and_hides_secrets(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(kwait):
            raise ValueError("token=abcdef12345")
        """
    )
    run(pytester, "--kwait-report=r.html")
    text = read_list(pytester)
    assert "All waits of the run: `r.html`.\n" in text
    assert "abcdef12345" not in text
    assert "ValueError: token=(hidden)" in text


def test_list_that_cannot_be_written_is_one_line(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "art" / "failures.md").mkdir(parents=True)
    os.utime(pytester.path / "art" / "failures.md", (10, 10))
    pytester.makepyfile(test_it=_SUITE)
    result = run(pytester)
    result.assert_outcomes(failed=4, passed=1)
    lines = [line for line in result.outlines if "could not be written" in line]
    assert len(lines) == 1
    assert lines[0].startswith("kwait: artifacts could not be written: ")
    assert "kwait: artifacts of 4 failed tests: art" in result.outlines


def test_report_has_the_same_list_and_merges_those_of_jobs(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_SUITE)
    pytester.runpytest("--kwait-report=r.md", "--kwait-report=r.json", "--kwait-run-id=r1")
    text = hide_random_parts((pytester.path / "r.md").read_text())
    assert text.startswith("# Failures\n\n4 failed tests, 2 distinct failures. Run `r1`.")
    assert "- test: `test_it.py:6`\n- step: `create it`\n" in text
    assert "       0.0s  not found yet\n" in text
