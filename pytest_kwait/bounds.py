"""Bounds of files that are read: recordings, journals, reports, manifests; their encoding.

Such a file may come from another machine: its size in memory and its numbers are checked before it
is decoded.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Bytes of a file, unpacked."""
MAX_LINE_BYTES = 8 * 1024 * 1024
"""Bytes of a line of a recording or a journal; an object of the API has at most 3 MiB."""
MAX_VALUES = 8_000_000
"""Values in a file, which take up to a hundred bytes of memory each."""

MAX_SECONDS = 1e12
Seconds = Annotated[float, msgspec.Meta(ge=-MAX_SECONDS, le=MAX_SECONDS)]
"""A duration, or a time since the epoch, for which clocks and pages have a number."""

_GZIP_FORMAT = 31
_encode = msgspec.json.Encoder().encode


def encode_json(value: object) -> bytes:
    """Encode as JSON; lone surrogates, as in a test's id, become their escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_escape_surrogates(msgspec.to_builtins(value)))


def _escape_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escape_surrogates(key): _escape_surrogates(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_escape_surrogates(part) for part in value]
    return value


class FileTooLargeError(ValueError):
    """A file has more bytes than are read; names both figures."""

    def __init__(self, size: str, most: int) -> None:
        super().__init__(f"it has {size} bytes, and at most {most:,} are read")


def read_limited(path: Path, most: int) -> bytes:
    """Read a file, which may be a pipe or a device without an end.

    Raises:
        FileTooLargeError: it has more than `most` bytes.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise FileTooLargeError(f"{size:,}", most)
        data = file.read(most + 1)
    if len(data) > most:
        raise FileTooLargeError(f"more than {most:,}", most)
    return data


def read_bounded(path: Path, what: str) -> bytes:
    """Read a file.

    Raises:
        InvalidArgument: it is larger than `MAX_FILE_BYTES`.
        OSError: it cannot be read.
    """
    try:
        return read_limited(path, MAX_FILE_BYTES)
    except FileTooLargeError:
        raise _too_large_error(what, str(path)) from None


def unpack(data: bytes, what: str, value: str) -> bytes:
    """Decompress gzip.

    Raises:
        EOFError: its end is missing.
        zlib.error: it is corrupted.
        InvalidArgument: it has more than `MAX_FILE_BYTES`.
    """
    parts, size = [], 0
    while data:
        member = zlib.decompressobj(_GZIP_FORMAT)
        part = member.decompress(data, MAX_FILE_BYTES + 1 - size)
        size += len(part)
        if size > MAX_FILE_BYTES:
            raise _too_large_error(what, value)
        if not member.eof:
            raise EOFError
        parts.append(part)
        data = member.unused_data.lstrip(b"\0")
    return b"".join(parts)


def check_values(data: bytes, what: str, value: str, *, lines: bool = True) -> None:
    """Check the number of values of JSON, and with `lines` the length of its lines.

    Raises:
        InvalidArgument: they are more or longer than the bounds.
    """
    count = sum(map(data.count, (b",", b"{", b"[", b"\n")))
    if count > MAX_VALUES:
        text = f"it has more than {MAX_VALUES:,} values, which is the most that is read"
        raise InvalidArgument(what, value, text)
    start = 0
    while lines and len(data) - start > MAX_LINE_BYTES:
        end = data.rfind(b"\n", start, start + MAX_LINE_BYTES + 1)
        if end < 0:
            number = data.count(b"\n", 0, start) + 1
            text = f"its line {number} has more than {MAX_LINE_BYTES:,} bytes"
            raise InvalidArgument(what, value, f"{text}, which is the most that is read")
        start = end + 1


def _too_large_error(what: str, value: str) -> InvalidArgument:
    text = f"it has more than {MAX_FILE_BYTES:,} bytes, unpacked, which is the most that is read"
    return InvalidArgument(what, value, text)
