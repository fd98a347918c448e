"""Differences of an object from an assertion tree, side by side."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from pytest_kwait.engine.failure.shortening import WIDTH, replace_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.apimachinery.matching import Difference

DIFFERENCES = 12
"""Maximum number of differences of a message."""

_GAP = 2
_CELL_LINES = 3
_TITLES = ("difference", "awaited", "seen")


def render_differences(differences: Sequence[Difference], width: int = WIDTH) -> list[str]:
    """Return a table of differences: the field, the awaited and the seen value; empty for none.

    Args:
        width: the maximum width of lines.
    """
    if not differences:
        return []
    shown = differences[:DIFFERENCES]
    rows = [
        tuple(replace_unprintable(text) for text in (f"  {each.path}", each.awaited, each.seen))
        for each in shown
    ]
    widths = _share_width([_TITLES, *rows], width - 2 - 2 * _GAP)
    lines = [line for row in (_TITLES, *rows) for line in _render_row(row, widths)]
    more = len(differences) - len(shown)
    return [*lines, f"    and {more} more"] if more else lines


def _share_width(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of the columns; the widest are cut to the same width."""
    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [0] * len(longest)
    columns, room = sorted(range(len(longest)), key=longest.__getitem__), width
    for done, column in enumerate(columns):
        widths[column] = min(longest[column], room // (len(columns) - done))
        room -= widths[column]
    return widths


def _render_row(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [_wrap(text, width) for text, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*cells, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield f"  {(' ' * _GAP).join(padded)}".rstrip()


def _wrap(text: str, width: int) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  " if indent else "",
        max_lines=_CELL_LINES,
        placeholder=" ...",
        break_on_hyphens=False,
    )
