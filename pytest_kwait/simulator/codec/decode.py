"""Decode raw JSON values into objects of a kind, as Go's strict decoder does.

Unknown and duplicate fields are reported, unknown ones dropped, values of a wrong type refused;
fields that the server always writes are filled with their zero value or default, and empty values
that it never writes are dropped. Times are read and written as the API's `Time` and `MicroTime`.
Source: sigs.k8s.io/json internal/golang/encoding/json/decode.go; Go's time.Parse;
k8s.io/apimachinery pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.quantities import canonicalize_quantity, round_quantity
from pytest_kwait.apimachinery.times import format_moment
from pytest_kwait.simulator.api_errors import bad_request
from pytest_kwait.simulator.codec.schema import Form, Shape, definition_schema
from pytest_kwait.simulator.objects import DuplicateKeysObj, EmptiedObj, clone
from pytest_kwait.simulator.scheme import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.codec.schema import Struct
    from pytest_kwait.simulator.objects import Obj

_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICROS_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME_STEPS = tuple(
    (element, re.compile(form))
    for element, form in (
        ("2006", r"\d{4}"),
        ("-", "-"),
        ("01", r"\d\d"),
        ("-", "-"),
        ("02", r"\d\d"),
        ("T", "T"),
        ("15", r"\d\d"),
        (":", ":"),
        ("04", r"\d\d"),
        (":", ":"),
        ("05", r"\d\d"),
    )
)
_ZERO_TIME = "0001-01-01T00:00:00"
_FRACTION = re.compile(r"[.,]\d+")
_SIX = re.compile(r"\.\d{6}")
_TIME_ZONE = re.compile(r"Z|[+-]\d\d:\d\d")
_CYCLE = 400
"""Years after which the calendar repeats."""
_MONTHS_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MAX_STRICT_ERRORS = 100
# Read for every field of every object: constants are twice as fast as an enum.
_ANY, _BOOL, _INT_OR_TEXT, _INTEGER = Form.ANY, Form.BOOL, Form.INT_OR_TEXT, Form.INTEGER
_LIST, _MAP, _STRUCT, _TEXT, _TIME = Form.LIST, Form.MAP, Form.STRUCT, Form.TEXT, Form.TIME
_SCHEMA_OR_BOOL = "v1.JSONSchemaPropsOrBool"
_SCHEMA_OR_ARRAY = "v1.JSONSchemaPropsOrArray"
_UNIONS = frozenset({_SCHEMA_OR_BOOL, _SCHEMA_OR_ARRAY, "v1.JSONSchemaPropsOrStringArray"})
_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint8": (0, (1 << 8) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
}

_READERS = (Form.INT_OR_TEXT, Form.QUANTITY, Form.TIME)

_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

_PADDING = ord("=")


@lru_cache(maxsize=4096)
def canonicalize_time(text: str, *, micro: bool = False) -> str:
    """Return a time in UTC, in seconds or with `micro` in microseconds.

    Raises:
        ValueError: with the server's message, the time is invalid.
    """
    if (_MICROS if micro else _SECONDS).fullmatch(text):
        _parse_time(text, micro=micro)
        return text
    moment, shift = _parse_time(text, micro=micro)
    return f"{moment.year - shift:04d}{format_moment(moment, micro=micro)[4:]}"


def _parse_time(text: str, *, micro: bool) -> tuple[datetime, int]:
    """Return the time, and by how many years it is later: `datetime` begins with year 1."""
    layout = _MICROS_LAYOUT if micro else _SECONDS_LAYOUT
    at, numbers = 0, []
    for element, form in _TIME_STEPS:
        match = form.match(text, at)
        if match is None:
            raise _parse_time_error(text, layout, text[at:], element)
        if len(element) > 1:
            numbers.append(int(match[0]))
        at = match.end()
    micros = 0
    fraction = (_SIX if micro else _FRACTION).match(text, at)
    if fraction:
        micros = int(fraction[0][1:7].ljust(6, "0"))
        at = fraction.end()
    elif micro:
        raise _parse_time_error(text, layout, text[at:], ".000000")
    zone = _TIME_ZONE.match(text, at)
    if zone is None:
        raise _parse_time_error(text, layout, text[at:], "Z07:00")
    if text[zone.end() :]:
        raise ValueError(f'parsing time "{text}": extra text: "{text[zone.end() :]}"')
    _check_ranges(text, numbers)
    offset = timedelta()
    if zone[0] != "Z":
        hours, minutes = zone[0][1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        offset = -offset if zone[0][0] == "-" else offset
    year, month, day, hour, minute, second = numbers
    shift = _CYCLE if year < 2 else 0
    moment = datetime(year + shift, month, day, hour, minute, second, micros, UTC) - offset
    return moment, shift


def _check_ranges(text: str, numbers: list[int]) -> None:
    year, month, day, hour, minute, second = numbers
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    for name, wrong in (
        ("month", not 1 <= month <= 12),
        ("hour", hour > 23),
        ("minute", minute > 59),
        ("second", second > 59),
        ("day", not 1 <= day <= _MONTHS_DAYS[min(max(month, 1), 12) - 1]),
        ("day", month == 2 and day == 29 and not leap),
    ):
        if wrong:
            raise ValueError(f'parsing time "{text}": {name} out of range')


def _parse_time_error(text: str, layout: str, rest: str, element: str) -> ValueError:
    return ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"')


class _WrongType(Exception):
    """A value of a wrong type; each enclosing struct adds its path."""

    def __init__(self, given: str, go: str) -> None:
        super().__init__(given)
        self.given, self.go = given, go
        self.struct = ""
        self.path: list[str] = []

    def within(self, struct: Struct, field: str, shape: Shape | None) -> None:
        """Add the path of the value."""
        self.path.append(field)
        if shape is not None and shape.field is not None:
            self.path += reversed(shape.field.within)
        self.struct = self.struct or struct.go

    def __str__(self) -> str:
        where = f"{self.struct}.{'.'.join(reversed(self.path))}"
        return f"json: cannot unmarshal {self.given} into Go struct field {where} of type {self.go}"


class _Unreadable(Exception):
    """A text that its type cannot parse."""


class Decoder:
    """Decodes one object and collects the errors of strict decoding.

    Args:
        keeps_nulls: whether a custom object keeps nulls that its schema does not allow.
    """

    __slots__ = ("_kind", "emptied", "emptied_objects", "keeps_nulls", "strict_errors", "unknown")

    def __init__(self, kind: Kind, *, keeps_nulls: bool = False) -> None:
        self._kind = kind
        self.keeps_nulls = keeps_nulls
        self.emptied: list[str] = []
        """The fields whose empty lists and maps have become null."""
        self.emptied_objects: list[EmptiedObj] = []
        """The objects that know which of their fields were given empty."""
        self.unknown: list[str] = []
        """The fields that the type does not have."""
        self.strict_errors: dict[str, None] = {}
        """Errors of strict decoding in order, at most as many as the server reports."""

    def struct(
        self, value: Obj, struct: Struct, path: str = "", *, before: Obj | None = None
    ) -> Obj:
        """Return `value` as the server writes it after decoding.

        Args:
            value: the raw value.
            struct: its type.
            before: a clean object that it was made of; parts that are still the same are taken from
                there, and belong to both from then on.

        Raises:
            StatusError: 400, a value has another JSON type than its field.
        """
        try:
            return self.parse_struct(value, struct, path, before=before)
        except ValueError as error:
            raise self._refused(str(error)) from None

    def parse_struct(
        self, value: Obj, struct: Struct, path: str = "", *, before: Obj | None = None
    ) -> Obj:
        """Return what `struct` returns.

        Raises:
            ValueError: with Go's message, a value has another JSON type than its field.
        """
        try:
            return self._struct(value, struct, path, before)
        except _WrongType as wrong:
            raise ValueError(_find_type_error(value, struct) or str(wrong)) from None
        except _Unreadable as unreadable:
            raise ValueError(str(unreadable)) from None

    def _struct(self, value: Obj, struct: Struct, path: str, before: Obj | None = None) -> Obj:
        clean: Obj = {}
        given_empty: Obj = {}
        fields = struct.fields
        pairs = value.items() if type(value) is dict else self._repeated(value, path, fields)
        shape: Shape | None = None
        field = ""
        try:
            for field, item in pairs:
                shape = fields.get(field)
                if shape is None:
                    self.unknown.append(f"{path}{field}")
                    self.add_strict_error(f'unknown field "{path}{field}"')
                    continue
                if item is None:
                    continue
                form = shape.form
                if form is _TEXT:
                    if not isinstance(item, str):
                        raise _WrongType(_json_type_name(item), shape.go)
                    if item or not shape.cleared:
                        clean[field] = item
                    continue
                known = None if before is None else before.get(field)
                if known is not None and known == item:
                    clean[field] = known
                elif form is _STRUCT:
                    if not isinstance(item, dict):
                        raise _WrongType(_json_type_name(item), shape.go)
                    clean[field] = self._struct(item, shape.struct, f"{path}{field}.", known)
                elif known and form is _LIST and isinstance(item, list):
                    clean[field] = self._list(item, shape.item, f"{path}{field}", known)
                elif form is _TIME:
                    moment = _decode_time(item, shape.go)
                    if moment is not None or (shape.field is not None and shape.field.pointer):
                        clean[field] = moment
                else:
                    decoded = self._value(item, shape, f"{path}{field}")
                    if decoded or not isinstance(decoded, list | dict | int | float | str):
                        clean[field] = decoded
                        continue
                    if isinstance(decoded, list | dict):
                        given_empty[field] = decoded
                    if not shape.cleared or form in (_ANY, _INT_OR_TEXT):
                        # Stored objects have no empty lists and maps.
                        empty = shape.null_when_empty and isinstance(decoded, list | dict)
                        clean[field] = None if empty else decoded
                        if empty:
                            self.emptied.append(f"{path}{field}")
        except _WrongType as wrong:
            wrong.within(struct, field, shape)
            raise
        for field, inner, default in struct.always:
            if field not in clean:
                clean[field] = (
                    clone(default) if inner is None else self._struct({}, inner.struct, "")
                )
        if given_empty:
            clean = EmptiedObj(clean, given_empty)
            self.emptied_objects.append(clean)
        return clean

    def _list(self, items: list[Any], shape: Shape, path: str, before: list[Any]) -> list[Any]:
        """Decode a changed list; items at their earlier index are shared."""
        clean, most = [], len(before)
        for at, item in enumerate(items):
            if at < most and item == before[at] and item is not None:
                clean.append(before[at])
            else:
                clean.append(self._value(item, shape, f"{path}[{at}]"))
        return clean

    def _repeated(self, value: Obj, path: str, known: Iterable[str]) -> Iterable[tuple[str, Any]]:
        """Return the fields of an object in order of its text; report duplicates."""
        pairs = value.pairs if isinstance(value, DuplicateKeysObj) else value.items()
        fields: Obj = {}
        for field, item in pairs:
            if field in fields and field in known:
                self.add_strict_error(f'duplicate field "{path}{field}"')
                fields[field] = _merge_duplicates(fields[field], item)
            else:
                fields[field] = item
            yield field, fields[field]

    def add_strict_error(self, text: str) -> None:
        """Add an error of strict decoding."""
        if len(self.strict_errors) < _MAX_STRICT_ERRORS:
            self.strict_errors[text] = None

    def add_custom_strict_errors(self, obj: Obj) -> None:
        """Add the errors of a custom object: duplicates first, then every unknown field."""
        self.strict_errors = {}
        self.add_duplicate_errors(obj, "")
        for field in self.unknown:
            self.strict_errors[f'unknown field "{field}"'] = None

    def add_duplicate_errors(self, value: Any, path: str) -> None:
        """Add the repeated fields of a value without a type."""
        if isinstance(value, dict):
            pairs = self._repeated(value, f"{path}.".lstrip("."), value)
            for field, item in list(pairs):
                self.add_duplicate_errors(item, f"{path}.{field}".lstrip("."))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.add_duplicate_errors(item, f"{path}[{index}]")

    def _value(self, item: Any, shape: Shape, path: str) -> Any:
        form = shape.form
        if form is _STRUCT:
            if item is None:
                return self._struct({}, shape.struct, path + ".")
            if not isinstance(item, dict):
                raise _WrongType(_json_type_name(item), shape.go)
            return self._struct(item, shape.struct, path + ".")
        if form is _ANY:
            return self._schema_union(item, shape.go, path) if shape.go in _UNIONS else item
        if item is None:
            return shape.zero
        if form is _TEXT:
            if not isinstance(item, str):
                raise _WrongType(_json_type_name(item), shape.go)
            return item
        if form is _LIST:
            if not isinstance(item, list):
                raise _WrongType(_json_type_name(item), shape.go)
            inner = shape.item
            return [self._value(element, inner, f"{path}[{at}]") for at, element in enumerate(item)]
        if form is _MAP:
            return self._map(item, shape, path)
        return _decode_scalar(item, form, shape.go)

    def _map(self, item: Any, shape: Shape, path: str) -> Obj:
        if not isinstance(item, dict):
            raise _WrongType(_json_type_name(item), shape.go)
        pairs = item.items() if type(item) is dict else self._repeated(item, f"{path}.", item)
        inner = shape.item
        if inner.form is _TEXT:
            clean = {}
            for key, entry in pairs:
                if entry is not None and not isinstance(entry, str):
                    raise _WrongType(_json_type_name(entry), inner.go)
                clean[key] = entry or ""
            return clean
        if shape.go == "v1.ResourceList":
            return {
                key: "0" if entry is None else _read_by(round_quantity, _decode_quantity(entry))
                for key, entry in pairs
            }
        return {key: self._value(entry, inner, f"{path}.{key}") for key, entry in pairs}

    def _schema_union(self, item: Any, go: str, path: str) -> Any:
        """Decode a part of a definition's schema that may also be a boolean or a list.

        Go parses each by itself: unknown and repeated fields within are dropped unreported.
        Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/marshal.go.
        """
        within, schema = Decoder(self._kind), definition_schema()
        if isinstance(item, dict):
            return within._value(item, schema, path)
        if go == _SCHEMA_OR_BOOL:
            if not isinstance(item, bool):
                raise _Unreadable("boolean or JSON schema expected")
            return item
        if not isinstance(item, list):
            return None
        if go == _SCHEMA_OR_ARRAY:
            return [within._value(entry, schema, path) for entry in item] or None
        if bad := next((entry for entry in item if not isinstance(entry, str | None)), None):
            raise _WrongType(_json_type_name(bad), "string")
        return [entry or "" for entry in item] or None

    def _refused(self, why: str) -> Exception:
        kind = self._kind
        return bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
        )


def list_repeated_fields(value: Any) -> list[str]:
    """Return the errors of strict decoding for repeated fields, by a value without a type."""
    decoder = Decoder(Kind("", "", "", "", namespaced=False))
    decoder.add_duplicate_errors(value, "")
    return list(decoder.strict_errors)


def _find_type_error(value: Obj, struct: Struct) -> str:
    """Return the first error of a type with its own parser; it precedes wrong types."""
    try:
        _check_struct_readable(value, struct)
    except (_WrongType, _Unreadable) as error:
        return str(error)
    return ""


def _check_struct_readable(value: Obj, struct: Struct) -> None:
    for field, item in value.items():
        shape = struct.fields.get(field)
        if shape is None:
            continue
        try:
            _check_readable(item, shape)
        except _WrongType as wrong:
            wrong.within(struct, field, shape)
            raise


def _check_readable(item: Any, shape: Shape) -> None:
    if shape.form is _STRUCT and isinstance(item, dict):
        _check_struct_readable(item, shape.struct)
    elif shape.form in _READERS and item is not None:
        _decode_scalar(item, shape.form, shape.go)
    elif shape.form is _LIST and isinstance(item, list):
        for element in item:
            _check_readable(element, shape.item)
    elif shape.form is _MAP and isinstance(item, dict):
        for element in item.values():
            _check_readable(element, shape.item)


def _json_type_name(item: Any, *, number: bool = False) -> str:
    """Return the name of a value in decoding errors; a wrong number is shown itself."""
    if isinstance(item, bool):
        return "bool"
    if isinstance(item, int | float):
        return f"number {msgspec.json.encode(item).decode()}" if number else "number"
    if isinstance(item, str):
        return "string"
    return "array" if isinstance(item, list) else "object"


def _merge_duplicates(before: Any, item: Any) -> Any:
    """Merge a duplicate field into the value decoded before."""
    if isinstance(before, dict) and isinstance(item, dict):
        return {**before, **item}
    return item


def _decode_scalar(item: Any, form: Form, go: str) -> Any:
    if form is _BOOL:
        if not isinstance(item, bool):
            raise _WrongType(_json_type_name(item), go)
        return item
    if form is Form.NUMBER:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise _WrongType(_json_type_name(item), go)
        return item
    if form is Form.QUANTITY:
        return _read_by(canonicalize_quantity, _decode_quantity(item))
    if form is _TIME:
        return _decode_time(item, go)
    if form is Form.BYTES:
        if isinstance(item, list):
            numbers = [_decode_scalar(element, Form.INTEGER, "uint8") for element in item]
            return base64.b64encode(bytes(numbers)).decode()
        if not isinstance(item, str):
            raise _WrongType(_json_type_name(item), "[]uint8")
        return _read_by(_check_base64, item)
    if form is _INT_OR_TEXT:
        if isinstance(item, str):
            return item
        go = "int32"
    if type(item) is not int:
        raise _WrongType(_json_type_name(item, number=True), go)
    least, most = _RANGES.get(go, _RANGES["int64"])
    if not least <= item <= most:
        raise _WrongType(_json_type_name(item, number=True), go)
    return item


def _decode_time(item: Any, go: str) -> str | None:
    """Decode a time; None for Go's zero time."""
    if not isinstance(item, str):
        raise _WrongType(_json_type_name(item), "string")
    read = _decode_micro_time if go.endswith("MicroTime") else canonicalize_time
    text = _read_by(read, item)
    return None if text[:19] == _ZERO_TIME and not text[19:].strip(".0Z") else text


def _decode_quantity(item: Any) -> str:
    return item if isinstance(item, str) else msgspec.json.encode(item).decode()


def _read_by(reader: Any, text: str) -> str:
    try:
        formatted: str = reader(text)
    except ValueError as error:
        raise _Unreadable(str(error)) from None
    return formatted


def _decode_micro_time(text: str) -> str:
    return canonicalize_time(text, micro=True)


def _check_base64(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"illegal base64 data at input byte {_find_bad_base64(text)}") from None
    padded = base64.b64encode(data).decode()
    if len(padded) != len(text) and (bad := _find_bad_base64(text)) >= 0:
        raise ValueError(f"illegal base64 data at input byte {bad}")
    return padded


def _find_bad_base64(text: str) -> int:
    """Return the index of the byte that Go reports; -1 for valid base64.

    Source: Go's encoding/base64, func (*Encoding) decodeQuantum.
    """
    data = text.encode()
    # A line's end counts in the index, and is skipped.
    signs = [(at, sign) for at, sign in enumerate(data) if sign not in b"\r\n"]
    for start in range(0, len(signs), 4):
        group = signs[start : start + 4]
        for place, (at, sign) in enumerate(group):
            if sign in _ALPHABET:
                continue
            if sign != _PADDING or place < 2:
                return at
            rest = signs[start + place + 1 :]
            if place == 2:
                if not rest:
                    return len(data)
                if rest[0][1] != _PADDING:
                    return rest[0][0] - 1
                rest = rest[1:]
            return rest[0][0] if rest else -1
        if len(group) < 4:
            return len(data) - len(group)
    return -1
