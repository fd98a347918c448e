"""Fixtures: other runs of pytest on the same cluster, and the janitor."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from conformance.runs.inner_runs import finish, start
from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait
    from pytest_kwait.clusters import Cluster
    from tests.forked_python import ForkedPython

PARTS = 20
"""The number of shards of the runs' suite, with one test each."""

SUITE = f"""
import os
import time
from pathlib import Path

import pytest

CLASS = {{
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {{"generateName": "kwait-cleanup-"}},
    "value": 1,
}}
NOTE = {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "note"}}}}


@pytest.mark.parametrize("part", range({PARTS}))
def test_it(kwait, part):
    elsewhere = {{**NOTE, "metadata": {{"generateName": "kwait-cleanup-", "namespace": "default"}}}}
    kwait.create(CLASS, NOTE, elsewhere)
    Path(os.environ["READY"]).write_text(str(os.getpid()))
    if os.environ["END"] == "exit":
        os._exit(3)
    if os.environ["END"] != "pass":
        time.sleep(120)
"""
KINDS = ("namespaces", "priorityclasses", "configmaps", "leases")


class Run:
    """A run of one shard of a suite; each test creates four objects.

    Args:
        process: it.
        ready: the file in which its test says that it has made what it makes.
    """

    def __init__(self, process: ForkedPython, ready: Path) -> None:
        self.process = process
        self._ready = ready

    def until_ready(self) -> None:
        """Return once its test has created its objects."""
        self._poll(lambda: self._ready.exists() and self._ready.read_text() != "")
        assert self._ready.exists(), self.process.communicate()[0]

    def until_over(self) -> str:
        """Return its output once it has ended."""
        return finish(self.process)[1]

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it and to its worker, if any."""
        worker = int(self._ready.read_text()) if self._ready.exists() else self.process.pid
        self.process.send_signal(number)
        if worker != self.process.pid:
            with contextlib.suppress(ProcessLookupError):  # it ends once its run has
                os.kill(worker, number)
        self.until_over()

    def kill_worker(self) -> None:
        """Kill only its worker."""
        os.kill(int(self._ready.read_text()), signal.SIGKILL)

    def _poll(self, done: Callable[[], bool]) -> None:
        wait.poll_immediate("50ms", "4m", lambda: done() or self.process.poll() is not None)


class Runs:
    """Starts runs and lists their remaining objects.

    Args:
        kwait: the object of the test.
        folder: where the suite of the runs is.
    """

    def __init__(self, kwait: Kwait, folder: Path) -> None:
        self._kwait = kwait
        self._cluster: Cluster = kwait.cluster
        self._folder = folder
        self._started: list[Run] = []
        self.id = f"cleanup-{uuid.uuid4().hex[:8]}"
        (folder / "test_it.py").write_text(SUITE)

    def start(self, *options: str, end: str = "sleep") -> Run:
        """Start the next shard of the suite.

        Args:
            options: for pytest.
            end: what its test does once it has made what it makes: sleep, exit or pass.
        """
        number = len(self._started)
        ready = self._folder / f"ready-{number}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KWAIT_")}
        environment |= {"READY": str(ready), "END": end}
        environment.pop("PYTEST_ADDOPTS", None)
        command = [*_python("pytest"), "-q", "-p", "no:cacheprovider", f"--rootdir={self._folder}"]
        command += [f"--kwait-kubeconfig={self._cluster.kubeconfig}", "--kwait-heartbeat=1s"]
        command += [f"--kwait-run-id={self.id}", f"--kwait-shard={number + 1}/{PARTS}"]
        command += ["--kwait-no-janitor", "--kwait-deletion-wait=0", *options]
        if self._cluster.context:
            command.append(f"--kwait-context={self._cluster.context}")
        process = start([*command, str(self._folder)], self._folder, environment, new_session=True)
        self._started.append(Run(process, ready))
        return self._started[-1]

    def end(self) -> None:
        """Kill all that still run."""
        for run in self._started:
            if run.process.poll() is None:
                os.killpg(run.process.pid, signal.SIGKILL)
            run.process.communicate()

    def left(self) -> list[str]:
        """Return the runs' objects that exist and are not being deleted."""
        from pytest_kwait.suite.cleanup.owned_objects import run_label_value

        selector = {"pytest-kwait/run": run_label_value(self.id)}
        found: list[str] = []
        for kind in KINDS:
            metadata = [each["metadata"] for each in self._everywhere(kind, selector)]
            found += [f"{kind}/{m['name']}" for m in metadata if not m.get("deletionTimestamp")]
        return found

    def janitor(self, *options: str) -> tuple[int, list[str]]:
        """Run `kwait janitor` for these runs; return its status and output."""
        command = [*_python("pytest_kwait.cli"), "janitor", "--run-id", self.id]
        command += ["--kubeconfig", str(self._cluster.kubeconfig), *options]
        if self._cluster.context:
            command += ["--context", self._cluster.context]
        status, said = finish(start(command, self._folder))
        return status, said.splitlines()

    def _everywhere(self, kind: str, selector: dict[str, str]) -> list[dict[str, Any]]:
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.clock import Deadline

        session = ApiSession.of(self._kwait.client)
        deadline = Deadline.after(120.0)
        resource = session.resolve(kind, deadline=deadline)
        listed = session.list(resource, label_selector=selector, deadline=deadline)
        return [item.object for item in listed.items]


@pytest.fixture
def runs(kwait: Kwait, tmp_path: Path) -> Iterator[Runs]:
    """Runs in parallel to this one."""
    made = Runs(kwait, tmp_path)
    try:
        yield made
    finally:
        made.end()
        if made.left():
            made.janitor("--all-kinds", "--timeout=30s")


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-c", _MAIN.format(module=module)]


# A background job of a shell ignores SIGINT, and its children inherit that.
_MAIN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from {module} import main; sys.exit(main())"
)
