from __future__ import annotations

import faulthandler
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.plugin.live_status import (
    STATUS_INTERVAL,
    SignalHandler,
    StatusReporter,
    StatusWriter,
)
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BELOW = "\x1bD\x1b[A\x1b7\r\n\x1b[2K{}\x1b8"
ERASED = "\x1b[J"


class StepClock(FakeClock):
    """Stands still until the test moves it, and lets the one thread that waits do its work."""

    def __init__(self) -> None:
        super().__init__()
        self.at_rest = threading.Semaphore(0)
        self._go = threading.Semaphore(0)
        self._pause = 0.0

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        self._pause = timeout or 0.0
        self.at_rest.release()
        while not self._go.acquire(timeout=0.005):
            if event.is_set():
                self.at_rest.acquire()
                return True
        return event.is_set()

    def advance(self, seconds: float) -> None:
        end = self.monotonic() + seconds
        while True:
            assert self.at_rest.acquire(timeout=10.0)
            if self.monotonic() + self._pause > end:
                super().advance(end - self.monotonic())
                self.at_rest.release()
                return
            super().advance(self._pause)
            self._go.release()


class Stage:
    """A reporter that writes to a pipe, on a clock that the test moves."""

    def __init__(self, *, live: bool) -> None:
        self._reader, descriptor = os.pipe()
        os.set_blocking(self._reader, False)
        self.clock = StepClock()
        self.pending = ActiveWaits()
        self.limit: tuple[Deadline, float] | None = None
        self.mid_line = False
        writer = StatusWriter(
            descriptor, "kwait: ", live=live, periodic=not live, break_line=self._break
        )
        self.reporter = StatusReporter(writer, self.pending, lambda: self.limit, self.clock)
        self.pending.add(self.reporter)

    def _break(self) -> bool:
        begun, self.mid_line = self.mid_line, False
        return begun

    def wait(self, subject: str = "pod ci-1/a", seconds: float = 300.0) -> ActiveWait:
        deadline = Deadline.after(seconds, self.clock)
        wait = ActiveWait(subject, "be ready", deadline, Timeline(), self.clock.monotonic())
        wait.timeline.record(0.0, "Pending")
        return wait

    def said(self) -> str:
        try:
            return os.read(self._reader, 65536).decode()
        except BlockingIOError:
            return ""

    def close(self) -> None:
        self.reporter.close()
        os.close(self._reader)


@pytest.fixture
def log() -> Iterator[Stage]:
    stage = Stage(live=False)
    yield stage
    stage.close()


@pytest.fixture
def terminal() -> Iterator[Stage]:
    stage = Stage(live=True)
    yield stage
    stage.close()


def narrators() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kwait-reporter"]


def test_log_has_a_line_per_wait_and_minute(log: Stage) -> None:
    log.mid_line = True
    with log.pending.entered(log.wait()):
        log.clock.advance(59.0)
        assert log.said() == ""
        log.clock.advance(2.0)
        text = "pod ci-1/a to be ready: Pending"
        assert log.said() == f"\nkwait: still waiting: {text} (after 1m0s, 4m0s left)\n"
        log.clock.advance(STATUS_INTERVAL)
        assert log.said() == f"kwait: still waiting: {text} (after 2m0s, 3m0s left)\n"
    assert log.said() == ""


def test_log_names_the_wait_with_the_earliest_limit(log: Stage) -> None:
    with log.pending.entered(log.wait()), log.pending.entered(log.wait("pod ci-1/b", 100.0)):
        log.clock.advance(61.0)
        text = "pod ci-1/b to be ready: Pending (after 1m0s, 40s left)"
        assert log.said() == f"kwait: still waiting, 1 more: {text}\n"


def test_a_terminal_shows_one_line_below_the_cursor(terminal: Stage) -> None:
    wait = terminal.wait()
    with terminal.pending.entered(wait):
        terminal.reporter.suspend()
        terminal.reporter.resume()
        terminal.clock.advance(0.25)
        assert terminal.said() == ""
        terminal.clock.advance(0.5)
        drawn = BELOW.format("kwait: 4m59s left: pod ci-1/a to be ready: Pending")
        assert terminal.said() == drawn
        wait.timeline.record(1.0, "Running\x1b[31m" + "x" * 80)
        terminal.clock.advance(0.25)
        line = "kwait: 4m59s left: pod ci-1/a to be ready: Running [31mxxxxxxxxxxxxxxxxxxxxx..."
        assert len(line) == 79
        assert terminal.said().endswith(BELOW.format(line))
    assert terminal.said() == ERASED


def test_namespace_is_cut_before_the_state(terminal: Stage) -> None:
    wait = terminal.wait("job t-workers-start-and-are-ready-x4k2p/sleepers")
    with terminal.pending.entered(wait):
        wait.timeline.record(0.0, "1 of 3 pods is Running")
        terminal.clock.advance(0.5)
        line = "kwait: 5m0s left: job .../sleepers to be ready: 1 of 3 pods is Running"
        assert terminal.said() == BELOW.format(line)


def test_nothing_is_drawn_while_pytest_prints(terminal: Stage) -> None:
    with terminal.pending.entered(terminal.wait()):
        terminal.clock.advance(1.0)
        terminal.reporter.suspend()
        assert terminal.said().endswith(ERASED)
        terminal.clock.advance(1.0)
        assert terminal.said() == ""
        terminal.reporter.resume()
        terminal.clock.advance(0.25)
        assert "kwait: " in terminal.said()


@pytest.mark.parametrize("live", [False, True])
def test_before_the_tests_own_timeout_all_pending_waits_are_listed_once(live: bool) -> None:
    stage = Stage(live=live)
    stage.limit = (Deadline.after(2.0, stage.clock), 3.0)
    with stage.pending.entered(stage.wait()), stage.pending.entered(stage.wait("pod ci-1/b")):
        stage.clock.advance(3.0)
        said = stage.said()
    assert said.count("is near") == 1
    assert (
        "kwait: 2 waits are pending (the test's own timeout of 3s is near)\n"
        "  pod ci-1/a to be ready: Pending (after 2s, 4m58s left)\n"
        "  pod ci-1/b to be ready: Pending (after 2s, 4m58s left)\n"
    ) in said
    stage.close()


def test_thread_runs_while_a_wait_is_active(log: Stage) -> None:
    assert narrators() == []
    for _ in range(2):
        with log.pending.entered(log.wait()):
            log.clock.advance(0.5)
            assert len(narrators()) == 1
        for thread in narrators():
            thread.join(10.0)
        assert narrators() == []


def test_closed_output_ends_no_wait(log: Stage) -> None:
    os.close(log._reader)
    log.reporter.report("SIGUSR1")
    log._reader = os.open(os.devnull, os.O_RDONLY)


def test_no_pending_wait_is_reported(log: Stage) -> None:
    log.reporter.report("SIGUSR1")
    assert log.said() == "kwait: no waits are pending (SIGUSR1)\n"


needs_signal = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")


@pytest.fixture
def free_signal() -> Iterator[None]:
    """Take the signal from the run that these tests are in, which may have it."""
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGUSR1, before)


@needs_signal
@pytest.mark.usefixtures("free_signal")
def test_the_signal_is_taken_and_given_back() -> None:
    told: list[bool] = []
    report = SignalHandler(lambda: told.append(True))
    report.install()
    report.install()
    signal.raise_signal(signal.SIGUSR1)
    assert told == [True]
    report.restore()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


@needs_signal
@pytest.mark.usefixtures("free_signal")
def test_foreign_signal_handler_is_kept() -> None:
    def theirs(*_: object) -> None:
        """A foreign handler."""

    signal.signal(signal.SIGUSR1, theirs)
    report = SignalHandler(lambda: None)
    report.install()
    assert signal.getsignal(signal.SIGUSR1) is theirs
    report.restore()
    assert signal.getsignal(signal.SIGUSR1) is theirs


@needs_signal
@pytest.mark.usefixtures("free_signal")
@pytest.mark.parametrize("first", [True, False])
def test_registered_faulthandler_is_kept(first: bool, tmp_path: Path) -> None:
    told: list[bool] = []
    report = SignalHandler(lambda: told.append(True))
    with (tmp_path / "dump").open("w+") as file:
        if not first:
            report.install()
        # Of all threads it tells of a hundred, and other tests may have left more.
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=False)
        try:
            if first:
                report.install()
            report.restore()
            signal.raise_signal(signal.SIGUSR1)
            file.seek(0)
            assert "test_registered_faulthandler_is_kept" in file.read()
            assert told == []
        finally:
            faulthandler.unregister(signal.SIGUSR1)


@needs_signal
@pytest.mark.usefixtures("free_signal")
def test_other_threads_install_no_signal_handler() -> None:
    report = SignalHandler(lambda: None)
    thread = threading.Thread(target=report.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
