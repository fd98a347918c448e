"""Paths such as `.spec.name` or `.metadata['a.b']` into what a schema describes.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, func ValidFieldPath.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["BadPath", "follow"]

_PART = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ESCAPED = re.compile(r"\\(.)")
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NOWHERE = "does not refer to a valid field"
_ENDS = "unexpected end of JSON path"


class BadPath(Exception):
    """The path leads nowhere; the text says why."""


def follow(path: str, schema: Obj, *, brackets: bool = True) -> tuple[str, Obj]:
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
                raise BadPath("array notation is not allowed")
            name = _quoted(next(parts, None))
        else:
            raise BadPath(f"expected [ or . but got: {part}")
        if name is None:
            raise BadPath(_ENDS)
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if properties and name in properties:
            written = f"{written}.{name}" if written else name
            schema = properties[name]
        elif not properties and isinstance(more, dict):
            written = f"{written}[{name}]"
            schema = more
        else:
            raise BadPath(_NOWHERE)
        if part == "[" and (after := next(parts, None)) != "]":
            raise BadPath(_ENDS if after is None else f"expected ] but got {after}")
    return written, schema


def _quoted(part: str | None) -> str | None:
    if part is None:
        return None
    if len(part) < 2 or part[0] != "'" or part[-1] != "'":
        raise BadPath(f"expected single quoted string but got {part}")

    def sign(found: re.Match[str]) -> str:
        letter = found[1]
        if letter in "'\\":
            return letter
        if letter not in _SIGNS:
            raise BadPath(f"invalid string literal: invalid escape char {found[0]}")
        return _SIGNS[letter]

    return _ESCAPED.sub(sign, part[1:-1])
