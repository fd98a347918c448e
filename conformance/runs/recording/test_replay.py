"""A replay shows what kubectl answered when the test failed, and what a killed run has left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.kubectl.script import find_kubectl, needs_kubectl
from conformance.runs.inner_runs import begin, finish, make_once, run, start
from conformance.runs.recording.answers import QUESTIONS, without_ages
from e2e.service_accounts import bind
from pytest_kwait.simulator.protocol.recording.files import read_recording
from pytest_kwait.wait import poll_immediate
from tests.forked_python import ForkedPython

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Cluster, Kwait

ROOT = Path(__file__).parents[3]
KUBECTL, _ = find_kubectl()
KWAIT = [
    sys.executable,
    "-P",
    "-c",
    "import sys; from pytest_kwait.cli import main; sys.exit(main())",
]

RECORDED = "--kwait-record=failed"

pytestmark = needs_kubectl()


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes of their own import this package's suites, and find kubectl."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # A fifth of kubectl's time is its collector's, which gains nothing in so short a process.
    monkeypatch.setenv("GOGC", "off")
    if KUBECTL is not None:
        monkeypatch.setenv("PATH", str(Path(KUBECTL).parent), prepend=os.pathsep)


@pytest.fixture(params=["embedded", "watched"], scope="module")
def recorded_cluster(request: pytest.FixtureRequest) -> Path | None:
    """None for an embedded cluster, which records itself; the kubeconfig of one to watch."""
    if request.param == "embedded":
        return None
    cluster: Cluster = request.getfixturevalue("kwait_cluster")
    return cluster.kubeconfig


@contextmanager
def replay(file: Path, folder: Path, *options: str) -> Iterator[Path]:
    """Serve a recording; yield the kubeconfig."""
    kubeconfig = folder / "replayed"
    command = [*KWAIT, "replay", str(file), "--kubeconfig", str(kubeconfig), *options]
    process = ForkedPython(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        try:
            assert process.stdout.readline() == f"export KUBECONFIG={kubeconfig}\n".encode()
            yield kubeconfig
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    assert not kubeconfig.exists()


def ask(kubeconfig: Path, *question: str) -> subprocess.CompletedProcess[str]:
    """Ask kubectl."""
    command = [str(KUBECTL), "--kubeconfig", str(kubeconfig), *question]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def recordings(artifacts: Path) -> dict[str, Path]:
    """Return the recordings of a run's tests by id."""
    found = sorted(artifacts.glob("*/recording.jsonl.gz"))
    return {read_recording(path).header.test: path for path in found}


@pytest.mark.parametrize(
    "group",
    ["failing", "lasting", pytest.param("looping", marks=pytest.mark.kwait_slow)],
)
def test_kubectl_answers_as_it_did_when_the_test_failed(
    tmp_path: Path, recorded_cluster: Path | None, group: str
) -> None:
    """For each way in which pods and jobs of `failing_fast` fail."""
    suite = (Path(__file__).parent / "failing_suite.py").read_text(encoding="utf-8")
    artifacts = tmp_path / "artifacts"
    options = (f"--kwait-artifacts={artifacts}", RECORDED, f"-k={group}", "-p", "no:xdist")
    status, said = run(tmp_path, recorded_cluster, suite, *options)
    assert status == 1, said
    told = json.loads((tmp_path / f"{group}.json").read_text(encoding="utf-8"))
    (file,) = recordings(artifacts).values()
    moment = told["moment"] - read_recording(file).header.started

    with replay(file, tmp_path, f"--at={moment:.6f}s") as kubeconfig:
        seen = [without_ages(ask(kubeconfig, *question).stdout) for question in QUESTIONS]

    assert f"kwait replay {file.relative_to(tmp_path)}" in said
    for was, now in zip(told["answers"], seen, strict=True):
        assert now.splitlines() == was.splitlines()


SUITE = """
import pytest

def test_logs(kwait):
    kwait.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"},
                  "stringData": {"password": "open-sesame-42"}})
    kwait.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "teller"},
                  "spec": {"restartPolicy": "Never", "containers": [{"name": "main",
                           "image": "busybox:1.36", "command": ["sh", "-c",
                           "echo first; echo open-sesame-42; sleep 1; echo last; exit 3"]}]}})
    with kwait.step("await the teller"):
        kwait.wait_for_pod_success("teller")
"""


@pytest.fixture(scope="module")
def recorded(shared_folder: Path, recorded_cluster: Path | None) -> Path:
    """The recording of a test whose pod fails after a second."""

    def record(folder: Path) -> None:
        options = (f"--kwait-artifacts={folder}", RECORDED, "-p", "no:xdist")
        status, said = run(folder, recorded_cluster, SUITE, *options)
        assert status == 1, said

    source = "embedded" if recorded_cluster is None else "watched"
    folder = make_once(shared_folder / f"recorded-{source}", record)
    (file,) = recordings(folder).values()
    return file


def test_a_recording_is_read_only_and_has_no_secrets(
    recorded: Path, recorded_cluster: Path | None, tmp_path: Path
) -> None:
    """Logs are those of the time that is shown."""
    with replay(recorded, tmp_path) as kubeconfig:
        assert ask(kubeconfig, "logs", "teller").stdout == "first\n(hidden)\nlast\n"
        secret = ask(kubeconfig, "get", "secret", "db", "-o", "jsonpath={.data}").stdout
        writes = [
            ask(kubeconfig, *write).stderr
            for write in (
                ("delete", "pod", "teller"),
                ("label", "pod", "teller", "a=b"),
                ("create", "configmap", "more"),
            )
        ]
    refusal = "this is a recording of test_suite.py::test_logs: it can be read, not changed"
    # Of Secrets on other clusters only the metadata is read.
    assert secret == ("" if recorded_cluster else '{"password":""}')
    assert [(text.count("\n"), refusal in text) for text in writes] == [(1, True)] * 3


def test_a_recording_plays(recorded: Path, tmp_path: Path) -> None:
    """Watches see the changes, and followed logs their lines, as they happened."""
    with replay(recorded, tmp_path, "--play", "--speed=0.25") as kubeconfig:
        poll_immediate(0.5, 120, lambda: ask(kubeconfig, "get", "pod", "teller").returncode == 0)
        form = "jsonpath={.status.phase}{'\\n'}"
        command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", "get", "pod", "teller", "-o", form]
        # It ends by itself only if the pod never fails.
        command += ["-w", "--request-timeout=60s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
            assert watch.stdout is not None
            phases: list[str] = []
            for line in watch.stdout:
                phases.append(line.strip())
                if phases[-1] == "Failed":
                    break
            watch.terminate()
    assert "Running" in phases
    assert phases[-1] == "Failed"


def test_a_timeline_tells_changes_steps_and_verdicts(
    recorded: Path, recorded_cluster: Path | None
) -> None:
    """In the order of time."""
    status, said = finish(start([*KWAIT, "replay", str(recorded), "--timeline"], recorded.parent))
    assert status == 0, said
    parts = (
        "pods/teller created",
        "step await the teller",
        "to succeed",
        "failed early",
        "failure in call: pod ",
    )
    places = [said.find(part) for part in parts]
    assert -1 not in places
    if recorded_cluster is not None:
        # The first test of a worker goes on while the watches open.
        del places[0]
    assert places == sorted(places)


def test_a_wait_runs_again_in_virtual_time(recorded: Path) -> None:
    """As in the test, and with another condition."""
    command = [*KWAIT, "replay", str(recorded), "--wait"]
    (failed, said), (met, _) = [
        finish(start([*command, call], recorded.parent))
        for call in ("wait_for_pod_success('teller')", "wait_for_pod_running('teller')")
    ]
    assert (failed, met) == (1, 0), said
    assert "failed early: pod " in said.splitlines()[-1]
    assert "exit code 3" in said.splitlines()[-1]


DEFINING_SUITE = """
def test_widget(kwait):
    group = f"{kwait.namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
               "schema": {"openAPIV3Schema": schema}}
    kwait.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                 "metadata": {"name": f"widgets.{group}"},
                 "spec": {"group": group, "scope": "Namespaced", "versions": [version],
                          "names": {"plural": "widgets", "kind": "Widget"}}})
    kwait.create({"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "one"}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    kwait.patch(f"widgets.{group}/one", ready, subresource="status")
    kwait.wait_for(f"widgets.{group}/one", "condition=Ready")
    assert False
"""


def test_a_wait_knows_kinds_that_the_test_defined(
    tmp_path: Path, recorded_cluster: Path | None
) -> None:
    """From the start of the recording, at which they were not defined."""
    artifacts = tmp_path / "artifacts"
    options = (f"--kwait-artifacts={artifacts}", RECORDED, "-p", "no:xdist")
    status, said = run(tmp_path, recorded_cluster, DEFINING_SUITE, *options)
    assert status == 1, said
    (file,) = recordings(artifacts).values()
    call = "wait_for('widget/one', 'condition=Ready')"
    status, said = finish(start([*KWAIT, "replay", str(file), "--wait", call], tmp_path))
    assert status == 0, said
    if recorded_cluster is None:
        assert said.splitlines()[1].endswith("not found yet")
    assert said.splitlines()[-1].endswith("  met")


def test_a_killed_run_leaves_its_history(tmp_path: Path) -> None:
    """Up to its last second, also where its cluster was killed with it."""
    with killed_run(tmp_path, None, '"text":"last') as history:
        poll_immediate(0.1, 120, lambda: bool(list(history.glob("namespaces/*.jsonl"))))

        with replay(history, tmp_path) as kubeconfig:
            assert ask(kubeconfig, "logs", "teller").stdout == "first\n(hidden)\nlast\n"
            assert "Running" in ask(kubeconfig, "get", "pods").stdout


def test_a_killed_run_leaves_what_its_worker_has_watched(
    tmp_path: Path, kwait_cluster: Cluster
) -> None:
    """Logs are read at failures alone."""
    with (
        killed_run(tmp_path, kwait_cluster.kubeconfig, '"phase":"Running"') as history,
        replay(history, tmp_path) as kubeconfig,
    ):
        assert "Running" in ask(kubeconfig, "get", "pods").stdout
        assert "teller" in ask(kubeconfig, "get", "events").stdout


def test_rights_in_one_namespace_suffice(tmp_path: Path, kwait: Kwait) -> None:
    """Resources without rights are left out, with the reason."""
    bind(kwait, "edit")
    kubeconfig = kwait.kubeconfig_for("default")
    artifacts = tmp_path / "artifacts"
    suite = """
def test_bad(kwait):
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
    assert False
"""
    options = (f"--kwait-artifacts={artifacts}", RECORDED, f"--kwait-namespace={kwait.namespace}")
    status, said = run(tmp_path, kubeconfig, suite, *options, "-p", "no:xdist")
    assert status == 1, said
    (file,) = recordings(artifacts).values()
    lines = read_recording(file).lines
    # An object that is there before the first list is a state of the start.
    kinds = {line.type for line in lines if line.key == f"{kwait.namespace}/mine"}
    assert kinds & {"STATE", "ADDED"}
    (problems,) = artifacts.glob("*/problems.txt")
    (left_out,) = [
        line for line in problems.read_text().splitlines() if line.startswith("recording: ")
    ]
    names, _, reason = left_out.removeprefix("recording: ").partition(" left out: ")
    assert reason == "they cannot be listed and watched (forbidden)"
    assert {"nodes", "persistentvolumes"} <= set(names.split(", "))


@contextmanager
def killed_run(folder: Path, kubeconfig: Path | None, text: str) -> Iterator[Path]:
    """Kill a run once a text is in the journal of its namespace; yield the folder of journals."""
    suite = SUITE.replace("last; exit 3", "last; sleep 600")
    artifacts = folder / "artifacts"
    options = (f"--kwait-artifacts={artifacts}", RECORDED, "-p", "no:xdist")
    process = begin(folder, kubeconfig, suite, *options)
    try:
        poll_immediate(0.1, 60, lambda: any(text in each for each in _journals(artifacts)))
    finally:
        process.kill()
        process.communicate()
    (history,) = artifacts.glob("history-*")
    yield history


def _journals(artifacts: Path) -> list[str]:
    return [path.read_text() for path in artifacts.glob("history-*/**/namespaces/*.jsonl")]
