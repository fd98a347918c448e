from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.codec.go_numbers import atoi, parse_int, parse_uint

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = "9" * 5000


@pytest.mark.parametrize(
    ("read", "text", "number"),
    [
        (parse_int, "0", 0),
        (parse_int, "-0", 0),
        (parse_int, f"+{'0' * 5000}12", 12),
        (parse_int, str(2**63 - 1), 2**63 - 1),
        (parse_int, str(-(2**63)), -(2**63)),
        (parse_uint, str(2**64 - 1), 2**64 - 1),
        (atoi, "-007", -7),
    ],
)
def test_numbers_are_read(read: Callable[[str], int], text: str, number: int) -> None:
    assert read(text) == number


@pytest.mark.parametrize(
    ("read", "name"), [(parse_int, "ParseInt"), (parse_uint, "ParseUint"), (atoi, "Atoi")]
)
@pytest.mark.parametrize("text", ["", "x", "1.0", " 1", "1_0", "٣", "--1"])
def test_what_is_no_number(read: Callable[[str], int], name: str, text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax") as caught:
        read(text)
    assert str(caught.value) == f'strconv.{name}: parsing "{text}": invalid syntax'


@pytest.mark.parametrize(
    ("read", "name", "text"),
    [
        (parse_int, "ParseInt", str(2**63)),
        (parse_int, "ParseInt", str(-(2**63) - 1)),
        (parse_int, "ParseInt", f"-{MANY}"),
        (parse_uint, "ParseUint", str(2**64)),
        (parse_uint, "ParseUint", MANY),
        (atoi, "Atoi", MANY),
    ],
)
def test_numbers_out_of_range(read: Callable[[str], int], name: str, text: str) -> None:
    with pytest.raises(ValueError, match="out of range") as caught:
        read(text)
    assert str(caught.value) == f'strconv.{name}: parsing "{text}": value out of range'
