"""Patterns of the shell: `*`, `?`, `[…]`, for texts and for the names of files."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.files import Files

__all__ = ["compiled", "escaped", "expanded", "has_pattern", "matches", "unescaped"]

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z",
    "lower": "a-z", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "xdigit": "0-9a-fA-F",
    "blank": r" \t", "print": r"\x20-\x7e", "graph": r"\x21-\x7e", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_MOST_FOUND = 10_000


def escaped(text: str) -> str:
    """The pattern that matches nothing but the text."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def unescaped(pattern: str) -> str:
    """The text of a pattern that is none."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def has_pattern(pattern: str) -> bool:
    """Whether a pattern can match more than one text."""
    return re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern) is not None


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The regular expression that a pattern is."""
    found: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            if not found or found[-1] != ".*":
                found.append(".*")
        elif char == "?":
            found.append(".")
        elif char == "\\" and position < len(pattern):
            found.append(re.escape(pattern[position]))
            position += 1
        elif char == "[":
            bracket, position = _bracket(pattern, position)
            found.append(bracket)
        else:
            found.append(re.escape(char))
    return re.compile("".join(found), re.DOTALL)


def _bracket(pattern: str, position: int) -> tuple[str, int]:
    """What follows a `[`, and where it ends; the bracket itself where nothing closes it."""
    end, negated = position, pattern[position : position + 1] in ("!", "^")
    end += negated
    pieces: list[str] = []
    first = True
    while end < len(pattern):
        char = pattern[end]
        if char == "]" and not first:
            inner = "".join(pieces)
            return f"[{'^' if negated else ''}{inner}]", end + 1
        first = False
        if pattern.startswith("[:", end) and (close := pattern.find(":]", end)) > 0:
            pieces.append(_CLASSES.get(pattern[end + 2 : close], ""))
            end = close + 2
            continue
        if char == "\\" and end + 1 < len(pattern):
            end += 1
            char = pattern[end]
        last = pattern[end + 2 : end + 3]
        if pattern[end + 1 : end + 2] == "-" and last not in ("", "]"):
            if char <= last:
                pieces.append(f"{re.escape(char)}-{re.escape(last)}")
            end += 3
            continue
        pieces.append(re.escape(char))
        end += 1
    return re.escape("["), position


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern matches the whole text."""
    return compiled(pattern).fullmatch(text) is not None


def expanded(pattern: str, files: Files, folder: str) -> list[str]:
    """The files whose names match, in order; nothing where none does.

    Args:
        pattern: a path with patterns in it.
        files: where.
        folder: what a relative path begins at.
    """
    pieces = pattern.split("/")
    found = [""]
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        if not has_pattern(piece):
            found = [f"{start}{unescaped(piece)}{'' if last else '/'}" for start in found]
            continue
        grown: list[str] = []
        for start in found:
            names = files.names(files.joined(folder, start or "."))
            for name in sorted(names or ()):
                if name.startswith(".") and not piece.startswith("."):
                    continue
                if matches(piece, name):
                    grown.append(f"{start}{name}{'' if last else '/'}")
            if len(grown) > _MOST_FOUND:
                break
        found = grown
    return sorted(one for one in found if files.find(files.joined(folder, one)) is not None)
