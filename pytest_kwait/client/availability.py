"""Availability of API servers: whether they answer, and whether they have ended.

Requests record here whether their server answered. The owner of a server's process reports its end,
which cuts off all requests of this process to it and refuses further ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ApiError, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clock import Clock

_SHORTEST_SILENCE = 2.0
"""Seconds without an answer that are no usual delay."""

_DESCRIPTIONS = {
    "ConnectionRefused": "has refused connections",
    "ConnectionReset": "has closed connections",
    "DNS": "has had an unknown address",
    "Proxy": "has not been reached through the proxy",
    "TLS": "has not agreed on TLS",
}
_LONG_OUTAGE = 30.0
"""Seconds without an answer after which nothing but a wait is worth waiting for."""

_CLEANUP_LIMIT = 2.0
"""Seconds for a request that cleans up on a server that does not answer."""

_SILENT = "has not answered"

_CLOSE_TIMEOUT = 0.05
"""Seconds in which a process that ends closes its connections; one that runs waits for TLS."""

_REPORT_TIMEOUT = 2.0
"""Seconds until the end of a watched server that refuses connections is reported."""
_lock = threading.Lock()
_availabilities: dict[str, Availability] = {}


class PendingRequest(Protocol):
    """A request in progress."""

    started_at: float
    """When it was sent, in monotonic seconds."""

    is_answered: bool
    """True once the server has begun to answer, or the request has failed."""

    def end(self) -> None:
        """Cut it off."""


class ClusterEnded(ApiError, ClusterError):
    """The server's process has ended or stands still, so no request is sent to it."""

    def __str__(self) -> str:
        return self.message


class Availability:
    """The availability of one API server, as seen by this process; safe to use from any thread.

    Args:
        address: the server's address.
        clock: the clock of the guards of its requests.
    """

    def __init__(self, address: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.address = address
        self.problem = ""
        """Why no request is sent to it; empty while it is usable."""
        self.is_watched = False
        """True if the end of its process is reported here."""
        self.ended = threading.Event()
        """Set while there is a problem."""
        self._clock = clock
        self._changed = threading.Condition()
        self._guards: WeakSet[PendingRequest] = WeakSet()
        self._listeners: tuple[Callable[[], object], ...] = ()
        self._answered_at = clock.monotonic()
        self._failing_since: float | None = None
        self._failures = 0
        self._reason = ""

    def check(self) -> None:
        """Raise the problem of the server, if any.

        Raises:
            ClusterEnded: it has one.
        """
        if self.problem:
            raise ClusterEnded(self.problem, reason="ClusterEnded")

    def report_problem(self, problem: str) -> None:
        """Refuse requests, and cut off those in progress.

        Args:
            problem: why the server is not usable; empty once it is usable again.
        """
        with self._changed:
            if problem == self.problem:
                return
            self.problem = problem
            (self.ended.set if problem else self.ended.clear)()
            guards = list(self._guards) if problem else []
            listeners = self._listeners if problem else ()
            self._changed.notify_all()
        for guard in guards:
            guard.end()
        for listener in listeners:
            listener()

    def find_end(self) -> str:
        """Return the problem of a server that has just broken a connection; empty if it runs.

        The connections of a process end a moment before its end is reported.
        """
        if self.is_watched and not self.problem and self._refuses_connections():
            with self._changed:
                self._changed.wait_for(lambda: bool(self.problem), _REPORT_TIMEOUT)
        return self.problem

    def _refuses_connections(self) -> bool:
        address = urlsplit(self.address)
        place = address.hostname or "", address.port or 443
        try:
            with socket.create_connection(place, _REPORT_TIMEOUT) as connection:
                # A process that ends closes its listener last, with all that waits there.
                connection.settimeout(_CLOSE_TIMEOUT)
                return not connection.recv(1)
        except (ConnectionRefusedError, ConnectionResetError):
            return True
        except OSError:
            return False

    def wait_for_change(self, known: str) -> str:
        """Return the problem once it differs from the known one; blocks."""
        with self._changed:
            self._changed.wait_for(lambda: self.problem != known)
            return self.problem

    @contextlib.contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call a function when a problem is reported while the context is active."""
        with self._changed:
            self._listeners += (listener,)
        try:
            yield
        finally:
            with self._changed:
                self._listeners = tuple(
                    other_listener
                    for other_listener in self._listeners
                    if other_listener is not listener
                )

    def begin(self, guard: PendingRequest) -> None:
        """Record the start of a request.

        Raises:
            ClusterEnded: no request may be sent.
        """
        with self._changed:
            self.check()
            self._guards.add(guard)

    def record_answer(self, guard: PendingRequest) -> None:
        """Record that the server has begun to answer a request."""
        guard.is_answered = True
        with self._changed:
            self._answered_at = self._clock.monotonic()
            self._failing_since, self._failures = None, 0

    def record_failure(self, guard: PendingRequest, reason: str) -> None:
        """Record a request without an answer.

        Args:
            reason: as of `make_connection_error`; `Timeout` for silence.
        """
        if guard.is_answered:
            return
        guard.is_answered = True
        with self._changed:
            if self._failing_since is None:
                self._failing_since = max(guard.started_at, self._answered_at)
            self._failures += 1
            self._reason = reason

    def end(self, guard: PendingRequest) -> None:
        """Record the end of a request."""
        with self._changed:
            self._guards.discard(guard)

    @property
    def is_out(self) -> bool:
        """Return whether requests have failed without an answer for half a minute."""
        since = self._failing_since
        return since is not None and self._clock.monotonic() - since >= _LONG_OUTAGE

    def limit_cleanup(self, seconds: float) -> float:
        """Return the limit of a request that cleans up: a short one during an outage."""
        since = self._failing_since
        is_away = since is not None and self._clock.monotonic() - since >= _SHORTEST_SILENCE
        return min(seconds, _CLEANUP_LIMIT) if is_away else seconds

    def describe_outage(self) -> str:
        """Return since when the server has not answered, as a sentence; empty if it answers."""
        with self._changed:
            now = self._clock.monotonic()
            pending = [guard.started_at for guard in self._guards if not guard.is_answered]
            since = [max(started_at, self._answered_at) for started_at in pending]
            if self._failing_since is not None:
                since.append(self._failing_since)
            clause = _DESCRIPTIONS.get(self._reason, _SILENT) if self._failures else _SILENT
            tries = self._failures + len(pending)
        lasted = now - min(since, default=now)
        if not since or (clause == _SILENT and lasted < _SHORTEST_SILENCE):
            return ""
        tried = "1 try" if tries == 1 else f"{tries} tries"
        duration_text = format_duration(round(lasted, 1) if lasted < 10 else float(round(lasted)))
        return f"API server {self.address} {clause} for {duration_text} ({tried})"


def availability_of(address: str) -> Availability:
    """Return the availability of the server at an address; always the same one."""
    availability = _availabilities.get(address)
    if availability is None:
        with _lock:
            availability = _availabilities.setdefault(address, Availability(address))
    return availability


def reset_availability(address: str) -> Availability:
    """Return a new availability for a server that was started at an address."""
    with _lock:
        availability = _availabilities[address] = Availability(address)
    return availability


if hasattr(os, "register_at_fork"):
    # A lock that was held while forking stays held.
    os.register_at_fork(after_in_child=_availabilities.clear)
