"""CEL's own functions: operators, conversions, strings, timestamps, optionals, lists and sets.

Source: github.com/google/cel-go common/{types,stdlib}, cel/library.go,
ext/{strings,formatting,lists,sets,comprehensions}.go.
"""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.go_values import SHORT_ESCAPES
from pytest_kwait.simulator.cel.values import (
    NO_OVERLOAD,
    OPTIONAL_NONE,
    Duration,
    ErrorValue,
    MapList,
    OptionalValue,
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
from pytest_kwait.simulator.codec.go_text import (
    find_pattern_error,
    matches_pattern,
    parse_int,
    parse_uint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMATTABLE_TYPES = (
    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
)

_COMPARABLE_KINDS = frozenset({"bool", "string", "bytes", "duration", "timestamp"})
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_TRUE_SPELLINGS, _FALSE_SPELLINGS = (
    ("1", "t", "T", "TRUE", "true", "True"),
    ("0", "f", "F", "FALSE", "false", "False"),
)
_NANOS = 1_000_000_000
_ORDERED_KINDS = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")

_CLAUSE = re.compile(r"%(?:%|(\.\d+)?(.))", re.S)
_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_MAX_PRECISION = 1100
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

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


def _check_int(value: int) -> Any:
    return value if _INT_MIN <= value <= _INT_MAX else ErrorValue("integer overflow")


def _check_uint(value: int) -> Any:
    return Uint(value) if 0 <= value <= _UINT_MAX else ErrorValue("unsigned integer overflow")


def _make_duration(nanos: int) -> Any:
    return Duration(nanos) if _INT_MIN <= nanos <= _INT_MAX else ErrorValue("integer overflow")


def _make_timestamp(nanos: int, offset: int) -> Any:
    timestamp = Timestamp(nanos, offset)
    return timestamp if timestamp.is_within_bounds else ErrorValue("timestamp overflow")


def _make_comparison(name: str, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        if is_number(left) and is_number(right):
            return holds(left, right)
        kind = get_kind(left)
        if kind not in _COMPARABLE_KINDS and not is_number(left):
            return ErrorValue(f"no such overload: {name}")
        return holds(left, right) if kind == get_kind(right) else NO_OVERLOAD

    return compare


def _add(left: Any, right: Any) -> Any:
    first, second = get_kind(left), get_kind(right)
    if first == second:
        match first:
            case "int":
                return _check_int(left + right)
            case "uint":
                return _check_uint(left + right)
            case "double" | "string" | "bytes":
                return left + right
            case "list" if isinstance(left, SetList | MapList):
                return left.with_items(right)
            case "list":
                return [*left, *right]
            case "duration":
                return _make_duration(left.nanos + right.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _make_timestamp(left.nanos + right.nanos, left.offset)
    if (first, second) == ("duration", "timestamp"):
        return _make_timestamp(left.nanos + right.nanos, right.offset)
    return NO_OVERLOAD


def _subtract(left: Any, right: Any) -> Any:
    first, second = get_kind(left), get_kind(right)
    if first == second:
        match first:
            case "int":
                return _check_int(left - right)
            case "uint":
                return _check_uint(int(left) - int(right))
            case "double":
                return left - right
            case "duration" | "timestamp":
                return _make_duration(left.nanos - right.nanos)
    if (first, second) == ("timestamp", "duration"):
        return _make_timestamp(left.nanos - right.nanos, left.offset)
    return NO_OVERLOAD


def _multiply(left: Any, right: Any) -> Any:
    kind = get_kind(left)
    if kind != get_kind(right) or not is_number(left):
        return NO_OVERLOAD
    if kind == "double":
        return left * right
    return (_check_int if kind == "int" else _check_uint)(int(left) * int(right))


def _divide(left: Any, right: Any) -> Any:
    kind = get_kind(left)
    if kind != get_kind(right) or not is_number(left):
        return NO_OVERLOAD
    if kind == "double":
        if right:
            return left / right
        return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left * right)
    if not right:
        return ErrorValue("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return (_check_int if kind == "int" else _check_uint)(
        -quotient if (left < 0) != (right < 0) else quotient
    )


def _remainder(left: Any, right: Any) -> Any:
    kind = get_kind(left)
    if kind != get_kind(right) or kind not in ("int", "uint"):
        return NO_OVERLOAD
    if not right:
        return ErrorValue("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    return Uint(rest) if kind == "uint" else (-rest if left < 0 else rest)


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
    "_!=_": lambda left, right: not is_equal(left, right),
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


def _make_conversion_error(value: Any, type_name: str) -> ErrorValue:
    return ErrorValue(f"type conversion error from '{get_type_name(value)}' to '{type_name}'")


def _parse_spelled(read: Callable[[str], int], text: str, type_name: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return _make_conversion_error(text, type_name)


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
            spelled = _parse_spelled(parse_uint, value, "uint")
            return spelled if isinstance(spelled, ErrorValue) else Uint(spelled)
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
            timestamp = parse_timestamp(value)
            return (
                timestamp
                if timestamp is not None
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
            duration = parse_duration(value)
            return (
                duration
                if duration is not None
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


def _accept_lists(run: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if all(isinstance(value, list) for value in values[:count]):
            return run(*values)
        return NO_OVERLOAD

    return call


def _slice(values: list[Any], start: int, end: int) -> Any:
    prefix = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        return ErrorValue(f"{prefix}negative indexes not supported")
    if start > end:
        return ErrorValue(f"{prefix}start index must be less than or equal to end index")
    if len(values) < end:
        return ErrorValue(f"{prefix}list is length {len(values)}")
    return list(values[start:end])


def _flatten(values: list[Any], depth: int = 1) -> Any:
    if depth < 0:
        return ErrorValue("level must be non-negative")
    items: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth:
            items += _flatten(value, depth - 1)
        else:
            items.append(value)
    return items


def _sort_by(values: list[Any], keys: list[Any]) -> Any:
    if not values:
        return values
    kinds = {get_kind(key) for key in keys}
    if get_kind(keys[0]) not in _ORDERED_KINDS:
        return ErrorValue("list elements must be comparable")
    if len(kinds) > 1:
        return ErrorValue("list elements must have the same type")
    places = sorted(range(len(values)), key=keys.__getitem__)
    return [values[place] for place in places]


def _distinct(values: list[Any]) -> list[Any]:
    distinct_values: list[Any] = []
    for value in values:
        if not any(is_equal(value, distinct_value) for distinct_value in distinct_values):
            distinct_values.append(value)
    return distinct_values


def _contains_all(values: list[Any], items: list[Any]) -> bool:
    return all(any(is_equal(value, item) for value in values) for item in items)


def _insert_entry(made: Any, key: Any, value: Any = None, *, entry: bool = False) -> Any:
    more = key if entry else {key: value}
    if not isinstance(made, dict) or not isinstance(more, dict):
        return NO_OVERLOAD
    for entry_key in more:
        if entry_key in made:
            return ErrorValue(f"insert failed: key {entry_key} already exists")
    return {**made, **more}


def _insert_or_merge(made: Any, *arguments: Any) -> Any:
    return _insert_entry(made, *arguments, entry=len(arguments) == 1)


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "@sortByAssociatedKeys": _accept_lists(_sort_by, 2),
    "cel.@mapInsert": _insert_or_merge,
    "distinct": _accept_lists(_distinct),
    "first": _accept_lists(lambda values: OptionalValue(values[0]) if values else OPTIONAL_NONE),
    "flatten": _accept_lists(_flatten),
    "last": _accept_lists(lambda values: OptionalValue(values[-1]) if values else OPTIONAL_NONE),
    "lists.range": lambda count: list(range(count)),
    "reverse": _accept_lists(lambda values: values[::-1]),
    "sets.contains": _accept_lists(_contains_all, 2),
    "sets.equivalent": _accept_lists(
        lambda left, right: _contains_all(left, right) and _contains_all(right, left), 2
    ),
    "sets.intersects": _accept_lists(
        lambda left, right: any(_contains_all(right, [value]) for value in left), 2
    ),
    "slice": _accept_lists(_slice),
    "sort": _accept_lists(lambda values: _sort_by(values, values)),
}
"""The implementations by name; member functions take their receiver first."""


def parse_clauses(text: str) -> Iterator[str | None]:
    """Return the letters of a format's clauses; None if it ends within one."""
    for match in _CLAUSE.finditer(text):
        if match[0] != "%%":
            yield match[2]
    if text.replace("%%", "").endswith("%"):
        yield None


def format_string(text: str, values: list[Any]) -> str | ErrorValue:
    """Return the format with the values in place of its clauses."""
    made: list[str] = []
    at = count = 0
    try:
        for match in _CLAUSE.finditer(text):
            made.append(text[at : match.start()])
            at = match.end()
            if match[0] == "%%":
                made.append("%")
                continue
            if count >= len(values):
                return ErrorValue(f"index {count} out of range")
            made.append(_format_clause(values[count], match[2], match[1]))
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
        notation = "fixed-point" if clause == "f" else "scientific"
        raise _make_format_error(f"{notation} clause can only be used on doubles", value)
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
            sorted_entries = sorted(entries, key=lambda entry: entry[0])
            pairs = (f"{key}:{_format_value(item, inside=True)}" for key, item in sorted_entries)
            return f"{{{', '.join(pairs)}}}"
    raise _make_format_error(f"string clause can only be used on {FORMATTABLE_TYPES}", value)


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


def _is_contained(left: Any, right: Any) -> Any:
    return right in left


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
    return [
        optional.value
        for optional in values
        if isinstance(optional, OptionalValue) and optional.has_value
    ]


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
    "strings.quote": _accept_strings(lambda text: f'"{text.translate(SHORT_ESCAPES)}"', 1),
    "substring": _accept_strings(_substring, 1),
    "trim": _accept_strings(lambda text: text.strip(_WHITESPACE), 1),
    "unwrapOpt": _unwrap_optionals,
    "upperAscii": _accept_strings(lambda text: text.translate(_TO_UPPER), 1),
    "value": _get_optional_value,
    **{name: _make_timestamp_getter(name) for name in (*_TIMESTAMP_GETTERS, *_DURATION_UNITS)},
}
"""The implementations by name; member functions take their receiver first."""
