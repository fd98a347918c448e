"""Field selectors: parse and normalize.

Source: apimachinery/pkg/fields/selector.go.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_kwait.apimachinery.labels import Selector, normalize_selector_text

__all__ = [
    "FieldTerm",
    "name_selector",
    "normalize_field_selector",
    "parse_field_selector",
]


class FieldTerm(NamedTuple):
    """One term of a field selector.

    Args:
        field: the field's path.
        equal: whether the field must be equal; it must differ otherwise.
        value: the value to compare with.
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
