"""Asking an embedded cluster for faults: over a connection that they do not outlive."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, ClusterError, KwaitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    import urllib3

    from pytest_kwait.client.deadlines import Guard
    from pytest_kwait.client.session import Session

__all__ = ["Fault", "FaultClient"]

_API_ROOT = "/kwait/v1"
_REQUEST_TIMEOUT = 30.0
_NO_TIMEOUT = 365 * 86_400.0


class Fault:
    """One fault; it ends with `undo`, with its `with` block, or with the test.

    Args:
        desk: where it was made.
        name: the id that the cluster knows it by; empty where it was over at once.
    """

    def __init__(self, desk: FaultClient, name: str) -> None:
        self._desk = desk
        self._name = name

    @property
    def hits(self) -> int:
        """How many requests, watches or pulls it has met so far; 0 for faults of nodes and time.

        Raises:
            KwaitError: it has ended.
        """
        return self._desk.hits(self._name)

    def undo(self) -> None:
        """End it; nothing to do the second time."""
        self._desk.undo(self._name)

    def __enter__(self) -> Self:
        """Give the fault itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.undo()


class FaultClient:
    """The faults that this process has made in one cluster.

    Args:
        session: makes the requests.
        server: the cluster's address, for messages.
    """

    def __init__(self, session: Callable[[], Session], server: str) -> None:
        self._session = session
        self._server = server
        self._lock = threading.Lock()
        self._holder = ""
        self._hold: tuple[urllib3.BaseHTTPResponse, Iterator[bytes], Guard] | None = None
        self._names: list[str] = []

    def undo_all(self) -> None:
        """End every fault; the cluster does it by itself where it cannot be asked."""
        with self._lock:
            names, self._names = self._names, []
            hold, self._hold, self._holder = self._hold, None, ""
        try:
            for name in reversed(names):
                self._delete(name)
        finally:
            if hold is not None:
                answer, _, guard = hold
                with suppress(OSError):
                    answer.close()
                guard.release()

    def undo(self, name: str) -> None:
        """End one fault, if it is there."""
        with self._lock:
            if name not in self._names:
                return
            self._names.remove(name)
        self._delete(name)

    def hits(self, name: str) -> int:
        """Return what a fault has met."""
        if name not in self._names:
            raise KwaitError("this fault has ended, and nobody counts any more")
        return int(self._ask("GET", f"{_API_ROOT}/faults/{name}")["hits"])

    def _delete(self, name: str) -> None:
        try:
            self._ask("DELETE", f"{_API_ROOT}/faults/{name}")
        except ApiError as error:
            if error.status != 404:
                raise

    def make(self, asked: dict[str, Any]) -> Fault:
        """Make a fault that ends at the latest with the connection that is held for it.

        Raises:
            ApiError: the cluster refuses it.
            ClusterError: it is no embedded one.
        """
        with self._lock:
            if self._hold is None:
                self._open()
            found = self._ask("POST", f"{_API_ROOT}/faults", {**asked, "holder": self._holder})
            name = str(found.get("id", ""))
            if name:
                self._names.append(name)
            return Fault(self, name)

    def _open(self) -> None:
        """Open the connection that all faults of the test end with."""
        transport = self._session().transport
        path = f"{_API_ROOT}/hold"
        with ExitStack() as unless_open:
            guard = transport.guard("GET", path, Deadline.after(_NO_TIMEOUT))
            unless_open.callback(guard.release)
            try:
                answer = transport.open(path, query={}, guard=guard)
                lines = answer.stream(4096)
                self._holder = json.loads(next(lines))["holder"]
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                why = "has none to offer" if error.status == 404 else "does not let us make them"
                raise ClusterError(
                    f"faults are made on the embedded cluster alone, and as an administrator: "
                    f"{self._server} {why} ({error.status}); keep the test from running there"
                ) from error
            unless_open.pop_all()
        # A stream that is let go of closes its connection.
        self._hold = (answer, lines, guard)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer = self._session().transport.send(
            method,
            path,
            body=data,
            content_type=None if data is None else "application/json",
            deadline=Deadline.after(_REQUEST_TIMEOUT),
        )
        found: dict[str, Any] = json.loads(answer.data)
        return found
