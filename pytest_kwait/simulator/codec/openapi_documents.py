"""The OpenAPI documents of the built-in groups, version 2 and 3, read on first use.

They come from `data/openapi.zip`, which `tools/simulator_data/generate.py` makes from a server's
own documents: paths, operations and parameters as they are, types without descriptions. kubectl
requests version 2 in protobuf; values of any type are JSON there, which is valid YAML.

Source: github.com/google/gnostic-models openapiv2/OpenAPIv2.proto.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.codec.schema import schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "V2_PATH",
    "collect_types",
    "document_hashes",
    "encode_v2_protobuf",
    "read_document",
    "read_v2_document",
    "to_v2_schema",
]

_json = msgspec.json.Encoder().encode
_VARINT, _BYTES = 0, 2


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


_Writers = dict[str, "Callable[[Any], bytes]"]


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
    "allOf": lambda value: b"".join(_encode_field(24, _encode_schema(one)) for one in value),
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


_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
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
        8, _encode_entries(2, value, lambda one: _encode_message(one, _PATH, 10))
    ),
    "definitions": lambda value: _encode_field(9, _encode_entries(1, value, _encode_schema)),
    "parameters": lambda value: _encode_field(10, _encode_entries(1, value, _encode_parameter)),
    "security": lambda value: b"".join(
        _encode_field(12, _encode_entries(1, one, lambda scopes: _encode_texts(1, scopes)))
        for one in value
    ),
    "securityDefinitions": lambda value: _encode_field(
        13, _encode_entries(1, value, lambda one: _encode_field(2, _encode_message(one, _KEY, 5)))
    ),
}


def encode_v2_protobuf(document: Obj) -> bytes:
    """The document of version 2, which is as JSON has it, in protobuf."""
    return _encode_message(document, _DOCUMENT, 16)


V2_PATH = "v2"
"""The name of the document of version 2."""
_TYPES = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def _read_entry(name: str) -> Any:
    file = resources.files("pytest_kwait.simulator") / "data" / "openapi.zip"
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return msgspec.json.decode(archive.read(f"{name}.json"))


@cache
def document_hashes() -> dict[str, str]:
    """The documents by their paths, with a text that changes whenever the document does."""
    found: dict[str, str] = _read_entry("index")
    return found


@lru_cache(maxsize=4)
def read_document(path: str) -> bytes:
    """The document of version 3 at `path` (`apis/batch/v1`), as JSON."""
    entry = _read_entry(path)
    types: dict[str, Obj] = {}
    for name in iter_references(entry["paths"]):
        collect_types(name, types)
    types |= entry["own"]
    components: Obj = (
        {"schemas": _wrap_refs_in_all_of(dict(sorted(types.items())))} if types else {}
    )
    components["securitySchemes"] = _SECURITY
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": entry["paths"],
            "components": components,
        }
    )


@lru_cache(maxsize=1)
def read_v2_document() -> Obj:
    """The document of version 2."""
    entry = _read_entry(V2_PATH)
    definitions = {name: to_v2_schema(schema) for name, schema in schemas().items()}
    content: Obj = {**entry["rest"], "paths": entry["paths"]}
    content["definitions"] = {**definitions, **entry["own"]}
    return content


def collect_types(name: str, types: dict[str, Obj]) -> None:
    """Put the type `name` and all that it is made of into `types`."""
    if name in types or name not in schemas():
        return
    types[name] = schemas()[name]
    for reference in iter_references(types[name]):
        collect_types(reference, types)


def iter_references(node: Any) -> Iterator[str]:
    """The names of types that `node` refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_TYPES)
            else:
                yield from iter_references(value)
    elif isinstance(node, list):
        for value in node:
            yield from iter_references(value)


def _wrap_refs_in_all_of(node: Any) -> Any:
    """`node` with each `$ref` that has company in an `allOf` of its own, as version 3 wants it."""
    if isinstance(node, list):
        return [_wrap_refs_in_all_of(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _wrap_refs_in_all_of(value) for key, value in node.items()}
    if isinstance(found.get("$ref"), str) and len(found) > 1:
        found["allOf"] = [{"$ref": found.pop("$ref")}]
    return found


def to_v2_schema(node: Any) -> Any:
    """Types of version 3 as version 2 has them: other references, no defaults."""
    if isinstance(node, list):
        return [to_v2_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    slim = {}
    for key, value in node.items():
        if key == "properties":
            slim[key] = {name: to_v2_schema(field) for name, field in value.items()}
        elif key == "$ref":
            slim[key] = value.replace(_TYPES, _DEFINITIONS)
        elif key != "default":
            slim[key] = to_v2_schema(value)
    return slim
