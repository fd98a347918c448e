"""The protobuf form of objects, which kubectl's typed creates send.

The fields of each message come from `data/protobuf.json.gz`, made by `e2e/registry/protobuf.py`.

Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf, the modules' generated.proto files.
"""

from __future__ import annotations

import base64
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.clock import rfc3339, rfc3339_micro
from pytest_kwait.simulator.registry import read_data
from pytest_kwait.simulator.schema import schemas
from pytest_kwait.simulator.status_error import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["MAGIC", "decode_envelope"]

MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_OPTIONS = _META + "DeleteOptions"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@cache
def _table() -> Any:
    return read_data("protobuf.json.gz")


def decode_envelope(data: bytes) -> Obj:
    """The object in a protobuf body, with its kind and apiVersion.

    Raises:
        StatusError: 400, it is none of a kind that is known.
    """
    if not data.startswith(MAGIC):
        raise bad_request("the protobuf body does not start with the prefix of Kubernetes' objects")
    try:
        envelope = {number: value for number, _, value in _fields(data[len(MAGIC) :])}
        types = {number: value.decode() for number, _, value in _fields(envelope[1])}
        api_version, kind = types.get(1, ""), types.get(2, "")
        name = _table()["kinds"].get(f"{api_version} {kind}")
        if kind == "DeleteOptions":
            name = _OPTIONS
        if name is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        obj = _message(envelope.get(2, b""), name)
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise bad_request(f"the protobuf body cannot be decoded: {error}") from None
    return {"kind": kind, "apiVersion": api_version, **obj}


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and raw value of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is longer than the message")
            value, at = data[at : at + length], at + length
        elif wire == _FIXED64:
            value, at = data[at : at + 8], at + 8
        elif wire == _FIXED32:
            value, at = data[at : at + 4], at + 4
        else:
            raise ValueError(f"wire type {wire}")
        yield number, wire, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _message(data: bytes, name: str) -> Any:
    special = _SPECIAL.get(name)
    if special is not None:
        return special({number: value for number, _, value in _fields(data)})
    known = _table()["messages"][name]
    properties = schemas().get("io." + name.replace("k8s.io.", "k8s.", 1), {}).get("properties")
    obj: Obj = {}
    for number, wire, raw in _fields(data):
        entry = known.get(str(number))
        if entry is None:
            continue
        field, kind, mode = entry
        if mode == "map":
            parts = {key: value for key, _, value in _fields(raw)}
            key = parts.get(1, b"").decode()
            value = _value(parts[2], kind) if 2 in parts else _value(b"", kind)
            obj.setdefault(field, {})[key] = value
        elif mode == "repeated":
            if wire == _BYTES and kind in _NUMBERS:
                obj.setdefault(field, []).extend(_packed(raw, kind))
            else:
                obj.setdefault(field, []).append(_value(raw, kind))
        elif properties is not None and field not in properties and kind not in _SCALARS:
            obj.update(_value(raw, kind))  # a part of the Go struct that JSON shows inline
        else:
            obj[field] = _value(raw, kind)
    if properties is None and list(known) == ["1"] and known["1"][0] == "items":
        return obj.get("items", [])
    return obj


def _packed(raw: bytes, kind: str) -> Iterator[Any]:
    at = 0
    while at < len(raw):
        value, at = _varint(raw, at)
        yield _value(value, kind)


def _value(raw: Any, kind: str) -> Any:
    if kind == "string":
        return raw.decode()
    if kind == "bytes":
        return base64.b64encode(raw).decode()
    if kind == "bool":
        return bool(raw)
    if kind in ("int32", "int64"):
        value = raw if isinstance(raw, int) else 0
        return value - (1 << 64) if value >= 1 << 63 else value
    if kind in ("uint32", "uint64"):
        return raw
    if kind == "double":
        return struct.unpack("<d", raw)[0]
    return _message(raw, kind)


_NUMBERS = frozenset({"bool", "int32", "int64", "uint32", "uint64"})
_SCALARS = _NUMBERS | {"string", "bytes", "double"}


def _time(fields: dict[int, Any]) -> str | None:
    seconds = _value(fields.get(1, 0), "int64")
    return rfc3339(seconds) if fields else None


def _micro_time(fields: dict[int, Any]) -> str | None:
    if not fields:
        return None
    seconds = _value(fields.get(1, 0), "int64")
    return rfc3339_micro(seconds + fields.get(2, 0) / 1e9)


def _int_or_text(fields: dict[int, Any]) -> int | str:
    if fields.get(1, 0):
        text: str = fields.get(3, b"").decode()
        return text
    number: int = _value(fields.get(2, 0), "int32")
    return number


def _quantity(fields: dict[int, Any]) -> str:
    text: str = fields.get(1, b"0").decode()
    return text


def _raw_json(fields: dict[int, Any]) -> Any:
    raw = fields.get(1, b"")
    return msgspec.json.decode(raw) if raw else None


_SPECIAL: dict[str, Callable[[dict[int, Any]], Any]] = {
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_text,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _quantity,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": _raw_json,
}
