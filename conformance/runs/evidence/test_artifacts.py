"""Artifacts of a suite that fails in every phase: complete, and without secrets."""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import yaml

from conformance.runs.evidence.shop import SUITE
from conformance.runs.inner_runs import finish, make_once, start

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters import Cluster

SECRET = "correct-horse-battery-staple"


class Outcome:
    """The artifacts of a failed run.

    Args:
        folder: where it ran.
        run: its id.
        output: what it printed.
    """

    def __init__(self, folder: Path, run: str, output: str) -> None:
        self.folder = folder
        self.run = run
        self.output = output

    def of(self, test: str) -> Path:
        """Return the only folder of a test."""
        (found,) = (self.folder / "artifacts").glob(f"test_shop-{test}-*")
        return found

    def space(self, test: str) -> Path:
        """Return the folder of the only namespace of a test."""
        (found,) = (each for each in self.of(test).iterdir() if each.is_dir())
        return found


@pytest.fixture(scope="module")
def outcome(kwait_cluster: Cluster, shared_folder: Path) -> Outcome:
    """The outcome of a run of the suite with two workers, as a job of GitHub Actions would."""
    run = f"evidence-{uuid.uuid4().hex[:8]}"
    folder = make_once(shared_folder / "shop", lambda folder: run_suite(folder, run, kwait_cluster))
    return Outcome(folder, *json.loads((folder / "outcome.json").read_text()))


def run_suite(folder: Path, run: str, cluster: Cluster) -> None:
    """Run the suite; leave the run's id and output in `outcome.json`."""
    (folder / "test_shop.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KWAIT_", "PYTEST_", "GITHUB_"))
    }
    environment |= {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-n2", f"--kwait-run-id={run}"]
    command += ["--kwait-artifacts=artifacts", "--junitxml=junit.xml", "--kwait-no-janitor"]
    command += [f"--kwait-kubeconfig={cluster.kubeconfig}"]
    if cluster.context:
        command.append(f"--kwait-context={cluster.context}")
    status, output = finish(start(command, folder, environment))
    assert status == 1, output
    (folder / "outcome.json").write_text(json.dumps([run, output]))


def test_each_failed_test_has_a_folder(outcome: Outcome) -> None:
    """In each phase."""
    assert "kwait: artifacts of 4 failed tests: artifacts" in outcome.output.splitlines()
    assert (outcome.of("test_shop") / "failure.txt").exists()
    assert (outcome.of("test_setup") / "failure.txt").exists()
    assert (outcome.of("test_teardown") / "failure-teardown.txt").exists()
    evidence = json.loads((outcome.of("test_shop") / "evidence.json").read_text())
    (wait,) = evidence["waits"]
    assert wait["error"] == "WaitTimeout"
    assert "equal to '999'" in wait["goal"]
    assert evidence["run"] == outcome.run
    assert not (outcome.of("test_shop") / "problems.txt").exists()


def test_artifacts_of_a_crashed_worker(outcome: Outcome) -> None:
    """The controller collects them before the run's objects are deleted."""
    evidence = json.loads((outcome.of("test_killed") / "evidence.json").read_text())
    space = outcome.space("test_killed")

    assert (evidence["phase"], evidence["namespaces"]) == ("crashed", [space.name])
    (wait,) = evidence["waits"]
    assert (wait["goal"], wait["outcome"]) == ("get created", "unfinished")
    assert (space / "logs/shop/till.previous.log").read_text() == "opening with token=(hidden)\n"
    assert "pod/shop  Scheduled: Successfully assigned" in (space / "events.txt").read_text()
    assert _only(space / "namespace.yaml")["status"] == {"phase": "Active"}
    assert "door: green" in (space / "objects" / "configmaps.yaml").read_text()
    assert _only(space / "objects" / "secrets.yaml")["data"] == {"words": "(hidden)"}
    assert not (outcome.of("test_killed") / "problems.txt").exists()
    # Those of other tests may still be being deleted.
    removed = r"(?m)^kwait: the janitor removed \d namespaces? and 0 other objects of 1 run$"
    assert re.search(removed, outcome.output), outcome.output


def test_artifacts_have_every_kind_but_no_secrets(outcome: Outcome) -> None:
    """Custom kinds are included; config maps have their data."""
    objects = outcome.space("test_shop") / "objects"

    assert _only(objects / "secrets.yaml")["data"] == {"words": "(hidden)"}
    assert any(each["kind"] == "ConfigMap" for each in _all(objects / "configmaps.yaml"))
    assert "door: green" in (objects / "configmaps.yaml").read_text()
    (shelves,) = objects.glob("shelves.*.yaml")
    assert (_only(shelves)["kind"], _only(shelves)["books"]) == ("Shelf", 7)
    pod = _only(objects / "pods.yaml")
    assert {"name": "DOOR_PASSWORD", "value": "(hidden)"} in pod["spec"]["containers"][0]["env"]
    assert "managedFields" not in pod["metadata"]
    leaks = [
        str(path.relative_to(outcome.folder))
        for path in (outcome.folder / "artifacts").rglob("*")
        # The failure shows the source of the test, as pytest does.
        if path.is_file() and SECRET in path.read_text()
    ]
    assert leaks == []


def test_logs_of_both_runs_and_events_are_there(outcome: Outcome) -> None:
    """A restarted container has two logs."""
    space = outcome.space("test_shop")

    assert (space / "logs/shop/till.previous.log").read_text() == "opening with token=(hidden)\n"
    assert "pod/shop  Scheduled: Successfully assigned" in (space / "events.txt").read_text()


@pytest.mark.parametrize("test", ["test_setup", "test_teardown"])
def test_artifacts_are_gathered_before_cleanup(outcome: Outcome, test: str) -> None:
    """It is dumped before its deletion, after a failed setup and in a failed teardown."""
    found = _only(outcome.space(test) / "namespace.yaml")

    assert found["status"] == {"phase": "Active"}
    if test == "test_teardown":
        colours = (outcome.space(test) / "objects" / "configmaps.yaml").read_text()
        assert "door: green" in colours


def test_artifacts_are_announced_to_ci(outcome: Outcome) -> None:
    """Annotations, a summary of the step, and links in the JUnit file."""
    lines = outcome.output.splitlines()
    assert sum(line.startswith("::error file=test_shop.py,line=") for line in lines) == 4
    summary = (outcome.folder / "summary.md").read_text()
    assert summary.startswith("### pytest-kwait: ")
    assert summary.count("| <code>test&#95;shop.py::") == 4
    cases = ElementTree.parse(outcome.folder / "junit.xml").iter("testcase")
    links = [each.text for case in cases for each in case.iter("system-out")]
    assert len(links) == 4
    for link in links:
        path = (link or "").splitlines()[0].removeprefix("[[ATTACHMENT|").removesuffix("]]")
        assert (outcome.folder / path).is_file()


def _all(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def _only(path: Path) -> dict[str, Any]:
    (found,) = _all(path)
    return found
