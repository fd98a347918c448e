"""CEL operators and type conversions.

Source: github.com/google/cel-go common/types, common/stdlib.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    Duration,
    ErrorValue,
    MapList,
    SetList,
    Timestamp,
    TypeName,
    Uint,
    get_kind,
    get_size,
    get_type_name,
    is_equal,
    is_number,
    parse_duration,
    parse_timestamp,
)
from pytest_kwait.simulator.codec.go_text import parse_int, parse_uint

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONVERSIONS", "OPERATORS", "format_double"]

_COMPARABLE_KINDS = frozenset({"bool", "string", "bytes", "duration", "timestamp"})
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_TRUE_SPELLINGS, _FALSE_SPELLINGS = (
    ("1", "t", "T", "TRUE", "true", "True"),
    ("0", "f", "F", "FALSE", "false", "False"),
)
_NANOS = 1_000_000_000


def _check_int(value: int) -> Any:
    return value if _INT_MIN <= value <= _INT_MAX else ErrorValue("integer overflow")


def _check_uint(value: int) -> Any:
    return Uint(value) if 0 <= value <= _UINT_MAX else ErrorValue("unsigned integer overflow")


def _make_duration(nanos: int) -> Any:
    return Duration(nanos) if _INT_MIN <= nanos <= _INT_MAX else ErrorValue("integer overflow")


def _make_timestamp(nanos: int, offset: int) -> Any:
    found = Timestamp(nanos, offset)
    return found if found.is_within_bounds else ErrorValue("timestamp overflow")


def _make_comparison(name: str, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(one: Any, two: Any) -> Any:
        if is_number(one) and is_number(two):
            return holds(one, two)
        kind = get_kind(one)
        if kind not in _COMPARABLE_KINDS and not is_number(one):
            return ErrorValue(f"no such overload: {name}")
        return holds(one, two) if kind == get_kind(two) else NO_OVERLOAD

    return compare


def _add(one: Any, two: Any) -> Any:
    first, second = get_kind(one), get_kind(two)
    if first == second:
        match first:
            case "int":
                return _check_int(one + two)
            case "uint":
                return _check_uint(one + two)
            case "double" | "string" | "bytes":
                return one + two
            case "list" if isinstance(one, SetList | MapList):
                return one.with_items(two)
            case "list":
                return [*one, *two]
            case "duration":
                return _make_duration(one.nanos + two.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _make_timestamp(one.nanos + two.nanos, one.offset)
    if (first, second) == ("duration", "timestamp"):
        return _make_timestamp(one.nanos + two.nanos, two.offset)
    return NO_OVERLOAD


def _subtract(one: Any, two: Any) -> Any:
    first, second = get_kind(one), get_kind(two)
    if first == second:
        match first:
            case "int":
                return _check_int(one - two)
            case "uint":
                return _check_uint(int(one) - int(two))
            case "double":
                return one - two
            case "duration" | "timestamp":
                return _make_duration(one.nanos - two.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _make_timestamp(one.nanos - two.nanos, one.offset)
    return NO_OVERLOAD


def _multiply(one: Any, two: Any) -> Any:
    kind = get_kind(one)
    if kind != get_kind(two) or not is_number(one):
        return NO_OVERLOAD
    if kind == "double":
        return one * two
    return (_check_int if kind == "int" else _check_uint)(int(one) * int(two))


def _divide(one: Any, two: Any) -> Any:
    kind = get_kind(one)
    if kind != get_kind(two) or not is_number(one):
        return NO_OVERLOAD
    if kind == "double":
        if two:
            return one / two
        return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one * two)
    if not two:
        return ErrorValue("division by zero")
    quotient = abs(int(one)) // abs(int(two))
    return (_check_int if kind == "int" else _check_uint)(
        -quotient if (one < 0) != (two < 0) else quotient
    )


def _remainder(one: Any, two: Any) -> Any:
    kind = get_kind(one)
    if kind != get_kind(two) or kind not in ("int", "uint"):
        return NO_OVERLOAD
    if not two:
        return ErrorValue("modulus by zero")
    rest = abs(int(one)) % abs(int(two))
    return Uint(rest) if kind == "uint" else (-rest if one < 0 else rest)


def _negate(value: Any) -> Any:
    match get_kind(value):
        case "int":
            return _check_int(-value)
        case "double":
            return -value
    return NO_OVERLOAD


def _is_in(value: Any, container: Any) -> Any:
    match get_kind(container):
        case "list":
            return any(is_equal(item, value) for item in container)
        case "map":
            return any(is_equal(key, value) for key in container)
    return NO_OVERLOAD


def _get_size_of_container(value: Any) -> Any:
    if get_kind(value) in ("string", "bytes", "list", "map"):
        return get_size(value)
    return ErrorValue("no such overload: size")


OPERATORS: dict[str, Callable[..., Any]] = {
    "!_": lambda value: not value if isinstance(value, bool) else NO_OVERLOAD,
    "-_": _negate,
    "@in": _is_in,
    "_!=_": lambda one, two: not is_equal(one, two),
    "_%_": _remainder,
    "_*_": _multiply,
    "_+_": _add,
    "_-_": _subtract,
    "_/_": _divide,
    "_<=_": _make_comparison("_<=_", operator.le),
    "_<_": _make_comparison("_<_", operator.lt),
    "_==_": is_equal,
    "_>=_": _make_comparison("_>=_", operator.ge),
    "_>_": _make_comparison("_>_", operator.gt),
    "size": _get_size_of_container,
}
"""The implementations by the parser's names."""


def format_double(value: float) -> str:
    """Return a number as Go writes it: in full, or with an exponent if that is shorter."""
    if math.isnan(value) or math.isinf(value):
        return {True: "NaN"}.get(math.isnan(value), "+Inf" if value > 0 else "-Inf")
    shortest = _format_scientific(value)
    mantissa, _, exponent = shortest.partition("e")
    if value == 0 or -4 <= int(exponent) < 6:
        places = max(len(mantissa.partition(".")[2]) - int(exponent), 0)
        return f"{value:.{places}f}"
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"


def _format_scientific(value: float) -> str:
    for precision in range(18):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            return text
    return f"{value:.17e}"


def _make_conversion_error(value: Any, wanted: str) -> ErrorValue:
    return ErrorValue(f"type conversion error from '{get_type_name(value)}' to '{wanted}'")


def _parse_spelled(read: Callable[[str], int], text: str, wanted: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return _make_conversion_error(text, wanted)


def _to_int(value: Any) -> Any:
    match get_kind(value):
        case "int" | "uint":
            return _check_int(int(value))
        case "double":
            if math.isnan(value) or not _INT_MIN < value < _INT_MAX:
                return ErrorValue("integer overflow")
            return int(value)
        case "string":
            return _parse_spelled(parse_int, value, "int")
        case "timestamp":
            return value.nanos // _NANOS
        case "duration":
            return value.nanos
    return ErrorValue(f"no such overload: int({get_type_name(value)})")


def _to_uint(value: Any) -> Any:
    match get_kind(value):
        case "int" | "uint":
            return _check_uint(int(value))
        case "double":
            if math.isnan(value) or not 0 <= value < _UINT_MAX:
                return ErrorValue("unsigned integer overflow")
            return Uint(value)
        case "string":
            found = _parse_spelled(parse_uint, value, "uint")
            return found if isinstance(found, ErrorValue) else Uint(found)
    return ErrorValue(f"no such overload: uint({get_type_name(value)})")


def _to_double(value: Any) -> Any:
    if is_number(value):
        return float(value)
    if get_kind(value) != "string":
        return ErrorValue(f"no such overload: double({get_type_name(value)})")
    try:
        number = float(value) if value == value.strip() and value else None
    except ValueError:
        number = None
    # `1e999` is out of range, unlike `Infinity`.
    if number is None or (math.isinf(number) and any(sign.isdigit() for sign in value)):
        return _make_conversion_error(value, "double")
    return number


def _to_string(value: Any) -> Any:
    match get_kind(value):
        case "string":
            return value
        case "bool":
            return "true" if value else "false"
        case "int" | "uint" | "duration" | "timestamp":
            return str(value)
        case "double":
            return format_double(value)
        case "bytes":
            try:
                return value.decode()
            except UnicodeDecodeError:
                return ErrorValue("invalid UTF-8 in bytes, cannot convert to string")
        case "IP" | "CIDR":
            return value["text"]
    return ErrorValue(f"no such overload: string({get_type_name(value)})")


def _to_bool(value: Any) -> Any:
    match get_kind(value):
        case "bool":
            return value
        case "string":
            known = value in (*_TRUE_SPELLINGS, *_FALSE_SPELLINGS)
            return value in _TRUE_SPELLINGS if known else _make_conversion_error(value, "bool")
    return ErrorValue(f"no such overload: bool({get_type_name(value)})")


def _to_bytes(value: Any) -> Any:
    match get_kind(value):
        case "bytes":
            return value
        case "string":
            return value.encode()
    return ErrorValue(f"no such overload: bytes({get_type_name(value)})")


def _to_timestamp(value: Any) -> Any:
    match get_kind(value):
        case "timestamp":
            return value
        case "int":
            return _make_timestamp(value * _NANOS, 0)
        case "string":
            found = parse_timestamp(value)
            return (
                found
                if found is not None
                else _make_conversion_error(value, "google.protobuf.Timestamp")
            )
    return ErrorValue(f"no such overload: timestamp({get_type_name(value)})")


def _to_duration(value: Any) -> Any:
    match get_kind(value):
        case "duration":
            return value
        case "int":
            return _make_duration(value)
        case "string":
            found = parse_duration(value)
            return (
                found
                if found is not None
                else _make_conversion_error(value, "google.protobuf.Duration")
            )
    return ErrorValue(f"no such overload: duration({get_type_name(value)})")


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": _to_bool,
    "bytes": _to_bytes,
    "double": _to_double,
    "duration": _to_duration,
    "dyn": lambda value: value,
    "int": _to_int,
    "string": _to_string,
    "timestamp": _to_timestamp,
    "type": lambda value: TypeName(get_type_name(value)),
    "uint": _to_uint,
}
"""Conversions by function name; those of constants run at planning time."""
