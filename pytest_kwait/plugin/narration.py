"""What a run says of its waits while they last: a live line, a heartbeat, a list on demand.

All of it is written to a descriptor of its own: pytest's capture is left as it is, and so is what
the tests print meanwhile.
"""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.engine.active_waits import ActiveWait, ActiveWaits

__all__ = [
    "STATUS_INTERVAL",
    "RelayedStatusWriter",
    "StatusReporter",
    "StatusWriter",
    "break_line_of",
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
        descriptor: an open file descriptor, which is the outlet's own from then on.
        prefix: what each line starts with.
        live: whether there is a terminal to draw a line on.
        heartbeat: whether a line may be written from time to time.
        break_line: called before whole lines are written: ends what pytest has begun to write in
            its own books, and returns whether there is anything begun.
    """

    def __init__(
        self,
        descriptor: int,
        prefix: str,
        *,
        live: bool,
        heartbeat: bool,
        break_line: Callable[[], bool],
    ) -> None:
        self._descriptor = descriptor
        self._prefix = prefix
        self.live = live
        self.heartbeat = heartbeat
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
    """The outlet of a worker whose controller has the terminal, and draws for all.

    Args:
        descriptor: where whole lines are written to.
        prefix: what each of them starts with.
        relay: takes the line that is to be shown; an empty one for none.
    """

    def __init__(self, descriptor: int, prefix: str, relay: Callable[[str], None]) -> None:
        super().__init__(descriptor, prefix, live=True, heartbeat=False, break_line=lambda: True)
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
        outlet: where to.
        pending: the waits.
        limit: the moment from which on the running test's own timeout counts as near, and that
            timeout in seconds; None without one.
        clock: time.
    """

    def __init__(
        self,
        outlet: StatusWriter,
        pending: ActiveWaits,
        limit: Callable[[], tuple[Deadline, float] | None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._outlet = outlet
        self._pending = pending
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._hushed = False
        self._draw_at = 0.0
        self._beat_at = 0.0
        self._warned: Deadline | None = None

    def begun(self, wait: ActiveWait) -> None:
        """Hear that a wait has begun."""
        with self._lock:
            if self._closed or self._thread is not None:
                return
            now = self._clock.monotonic()
            self._draw_at, self._beat_at = now + _SHOW_AFTER, now + STATUS_INTERVAL
            self._wake.clear()
            self._thread = threading.Thread(target=self._run, name="kwait-narrator", daemon=True)
            self._thread.start()

    def over(self, wait: ActiveWait) -> None:
        """Hear that a wait is over: what is printed next must not find a line of ours."""
        with self._lock:
            self._outlet.erase()
            if not self._pending.waits():
                self._wake.set()

    def suspend(self) -> None:
        """Draw nothing from now on: pytest is about to print."""
        with self._lock:
            self._hushed = True
            self._outlet.erase()

    def resume(self) -> None:
        """Draw again: pytest prints nothing while a test runs."""
        self._hushed = False

    def show(self, text: str) -> None:
        """Draw what another process tells of its waits, unless pytest prints; nothing for ''."""
        with self._lock:
            if self._closed or self._hushed or not self._outlet.live:
                return
            if text:
                self._outlet.draw(text)
            else:
                self._outlet.erase()

    def say(self, line: str) -> None:
        """Write a line that stays."""
        with self._lock:
            self._outlet.lines(line)

    def close(self) -> None:
        """Tell nothing more."""
        with self._lock:
            self._closed = True
            self._outlet.erase()
            thread = self._thread
            self._wake.set()
        if thread is not None:
            thread.join(1.0)
        self._outlet.close()

    def report(self, why: str) -> None:
        """List what is pending; takes no lock, so that a signal handler may call it."""
        waits = self._pending.waits()
        noun = "1 wait is" if len(waits) == 1 else f"{len(waits) or 'no'} waits are"
        self._outlet.lines(f"{noun} pending ({why})", [str(wait) for wait in waits])

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
        if self._outlet.live:
            return max(self._draw_at - now, _POLL_INTERVAL)
        limit = self._limit()
        near = (
            limit[0].at
            if limit is not None and limit[0] is not self._warned
            else now + _LIMIT_POLL_INTERVAL
        )
        return max(0.01, min(self._beat_at, near, now + _LIMIT_POLL_INTERVAL) - now)

    def _tell(self, waits: list[ActiveWait]) -> None:
        now = self._clock.monotonic()
        limit = self._limit()
        if limit is not None and limit[0].expired and limit[0] is not self._warned:
            self._warned = limit[0]
            self.report(f"the test's own timeout of {format_duration(limit[1])} is near")
        first = min(waits, key=lambda wait: wait.deadline.at)
        more = f", {len(waits) - 1} more" if len(waits) > 1 else ""
        if self._outlet.live:
            if now >= self._draw_at and not self._hushed:
                self._outlet.draw(f"{first.left} left{more}: {first.text}")
        elif self._outlet.heartbeat and now >= self._beat_at:
            self._beat_at = now + STATUS_INTERVAL
            self._outlet.lines(f"still waiting{more}: {first}")


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
