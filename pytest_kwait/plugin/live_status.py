"""Status of running waits: a live line, a periodic line, a list on SIGUSR1.

It is written to a file descriptor of its own: pytest's capture and the output of tests are
not touched. SIGUSR1 is taken only where no other handler is installed. Under pytest-xdist
the controller draws for its workers.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.engine.active_waits import WaitObserver
from pytest_kwait.engine.failure.shortening import cut_line, replace_unprintable
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.run import is_active, run_of
from pytest_kwait.plugin.timeout import near_limit, running_item
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits
    from pytest_kwait.plugin.run import Run

STATUS_INTERVAL = 60.0
"""Seconds between two lines about long waits, without a terminal."""

_POLL_INTERVAL = 0.25
"""Seconds between two updates on a terminal."""

_SHOW_AFTER = 0.5
"""Seconds after which a wait gets a live line."""

_LIMIT_POLL_INTERVAL = 1.0
"""Seconds between two checks of the test's own limit, which may change."""

# Make room for one line below the cursor, write there, restore the cursor.
_BELOW = "\x1bD\x1b[A\x1b7\r\n\x1b[2K{}\x1b8"
_ERASE = "\x1b[J"

_NAMESPACE = re.compile(r"\bt-[a-z0-9-]+/")


class StatusWriter:
    """Writes status lines to a file descriptor.

    Args:
        descriptor: an open file descriptor, owned by the writer.
        prefix: the prefix of each line.
        live: whether it is a terminal for a live line.
        periodic: whether periodic lines are written.
        break_line: called before whole lines: ends pytest's unfinished line, and returns
            whether there was one.
    """

    def __init__(
        self,
        descriptor: int,
        prefix: str,
        *,
        live: bool,
        periodic: bool,
        break_line: Callable[[], bool],
    ) -> None:
        self._descriptor = descriptor
        self._prefix = prefix
        self.live = live
        self.periodic = periodic
        self._break_line = break_line
        self._drawn = False

    def draw(self, text: str) -> None:
        """Show one line below the cursor, in place of the previous one."""
        self._write(_BELOW.format(_truncate_line(f"{self._prefix}{text}", self._width() - 1)))
        self._drawn = True

    def erase(self) -> None:
        """Remove the live line."""
        if self._drawn:
            self._drawn = False
            self._write(_ERASE)

    def lines(self, first: str, rest: Sequence[str] = ()) -> None:
        """Write permanent lines; safe in signal handlers."""
        start = _ERASE if self._drawn else ""
        self._drawn = False
        start += "\n" if self._break_line() else ""
        texts = [
            f"{self._prefix}{replace_unprintable(first)}",
            *(f"  {replace_unprintable(text)}" for text in rest),
        ]
        self._write(start + "\n".join(texts) + "\n")

    def close(self) -> None:
        """Close the descriptor."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            # The reader is gone or too slow; no wait ends for that.
            return


class RelayedStatusWriter(StatusWriter):
    """Writer of a worker whose controller draws the live line.

    Args:
        descriptor: the file descriptor of permanent lines.
        prefix: the prefix of each line.
        relay: sends the live line to the controller; an empty one hides it.
    """

    def __init__(self, descriptor: int, prefix: str, relay: Callable[[str], None]) -> None:
        super().__init__(descriptor, prefix, live=True, periodic=False, break_line=lambda: True)
        self._relay = relay
        self._shown = ""

    def draw(self, text: str) -> None:
        """Send the live line."""
        self._drawn = True
        if text != self._shown:
            self._shown = text
            self._relay(text)

    def erase(self) -> None:
        """Hide the live line."""
        self._drawn = False
        if self._shown:
            self._shown = ""
            self._relay("")


class StatusReporter(WaitObserver):
    """Reports the waits of this process, from a thread that lives while waits are active.

    Args:
        limit: returns when the current test's own timeout counts as near, and that timeout
            in seconds; None without one.
    """

    def __init__(
        self,
        writer: StatusWriter,
        pending: ActiveWaits,
        limit: Callable[[], tuple[Deadline, float] | None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._writer = writer
        self._pending = pending
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        """Shows the active waits; None while there are none."""
        self._closed = False
        self._hushed = False
        self._draw_at = 0.0
        self._write_at = 0.0
        self._warned: Deadline | None = None

    def on_start(self, wait: ActiveWait) -> None:
        """Handle the start of a wait."""
        with self._lock:
            if self._closed or self._worker is not None:
                return
            now = self._clock.monotonic()
            self._draw_at, self._write_at = now + _SHOW_AFTER, now + STATUS_INTERVAL
            worker = Worker("kwait-reporter", lambda: self._run(worker), self._clock)
            self._worker = worker
            worker.start()

    def on_end(self, wait: ActiveWait) -> None:
        """Handle the end of a wait: removes the live line before pytest prints."""
        with self._lock:
            self._writer.erase()
            if self._worker is not None and not self._pending.waits():
                self._worker.wake()

    def suspend(self) -> None:
        """Stop drawing: pytest is about to print."""
        with self._lock:
            self._hushed = True
            self._writer.erase()

    def resume(self) -> None:
        """Draw again: a test runs."""
        self._hushed = False

    def show(self, text: str) -> None:
        """Show the status of another process, unless suspended; "" hides it."""
        with self._lock:
            if self._closed or self._hushed or not self._writer.live:
                return
            if text:
                self._writer.draw(text)
            else:
                self._writer.erase()

    def write_line(self, line: str) -> None:
        """Write a permanent line."""
        with self._lock:
            self._writer.lines(line)

    def close(self) -> None:
        """Stop reporting."""
        with self._lock:
            self._closed = True
            self._writer.erase()
            worker = self._worker
        if worker is not None:
            worker.stop()
            worker.join(1.0)
        self._writer.close()

    def report(self, why: str) -> None:
        """List the active waits; takes no lock, for signal handlers."""
        waits = self._pending.waits()
        noun = "1 wait is" if len(waits) == 1 else f"{len(waits) or 'no'} waits are"
        self._writer.lines(f"{noun} pending ({why})", [str(wait) for wait in waits])

    def _run(self, worker: Worker) -> None:
        while worker.pause(self._pause()):
            if self._is_due():
                for wait in self._pending.waits():
                    wait.learn_secrets(None)
            with self._lock:
                waits = self._pending.waits()
                if self._closed or not waits:
                    self._worker = None
                    return
                self._show_waits(waits)

    def _pause(self) -> float:
        now = self._clock.monotonic()
        if self._writer.live:
            return max(self._draw_at - now, _POLL_INTERVAL)
        limit = self._limit()
        near = (
            limit[0].at
            if limit is not None and limit[0] is not self._warned
            else now + _LIMIT_POLL_INTERVAL
        )
        return max(0.01, min(self._write_at, near, now + _LIMIT_POLL_INTERVAL) - now)

    def _is_due(self) -> bool:
        """Return whether a text of the active waits is to be shown now."""
        now = self._clock.monotonic()
        if self._writer.live:
            return now >= self._draw_at and not self._hushed
        limit = self._limit()
        near = limit is not None and limit[0].expired and limit[0] is not self._warned
        return near or (self._writer.periodic and now >= self._write_at)

    def _show_waits(self, waits: list[ActiveWait]) -> None:
        now = self._clock.monotonic()
        limit = self._limit()
        if limit is not None and limit[0].expired and limit[0] is not self._warned:
            self._warned = limit[0]
            self.report(f"the test's own timeout of {format_duration(limit[1])} is near")
        first = min(waits, key=lambda wait: wait.deadline.at)
        more = f", {len(waits) - 1} more" if len(waits) > 1 else ""
        if self._writer.live:
            if now >= self._draw_at and not self._hushed:
                self._writer.draw(f"{first.left} left{more}: {first.text}")
        elif self._writer.periodic and now >= self._write_at:
            self._write_at = now + STATUS_INTERVAL
            self._writer.lines(f"still waiting{more}: {first}")


def _truncate_line(text: str, width: int) -> str:
    line = replace_unprintable(text)
    if len(line) > width:
        # The latest verdict is at the end, and matters more than a generated namespace.
        line = _NAMESPACE.sub(".../", line)
    return cut_line(line, width)


def break_line_of(reporter: Any) -> Callable[[], bool]:
    """Return a function that ends the unfinished line of pytest's terminal reporter.

    Source: pytest's TerminalReporter.ensure_newline, which would write through the capture.
    """

    def break_line() -> bool:
        begun = bool(reporter.currentfspath)
        reporter.currentfspath = None
        return begun

    return break_line


class SignalHandler:
    """Calls a function on SIGUSR1, until it is restored.

    The present handler is read from the system: Python's `signal.getsignal` does not know those of
    `faulthandler.register`.

    Args:
        show_waits: called in the main thread at any point: it must take no lock.
    """

    def __init__(self, show_waits: Callable[[], object]) -> None:
        self._show_waits: Callable[[], object] | None = show_waits
        self._handler: int | None = None

    def install(self) -> None:
        """Install the handler if the signal is free; only in the main thread."""
        number = getattr(signal, "SIGUSR1", None)
        if (
            number is None
            or self._handler is not None
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(number) is not signal.SIG_DFL
            or _handler_of(number) != 0
        ):
            return
        signal.signal(number, self._handle_signal)
        self._handler = _handler_of(number)

    def restore(self) -> None:
        """Restore the signal, unless another handler was installed meanwhile."""
        self._show_waits = None
        if self._handler is None:
            return
        # Compare bound methods by equality, not identity.
        ours = signal.getsignal(signal.SIGUSR1) == self._handle_signal
        if ours and _handler_of(signal.SIGUSR1) == self._handler:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if self._show_waits is not None:
            self._show_waits()


def _handler_of(number: int) -> int | None:
    """Return the address of the system's handler; 0 for none, None if unknown."""
    import ctypes

    interpreter = getattr(ctypes, "pythonapi", None)
    if interpreter is None:
        return None
    find = interpreter.PyOS_getsig
    find.restype = ctypes.c_void_p
    return find(number) or 0


class LiveStatus(WaitObserver):
    """Observes waits, and creates the reporter at the first one.

    Args:
        descriptor: the file descriptor to write to, owned by this object.
    """

    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self._config = config
        self._descriptor = descriptor
        self._reporter: StatusReporter | None = None
        self._signal: SignalHandler | None = None
        self.quiet = True
        """True while pytest prints to the terminal."""
        self._lines: dict[str, str] = {}
        self._lines_lock = threading.Lock()
        self._has_progress = False

    def on_start(self, wait: ActiveWait) -> None:
        """Handle the start of a wait."""
        if not self._has_progress:
            self.reporter().on_start(wait)
        self.expect_signal()

    def on_end(self, wait: ActiveWait) -> None:
        """Handle the end of a wait."""
        if not self._has_progress:
            self.reporter().on_end(wait)

    def show_progress(self, text: str) -> None:
        """Draw the progress of the run in place of its waits, in tests and between them.

        Args:
            text: one line; empty for the end of the progress.
        """
        self._has_progress = bool(text)
        reporter = self.reporter()
        if text:
            reporter.resume()
            reporter.show(text)
        else:
            reporter.suspend()

    def reporter(self) -> StatusReporter:
        """Return the reporter, created on first use."""
        if self._reporter is None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            config = self._config
            worker = getattr(config, "workerinput", {}).get("workerid", "")
            reporter = config.pluginmanager.getplugin("terminalreporter")
            prefix = f"kwait [{worker}]: " if worker else "kwait: "
            relay = _relay_of(config)
            if relay is not None:
                writer: StatusWriter = RelayedStatusWriter(self._descriptor, prefix, relay)
            else:
                writer = StatusWriter(
                    self._descriptor,
                    prefix,
                    live=_is_live(config, self._descriptor),
                    periodic=_writes_periodically(config),
                    # Workers do not know the controller's unfinished line.
                    break_line=(lambda: True) if worker else break_line_of(reporter),
                )
            reporter = self._reporter = StatusReporter(
                writer, ACTIVE_WAITS, lambda: near_limit(running_item(config))
            )
            if self.quiet:
                reporter.suspend()
            self._signal = SignalHandler(lambda: reporter.report("SIGUSR1"))
        return self._reporter

    def expect_signal(self) -> None:
        """Install the signal handler although this process has no waits."""
        self.reporter()
        if self._signal is not None:
            self._signal.install()

    def show_line(self, worker: str, line: str) -> None:
        """Show the status of a worker; called by the thread that receives it."""
        if self._has_progress:
            return
        with self._lines_lock:
            self._lines.pop(worker, None)
            if line:
                self._lines[worker] = line
            first = next(iter(sorted(self._lines)), "")
            text = f"[{first}] {self._lines[first]}" if first else ""
            others = len(self._lines) - 1
            if others > 0:
                text = f"{others} more {'worker waits' if others == 1 else 'workers wait'}, {text}"
            self.reporter().show(text)

    def draws(self) -> bool:
        """Return whether this process draws a live line for itself and its workers."""
        return _is_live(self._config, self._descriptor)

    def suspend(self) -> None:
        """Stop drawing: pytest prints."""
        self.quiet = True
        if self._reporter is not None and not self._has_progress:
            self._reporter.suspend()

    def resume(self) -> None:
        """Draw again."""
        self.quiet = False
        if self._reporter is not None:
            self._reporter.resume()

    def close(self) -> None:
        """Stop reporting."""
        if self._signal is not None:
            self._signal.restore()
        if self._reporter is not None:
            self._reporter.close()
        else:
            os.close(self._descriptor)


class LiveStatusControl:
    """Starts and ends the live status, and suspends it while pytest prints."""

    def __init__(self, run: Run) -> None:
        self._config = run.config
        self._is_worker = run.is_worker
        self.status: LiveStatus | None = None
        """None without a stream to write to."""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Start now in a run that is activated while tests are collected or run."""
        if config.pluginmanager.hasplugin("session"):
            self.pytest_sessionstart()

    def pytest_sessionstart(self) -> None:
        """Duplicate the file descriptor of the terminal, or of the log."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        manager = self._config.pluginmanager
        # A worker's standard output is the channel to its controller; its standard error goes to
        # the controller's.
        if self.status is not None or not (
            self._is_worker or manager.hasplugin("terminalreporter")
        ):
            return
        capture = manager.getplugin("capturemanager")
        try:
            with (
                contextlib.nullcontext()
                if capture is None
                else capture.global_and_fixture_disabled()
            ):
                descriptor = os.dup((sys.stderr if self._is_worker else sys.stdout).fileno())
        except (AttributeError, OSError, ValueError):
            # No stream, or not a file, as if pytest is run by a program.
            return
        self.status = LiveStatus(self._config, descriptor)
        ACTIVE_WAITS.add(self.status)

    def suspend(self) -> None:
        """Stop drawing: another program uses the terminal."""
        if self.status is not None:
            self.status.suspend()

    def resume(self) -> None:
        """Draw again."""
        if self.status is not None:
            self.status.resume()

    @contextlib.contextmanager
    def _suspended(self) -> Iterator[None]:
        """Stop drawing during the block."""
        if self.status is None or self.status.quiet:
            yield
            return
        self.status.suspend()
        try:
            yield
        finally:
            self.status.resume()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Handle a signal meant for workers, which would end their controller; draw for them."""
        if self.status is not None:
            self.status.expect_signal()
            node.workerinput["kwait_live"] = self.status.draws()
            self.status.resume()

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Stop drawing while the controller prints the outcome of a test."""
        # `node` is set by pytest-xdist on reports that a controller receives.
        if getattr(report, "node", None) is None:
            return (yield)
        with self._suspended():
            return (yield)

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_testnodedown(self, node: Any) -> Generator[None, object, object]:
        """Forget the status of a worker, and stop drawing while its end is printed."""
        if self.status is not None:
            self.status.show_line(node.gateway.id, "")
        with self._suspended():
            return (yield)

    # First: other plugins print in this hook.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stop drawing for pytest's summary."""
        self.suspend()

    def pytest_runtest_setup(self) -> None:
        """Draw while the test is set up."""
        self.resume()

    def pytest_runtest_call(self) -> None:
        """Draw while the test runs."""
        self.resume()

    def pytest_runtest_teardown(self) -> None:
        """Draw while the test is torn down."""
        self.resume()

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Stop drawing after each phase of a test: pytest prints its outcome next."""
        self.suspend()
        return (yield)

    def pytest_unconfigure(self) -> None:
        """Stop reporting, and restore the signal."""
        if self.status is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            status, self.status = self.status, None
            ACTIVE_WAITS.remove(status)
            status.close()


def live_status_of(config: pytest.Config) -> LiveStatus | None:
    """Return the live status of this process; None without one."""
    control = run_of(config).find(LiveStatusControl) if is_active(config) else None
    return None if control is None else control.status


@contextlib.contextmanager
def showing_status(config: pytest.Config) -> Iterator[None]:
    """Draw during the block, outside of tests."""
    resume_status(config)
    try:
        yield
    finally:
        suspend_status(config)


def show_worker_status(config: pytest.Config, worker: str, line: str) -> None:
    """Show the status of a worker."""
    if (status := live_status_of(config)) is not None:
        status.show_line(worker, line)


def show_progress(config: pytest.Config, text: str) -> bool:
    """Draw the progress of the run, in place of its waits; an empty text ends it.

    Returns:
        whether there is a terminal to draw it on.
    """
    status = live_status_of(config)
    if status is None or not status.draws():
        return False
    status.show_progress(text)
    return True


def write_line(config: pytest.Config, line: str) -> None:
    """Write a permanent line, from any thread."""
    if (status := live_status_of(config)) is not None:
        status.reporter().write_line(line)


def suspend_status(config: pytest.Config) -> None:
    """Stop drawing: another program uses the terminal."""
    if (status := live_status_of(config)) is not None:
        status.suspend()


def resume_status(config: pytest.Config) -> None:
    """Draw again."""
    if (status := live_status_of(config)) is not None:
        status.resume()


def _relay_of(config: pytest.Config) -> Callable[[str], None] | None:
    """Return a function that sends the live line to a drawing controller; None without one."""
    given = getattr(config, "workerinput", {})
    if not given.get("kwait_live"):
        return None
    return run_of(config).source.show


def _writes_periodically(config: pytest.Config) -> bool:
    """Return whether periodic lines are written."""
    return config.get_verbosity() > -2


def _is_live(config: pytest.Config, descriptor: int) -> bool:
    """Return whether a live line is visible and disturbs no other output."""
    return (
        os.isatty(descriptor)
        and os.environ.get("TERM", "dumb") != "dumb"
        and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))
        and not hasattr(config, "workerinput")
        # pytest-xdist prints outcomes of several workers at any time.
        and (config.get_verbosity() == 0 or config.getoption("dist", "no") == "no")
        and config.get_verbosity() >= 0
        # Output of tests would overwrite it.
        and config.getoption("capture") != "no"
        and config.getoption("log_cli_level") is None
        and not config.getini("log_cli")
    )
