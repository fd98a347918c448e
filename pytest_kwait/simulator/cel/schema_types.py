"""CEL types declared from OpenAPI schemas, and JSON converted to values of them.

Types are protobuf messages made for type checking only. What a message cannot express (lists of
lists, maps of lists) stays unchecked, and so do numbers, which are compared with integers as well.

Source: k8s.io/apiserver pkg/cel/common/{schemas,values}.go, pkg/cel/escaping.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from pytest_kwait.simulator.cel.values import (
    RESERVED_WORDS,
    MapList,
    ObjectValue,
    SetList,
    parse_duration,
    parse_timestamp,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}
_WELL_KNOWN = {
    "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value",
    "timestamp": ".google.protobuf.Timestamp",
}
_FORMATS = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPE_SEQUENCES = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)


def escape_identifier(name: str) -> str:
    """Return a property's name in expressions; empty if it cannot be written."""
    if name in RESERVED_WORDS:
        return f"__{name}__"
    text = re.sub(r"__|\.|-|/", lambda match: dict(_ESCAPE_SEQUENCES)[match[0]], name)
    return text if _IDENTIFIER.fullmatch(text) else ""


def with_type_and_object_meta(schema: Obj) -> Obj:
    """Return an object's schema with the metadata fields that expressions may read."""
    own: Obj = schema.get("properties") or {}
    metadata = {"name": {"type": "string"}, "generateName": {"type": "string"}}
    whole = {
        "kind": {"type": "string"},
        "apiVersion": {"type": "string"},
        "metadata": {"type": "object", "properties": metadata},
    }
    return {**schema, "type": "object", "properties": {**own, **whole}}


class SchemaTypes:
    """The CEL types of one schema, with their messages.

    Args:
        verbatim: whether fields keep names that are reserved words.
    """

    def __init__(self, *, verbatim: bool = False) -> None:
        self._verbatim = verbatim
        self._file = descriptor_pb2.FileDescriptorProto(
            name="objects.proto",
            package="object",
            syntax="proto3",
            dependency=[
                "google/protobuf/struct.proto",
                "google/protobuf/timestamp.proto",
                "google/protobuf/duration.proto",
            ],
        )
        self._count = 0
        self._made: dict[int, tuple[Obj, str]] = {}

    def pool(self) -> DescriptorPool:
        """The messages that were needed so far."""
        pool = DescriptorPool()
        for module in (struct_pb2, timestamp_pb2, duration_pb2):
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def name_of(self, schema: Obj) -> str:
        """Return the type of `schema` in CEL syntax; empty for none.

        Fields that a schema preserves without describing them have no type.
        """
        if schema.get("x-kubernetes-int-or-string"):
            return "dyn"
        kind = schema.get("type")
        if kind == "array":
            items = schema.get("items")
            inner = self.name_of(items) if isinstance(items, dict) else ""
            return f"list<{inner}>" if inner else ""
        if kind == "object":
            more = schema.get("additionalProperties")
            if isinstance(more, dict):
                inner = self.name_of(more)
                return f"map<string,{inner}>" if inner else ""
            whole = schema.get("x-kubernetes-embedded-resource")
            return self._message(with_type_and_object_meta(schema) if whole else schema)
        if kind == "string":
            return _FORMATS.get(schema.get("format", ""), "string")
        return {"boolean": "bool", "integer": "int", "number": "dyn"}.get(str(kind), "")

    def _message(self, schema: Obj) -> str:
        # A schema object that is used in several places is one type.
        if id(schema) in self._made:
            return self._made[id(schema)][1]
        self._count += 1
        name = f"Type{self._count}"
        self._made[id(schema)] = (schema, f"object.{name}")
        fields: list[tuple[str, str]] = []
        for field, inner in (schema.get("properties") or {}).items():
            is_verbatim = self._verbatim and _IDENTIFIER.fullmatch(field)
            field_name, kind = (
                field if is_verbatim else escape_identifier(field),
                self.name_of(inner),
            )
            if field_name and kind:
                fields.append((field_name, kind))
            if field_name and kind and not is_verbatim and field in RESERVED_WORDS:
                fields.append((field, kind))  # it may be selected by both names
        message = self._file.message_type.add(name=name)
        # Names like `a_b` and `aB` may stand side by side.
        message.options.deprecated_legacy_json_field_conflicts = True
        for number, (field, kind) in enumerate(fields, 1):
            self._field(message, name, field, number, kind)
        return f"object.{name}"

    def _field(
        self, message: descriptor_pb2.DescriptorProto, owner: str, name: str, number: int, kind: str
    ) -> None:
        inner, label = kind, _Field.LABEL_OPTIONAL
        if kind.startswith("list<"):
            inner, label = kind[5:-1], _Field.LABEL_REPEATED
        elif kind.startswith("map<"):
            inner, label = kind[len("map<string,") : -1], _Field.LABEL_REPEATED
        if inner.startswith(("list<", "map<")):
            kind = inner = "dyn"
            label = _Field.LABEL_OPTIONAL
        # Protobuf names the entry message of a map field in camel case.
        entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
        if kind.startswith("map<") and any(nested.name == entry for nested in message.nested_type):
            kind = inner = "dyn"
            label = _Field.LABEL_OPTIONAL
        if kind.startswith("map<"):
            nested = message.nested_type.add(name=entry)
            nested.options.map_entry = True
            nested.field.add(
                name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL
            )
            self._add(nested, "value", 2, inner, _Field.LABEL_OPTIONAL)
            message.field.add(
                name=name,
                number=number,
                label=label,
                type=_Field.TYPE_MESSAGE,
                type_name=f".object.{owner}.{entry}",
            )
            return
        self._add(message, name, number, inner, label)

    @staticmethod
    def _add(
        message: descriptor_pb2.DescriptorProto,
        name: str,
        number: int,
        kind: str,
        label: _Field.Label.ValueType,
    ) -> None:
        field = message.field.add(name=name, json_name=f"f{number}", number=number, label=label)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _Field.TYPE_MESSAGE
            field.type_name = _WELL_KNOWN.get(kind, f".{kind}")


def to_cel_value(value: Any, schema: Obj | None) -> Any:
    """Return JSON as a value of the type of `schema`."""
    if value is None or schema is None:
        return value
    if isinstance(value, dict):
        return _to_object(value, schema)
    if isinstance(value, list):
        items = schema.get("items")
        elements = [
            to_cel_value(item, items if isinstance(items, dict) else None) for item in value
        ]
        match schema.get("x-kubernetes-list-type"):
            case "set":
                return SetList(elements)
            case "map":
                keys = schema.get("x-kubernetes-list-map-keys") or ()
                return MapList(elements, tuple(escape_identifier(key) or key for key in keys))
        return elements
    if schema.get("x-kubernetes-int-or-string"):
        return value
    if schema.get("type") == "number" and not isinstance(value, bool | str):
        return float(value)
    if schema.get("type") == "string" and isinstance(value, str):
        return _to_formatted_value(value, schema.get("format", ""))
    return value


def _to_object(value: Obj, schema: Obj) -> Obj:
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_type_and_object_meta(schema)
    properties: Obj = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and not properties:
        return {key: to_cel_value(item, more) for key, item in value.items()}
    return ObjectValue(
        (escape_identifier(key) or key, to_cel_value(item, properties.get(key)))
        for key, item in value.items()
        if item is not None or key not in properties
    )


def _to_formatted_value(text: str, form: str) -> Any:
    match form:
        case "byte":
            try:
                return base64.b64decode(text, validate=True)
            except (ValueError, binascii.Error):
                return text
        case "date":
            parsed_value: Any = parse_timestamp(f"{text}T00:00:00Z")
        case "date-time":
            parsed_value = parse_timestamp(text)
        case "duration":
            parsed_value = parse_duration(text)
        case _:
            return text
    return text if parsed_value is None else parsed_value
