"""A watch: the events of one response, read from its socket until it ends.

On a busy watch, reading costs more than decoding: each event takes three calls through four layers.
`ChunkedBody` reads all available bytes into one buffer and splits it there.
"""

from __future__ import annotations

import functools
import http.client
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import msgspec
from urllib3.exceptions import ProtocolError

from pytest_kwait.client.deadlines import WATCHDOG, Cause
from pytest_kwait.client.errors import excerpt, make_status_error
from pytest_kwait.client.responses import (
    WatchEvent,
    decode_object,
    make_accept_header,
    make_decoder,
)
from pytest_kwait.client.transport import TRANSPORT_ERRORS
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    import urllib3

    from pytest_kwait.client.deadlines import Guard
    from pytest_kwait.client.transport import Transport
    from pytest_kwait.clock import Deadline

_FIRST_BUFFER = 8192
"""The buffer of a quiet watch; it grows while reads fill it."""
_BUFFER = 131072
"""The largest buffer: room for ten large events."""
_LONGEST_LINE = 65536
# TLS may have to write during a key update.
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_READ_AT_MOST = 65536
_PREFIXES = {
    type: f'{{"type":"{type}","object":'.encode()
    for type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
}


class Dechunker:
    """Decodes the chunked transfer coding (RFC 9112, section 7.1).

    Chunk extensions and trailers are skipped.
    """

    def __init__(self) -> None:
        self.ended = False
        """True once the last chunk and its trailer have arrived."""
        self._left = 0
        self._in_chunk = False
        self._in_trailer = False

    @property
    def may_end(self) -> bool:
        """True if the whole body has arrived; the trailer may be missing."""
        return self._in_trailer

    def take(self, buffer: bytearray, end: int, pieces: list[bytes]) -> int:
        """Append pieces of the body to `pieces`; return the index of the first unused byte.

        Args:
            buffer: the received bytes.
            end: the number of received bytes.
            pieces: the list to append to; an incomplete chunk gives several pieces.

        Raises:
            ProtocolError: the bytes are not chunks.
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
    """Reads a chunked body, all available bytes at once.

    It blocks for the first line only; shutting down the socket ends that.

    Args:
        answer: the answer, with an unread body.
        inner: the http.client response of the answer.
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
        self._buffer = bytearray(_FIRST_BUFFER)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._at_end = False
        self._error: ProtocolError | OSError | None = None
        self.drained = False
        """True if `read` returned all bytes that had arrived."""
        self._hold_what_was_read_ahead()

    @classmethod
    def of(cls, answer: urllib3.BaseHTTPResponse) -> Self | None:
        """Return the reader of an answer; None if urllib3 must read it itself.

        It must if the answer is not chunked, or its socket is special: TLS within the TLS of a
        proxy, TLS by pyOpenSSL.
        """
        connected: Any = getattr(answer.connection, "sock", None)
        inner = getattr(answer, "_fp", None)
        known = type(connected) in (ssl.SSLSocket, socket.socket)
        if known and answer.chunked and isinstance(inner, http.client.HTTPResponse):
            return cls(answer, inner, connected)
        return None

    def read(self, *, drain: bool) -> list[bytes] | None:
        """Wait for more of the body and return it in pieces; None at its end.

        Args:
            drain: whether to read all available bytes, up to a whole line at least; costs more on
                a quiet watch.

        Raises:
            urllib3.exceptions.ProtocolError: the body ended early, or is not chunked.
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
            # Raised once all events before it are returned.
            self._error, self._held = error, 0
            return
        self._held -= rest
        if rest:
            self._view[: self._held] = self._buffer[rest : rest + self._held]

    def _receive(self) -> None:
        """Wait for more bytes."""
        count = self._socket.recv_into(self._view[self._held :])
        self._held += count
        self._at_end = count == 0
        if self._held == len(self._buffer) < _BUFFER:
            self._grow(2 * self._held)

    def _grow(self, size: int) -> None:
        buffer = bytearray(min(size, _BUFFER))
        buffer[: self._held] = self._view[: self._held]
        self._buffer, self._view = buffer, memoryview(buffer)

    def _drain(self) -> None:
        """Fill the buffer with all available bytes, without waiting for more."""
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
        """Take the few kilobytes that http.client has read beyond the headers."""
        self._socket.settimeout(0)
        try:
            ahead = self._inner.fp.peek()
        except _NOTHING_YET:
            return
        finally:
            self._socket.settimeout(self._timeout)
        if len(ahead) >= len(self._buffer):
            self._grow(2 * len(ahead))
        self._held = len(ahead)
        self._view[: self._held] = ahead

    def _release(self) -> None:
        """Return the connection to its pool, unless it has unexpected bytes."""
        if self._held:
            return
        # First: a connection with an open answer refuses the next request.
        self._inner.close()
        self._answer.release_conn()


class Watch:
    """An iterator over the events of one watch request, and a context manager.

    Entering it, or the first iteration, sends the request. It ends with `StopIteration` when the
    server ends the watch, and after `close`. One thread reads; any thread may close.

    Raises:
        ApiError: refused; status 410 in the stream: the version is too old; status 0: the
            connection was cut (`ConnectionReset`) or silent for too long (`WatchInactive`);
            `NotJSON`: a line is not an event.
        DeadlineExceeded: the deadline has passed.
    """

    _guard: Guard | None = None
    _answer: urllib3.BaseHTTPResponse | None = None

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: Mapping[str, Any],
        *,
        deadline: Deadline,
        inactivity: float | None = None,
        shape: Any = None,
    ) -> None:
        self.path = path
        self._transport = transport
        self._query = query
        self._deadline = deadline
        self._inactivity = inactivity
        self._decoder = get_event_decoder(shape)
        self._accept = make_accept_header(shape)
        self._state = threading.Lock()
        self._reading = threading.Lock()
        self._closed = False
        self._opened = False
        self._ended = False
        self._body: ChunkedBody | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._lines: Iterator[bytes] = iter(())
        self._begun: list[bytes] = []
        self._error_kept: ApiError | None = None

    def __enter__(self) -> Self:
        with self._reading:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The watchdog holds the guard until the deadline, and with it the socket of an unclosed
        # watch. Finalizers may run while any lock is held: this watch may close its own connection,
        # but must not call the watchdog.
        answer, guard = self._answer, self._guard
        if self._ended:
            return
        if answer is not None:
            answer.close()
        if guard is not None:
            WATCHDOG.schedule_release(guard.release)

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        with self._reading:
            self._open()
            while not self._closed:
                self._raise_kept()
                line = next(self._lines, None)
                if line is None:
                    if self._ended:
                        break
                    self._fill()
                elif line.strip():
                    return self._event(line)
            self._finish()
            raise StopIteration

    def read(self, *, drain: bool = True) -> list[WatchEvent]:
        """Wait for an event; return it with others that have arrived, empty at the end.

        The error that ends the watch is raised after all events before it are returned.

        Args:
            drain: whether to read all available events, not only those of the first read.

        Raises:
            ApiError, DeadlineExceeded: see `Watch`.
        """
        with self._reading:
            self._open()
            while not self._closed:
                self._raise_kept()
                events: list[WatchEvent] = []
                try:
                    events.extend(self._event(line) for line in self._lines if line.strip())
                except ApiError as error:
                    if not events:
                        raise
                    self._error_kept = error
                if events:
                    return events
                if self._ended:
                    break
                self._fill(drain=drain)
            self._finish()
            return []

    @property
    def drained(self) -> bool:
        """True if `read` returned all available events; False if unknown."""
        return self._body is not None and self._body.drained

    def close(self) -> None:
        """End the watch at once; callable from any thread."""
        with self._state:
            self._closed = True
            guard = self._guard
        if guard is not None:
            guard.cut(Cause.CLOSED)
        # The reader frees the connection itself: closing its answer here would wait for a lock that
        # the reader holds.
        if self._reading.acquire(blocking=False):
            try:
                self._finish()
            finally:
                self._reading.release()

    def _open(self) -> None:
        if self._opened:
            return
        self._opened = True
        with self._state:
            if self._closed:
                return
            guard = self._guard = self._transport.guard(
                "GET", self.path, self._deadline, self._inactivity
            )
        try:
            self._answer = self._transport.open(
                self.path, query=self._query, accept=self._accept, guard=guard
            )
            self._body = ChunkedBody.of(self._answer)
            if self._body is None:
                self._chunks = _read_chunks(self._answer)
        except TRANSPORT_ERRORS as error:
            self._fail(guard, error)
            return
        except BaseException:
            self._finish()
            raise

    def _fill(self, *, drain: bool = False) -> None:
        """Read available bytes and queue the complete lines."""
        guard = self._guard
        if guard is None:
            return
        try:
            pieces = self._pieces(drain)
        except TRANSPORT_ERRORS as error:
            self._fail(guard, error)
            return
        if pieces is None:
            self._take_rest(guard)
            return
        guard.touch()
        lines: list[bytes] = []
        for piece in pieces:
            # The usual case: one event, one chunk.
            if not self._begun and piece.find(b"\n") == len(piece) - 1:
                lines.append(piece[:-1])
                continue
            first, *other_parts = piece.split(b"\n")
            self._begun.append(first)
            if other_parts:
                # An event may be larger than a chunk, and a chunk hold many events.
                lines += [b"".join(self._begun), *other_parts[:-1]]
                self._begun = [other_parts[-1]] if other_parts[-1] else []
        self._lines = iter(lines)

    def _pieces(self, drain: bool) -> list[bytes] | None:
        if self._body is not None:
            return self._body.read(drain=drain)
        chunk = next(self._chunks, None)
        return None if chunk is None else [chunk]

    def _take_rest(self, guard: Guard) -> None:
        self._finish()
        if guard.cause is not None:
            self._fail(guard, None)
            return
        rest, self._begun = b"".join(self._begun).strip(), []
        if rest:
            # A whole event may lack only its newline; a partial one means a broken connection.
            try:
                self._decoder.decode(rest)
            except msgspec.DecodeError as error:
                raise self._error(
                    "ConnectionReset", f"the watch ended within an event: {excerpt(rest)}"
                ) from error
            self._lines = iter([rest])

    def _event(self, line: bytes) -> WatchEvent:
        try:
            event = self._decoder.decode(line)
        except msgspec.DecodeError as error:
            self._finish()
            raise self._error("NotJSON", f"expected a watch event, got {excerpt(line)}") from error
        if event.type == "ERROR":
            self._finish()
            raise make_status_error(event.object, "GET", self.path)
        return event

    def _raise_kept(self) -> None:
        error, self._error_kept = self._error_kept, None
        if error is not None:
            raise error

    def _fail(self, guard: Guard, error: Exception | None) -> None:
        """End the watch and raise its error; return if it was closed."""
        self._finish()
        if guard.cause is not Cause.CLOSED:
            raise self._transport.failure(
                "GET", self.path, guard, error, late="the watch was not over"
            ) from error

    def _finish(self) -> None:
        self._ended = True
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()
        if self._guard is not None:
            self._guard.release()

    def _error(self, reason: str, message: str) -> ApiError:
        return ApiError(message, reason=reason, method="GET", path=self.path)


def _read_chunks(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    # Both return available bytes at once; read() and a buffer around the answer would delay
    # events until they are full.
    if answer.chunked:
        return answer.stream(_READ_AT_MOST, decode_content=False)
    return iter(lambda: answer.read1(_READ_AT_MOST, decode_content=False), b"")


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class EventDecoder:
    """Decodes lines of a watch.

    Args:
        shape: a TypedDict of the fields to decode; None for all.
    """

    def __init__(self, shape: Any = None) -> None:
        self._shape = shape
        self._envelope: msgspec.json.Decoder[_Envelope] = make_decoder(_Envelope)
        event = msgspec.defstruct(
            "Event",
            [("type", str), ("object", shape if shape is not None else dict[str, Any])],
            forbid_unknown_fields=True,
        )
        self._event = make_decoder(event)

    def decode(self, line: bytes) -> WatchEvent:
        """Decode one line; an error in the stream has type `ERROR` and a Status.

        Raises:
            msgspec.DecodeError: not JSON, or not an event.
        """
        try:
            event = self._event.decode(line)
        except msgspec.ValidationError:
            # An object of another shape, such as an error's Status.
            return self._other(line)
        prefix = _PREFIXES.get(event.type)
        if prefix is None or not (line.startswith(prefix) and line.endswith(b"}")):
            return self._other(line)
        # The object lies between its key and the last brace, as written by Go.
        return WatchEvent(event.type, event.object, line[len(prefix) : -1])

    def _other(self, line: bytes) -> WatchEvent:
        envelope = self._envelope.decode(line)
        shape = None if envelope.type == "ERROR" else self._shape
        return WatchEvent(
            envelope.type, decode_object(envelope.object, shape), bytes(envelope.object)
        )


@functools.cache
def get_event_decoder(shape: Any = None) -> EventDecoder:
    """Return the event decoder of a shape; cached."""
    return EventDecoder(shape)
