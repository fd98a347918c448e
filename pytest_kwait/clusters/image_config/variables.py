"""Words of a Dockerfile's instructions, and the variables in them.

Source: buildkit frontend/dockerfile/shell/lex.go, frontend/dockerfile/parser/line_parsers.go.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_kwait.clusters.image_config.config import ImageConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]", re.ASCII)
_MODIFIERS = (":-", ":+", ":?", "-", "+", "?", "#", "%")
_MAX_DEPTH = 50


def split_words(text: str, escape: str) -> list[str]:
    """Return the words of a line; quotes, escapes and variables stay as they are."""
    words: list[str] = []
    word, quote, position = "", "", 0
    while position < len(text):
        char = text[position]
        if char == escape and quote != "'" and position + 1 < len(text):
            word += text[position : position + 2]
            position += 2
            continue
        if not quote and char.isspace():
            if word:
                words.append(word)
            word = ""
        else:
            word += char
            if char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote = char
        position += 1
    return [*words, word] if word else words


def expand_word(word: str, variables: Mapping[str, str], escape: str) -> str:
    """Return a word without quotes and escapes, with the values of its variables.

    Raises:
        ImageConfigError: a quote or brace is not closed, or a variable must be set.
    """
    return _Expansion(word, variables, escape).expand("")


class _Expansion:
    """The expansion of one word."""

    def __init__(self, text: str, variables: Mapping[str, str], escape: str) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._at = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        self._at += 1
        return char

    def expand(self, stop: str, *, is_pattern: bool = False) -> str:
        """Return the text up to a closing brace, or to the end.

        Args:
            stop: the brace; empty for the end.
            is_pattern: whether escapes stay, as in a pattern.
        """
        found = ""
        while char := self._next():
            if char == stop:
                return found
            if char == "'":
                found += self._read_single_quotes()
            elif char == '"':
                found += self._read_double_quotes()
            elif char == "$":
                found += self._read_variable()
            elif char == self._escape and self._peek():
                found += (char if is_pattern else "") + self._next()
            else:
                found += char
        if stop:
            raise ImageConfigError(f"{self._text}: syntax error: missing '{stop}'")
        return found

    def _read_single_quotes(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise ImageConfigError(f"{self._text}: a single quote is not closed")
        found, self._at = self._text[self._at : end], end + 1
        return found

    def _read_double_quotes(self) -> str:
        found = ""
        while char := self._next():
            if char == '"':
                return found
            if char == "$":
                found += self._read_variable()
            elif char == self._escape and self._peek() in ('"', "$", self._escape):
                found += self._next()
            else:
                found += char
        raise ImageConfigError(f"{self._text}: a double quote is not closed")

    def _read_name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _read_variable(self) -> str:
        if self._peek() != "{":
            name = self._read_name()
            return self._variables.get(name, "") if name else "$"
        self._at += 1
        name = self._read_name()
        if not name:
            raise ImageConfigError(f"{self._text}: syntax error: bad substitution")
        modifier = self._next()
        if modifier == "}":
            return self._variables.get(name, "")
        if modifier == ":" and self._peek() in ("-", "+", "?"):
            modifier += self._next()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ImageConfigError(f"over {_MAX_DEPTH} variables are within each other")
        if modifier not in _MODIFIERS:
            raise ImageConfigError(
                f"{self._text}: the modifier {modifier!r} of ${{{name}}} is not supported: use :-, "
                ":+, :?, #, ##, % or %%"
            )
        found = self._apply(name, modifier)
        self._depth -= 1
        return found

    def _apply(self, name: str, modifier: str) -> str:
        value = self._variables.get(name)
        if modifier in ("#", "%"):
            is_longest = self._peek() == modifier
            self._at += is_longest
            pattern = self.expand("}", is_pattern=True).replace(self._escape, "")
            return _trim(value or "", pattern, from_end=modifier == "%", is_longest=is_longest)
        word = self.expand("}")
        is_set = value is not None and (bool(value) or ":" not in modifier)
        if modifier.endswith("-"):
            return value or "" if is_set else word
        if modifier.endswith("+"):
            return word if is_set else ""
        if not is_set:
            raise ImageConfigError(f"{name}: {word or 'not allowed to be unset'}")
        return value or ""


def _trim(value: str, pattern: str, *, from_end: bool, is_longest: bool) -> str:
    """Return a value without the part at its start or end that matches a pattern."""
    lengths = range(len(value), -1, -1) if is_longest else range(len(value) + 1)
    for length in lengths:
        cut = len(value) - length
        part, rest = (value[cut:], value[:cut]) if from_end else (value[:length], value[length:])
        if fnmatchcase(part, pattern):
            return rest
    return value
