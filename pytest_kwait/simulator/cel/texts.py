"""Functions of texts, of points in time and of values that may not be there.

Source: github.com/google/cel-go ext/strings.go, common/stdlib, cel/library.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import (
    NO_OVERLOAD,
    NONE,
    Failure,
    Optional,
    kind_of,
    type_name,
)
from pytest_kwait.simulator.cel.text_formats import formatted
from pytest_kwait.simulator.go_regexp import pattern_fault, pattern_matches

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TEXT_FUNCTIONS"]

_LOWER = {at: at + 32 for at in range(ord("A"), ord("Z") + 1)}
_UPPER = {at: at - 32 for at in range(ord("a"), ord("z") + 1)}
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_MOMENT_PARTS = (
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getMonth",
)
_LENGTHS = {"getHours": 3_600_000_000_000, "getMilliseconds": 1_000_000}
_SPANS = {**_LENGTHS, "getMinutes": 60_000_000_000, "getSeconds": 1_000_000_000}


def _of_texts(run: Callable[..., Any], count: int) -> Callable[..., Any]:
    """What is done with texts alone: the first `count` of what it is called with."""

    def call(*values: Any) -> Any:
        if any(kind_of(value) != "string" for value in values[:count]):
            return NO_OVERLOAD
        return run(*values)

    return call


def _char(text: str, at: int) -> Any:
    if not 0 <= at <= len(text):
        return Failure(f"index out of range: {at}")
    return text[at : at + 1]


def _part(text: str, start: int, end: int | None = None) -> Any:
    if end is None:
        if not 0 <= start <= len(text):
            return Failure(f"index out of range: {start}")
        return text[start:]
    if start > end:
        return Failure(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, end):
        if not 0 <= place <= len(text):
            return Failure(f"index out of range: {place}")
    return text[start:end]


def _split(text: str, between: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if most == 1:
        return [text]
    if not between:
        whole = list(text)
        return whole if most < 0 else [*whole[: most - 1], "".join(whole[most - 1 :])]
    return text.split(between, -1 if most < 0 else most - 1)


def _join(values: Any, between: Any = "") -> Any:
    texts = isinstance(values, list) and all(isinstance(value, str) for value in values)
    if not texts or not isinstance(between, str):
        return Failure(f"no such overload: join({type_name(values)}, {type_name(between)})")
    return between.join(values)


def _matches(text: str, pattern: str) -> Any:
    fault = pattern_fault(pattern)
    return Failure(fault) if fault else pattern_matches(pattern, text)


def _contained(one: Any, two: Any) -> Any:
    return two in one


def _moment_part(name: str) -> Callable[..., Any]:
    def part(value: Any, zone: str = "UTC") -> Any:
        if kind_of(value) == "duration" and name in _SPANS:
            count = abs(value.nanos) // _SPANS[name]
            return -count if value.nanos < 0 else count
        if kind_of(value) != "timestamp":
            return NO_OVERLOAD
        try:
            return value.part(name, zone)
        except ValueError as error:
            return Failure(str(error))

    return part


def _value(value: Any) -> Any:
    if not isinstance(value, Optional):
        return NO_OVERLOAD
    return value.value if value.there else Failure("optional.none() dereference")


def _unless_zero(value: Any) -> Optional:
    zero = value is None or (value == 0 if kind_of(value) != "duration" else value.nanos == 0)
    empty = isinstance(value, str | bytes | list | dict) and not value
    return NONE if zero or empty else Optional(value)


def _present(values: Any) -> Any:
    if not isinstance(values, list):
        return NO_OVERLOAD
    return [one.value for one in values if isinstance(one, Optional) and one.there]


TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "charAt": _of_texts(_char, 1),
    "contains": _of_texts(_contained, 2),
    "endsWith": _of_texts(str.endswith, 2),
    "format": _of_texts(formatted, 1),
    "hasValue": lambda value: value.there if isinstance(value, Optional) else NO_OVERLOAD,
    "join": _join,
    "lowerAscii": _of_texts(lambda text: text.translate(_LOWER), 1),
    "matches": _of_texts(_matches, 2),
    "optional.none": lambda: NONE,
    "optional.of": Optional,
    "optional.ofNonZeroValue": _unless_zero,
    "optional.unwrap": _present,
    "replace": _of_texts(str.replace, 3),
    "split": _of_texts(_split, 2),
    "startsWith": _of_texts(str.startswith, 2),
    "strings.quote": _of_texts(lambda text: json.dumps(text, ensure_ascii=False), 1),
    "substring": _of_texts(_part, 1),
    "trim": _of_texts(lambda text: text.strip(_SPACE), 1),
    "unwrapOpt": _present,
    "upperAscii": _of_texts(lambda text: text.translate(_UPPER), 1),
    "value": _value,
    **{name: _moment_part(name) for name in (*_MOMENT_PARTS, *_SPANS)},
}
"""By name; a member is called with what it is a member of first."""
