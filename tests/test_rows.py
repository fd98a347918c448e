from __future__ import annotations

import pytest

from tests.rows import check_rows


def _is_even(number: int) -> None:
    assert number % 2 == 0, f"{number} is odd"


def test_all_failing_rows_are_named() -> None:
    check_rows([0, 2], _is_even)
    with pytest.raises(pytest.fail.Exception) as caught:
        check_rows([1, 2, 3], _is_even)
    assert "2 of 3 rows:\n1: 1 is odd" in str(caught.value)
    assert "\n\n3: 3 is odd" in str(caught.value)


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(AssertionError, match="there are no rows"):
        check_rows([], _is_even)
