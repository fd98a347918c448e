from __future__ import annotations

import math
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import trustme

from pytest_kwait import wait
from pytest_kwait.cli.state_file import ProcessIdentity
from pytest_kwait.clock import SYSTEM_CLOCK, SystemClock
from pytest_kwait.clusters import simulator_process
from pytest_kwait.clusters.simulator_process import (
    ProcessMonitor,
    SimulatorProcess,
    describe_exit,
    is_stopped,
)
from pytest_kwait.errors import ClusterError
from pytest_kwait.testing import FakeClock
from tests.client.scripted_server import ScriptedServer, answer

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
    monkeypatch.setattr(simulator_process, "_STOP_TIMEOUT", 0.05)


def gone(identity: ProcessIdentity | None) -> bool:
    assert identity is not None
    wait.poll_immediate("10ms", "5s", lambda: not identity.alive)
    return True


def test_process_is_ready_after_creation(
    start: Callable[..., SimulatorProcess], tmp_path: Path
) -> None:
    process = start("ready")
    assert (tmp_path / "kubeconfig").exists()
    assert re.fullmatch(
        rf"fake simulator: {{}} --kubeconfig {re.escape(str(tmp_path / 'kubeconfig'))} "
        r"--options-fd \d+ --ready-fd \d+ --owner-fd \d+",
        process.tail().strip(),
    )


def test_stop_is_idempotent(start: Callable[..., SimulatorProcess]) -> None:
    process = start("ready")
    identity = ProcessIdentity.of(process.pid)
    process.stop()
    assert gone(identity)
    process.stop()
    assert process.wait() == 0


def test_forked_owner_does_not_end_the_process(
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
def test_process_ignoring_its_pipe_is_killed(start: Callable[..., SimulatorProcess]) -> None:
    process = start("deaf")
    process.stop()
    assert process.wait() == -signal.SIGKILL


def test_unowned_process_gets_sigterm(start: Callable[..., SimulatorProcess]) -> None:
    process = start("deaf", owned=False)
    process.stop()
    assert process.wait() == -signal.SIGTERM


@pytest.mark.usefixtures("impatient")
def test_process_ignoring_sigterm_is_killed(start: Callable[..., SimulatorProcess]) -> None:
    process = start("stubborn", owned=False)
    process.stop()
    assert process.wait() == -signal.SIGKILL


def test_unowned_process_outlives_its_starter(
    start: Callable[..., SimulatorProcess],
) -> None:
    process = start("ready", owned=False)
    assert "--owner-fd" not in process.tail()
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    process.detach()
    assert identity.alive
    os.kill(process.pid, signal.SIGTERM)
    assert os.waitpid(process.pid, 0) == (process.pid, signal.SIGTERM)


def test_process_ends_with_its_owner(tmp_path: Path) -> None:
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


def test_failed_start_shows_the_output(start: Callable[..., SimulatorProcess]) -> None:
    lines = failure(start, "fails")
    assert lines[0] == "the embedded cluster did not start (exit status 3):"
    assert lines[1].startswith("fake simulator: {} --kubeconfig ")
    assert lines[2:] == ["OSError: [Errno 98] Address already in use"]


def test_killed_start_is_reported(start: Callable[..., SimulatorProcess]) -> None:
    assert failure(start, "dies")[0] == "the embedded cluster did not start (ended by signal 9):"


class OverOnceSaid(SystemClock):
    """A clock whose limits expire at a process's first output."""

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
    assert lines[1].startswith("fake simulator: {} --kubeconfig ")
    assert spawned[0].returncode == -signal.SIGKILL


def test_failure_without_output_is_reported(tmp_path: Path) -> None:
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
def test_process_imports_the_same_package(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", given)
    monkeypatch.setattr(simulator_process, "_site_folders", list)
    root = str(Path(simulator_process.__file__).resolve().parents[2])
    path = simulator_process.python_environment()["PYTHONPATH"]
    assert path.split(os.pathsep) == ([given] if given else []) + [root]
    monkeypatch.setattr(simulator_process, "_site_folders", lambda: [root])
    assert simulator_process.python_environment().get("PYTHONPATH") == given


class Process:
    """A process that a test ends."""

    pid = 4711
    code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def tail(self) -> str:
        return "Traceback:\nMemoryError\n"


class Monitored:
    """A monitor whose process and server do as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.process, self.clock = Process(), FakeClock()
        self.reports: list[str] = []
        self.stopped, self.answers = False, True
        monkeypatch.setattr(simulator_process, "is_stopped", lambda pid: self.stopped)
        self.monitor = ProcessMonitor(
            cast("SimulatorProcess", self.process),
            "https://127.0.0.1:1",
            self.reports.append,
            self.clock,
        )
        monkeypatch.setattr(self.monitor, "_can_connect", lambda: self.answers)

    def look(self, seconds: int) -> list[str]:
        """Look once a second; return what is reported meanwhile."""
        self.reports.clear()
        for _ in range(seconds):
            self.clock.advance(1)
            self.monitor.check()
        return list(self.reports)


@pytest.fixture
def monitored(monkeypatch: pytest.MonkeyPatch) -> Monitored:
    return Monitored(monkeypatch)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (-9, "the embedded cluster has ended (signal 9)"),
        (0, "the embedded cluster has ended (exit status 0)"),
        (1, "the embedded cluster has ended (exit status 1): MemoryError"),
    ],
)
def test_end_of_the_process_is_reported_with_its_cause(
    monitored: Monitored, code: int, problem: str
) -> None:
    assert monitored.look(20) == []
    monitored.process.code = code
    assert monitored.monitor.check()
    assert monitored.reports == [problem]
    assert describe_exit(code) in problem


def test_stopped_process_is_a_problem_until_it_continues(monitored: Monitored) -> None:
    monitored.stopped = True
    assert monitored.look(4) == []
    assert monitored.look(5) == [
        "the embedded cluster does not answer: its process 4711 is stopped (SIGSTOP)"
    ]
    monitored.stopped = False
    assert monitored.look(1) == [""]
    monitored.stopped = True
    assert monitored.look(4) == [], "each stop counts by itself"


def test_silent_process_is_a_problem_until_it_answers(monitored: Monitored) -> None:
    monitored.answers = False
    assert monitored.look(34) == []
    assert monitored.look(30) == ["the embedded cluster has not answered for 30s"]
    monitored.answers = True
    assert monitored.look(5) == [""]


def test_intended_end_is_not_reported(monitored: Monitored) -> None:
    monitored.monitor.stop()
    monitored.process.code = -9
    assert monitored.monitor.check()
    assert monitored.reports == []


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def test_stopped_processes_are_recognized(child: subprocess.Popen[bytes]) -> None:
    if sys.platform != "linux":
        pytest.skip("other systems do not say in which state a process is")
    assert not is_stopped(child.pid)
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    assert is_stopped(child.pid)
    child.kill()
    child.wait()
    assert not is_stopped(child.pid)


@pytest.mark.parametrize("supported", [True, False])
def test_end_is_noticed_at_once(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    if not supported:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
        monkeypatch.setattr(simulator_process, "_INTERVAL", 0.01)
    reported = threading.Event()
    problems: list[str] = []

    def report(problem: str) -> None:
        problems.append(problem)
        reported.set()

    ProcessMonitor(cast("SimulatorProcess", child), "https://127.0.0.1:1", report).start()
    child.kill()
    assert reported.wait(60)
    assert problems == ["the embedded cluster has ended (signal 9)"]


def test_probe_is_a_tls_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator_process, "_PROBE_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        silent = ProcessMonitor(cast("Any", Process()), address, print)
        assert not silent._can_connect(), "connected by the system, and no handshake"
    assert not silent._can_connect(), "refused"


def test_probe_of_a_running_server_succeeds() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with ScriptedServer(answer(), tls=context) as server:
        monitor = ProcessMonitor(cast("Any", Process()), server.address, print)
        assert monitor._can_connect()
        assert server.requests == [], "a probe counts as no request"
