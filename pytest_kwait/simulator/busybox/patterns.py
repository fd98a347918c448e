"""Shell globs and POSIX regular expressions, translated to Python's."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import UsageError
from pytest_kwait.simulator.linear_regex import WORD_END, WORD_START, Regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.busybox.os.files import FileSystem

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
_WINDOW = 1024


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
    return re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern) is not None


class Glob:
    """A compiled glob, which is matched in time linear in the text.

    Parts between stars have a fixed length each. It is enough to place each as near as possible to
    the side from which the match is sought.
    """

    def __init__(self, pattern: str) -> None:
        parts: list[list[str]] = [[]]
        position = 0
        while position < len(pattern):
            char = pattern[position]
            position += 1
            if char == "*":
                if parts[-1] or len(parts) == 1:
                    parts.append([])
            elif char == "?":
                parts[-1].append(".")
            elif char == "\\" and position < len(pattern):
                parts[-1].append(re.escape(pattern[position]))
                position += 1
            elif char == "[" and (bracket := _translate_bracket(pattern, position, glob=True)):
                parts[-1].append(bracket[0])
                position = bracket[1]
            else:
                parts[-1].append(re.escape(char))
        self._parts = [_Part(part) for part in parts]

    def matches(self, text: str) -> bool:
        """Return whether it matches the whole text."""
        return self._find_end(text, 0, is_longest=True, is_whole=True) == len(text)

    def find_end(self, text: str, start: int = 0, *, is_longest: bool = True) -> int | None:
        """Return the end of the match that begins at a position, None without one."""
        return self._find_end(text, start, is_longest=is_longest, is_whole=False)

    def _find_end(self, text: str, start: int, *, is_longest: bool, is_whole: bool) -> int | None:
        first, *rest = self._parts
        if not first.is_at(text, start):
            return None
        position: int | None = start + first.length
        if not rest:
            return position
        for part in rest[:-1]:
            position = part.find(text, position or 0)
            if position is None:
                return None
            position += part.length
        position, last = position or 0, rest[-1]
        if is_whole:
            at = len(text) - last.length
            return len(text) if at >= position and last.is_at(text, at) else None
        start_of_last = last.find_last(text, position) if is_longest else last.find(text, position)
        return None if start_of_last is None else start_of_last + last.length

    def find_start(self, text: str, *, is_longest: bool) -> int | None:
        """Return the start of the match that ends with the text, None without one."""
        *rest, last = self._parts
        position: int | None = len(text) - last.length
        if position is None or position < 0 or not last.is_at(text, position):
            return None
        if not rest:
            return position
        for part in reversed(rest[1:]):
            position = part.find_last(text, 0, position)
            if position is None:
                return None
        first = rest[0]
        if is_longest:
            at = first.find(text, 0)
            return at if at is not None and at + first.length <= position else None
        return first.find_last(text, 0, position)

    def find_matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of the longest matches that are not empty, from the left."""
        position = 0
        first = self._parts[0]
        while position < len(text):
            start = first.find(text, position)
            end = None if start is None else self.find_end(text, start)
            if start is None or end is None:
                # Where the other parts do not follow, they follow no later start either.
                return
            if end > start:
                yield start, end
            position = max(end, start + 1)


class _Part:
    """Characters of a glob between stars."""

    def __init__(self, characters: list[str]) -> None:
        self.length = len(characters)
        self._expression = re.compile("".join(characters), re.DOTALL)

    def is_at(self, text: str, position: int) -> bool:
        """Return whether it matches at a position."""
        return self._expression.match(text, position) is not None

    def find(self, text: str, start: int) -> int | None:
        """Return the first position at or after one."""
        match = self._expression.search(text, start)
        return None if match is None else match.start()

    def find_last(self, text: str, start: int, end: int | None = None) -> int | None:
        """Return the last position between two at which it fits."""
        high = (len(text) if end is None else end) - self.length
        while high >= start:
            low = max(start, high - _WINDOW)
            if self._expression.search(text, low, high + self.length):
                return next(at for at in range(high, low - 1, -1) if self.is_at(text, at))
            high = low - 1
        return None


@functools.lru_cache(maxsize=256)
def compile_glob(pattern: str) -> Glob:
    """Translate a glob."""
    return Glob(pattern)


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


def matches_glob(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text."""
    return compile_glob(pattern).matches(text)


def expand_glob(pattern: str, files: FileSystem, folder: str) -> list[str]:
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
            names = files.list_names(files.join_path(folder, start or "."))
            for name in sorted(names or ()):
                if name.startswith(".") and not piece.startswith("."):
                    continue
                if matches_glob(piece, name):
                    grown.append(f"{start}{name}{'' if last else '/'}")
            if len(grown) > _MAX_MATCHES:
                break
        paths = grown
    return sorted(path for path in paths if files.find(files.join_path(folder, path)) is not None)


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
