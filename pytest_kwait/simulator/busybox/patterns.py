"""Shell globs and POSIX regular expressions, translated to Python's."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.libbb import UsageError

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.files import FileSystem

CHARACTER_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z",
    "lower": "a-z", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "xdigit": "0-9a-fA-F",
    "blank": r" \t", "print": r"\x20-\x7e", "graph": r"\x21-\x7e", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_MAX_MATCHES = 10_000
# Operators after a backslash in basic expressions, without one in extended ones.
_BACKSLASH_OPERATORS = frozenset("+?|(){}")
_MAX_PATTERN = 4000


def escape_glob(text: str) -> str:
    """Return the pattern that matches only the text."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def unescape_glob(pattern: str) -> str:
    """Return the text of a pattern without wildcards."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def has_glob(pattern: str) -> bool:
    """Return whether a pattern has wildcards."""
    return re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern) is not None


@functools.lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Translate a glob."""
    pieces: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            if not pieces or pieces[-1] != ".*":
                pieces.append(".*")
        elif char == "?":
            pieces.append(".")
        elif char == "\\" and position < len(pattern):
            pieces.append(re.escape(pattern[position]))
            position += 1
        elif char == "[":
            bracket = _translate_bracket(pattern, position, glob=True)
            if bracket is None:
                pieces.append(re.escape("["))
            else:
                pieces.append(bracket[0])
                position = bracket[1]
        else:
            pieces.append(re.escape(char))
    return re.compile("".join(pieces), re.DOTALL)


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
    return compile_glob(pattern).fullmatch(text) is not None


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
def compile_regex(pattern: str, *, extended: bool, ignore_case: bool = False) -> re.Pattern[str]:
    """Translate a basic or extended regular expression.

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
                pieces.append(r"\b(?=\w)" if char == "<" else r"\b(?<=\w)")
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
        return re.compile("".join(pieces).replace("$", "$"), re.I if ignore_case else 0)
    except re.error:
        raise UsageError(f"bad regex '{pattern}': Invalid preceding regular expression") from None


def compile_basic_regex(pattern: str) -> re.Pattern[str]:
    """Translate a basic regular expression.

    Raises:
        UsageError: it is invalid.
    """
    return compile_regex(pattern, extended=False)
