"""The body of an answer in chunks, read from a socket that gives what a test says."""

from __future__ import annotations

import http.client
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from pytest_kwait.client.watch import ChunkedBody

LINES = [b'{"a":1}\n', b'{"b":"' + b"x" * 40 + b'"}\n', b"{}\n"]
WHOLE = b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in LINES) + b"0\r\n\r\n"
NOTHING_YET = BlockingIOError()


class Line:
    """A connection, and the answer that comes over it.

    Args:
        coming: what each read gives.
        ahead: what http.client has read already.
    """

    def __init__(self, *coming: bytes | OSError, ahead: bytes | OSError = b"") -> None:
        self.coming, self.ahead = list(coming), ahead
        self.timeouts: list[float | None] = []
        self.ended: list[str] = []
        self.fp = SimpleNamespace(peek=lambda: self._given(self.ahead))

    def gettimeout(self) -> float | None:
        return 7.0

    def settimeout(self, timeout: float | None) -> None:
        self.timeouts.append(timeout)

    def recv_into(self, view: memoryview) -> int:
        data = self._given(self.coming.pop(0))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self.ended.append("closed")

    def release_conn(self) -> None:
        self.ended.append("released")

    def body(self) -> ChunkedBody:
        parts: Any = self
        return ChunkedBody(parts, parts, parts)

    def _given(self, item: bytes | OSError) -> bytes:
        if isinstance(item, OSError):
            raise item
        return item


def parts(size: int) -> list[bytes]:
    return [WHOLE[i : i + size] for i in range(0, len(WHOLE), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_body_read_in_parts_of_any_size_is_complete(size: int) -> None:
    line = Line(*parts(size))
    body = line.body()
    pieces = [piece for read in iter(lambda: body.read(drain=False), None) for piece in read]
    assert b"".join(pieces) == b"".join(LINES)
    # Closed first: a connection whose answer is open refuses the next request.
    assert line.ended == ["closed", "released"]
    assert line.timeouts == [0, 7.0]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_available_bytes_are_drained_in_parts_of_any_size(size: int) -> None:
    line = Line(*(each for part in parts(size) for each in (part, NOTHING_YET)))
    body = line.body()
    pieces: list[bytes] = []
    while body._dechunker.ended is False:
        try:
            pieces += body.read(drain=True) or []
        except BlockingIOError:
            # The wait for more, which a real socket would not end.
            continue
    assert b"".join(pieces) == b"".join(LINES)


def test_whether_all_that_had_come_was_returned_is_said_of_the_last_read_alone() -> None:
    body = Line(WHOLE[:20], NOTHING_YET, WHOLE[20:]).body()
    said = [body.drained]
    assert body.read(drain=True) == [LINES[0], LINES[1][:3]]
    said.append(body.drained)
    body.read(drain=False)
    said.append(body.drained)
    assert said == [False, True, False]


def test_draining_waits_only_for_the_first_line() -> None:
    line = Line(WHOLE[:20], WHOLE[20:], NOTHING_YET)
    assert b"".join(line.body().read(drain=True) or []) == b"".join(LINES)
    # What it waits for it waits for, and for nothing else.
    assert line.timeouts == [0, 7.0, 0, 7.0]


def test_a_connection_that_is_closed_has_ended_early_or_not_at_all() -> None:
    body = Line(WHOLE[:-2], b"").body()
    assert b"".join(body.read(drain=False) or []) == b"".join(LINES)
    assert body.read(drain=False) is None
    body = Line(WHOLE[:20], b"").body()
    body.read(drain=False)
    with pytest.raises(ProtocolError, match=r"^the connection was closed within the answer$"):
        body.read(drain=False)


def test_incomplete_line_is_not_drained() -> None:
    line = Line(WHOLE[:8], WHOLE[8:], NOTHING_YET)
    assert line.body().read(drain=True) == [LINES[0][:5]]
    assert line.coming == [WHOLE[8:], NOTHING_YET]


@pytest.mark.parametrize("error", [BlockingIOError(), ssl.SSLWantReadError()])
def test_where_nothing_was_read_ahead(error: OSError) -> None:
    line = Line(WHOLE, ahead=error)
    assert b"".join(line.body().read(drain=False) or []) == b"".join(LINES)
    assert line.timeouts == [0, 7.0]


def test_bytes_read_ahead_come_first() -> None:
    line = Line(WHOLE[30:], ahead=WHOLE[:30])
    body = line.body()
    pieces = [piece for read in iter(lambda: body.read(drain=False), None) for piece in read]
    assert b"".join(pieces) == b"".join(LINES)


def test_broken_chunk_is_raised_after_the_events_before_it() -> None:
    line = Line(WHOLE[:13] + b"nonsense\r\n")
    body = line.body()
    assert body.read(drain=False) == [LINES[0]]
    with pytest.raises(ProtocolError, match=r"^expected the size of a chunk, got b'nonsense'$"):
        body.read(drain=False)
    assert line.ended == []


def test_only_answers_in_chunks_over_known_sockets_are_read_so() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inner = http.client.HTTPResponse(ours)
        connection = SimpleNamespace(sock=ours)

        def read_by_us(**other: Any) -> bool:
            known = {"connection": connection, "chunked": True, "_fp": inner}
            answer: Any = SimpleNamespace(**{**known, **other})
            return ChunkedBody.of(answer) is not None

        class Wrapped(socket.socket):
            pass

        assert read_by_us()
        assert not read_by_us(chunked=False)
        assert not read_by_us(_fp=SimpleNamespace(fp=inner.fp))
        assert not read_by_us(connection=None)
        with Wrapped() as wrapped:
            assert not read_by_us(connection=SimpleNamespace(sock=wrapped))
        inner.close()
