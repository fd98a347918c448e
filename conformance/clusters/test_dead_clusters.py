"""The end of an embedded cluster is noticed at once, at whatever step of a run."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.runs.inner_runs import begin, finish, start
from pytest_kwait import wait
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.simulator_process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.forked_python import ForkedPython

if not Path("/proc/self/fd").exists():
    pytest.skip("processes are found in /proc", allow_module_level=True)

ENDED = "the embedded cluster has ended (signal 9)"
SUITE = """
import os
import time
from pathlib import Path

import pytest

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper"},
    "spec": {"containers": [{"name": "main", "image": "busybox", "command": ["sleep", "600"]}]},
}
Path("begun").touch()


@pytest.fixture(scope="session")
def addons(kwait_factory):
    with kwait_factory("addons") as made:
        made.apply(POD)
        yield made


@pytest.mark.kwait_manifests(POD)
@pytest.mark.wait_for_pod_running("sleeper")
def test_watch(kwait, addons, wait_for_pod_success):
    Path("waits").touch()
    wait_for_pod_success("sleeper", fail_fast=False)


def test_poll(kwait, wait_for_pod_success):
    kwait.apply(POD)
    wait_for_pod_success("sleeper", mode="poll", poll="10m", fail_fast=False)


@pytest.mark.kwait_manifests(POD)
@pytest.mark.wait_for_pod_running("sleeper")
def test_exec(kwait):
    kwait.exec("sleeper", "sleep", "600")


def test_caches(kwait, kwait_informers, wait_for_cache_sync):
    wait_for_cache_sync("pods")
    while True:
        kwait.apply(POD)
        kwait.delete("pod/sleeper")


@pytest.mark.kwait_serial
def test_serial(kwait):
    kwait.apply(POD)


def test_without_cluster():
    pass
"""


class DyingRun:
    """A run on an embedded cluster of its own, and that cluster's process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name[:6] != "KWAIT_"},
            "TMPDIR": str(self.temporary),
        }
        self.process: ForkedPython | None = None

    def start(self, suite: str, *options: str) -> None:
        """Start it."""
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        (self.folder / "test_suite.py").write_text(suite)
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        self.process = start(command, self.folder, self.environment)

    def find_cluster(self) -> int:
        """Return the id of the cluster's process, once it is started: its output is a log there."""
        found: list[int] = []

        def look() -> bool:
            for path in Path("/proc").glob("[0-9]*/fd/1"):
                with contextlib.suppress(OSError):
                    # Where pytest captures what a run prints is there too.
                    output = path.readlink()
                    if output.name == "log" and output.is_relative_to(self.temporary):
                        found.append(int(path.parts[2]))
            return bool(found)

        wait.poll_immediate("20ms", "2m", look)
        return found[0]

    def await_file(self, name: str) -> None:
        """Wait until the suite has written a file."""
        wait.poll_immediate("20ms", "2m", (self.folder / name).exists)

    def finish(self) -> str:
        """Return its output, once it has ended: before the limits of its waits."""
        assert self.process is not None
        return finish(self.process)[1]


@pytest.fixture
def dying(tmp_path: Path) -> Iterator[DyingRun]:
    """A run whose cluster is killed by the test."""
    made = DyingRun(tmp_path)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def check_end(output: str, line: str) -> None:
    """Check that a run said why it ended."""
    assert line in output
    assert "INTERNALERROR" not in output
    assert re.search(r"\b1 passed", output), output


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_killed_in_a_wait(dying: DyingRun, workers: str) -> None:
    dying.start(SUITE, workers)
    dying.await_file("waits")
    os.kill(dying.find_cluster(), signal.SIGKILL)
    output = dying.finish()
    check_end(output, ENDED)
    assert f"ClusterEnded: {ENDED}" in output
    assert "did not succeed within" not in output
    assert "ERROR at teardown" not in output, "the failure of the test is enough"
    assert list(dying.temporary.glob("kwait-*")) == []


def test_stopped_in_a_wait(dying: DyingRun) -> None:
    dying.start(SUITE)
    dying.await_file("waits")
    pid = dying.find_cluster()
    os.kill(pid, signal.SIGSTOP)
    output = dying.finish()
    line = f"the embedded cluster does not answer: its process {pid} is stopped (SIGSTOP)"
    check_end(output, line)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_step(dying: DyingRun, seed: int) -> None:
    rng = random.Random(seed)
    suite = SUITE.replace("600", "1").replace("while True", "for _ in range(20)")
    dying.start(suite, rng.choice(["-n0", "-n2"]), "--timeout=100")
    pid = dying.find_cluster()
    dying.await_file("begun")
    SYSTEM_CLOCK.sleep(rng.uniform(0.3, 6.0))
    # A run that was faster has ended its cluster itself, and has passed.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    output = dying.finish()
    assert "INTERNALERROR" not in output
    # A cluster that dies while it starts, or after the last test, has another line or none.
    started = "did not start (ended by signal 9)" in output
    assert ENDED in output or started or " passed in " in output, output


def test_folder_of_a_killed_run_is_removed_by_the_next(dying: DyingRun) -> None:
    dying.start(SUITE)
    dying.await_file("waits")
    pid = dying.find_cluster()
    assert dying.process is not None
    # First the cluster, which would remove the folder of a run that is killed.
    os.kill(pid, signal.SIGSTOP)
    dying.process.kill()
    dying.process.communicate()
    os.kill(pid, signal.SIGKILL)
    assert {each.name[:6] for each in dying.temporary.iterdir()} == {"kwait-"}
    left = [each.name for folder in dying.temporary.iterdir() for each in folder.iterdir()]
    assert "kubeconfig" in left
    dying.start("def test_next(kwait): pass\n")
    output = dying.finish()
    assert "1 passed" in output
    assert list(dying.temporary.iterdir()) == []


WAITING = """
from pathlib import Path

def test_wait(kwait, wait_for_pod_running):
    Path("waits").touch()
    wait_for_pod_running("nothing", timeout="4s", fail_fast=False)
"""


@pytest.mark.parametrize(
    ("number", "clause"),
    [
        (signal.SIGKILL, "has refused connections"),
        (signal.SIGSTOP, "has not answered"),
    ],
)
def test_server_that_is_away_is_named(tmp_path: Path, number: signal.Signals, clause: str) -> None:
    """On a cluster that outlives the run, which therefore does not watch its process."""
    cluster = SimulatorProcess(tmp_path / "kubeconfig", tmp_path / "log")
    try:
        process = begin(
            tmp_path, tmp_path / "kubeconfig", WAITING, "--timeout=60", "--kwait-deletion-wait=0"
        )
        wait.poll_immediate("20ms", "2m", (tmp_path / "waits").exists)
        os.kill(cluster.pid, number)
        output, _ = process.communicate(timeout=100)
    finally:
        cluster.stop()
    message = " ".join(line.removeprefix("E").strip() for line in output.splitlines())
    assert re.search(
        rf"did not get to phase Running within 4s: API server https://127\.0\.0\.1:\d+ {clause} "
        r"for [\d.]+s \(\d+ tr(y|ies)\); last seen: ",
        message,
    ), output
