from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.recording.files import read_recording

if TYPE_CHECKING:
    from pathlib import Path

_SUITE = """
import os

def test_good(kwait):
    pass

def test_bad(kwait):
    with kwait.step("look"):
        kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
        kwait.wait_for_pod_ready("web", timeout="100ms")

def test_alone():
    assert not "without a cluster"
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=_SUITE)
    return pytester.runpytest_subprocess(
        "--kwait-artifacts=art", "-p", "no:cacheprovider", *options
    )


def recordings(pytester: pytest.Pytester) -> dict[str, Path]:
    found = sorted((pytester.path / "art").glob("*/recording.jsonl.gz"))
    return {read_recording(path).header.test.rpartition("::")[2]: path for path in found}


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "workers"])
def test_a_failed_test_is_recorded_on_the_embedded_cluster(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    result = run(pytester, "--junitxml=junit.xml", "--kwait-report=report.json", *workers)
    result.assert_outcomes(passed=1, failed=2)
    ((name, file),) = recordings(pytester).items()
    shown = file.relative_to(pytester.path)
    assert name == "test_bad"
    found = read_recording(file)
    assert (found.header.worker, found.header.time_scale) == ("gw0" if workers else "", 0.1)
    assert [line.text for line in found.lines if line.type == "STEP"] == ["look"]
    (wait,) = [line for line in found.lines if line.type == "WAIT"]
    assert (wait.goal, wait.outcome, wait.step) == ("become ready", "timed out", "look")
    assert "configmaps" in {line.resource for line in found.lines if line.key.endswith("/mine")}
    (failure,) = [line for line in found.lines if line.type == "FAILURE"]
    assert failure.outcome == "call"
    assert f"  replay: kwait replay {shown}" in result.stdout.str()
    junit = (pytester.path / "junit.xml").read_text()
    assert f'<property name="kwait_recording" value="{shown}"' in junit
    assert f"[[ATTACHMENT|{shown}]]" in junit
    report = json.loads((pytester.path / "report.json").read_bytes())
    recorded = {test["test"]: test.get("recording", "") for test in report["tests"]}
    assert recorded == {"test_it.py::test_alone": "", "test_it.py::test_bad": str(shown)}
    (played,) = [test["playback"] for test in report["tests"] if "playback" in test]
    assert [0, "mine"] in played["objects"]
    assert played["kinds"][0] == {"resource": "configmaps", "columns": ["Data"]}
    assert played["failure"][1] == "call"
    assert not list((pytester.path / "art").glob("history-*"))


def test_all_tests_with_a_namespace_are_recorded_if_asked(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--kwait-record=always", "--kwait-report=report.json")
    result.assert_outcomes(passed=1, failed=2)
    found = recordings(pytester)
    assert list(found) == ["test_bad", "test_good"]
    assert read_recording(found["test_good"]).failure is None
    report = json.loads((pytester.path / "report.json").read_bytes())
    (good,) = [test for test in report["tests"] if test["outcome"] == "passed"]
    assert good["recording"] == str(found["test_good"].relative_to(pytester.path))
    assert "failure" not in good["playback"]


def test_nothing_is_recorded_if_asked(pytester: pytest.Pytester) -> None:
    run(pytester, "--kwait-record=never").assert_outcomes(passed=1, failed=2)
    assert recordings(pytester) == {}


def test_the_test_of_a_crashed_worker_is_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import os

        def test_crash(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
            os._exit(3)
        """
    )
    result = pytester.runpytest_subprocess(
        "--kwait-artifacts=art", "-n1", "--kwait-report=report.json"
    )
    result.assert_outcomes(failed=1)
    found = read_recording(recordings(pytester)["test_crash"])
    assert "configmaps" in {line.resource for line in found.lines if line.key.endswith("/mine")}
    assert [line.outcome for line in found.lines if line.type == "FAILURE"] == ["crashed"]
    (crashed,) = json.loads((pytester.path / "report.json").read_bytes())["tests"]
    assert crashed["playback"]["failure"][1:] == ["crashed", "the worker crashed"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--kwait-record=always"],
            "record='always' (from option --kwait-record) is not valid: recordings need a "
            "folder: give --kwait-artifacts=DIR as well",
        ),
        (
            ["--kwait-record=failed", "--kwait-artifacts=art", "--kwait-cluster=existing"],
            "record='failed' (from option --kwait-record) is not valid: only an embedded cluster "
            "is recorded; leave it out, or use that one",
        ),
        (
            ["--kwait-record=often", "--kwait-artifacts=art"],
            "record='often' (from option --kwait-record) is not valid: use never, failed or always",
        ),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    pytester: pytest.Pytester, options: list[str], message: str
) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str()
