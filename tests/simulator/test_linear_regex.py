from __future__ import annotations

import re
from contextlib import suppress
from time import process_time
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_kwait.simulator import linear_regex
from pytest_kwait.simulator.busybox.libbb import UsageError
from pytest_kwait.simulator.busybox.patterns import compile_basic_regex, compile_regex

if TYPE_CHECKING:
    from pytest_kwait.simulator.linear_regex import Regex

# On a quiet machine it is a fifth of that.
_MAX_SECONDS = 0.5

_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", "^", "$", r"\b", r"\<", r"\>"])
_QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.tuples(inner, _QUANTIFIERS).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=12,
)


@pytest.fixture
def always_automata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no expression matched by Python."""
    monkeypatch.setattr(linear_regex, "_MAX_BACKTRACKING", -1)
    monkeypatch.setattr(linear_regex, "_MAX_COMPARING", -1)


def _compile(pattern: str) -> Regex:
    try:
        return compile_regex(pattern, extended=True)
    except UsageError:
        assume(False)
        raise


def _may_be_empty(node: linear_regex._Node) -> bool:
    match node:
        case linear_regex._Atom():
            return False
        case linear_regex._Group(_, inner):
            return _may_be_empty(inner)
        case linear_regex._Sequence(nodes):
            return all(map(_may_be_empty, nodes))
        case linear_regex._Choice(branches):
            return any(map(_may_be_empty, branches))
        case linear_regex._Repeat(inner, least):
            return least == 0 or _may_be_empty(inner)
    return True


def _repeats_nothing(node: linear_regex._Node) -> bool:
    match node:
        case linear_regex._Group(_, inner):
            return _repeats_nothing(inner)
        case linear_regex._Sequence(nodes) | linear_regex._Choice(nodes):
            return any(map(_repeats_nothing, nodes))
        case linear_regex._Repeat(inner):
            return _may_be_empty(inner) or _repeats_nothing(inner)
    return False


@settings(max_examples=300, deadline=None)
@given(pattern=_PATTERNS, text=st.text("ab \n", max_size=8))
@example(pattern="(a|ab)(c|bcd)?", text="abcd")
@example(pattern="(a*)*b", text="aaab")
def test_an_automaton_finds_what_backtracking_finds(pattern: str, text: str) -> None:
    expression = _compile(pattern)
    expected = expression._python.search(text)
    automaton = expression._automaton
    automaton.start(len(text))
    assert automaton.is_in(text) == (expected is not None)
    spans = automaton.find(text, 0, is_anchored=False)
    if expected is None:
        assert spans is None
    else:
        assert spans is not None
        assert spans[0] == expected.start()
        # Implementations differ in repetitions of nothing.
        assert spans[1] == expected.end() or _repeats_nothing(expression._node)


@pytest.mark.usefixtures("always_automata")
@pytest.mark.parametrize(
    ("pattern", "text", "groups"),
    [
        ("(a|ab)(c|bcd)(d*)", "abcd", ("a", "bcd", "")),
        ("(a+)+(b)?c", "xaabc", ("aa", "b")),
        ("(a|b)*c", "abc", ("b",)),
        ("(x)?(a+)b", "aab", (None, "aa")),
    ],
)
def test_groups_of_an_automaton(pattern: str, text: str, groups: tuple[str | None, ...]) -> None:
    match = _compile(pattern).search(text)
    assert match is not None
    assert not isinstance(match, re.Match)
    assert tuple(match[number + 1] for number in range(len(groups))) == groups


@pytest.mark.usefixtures("always_automata")
def test_matches_of_an_automaton() -> None:
    expression = _compile("(a+)+")
    spans = [(match.start(), match.end()) for match in expression.find_all("aabaca")]
    assert spans == [(0, 2), (3, 4), (5, 6)]
    assert expression.replace(lambda match: f"<{match[0]}>", "aaba", 1) == ("<aa>ba", 1)
    assert expression.replace(lambda _: "-", "aaba") == ("-b-", 2)
    matched = expression.match("aab")
    assert matched is not None
    assert matched.end() == 2
    assert expression.match("baa") is None


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|aa)+$",
        "(a*)*b",
        "(a|a)*b",
        "a?" * 30 + "a" * 30 + "b",
        "(a|a)" * 40 + "b",
        ".*.*.*.*.*=.*",
        "(a{1,30}){1,30}b",
        "((a?){1,20}){1,20}b",
        "(.|a)*(.|b)*(a|.)*!x",
        "(a(.*b)?)+",
    ],
)
@pytest.mark.parametrize("length", [40, 5000, 300_000])
def test_no_pattern_takes_long(pattern: str, length: int) -> None:
    expression = compile_regex(pattern, extended=True)
    for call in (expression.is_in, expression.search, lambda text: list(expression.find_all(text))):
        began = process_time()
        with suppress(UsageError):
            call("a" * length + "!")
        assert process_time() - began < _MAX_SECONDS


@settings(max_examples=100, deadline=None)
@given(
    pattern=_PATTERNS, part=st.text("ab ", min_size=1, max_size=4), length=st.integers(1, 20_000)
)
def test_no_random_pattern_takes_long(pattern: str, part: str, length: int) -> None:
    text = part * (length // len(part)) + "!"
    began = process_time()
    expression = _compile(pattern)
    with suppress(UsageError):
        list(expression.find_all(text))
    assert process_time() - began < _MAX_SECONDS


def test_a_reference_whose_match_may_take_long_is_refused() -> None:
    expression = compile_basic_regex(r"\(a*\)*\1b")
    with pytest.raises(UsageError, match="too complex for this text"):
        expression.is_in("a" * 1000)
    assert compile_basic_regex(r"\(a*\)b\1").is_in("aabaa")


@pytest.mark.parametrize("pattern", ["(", "a)", "+", "(?=a)", "a{3,2}", r"\1"])
def test_an_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="bad regex"):
        compile_regex(pattern, extended=True)


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("a{,2}b", "aab", True),
        ("a{x", "a{x", True),
        ("{", "{", True),
        ("a**", "aaa", True),
        ("x*?y", "xxy", True),
        ("^a|b$", "cb", True),
        (r"\<ab\>", "x ab", True),
        (r"\<b\>", "x ab", False),
        ("()", "", True),
    ],
)
def test_forms_of_expressions(pattern: str, text: str, is_found: bool) -> None:
    assert compile_regex(pattern, extended=True).is_in(text) is is_found


def test_long_lines_are_searched_fast() -> None:
    text = "some words " * 100_000
    began = process_time()
    assert not compile_regex("error", extended=True).is_in(text)
    assert process_time() - began < _MAX_SECONDS
