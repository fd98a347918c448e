from __future__ import annotations

import pytest

from pytest_kwait.simulator.go_regexp import pattern_fault, pattern_matches


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
def test_what_is_no_pattern(pattern: str, fault: str) -> None:
    assert pattern_fault(pattern) == f"error parsing regexp: {fault}"
    assert not pattern_matches(pattern, "a")


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
    assert pattern_fault(pattern) == ""
    assert pattern_matches(pattern, text) is found
