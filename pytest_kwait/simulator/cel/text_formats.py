"""What `'%s and %d'.format([…])` makes.

Source: github.com/google/cel-go ext/formatting.go.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.cel_values import Failure, Uint, kind_of, type_name
from pytest_kwait.simulator.cel.operators import CONVERSIONS, double_text

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SHOWN", "clauses", "formatted"]

_CLAUSE = re.compile(r"%(?:%|(\.\d+)?(.))", re.S)
_RAISED = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
SHOWN = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_MOST_PLACES = 1100
_ENDLESS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def clauses(text: str) -> Iterator[str | None]:
    """What a text has places for, by the letters of its clauses; None where it ends within one."""
    for found in _CLAUSE.finditer(text):
        if found[0] != "%%":
            yield found[2]
    if text.replace("%%", "").endswith("%"):
        yield None


def formatted(text: str, values: list[Any]) -> str | Failure:
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
                return Failure(f"index {count} out of range")
            made.append(_clause(values[count], found[2], found[1]))
            count += 1
    except ValueError as error:
        return Failure(str(error))
    return "".join(made) + text[at:]


def _clause(value: Any, clause: str, precision: str | None) -> str:
    # No number has more places than that.
    places = min(int(precision[1:][:9]), _MOST_PLACES) if precision else 6
    match clause:
        case "s":
            return _text(value)
        case "d":
            return _integer(value, "d", "decimal clause can only be used on integers")
        case "f" | "e":
            return _float(value, clause, places)
        case "b":
            if isinstance(value, bool):
                return "1" if value else "0"
            return _integer(value, "b", "only integers and bools can be formatted as binary")
        case "x" | "X":
            return _hexadecimal(value, upper=clause == "X")
        case "o":
            return _integer(value, "o", "octal clause can only be used on integers")
    raise ValueError(
        f'could not parse formatting clause: unrecognized formatting clause "{clause}"'
    )


def _refused(why: str, value: Any) -> ValueError:
    return ValueError(f"error during formatting: {why}, was given {type_name(value)}")


def _integer(value: Any, form: str, why: str) -> str:
    if kind_of(value) not in ("int", "uint"):
        raise _refused(why, value)
    return format(int(value), form)


def _float(value: Any, clause: str, places: int) -> str:
    if isinstance(value, str) and value in _ENDLESS:
        value = _ENDLESS[value]
    if not isinstance(value, float):
        what = "fixed-point" if clause == "f" else "scientific"
        raise _refused(f"{what} clause can only be used on doubles", value)
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if clause == "f":
        return f"{value:.{places}f}"
    # As there, whatever number of places is asked for.
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    sign = "-" if exponent.startswith("-") else ""
    return f"{mantissa}\u00d710{(sign + exponent[1:]).translate(_RAISED)}"


def _hexadecimal(value: Any, *, upper: bool) -> str:
    match kind_of(value):
        case "string":
            text: str = value.encode().hex()
        case "bytes":
            text = value.hex()
        case "int" | "uint":
            text = format(int(value), "x")
        case _:
            why = "only integers, byte buffers, and strings can be formatted as hex"
            raise _refused(why, value)
    return text.upper() if upper else text


def _text(value: Any, *, inside: bool = False) -> str:
    kind = kind_of(value)
    match kind:
        case "string":
            return f'"{value}"' if inside else str(value)
        case "bytes":
            text = value.decode(errors="replace")
            return f'b"{text}"' if inside else text
        case "duration" | "timestamp":
            return f'{kind}("{value}")' if inside else str(value)
        case "double":
            return f"{value:.6f}" if inside and math.isfinite(value) else double_text(value)
        case "null" | "type":
            return "null" if kind == "null" else str(value)
        case "bool" | "int" | "uint":
            return str(CONVERSIONS["string"](Uint(value) if kind == "uint" else value))
        case "list":
            return f"[{', '.join(_text(item, inside=True) for item in value)}]"
        case "map":
            entries = ((_text(key, inside=True), item) for key, item in value.items())
            shown = sorted(entries, key=lambda entry: entry[0])
            return f"{{{', '.join(f'{key}:{_text(item, inside=True)}' for key, item in shown)}}}"
    raise _refused(f"string clause can only be used on {SHOWN}", value)
