"""Regular expressions that never hold the event loop, whatever pattern and text are.

An expression whose backtracking is bounded for a text is Python's. Any other is an automaton, in
time linear in the text, with the same result: of the leftmost matches the one that is tried first.
A search beyond a limit is an error.

Source: Russ Cox, "Regular Expression Matching: the Virtual Machine Approach", "… in the Wild".
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MAX_BACKTRACKING = 2_000_000
"""Steps that Python's matcher may take: some 50 ms."""
_MAX_COMPARING = 20_000_000
"""Those of an expression that matches in one way only, which are faster."""
_MAX_EXPONENT = 100
_MAX_WORK = 1_000_000
"""Characters that an automaton may read with one call: some 70 ms."""
_THREAD_WORK = 12
"""The work of a step with positions of groups, in characters."""
_MAX_WORK_UNITS = 20_000
"""Units of work of the longest search."""
_MAX_INSTRUCTIONS = 10_000
_MAX_DEPTH = 100
_MAX_STATES = 1000
_OPERATORS = frozenset(["(", ")", "|", "*", "+", "?", "{", "}"])
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
WORD_START, WORD_END = r"\b(?=\w)", r"\b(?<=\w)"
NOT_AFTER_WORD, NOT_BEFORE_WORD = r"(?<!\w)", r"(?!\w)"

_ASSERTIONS: dict[str, Callable[[_Place], bool]] = {
    "^": lambda place: place.is_start,
    "$": lambda place: place.is_end or place.is_last,
    r"\A": lambda place: place.is_start,
    r"\Z": lambda place: place.is_end,
    r"\b": lambda place: place.after_word != place.before_word,
    r"\B": lambda place: place.after_word == place.before_word,
    WORD_START: lambda place: place.before_word and not place.after_word,
    WORD_END: lambda place: place.after_word and not place.before_word,
    NOT_AFTER_WORD: lambda place: not place.after_word,
    NOT_BEFORE_WORD: lambda place: not place.before_word,
}  # fmt: skip


class _Place(NamedTuple):
    """The surroundings of a position in a text."""

    is_start: bool
    is_end: bool
    is_last: bool
    after_word: bool
    before_word: bool


def is_word(char: str) -> bool:
    """Return whether a character is part of a word."""
    return char.isalnum() or char == "_"


class RegexLimitError(Exception):
    """A search that would take too long."""


class Match(Protocol):
    """A match, as Python's."""

    def __getitem__(self, group: int, /) -> str | None: ...
    def start(self) -> int:
        """Return the position of the first character."""
        ...

    def end(self) -> int:
        """Return the position after the last character."""
        ...


class _AutomatonMatch:
    """A match of an automaton.

    Args:
        spans: start and end of the whole match and of each group; -1 for one without a match.
    """

    def __init__(self, text: str, spans: tuple[int, ...]) -> None:
        self._text, self._spans = text, spans

    def __getitem__(self, group: int, /) -> str | None:
        start, end = self._spans[2 * group : 2 * group + 2]
        return self._text[start:end] if start >= 0 and end >= 0 else None

    def start(self) -> int:
        """Return the position of the first character."""
        return self._spans[0]

    def end(self) -> int:
        """Return the position after the last character."""
        return self._spans[1]


# -- parsing


class _Atom(NamedTuple):
    """A character, as Python's expression for it."""

    text: str


class _Assertion(NamedTuple):
    text: str


class _Reference(NamedTuple):
    group: int


class _Group(NamedTuple):
    number: int
    inner: _Node


class _Sequence(NamedTuple):
    nodes: list[_Node]


class _Choice(NamedTuple):
    branches: list[_Node]


class _Repeat(NamedTuple):
    inner: _Node
    least: int
    most: int | None


_Node = _Atom | _Assertion | _Reference | _Group | _Sequence | _Choice | _Repeat


class _Parser:
    """A parser of pieces: operators, assertions, references and atoms as Python writes them."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self._position = 0
        self.groups = 0
        self._closed: set[int] = set()

    def parse(self) -> _Node:
        """Return the tree of all pieces.

        Raises:
            ValueError: parentheses, quantifiers or references are invalid.
        """
        node = self._parse_choice(0)
        if self._position < len(self._pieces):
            raise ValueError("unmatched parenthesis")
        return node

    def _peek(self) -> str:
        return self._pieces[self._position] if self._position < len(self._pieces) else ""

    def _parse_choice(self, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            raise ValueError("too many parentheses")
        branches = [self._parse_sequence(depth)]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._parse_sequence(depth))
        return branches[0] if len(branches) == 1 else _Choice(branches)

    def _parse_sequence(self, depth: int) -> _Node:
        nodes: list[_Node] = []
        while (piece := self._peek()) not in ("", "|", ")"):
            self._position += 1
            interval = self._read_interval() if piece == "{" else None
            if interval or piece in _QUANTIFIERS:
                least, most = interval or _QUANTIFIERS[piece]
                if not nodes or isinstance(nodes[-1], _Assertion):
                    raise ValueError("nothing to repeat")
                nodes[-1] = _Repeat(nodes[-1], least, most)
            else:
                nodes.append(self._parse_item(piece, depth))
        return _Sequence(nodes)

    def _parse_item(self, piece: str, depth: int) -> _Node:
        if piece == "(":
            self.groups += 1
            number = self.groups
            inner = self._parse_choice(depth + 1)
            if self._peek() != ")":
                raise ValueError("missing parenthesis")
            self._position += 1
            self._closed.add(number)
            return _Group(number, inner)
        if piece in _ASSERTIONS:
            return _Assertion(piece)
        if len(piece) == 2 and piece[0] == "\\" and piece[1] in "123456789":
            if int(piece[1]) not in self._closed:
                raise ValueError("invalid reference")
            return _Reference(int(piece[1]))
        return _Atom(re.escape(piece) if piece in _OPERATORS else piece)

    def _read_interval(self) -> tuple[int, int | None] | None:
        """Read `least,most}`; None if the brace is a character."""
        try:
            end = self._pieces.index("}", self._position)
        except ValueError:
            return None
        match = re.fullmatch(r"(\d{0,4})(,?)(\d{0,4})", "".join(self._pieces[self._position : end]))
        if match is None or not (match[1] or match[2]):
            return None
        self._position = end + 1
        least = int(match[1] or 0)
        most = (int(match[3]) if match[3] else None) if match[2] else least
        if most is not None and most < least:
            raise ValueError("invalid interval")
        return least, most


def _write_python(node: _Node) -> str:
    """Return an expression of Python's."""
    match node:
        case _Atom(text) | _Assertion(text):
            return text
        case _Reference(number):
            return f"(?:\\{number})"
        case _Group(_, inner):
            return f"({_write_python(inner)})"
        case _Sequence(nodes):
            return "".join(map(_write_python, nodes))
        case _Choice(branches):
            return "(?:" + "|".join(map(_write_python, branches)) + ")"
        case _Repeat(inner, least, most):
            text = _write_python(inner)
            text = text if isinstance(inner, _Atom | _Group) else f"(?:{text})"
            return f"{text}{{{least},{'' if most is None else most}}}"


def _count_paths(node: _Node, length: int) -> float:
    """Return an upper bound of the ways to match a node at one position of a text."""
    match node:
        case _Group(_, inner):
            return _count_paths(inner, length)
        case _Sequence(nodes):
            return math.prod(_count_paths(child, length) for child in nodes)
        case _Choice(branches):
            return sum(_count_paths(branch, length) for branch in branches)
        case _Repeat(inner, least, most):
            inner_paths = _count_paths(inner, length)
            if inner_paths > 1:
                if most is None or most * math.log(inner_paths) > _MAX_EXPONENT:
                    return math.inf
                return math.fsum(inner_paths**count for count in range(most + 1))
            if most is None:
                return length + 1
            return min(most - least, length) + 1
    return 1.0


def _count_nodes(node: _Node) -> int:
    """Return the number of steps of a single path."""
    match node:
        case _Group(_, inner):
            return _count_nodes(inner)
        case _Sequence(nodes) | _Choice(nodes):
            return 1 + sum(map(_count_nodes, nodes))
        case _Repeat(inner, least, most):
            return _count_nodes(inner) * max(least, most or 1, 1)
    return 1


# -- automata


class _Character(NamedTuple):
    """Read a character of a set, go on with the next instruction."""

    atom: int


class _Split(NamedTuple):
    """Try one instruction first, then the other."""

    first: int
    second: int


class _Save(NamedTuple):
    """Note the position."""

    slot: int


class _Check(NamedTuple):
    """Go on where an assertion holds."""

    holds: Callable[[_Place], bool]


class _Accept(NamedTuple):
    """Match."""


_Instruction = _Character | _Split | _Save | _Check | _Accept


class _TooComplexError(Exception):
    """An automaton that takes longer than it may."""


class _State(dict[str, "_State | None"]):
    """The next states by character, None after a match; `pcs` are instructions to go on with."""

    def __init__(self, pcs: frozenset[int], *, after_word: bool, is_start: bool) -> None:
        super().__init__()
        self.pcs, self.after_word, self.is_start = pcs, after_word, is_start


class _Automaton:
    """The program of an expression."""

    def __init__(self, node: _Node, flags: int) -> None:
        self._flags = flags
        self._instructions: list[_Instruction] = []
        self._atoms: list[re.Pattern[str]] = []
        self._numbers: dict[str, int] = {}
        self._known: list[dict[str, bool]] = []
        self._groups = 0
        self._states: dict[tuple[frozenset[int], bool, bool], _State] = {}
        self._work = 0
        self._emit(_Save(0))
        self._compile(node)
        self._emit(_Save(1))
        self._emit(_Accept())

    def _emit(self, instruction: _Instruction) -> int:
        if len(self._instructions) >= _MAX_INSTRUCTIONS:
            raise _TooComplexError
        self._instructions.append(instruction)
        return len(self._instructions) - 1

    def _compile(self, node: _Node) -> None:
        match node:
            case _Atom(text):
                if text not in self._numbers:
                    self._numbers[text] = len(self._atoms)
                    self._atoms.append(re.compile(text, self._flags))
                    self._known.append({})
                self._emit(_Character(self._numbers[text]))
            case _Assertion(text):
                self._emit(_Check(_ASSERTIONS[text]))
            case _Reference():
                # What a group matched is unknown to an automaton.
                raise _TooComplexError
            case _Group(number, inner):
                self._groups = max(self._groups, number)
                self._emit(_Save(2 * number))
                self._compile(inner)
                self._emit(_Save(2 * number + 1))
            case _Sequence(nodes):
                for child in nodes:
                    self._compile(child)
            case _Choice(branches):
                self._compile_choice(branches)
            case _Repeat(inner, least, most):
                for _ in range(least):
                    self._compile(inner)
                if most is None:
                    self._compile_loop(inner)
                else:
                    self._compile_options(inner, most - least)

    def _compile_choice(self, branches: list[_Node]) -> None:
        ends: list[int] = []
        for branch in branches[:-1]:
            split = self._emit(_Split(0, 0))
            self._compile(branch)
            ends.append(self._emit(_Split(0, 0)))
            here = len(self._instructions)
            self._instructions[split] = _Split(split + 1, here)
        self._compile(branches[-1])
        here = len(self._instructions)
        for end in ends:
            self._instructions[end] = _Split(here, here)

    def _compile_loop(self, inner: _Node) -> None:
        split = self._emit(_Split(0, 0))
        self._compile(inner)
        self._emit(_Split(split, split))
        self._instructions[split] = _Split(split + 1, len(self._instructions))

    def _compile_options(self, inner: _Node, count: int) -> None:
        splits: list[int] = []
        for _ in range(count):
            splits.append(self._emit(_Split(0, 0)))
            self._compile(inner)
        here = len(self._instructions)
        for split in splits:
            self._instructions[split] = _Split(split + 1, here)

    def start(self, length: int) -> None:
        """Begin a call with a text."""
        self._work = length
        self.spend(0)

    def spend(self, work: int) -> None:
        """Count work, in characters."""
        self._work += work
        if self._work > _MAX_WORK:
            raise _TooComplexError

    def _reads(self, atom: int, char: str) -> bool:
        known = self._known[atom]
        if char not in known:
            if len(known) > _MAX_STATES:
                known.clear()
            known[char] = self._atoms[atom].match(char) is not None
        return known[char]

    # -- whether there is a match

    def is_in(self, text: str, position: int = 0) -> bool:
        """Return whether there is a match at or after a position."""
        after_word = position > 0 and is_word(text[position - 1])
        state = self._get_state(frozenset([0]), after_word=after_word, is_start=position == 0)
        last = len(text) - 1
        for index in range(position, len(text)):
            char = text[index]
            key = "\n$" if index == last and char == "\n" else char
            try:
                following = state[key]
            except KeyError:
                following = state[key] = self._advance(state, char, is_last=key == "\n$")
            if following is None:
                return True
            state = following
        place = _Place(state.is_start, True, False, state.after_word, False)
        return self._follow(state.pcs, place)[1]

    def _get_state(self, pcs: frozenset[int], *, after_word: bool, is_start: bool) -> _State:
        key = (pcs, after_word, is_start)
        if key not in self._states:
            if len(self._states) > _MAX_STATES:
                self._states.clear()
            self._states[key] = _State(pcs, after_word=after_word, is_start=is_start)
        return self._states[key]

    def _advance(self, state: _State, char: str, *, is_last: bool) -> _State | None:
        place = _Place(state.is_start, False, is_last, state.after_word, is_word(char))
        atoms, accepts = self._follow(state.pcs, place)
        if accepts:
            return None
        read = frozenset([0, *(pc + 1 for pc, atom in atoms if self._reads(atom, char))])
        return self._get_state(read, after_word=place.before_word, is_start=False)

    def _follow(self, pcs: frozenset[int], place: _Place) -> tuple[list[tuple[int, int]], bool]:
        """Return the characters that may be read next, and whether this is a match."""
        atoms: list[tuple[int, int]] = []
        visited: set[int] = set()
        stack = list(pcs)
        while stack:
            pc = stack.pop()
            if pc in visited:
                continue
            visited.add(pc)
            match self._instructions[pc]:
                case _Character(atom):
                    atoms.append((pc, atom))
                case _Split(first, second):
                    stack += (second, first)
                case _Save():
                    stack.append(pc + 1)
                case _Check(holds):
                    if holds(place):
                        stack.append(pc + 1)
                case _Accept():
                    return atoms, True
        self.spend(_THREAD_WORK * len(visited))
        return atoms, False

    # -- where it is

    def find(self, text: str, position: int, *, is_anchored: bool) -> tuple[int, ...] | None:
        """Return positions of the match and of its groups, of the first at or after a position."""
        best: tuple[int, ...] | None = None
        threads: list[tuple[int, tuple[int, ...]]] = []
        unset = (-1,) * (2 * self._groups + 2)
        last = len(text) - 1
        for index in range(position, len(text) + 1):
            is_first = index == position or not is_anchored
            if best is None and is_first:
                threads.append((0, unset))
            if not threads:
                break
            place = _Place(
                index == 0,
                index > last,
                index == last and text[index] == "\n",
                index > 0 and is_word(text[index - 1]),
                index <= last and is_word(text[index]),
            )
            threads, best = self._step(threads, best, text, index, place)
        return best

    def _step(
        self,
        threads: list[tuple[int, tuple[int, ...]]],
        best: tuple[int, ...] | None,
        text: str,
        index: int,
        place: _Place,
    ) -> tuple[list[tuple[int, tuple[int, ...]]], tuple[int, ...] | None]:
        """Read a character with all threads, in the order in which backtracking tries them."""
        read: list[tuple[int, tuple[int, ...]]] = []
        visited: set[int] = set()
        stack = threads[::-1]
        char = text[index : index + 1]
        while stack:
            pc, spans = stack.pop()
            if pc in visited:
                continue
            visited.add(pc)
            match self._instructions[pc]:
                case _Character(atom):
                    if char and self._reads(atom, char):
                        read.append((pc + 1, spans))
                case _Split(first, second):
                    stack += ((second, spans), (first, spans))
                case _Save(slot):
                    stack.append((pc + 1, (*spans[:slot], index, *spans[slot + 1 :])))
                case _Check(holds):
                    if holds(place):
                        stack.append((pc + 1, spans))
                case _Accept():
                    best = spans
                    break
        self.spend(_THREAD_WORK * len(visited))
        return read, best


# -- expressions


class Regex:
    """A compiled expression.

    Args:
        pieces: operators, assertions, references, and atoms as Python's expressions.
        around: assertions before and after the expression.
        flags: of Python's, for the atoms.
        error: raised by searches that would take too long.

    Attributes:
        groups: the number of groups.

    Raises:
        ValueError: the expression is invalid.
        re.error: an atom is.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        ignore_case: bool = False,
        around: tuple[str, str] = ("", ""),
        flags: int = 0,
        error: type[Exception] = RegexLimitError,
    ) -> None:
        parser = _Parser(pieces)
        nodes: list[_Node] = [parser.parse()]
        before, after = around
        if before:
            nodes = [_Assertion(before), *nodes, _Assertion(after)]
        self._node = _Sequence(nodes)
        self.groups = parser.groups
        self._flags = flags | (re.IGNORECASE if ignore_case else 0)
        self._python = re.compile(_write_python(self._node), self._flags)
        self._error = error
        self._steps = _count_nodes(self._node)
        self._text = "".join(pieces)
        self._measured = (-1, 0.0)

    @functools.cached_property
    def _automaton(self) -> _Automaton:
        return _Automaton(self._node, self._flags)

    def _is_bounded(self, text: str) -> bool:
        """Return whether backtracking ends soon."""
        return self._measure_backtracking(len(text)) <= _MAX_BACKTRACKING

    def _measure_backtracking(self, length: int) -> float:
        """Return the steps that Python's matcher takes at most for a text."""
        if self._measured[0] != length:
            paths = _count_paths(self._node, length)
            cost = 1 if paths > 1 else _MAX_BACKTRACKING / _MAX_COMPARING
            self._measured = (length, paths * (length + 1) * self._steps * cost)
        return self._measured[1]

    def estimate_work(self, text: str) -> int:
        """Return what a search of a text costs at most, in units of some microseconds."""
        steps = min(self._measure_backtracking(len(text)), _MAX_BACKTRACKING)
        return int(steps * _MAX_WORK_UNITS / _MAX_BACKTRACKING)

    @contextlib.contextmanager
    def _limit(self) -> Iterator[None]:
        """Report an automaton that takes too long."""
        try:
            yield
        except _TooComplexError:
            raise self._error("regular expression too complex for this text") from None

    def _start(self, text: str) -> _Automaton:
        automaton = self._automaton
        automaton.start(len(text))
        return automaton

    def is_in(self, text: str) -> bool:
        """Return whether there is a match.

        Raises:
            RegexLimitError: it would take too long to know.
        """
        if self._is_bounded(text):
            return self._python.search(text) is not None
        with self._limit():
            return self._start(text).is_in(text)

    def search(self, text: str) -> Match | None:
        """Return the first match, None without one.

        Raises:
            RegexLimitError: it would take too long to find.
        """
        return next(self.find_all(text), None)

    def match(self, text: str) -> Match | None:
        """Return the match at the beginning of a text, None without one.

        Raises:
            RegexLimitError: it would take too long to find.
        """
        if self._is_bounded(text):
            return self._python.match(text)
        with self._limit():
            spans = self._start(text).find(text, 0, is_anchored=True)
            return None if spans is None else _AutomatonMatch(text, spans)

    def find_all(self, text: str) -> Iterator[Match]:
        """Yield all matches that do not overlap.

        Raises:
            RegexLimitError: it would take too long to find them.
        """
        if self._is_bounded(text):
            yield from self._python.finditer(text)
            return
        with self._limit():
            automaton = self._start(text)
            position = 0
            while position <= len(text) and automaton.is_in(text, position):
                spans = automaton.find(text, position, is_anchored=False)
                if spans is None:
                    return
                yield _AutomatonMatch(text, spans)
                position = spans[1] + (spans[0] == spans[1])
                automaton.spend(len(text) - position)

    def replace(self, make: Callable[[Match], str], text: str, count: int = 0) -> tuple[str, int]:
        """Return a text with replaced matches, and their number.

        Args:
            count: the most that are replaced; 0 for all.

        Raises:
            RegexLimitError: it would take too long to find them.
        """
        pieces: list[str] = []
        position = number = 0
        for match in self.find_all(text):
            number += 1
            pieces += (text[position : match.start()], make(match))
            position = match.end()
            if number == count:
                break
        return "".join(pieces) + text[position:], number
