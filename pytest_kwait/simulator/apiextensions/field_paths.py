"""Paths such as `.spec.name` or `.metadata['a.b']` into what a schema describes.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, func ValidFieldPath.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["FieldPathError", "resolve_field_path"]

_PART = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPE_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INVALID_FIELD = "does not refer to a valid field"
_UNEXPECTED_END = "unexpected end of JSON path"


class FieldPathError(Exception):
    """The path leads nowhere; the text says why."""


def resolve_field_path(path: str, schema: Obj, *, brackets: bool = True) -> tuple[str, Obj]:
    """The path in the form of messages (`spec.name`), and the schema that it leads to.

    Args:
        path: the path as it is written.
        schema: where it starts.
        brackets: whether `['name']` may be written.

    Raises:
        BadPath: it leads nowhere.
    """
    parts = iter(_PART.findall(path))
    written = ""
    for part in parts:
        if part == ".":
            name = next(parts, None)
        elif part == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            name = _parse_quoted(next(parts, None))
        else:
            raise FieldPathError(f"expected [ or . but got: {part}")
        if name is None:
            raise FieldPathError(_UNEXPECTED_END)
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if properties and name in properties:
            written = f"{written}.{name}" if written else name
            schema = properties[name]
        elif not properties and isinstance(more, dict):
            written = f"{written}[{name}]"
            schema = more
        else:
            raise FieldPathError(_INVALID_FIELD)
        if part == "[" and (after := next(parts, None)) != "]":
            raise FieldPathError(
                _UNEXPECTED_END if after is None else f"expected ] but got {after}"
            )
    return written, schema


def _parse_quoted(part: str | None) -> str | None:
    if part is None:
        return None
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {part}")

    def sign(found: re.Match[str]) -> str:
        letter = found[1]
        if letter in "'\\":
            return letter
        if letter not in _ESCAPE_SIGNS:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPE_SIGNS[letter]

    return _ESCAPED.sub(sign, part[1:-1])
