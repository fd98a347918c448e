from __future__ import annotations

import re
from fnmatch import translate
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator.busybox.patterns import compile_glob, matches_glob

_PATTERNS = st.lists(st.sampled_from(["a", "b", "?", "*", "[ab]", "[!a]", "**"]), max_size=8).map(
    "".join
)
_TEXTS = st.text("abc\n", max_size=10)


@settings(max_examples=500, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS)
def test_a_glob_matches_as_pythons(pattern: str, text: str) -> None:
    expression = re.compile(translate(pattern))
    assert matches_glob(pattern, text) == (expression.match(text) is not None)


@settings(max_examples=500, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS)
def test_matches_at_both_ends_of_a_text(pattern: str, text: str) -> None:
    """The shortest and the longest of all prefixes and suffixes that match."""
    glob = compile_glob(pattern)
    ends = [end for end in range(len(text) + 1) if glob.matches(text[:end])]
    starts = [start for start in range(len(text) + 1) if glob.matches(text[start:])]
    assert glob.find_end(text, is_longest=False) == min(ends, default=None)
    assert glob.find_end(text, is_longest=True) == max(ends, default=None)
    assert glob.find_start(text, is_longest=False) == max(starts, default=None)
    assert glob.find_start(text, is_longest=True) == min(starts, default=None)


@settings(max_examples=500, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS)
def test_replaced_matches(pattern: str, text: str) -> None:
    """At each position, the longest match that is not empty."""
    glob = compile_glob(pattern)
    expected, position = "", 0
    while position < len(text):
        ends = range(len(text), position, -1)
        end = next((end for end in ends if glob.matches(text[position:end])), position)
        expected += "<>" if end > position else text[position]
        position = max(end, position + 1)
    replaced, position = "", 0
    for start, end in glob.find_matches(text):
        replaced, position = f"{replaced}{text[position:start]}<>", end
    assert replaced + text[position:] == expected


@pytest.mark.parametrize(
    "pattern", ["*a" * 15 + "b", "*" * 15 + "b", "*?" * 15 + "b", "*[ab]*" * 9]
)
@pytest.mark.parametrize("length", [100, 5000, 300_000])
def test_no_glob_takes_long(pattern: str, length: int) -> None:
    glob, text = compile_glob(pattern), "a" * length
    began = process_time()
    glob.matches(text)
    for is_longest in (False, True):
        glob.find_end(text, is_longest=is_longest)
        glob.find_start(text, is_longest=is_longest)
    assert all(start < end for start, end in glob.find_matches(text))
    # On a quiet machine it is a fifth of that.
    assert process_time() - began < 0.5
