"""Rows of benchmarks: figures beside their bars, as one table.

A benchmark is a module with a function `measure_rows`, whose arguments are those of its command
line. What it prints while it measures is detail; its figures are the rows that it returns.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

EX_UNAVAILABLE = 69
"""The exit status of a benchmark that lacks something that it needs."""

_HEAD = ("name", "what", "figure", "bar", "met")


class CannotMeasureError(Exception):
    """The machine lacks something that the benchmark needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of a benchmark.

    Args:
        what: what is measured, in a few words.
        figure: its value.
        bar: the value that it may not exceed; None without a bar.
        unit: for example `ms` or `MB`; empty for a ratio or a count.
        is_least: whether the bar is the least that it has to be.
    """

    what: str
    figure: float
    bar: float | None
    unit: str = ""
    is_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the bar is met; True without one."""
        if self.bar is None:
            return True
        return self.figure >= self.bar if self.is_least else self.figure <= self.bar

    def list_cells(self, name: str) -> tuple[str, ...]:
        """Return its cells in the table.

        Args:
            name: the name of the benchmark.
        """
        figure = _format_value(self.figure, self.unit)
        if self.bar is None:
            return name, self.what, figure, "", ""
        bar = f"{'≥' if self.is_least else '≤'} {_format_value(self.bar, self.unit)}"
        return name, self.what, figure, bar, "yes" if self.is_met else "no"


def format_table(rows: Iterable[Sequence[str]]) -> str:
    """Return cells as a table with a head, columns aligned."""
    lines = [_HEAD, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def run_alone(measure_rows: Callable[..., list[Row]]) -> NoReturn:
    """Run one benchmark with the arguments of the command line, and print its rows.

    Exits with 1 where a bar is missed, with 69 where something is missing.
    """
    types = get_type_hints(measure_rows)
    kinds = [types[name] for name in inspect.signature(measure_rows).parameters]
    given = sys.argv[1:]
    if len(given) > len(kinds):
        sys.exit(f"at most {len(kinds)} arguments are known: {' '.join(given)}")
    try:
        rows = measure_rows(*(kind(text) for kind, text in zip(kinds, given, strict=False)))
    except CannotMeasureError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EX_UNAVAILABLE)
    name = Path(sys.argv[0]).stem
    print(format_table(row.list_cells(name) for row in rows))
    sys.exit(int(not all(row.is_met for row in rows)))


def _format_value(value: float, unit: str) -> str:
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{number} {unit}" if unit else number
