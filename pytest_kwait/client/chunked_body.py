"""The body of an answer in chunks, read from its socket: all that has come at one go.

What an event of a busy watch costs is mostly the way to it: three calls through four layers for
the size of its chunk, its bytes and what ends it. Here whatever the socket has is read into one
buffer, and taken apart there.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import TYPE_CHECKING

from urllib3.exceptions import ProtocolError

if TYPE_CHECKING:
    from typing import Any, Self

    import urllib3

__all__ = ["ChunkedBody", "Dechunker"]

# Ten large events: who reads them goes on to the next ten without a pause.
_BUFFER = 131072
_LONGEST_LINE = 65536
# To write is what TLS may have to do where keys are exchanged anew.
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Dechunker:
    """Takes chunks apart into the pieces of the body: RFC 9112, section 7.1.

    Extensions of chunks and trailers are passed over.
    """

    def __init__(self) -> None:
        self.ended = False
        """Whether the last chunk and its trailer have come."""
        self._left = 0
        self._in_chunk = False
        self._in_trailer = False

    @property
    def may_end(self) -> bool:
        """Whether all of the body has come, if not all of the trailer."""
        return self._in_trailer

    def take(self, buffer: bytearray, end: int, pieces: list[bytes]) -> int:
        """Add the pieces of the body to `pieces`; return where the bytes begin that are left over.

        Args:
            buffer: what has come.
            end: how much of the buffer that is.
            pieces: what is added to; a chunk that has not come whole is more than one.

        Raises:
            ProtocolError: these are no chunks.
        """
        at = 0
        while not self.ended:
            if self._in_chunk:
                stop = min(at + self._left, end)
                if stop > at:
                    pieces.append(bytes(memoryview(buffer)[at:stop]))
                    self._left -= stop - at
                    at = stop
                if self._left or end - at < 2:
                    break
                if buffer[at : at + 2] != b"\r\n":
                    raise ProtocolError("a chunk is longer than it says")
                at += 2
                self._in_chunk = False
            stop = buffer.find(b"\n", at, end)
            if stop < 0:
                if end - at > _LONGEST_LINE:
                    raise ProtocolError("the size of a chunk does not end")
                break
            line = bytes(buffer[at:stop]).rstrip(b"\r")
            at = stop + 1
            if self._in_trailer:
                self.ended = not line
            else:
                self._left = _parse_chunk_size(line)
                self._in_chunk = self._left > 0
                self._in_trailer = self._left == 0
        return at


def _parse_chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        # int() takes signs and underscores as well.
        if digits.isalnum():
            return int(digits, 16)
    except ValueError:
        pass
    raise ProtocolError(f"expected the size of a chunk, got {line[:40]!r}")


class ChunkedBody:
    """Reads the body of an answer as it comes, all that is there at one go.

    It waits for the first line, as the socket does by itself; whoever shuts that down ends the
    wait. What is there beyond it is read without waiting.

    Args:
        answer: an answer in chunks, nothing of its body read.
        inner: the same as http.client has it.
        connected: the socket that it comes over.
    """

    def __init__(
        self,
        answer: urllib3.BaseHTTPResponse,
        inner: http.client.HTTPResponse,
        connected: socket.socket,
    ) -> None:
        self._answer = answer
        self._inner = inner
        self._socket = connected
        self._timeout = connected.gettimeout()
        self._dechunker = Dechunker()
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._at_end = False
        self._error: ProtocolError | OSError | None = None
        self.drained = False
        """Whether `read` returned all that had come."""
        self._hold_what_was_read_ahead()

    @classmethod
    def of(cls, answer: urllib3.BaseHTTPResponse) -> Self | None:
        """Return the reader of an answer; None where urllib3 must read it itself.

        That is an answer that is not in chunks, or over a socket of another make: TLS within the
        TLS of a proxy, TLS by pyOpenSSL.
        """
        connected: Any = getattr(answer.connection, "sock", None)
        inner = getattr(answer, "_fp", None)
        known = type(connected) in (ssl.SSLSocket, socket.socket)
        if known and answer.chunked and isinstance(inner, http.client.HTTPResponse):
            return cls(answer, inner, connected)
        return None

    def read(self, *, drain: bool) -> list[bytes] | None:
        """Wait for more of the body and return it; None once it has ended.

        What is returned is cut where chunks are, and where a chunk has not come whole.

        Args:
            drain: whether to return all that has come, if a line is among it. That costs more
                where there is nothing.

        Raises:
            urllib3.exceptions.ProtocolError: it has ended early, or these are no chunks.
            OSError: the connection is broken.
        """
        pieces: list[bytes] = []
        self._take(pieces)
        while not pieces:
            if self._error is not None:
                raise self._error
            if self._dechunker.ended:
                self._release()
                return None
            if self._at_end:
                if self._dechunker.may_end:
                    return None
                raise ProtocolError("the connection was closed within the answer")
            self._receive()
            self._take(pieces)
        self.drained = False
        if drain and any(b"\n" in piece for piece in pieces):
            self._drain()
            self._take(pieces)
        return pieces

    def _take(self, pieces: list[bytes]) -> None:
        try:
            rest = self._dechunker.take(self._buffer, self._held, pieces)
        except ProtocolError as error:
            # Raised once what came before it has been returned.
            self._error, self._held = error, 0
            return
        self._held -= rest
        if rest:
            self._view[: self._held] = self._buffer[rest : rest + self._held]

    def _receive(self) -> None:
        """Wait for more; what is there already has been returned."""
        count = self._socket.recv_into(self._view[self._held :])
        self._held += count
        self._at_end = count == 0

    def _drain(self) -> None:
        """Fill the buffer with what there is: no whole line is held back by a wait for more."""
        self._socket.settimeout(0)
        try:
            while self._held < _BUFFER and not self._at_end:
                self._receive()
        except _NOTHING_YET:
            self.drained = True
        except OSError as error:
            self._error = error
        finally:
            self._socket.settimeout(self._timeout)

    def _hold_what_was_read_ahead(self) -> None:
        """Take what http.client has read beyond the headers: no more than a few kilobytes."""
        self._socket.settimeout(0)
        try:
            ahead = self._inner.fp.peek()
        except _NOTHING_YET:
            return
        finally:
            self._socket.settimeout(self._timeout)
        self._held = len(ahead)
        self._view[: self._held] = ahead

    def _release(self) -> None:
        """Let the connection serve further requests, unless it brought more than was asked for."""
        if self._held:
            return
        # First: a connection whose answer is open refuses the next request.
        self._inner.close()
        self._answer.release_conn()
