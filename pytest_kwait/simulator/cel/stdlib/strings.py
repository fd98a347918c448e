"""CEL functions of strings, timestamps and optional values, and string formatting.

Source: github.com/google/cel-go ext/{strings,formatting}.go, common/stdlib, cel/library.go.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.stdlib.operators import CONVERSIONS, format_double
from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    OPTIONAL_NONE,
    ErrorValue,
    OptionalValue,
    Uint,
    get_kind,
    get_type_name,
)
from pytest_kwait.simulator.codec.go_text import find_pattern_error, matches_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FORMATTABLE_TYPES", "STRING_FUNCTIONS", "format_string", "parse_clauses"]

_CLAUSE = re.compile(r"%(?:%|(\.\d+)?(.))", re.S)
_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
FORMATTABLE_TYPES = (
    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
)
_MAX_PRECISION = 1100
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse_clauses(text: str) -> Iterator[str | None]:
    """Return the letters of a format's clauses; None if it ends within one."""
    for found in _CLAUSE.finditer(text):
        if found[0] != "%%":
            yield found[2]
    if text.replace("%%", "").endswith("%"):
        yield None


def format_string(text: str, values: list[Any]) -> str | ErrorValue:
    """Return the format with the values in place of its clauses."""
    made: list[str] = []
    at = count = 0
    try:
        for found in _CLAUSE.finditer(text):
            made.append(text[at : found.start()])
            at = found.end()
            if found[0] == "%%":
                made.append("%")
                continue
            if count >= len(values):
                return ErrorValue(f"index {count} out of range")
            made.append(_format_clause(values[count], found[2], found[1]))
            count += 1
    except ValueError as error:
        return ErrorValue(str(error))
    return "".join(made) + text[at:]


def _format_clause(value: Any, clause: str, precision: str | None) -> str:
    # No number has more decimal places.
    places = min(int(precision[1:][:9]), _MAX_PRECISION) if precision else 6
    match clause:
        case "s":
            return _format_value(value)
        case "d":
            return _format_integer(value, "d", "decimal clause can only be used on integers")
        case "f" | "e":
            return _format_float(value, clause, places)
        case "b":
            if isinstance(value, bool):
                return "1" if value else "0"
            return _format_integer(value, "b", "only integers and bools can be formatted as binary")
        case "x" | "X":
            return _format_hexadecimal(value, upper=clause == "X")
        case "o":
            return _format_integer(value, "o", "octal clause can only be used on integers")
    raise ValueError(
        f'could not parse formatting clause: unrecognized formatting clause "{clause}"'
    )


def _make_format_error(why: str, value: Any) -> ValueError:
    return ValueError(f"error during formatting: {why}, was given {get_type_name(value)}")


def _format_integer(value: Any, form: str, why: str) -> str:
    if get_kind(value) not in ("int", "uint"):
        raise _make_format_error(why, value)
    return format(int(value), form)


def _format_float(value: Any, clause: str, places: int) -> str:
    if isinstance(value, str) and value in _NON_FINITE:
        value = _NON_FINITE[value]
    if not isinstance(value, float):
        what = "fixed-point" if clause == "f" else "scientific"
        raise _make_format_error(f"{what} clause can only be used on doubles", value)
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if clause == "f":
        return f"{value:.{places}f}"
    # As in cel-go, whatever precision is requested.
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    sign = "-" if exponent.startswith("-") else ""
    return f"{mantissa}\u00d710{(sign + exponent[1:]).translate(_SUPERSCRIPTS)}"


def _format_hexadecimal(value: Any, *, upper: bool) -> str:
    match get_kind(value):
        case "string":
            text: str = value.encode().hex()
        case "bytes":
            text = value.hex()
        case "int" | "uint":
            text = format(int(value), "x")
        case _:
            why = "only integers, byte buffers, and strings can be formatted as hex"
            raise _make_format_error(why, value)
    return text.upper() if upper else text


def _format_value(value: Any, *, inside: bool = False) -> str:
    kind = get_kind(value)
    match kind:
        case "string":
            return f'"{value}"' if inside else str(value)
        case "bytes":
            text = value.decode(errors="replace")
            return f'b"{text}"' if inside else text
        case "duration" | "timestamp":
            return f'{kind}("{value}")' if inside else str(value)
        case "double":
            return f"{value:.6f}" if inside and math.isfinite(value) else format_double(value)
        case "null" | "type":
            return "null" if kind == "null" else str(value)
        case "bool" | "int" | "uint":
            return str(CONVERSIONS["string"](Uint(value) if kind == "uint" else value))
        case "list":
            return f"[{', '.join(_format_value(item, inside=True) for item in value)}]"
        case "map":
            entries = ((_format_value(key, inside=True), item) for key, item in value.items())
            shown = sorted(entries, key=lambda entry: entry[0])
            pairs = (f"{key}:{_format_value(item, inside=True)}" for key, item in shown)
            return f"{{{', '.join(pairs)}}}"
    raise _make_format_error(f"string clause can only be used on {FORMATTABLE_TYPES}", value)


_TO_LOWER = {at: at + 32 for at in range(ord("A"), ord("Z") + 1)}
_TO_UPPER = {at: at - 32 for at in range(ord("a"), ord("z") + 1)}
_WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_TIMESTAMP_GETTERS = (
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getMonth",
)
_PART_LENGTHS = {"getHours": 3_600_000_000_000, "getMilliseconds": 1_000_000}
_DURATION_UNITS = {**_PART_LENGTHS, "getMinutes": 60_000_000_000, "getSeconds": 1_000_000_000}


def _accept_strings(run: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Wrap a function whose first `count` arguments must be strings."""

    def call(*values: Any) -> Any:
        if any(get_kind(value) != "string" for value in values[:count]):
            return NO_OVERLOAD
        return run(*values)

    return call


def _get_char(text: str, at: int) -> Any:
    if not 0 <= at <= len(text):
        return ErrorValue(f"index out of range: {at}")
    return text[at : at + 1]


def _substring(text: str, start: int, end: int | None = None) -> Any:
    if end is None:
        if not 0 <= start <= len(text):
            return ErrorValue(f"index out of range: {start}")
        return text[start:]
    if start > end:
        return ErrorValue(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, end):
        if not 0 <= place <= len(text):
            return ErrorValue(f"index out of range: {place}")
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
        return ErrorValue(
            f"no such overload: join({get_type_name(values)}, {get_type_name(between)})"
        )
    return between.join(values)


def _matches(text: str, pattern: str) -> Any:
    fault = find_pattern_error(pattern)
    return ErrorValue(fault) if fault else matches_pattern(pattern, text)


def _is_contained(one: Any, two: Any) -> Any:
    return two in one


def _make_timestamp_getter(name: str) -> Callable[..., Any]:
    def part(value: Any, zone: str = "UTC") -> Any:
        if get_kind(value) == "duration" and name in _DURATION_UNITS:
            count = abs(value.nanos) // _DURATION_UNITS[name]
            return -count if value.nanos < 0 else count
        if get_kind(value) != "timestamp":
            return NO_OVERLOAD
        try:
            return value.part(name, zone)
        except ValueError as error:
            return ErrorValue(str(error))

    return part


def _get_optional_value(value: Any) -> Any:
    if not isinstance(value, OptionalValue):
        return NO_OVERLOAD
    return value.value if value.has_value else ErrorValue("optional.none() dereference")


def _make_optional_of_non_zero(value: Any) -> OptionalValue:
    zero = value is None or (value == 0 if get_kind(value) != "duration" else value.nanos == 0)
    empty = isinstance(value, str | bytes | list | dict) and not value
    return OPTIONAL_NONE if zero or empty else OptionalValue(value)


def _unwrap_optionals(values: Any) -> Any:
    if not isinstance(values, list):
        return NO_OVERLOAD
    return [one.value for one in values if isinstance(one, OptionalValue) and one.has_value]


STRING_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "charAt": _accept_strings(_get_char, 1),
    "contains": _accept_strings(_is_contained, 2),
    "endsWith": _accept_strings(str.endswith, 2),
    "format": _accept_strings(format_string, 1),
    "hasValue": lambda value: value.has_value if isinstance(value, OptionalValue) else NO_OVERLOAD,
    "join": _join,
    "lowerAscii": _accept_strings(lambda text: text.translate(_TO_LOWER), 1),
    "matches": _accept_strings(_matches, 2),
    "optional.none": lambda: OPTIONAL_NONE,
    "optional.of": OptionalValue,
    "optional.ofNonZeroValue": _make_optional_of_non_zero,
    "optional.unwrap": _unwrap_optionals,
    "replace": _accept_strings(str.replace, 3),
    "split": _accept_strings(_split, 2),
    "startsWith": _accept_strings(str.startswith, 2),
    "strings.quote": _accept_strings(lambda text: json.dumps(text, ensure_ascii=False), 1),
    "substring": _accept_strings(_substring, 1),
    "trim": _accept_strings(lambda text: text.strip(_WHITESPACE), 1),
    "unwrapOpt": _unwrap_optionals,
    "upperAscii": _accept_strings(lambda text: text.translate(_TO_UPPER), 1),
    "value": _get_optional_value,
    **{name: _make_timestamp_getter(name) for name in (*_TIMESTAMP_GETTERS, *_DURATION_UNITS)},
}
"""The implementations by name; member functions take their receiver first."""
