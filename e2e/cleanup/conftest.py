"""Runs of pytest beside this one, on the same cluster, that can be killed; and their janitor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.clusters import Cluster
    from pytest_kwait.suite.bench import Bench

SUITE = """
import os
import time
from pathlib import Path

CLASS = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"generateName": "kwait-cleanup-"},
    "value": 1,
}
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}}


def test_it(kwait):
    elsewhere = {**NOTE, "metadata": {"generateName": "kwait-cleanup-", "namespace": "default"}}
    kwait.create(CLASS, NOTE, elsewhere)
    Path(os.environ["READY"]).write_text(str(os.getpid()))
    if os.environ["END"] == "exit":
        os._exit(3)
    if os.environ["END"] != "pass":
        time.sleep(120)
"""
KINDS = ("namespaces", "priorityclasses", "configmaps", "leases")


class Runs:
    """Starts runs and looks for what is left of them.

    Args:
        bench: the bench of the test.
        folder: where the suite of the runs is.
    """

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._cluster: Cluster = bench.cluster
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self.id = f"cleanup-{uuid.uuid4().hex[:8]}"
        (folder / "test_it.py").write_text(SUITE)

    def start(self, *options: str, end: str = "sleep", run: str = "") -> subprocess.Popen[str]:
        """Start a run; return once its test has made what it makes."""
        ready = self._folder / f"ready-{len(self._started)}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KWAIT_")}
        environment |= {"READY": str(ready), "END": end}
        environment.pop("PYTEST_ADDOPTS", None)
        command = [*_python("pytest"), "-q", "-p", "no:cacheprovider", f"--rootdir={self._folder}"]
        command += [f"--kwait-kubeconfig={self._cluster.kubeconfig}", "--kwait-heartbeat=1s"]
        command += [f"--kwait-run-id={run or self.id}", "--kwait-janitor=false", *options]
        if self._cluster.context:
            command.append(f"--kwait-context={self._cluster.context}")
        process = subprocess.Popen(
            [*command, str(self._folder)],
            cwd=self._folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        wait.poll_immediate("100ms", "60s", lambda: ready.exists() or process.poll() is not None)
        if end != "pass":
            assert ready.exists(), process.communicate()[0]
        self.worker = int(ready.read_text()) if ready.exists() else 0
        return process

    def end(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def left(self, run: str = "") -> list[str]:
        """Return all objects of a run that are in the cluster and not on their way out of it."""
        from pytest_kwait.suite.namespaces import run_digest

        selector = {"pytest-kwait/run": run_digest(run or self.id)}
        found: list[str] = []
        for kind in KINDS:
            metadata = [each["metadata"] for each in self._everywhere(kind, selector)]
            found += [f"{kind}/{m['name']}" for m in metadata if not m.get("deletionTimestamp")]
        return found

    def janitor(self, *options: str, run: str = "") -> tuple[int, list[str]]:
        """Run `kwait janitor` for a run; return its status and what it says."""
        command = [*_python("pytest_kwait.cli"), "janitor", "--run-id", run or self.id]
        command += ["--kubeconfig", str(self._cluster.kubeconfig), *options]
        if self._cluster.context:
            command += ["--context", self._cluster.context]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout.splitlines() + done.stderr.splitlines()

    def _everywhere(self, kind: str, selector: dict[str, str]) -> list[dict[str, Any]]:
        from pytest_kwait.api.session import Session
        from pytest_kwait.clock import Deadline

        session = Session.of(self._bench.client)
        deadline = Deadline.after(30.0)
        resource = session.resolve(kind, deadline=deadline)
        listed = session.list(resource, label_selector=selector, deadline=deadline)
        return [item.object for item in listed.items]


@pytest.fixture
def runs(kwait: Bench, tmp_path: Path) -> Iterator[Runs]:
    """Runs beside this one."""
    made = Runs(kwait, tmp_path)
    try:
        yield made
    finally:
        made.end()
        if made.left():
            made.janitor("--all-kinds", "--timeout=30s")


def after(seconds: float) -> None:
    """Let a run go on for a while."""
    time.sleep(seconds)  # noqa: TID251 - what is killed runs in real time


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-c", _MAIN.format(module=module)]


_MAIN = "import sys; from {module} import main; sys.exit(main())"
