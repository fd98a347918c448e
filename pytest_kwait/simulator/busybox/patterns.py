"""Shell globs and POSIX regular expressions, translated to Python's."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pytest_kwait.simulator.busybox.libbb import UsageError, WorkMeter, sort_in_steps
from pytest_kwait.simulator.linear_regex import WORD_END, WORD_START, Regex

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.busybox.os.syscalls import Effect

    T = TypeVar("T")
    Evaluation = Generator[Effect, None, T]
    """A part of a match, which yields a step now and then."""

CHARACTER_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z",
    "lower": "a-z", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "xdigit": "0-9a-fA-F",
    "blank": r" \t", "print": r"\x20-\x7e", "graph": r"\x21-\x7e", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_ESCAPED_CHARACTERS = str.maketrans({char: f"\\{char}" for char in "*?[]\\"})
_ESCAPED_OR_PLAIN = re.compile(r"\\(.)|([^\\]+|\\\Z)", re.DOTALL)
_MAX_MATCHES = 10_000
# Operators after a backslash in basic expressions, without one in extended ones.
_BACKSLASH_OPERATORS = frozenset("+?|(){}")
_MAX_PATTERN = 4000
_PLAIN = re.compile(r"[^*?\[\\]{1,65536}")
_MAX_KEPT_PATTERN, _MAX_KEPT_GLOBS = 256, 256
# Characters of a text that a part is compared with at once: the product of both sizes, the least.
_WINDOW_WORK, _MIN_WINDOW = 1 << 20, 64
_MAX_EXPRESSION = 1000
"""Characters of an expression that is compiled at once."""
_CLASS_WORK = 10
"""The work of an expression that is compiled."""
_NAME_WORK = 10
"""The work of a file name that is compared."""


def escape_glob(text: str) -> str:
    """Return the pattern that matches only the text."""
    return text.translate(_ESCAPED_CHARACTERS)


def unescape_glob(pattern: str) -> str:
    """Return the text of a pattern without wildcards."""
    if "\\" not in pattern:
        return pattern
    return "".join([escaped or text for escaped, text in _ESCAPED_OR_PLAIN.findall(pattern)])


def has_glob(pattern: str) -> bool:
    """Return whether a pattern has wildcards."""
    if not any(char in pattern for char in "*?["):
        return False
    if "\\" not in pattern:
        return True
    for escaped in ("\\\\", "\\*", "\\?", "\\["):
        pattern = pattern.replace(escaped, "")
    return any(char in pattern for char in "*?[")


class Glob:
    """A compiled glob, which is matched in time linear in the text.

    Parts between stars have a fixed length each. It is enough to place each as near as possible to
    the side from which the match is sought. `Glob.compile` makes one.
    """

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    @staticmethod
    def compile(pattern: str, meter: WorkMeter) -> Evaluation[Glob]:
        """Translate a glob."""
        parts = [_PartBuilder()]
        position = 0
        while position < len(pattern):
            yield from meter.spend(2)
            if (run := _PLAIN.match(pattern, position)) is not None:
                parts[-1].add_text(run[0])
                position = run.end()
                continue
            char = pattern[position]
            position += 1
            if char == "*":
                if not parts[-1].is_empty or len(parts) == 1:
                    parts.append(_PartBuilder())
            elif char == "?":
                parts[-1].add_class(".")
            elif char == "\\" and position < len(pattern):
                parts[-1].add_text(pattern[position])
                position += 1
            elif char == "[":
                rest = pattern[position : position + _MAX_PATTERN]
                bracket = _translate_bracket(rest, 0, glob=True)
                yield from meter.spend(len(rest) if bracket is None else bracket[1])
                if bracket is None:
                    parts[-1].add_text(char)
                else:
                    parts[-1].add_class(bracket[0])
                    position += bracket[1]
            else:
                parts[-1].add_text(char)
        compiled = []
        for part in parts:
            compiled += [(yield from part.build(meter))]
        return Glob(compiled)

    def matches(self, text: str, meter: WorkMeter) -> Evaluation[bool]:
        """Return whether it matches the whole text."""
        end = yield from self._find_end(text, 0, meter, is_longest=True, is_whole=True)
        return end == len(text)

    def find_end(
        self, text: str, meter: WorkMeter, start: int = 0, *, is_longest: bool = True
    ) -> Evaluation[int | None]:
        """Return the end of the match that begins at a position, None without one."""
        return self._find_end(text, start, meter, is_longest=is_longest, is_whole=False)

    def _find_end(
        self, text: str, start: int, meter: WorkMeter, *, is_longest: bool, is_whole: bool
    ) -> Evaluation[int | None]:
        first, *rest = self._parts
        if not (yield from first.is_at(text, start, meter)):
            return None
        position: int | None = start + first.length
        if not rest:
            return position
        for part in rest[:-1]:
            position = yield from part.find(text, position or 0, meter)
            if position is None:
                return None
            position += part.length
        position, last = position or 0, rest[-1]
        if is_whole:
            at = len(text) - last.length
            is_there = at >= position and (yield from last.is_at(text, at, meter))
            return len(text) if is_there else None
        start_of_last = (
            (yield from last.find_last(text, position, len(text), meter))
            if is_longest
            else (yield from last.find(text, position, meter))
        )
        return None if start_of_last is None else start_of_last + last.length

    def find_start(
        self, text: str, meter: WorkMeter, *, is_longest: bool
    ) -> Evaluation[int | None]:
        """Return the start of the match that ends with the text, None without one."""
        *rest, last = self._parts
        position: int | None = len(text) - last.length
        if position is None or position < 0 or not (yield from last.is_at(text, position, meter)):
            return None
        if not rest:
            return position
        for part in reversed(rest[1:]):
            position = yield from part.find_last(text, 0, position, meter)
            if position is None:
                return None
        first = rest[0]
        if is_longest:
            at = yield from first.find(text, 0, meter)
            return at if at is not None and at + first.length <= position else None
        return (yield from first.find_last(text, 0, position, meter))

    def find_match(
        self, text: str, position: int, meter: WorkMeter
    ) -> Evaluation[tuple[int, int] | None]:
        """Return start and end of the next longest match that is not empty, None without one."""
        first = self._parts[0]
        while position < len(text):
            start = yield from first.find(text, position, meter)
            end = None
            if start is not None:
                end = yield from self.find_end(text, meter, start)
            if start is None or end is None:
                # Where the other parts do not follow, they follow no later start either.
                return None
            if end > start:
                return start, end
            position = start + 1
        return None


class _Run(NamedTuple):
    """Characters of a part: a text, or one expression `repeats` times."""

    text: str
    repeats: int
    is_class: bool


class _PartBuilder:
    """Collects the characters of a glob between stars; equal neighbours become one expression."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._texts: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return not self._runs and not self._texts

    def add_text(self, text: str) -> None:
        """Add literal characters."""
        self._texts.append(text)

    def add_class(self, expression: str) -> None:
        """Add an expression for one character."""
        self._end_text()
        count = 1
        if self._runs and self._runs[-1].is_class and self._runs[-1].text == expression:
            count += self._runs.pop().repeats
        self._runs.append(_Run(expression, count, is_class=True))

    def _end_text(self) -> None:
        if self._texts:
            text = "".join(self._texts)
            self._runs.append(_Run(text, len(text), is_class=False))
            self._texts.clear()

    def build(self, meter: WorkMeter) -> Evaluation[_Part]:
        """Return the part; its expressions are compiled a few at a time."""
        self._end_text()
        pieces: list[tuple[str | re.Pattern[str], int]] = []
        expressions: list[str] = []
        length = size = 0
        is_text = len(self._runs) == 1
        for run in [*self._runs, None]:
            yield from meter.spend(_CLASS_WORK)
            is_long = (
                run is not None and not run.is_class and (is_text or run.repeats > _MAX_EXPRESSION)
            )
            if expressions and (run is None or is_long or size > _MAX_EXPRESSION):
                yield from meter.spend(size)
                pieces.append((re.compile("".join(expressions), re.DOTALL), length))
                expressions, length, size = [], 0, 0
            if run is None:
                break
            if is_long:
                pieces.append((run.text, run.repeats))
                continue
            expression = f"{run.text}{{{run.repeats}}}" if run.is_class else re.escape(run.text)
            expressions.append(expression)
            length += run.repeats
            size += len(expression)
        return _Part(pieces or [("", 0)])


class _Part:
    """Characters of a glob between stars: texts and expressions, each of a fixed length."""

    def __init__(self, pieces: list[tuple[str | re.Pattern[str], int]]) -> None:
        self.length = sum(length for _, length in pieces)
        self._pieces, (self._first, self._first_length) = pieces, pieces[0]
        self._window = max(_WINDOW_WORK // max(self.length, 1), _MIN_WINDOW)

    def is_at(self, text: str, position: int, meter: WorkMeter) -> Evaluation[bool]:
        """Return whether it matches at a position."""
        for piece, length in self._pieces:
            yield from meter.spend(1 + length // WorkMeter.CHARACTERS)
            is_there = (
                text.startswith(piece, position)
                if isinstance(piece, str)
                else piece.match(text, position) is not None
            )
            if not is_there:
                return False
            position += length
        return True

    def find(self, text: str, start: int, meter: WorkMeter) -> Evaluation[int | None]:
        """Return the first position at or after one."""
        first = self._first
        while start <= len(text) - self.length:
            end = min(start + self._window + self._first_length, len(text))
            yield from meter.spend(self._count_work(end - start))
            if isinstance(first, str):
                at = text.find(first, start, end)
            else:
                match = first.search(text, start, end)
                at = -1 if match is None else match.start()
            if at < 0:
                start = max(end - self._first_length, start) + 1
            elif len(self._pieces) == 1 or (yield from self.is_at(text, at, meter)):
                return at
            else:
                start = at + 1
        return None

    def find_last(
        self, text: str, start: int, end: int, meter: WorkMeter
    ) -> Evaluation[int | None]:
        """Return the last position between two at which it fits."""
        if len(self._pieces) == 1 and isinstance(self._first, str):
            yield from meter.spend(1 + (end - start) // WorkMeter.CHARACTERS)
            at = text.rfind(self._first, start, end)
            return at if at >= 0 else None
        high = end - self.length
        while high >= start:
            low = max(start, high - self._window)
            found = yield from self.find(text[low : high + self.length], 0, meter)
            if found is not None:
                for at in range(high, low - 1, -1):
                    if (yield from self.is_at(text, at, meter)):
                        return at
            high = low - 1
        return None

    def _count_work(self, size: int) -> int:
        """Return the work of a search in so many characters."""
        is_text = isinstance(self._first, str)
        compared = size if is_text else size * min(self._first_length, _MAX_PATTERN)
        return 1 + compared // WorkMeter.CHARACTERS


_globs: dict[str, Glob] = {}


def compile_glob(pattern: str, meter: WorkMeter) -> Evaluation[Glob]:
    """Translate a glob; those of scripts are short, and few."""
    glob = _globs.get(pattern)
    if glob is None:
        glob = yield from Glob.compile(pattern, meter)
        if len(pattern) <= _MAX_KEPT_PATTERN:
            if len(_globs) >= _MAX_KEPT_GLOBS:
                _globs.clear()
            _globs[pattern] = glob
    return glob


def _translate_bracket(pattern: str, position: int, *, glob: bool) -> tuple[str, int] | None:
    """Return the translation of a bracket expression and its end; None if it is not closed.

    Args:
        pattern: the whole pattern.
        position: the index after `[`.
        glob: whether `!` negates, backslashes quote, and a reversed range is empty.
    """
    negated = pattern[position : position + 1] in (("!", "^") if glob else ("^",))
    position += negated
    pieces: list[str] = []
    first = True
    while position < len(pattern):
        char = pattern[position]
        if char == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(pieces)}]", position + 1
        first = False
        if pattern.startswith("[:", position) and (close := pattern.find(":]", position)) > 0:
            pieces.append(CHARACTER_CLASSES.get(pattern[position + 2 : close], ""))
            position = close + 2
            continue
        if glob and char == "\\" and position + 1 < len(pattern):
            position += 1
            char = pattern[position]
        last = pattern[position + 2 : position + 3]
        if pattern[position + 1 : position + 2] == "-" and last not in ("", "]"):
            if not glob or char <= last:
                pieces.append(f"{re.escape(char)}-{re.escape(last)}")
            position += 3
            continue
        pieces.append(re.escape(char))
        position += 1
    return None


def matches_glob(pattern: str, text: str, meter: WorkMeter) -> Evaluation[bool]:
    """Return whether a pattern matches the whole text."""
    if not has_glob(pattern):
        return unescape_glob(pattern) == text
    glob = yield from compile_glob(pattern, meter)
    return (yield from glob.matches(text, meter))


def expand_glob(
    pattern: str, files: FileSystem, folder: str, meter: WorkMeter
) -> Evaluation[list[str]]:
    """Return the sorted paths that match.

    Args:
        pattern: a path with wildcards.
        folder: the base of a relative path.
    """
    pieces = pattern.split("/")
    paths = [""]
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        if not has_glob(piece):
            paths = [f"{start}{unescape_glob(piece)}{'' if last else '/'}" for start in paths]
            continue
        grown: list[str] = []
        for start in paths:
            yield from meter.spend(_NAME_WORK)
            names = files.list_names(files.join_path(folder, start or "."))
            for name in names or ():
                yield from meter.spend(_NAME_WORK)
                if name.startswith(".") and not piece.startswith("."):
                    continue
                if (yield from matches_glob(piece, name, meter)):
                    grown.append(f"{start}{name}{'' if last else '/'}")
            if len(grown) > _MAX_MATCHES:
                break
        paths = grown
    found: list[str] = []
    for path in paths:
        yield from meter.spend(_NAME_WORK)
        if files.find(files.join_path(folder, path)) is not None:
            found.append(path)
    return (yield from sort_in_steps(found, str, meter))


@functools.lru_cache(maxsize=128)
def compile_regex(
    pattern: str,
    *,
    extended: bool,
    ignore_case: bool = False,
    around: tuple[str, str] = ("", ""),
) -> Regex:
    """Translate a basic or extended regular expression.

    Args:
        around: Python's assertions before and after the whole expression.

    Raises:
        UsageError: it is invalid.
    """
    pieces: list[str] = []
    position, start = 0, True
    if len(pattern) > _MAX_PATTERN:
        raise UsageError("regular expression too big")
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "[":
            bracket = _translate_bracket(pattern, position, glob=False)
            if bracket is None:
                raise UsageError(f"bad regex '{pattern}': Missing ']'")
            pieces.append(bracket[0])
            position = bracket[1]
        elif char == "\\":
            if position >= len(pattern):
                raise UsageError("Trailing backslash")
            char = pattern[position]
            position += 1
            if char in _BACKSLASH_OPERATORS and not extended:
                pieces.append(char)
                start = char in "(|"
                continue
            if char in "<>":
                pieces.append(WORD_START if char == "<" else WORD_END)
            elif char in "wWsSbB123456789":
                pieces.append("\\" + char)
            else:
                pieces.append("\n" if char == "n" else re.escape(char))
        elif char == "*":
            # At the beginning of a basic expression it is literal.
            pieces.append(r"\*" if start and not extended else "*" if not start else "")
        elif char in _BACKSLASH_OPERATORS:
            pieces.append(char if extended else re.escape(char))
            start = extended and char in "(|"
            continue
        elif char == "^":
            pieces.append("^" if extended or start else r"\^")
            continue
        elif char == "$":
            ends = position == len(pattern) or pattern.startswith(("\\)", "\\|"), position)
            pieces.append("$" if extended or ends else r"\$")
        elif char == ".":
            pieces.append(".")
        else:
            pieces.append(re.escape(char))
        start = False
    try:
        return Regex(pieces, ignore_case=ignore_case, around=around, error=UsageError)
    except (ValueError, re.error):
        raise UsageError(f"bad regex '{pattern}': Invalid preceding regular expression") from None


def compile_basic_regex(pattern: str) -> Regex:
    """Translate a basic regular expression.

    Raises:
        UsageError: it is invalid.
    """
    return compile_regex(pattern, extended=False)
