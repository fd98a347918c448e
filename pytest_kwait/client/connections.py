"""Connections whose sockets a guard can reach, with the user's own TLS and proxy settings."""

from __future__ import annotations

import contextlib
import copy
import functools
import ssl
import threading
from typing import TYPE_CHECKING, Any, cast

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError

from pytest_kwait.client.deadlines import DuplicateSocket, Guard

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from urllib3 import PoolManager
    from urllib3.connectionpool import HTTPConnectionPool

__all__ = ["guard_connections", "make_guarded_manager"]

# More than any suite keeps busy at once: a full pool drops connections and logs a warning.
_KEPT_CONNECTIONS = 64
_DIAL_FAILURES = (OSError, HTTPError, ValueError)


class _Current(threading.local):
    guard: Guard | None = None


_current = _Current()


@contextlib.contextmanager
def guard_connections(guard: Guard) -> Iterator[None]:
    """Bind every connection that this thread opens or takes up to `guard`."""
    previous, _current.guard = _current.guard, guard
    try:
        yield
    finally:
        _current.guard = previous


class _GuardedConnection(HTTPConnection):
    """Mixed into the connection class of a pool: keeps a duplicate of its socket."""

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
        try:
            super().connect()
        except ConnectionError as error:
            _close_after_failed_handshake(error)
            raise

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


def _close_after_failed_handshake(error: ConnectionError) -> None:
    """Close the socket of a connection that the server reset just before the handshake.

    Python 3.11 and 3.12 raise in the midst of making it, unclosed: a ResourceWarning some time
    later, in whatever test runs then.
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
    """Return a pool manager with the settings of `manager`, connections of its own, and guards.

    The given one is left as it is: what its owner does with it does not change.
    """
    own = copy.copy(manager)
    own.pools = type(manager.pools)(10)
    own.pool_classes_by_scheme = {
        scheme: _make_guarded_pool(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
    }
    own.connection_pool_kw = {**manager.connection_pool_kw, "maxsize": _KEPT_CONNECTIONS}
    return own
