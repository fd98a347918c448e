from __future__ import annotations

import pytest

from pytest_kwait.apimachinery.go_values import (
    INT32,
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_ip,
    quote_go,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5s", 5),
        ("-1.5h", -5400),
        ("+2m", 120),
        ("1h2m3.5s", 3723.5),
        (".5s", 0.5),
        ("100ms", 0.1),
        ("7µs", 7e-6),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("foo", 'time: invalid duration "foo"'),
        ("1..5s", 'time: missing unit in duration "1..5s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1s5", 'time: missing unit in duration "1s5"'),
        (" 5s", 'time: invalid duration " 5s"'),
        ("5s ", 'time: unknown unit "s " in duration "5s "'),
        ("9999999999999h", 'time: invalid duration "9999999999999h"'),
    ],
)
def test_no_duration(text: str, error: str) -> None:
    with pytest.raises(ValueError, match="time:") as caught:
        parse_duration(text)
    assert str(caught.value) == error


def test_numbers_and_words() -> None:
    assert [parse_bool(text) for text in ("1", "t", "TRUE", "0", "f", "False")] == [
        *[True] * 3,
        *[False] * 3,
    ]
    assert [parse_int(text) for text in ("-7", "+7", "0x1F", "0b11")] == [-7, 7, 31, 3]
    assert parse_int(str(-INT32 - 1), INT32) == -INT32 - 1
    assert [parse_float(text) for text in ("1", "-.5", "1e3")] == [1, -0.5, 1000]
    assert [parse_ip(text) for text in (" 10.0.0.1 ", "::", "2001:DB8::1")] == [
        "10.0.0.1",
        "::",
        "2001:db8::1",
    ]
    assert quote_go('a"b\nc') == '"a\\"b\\nc"'
    assert quote_go("é\a\x01\u200b") == '"é\\a\\x01\\u200b"'


@pytest.mark.parametrize("text", ["", "1_000", "1.5", "0x", "0b2", "٣", "1e3"])
def test_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text)


@pytest.mark.parametrize("text", ["", "inf", "nan", "1,5", "1_0"])
def test_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_float(text)
