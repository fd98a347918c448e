"""The OpenAPI document of version 2 in protobuf, the one form that kubectl asks it in.

Only fields that the document has are written. Values of any type are YAML there; they are written
as JSON, which is YAML.

Source: github.com/google/gnostic-models openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["swagger_protobuf"]

_json = msgspec.json.Encoder().encode
_VARINT, _BYTES = 0, 2


def _number(value: int) -> bytes:
    """A whole number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    """A field that has a length: a text or a message."""
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _flag(number: int, value: bool) -> bytes:
    return _number(number << 3 | _VARINT) + b"\x01" if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _any(value: Any) -> bytes:
    return _field(2, _json(value))


def _anys(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(_field(number, _any(value)) for value in values)


def _named(number: int, name: str, content: bytes) -> bytes:
    """An entry of a map."""
    return _field(number, _text(1, name) + _field(2, content))


def _entries(number: int, values: Obj, write: Callable[[Any], bytes]) -> bytes:
    return b"".join(_named(number, name, write(value)) for name, value in values.items())


_Writers = dict[str, "Callable[[Any], bytes]"]


def _message(node: Obj, writers: _Writers, extensions: int) -> bytes:
    """A message of the fields of `node` that there are writers for, and of its extensions."""
    parts = []
    for name, value in node.items():
        write = writers.get(name)
        if write is not None:
            parts.append(write(value))
        elif name.startswith("x-"):
            parts.append(_named(extensions, name, _any(value)))
    return b"".join(parts)


def _schema(node: Obj) -> bytes:
    return _message(node, _SCHEMA, 31)


def _additional(value: Any) -> bytes:
    inner = _flag(2, value) if isinstance(value, bool) else _field(1, _schema(value))
    return _field(21, inner)


_SCHEMA: _Writers = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "title": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _field(5, _any(value)),
    "pattern": lambda value: _text(13, value),
    "uniqueItems": lambda value: _flag(16, value),
    "required": lambda value: _texts(19, value),
    "enum": lambda value: _anys(20, value),
    "additionalProperties": _additional,
    "type": lambda value: _field(22, _text(1, value)),
    "items": lambda value: _field(23, _field(1, _schema(value))),
    "allOf": lambda value: b"".join(_field(24, _schema(one)) for one in value),
    "properties": lambda value: _field(25, _entries(1, value, _schema)),
}
_BODY: _Writers = {
    "description": lambda value: _text(1, value),
    "name": lambda value: _text(2, value),
    "in": lambda value: _text(3, value),
    "required": lambda value: _flag(4, value),
    "schema": lambda value: _field(5, _schema(value)),
}
_SIMPLE: _Writers = {
    "required": lambda value: _flag(1, value),
    "in": lambda value: _text(2, value),
    "description": lambda value: _text(3, value),
    "name": lambda value: _text(4, value),
}
_QUERY: _Writers = {
    **_SIMPLE,
    "type": lambda value: _text(6, value),
    "format": lambda value: _text(7, value),
    "uniqueItems": lambda value: _flag(20, value),
}
_PLACED: _Writers = {
    **_SIMPLE,
    "type": lambda value: _text(5, value),
    "format": lambda value: _text(6, value),
    "uniqueItems": lambda value: _flag(19, value),
}


def _parameter(node: Obj) -> bytes:
    place = node.get("in")
    if place == "body":
        return _field(1, _message(node, _BODY, 6))
    if place == "query":
        return _field(2, _field(3, _message(node, _QUERY, 23)))
    return _field(2, _field(4 if place == "path" else 1, _message(node, _PLACED, 22)))


def _parameters(number: int, nodes: Iterable[Obj]) -> bytes:
    parts = []
    for node in nodes:
        if "$ref" in node:
            parts.append(_field(number, _field(2, _text(1, node["$ref"]))))
        else:
            parts.append(_field(number, _field(1, _parameter(node))))
    return b"".join(parts)


_RESPONSE: _Writers = {
    "description": lambda value: _text(1, value),
    "schema": lambda value: _field(2, _field(1, _schema(value))),
}


def _response(node: Obj) -> bytes:
    return _field(1, _message(node, _RESPONSE, 5))


_OPERATION: _Writers = {
    "tags": lambda value: _texts(1, value),
    "summary": lambda value: _text(2, value),
    "description": lambda value: _text(3, value),
    "operationId": lambda value: _text(5, value),
    "produces": lambda value: _texts(6, value),
    "consumes": lambda value: _texts(7, value),
    "parameters": lambda value: _parameters(8, value),
    "responses": lambda value: _field(9, _entries(1, value, _response)),
    "schemes": lambda value: _texts(10, value),
    "deprecated": lambda value: _flag(11, value),
}


def _operation(number: int) -> Callable[[Obj], bytes]:
    return lambda node: _field(number, _message(node, _OPERATION, 13))


_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_PATH: _Writers = {
    **{method: _operation(number) for number, method in enumerate(_METHODS, 2)},
    "parameters": lambda value: _parameters(9, value),
}
_INFO: _Writers = {
    "title": lambda value: _text(1, value),
    "version": lambda value: _text(2, value),
    "description": lambda value: _text(3, value),
}
_KEY: _Writers = {
    "type": lambda value: _text(1, value),
    "name": lambda value: _text(2, value),
    "in": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
}
_DOCUMENT: _Writers = {
    "swagger": lambda value: _text(1, value),
    "info": lambda value: _field(2, _message(value, _INFO, 7)),
    "paths": lambda value: _field(8, _entries(2, value, lambda one: _message(one, _PATH, 10))),
    "definitions": lambda value: _field(9, _entries(1, value, _schema)),
    "parameters": lambda value: _field(10, _entries(1, value, _parameter)),
    "security": lambda value: b"".join(
        _field(12, _entries(1, one, lambda scopes: _texts(1, scopes))) for one in value
    ),
    "securityDefinitions": lambda value: _field(
        13, _entries(1, value, lambda one: _field(2, _message(one, _KEY, 5)))
    ),
}


def swagger_protobuf(document: Obj) -> bytes:
    """The document of version 2, which is as JSON has it, in protobuf."""
    return _message(document, _DOCUMENT, 16)
