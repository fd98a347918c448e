"""What `'%s and %d'.format([…])` makes.

Source: github.com/google/cel-go ext/formatting.go.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.stdlib.operators import CONVERSIONS, format_double
from pytest_kwait.simulator.cel.values import ErrorValue, Uint, get_kind, get_type_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FORMATTABLE_TYPES", "format_string", "parse_clauses"]

_CLAUSE = re.compile(r"%(?:%|(\.\d+)?(.))", re.S)
_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
FORMATTABLE_TYPES = (
    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
)
_MAX_PRECISION = 1100
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse_clauses(text: str) -> Iterator[str | None]:
    """What a text has places for, by the letters of its clauses; None where it ends within one."""
    for found in _CLAUSE.finditer(text):
        if found[0] != "%%":
            yield found[2]
    if text.replace("%%", "").endswith("%"):
        yield None


def format_string(text: str, values: list[Any]) -> str | ErrorValue:
    """The text with the values in place of its clauses."""
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
    # No number has more places than that.
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
    # As there, whatever number of places is asked for.
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
            return f"{{{', '.join(f'{key}:{_format_value(item, inside=True)}' for key, item in shown)}}}"
    raise _make_format_error(f"string clause can only be used on {FORMATTABLE_TYPES}", value)
