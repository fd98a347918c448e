"""A way to a server that can be cut: what was sent meanwhile arrives when it is joined again."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CuttableProxy"]

_CHUNK_SIZE = 65536


class CuttableProxy:
    """Passes connections to a local port on to a server, as long as it is not cut.

    While it is cut, connections are opened and nothing is heard over them, as over a network that
    has broken: nobody is told, and time-outs have to notice.

    Args:
        host: the server's name or address.
        port: its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._passing = threading.Event()
        self._passing.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        """The local port."""
        threading.Thread(target=self._accept, name="kwait-relay", daemon=True).start()

    def cut(self) -> None:
        """Pass nothing on from now on."""
        self._passing.clear()

    def join(self) -> None:
        """Pass everything on again, that which came meanwhile first."""
        self._passing.set()

    def close(self) -> None:
        """End all connections; none can be opened any more."""
        with self._lock:
            self._closed = True
            sockets = [*self._sockets, self._listening]
        for each in sockets:
            with contextlib.suppress(OSError):  # not connected any more
                each.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                if self._closed:
                    return
                continue
            threading.Thread(
                target=self._connect, args=(near,), name="kwait-relay", daemon=True
            ).start()

    def _connect(self, near: socket.socket) -> None:
        with near:
            self._passing.wait()
            try:
                far = socket.create_connection(self._server)
            except OSError:
                return
            with far, self._entered(near, far) as entered:
                if not entered:
                    return
                back = threading.Thread(
                    target=self._pass, args=(far, near), name="kwait-relay", daemon=True
                )
                back.start()
                self._pass(near, far)
                back.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either end may break at any time
            while data := source.recv(_CHUNK_SIZE):
                self._passing.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _entered(self, *sockets: socket.socket) -> Iterator[bool]:
        with self._lock:
            open_still = not self._closed
            self._sockets.update(sockets)
        try:
            yield open_still
        finally:
            with self._lock:
                self._sockets.difference_update(sockets)
