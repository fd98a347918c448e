"""Values as Go parses them, with Go's error texts."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from typing import Any

from pytest_kwait.apimachinery.times import NANOSECONDS

INT32 = 2**31 - 1
INT64 = 2**63 - 1

GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""The texts that `strconv.ParseBool` takes for true."""
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DECIMAL_INT = re.compile(r"[+-]?\d+", re.ASCII)
_PREFIXED_INT = re.compile(r"[+-]?0[xXoObB][0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TERM = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)", re.ASCII)
_MAX_DIGITS = 19
_JSON_ESCAPES = str.maketrans(
    {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
)


SHORT_ESCAPES = str.maketrans(
    {sign: f"\\{name}" for sign, name in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)
"""Characters with short escapes in Go."""


def quote_go(text: str) -> str:
    """Return the text in double quotes with unprintable characters escaped, as Go's %q."""
    short = text.translate(SHORT_ESCAPES)
    if short.isprintable():
        return f'"{short}"'
    return '"' + "".join(sign if sign.isprintable() else _escape(sign) for sign in short) + '"'


def _escape(sign: str) -> str:
    code = ord(sign)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_bool(text: str) -> bool:
    """Return the bool of a text.

    Raises:
        ValueError: it is none of 1, t, true, 0, f, false.

    Source: strconv.ParseBool of Go.
    """
    if text in GO_TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(_parse_error("ParseBool", text))


def parse_int(text: str, most: int = INT64) -> int:
    """Return the integer of a text: digits, optionally with prefix 0x, 0o or 0b.

    Args:
        text: the number.
        most: the maximum; the minimum is one below its negative.

    Raises:
        ValueError: it is not a whole number, or out of range.

    Source: strconv.ParseInt of Go with base 0.
    """
    if _DECIMAL_INT.fullmatch(text):
        value = int(text)
    elif _PREFIXED_INT.fullmatch(text):
        try:
            value = int(text, 0)
        except ValueError:
            raise ValueError(_parse_error("ParseInt", text)) from None
    else:
        raise ValueError(_parse_error("ParseInt", text))
    if not -most - 1 <= value <= most:
        raise ValueError(_parse_error("ParseInt", text, "value out of range"))
    return value


def parse_float(text: str) -> float:
    """Return the finite number of a text.

    Raises:
        ValueError: it is not a number, or out of range.

    Source: strconv.ParseFloat of Go, which also accepts infinities and NaN.
    """
    if not _FLOAT.fullmatch(text):
        raise ValueError(_parse_error("ParseFloat", text))
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(_parse_error("ParseFloat", text, "value out of range"))
    return value


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`; it may be negative.

    Raises:
        ValueError: the text is not a duration, or a number lacks its unit.

    Source: time.ParseDuration of Go.
    """
    return parse_nanoseconds(text) / 10**9


def parse_nanoseconds(text: str) -> int:
    """Return a duration in exact nanoseconds; otherwise as `parse_duration`."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    terms = list(_TERM.finditer(rest))
    if not terms or "".join(term.group() for term in terms) != rest:
        raise ValueError(f"time: invalid duration {quote_go(text)}")
    total = 0
    for term in terms:
        if not term[2]:
            raise ValueError(f"time: missing unit in duration {quote_go(text)}")
        if term[2] not in NANOSECONDS:
            raise ValueError(f"time: unknown unit {quote_go(term[2])} in duration {quote_go(text)}")
        whole, _, fraction = term[1].partition(".")
        whole, fraction = whole.lstrip("0"), fraction[:_MAX_DIGITS]
        if len(whole) > _MAX_DIGITS:
            raise ValueError(f"time: invalid duration {quote_go(text)}")
        unit = NANOSECONDS[term[2]]
        total += int(whole or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
    total = -total if text.startswith("-") else total
    if not -INT64 - 1 <= total <= INT64:
        raise ValueError(f"time: invalid duration {quote_go(text)}")
    return total


def parse_ip(text: str) -> str:
    """Return the IP address of a text, ignoring surrounding whitespace.

    Raises:
        ValueError: it is not an address.

    Source: net.ParseIP of Go, with the messages of pflag's IP flag.
    """
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quote_go(text)}") from None


def _parse_error(function: str, text: str, why: str = "invalid syntax") -> str:
    return f"strconv.{function}: parsing {quote_go(text)}: {why}"


def dump_go_json(value: Any, *, sort_keys: bool = True) -> str:
    """Write compact JSON as Go's encoder does, which escapes what HTML reads."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=False)
    return text.translate(_JSON_ESCAPES)
