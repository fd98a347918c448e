"""Kubernetes' dialect of JSONPath, translated to RFC 9535 and evaluated by a library.

Kubernetes' JSONPath is older than RFC 9535: a path is in braces and has no leading `$`, dots in
names are escaped by a backslash, and filters in parentheses skip objects without the field.

Source: client-go util/jsonpath/parser.go; kubectl pkg/cmd/get/customcolumn.go,
RelaxedJSONPathExpression.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FORMS = (
    "use a path such as '{.status.phase}' or '{.status.conditions[?(@.type==\"Ready\")].status}'"
)

_NAME = re.compile(r"(?:\\.|[^\\.,\[\]{}$@\s=<>!])+")
_SUBSCRIPT = re.compile(r"(?:-?\d+)?:(?:-?\d+)?(?::(?:-?\d+)?)?|-?\d+|\*")
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?|true|false")


class _Compiled(Protocol):
    def findall(self, data: Any) -> Sequence[Any]: ...


@cache
def _compiled(standard: str) -> _Compiled:
    # Imported on first use: the library takes longer to load than a short wait.
    from jsonpath import JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

    try:
        compiled: _Compiled = JSONPathEnvironment().compile(standard)
    except JSONPathError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    return compiled


class JsonPath:
    """A path as in kubectl's `--for=jsonpath=`.

    Args:
        text: the path; braces, the leading dot and the leading `$` are optional.

    Raises:
        InvalidArgument: an invalid path.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.standard = to_standard_path(text)
            """The path in the dialect of RFC 9535, with each name in brackets."""
            self._path = _compiled(self.standard)
        except ValueError as error:
            raise InvalidArgument("jsonpath", text, f"{error}; {_FORMS}") from None

    def find(self, obj: Mapping[str, Any]) -> list[Any]:
        """Return all matches; empty without any."""
        from jsonpath.exceptions import JSONPathError

        try:
            return list(self._path.findall(obj))
        except JSONPathError:
            # A filter with incomparable values in this object selects nothing.
            return []


def to_standard_path(text: str) -> str:
    """Translate a path of Kubernetes' dialect to RFC 9535.

    Raises:
        ValueError: an invalid path; the text gives the reason.
    """
    bare = text.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1].strip()
    if not bare:
        raise ValueError("a path is missing")
    if bare[0] not in ".[$":
        bare = f".{bare}"
    path, end = _parse_steps(bare, 1 if bare[0] == "$" else 0)
    if end != len(bare):
        raise ValueError(f"{bare[end:]!r} is no part of a path")
    return f"${path}"


def _parse_steps(text: str, at: int) -> tuple[str, int]:
    """Return the steps that start at a position, and their end."""
    steps = []
    while at < len(text) and text[at] in ".[":
        if text[at] == "[":
            end = _find_closing_bracket(text, at)
            steps.append(f"[{_parse_brackets(text[at + 1 : end].strip())}]")
            at = end + 1
            continue
        deep = text.startswith("..", at)
        at += 2 if deep else 1
        name = _NAME.match(text, at)
        if name is not None:
            key = re.sub(r"\\(.)", r"\1", name.group())
            at = name.end()
            steps.append(f"{'..' if deep else ''}[{'*' if key == '*' else _quote(key)}]")
        elif deep and text.startswith("[", at):
            steps.append("..")
        elif len(text) > 1 and not text.startswith("[", at):
            raise ValueError(f"a name is missing after {text[:at]!r}")
    return "".join(steps), at


def _find_closing_bracket(text: str, at: int) -> int:
    """Return the position of the bracket that closes the one at a position."""
    depth = 0
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            at = quoted.end()
            continue
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        if not depth:
            return at
        at += 1
    raise ValueError("a bracket is not closed")


def _parse_brackets(inner: str) -> str:
    if inner.startswith("?(") and inner.endswith(")"):
        return f"?({_parse_filter(inner[2:-1].strip())})"
    parts, at = [], 0
    while True:
        match = _QUOTED.match(inner, at) or _SUBSCRIPT.match(inner, at)
        if match is None:
            raise ValueError(f"[{inner}] is neither an index, a name in quotes nor a filter")
        part = match.group()
        parts.append(_quote(_unquote(part)) if part[0] in "'\"" else part)
        comma = re.compile(r"\s*,\s*").match(inner, match.end())
        if comma is None:
            break
        at = comma.end()
    if inner[match.end() :].strip():
        raise ValueError(f"[{inner}] is neither an index, a name in quotes nor a filter")
    return ",".join(parts)


def _parse_filter(text: str) -> str:
    left, at = _parse_operand(text, 0)
    operator = _OPERATOR.match(text, at)
    if operator is None:
        if at != len(text) or text[:1] not in ("@", "$"):
            raise ValueError(f"{text!r} is no filter")
        return left
    right, end = _parse_operand(text, operator.end())
    if end != len(text):
        raise ValueError(f"{text[end:]!r} is too much in the filter {text!r}")
    compared = f"{left} {operator.group()} {right}"
    # Objects without the field are skipped, even for an "unequal" filter.
    there = [side for side in (left, right) if side[0] in "@$"]
    return " && ".join([*there, compared])


def _parse_operand(text: str, at: int) -> tuple[str, int]:
    while text[at : at + 1].isspace():
        at += 1
    if text[at : at + 1] in ("@", "$"):
        path, end = _parse_steps(text, at + 1)
        operand = text[at] + path
    else:
        match = _QUOTED.match(text, at) or _LITERAL.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is no filter")
        operand, end = match.group(), match.end()
        if operand[0] in "'\"":
            operand = _quote(_unquote(operand))
    while text[end : end + 1].isspace():
        end += 1
    return operand, end


def _unquote(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def _quote(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
