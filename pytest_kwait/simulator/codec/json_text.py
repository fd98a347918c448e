"""JSON of clients: read as the server reads it, and no deeper than what follows can bear.

Source: Go's encoding/json, sigs.k8s.io/json.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pytest_kwait.simulator.codec.json_yaml import find_json_error

__all__ = ["MAX_DEPTH", "check_depth", "read_json"]

MAX_DEPTH = 150
"""Objects and lists within each other. Go bears 10,000; no object of the API comes near either."""

_TOO_DEEP = "exceeded max depth"
_decode = msgspec.json.Decoder().decode


def read_json(data: bytes) -> Any:
    """The value that `data` spells; what is no UTF-8 in it reads as U+FFFD.

    Raises:
        ValueError: it spells none, or one that is too deep; the text is Go's.
    """
    try:
        value = _decode(data)
    except RecursionError:
        raise _too_deep_error(data) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _read_leniently(data)
    if data.count(b"{") + data.count(b"[") > MAX_DEPTH:
        check_depth(value, data)
    return value


def check_depth(value: Any, data: bytes = b"{") -> None:
    """Hold `value`, which `data` spells, to what can be borne.

    Raises:
        ValueError: it is too deep.
    """
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise _too_deep_error(data)
        below: list[Any] = []
        for one in layer:
            if isinstance(one, dict):
                below += [item for item in one.values() if isinstance(item, dict | list)]
            elif isinstance(one, list):
                below += [item for item in one if isinstance(item, dict | list)]
        layer = below


def _too_deep_error(data: bytes) -> ValueError:
    sign = "[" if data.count(b"[") > data.count(b"{") else "{"
    return ValueError(f"invalid character '{sign}' {_TOO_DEEP}")


def _read_leniently(data: bytes) -> Any:
    """What only the encoding was wrong of: bytes that are no UTF-8, halves of characters."""
    text = data.decode(errors="replace")
    try:
        json.loads(text, parse_constant=_refuse_constant)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _decode(_replace_lone_surrogates(whole).encode())
    except RecursionError:
        raise _too_deep_error(data) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(find_json_error(data) or str(error)) from None


def _refuse_constant(name: str) -> Any:
    """Refuse `NaN` and the like."""
    raise ValueError(name)


def _replace_lone_surrogates(text: str) -> str:
    """`text` with the escapes of halves of characters that stand alone as U+FFFD."""
    if "\\u" not in text:
        return text
    value = json.loads(text)
    again = json.dumps(value, ensure_ascii=False)
    return again.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
