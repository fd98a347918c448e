from __future__ import annotations

import struct
import zlib

import pytest

from tests.test_links import ROOT
from tools.small_png import shrink

PICTURES = sorted((ROOT / "docs" / "images").glob("*.png"))
RED, BLUE, GREY = (250, 0, 3), (1, 2, 251), (100, 101, 102)
ROWS = [(RED, BLUE, GREY), (GREY, RED, RED), (BLUE, GREY, RED), (RED, RED, BLUE), (GREY, BLUE, RED)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_shown(picture: object) -> None:
    from pathlib import Path

    assert isinstance(picture, Path)
    assert picture.stat().st_size < 150_000, "run `python -m tools.pictures`"
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert any(f"images/{picture.name})" in page.read_text() for page in pages)


@pytest.mark.parametrize("kind", [2, 6], ids=["plain", "transparent"])
def test_a_palette_keeps_the_picture(kind: int) -> None:
    whole = [b"".join(bytes(each) + b"\xff" * (kind == 6) for each in row) for row in ROWS]
    size = 3 + (kind == 6)
    filtered = b"".join(
        bytes([method]) + _filtered(method, row, above, size)
        for method, (row, above) in enumerate(
            zip(whole, [bytes(len(whole[0])), *whole], strict=False)
        )
    )

    found = _chunks(shrink(_png((8, kind), filtered)))

    assert struct.unpack(">IIBBBBB", found[b"IHDR"]) == (3, 5, 8, 3, 0, 0, 0)
    palette = [tuple(found[b"PLTE"][at : at + 3]) for at in range(0, len(found[b"PLTE"]), 3)]
    assert sorted(palette) == sorted([RED, BLUE, GREY])
    data = zlib.decompress(found[b"IDAT"])
    assert [
        tuple(palette[each] for each in data[at + 1 : at + 4]) for at in range(0, 20, 4)
    ] == ROWS


def test_more_colours_than_a_palette_has_become_near_ones() -> None:
    row = b"".join(bytes((0, number % 256, number // 256)) for number in range(300))

    found = _chunks(shrink(_png((8, 2), b"\0" + row, (300, 1))))

    assert len(found[b"PLTE"]) <= 256 * 3
    data = zlib.decompress(found[b"IDAT"])[1:]
    assert list(data[:128]) == list(range(128))
    shown = [found[b"PLTE"][3 * each : 3 * each + 3] for each in data]
    assert all(abs(each[1] - number % 256) < 64 for number, each in enumerate(shown))


def test_what_no_browser_writes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a PNG of 16 bits and colour type 2, not one of a brow"):
        shrink(_png((16, 2), b""))


def _png(form: tuple[int, int], data: bytes, size: tuple[int, int] = (3, 5)) -> bytes:
    head = struct.pack(">IIBBBBB", *size, *form, 0, 0, 0)
    packed = zlib.compress(data)
    half = len(packed) // 2
    parts = [(b"IHDR", head), (b"IDAT", packed[:half]), (b"IDAT", packed[half:]), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


def _chunks(png: bytes) -> dict[bytes, bytes]:
    found, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        found[png[at + 4 : at + 8]] = png[at + 8 : at + 8 + length]
        at += 12 + length
    return found


def _filtered(method: int, row: bytes, above: bytes, size: int) -> bytes:
    out = []
    for at, each in enumerate(row):
        left, corner = (row[at - size], above[at - size]) if at >= size else (0, 0)
        up = above[at]
        guess = left + up - corner
        paeth = min((left, up, corner), key=lambda value: abs(guess - value))
        out.append(each - (0, left, up, (left + up) // 2, paeth)[method] & 0xFF)
    return bytes(out)
