"""`kwait report flakes` over the reports of several runs, with workers and without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.runs.inner_runs import run
from pytest_kwait.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SUITE = """
import os

POD = '''
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  restartPolicy: Never
  containers:
  - {name: main, image: "busybox:1.36", command: [sh, -c, "exit %s"]}
'''

def test_pod(kwait):
    kwait.apply(POD % os.environ["EXIT_CODE"])
    kwait.wait_for_pod_success("worker")

def test_plain():
    assert os.environ["GITHUB_SHA"] == "aaaa"

def test_good():
    pass
"""

_RUNS = (("monday", "aaaa", "0"), ("tuesday", "aaaa", "3"), ("friday", "bbbb", "0"))
"""The runs, each with its commit and the exit code of the pod."""


def test_flaky_and_broken_tests_of_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One fails at a commit at which it passed too, one since a commit, one never."""
    for number, (name, commit, code) in enumerate(_RUNS):
        monkeypatch.setenv("GITHUB_SHA", commit)
        monkeypatch.setenv("EXIT_CODE", code)
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        options = (f"--kwait-run-id={name}", f"--kwait-report={name}.json")
        status, output = run(tmp_path, None, SUITE, *options, *(["-n2"] if number else []))
        assert status == int(name != "monday"), output

    monkeypatch.chdir(tmp_path)
    assert main(["report", "flakes", "."]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "failed  runs   rate  verdict"
    assert "     1     3    33%  flaky: failed and passed at commit aaaa" in lines
    assert "     1     3    33%  broken: fails since run friday" in lines
    assert lines[-2] == "1 broken, 1 flaky, of 3 tests in 3 runs", shown
    assert "test_good" not in shown
    assert any(line.startswith("     only failed  the pod has failed: container") for line in lines)
    assert all(len(line) <= 80 for line in lines)

    assert main(["report", "flakes", "friday.json", "monday.json", "tuesday.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in found["runs"]] == [name for name, _, _ in _RUNS]
    assert {flake["test"]: flake["verdict"] for flake in found["flakes"]} == {
        "test_suite.py::test_pod": "flaky",
        "test_suite.py::test_plain": "broken",
    }
    (pod,) = (flake for flake in found["flakes"] if flake["verdict"] == "flaky")
    assert (pod["first_bad"]["name"], pod["last_good"]["name"]) == ("tuesday", "monday")
