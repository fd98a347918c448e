"""Hard deadlines: one thread shuts down the sockets of expired requests.

A read timeout does not end a slowly trickling answer, and closing a response from another thread
blocks on the reader's lock. Shutting down the socket wakes the reader at once, which finds the
cause at its guard. Guarded connections keep the user's TLS and proxy settings.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import heapq
import itertools
import math
import socket
import ssl
import threading
from collections import deque
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from urllib3 import PoolManager
    from urllib3.connectionpool import HTTPConnectionPool

    from pytest_kwait.client.availability import Availability
    from pytest_kwait.clock import Deadline

_LONGEST_SLEEP = 1.0
"""Maximum seconds until sockets left by finalizers are released."""

# More than any suite uses at once: a full pool drops connections and logs a warning.
_KEPT_CONNECTIONS = 64
_DIAL_FAILURES = (OSError, HTTPError, ValueError)


class Cause(Enum):
    """The reason of a guard that cut off its request."""

    DEADLINE = "deadline"
    INACTIVE = "inactive"
    CLOSED = "closed"
    ENDED = "ended"


class DuplicateSocket:
    """A second descriptor of a connection's socket, kept to shut the connection down.

    Wrapping a socket in TLS detaches the original, so a connection that is being set up can only
    be reached through a duplicate made before. It lives as long as the connection or a guard
    holds it: http.client may drop a connection while the last answer is still being read.

    Args:
        original: the connected socket, before TLS.
    """

    def __init__(self, original: socket.socket) -> None:
        self._socket = original.dup()
        self._lock = threading.Lock()
        self._holders = 1
        self._guard: Guard | None = None

    def hold(self, guard: Guard) -> None:
        """Let only `guard` shut the connection from now on; keep it until one more `drop`."""
        with self._lock:
            self._holders += 1
            self._guard = guard

    def drop(self) -> None:
        """Close the descriptor unless it is held elsewhere."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._socket.close()

    def shut(self, guard: Guard) -> None:
        """Shut down the connection, unless it serves another guard's request now."""
        with self._lock:
            if self._guard is not guard:
                return
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The connection is closed already.
                return


class Guard:
    """The time limit of one request, in real time.

    Args:
        deadline: the deadline of the request.
        inactivity: seconds without a byte after which it is cut off; None for no limit.
        availability: of the server; None to record nothing.

    Raises:
        ClusterEnded: the server has ended.
    """

    def __init__(
        self,
        deadline: Deadline,
        inactivity: float | None = None,
        availability: Availability | None = None,
    ) -> None:
        now = SYSTEM_CLOCK.monotonic()
        self.limit = deadline.remaining
        self.inactivity = inactivity
        self.cause: Cause | None = None
        self.dialed = False
        self.started_at = now
        self.is_answered = False
        """True once the server has begun to answer, or the request has failed."""
        self._deadline_at = now + self.limit
        self._active_at = now
        self._lock = threading.Lock()
        self._duplicate: DuplicateSocket | None = None
        self._over = False
        self._changed = threading.Event()
        self._availability = availability
        if availability is not None:
            availability.begin(self)
        WATCHDOG.watch(self)

    @property
    def due(self) -> float:
        """The next time to check the guard, in real monotonic seconds."""
        if self.inactivity is None:
            return self._deadline_at
        return min(self._deadline_at, self._active_at + self.inactivity)

    @property
    def is_over(self) -> bool:
        """True once the request has ended."""
        return self._over

    @property
    def expired(self) -> bool:
        """True once the deadline has passed."""
        return SYSTEM_CLOCK.monotonic() >= self._deadline_at

    def touch(self) -> None:
        """Record received bytes, which restarts the inactivity limit."""
        self._active_at = SYSTEM_CLOCK.monotonic()

    def bind(self, duplicate: DuplicateSocket) -> None:
        """Set the socket of the request; shut it down if the deadline has passed."""
        duplicate.hold(self)
        with self._lock:
            previous, self._duplicate = self._duplicate, duplicate
            cut = self.cause is not None
        if previous is not None:
            previous.drop()
        if cut:
            duplicate.shut(self)

    def cut(self, cause: Cause) -> None:
        """Cut off the request; callable from any thread; no-op once it has ended."""
        with self._lock:
            if self._over or self.cause is not None:
                return
            self.cause = cause
            if self._duplicate is not None:
                self._duplicate.shut(self)
        self._changed.set()

    def end(self) -> None:
        """Cut off the request because its server has ended."""
        self.cut(Cause.ENDED)

    def check(self, now: float) -> bool:
        """Cut off the request if it is due; return whether to check again at `due`."""
        if self._over or self.cause is not None:
            return False
        if now >= self._deadline_at:
            self.cut(Cause.DEADLINE)
        elif now >= self.due:
            self.cut(Cause.INACTIVE)
        else:
            return True
        return False

    def release(self) -> Cause | None:
        """Release the socket; return the cause of a cut-off, None without one."""
        with self._lock:
            self._over = True
            duplicate, self._duplicate = self._duplicate, None
        if duplicate is not None:
            duplicate.drop()
        if self._availability is not None:
            self._availability.end(self)
        WATCHDOG.unwatch(self)
        return self.cause

    def dial(
        self, connect: Callable[[], socket.socket], failures: tuple[type[Exception], ...]
    ) -> socket.socket:
        """Run `connect`, which cannot be interrupted, within the limit of the request.

        Name resolution and connection attempts have no limit of their own. They run on a thread
        that is abandoned at the deadline.

        Args:
            connect: returns a connected socket.
            failures: the exceptions that it may raise; raised here as well.

        Raises:
            TimeoutError: the request was cut off meanwhile; `cause` has the reason.
        """
        with self._lock:
            if self.cause is None:
                self._changed.clear()
        self.dialed = True
        attempt = _ConnectAttempt(connect, failures, self._changed)
        threading.Thread(target=attempt.run, name="kwait-dial", daemon=True).start()
        SYSTEM_CLOCK.wait(self._changed)
        return attempt.take()


class _ConnectAttempt:
    """One attempt to connect, on a thread of its own."""

    def __init__(
        self,
        connect: Callable[[], socket.socket],
        failures: tuple[type[Exception], ...],
        changed: threading.Event,
    ) -> None:
        self._connect = connect
        self._failures = failures
        self._changed = changed
        self._lock = threading.Lock()
        self._abandoned = False
        self._socket: socket.socket | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        connected: socket.socket | None = None
        error: Exception | None = None
        try:
            connected = self._connect()
        except self._failures as failure:
            error = failure
        finally:
            with self._lock:
                self._socket, self._error = connected, error
                abandoned = self._abandoned
            if abandoned and connected is not None:
                connected.close()
            self._changed.set()

    def take(self) -> socket.socket:
        with self._lock:
            if self._socket is not None:
                return self._socket
            if self._error is not None:
                raise self._error
            self._abandoned = True
        raise TimeoutError("the connection was not established in time")


class Watchdog:
    """The thread that checks guards when they are due; started with the first guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Guard]] = []
        self._released = 0
        self._worker: Worker | None = None
        self._left: deque[Callable[[], object]] = deque()

    def schedule_release(self, release: Callable[[], object]) -> None:
        """Schedule a call of `release` outside any lock; takes no lock itself.

        For finalizers, which may interrupt any thread at any point.
        """
        self._left.append(release)

    def _release_left(self) -> None:
        while True:
            try:
                release = self._left.popleft()
            except IndexError:
                return
            release()

    def watch(self, guard: Guard) -> None:
        """Check a guard whenever it is due."""
        self._release_left()
        due = guard.due
        if math.isinf(due):
            return
        with self._lock:
            earliest = not self._heap or due < self._heap[0][0]
            heapq.heappush(self._heap, (due, next(self._order), guard))
            # A forked child has none of its parent's threads.
            if self._worker is None or not self._worker.is_alive:
                worker = Worker("kwait-watchdog", lambda: self._run(worker))
                self._worker = worker
                worker.start()
            elif earliest:
                self._worker.wake()

    def unwatch(self, guard: Guard) -> None:
        """Stop checking a guard; its entry is removed later."""
        if math.isinf(guard.due):
            return
        with self._lock:
            self._released += 1
            # Fast requests with a far deadline would otherwise accumulate.
            if self._released > 64 and self._released * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if not entry[2].is_over]
                heapq.heapify(self._heap)
                self._released = 0

    def _run(self, worker: Worker) -> None:
        while True:
            self._release_left()
            with self._lock:
                now = SYSTEM_CLOCK.monotonic()
                due: list[Guard] = []
                while self._heap and self._heap[0][0] <= now:
                    due.append(heapq.heappop(self._heap)[2])
                again = [guard for guard in due if guard.check(now)]
                for guard in again:
                    heapq.heappush(self._heap, (guard.due, next(self._order), guard))
                # A finalizer cannot wake this thread: setting an event takes a lock, too.
                timeout = min(self._heap[0][0] - now, _LONGEST_SLEEP) if self._heap else None
            worker.pause(timeout)


WATCHDOG = Watchdog()


class _Current(threading.local):
    guard: Guard | None = None


_current = _Current()


@contextlib.contextmanager
def guard_connections(guard: Guard) -> Iterator[None]:
    """Bind every connection that this thread opens or reuses to `guard`."""
    previous, _current.guard = _current.guard, guard
    try:
        yield
    finally:
        _current.guard = previous


class _GuardedConnection(HTTPConnection):
    """A mixin for the connection class of a pool: keeps a duplicate of its socket."""

    _duplicate: DuplicateSocket | None = None

    def _new_conn(self) -> socket.socket:
        guard = _current.guard
        if guard is None:
            return super()._new_conn()
        try:
            connected = guard.dial(super()._new_conn, _DIAL_FAILURES)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        self._duplicate = DuplicateSocket(connected)
        guard.bind(self._duplicate)
        return connected

    def connect(self) -> None:
        settings = vars(self)
        context = _find_tls_context(settings)
        files = {name: settings[name] for name in _TLS_FILES} if context is not None else {}
        if context is not None:
            settings.update(dict.fromkeys(_TLS_FILES), ssl_context=context)
        try:
            super().connect()
        except ConnectionError as error:
            _close_after_failed_handshake(error)
            raise
        finally:
            if context is not None:
                # A later connect finds replaced files.
                settings.update(files, ssl_context=None)

    def request(self, *args: Any, **kwargs: Any) -> None:
        # A connection from the pool was bound to the guard of an earlier request.
        guard = _current.guard
        if guard is not None and self._duplicate is not None:
            guard.bind(self._duplicate)
        super().request(*args, **kwargs)

    def close(self) -> None:
        duplicate, self._duplicate = self._duplicate, None
        try:
            super().close()
        finally:
            if duplicate is not None:
                duplicate.drop()


_TLS_FILES = ("ca_certs", "cert_file", "key_file")
_OTHER_TLS_SETTINGS = (
    "assert_fingerprint",
    "assert_hostname",
    "ca_cert_data",
    "ca_cert_dir",
    "key_password",
    "proxy",
    "ssl_context",
    "ssl_maximum_version",
    "ssl_minimum_version",
    "ssl_version",
)


def _find_tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the TLS context of connections with the same, unchanged files.

    Every watch has a connection of its own, and to read the files takes most of the processor time
    to make one. None where urllib3 must make the context: for other settings, and for files that
    cannot be used, of which its error tells.

    Args:
        settings: the attributes of a connection of urllib3.
    """
    if settings.get("cert_reqs") != ssl.CERT_REQUIRED or not settings.get("ca_certs"):
        return None
    if any(settings.get(name) not in (None, "") for name in _OTHER_TLS_SETTINGS):
        return None
    try:
        files = [(file, _read_version(file)) for file in map(settings.get, _TLS_FILES)]
        return _make_tls_context(*files)
    except (OSError, ValueError):
        return None


_FileVersion = tuple[int, int, int]


def _read_version(file: str | None) -> _FileVersion | None:
    """Return what differs when a file is replaced or written."""
    if file is None:
        return None
    status = Path(file).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=16)
def _make_tls_context(
    authorities: tuple[str, _FileVersion],
    certificate: tuple[str | None, _FileVersion | None],
    key: tuple[str | None, _FileVersion | None],
) -> ssl.SSLContext:
    """Make a context as urllib3 does.

    Raises:
        OSError: a file cannot be read, or is no certificate or key.
        ValueError: the key is encrypted.
    """
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.load_verify_locations(authorities[0])
    if certificate[0] is not None:
        context.load_cert_chain(certificate[0], key[0], password=_refuse_password)
    return context


def _refuse_password() -> str:
    raise ValueError("the key is encrypted")  # which OpenSSL would ask the terminal for


def _close_after_failed_handshake(error: ConnectionError) -> None:
    """Close the socket of a connection that the server reset just before the handshake.

    Python 3.11 and 3.12 leave it open, which gives a ResourceWarning in a later test.
    """
    traceback = error.__traceback__
    while traceback is not None:
        made = traceback.tb_frame.f_locals.get("self")
        if isinstance(made, ssl.SSLSocket):
            made.close()
        traceback = traceback.tb_next


@functools.cache
def _make_guarded_pool(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    connection = type(
        f"Guarded{pool.ConnectionCls.__name__}", (_GuardedConnection, pool.ConnectionCls), {}
    )
    guarded = type(f"Guarded{pool.__name__}", (pool,), {"ConnectionCls": connection})
    return cast("type[HTTPConnectionPool]", guarded)


def make_guarded_manager(manager: PoolManager) -> PoolManager:
    """Return a pool manager with the settings of `manager` and guarded connections.

    The given manager is not changed.
    """
    own = copy.copy(manager)
    own.pools = type(manager.pools)(10)
    own.pool_classes_by_scheme = {
        scheme: _make_guarded_pool(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }
    own.connection_pool_kw = {**manager.connection_pool_kw, "maxsize": _KEPT_CONNECTIONS}
    return own
