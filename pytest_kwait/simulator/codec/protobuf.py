"""Decode objects from protobuf, which kubectl's typed creates send.

The fields of each message are those of the Go type behind it (`schema`).
Source: k8s.io/apimachinery pkg/runtime/serializer/protobuf, the modules' generated.pb.go files.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.times import format_moment
from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.schema import go_base, go_kinds, go_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.codec.schema import GoField
    from pytest_kwait.simulator.objects import Obj

MAGIC = b"k8s\x00"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_DECODE_ERRORS = (
    AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
    struct.error,
)  # fmt: skip
"""Errors of decoding a field from bytes of another type or length."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = frozenset({"bool", "int32", "int64", "uint32", "uint64"})
_SCALARS = _NUMBERS | {"string", "bytes", "float64"}


@cache
def _fields_by_number(name: str) -> dict[int, GoField]:
    """The fields of a message by number.

    Raises:
        ValueError: there is no such message.
    """
    fields = go_struct(name)
    if fields is None:
        raise ValueError(f"no message {name}")
    return {field.number: field for field in fields if field.number}


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
        name = go_kinds().get(f"{api_version} {kind}")
        if kind == "DeleteOptions":
            name = f"{_META}{kind}"
        if name is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        obj = _message(envelope.get(2, b""), name)
    except _DECODE_ERRORS as error:
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
        if shift > 63:
            raise ValueError("integer overflow")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _message(data: bytes, name: str) -> Any:
    special = _SPECIAL.get(name)
    if special is not None:
        return special({number: value for number, _, value in _fields(data)})
    if name in _SCHEMAS:
        return _SCHEMAS[name](data)
    if go_base(name) == "slice string":
        return [raw.decode() for _, _, raw in _fields(data)]
    known = _fields_by_number(name)
    obj: Obj = {}
    for number, wire, raw in _fields(data):
        field = known.get(number)
        if field is None:
            continue
        kind = go_base(field.of) if go_base(field.of) in _SCALARS else field.of
        if field.mode == "map":
            parts = {key: value for key, _, value in _fields(raw)}
            key = parts.get(1, b"").decode()
            value = _value(parts[2], kind) if 2 in parts else _value(b"", kind)
            obj.setdefault(field.json, {})[key] = value
        elif field.mode == "list":
            if wire == _BYTES and kind in _NUMBERS:
                obj.setdefault(field.json, []).extend(_packed(raw, kind))
            else:
                obj.setdefault(field.json, []).append(_value(raw, kind))
        elif field.inline:
            obj.update(_value(raw, kind))
        else:
            obj[field.json] = _value(raw, kind)
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
    if kind == "float64":
        return struct.unpack("<d", raw)[0]
    return _message(raw, kind)


def _time(fields: dict[int, Any]) -> str | None:
    return _timestamp(fields, micro=False)


def _micro_time(fields: dict[int, Any]) -> str | None:
    return _timestamp(fields, micro=True)


def _timestamp(fields: dict[int, Any], *, micro: bool) -> str | None:
    """Return the text of a Timestamp; None for an empty one.

    Raises:
        ValueError: its year is not one of 1 to 9999.
    """
    if not fields:
        return None
    seconds, micros = _value(fields.get(1, 0), "int64"), fields.get(2, 0) // 1000
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros if micro else 0)
    except OverflowError:
        raise ValueError(
            f"proto: {seconds} s since 1970 is outside of the years 1 to 9999"
        ) from None
    return format_moment(moment, micro=micro)


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


def _schema(raw: bytes) -> Any:
    return _message(raw, f"{_EXTENSIONS}JSONSchemaProps")


def _schema_or_many(data: bytes) -> Any:
    many = [_schema(raw) for number, _, raw in _fields(data) if number == 2]
    return many or _schema_or(data, 1)


def _schema_or_bool(data: bytes) -> Any:
    allowed = any(number == 1 and raw for number, _, raw in _fields(data))
    return _schema_or(data, 2, allowed)


def _schema_or_texts(data: bytes) -> Any:
    texts = [raw.decode() for number, _, raw in _fields(data) if number == 2]
    return texts or _schema_or(data, 1)


def _schema_or(data: bytes, place: int, default: Any = None) -> Any:
    return next((_schema(raw) for number, _, raw in _fields(data) if number == place), default)


_SPECIAL: dict[str, Callable[[dict[int, Any]], Any]] = {
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "FieldsV1": _raw_json,
    _EXTENSIONS + "JSON": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_text,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
}
_SCHEMAS: dict[str, Callable[[bytes], Any]] = {
    _EXTENSIONS + "JSONSchemaPropsOrArray": _schema_or_many,
    _EXTENSIONS + "JSONSchemaPropsOrBool": _schema_or_bool,
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": _schema_or_texts,
}
