"""The language's operators and its conversions from one type to another.

Source: github.com/google/cel-go common/types, common/stdlib.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import (
    NO_OVERLOAD,
    Failure,
    KeyedList,
    SetList,
    TypeName,
    Uint,
    equal,
    is_number,
    kind_of,
    size_of,
    type_name,
)
from pytest_kwait.simulator.cel.moments import Duration, Moment, read_duration, read_moment
from pytest_kwait.simulator.go_numbers import parse_int, parse_uint

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CONVERSIONS", "OPERATORS", "double_text"]

_COMPARED = frozenset({"bool", "string", "bytes", "duration", "timestamp"})
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_NANOS = 1_000_000_000


def _integer(value: int) -> Any:
    return value if _INT_MIN <= value <= _INT_MAX else Failure("integer overflow")


def _unsigned(value: int) -> Any:
    return Uint(value) if 0 <= value <= _UINT_MAX else Failure("unsigned integer overflow")


def _span(nanos: int) -> Any:
    return Duration(nanos) if _INT_MIN <= nanos <= _INT_MAX else Failure("integer overflow")


def _moment(nanos: int, offset: int) -> Any:
    found = Moment(nanos, offset)
    return found if found.within_bounds else Failure("timestamp overflow")


def _comparison(name: str, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(one: Any, two: Any) -> Any:
        if is_number(one) and is_number(two):
            return holds(one, two)
        kind = kind_of(one)
        if kind not in _COMPARED and not is_number(one):
            return Failure(f"no such overload: {name}")
        return holds(one, two) if kind == kind_of(two) else NO_OVERLOAD

    return compare


def _add(one: Any, two: Any) -> Any:
    first, second = kind_of(one), kind_of(two)
    if first == second:
        match first:
            case "int":
                return _integer(one + two)
            case "uint":
                return _unsigned(one + two)
            case "double" | "string" | "bytes":
                return one + two
            case "list" if isinstance(one, SetList | KeyedList):
                return one.with_items(two)
            case "list":
                return [*one, *two]
            case "duration":
                return _span(one.nanos + two.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _moment(one.nanos + two.nanos, one.offset)
    if (first, second) == ("duration", "timestamp"):
        return _moment(one.nanos + two.nanos, two.offset)
    return NO_OVERLOAD


def _subtract(one: Any, two: Any) -> Any:
    first, second = kind_of(one), kind_of(two)
    if first == second:
        match first:
            case "int":
                return _integer(one - two)
            case "uint":
                return _unsigned(int(one) - int(two))
            case "double":
                return one - two
            case "duration" | "timestamp":
                return _span(one.nanos - two.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _moment(one.nanos - two.nanos, one.offset)
    return NO_OVERLOAD


def _multiply(one: Any, two: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(two) or not is_number(one):
        return NO_OVERLOAD
    if kind == "double":
        return one * two
    return (_integer if kind == "int" else _unsigned)(int(one) * int(two))


def _divide(one: Any, two: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(two) or not is_number(one):
        return NO_OVERLOAD
    if kind == "double":
        if two:
            return one / two
        return math.nan if not one or math.isnan(one) else math.copysign(math.inf, one * two)
    if not two:
        return Failure("division by zero")
    quotient = abs(int(one)) // abs(int(two))
    return (_integer if kind == "int" else _unsigned)(
        -quotient if (one < 0) != (two < 0) else quotient
    )


def _remainder(one: Any, two: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(two) or kind not in ("int", "uint"):
        return NO_OVERLOAD
    if not two:
        return Failure("modulus by zero")
    rest = abs(int(one)) % abs(int(two))
    return Uint(rest) if kind == "uint" else (-rest if one < 0 else rest)


def _negate(value: Any) -> Any:
    match kind_of(value):
        case "int":
            return _integer(-value)
        case "double":
            return -value
    return NO_OVERLOAD


def _in(value: Any, container: Any) -> Any:
    match kind_of(container):
        case "list":
            return any(equal(item, value) for item in container)
        case "map":
            return any(equal(key, value) for key in container)
    return NO_OVERLOAD


def _size(value: Any) -> Any:
    if kind_of(value) in ("string", "bytes", "list", "map"):
        return size_of(value)
    return Failure("no such overload: size")


OPERATORS: dict[str, Callable[..., Any]] = {
    "!_": lambda value: not value if isinstance(value, bool) else NO_OVERLOAD,
    "-_": _negate,
    "@in": _in,
    "_!=_": lambda one, two: not equal(one, two),
    "_%_": _remainder,
    "_*_": _multiply,
    "_+_": _add,
    "_-_": _subtract,
    "_/_": _divide,
    "_<=_": _comparison("_<=_", operator.le),
    "_<_": _comparison("_<_", operator.lt),
    "_==_": equal,
    "_>=_": _comparison("_>=_", operator.ge),
    "_>_": _comparison("_>_", operator.gt),
    "size": _size,
}
"""By the names that the parser gives them."""


def double_text(value: float) -> str:
    """A number as Go writes it: in full, or with an exponent where that is shorter."""
    if math.isnan(value) or math.isinf(value):
        return {True: "NaN"}.get(math.isnan(value), "+Inf" if value > 0 else "-Inf")
    shortest = _scientific(value)
    mantissa, _, exponent = shortest.partition("e")
    if value == 0 or -4 <= int(exponent) < 6:
        places = max(len(mantissa.partition(".")[2]) - int(exponent), 0)
        return f"{value:.{places}f}"
    return f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"


def _scientific(value: float) -> str:
    for precision in range(18):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            return text
    return f"{value:.17e}"


def _misfit(value: Any, wanted: str) -> Failure:
    return Failure(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _spelled(read: Callable[[str], int], text: str, wanted: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return _misfit(text, wanted)


def _to_int(value: Any) -> Any:
    match kind_of(value):
        case "int" | "uint":
            return _integer(int(value))
        case "double":
            if math.isnan(value) or not _INT_MIN < value < _INT_MAX:
                return Failure("integer overflow")
            return int(value)
        case "string":
            return _spelled(parse_int, value, "int")
        case "timestamp":
            return value.nanos // _NANOS
        case "duration":
            return value.nanos
    return Failure(f"no such overload: int({type_name(value)})")


def _to_uint(value: Any) -> Any:
    match kind_of(value):
        case "int" | "uint":
            return _unsigned(int(value))
        case "double":
            if math.isnan(value) or not 0 <= value < _UINT_MAX:
                return Failure("unsigned integer overflow")
            return Uint(value)
        case "string":
            found = _spelled(parse_uint, value, "uint")
            return found if isinstance(found, Failure) else Uint(found)
    return Failure(f"no such overload: uint({type_name(value)})")


def _to_double(value: Any) -> Any:
    if is_number(value):
        return float(value)
    if kind_of(value) != "string":
        return Failure(f"no such overload: double({type_name(value)})")
    try:
        number = float(value) if value == value.strip() and value else None
    except ValueError:
        number = None
    # Beyond all numbers is another thing than without end.
    if number is None or (math.isinf(number) and any(sign.isdigit() for sign in value)):
        return _misfit(value, "double")
    return number


def _to_text(value: Any) -> Any:
    match kind_of(value):
        case "string":
            return value
        case "bool":
            return "true" if value else "false"
        case "int" | "uint" | "duration" | "timestamp":
            return str(value)
        case "double":
            return double_text(value)
        case "bytes":
            try:
                return value.decode()
            except UnicodeDecodeError:
                return Failure("invalid UTF-8 in bytes, cannot convert to string")
        case "IP" | "CIDR":
            return value["text"]
    return Failure(f"no such overload: string({type_name(value)})")


def _to_bool(value: Any) -> Any:
    match kind_of(value):
        case "bool":
            return value
        case "string":
            known = value in (*_TRUE, *_FALSE)
            return value in _TRUE if known else _misfit(value, "bool")
    return Failure(f"no such overload: bool({type_name(value)})")


def _to_bytes(value: Any) -> Any:
    match kind_of(value):
        case "bytes":
            return value
        case "string":
            return value.encode()
    return Failure(f"no such overload: bytes({type_name(value)})")


def _to_moment(value: Any) -> Any:
    match kind_of(value):
        case "timestamp":
            return value
        case "int":
            return _moment(value * _NANOS, 0)
        case "string":
            found = read_moment(value)
            return found if found is not None else _misfit(value, "google.protobuf.Timestamp")
    return Failure(f"no such overload: timestamp({type_name(value)})")


def _to_duration(value: Any) -> Any:
    match kind_of(value):
        case "duration":
            return value
        case "int":
            return _span(value)
        case "string":
            found = read_duration(value)
            return found if found is not None else _misfit(value, "google.protobuf.Duration")
    return Failure(f"no such overload: duration({type_name(value)})")


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "bool": _to_bool,
    "bytes": _to_bytes,
    "double": _to_double,
    "duration": _to_duration,
    "dyn": lambda value: value,
    "int": _to_int,
    "string": _to_text,
    "timestamp": _to_moment,
    "type": lambda value: TypeName(type_name(value)),
    "uint": _to_uint,
}
"""By the names of the functions; of a constant they are done before the expression is run."""
