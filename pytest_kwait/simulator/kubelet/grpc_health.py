"""The client of gRPC's health protocol, over a minimal HTTP/2.

Source: pkg/probe/grpc/grpc.go, `Probe`; RFC 9113 (HTTP/2); RFC 7541 (HPACK).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession

RECONNECT_SECONDS = 1.0
"""The delay of gRPC's first reconnection."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_PATH = "/grpc.health.v1.Health/Check"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY, _CONTINUATION = 0, 1, 3, 4, 6, 7, 9
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY, _ACK = 0x1, 0x4, 0x8, 0x20, 0x1
_MAX_FRAME = 1 << 20
_STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_SERVING = 1
_CODES = (
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound",
    "AlreadyExists", "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted",
    "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated",
)  # fmt: skip
_UNKNOWN_CODE, _UNIMPLEMENTED, _INTERNAL, _UNAVAILABLE = 2, 12, 13, 14

# HPACK's Huffman code is canonical: the lengths of the codes of all bytes make the codes.
_HUFFMAN_LENGTHS = (
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30,
    28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5,
    5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6,
    6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23,
    22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23,
    20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23,
    22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
)  # fmt: skip
_STATIC_ENTRIES = 61
_TABLE_SIZE = 4096
_ENTRY_OVERHEAD = 32


def _make_huffman_codes() -> dict[tuple[int, int], int]:
    """Return the bytes by length and value of their codes."""
    codes, code, before = {}, 0, 0
    for length, byte in sorted((length, byte) for byte, length in enumerate(_HUFFMAN_LENGTHS)):
        code <<= length - before
        codes[length, code] = byte
        code, before = code + 1, length
    return codes


def _decode_huffman(data: bytes) -> bytes:
    codes = _make_huffman_codes()
    decoded, code, length = bytearray(), 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            symbol = codes.get((length, code))
            if symbol is not None:
                decoded.append(symbol)
                code = length = 0
    return bytes(decoded)


class HeaderDecoder:
    """Decodes the header blocks of one connection; names of the static table are left empty."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str]] = []

    def decode(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block by name.

        Raises:
            ValueError: the block is malformed.
        """
        try:
            return dict(self._read(block))
        except IndexError:
            raise ValueError("malformed header block") from None

    def _read(self, block: bytes) -> Iterator[tuple[str, str]]:
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _read_integer(block, at, 7)
                yield self._get(index)
            elif first & 0xE0 == 0x20:
                _, at = _read_integer(block, at, 5)
            else:
                is_indexed = bool(first & 0x40)
                index, at = _read_integer(block, at, 6 if is_indexed else 4)
                if index:
                    name = self._get(index)[0]
                else:
                    name, at = _read_text(block, at)
                value, at = _read_text(block, at)
                if is_indexed:
                    self._add(name, value)
                yield name, value

    def _get(self, index: int) -> tuple[str, str]:
        return ("", "") if index <= _STATIC_ENTRIES else self._table[index - _STATIC_ENTRIES - 1]

    def _add(self, name: str, value: str) -> None:
        self._table.insert(0, (name, value))
        while (
            sum(len(entry_name) + len(text) + _ENTRY_OVERHEAD for entry_name, text in self._table)
            > _TABLE_SIZE
        ):
            self._table.pop()


def _read_integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _read_text(block: bytes, at: int) -> tuple[str, int]:
    is_huffman = bool(block[at] & 0x80)
    length, at = _read_integer(block, at, 7)
    if at + length > len(block):
        raise IndexError
    data = block[at : at + length]
    return (_decode_huffman(data) if is_huffman else data).decode("latin-1"), at + length


def _make_frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _make_literal(name: str, value: str) -> bytes:
    parts = b""
    for text in (name, value):
        data = text.encode()
        # Values above 126 bytes continue in a second byte.
        size = bytes([len(data)]) if len(data) < 127 else bytes([127]) + _pack(len(data) - 127)
        parts += size + data
    return b"\x00" + parts


def _pack(value: int) -> bytes:
    """Return a variable-length integer, as HPACK and protocol buffers have it."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _make_request(authority: str, service: str, agent: str) -> bytes:
    headers = b"\x83\x86"  # :method POST, :scheme http
    for name, value in (
        (":path", _PATH), (":authority", authority), ("content-type", "application/grpc"),
        ("user-agent", agent), ("te", "trailers"),
    ):  # fmt: skip
        headers += _make_literal(name, value)
    data = service.encode()
    message = b"\x0a" + _pack(len(data)) + data if data else b""
    body = b"\x00" + struct.pack(">I", len(message)) + message
    return _make_frame(_HEADERS, _END_HEADERS, 1, headers) + _make_frame(
        _DATA, _END_STREAM, 1, body
    )


class HealthCheck:
    """One check of the health of a service, over connections until a server answers.

    Args:
        authority: address and port, for the request and messages.
        service: the name of the service; empty for the whole server.
        agent: the `User-Agent`.
    """

    def __init__(self, authority: str, service: str, agent: str) -> None:
        self._authority = authority
        self._service = service
        self._agent = agent
        self._is_connected = False
        """True once the server has sent its settings."""
        self._headers: dict[str, str] = {}
        self._body = b""

    async def run(self, session: ProcessSession) -> str | None:
        """Check over a new connection, and close it.

        Returns:
            why the service is not healthy, in the kubelet's words; empty if it is; None if the
            server has sent no settings.
        """
        try:
            await self._exchange(session)
        except ValueError as error:
            return _describe_status(_INTERNAL, str(error))
        finally:
            session.stop()
        return self._describe_answer() if self._is_connected else None

    def describe_timeout(self, timeout: float) -> str:
        """Return why a check has not ended within `timeout` seconds."""
        if self._is_connected:
            return f"timeout: health rpc did not complete within {timeout:g}s"
        return (
            f'timeout: failed to connect service "{self._authority}" within {timeout:g}s: '
            "context deadline exceeded"
        )

    async def _exchange(self, session: ProcessSession) -> None:
        """Send the request and read the answer."""
        stdin = session.stdin
        assert stdin is not None  # noqa: S101 - of a connection
        stdin.send(_PREFACE + _make_frame(_SETTINGS, 0, 0))
        decoder, block = HeaderDecoder(), b""
        async for kind, flags, stream, body in _read_frames(session):
            if kind == _SETTINGS and not flags & _ACK:
                stdin.send(_make_frame(_SETTINGS, _ACK, 0))
                if not self._is_connected:
                    self._is_connected = True
                    stdin.send(_make_request(self._authority, self._service, self._agent))
            elif kind == _PING and not flags & _ACK:
                stdin.send(_make_frame(_PING, _ACK, 0, body))
            elif kind in (_RESET, _GO_AWAY):
                return
            elif stream == 1 and kind in (_HEADERS, _CONTINUATION):
                block += _strip(flags, body) if kind == _HEADERS else body
                if flags & _END_HEADERS:
                    self._headers.update(decoder.decode(block))
                    block = b""
            elif stream == 1 and kind == _DATA:
                self._body += _strip(flags & ~_PRIORITY, body)
            if stream == 1 and kind in (_HEADERS, _DATA) and flags & _END_STREAM:
                return

    def _describe_answer(self) -> str:
        text = self._headers.get("grpc-status", "")
        if not text.isdigit():
            return _describe_status(_UNAVAILABLE, "error reading from server: EOF")
        if int(text):
            return _describe_status(int(text), unquote(self._headers.get("grpc-message", "")))
        status = _read_status(self._body[5:])
        if status == _SERVING:
            return ""
        return f'service unhealthy (responded with "{_STATUS_NAMES.get(status, status)}")'


def _describe_status(code: int, message: str) -> str:
    if code == _UNIMPLEMENTED:
        return (
            "error: this server does not implement the grpc health protocol "
            f"(grpc.health.v1.Health): {message}"
        )
    name = _CODES[code] if code < len(_CODES) else f"Code({code})"
    return f"error: health rpc probe failed: rpc error: code = {name} desc = {message}"


def _strip(flags: int, body: bytes) -> bytes:
    """Return a frame's content without padding and priority."""
    start, end = 0, len(body)
    if flags & _PADDED:
        start, end = 1, len(body) - body[0]
    return body[start + (5 if flags & _PRIORITY else 0) : end]


def _read_status(message: bytes) -> int:
    """Return the field `status` of a HealthCheckResponse."""
    return message[1] if len(message) > 1 and message[0] == 0x08 else 0


async def _read_frames(session: ProcessSession) -> AsyncIterator[tuple[int, int, int, bytes]]:
    """Yield kind, flags, stream and body of each frame.

    Raises:
        ValueError: the server speaks something else.
    """
    data = b""
    while (piece := await session.output.take()) is not None:
        data += piece[1]
        while len(data) >= 9:
            size = int.from_bytes(data[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", data[3:9])
            if size > _MAX_FRAME:
                return  # not HTTP/2
            if len(data) < 9 + size:
                break
            yield kind, flags, stream & 0x7FFFFFFF, data[9 : 9 + size]
            data = data[9 + size :]
