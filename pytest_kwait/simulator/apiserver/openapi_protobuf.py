"""OpenAPI documents of version 2 in protobuf, which kubectl requests.

Values of any type are JSON, which is valid YAML.

Source: github.com/google/gnostic-models openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.objects import Obj

_json = msgspec.json.Encoder().encode
_VARINT, _BYTES = 0, 2
_Writers = dict[str, "Callable[[Any], bytes]"]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")


def _encode_varint(value: int) -> bytes:
    """A whole number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_field(number: int, content: bytes) -> bytes:
    """A field that has a length: a text or a message."""
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_text(number: int, value: str) -> bytes:
    return _encode_field(number, value.encode())


def _encode_flag(number: int, value: bool) -> bytes:
    return _encode_varint(number << 3 | _VARINT) + b"\x01" if value else b""


def _encode_texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_encode_text(number, value) for value in values)


def _encode_any(value: Any) -> bytes:
    return _encode_field(2, _json(value))


def _encode_anys(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_encode_field(number, _encode_any(value)) for value in values)


def _encode_named(number: int, name: str, content: bytes) -> bytes:
    """An entry of a map."""
    return _encode_field(number, _encode_text(1, name) + _encode_field(2, content))


def _encode_entries(number: int, values: Obj, write: Callable[[Any], bytes]) -> bytes:
    return b"".join(_encode_named(number, name, write(value)) for name, value in values.items())


def _encode_message(node: Obj, writers: _Writers, extensions: int) -> bytes:
    """A message of the fields of `node` that there are writers for, and of its extensions."""
    parts = []
    for name, value in node.items():
        write = writers.get(name)
        if write is not None:
            parts.append(write(value))
        elif name.startswith("x-"):
            parts.append(_encode_named(extensions, name, _encode_any(value)))
    return b"".join(parts)


def _encode_schema(node: Obj) -> bytes:
    return _encode_message(node, _SCHEMA, 31)


def _encode_additional_properties(value: Any) -> bytes:
    inner = (
        _encode_flag(2, value)
        if isinstance(value, bool)
        else _encode_field(1, _encode_schema(value))
    )
    return _encode_field(21, inner)


_SCHEMA: _Writers = {
    "$ref": lambda value: _encode_text(1, value),
    "format": lambda value: _encode_text(2, value),
    "title": lambda value: _encode_text(3, value),
    "description": lambda value: _encode_text(4, value),
    "default": lambda value: _encode_field(5, _encode_any(value)),
    "pattern": lambda value: _encode_text(13, value),
    "uniqueItems": lambda value: _encode_flag(16, value),
    "required": lambda value: _encode_texts(19, value),
    "enum": lambda value: _encode_anys(20, value),
    "additionalProperties": _encode_additional_properties,
    "type": lambda value: _encode_field(22, _encode_text(1, value)),
    "items": lambda value: _encode_field(23, _encode_field(1, _encode_schema(value))),
    "allOf": lambda value: b"".join(_encode_field(24, _encode_schema(schema)) for schema in value),
    "properties": lambda value: _encode_field(25, _encode_entries(1, value, _encode_schema)),
}
_BODY: _Writers = {
    "description": lambda value: _encode_text(1, value),
    "name": lambda value: _encode_text(2, value),
    "in": lambda value: _encode_text(3, value),
    "required": lambda value: _encode_flag(4, value),
    "schema": lambda value: _encode_field(5, _encode_schema(value)),
}
_SIMPLE: _Writers = {
    "required": lambda value: _encode_flag(1, value),
    "in": lambda value: _encode_text(2, value),
    "description": lambda value: _encode_text(3, value),
    "name": lambda value: _encode_text(4, value),
}
_QUERY: _Writers = {
    **_SIMPLE,
    "type": lambda value: _encode_text(6, value),
    "format": lambda value: _encode_text(7, value),
    "uniqueItems": lambda value: _encode_flag(20, value),
}
_PLACED: _Writers = {
    **_SIMPLE,
    "type": lambda value: _encode_text(5, value),
    "format": lambda value: _encode_text(6, value),
    "uniqueItems": lambda value: _encode_flag(19, value),
}


def _encode_parameter(node: Obj) -> bytes:
    place = node.get("in")
    if place == "body":
        return _encode_field(1, _encode_message(node, _BODY, 6))
    if place == "query":
        return _encode_field(2, _encode_field(3, _encode_message(node, _QUERY, 23)))
    return _encode_field(
        2, _encode_field(4 if place == "path" else 1, _encode_message(node, _PLACED, 22))
    )


def _encode_parameters(number: int, nodes: Iterable[Obj]) -> bytes:
    parts = []
    for node in nodes:
        if "$ref" in node:
            parts.append(_encode_field(number, _encode_field(2, _encode_text(1, node["$ref"]))))
        else:
            parts.append(_encode_field(number, _encode_field(1, _encode_parameter(node))))
    return b"".join(parts)


_RESPONSE: _Writers = {
    "description": lambda value: _encode_text(1, value),
    "schema": lambda value: _encode_field(2, _encode_field(1, _encode_schema(value))),
}


def _encode_response(node: Obj) -> bytes:
    return _encode_field(1, _encode_message(node, _RESPONSE, 5))


_OPERATION: _Writers = {
    "tags": lambda value: _encode_texts(1, value),
    "summary": lambda value: _encode_text(2, value),
    "description": lambda value: _encode_text(3, value),
    "operationId": lambda value: _encode_text(5, value),
    "produces": lambda value: _encode_texts(6, value),
    "consumes": lambda value: _encode_texts(7, value),
    "parameters": lambda value: _encode_parameters(8, value),
    "responses": lambda value: _encode_field(9, _encode_entries(1, value, _encode_response)),
    "schemes": lambda value: _encode_texts(10, value),
    "deprecated": lambda value: _encode_flag(11, value),
}


def _operation_encoder(number: int) -> Callable[[Obj], bytes]:
    return lambda node: _encode_field(number, _encode_message(node, _OPERATION, 13))


_PATH: _Writers = {
    **{method: _operation_encoder(number) for number, method in enumerate(_METHODS, 2)},
    "parameters": lambda value: _encode_parameters(9, value),
}
_INFO: _Writers = {
    "title": lambda value: _encode_text(1, value),
    "version": lambda value: _encode_text(2, value),
    "description": lambda value: _encode_text(3, value),
}
_KEY: _Writers = {
    "type": lambda value: _encode_text(1, value),
    "name": lambda value: _encode_text(2, value),
    "in": lambda value: _encode_text(3, value),
    "description": lambda value: _encode_text(4, value),
}
_DOCUMENT: _Writers = {
    "swagger": lambda value: _encode_text(1, value),
    "info": lambda value: _encode_field(2, _encode_message(value, _INFO, 7)),
    "paths": lambda value: _encode_field(
        8, _encode_entries(2, value, lambda path_item: _encode_message(path_item, _PATH, 10))
    ),
    "definitions": lambda value: _encode_field(9, _encode_entries(1, value, _encode_schema)),
    "parameters": lambda value: _encode_field(10, _encode_entries(1, value, _encode_parameter)),
    "security": lambda value: b"".join(
        _encode_field(12, _encode_entries(1, requirement, lambda scopes: _encode_texts(1, scopes)))
        for requirement in value
    ),
    "securityDefinitions": lambda value: _encode_field(
        13,
        _encode_entries(
            1, value, lambda path_item: _encode_field(2, _encode_message(path_item, _KEY, 5))
        ),
    ),
}


def encode_v2_protobuf(document: Obj) -> bytes:
    """The document of version 2, which is as JSON has it, in protobuf."""
    return _encode_message(document, _DOCUMENT, 16)
