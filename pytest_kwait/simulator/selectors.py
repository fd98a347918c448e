"""Label selectors: the query parameter's grammar, the object form, and what they match.

Source: k8s.io/apimachinery pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.go_numbers import parse_int
from pytest_kwait.simulator.validation.objectmeta import label_value_texts, qualified_name_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["LabelSelector", "format_selector", "matches_selector", "parse_labels"]

_OPERATORS = ("=", "!=", "in", "==", "notin", ">", "<")
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_SPECIAL = "=!(),><"
_WORDS = ("in", "notin")
_END = ""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case _:
                number, bound = _parse_integer(value or ""), _parse_integer(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator == ">" else number < bound


class LabelSelector:
    """A parsed selector; an empty one matches everything.

    Args:
        requirements: what must hold, all of it.
    """

    __slots__ = ("_requirements",)

    def __init__(self, requirements: list[_Requirement]) -> None:
        self._requirements = requirements

    def __bool__(self) -> bool:
        return bool(self._requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.holds(labels) for requirement in self._requirements)


def parse_labels(text: str) -> LabelSelector:
    """The selector that `text` spells.

    Raises:
        StatusError: 400 with the server's own text where `text` spells none.
    """
    try:
        return LabelSelector(_Parser(text).parse())
    except _SyntaxError as error:
        raise bad_request(str(error)) from None


def matches_selector(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector object (`matchLabels`, `matchExpressions`) matches; None never does."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels")
    if wanted and not wanted.items() <= labels.items():
        return False
    if not selector.get("matchExpressions"):
        return True
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    return all(
        _Requirement(
            expression["key"],
            names.get(expression["operator"], ""),
            tuple(expression.get("values") or ()),
        ).holds(labels)
        for expression in selector.get("matchExpressions", ())
    )


def format_selector(selector: Obj) -> str:
    """A selector object in the query parameter's grammar."""
    terms = [(key, f"{key}={value}") for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        form = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, form.get(operator, key)))
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


class _SyntaxError(Exception):
    pass


def _tokenize(text: str) -> list[str]:
    words: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in " \t\r\n":
            at += 1
        elif sign in _SPECIAL:
            pair = text[at : at + 2]
            word = pair if pair in ("==", "!=") else sign
            words.append(word)
            at += len(word)
        else:
            end = at
            while end < len(text) and text[end] not in _SPECIAL + " \t\r\n":
                end += 1
            words.append(text[at:end])
            at = end
    return [*words, _END]


class _Parser:
    """Recursive descent over the words of one selector."""

    def __init__(self, text: str) -> None:
        self._words = _tokenize(text)
        self._at = 0

    def _look(self) -> str:
        return self._words[min(self._at, len(self._words) - 1)]

    def _take(self) -> str:
        word = self._look()
        self._at += 1
        return word

    def parse(self) -> list[_Requirement]:
        found: list[_Requirement] = []
        while True:
            word = self._look()
            if word == _END:
                return found
            if not _is_identifier(word) and word != "!":
                raise _SyntaxError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except _SyntaxError as error:
                raise _SyntaxError(f"unable to parse requirement: {error}") from None
            separator = self._take()
            if separator == _END:
                return found
            if separator != ",":
                raise _SyntaxError(f"found '{separator}', expected: ',' or 'end of string'")
            after = self._look()
            if not _is_identifier(after) and after != "!":
                raise _SyntaxError(f"found '{after}', expected: identifier after ','")

    def _requirement(self) -> _Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if not _is_identifier(key):
            raise _SyntaxError(f"found '{key}', expected: identifier")
        texts = qualified_name_texts(key)
        if texts:
            told = "; ".join(texts).replace("a qualified name must", "a valid label key must", 1)
            raise _SyntaxError(f'<nil>: Invalid value: "{key}": {told}')
        if absent:
            return _Requirement(key, "!", ())
        if self._look() in (_END, ","):
            return _Requirement(key, "exists", ())
        operator = self._take()
        if operator not in _OPERATORS:
            raise _SyntaxError(f"found '{operator}', expected: {_EXPECTED_OPERATORS}")
        values = self._values() if operator in _WORDS else self._exact()
        errors = []
        if operator in ("<", ">") and _parse_integer(values[0]) is None:
            errors.append(
                f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            )
        for index, value in enumerate(values):
            texts = label_value_texts(value)
            if texts:
                shown = json.dumps(value, ensure_ascii=False)
                errors.append(f"values[{index}][{key}]: Invalid value: {shown}: {'; '.join(texts)}")
        if errors:
            joined = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise _SyntaxError(joined)
        return _Requirement(key, operator, tuple(values))

    def _exact(self) -> list[str]:
        if self._look() in (_END, ","):
            return [""]
        value = self._take()
        if not _is_identifier(value):
            raise _SyntaxError(f"found '{value}', expected: identifier")
        return [value]

    def _values(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise _SyntaxError(f"found '{opening}' expected: '('")
        first = self._look()
        if first == ")":
            self._take()
            return [""]
        if not _is_identifier(first) and first != ",":
            raise _SyntaxError(f"found '{first}', expected: ',', ')' or identifier")
        values: set[str] = set()
        expects = True
        while True:
            word = self._take()
            if _is_identifier(word):
                values.add(word)
                after = self._look()
                if after not in (",", ")"):
                    raise _SyntaxError(f"found '{after}', expected: ',' or ')'")
                expects = False
            elif word == ",":
                if expects:
                    values.add("")
                expects = True
            elif word == ")":
                if expects:
                    values.add("")
                return sorted(values)
            else:
                raise _SyntaxError(f"found '{word}', expected: ',', or identifier")


def _parse_integer(text: str) -> int | None:
    """The whole number of 64 bits that `text` spells, None if it spells none."""
    try:
        return parse_int(text)
    except ValueError:
        return None


def _is_identifier(word: str) -> bool:
    return bool(word) and word[0] not in _SPECIAL
