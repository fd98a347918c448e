"""Patterns of the shell: `*`, `?`, `[…]`, for texts and for the names of files."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.files import FileSystem

__all__ = [
    "compile_glob",
    "escape_glob",
    "expand_glob",
    "has_glob",
    "matches_glob",
    "unescape_glob",
]

CHARACTER_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z",
    "lower": "a-z", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "xdigit": "0-9a-fA-F",
    "blank": r" \t", "print": r"\x20-\x7e", "graph": r"\x21-\x7e", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_MAX_MATCHES = 10_000


def escape_glob(text: str) -> str:
    """The pattern that matches nothing but the text."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def unescape_glob(pattern: str) -> str:
    """The text of a pattern that is none."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def has_glob(pattern: str) -> bool:
    """Whether a pattern can match more than one text."""
    return re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern) is not None


@functools.lru_cache(maxsize=256)
def compile_glob(pattern: str) -> re.Pattern[str]:
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
            bracket, position = _translate_glob_bracket(pattern, position)
            found.append(bracket)
        else:
            found.append(re.escape(char))
    return re.compile("".join(found), re.DOTALL)


def _translate_glob_bracket(pattern: str, position: int) -> tuple[str, int]:
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
            pieces.append(CHARACTER_CLASSES.get(pattern[end + 2 : close], ""))
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


def matches_glob(pattern: str, text: str) -> bool:
    """Whether a pattern matches the whole text."""
    return compile_glob(pattern).fullmatch(text) is not None


def expand_glob(pattern: str, files: FileSystem, folder: str) -> list[str]:
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
        if not has_glob(piece):
            found = [f"{start}{unescape_glob(piece)}{'' if last else '/'}" for start in found]
            continue
        grown: list[str] = []
        for start in found:
            names = files.names(files.join_path(folder, start or "."))
            for name in sorted(names or ()):
                if name.startswith(".") and not piece.startswith("."):
                    continue
                if matches_glob(piece, name):
                    grown.append(f"{start}{name}{'' if last else '/'}")
            if len(grown) > _MAX_MATCHES:
                break
        found = grown
    return sorted(one for one in found if files.find(files.join_path(folder, one)) is not None)
