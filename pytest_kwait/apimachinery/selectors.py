"""Label and field selectors: parse, normalize, format and match.

Users write a selector as text or as a mapping; the API takes the text. Specs hold a label selector
as a `LabelSelector` object with `matchLabels` and `matchExpressions`.

Source: apimachinery/pkg/labels/selector.go, pkg/fields/selector.go; pkg/apis/meta/v1/helpers.go.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias, TypedDict

from pytest_kwait.apimachinery.field_errors import aggregate_errors
from pytest_kwait.apimachinery.go_values import quote_go
from pytest_kwait.apimachinery.validation import label_key_texts, label_value_texts
from pytest_kwait.errors import InvalidArgument

Labels: TypeAlias = Mapping[str, str]
Selector: TypeAlias = str | Mapping[str, str | None]
"""The API's text form (`app=web,tier in (a,b)`), or a mapping of required pairs."""

_EXAMPLE = "a label selector is written like 'app=web,tier in (a,b),!old'"
_OPERATORS = {
    "=": "in", "==": "in", "in": "in", "!=": "notin", "notin": "notin", ">": "gt", "<": "lt",
}  # fmt: skip
_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_SPECIAL = "=!(),><"
_END = ""
_TOKEN = re.compile(r"==|!=|[=!(),><]|[^=!(),>< \t\r\n]+")


class _LabeledMetadata(TypedDict, total=False):
    labels: dict[str, str] | None


class LabeledObject(TypedDict, total=False):
    """The fields that a label selector reads."""

    metadata: _LabeledMetadata


def get_labels(obj: Mapping[str, Any]) -> Labels:
    """Return an object's labels; empty if they are null or of another type."""
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


class SelectorError(ValueError):
    """A text is not a label selector.

    Args:
        text: the server's message.
        summary: the problem in short; the server's message by default.
    """

    def __init__(self, text: str, summary: str = "") -> None:
        super().__init__(text)
        self.summary = summary or text


class Requirement(NamedTuple):
    """One term of a label selector.

    Args:
        key: the label's key.
        operator: `in`, `notin`, `exists`, `!`, `gt` or `lt`; equality is `in` with one value.
        values: the values to compare with.
    """

    key: str
    operator: str
    values: Collection[str] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether labels satisfy the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "gt" | "lt":
                number = _parse_integer(value or "")
                bound = _parse_integer(next(iter(self.values)))
                if number is None or bound is None:
                    return False
                return number > bound if self.operator == "gt" else number < bound
            case _:
                return False


class LabelSelector:
    """Requirements on labels that must all match; without any, everything is selected.

    Args:
        nothing: whether nothing is selected, as by an absent `LabelSelector` object.
    """

    __slots__ = ("_exact", "_key", "nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self.nothing = nothing
        self._key = ""
        # Most selectors compare labels with one value each.
        self._exact: tuple[tuple[str, str], ...] | None = None
        if all(
            requirement.operator == "in" and len(requirement.values) == 1
            for requirement in requirements
        ):
            self._exact = tuple(
                (requirement.key, next(iter(requirement.values))) for requirement in requirements
            )

    @property
    def everything(self) -> bool:
        """True if everything is selected."""
        return not self.nothing and not self.requirements

    @property
    def key(self) -> str:
        """A text that selectors with the same requirements share."""
        if not self._key:
            parts = sorted((key, how, sorted(values)) for key, how, values in self.requirements)
            self._key = "nothing" if self.nothing else repr(parts)
        return self._key

    def narrowed(self, requirements: Sequence[Requirement]) -> LabelSelector:
        """Return a selector with additional requirements; a selector of nothing stays so."""
        if self.nothing or not requirements:
            return self
        return LabelSelector((*self.requirements, *requirements))

    def matches(self, labels: Labels) -> bool:
        """Return whether an object with these labels is selected."""
        if self.nothing:
            return False
        if self._exact is None:
            return all(requirement.matches(labels) for requirement in self.requirements)
        if len(self._exact) == 1:
            key, value = self._exact[0]
            return labels.get(key) == value
        return all(labels.get(key) == value for key, value in self._exact)


@functools.lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """Parse the text form of a label selector.

    Raises:
        SelectorError: the text is not a selector; with the server's message.

    Source: labels.Parse.
    """
    return LabelSelector(_Parser(text).parse())


def compile_label_selector(selector: Selector | None) -> Callable[[Labels], bool]:
    """Return the predicate of labels for a selector; None and "" select everything.

    Raises:
        InvalidArgument: the server would refuse the selector.
    """
    return parse_label_selector(normalize_label_selector(selector) or "").matches


def matches_label_selector(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether a valid `LabelSelector` object selects labels; None never does."""
    if selector is None:
        return False
    match_labels = selector.get("matchLabels")
    if match_labels and not match_labels.items() <= labels.items():
        return False
    return all(
        Requirement(
            expression["key"],
            _OBJECT_OPERATORS.get(expression["operator"], ""),
            expression.get("values") or (),
        ).matches(labels)
        for expression in selector.get("matchExpressions") or ()
    )


def format_label_selector(selector: Mapping[str, Any] | None) -> str:
    """Return a `LabelSelector` object as text; empty for one that selects everything.

    Source: helpers.go, FormatLabelSelector.
    """
    selector_object = selector or {}
    terms = [
        (key, f"{key}={value}") for key, value in (selector_object.get("matchLabels") or {}).items()
    ]
    for expression in selector_object.get("matchExpressions") or ():
        key = expression.get("key") or ""
        values = ",".join(sorted(expression.get("values") or ()))
        form = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, form.get(expression.get("operator"), key)))
    return ",".join(term for _, term in sorted(terms, key=lambda pair: pair[0]))


def normalize_label_selector(selector: Selector | None, *, what: str = "selector") -> str | None:
    """Return a label selector as text; None for one that selects everything.

    A pair of a mapping means equality; with the value None, the label only has to exist.

    Args:
        selector: text, mapping or None.
        what: the name of the argument, for the error.

    Raises:
        InvalidArgument: the server would refuse the selector.
    """
    text = normalize_selector_text(selector, what)
    problem = None
    if isinstance(selector, Mapping):
        # Each pair by itself: joined to a text, it could have another meaning.
        problem = next(filter(None, starmap(_find_problem_of_pair, selector.items())), None)
        selector = dict(selector)
    elif text is not None:
        try:
            parse_label_selector(text)
        except SelectorError as error:
            problem = error.summary
    if problem is not None:
        raise InvalidArgument(what, selector, f"{problem}; {_EXAMPLE}")
    return text


def normalize_selector_text(selector: Selector | None, what: str) -> str | None:
    """Return a label or field selector as text, unchecked; None for an empty one.

    Raises:
        InvalidArgument: neither text nor a mapping of texts.
    """
    if selector is None or isinstance(selector, str):
        return selector or None
    # Markers and manifests may hold any value, despite the types.
    argument: object = selector
    if not isinstance(argument, Mapping):
        raise InvalidArgument(what, argument, "a text like 'app=web' or a mapping of texts")
    terms = []
    for key, value in argument.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise InvalidArgument(what, dict(argument), "a mapping of texts to texts or None")
        terms.append(key if value is None else f"{key}={value}")
    return ",".join(terms) or None


def _find_problem_of_pair(key: str, value: str | None) -> str | None:
    if label_key_texts(key):
        return f"{key!r} is not a label key"
    return f"{value!r} is not a label value" if label_value_texts(value or "") else None


class _Parser:
    """A recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            word = self._peek()
            if word == _END:
                return requirements
            if not _is_identifier(word) and word != "!":
                raise SelectorError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._parse_requirement())
            except SelectorError as error:
                text = f"unable to parse requirement: {error}"
                raise SelectorError(text, error.summary) from None
            separator = self._take()
            if separator == _END:
                return requirements
            if separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            after = self._peek()
            if not _is_identifier(after) and after != "!":
                raise SelectorError(f"found '{after}', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _parse_requirement(self) -> Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if not _is_identifier(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        texts = label_key_texts(key)
        if texts:
            text = f'<nil>: Invalid value: "{key}": {"; ".join(texts)}'
            raise SelectorError(text, f"{key!r} is not a label key")
        if absent:
            return Requirement(key, "!")
        if self._peek() in (_END, ","):
            return Requirement(key, "exists")
        sign = self._take()
        if sign not in _OPERATORS:
            raise SelectorError(f"found '{sign}', expected: {_EXPECTED_OPERATORS}")
        values = self._parse_values() if sign in ("in", "notin") else self._parse_exact_value()
        errors, summary = [], ""
        if sign in ("<", ">") and _parse_integer(values[0]) is None:
            errors.append(
                f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value "
                "must be an integer"
            )
            summary = f"{values[0]!r} is not a whole number"
        for index, value in enumerate(values):
            texts = label_value_texts(value)
            if texts:
                quoted_value = quote_go(value)
                errors.append(
                    f"values[{index}][{key}]: Invalid value: {quoted_value}: {'; '.join(texts)}"
                )
                summary = summary or f"{value!r} is not a label value"
        if errors:
            raise SelectorError(aggregate_errors(errors), summary)
        return Requirement(key, _OPERATORS[sign], frozenset(values))

    def _parse_exact_value(self) -> list[str]:
        if self._peek() in (_END, ","):
            return [""]
        value = self._take()
        if not _is_identifier(value):
            raise SelectorError(f"found '{value}', expected: identifier")
        return [value]

    def _parse_values(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        first = self._peek()
        if first == ")":
            self._take()
            return [""]
        if not _is_identifier(first) and first != ",":
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values: set[str] = set()
        is_value_expected = True
        while True:
            word = self._take()
            if _is_identifier(word):
                values.add(word)
                after = self._peek()
                if after not in (",", ")"):
                    raise SelectorError(f"found '{after}', expected: ',' or ')'")
                is_value_expected = False
            elif word in (",", ")"):
                if is_value_expected:
                    values.add("")
                if word == ")":
                    return sorted(values)
                is_value_expected = True
            else:
                raise SelectorError(f"found '{word}', expected: ',', or identifier")


def _is_identifier(word: str) -> bool:
    return bool(word) and word[0] not in _SPECIAL


def _parse_integer(text: str) -> int | None:
    """Return the 64-bit integer that a text spells; None for any other text.

    Source: strconv.ParseInt of Go.
    """
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) or len(text.lstrip("+-0")) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class FieldTerm(NamedTuple):
    """One term of a field selector.

    Args:
        field: the field's path.
        equal: whether the field must be equal; it must differ otherwise.
    """

    field: str
    equal: bool
    value: str


def name_selector(name: str) -> str:
    """Return the field selector of one object's name."""
    return f"metadata.name={name}"


def normalize_field_selector(
    selector: Selector | None, *, what: str = "field_selector"
) -> str | None:
    """Return a field selector as text; None for one that selects everything.

    Only the form of the value is checked: the existing fields are known to the server only.

    Args:
        selector: text, mapping or None.
        what: the name of the argument, for the error.

    Raises:
        InvalidArgument: neither text nor a mapping of texts.
    """
    return normalize_selector_text(selector, what)


def parse_field_selector(text: str) -> list[FieldTerm]:
    """Return the terms of a field selector, sorted.

    Raises:
        ValueError: the text is not a selector; with the server's message.

    Source: fields.ParseSelector.
    """
    terms = []
    for part in sorted(filter(None, _split_terms(text))):
        term = _parse_term(part)
        if term is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(term)
    return terms


def _split_terms(text: str) -> list[str]:
    parts, start, escaped = [], 0, False
    for at, sign in enumerate(text):
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _parse_term(part: str) -> FieldTerm | None:
    for at in range(len(part)):
        for operator in ("!=", "==", "="):
            if part.startswith(operator, at):
                value = _unescape(part[at + len(operator) :])
                return FieldTerm(part[:at], operator != "!=", value)
    return None


def _unescape(value: str) -> str:
    out, escaped = [], False
    for sign in value:
        if escaped:
            if sign not in "\\,=":
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{sign}")
            out.append(sign)
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign in ",=":
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(sign)}")
        else:
            out.append(sign)
    if escaped:
        raise ValueError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
