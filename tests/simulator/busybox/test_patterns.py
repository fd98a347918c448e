from __future__ import annotations

import re
from fnmatch import translate
from time import process_time
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator.busybox import patterns
from pytest_kwait.simulator.busybox.libbb import WorkMeter

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect

T = TypeVar("T")


def finish(work: Generator[Effect, None, T]) -> T:
    """Return the result of work that yields steps."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("T", end.value)


class Glob:
    """A glob whose matches are found without a pause."""

    def __init__(self, pattern: str) -> None:
        self._meter = WorkMeter()
        self._glob = finish(patterns.Glob.compile(pattern, self._meter))

    def matches(self, text: str) -> bool:
        return finish(self._glob.matches(text, self._meter))

    def find_end(self, text: str, *, is_longest: bool) -> int | None:
        return finish(self._glob.find_end(text, self._meter, is_longest=is_longest))

    def find_start(self, text: str, *, is_longest: bool) -> int | None:
        return finish(self._glob.find_start(text, self._meter, is_longest=is_longest))

    def find_matches(self, text: str) -> Iterator[tuple[int, int]]:
        position = 0
        while match := finish(self._glob.find_match(text, position, self._meter)):
            yield match
            position = match[1]


_PATTERNS = st.lists(st.sampled_from(["a", "b", "?", "*", "[ab]", "[!a]", "**"]), max_size=8).map(
    "".join
)
_TEXTS = st.text("abc\n", max_size=10)


@settings(max_examples=500, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS)
def test_a_glob_matches_as_pythons(pattern: str, text: str) -> None:
    expression = re.compile(translate(pattern))
    assert finish(patterns.matches_glob(pattern, text, WorkMeter())) == (
        expression.match(text) is not None
    )


@settings(max_examples=500, deadline=None)
@given(pattern=_PATTERNS, text=_TEXTS)
def test_matches_at_both_ends_of_a_text(pattern: str, text: str) -> None:
    """The shortest and the longest of all prefixes and suffixes that match."""
    glob = Glob(pattern)
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
    glob = Glob(pattern)
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
    glob, text = Glob(pattern), "a" * length
    began = process_time()
    glob.matches(text)
    for is_longest in (False, True):
        glob.find_end(text, is_longest=is_longest)
        glob.find_start(text, is_longest=is_longest)
    assert all(start < end for start, end in glob.find_matches(text))
    # On a quiet machine it is a fifth of that.
    assert process_time() - began < 0.5
