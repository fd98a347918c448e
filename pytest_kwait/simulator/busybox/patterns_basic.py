"""The regular expressions of `grep`, `sed` and `expr`, as Python's."""

from __future__ import annotations

import functools
import re

from pytest_kwait.simulator.busybox.libbb import UsageError
from pytest_kwait.simulator.busybox.patterns import CHARACTER_CLASSES as CLASSES

__all__ = ["compile_basic_regex", "compile_regex"]

# What is an operator with a backslash in basic expressions, and without one in extended ones.
_BACKSLASH_OPERATORS = frozenset("+?|(){}")
_MAX_PATTERN = 4000


@functools.lru_cache(maxsize=128)
def compile_regex(pattern: str, *, extended: bool, ignore_case: bool = False) -> re.Pattern[str]:
    """A basic or extended regular expression.

    Raises:
        UsageFault: it is none.
    """
    found: list[str] = []
    position, start = 0, True
    if len(pattern) > _MAX_PATTERN:
        raise UsageError("regular expression too big")
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "[":
            piece, position = _translate_regex_bracket(pattern, position)
            found.append(piece)
        elif char == "\\":
            if position >= len(pattern):
                raise UsageError("Trailing backslash")
            char = pattern[position]
            position += 1
            if char in _BACKSLASH_OPERATORS and not extended:
                found.append(char)
                start = char in "(|"
                continue
            if char in "<>":
                found.append(r"\b(?=\w)" if char == "<" else r"\b(?<=\w)")
            elif char in "wWsSbB123456789":
                found.append("\\" + char)
            else:
                found.append("\n" if char == "n" else re.escape(char))
        elif char == "*":
            # At the beginning of a basic expression it is a star.
            found.append(r"\*" if start and not extended else "*" if not start else "")
        elif char in _BACKSLASH_OPERATORS:
            found.append(char if extended else re.escape(char))
            start = extended and char in "(|"
            continue
        elif char == "^":
            found.append("^" if extended or start else r"\^")
            continue
        elif char == "$":
            ends = position == len(pattern) or pattern.startswith(("\\)", "\\|"), position)
            found.append("$" if extended or ends else r"\$")
        elif char == ".":
            found.append(".")
        else:
            found.append(re.escape(char))
        start = False
    try:
        return re.compile("".join(found).replace("$", "$"), re.I if ignore_case else 0)
    except re.error:
        raise UsageError(f"bad regex '{pattern}': Invalid preceding regular expression") from None


def compile_basic_regex(pattern: str) -> re.Pattern[str]:
    """A basic regular expression.

    Raises:
        UsageFault: it is none.
    """
    return compile_regex(pattern, extended=False)


def _translate_regex_bracket(pattern: str, position: int) -> tuple[str, int]:
    pieces: list[str] = []
    negated = pattern.startswith("^", position)
    position += negated
    first = True
    while position < len(pattern):
        char = pattern[position]
        if char == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(pieces)}]", position + 1
        first = False
        close = pattern.find(":]", position)
        if pattern.startswith("[:", position) and close > 0:
            pieces.append(CLASSES.get(pattern[position + 2 : close], ""))
            position = close + 2
            continue
        last = pattern[position + 2 : position + 3]
        if pattern[position + 1 : position + 2] == "-" and last not in ("", "]"):
            pieces.append(f"{re.escape(char)}-{re.escape(last)}")
            position += 3
            continue
        pieces.append(re.escape(char))
        position += 1
    raise UsageError(f"bad regex '{pattern}': Missing ']'")
