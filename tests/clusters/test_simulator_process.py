from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.clock import SYSTEM_CLOCK, SystemClock
from pytest_kwait.clusters import simulator_process
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clock import Clock

FAKE = Path(__file__).with_name("fake_simulator.py")


def command(behaviour: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(FAKE), behaviour)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., SimulatorProcess]]:
    started: list[SimulatorProcess] = []

    def make(
        behaviour: str, *, owned: bool = True, clock: Clock = SYSTEM_CLOCK
    ) -> SimulatorProcess:
        process = SimulatorProcess(
            tmp_path / "kubeconfig", tmp_path / "log", command=command(behaviour), owned=owned,
            clock=clock,
        )  # fmt: skip
        started.append(process)
        return process

    yield make
    for process in started:
        process.stop()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_process, "_END_TIMEOUT", 0.05)


def gone(identity: ProcessIdentity | None) -> bool:
    assert identity is not None
    wait.poll_immediate("10ms", "5s", lambda: not identity.alive)
    return True


def test_it_is_ready_when_it_is_made_and_gets_all_it_needs(
    start: Callable[..., SimulatorProcess], tmp_path: Path
) -> None:
    process = start("ready")
    assert (tmp_path / "kubeconfig").exists()
    assert re.fullmatch(
        r"fake simulator: --nodes 2 --timing fast --port 0 "
        rf"--kubeconfig {re.escape(str(tmp_path / 'kubeconfig'))} --ready-fd \d+ --owner-fd \d+",
        process.tail().strip(),
    )


def test_stop_ends_it_and_may_be_called_again(start: Callable[..., SimulatorProcess]) -> None:
    process = start("ready")
    identity = ProcessIdentity.of(process.pid)
    process.stop()
    assert gone(identity)
    process.stop()
    assert process.wait() == 0


def test_it_is_not_ended_by_a_forked_copy_of_its_owner(
    start: Callable[..., SimulatorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start("ready")
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        process.stop()
    assert identity.alive


@pytest.mark.usefixtures("impatient")
def test_one_that_heeds_no_pipe_is_killed(start: Callable[..., SimulatorProcess]) -> None:
    process = start("deaf")
    process.stop()
    assert process.wait() == -signal.SIGKILL


def test_one_that_is_not_owned_is_asked_to_end(start: Callable[..., SimulatorProcess]) -> None:
    process = start("deaf", owned=False)
    process.stop()
    assert process.wait() == -signal.SIGTERM


@pytest.mark.usefixtures("impatient")
def test_one_that_heeds_nothing_is_killed(start: Callable[..., SimulatorProcess]) -> None:
    process = start("stubborn", owned=False)
    process.stop()
    assert process.wait() == -signal.SIGKILL


def test_one_that_is_not_owned_gets_no_pipe_and_can_be_left(
    start: Callable[..., SimulatorProcess],
) -> None:
    process = start("ready", owned=False)
    assert "--owner-fd" not in process.tail()
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    process.leave()
    assert identity.alive
    os.kill(process.pid, signal.SIGTERM)
    assert os.waitpid(process.pid, 0) == (process.pid, signal.SIGTERM)


def test_it_ends_however_its_owner_dies(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), *command("ready")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    identity = ProcessIdentity.of(int(owner.stdout.readline()))
    assert identity is not None
    assert identity.alive
    owner.kill()
    owner.communicate()
    assert gone(identity)


OWNER = """
import signal, sys
from pathlib import Path
from pytest_kwait.clusters.simulator_process import SimulatorProcess
folder = Path(sys.argv[1])
process = SimulatorProcess(folder / "kubeconfig", folder / "log", command=sys.argv[2:])
print(process.pid, flush=True)
signal.pause()
"""


def failure(
    start: Callable[..., SimulatorProcess], behaviour: str, clock: Clock = SYSTEM_CLOCK
) -> list[str]:
    with pytest.raises(ClusterError) as caught:
        start(behaviour, clock=clock)
    return str(caught.value).splitlines()


def test_a_failed_start_shows_what_it_said(start: Callable[..., SimulatorProcess]) -> None:
    lines = failure(start, "fails")
    assert lines[0] == "the embedded cluster did not start (exit status 3):"
    assert lines[1].startswith("fake simulator: --nodes 2 ")
    assert lines[2:] == ["OSError: [Errno 98] Address already in use"]


def test_a_start_that_was_killed_says_so(start: Callable[..., SimulatorProcess]) -> None:
    assert failure(start, "dies")[0] == "the embedded cluster did not start (ended by signal 9):"


class OverOnceSaid(SystemClock):
    """A clock whose limits are over as soon as a process has said something, and not before."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._began: float | None = None

    def monotonic(self) -> float:
        if self._began is None:
            self._began = super().monotonic()
            return self._began
        wait.poll_immediate("10ms", "60s", lambda: self._log.read_text().endswith("\n"))
        return math.inf


@pytest.mark.usefixtures("impatient")
def test_a_start_that_takes_too_long_is_ended(
    start: Callable[..., SimulatorProcess], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spawned: list[subprocess.Popen[bytes]] = []
    spawn = SimulatorProcess._spawn

    def spy(self: SimulatorProcess, *args: list[str]) -> subprocess.Popen[bytes]:
        spawned.append(spawn(self, *args))  # type: ignore[arg-type] # passed on as they come
        return spawned[0]

    monkeypatch.setattr(SimulatorProcess, "_spawn", spy)
    lines = failure(start, "mute", clock=OverOnceSaid(tmp_path / "log"))
    assert lines[0] == "the embedded cluster was not ready within 60s:"
    assert lines[1].startswith("fake simulator: --nodes 2 ")
    assert spawned[0].returncode == -signal.SIGKILL


def test_a_silent_failure_is_said_to_be_silent(tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        SimulatorProcess(tmp_path / "k", tmp_path / "log", command=("/bin/false",))
    assert str(caught.value) == (
        "the embedded cluster did not start (exit status 1); it said nothing"
    )


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "python"
    with pytest.raises(ClusterError) as caught:
        SimulatorProcess(tmp_path / "k", tmp_path / "log", command=(str(missing),))
    assert str(caught.value) == (
        f"the embedded cluster cannot be started: [Errno 2] No such file or directory: '{missing}'"
    )


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = set(Path("/dev/fd").iterdir())
    for behaviour in ("ready", "fails"):
        try:
            SimulatorProcess(
                tmp_path / "kubeconfig", tmp_path / "log", command=command(behaviour)
            ).stop()
        except ClusterError:
            assert behaviour == "fails"
    assert set(Path("/dev/fd").iterdir()) == before


@pytest.mark.parametrize("given", [None, "/elsewhere"])
def test_the_process_finds_the_package_that_we_are(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", given)
    monkeypatch.setattr(simulator_process, "_site_folders", list)
    root = str(Path(simulator_process.__file__).resolve().parents[2])
    path = simulator_process._environment()["PYTHONPATH"]
    assert path.split(os.pathsep) == ([given] if given else []) + [root]
    monkeypatch.setattr(simulator_process, "_site_folders", lambda: [root])
    assert simulator_process._environment().get("PYTHONPATH") == given
