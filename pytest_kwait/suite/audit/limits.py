"""Limits of waits, suggested from the durations of many runs.

A suggested limit is three times the 99th percentile, at least 5 s, rounded up to a readable
duration. It needs ten waits. Waits that ended at their limit count with it, so a limit that was too
short is not suggested again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.suite.report.records import WaitRecord

_FACTOR = 3.0
_FLOOR = 5.0
_MIN_WAITS = 10
_READABLE = (
    *(5, 10, 15, 20, 30, 45),
    *(60 * minutes for minutes in (1, 1.5, 2, 3, 5, 10, 15, 20, 30, 45)),
)
"""Seconds of suggested limits; above, whole half hours."""

_HALF_HOUR = 1800
_HEADINGS = ("waits", "median", "p95", "p99", "max", "limit", "suggested")


def suggest_limit(seconds: float) -> float:
    """Return the limit of waits that take this long at most, in seconds."""
    needed = max(_FACTOR * seconds, _FLOOR)
    for readable in _READABLE:
        if needed <= readable:
            return float(readable)
    return float(math.ceil(needed / _HALF_HOUR) * _HALF_HOUR)


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The durations of the waits that share a limit, in seconds.

    Args:
        name: the name in the timeout table; of a call with its own limit, `file:line wait`.
        is_named: whether it is one of the table.
        waits: the number of waits.
        timed_out: how many of them ended at their limit.
        limit: the longest limit that they had.
    """

    name: str
    is_named: bool
    waits: int
    timed_out: int
    median: float
    p95: float
    p99: float
    longest: float
    limit: float

    @property
    def suggested(self) -> float | None:
        """The suggested limit in seconds; None if there are too few waits."""
        return suggest_limit(self.p99) if self.waits >= _MIN_WAITS else None


def collect_limits(waits: Iterable[WaitRecord]) -> list[LimitRow]:
    """Return the limits of recorded waits: those of the table, then those of calls."""
    groups: dict[tuple[bool, str], list[WaitRecord]] = {}
    for wait in waits:
        if (
            not wait.limit
            or not wait.name
            or wait.inner
            or wait.outcome not in ("met", "timed out")
        ):
            continue
        name = wait.limit_name or f"{wait.site} {wait.name}"
        groups.setdefault((not wait.limit_name, name), []).append(wait)
    return [_make_row(name, not is_own, group) for (is_own, name), group in sorted(groups.items())]


def _make_row(name: str, is_named: bool, waits: Sequence[WaitRecord]) -> LimitRow:
    seconds = sorted(wait.seconds for wait in waits)
    return LimitRow(
        name,
        is_named,
        len(waits),
        sum(wait.outcome == "timed out" for wait in waits),
        _percentile(seconds, 50),
        _percentile(seconds, 95),
        _percentile(seconds, 99),
        seconds[-1],
        max(wait.limit for wait in waits),
    )


def _percentile(seconds: Sequence[float], percent: int) -> float:
    """Return the smallest duration that is not exceeded by this share of all."""
    return seconds[math.ceil(len(seconds) * percent / 100) - 1]


def render_limits(rows: Sequence[LimitRow]) -> list[str]:
    """Return the tables, and the lines for the ini file and for calls."""
    named = [row for row in rows if row.is_named]
    own = [row for row in rows if not row.is_named]
    lines = _render_table("name in the timeout table", named) if named else []
    if own:
        lines += [*([""] if lines else []), *_render_table("call with its own limit", own)]
    changed = [f"{row.name}={limit}" for row in named if (limit := _format_change(row))]
    if changed:
        lines += ["", "for the ini file:", f'kwait_timeout = "{",".join(changed)}"']
    calls = [f'{row.name}: timeout="{limit}"' for row in own if (limit := _format_change(row))]
    if calls:
        lines += ["", "for the calls:", *calls]
    if any(row.suggested is None for row in rows):
        lines += ["", f"a suggestion needs {_MIN_WAITS} waits: add reports of further runs"]
    return lines


def _format_change(row: LimitRow) -> str:
    """Return the suggested limit; empty if there is none, or it is the present one."""
    suggested = row.suggested
    return "" if suggested is None or suggested == row.limit else format_limit(suggested)


def _render_table(title: str, rows: Sequence[LimitRow]) -> list[str]:
    """Return a table; the names of calls, which are long, have lines of their own."""
    row_cells = [(row.name if row.is_named else "", *_cells(row)) for row in rows]
    cells = [(title, *_HEADINGS), *row_cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line, row in zip(cells, [None, *rows], strict=True):
        if row is not None and not row.is_named:
            lines.append(row.name)
        first, *rest = zip(line, widths, strict=True)
        note = f"  {row.timed_out} timed out" if row is not None and row.timed_out else ""
        texts = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        lines.append("  ".join(texts) + note)
    return lines


def _cells(row: LimitRow) -> tuple[str, ...]:
    return (
        str(row.waits),
        *(format_rounded(duration) for duration in (row.median, row.p95, row.p99, row.longest)),
        format_limit(row.limit),
        "-" if row.suggested is None else format_limit(row.suggested),
    )


def format_limit(seconds: float) -> str:
    """Return a duration without zeros: `2m`, not `2m0s`."""
    text = format_duration(seconds)
    for zero, unit in (("m0s", "m"), ("h0m", "h")):
        if text.endswith(zero):
            text = text.removesuffix(zero) + unit
    return text


def format_rounded(seconds: float) -> str:
    """Return a measured duration in few digits."""
    digits = 3 if seconds < 1 else 1 if seconds < 10 else 0
    return format_limit(round(seconds, digits))
