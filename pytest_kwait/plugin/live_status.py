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

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.plugin.run import near_limit, running_item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits

__all__ = [
    "STATUS_INTERVAL",
    "LiveStatus",
    "RelayedStatusWriter",
    "SignalHandler",
    "StatusReporter",
    "StatusWriter",
    "break_line_of",
    "resume_status",
    "show_worker_status",
    "showing_status",
    "suspend_status",
    "write_line",
]

STATUS_INTERVAL = 60.0
"""Seconds between two lines about waits that last, where there is no terminal."""

_POLL_INTERVAL = 0.25
"""Seconds between two looks at what is pending on a terminal."""

_SHOW_AFTER = 0.5
"""Seconds that a wait must last to be worth a live line."""

_LIMIT_POLL_INTERVAL = 1.0
"""Seconds between two looks at a test's own limit, which may be another one by then."""

# Make room for one line below the cursor without moving it sideways, write there, come back.
_BELOW = "\x1bD\x1b[A\x1b7\r\n\x1b[2K{}\x1b8"
_ERASE = "\x1b[J"

_NAMESPACE = re.compile(r"\bkwait-[a-z0-9-]+/")


class StatusWriter:
    """Where it is written to.

    Args:
        descriptor: an open file descriptor, which is the writer's own from then on.
        prefix: what each line starts with.
        live: whether there is a terminal to draw a line on.
        periodic: whether a line may be written from time to time.
        break_line: called before whole lines are written: ends what pytest has begun to write in
            its own books, and returns whether there is anything begun.
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
        """Show one line below the cursor, instead of the one before."""
        self._write(_BELOW.format(_truncate_line(f"{self._prefix}{text}", self._width() - 1)))
        self._drawn = True

    def erase(self) -> None:
        """Leave the terminal as it was before anything was drawn."""
        if self._drawn:
            self._drawn = False
            self._write(_ERASE)

    def lines(self, first: str, rest: Sequence[str] = ()) -> None:
        """Write lines that stay; safe in signal handlers."""
        start = _ERASE if self._drawn else ""
        self._drawn = False
        start += "\n" if self._break_line() else ""
        texts = [
            f"{self._prefix}{_to_printable(first)}",
            *(f"  {_to_printable(each)}" for each in rest),
        ]
        self._write(start + "\n".join(texts) + "\n")

    def close(self) -> None:
        """Write nothing more."""
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
            # Whoever was to read it is gone, or does not keep up; no wait ends for that.
            return


class RelayedStatusWriter(StatusWriter):
    """The writer of a worker whose controller has the terminal, and draws for all.

    Args:
        descriptor: where whole lines are written to.
        prefix: what each of them starts with.
        relay: takes the line that is to be shown; an empty one for none.
    """

    def __init__(self, descriptor: int, prefix: str, relay: Callable[[str], None]) -> None:
        super().__init__(descriptor, prefix, live=True, periodic=False, break_line=lambda: True)
        self._relay = relay
        self._shown = ""

    def draw(self, text: str) -> None:
        """Have a line shown, instead of the one before."""
        self._drawn = True
        if text != self._shown:
            self._shown = text
            self._relay(text)

    def erase(self) -> None:
        """Have nothing shown."""
        self._drawn = False
        if self._shown:
            self._shown = ""
            self._relay("")


class StatusReporter:
    """Tells of the waits of this process, from a thread that lives while something waits.

    Args:
        writer: where to.
        pending: the waits.
        limit: the moment from which on the running test's own timeout counts as near, and that
            timeout in seconds; None without one.
        clock: time.
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
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._hushed = False
        self._draw_at = 0.0
        self._write_at = 0.0
        self._warned: Deadline | None = None

    def begun(self, wait: ActiveWait) -> None:
        """Hear that a wait has begun."""
        with self._lock:
            if self._closed or self._thread is not None:
                return
            now = self._clock.monotonic()
            self._draw_at, self._write_at = now + _SHOW_AFTER, now + STATUS_INTERVAL
            self._wake.clear()
            self._thread = threading.Thread(target=self._run, name="kwait-reporter", daemon=True)
            self._thread.start()

    def over(self, wait: ActiveWait) -> None:
        """Hear that a wait is over: what is printed next must not find a line of ours."""
        with self._lock:
            self._writer.erase()
            if not self._pending.waits():
                self._wake.set()

    def suspend(self) -> None:
        """Draw nothing from now on: pytest is about to print."""
        with self._lock:
            self._hushed = True
            self._writer.erase()

    def resume(self) -> None:
        """Draw again: pytest prints nothing while a test runs."""
        self._hushed = False

    def show(self, text: str) -> None:
        """Draw what another process tells of its waits, unless pytest prints; nothing for ''."""
        with self._lock:
            if self._closed or self._hushed or not self._writer.live:
                return
            if text:
                self._writer.draw(text)
            else:
                self._writer.erase()

    def say(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._writer.lines(line)

    def close(self) -> None:
        """Tell nothing more."""
        with self._lock:
            self._closed = True
            self._writer.erase()
            thread = self._thread
            self._wake.set()
        if thread is not None:
            thread.join(1.0)
        self._writer.close()

    def report(self, why: str) -> None:
        """List what is pending; takes no lock, so that a signal handler may call it."""
        waits = self._pending.waits()
        noun = "1 wait is" if len(waits) == 1 else f"{len(waits) or 'no'} waits are"
        self._writer.lines(f"{noun} pending ({why})", [str(wait) for wait in waits])

    def _run(self) -> None:
        while True:
            self._clock.wait(self._wake, self._pause())
            with self._lock:
                self._wake.clear()
                waits = self._pending.waits()
                if self._closed or not waits:
                    self._thread = None
                    return
                self._tell(waits)

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

    def _tell(self, waits: list[ActiveWait]) -> None:
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


def _to_printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _truncate_line(text: str, width: int) -> str:
    line = _to_printable(text)
    if len(line) > width:
        # What was seen last is at the end, and worth more than a namespace made for one test.
        line = _NAMESPACE.sub(".../", line)
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."


def break_line_of(reporter: Any) -> Callable[[], bool]:
    """Return what ends the line that pytest's terminal reporter has begun, in its own books.

    Source: pytest's TerminalReporter.ensure_newline, which would write through the capture.
    """

    def break_line() -> bool:
        begun = bool(reporter.currentfspath)
        reporter.currentfspath = None
        return begun

    return break_line


class SignalHandler:
    """Calls a function when SIGUSR1 comes, until it is restored.

    Python's own `signal.getsignal` knows nothing of handlers that were put in below it, as
    `faulthandler.register` does: the system is asked who has the signal.

    Args:
        tell: called in the main thread, in the midst of anything: it must take no lock.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell: Callable[[], object] | None = tell
        self._handler: int | None = None

    def install(self) -> None:
        """Take the signal if it is free; only the main thread can, others leave it as it is."""
        number = getattr(signal, "SIGUSR1", None)
        if (
            number is None
            or self._handler is not None
            or threading.current_thread() is not threading.main_thread()
            or signal.getsignal(number) is not signal.SIG_DFL
            or _handler_of(number) != 0
        ):
            return
        signal.signal(number, self._told)
        self._handler = _handler_of(number)

    def restore(self) -> None:
        """Give the signal back, unless somebody has taken it from us meanwhile."""
        self._tell = None
        if self._handler is None:
            return
        # Bound methods are equal, not the same.
        ours = signal.getsignal(signal.SIGUSR1) == self._told
        if ours and _handler_of(signal.SIGUSR1) == self._handler:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    def _told(self, number: int, frame: Any) -> None:
        if self._tell is not None:
            self._tell()


def _handler_of(number: int) -> int | None:
    """Return the address of the handler that the system calls; 0 for none, None if not known."""
    import ctypes

    interpreter = getattr(ctypes, "pythonapi", None)
    if interpreter is None:
        return None
    find = interpreter.PyOS_getsig
    find.restype = ctypes.c_void_p
    return find(number) or 0


_live_status_key = pytest.StashKey["LiveStatus"]()


class LiveStatus:
    """Hears of the first wait, and has only then made what tells of it.

    Args:
        config: the run's configuration.
        descriptor: where to write to; its own from then on.
    """

    def __init__(self, config: pytest.Config, descriptor: int) -> None:
        self._config = config
        self._descriptor = descriptor
        self._reporter: StatusReporter | None = None
        self._signal: SignalHandler | None = None
        self.quiet = True
        """Whether the terminal is left to pytest."""
        self._told: dict[str, str] = {}
        self._told_lock = threading.Lock()

    def begun(self, wait: ActiveWait) -> None:
        """Hear that a wait has begun."""
        self.reporter().begun(wait)
        if self._signal is not None:
            self._signal.install()

    def over(self, wait: ActiveWait) -> None:
        """Hear that a wait is over."""
        self.reporter().over(wait)

    def reporter(self) -> StatusReporter:
        """Return who tells; made when first asked for."""
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
                    # What the controller has begun to write, its workers do not know.
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
        """Take SIGUSR1 though nothing waits in this process."""
        self.reporter()
        if self._signal is not None:
            self._signal.install()

    def told(self, worker: str, line: str) -> None:
        """Show what a worker waits for; called by the thread that hears of it."""
        with self._told_lock:
            self._told.pop(worker, None)
            if line:
                self._told[worker] = line
            first = next(iter(sorted(self._told)), "")
            text = f"[{first}] {self._told[first]}" if first else ""
            others = len(self._told) - 1
            if others > 0:
                text = f"{others} more {'worker waits' if others == 1 else 'workers wait'}, {text}"
            self.reporter().show(text)

    def draws(self) -> bool:
        """Whether this process shows a line that lives, of its own waits and those of workers."""
        return _is_live(self._config, self._descriptor)

    def suspend(self) -> None:
        """Leave the terminal to pytest."""
        self.quiet = True
        if self._reporter is not None:
            self._reporter.suspend()

    def resume(self) -> None:
        """Take the line below the cursor again."""
        self.quiet = False
        if self._reporter is not None:
            self._reporter.resume()

    def close(self) -> None:
        """Tell nothing more."""
        if self._signal is not None:
            self._signal.restore()
        if self._reporter is not None:
            self._reporter.close()
        else:
            os.close(self._descriptor)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep a way to the terminal, or to whatever log stands for it.

    Also called by `activate`, while tests are collected or run already.
    """
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    config = session.config
    # A worker's standard output is the channel to its controller; its errors go where the
    # controller's own do.
    worker = hasattr(config, "workerinput")
    if not worker and not config.pluginmanager.hasplugin("terminalreporter"):
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            descriptor = os.dup((sys.stderr if worker else sys.stdout).fileno())
    except (AttributeError, OSError, ValueError):
        # No stream, or one that is no file, as where pytest is run by a program.
        return
    progress = config.stash[_live_status_key] = LiveStatus(config, descriptor)
    ACTIVE_WAITS.add(progress)


@contextlib.contextmanager
def showing_status(config: pytest.Config) -> Iterator[None]:
    """Draw meanwhile, where no test has begun."""
    resume_status(config)
    try:
        yield
    finally:
        suspend_status(config)


def show_worker_status(config: pytest.Config, worker: str, line: str) -> None:
    """Show what a worker waits for."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].told(worker, line)


def write_line(config: pytest.Config, line: str) -> None:
    """Write a line that stays, from any thread."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].reporter().say(line)


def suspend_status(config: pytest.Config) -> None:
    """Leave the terminal to somebody else."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].suspend()


def resume_status(config: pytest.Config) -> None:
    """Draw again, as nobody else does."""
    if _live_status_key in config.stash:
        config.stash[_live_status_key].resume()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let a signal that is meant for the workers not end their controller; draw for them."""
    if _live_status_key in node.config.stash:
        progress = node.config.stash[_live_status_key]
        progress.expect_signal()
        node.workerinput["kwait_live"] = progress.draws()
        progress.resume()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> Any:
    """Draw nothing while the controller prints what has become of a test."""
    # The node is pytest-xdist's, and there is one where it is a controller that hears of it.
    config = getattr(getattr(report, "node", None), "config", None)
    if config is None:
        return (yield)
    with _suspended(config):
        return (yield)


@pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
def pytest_testnodedown(node: Any, error: object) -> Any:
    """Forget what a worker waited for, and draw nothing while its end is told."""
    show_worker_status(node.config, node.gateway.id, "")
    with _suspended(node.config):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the terminal to pytest's summary."""
    suspend_status(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw while the test is set up."""
    resume_status(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Draw while the test runs."""
    resume_status(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Draw while the test is torn down."""
    resume_status(item.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Draw nothing once a phase of a test is over: pytest prints its outcome next."""
    suspend_status(item.config)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Tell nothing more, and give the signal back."""
    if _live_status_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        progress = config.stash[_live_status_key]
        del config.stash[_live_status_key]
        ACTIVE_WAITS.remove(progress)
        progress.close()


@contextlib.contextmanager
def _suspended(config: pytest.Config) -> Iterator[None]:
    """Draw nothing meanwhile, and again afterwards if there was drawn before."""
    progress = config.stash.get(_live_status_key, None)
    if progress is None or progress.quiet:
        yield
        return
    progress.suspend()
    try:
        yield
    finally:
        progress.resume()


def _relay_of(config: pytest.Config) -> Callable[[str], None] | None:
    """Return what takes the line of a worker to a controller that draws; None without one."""
    given = getattr(config, "workerinput", {})
    if not given.get("kwait_live"):
        return None
    from pytest_kwait.plugin.run import run_of

    return run_of(config).source.show


def _writes_periodically(config: pytest.Config) -> bool:
    """Whether a line may be written from time to time."""
    return config.get_verbosity() > -2


def _is_live(config: pytest.Config, descriptor: int) -> bool:
    """Whether a line below the cursor is seen by somebody, and disturbs nothing."""
    return (
        os.isatty(descriptor)
        and os.environ.get("TERM", "dumb") != "dumb"
        and not any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))
        and not hasattr(config, "workerinput")
        # Of the tests of several workers pytest-xdist would tell at any time.
        and (config.get_verbosity() == 0 or config.getoption("dist", "no") == "no")
        and config.get_verbosity() >= 0
        # What a test prints, or logs, would run over it.
        and config.getoption("capture") != "no"
        and config.getoption("log_cli_level") is None
        and not config.getini("log_cli")
    )
