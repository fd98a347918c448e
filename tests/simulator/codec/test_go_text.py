from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.codec import go_text
from pytest_kwait.simulator.codec.go_text import (
    atoi,
    find_pattern_error,
    matches_pattern,
    parse_int,
    parse_uint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
def test_invalid_numbers(read: Callable[[str], int], name: str, text: str) -> None:
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


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("([", "missing closing ]: `[`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(a", "missing closing ): `(a`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("\\8", "invalid escape sequence: `\\8`"),
    ],
)
def test_invalid_patterns(pattern: str, fault: str) -> None:
    assert find_pattern_error(pattern) == f"error parsing regexp: {fault}"
    assert not matches_pattern(pattern, "a")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\d+\z", "12", True),
        ("^a$", "a\n", False),
        ("[[:upper:]]", "aB", True),
        (r"\p{Greek}", "\u03b1", True),
        (r"^\d$", "٣", False),
        ("(a+)+$", "a" * 5000 + "b", False),
    ],
)
def test_patterns_are_those_of_go(pattern: str, text: str, found: bool) -> None:
    assert find_pattern_error(pattern) == ""
    assert matches_pattern(pattern, text) is found


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    monkeypatch.setattr(go_text, "_has_re2", lambda: False)
    find_pattern_error.cache_clear()
    yield
    find_pattern_error.cache_clear()


@pytest.mark.usefixtures("without_re2")
def test_patterns_without_re2_are_those_of_python() -> None:
    assert find_pattern_error(r"^\d+$") == ""
    assert matches_pattern(r"^\d+$", "12")
    assert not matches_pattern(r"^\d+$", "٣")
    assert find_pattern_error("([") == "error parsing regexp: unterminated character set: `([`"
    assert not matches_pattern("([", "a")


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^(?:a|b)+?\.[x\]-]{1,3}$", "ab.]-x", True),
        (r"(?P<name>a+)\x41$", "aaA", True),
        (r"^\w+$", "é", False),
        ("^(a+)+$", "a" * 200 + "!", False),
        ("(a|a)*b", "a" * 5000, False),
    ],
)
def test_patterns_without_re2_take_no_long_time(pattern: str, text: str, found: bool) -> None:
    assert find_pattern_error(pattern) == ""
    assert matches_pattern(pattern, text) is found


@pytest.mark.usefixtures("without_re2")
@pytest.mark.parametrize("pattern", [r"(a*)*\1", "(?=a)", "(?i)a"])
def test_patterns_that_need_re2_are_refused_without(pattern: str) -> None:
    text = f"error parsing regexp: not supported without the extra `cel`: `{pattern}`"
    assert find_pattern_error(pattern) == text
