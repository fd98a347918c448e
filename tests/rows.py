"""Checks of tables with hundreds of rows, in one test each: a test of its own costs more."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Row = TypeVar("_Row")


def check_rows(
    rows: Iterable[_Row],
    check: Callable[[_Row], None],
    *,
    name: Callable[[_Row], object] = lambda row: row,
) -> None:
    """Check each row, and fail with all rows whose assertions fail.

    Args:
        check: asserts of a row; another error ends the test there, with the row in its traceback.
        name: names a row.
    """
    failures = []
    checked = 0
    for row in rows:
        checked += 1
        try:
            check(row)
        except AssertionError as error:
            line = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{name(row)}: {str(error) or line.line}")
    assert checked, "there are no rows"
    if failures:
        pytest.fail(f"{len(failures)} of {checked} rows:\n" + "\n\n".join(failures), pytrace=False)
