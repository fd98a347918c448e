"""Shrink PNG screenshots to a palette of 256 colours."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shrink"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 256
_RGB, _PALETTE = 2, 3
_COARSE = 0xE0
"""What of each channel decides which sort of colour a rare one is."""


def shrink(png: bytes) -> bytes:
    """Return the same picture with a palette, packed as tightly as zlib can.

    Args:
        png: 8 bits a channel, not interlaced, with or without transparency, which is dropped.
    """
    chunks = dict(_chunks(png))
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or kind not in (2, 6):
        raise ValueError(f"a PNG of {depth} bits and colour type {kind}, not one of a browser")
    size = 3 if kind == _RGB else 4
    pixels: list[bytes] = []
    for row in _rows(zlib.decompress(chunks[b"IDAT"]), width * size, size):
        pixels += [bytes(row[at : at + 3]) for at in range(0, len(row), size)]
    counted = Counter(pixels)
    # Plain ground as it is; of the rest one of each sort, so that no hue is lost.
    palette = [colour for colour, _ in counted.most_common(_COLOURS // 2)]
    sorts: dict[bytes, bytes] = {}
    for colour, _ in counted.most_common()[_COLOURS // 2 :]:
        sorts.setdefault(_sort(colour), colour)
    palette += list(sorts.values())[: _COLOURS // 2]
    index = {colour: number for number, colour in enumerate(palette)}
    nearest: dict[bytes, int] = {}
    for colour in counted.keys() - index.keys():
        sort = _sort(colour)
        if sort not in nearest:
            nearest[sort] = index[min(palette, key=partial(_distance, colour))]
        index[colour] = nearest[sort]
    indexed = bytes(index[each] for each in pixels)
    rows = (b"\0" + indexed[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (
            (b"IHDR", head),
            (b"PLTE", b"".join(palette)),
            (b"IDAT", zlib.compress(b"".join(rows), 9)),
            (b"IEND", b""),
        )
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a PNG, those of the pixels as one."""
    pixels, at = b"", len(_SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length
        if name == b"IDAT":
            pixels += data
        else:
            yield name, data
    yield b"IDAT", pixels


def _rows(data: bytes, length: int, size: int) -> Iterator[bytearray]:
    """Yield the rows of pixels, without the filters of the PNG specification (section 9)."""
    above = bytearray(length)
    for start in range(0, len(data), length + 1):
        method, row = data[start], bytearray(data[start + 1 : start + 1 + length])
        for at in range(length) if method else ():
            left = row[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            up = above[at]
            add = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[method]
            row[at] = (row[at] + add) & 0xFF
        above = row
        yield row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))


def _sort(colour: bytes) -> bytes:
    return bytes(each & _COARSE for each in colour)


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
