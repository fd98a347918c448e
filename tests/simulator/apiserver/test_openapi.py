from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.pruning import PRESERVE
from pytest_kwait.simulator.apiserver.openapi import read_v2_document, simplify_for_v2
from pytest_kwait.simulator.apiserver.openapi_protobuf import encode_v2_protobuf


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message: numbers as they are, everything else as bytes."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        length = varint()
        found.append((key >> 3, data[at : at + length]))
        at += length
    assert at == len(data)
    return found


def one(data: bytes, *path: int) -> Any:
    """What the first fields of these numbers lead to."""
    for number in path:
        data = next(value for at, value in fields(data) if at == number)
    return data


POD = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {"$ref": "#/definitions/Spec"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "more": {"additionalProperties": {"type": "string"}, "enum": ["a"], "format": "byte"},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}],
}
DOCUMENT = {
    "swagger": "2.0",
    "info": {"title": "T", "version": "V"},
    "security": [{"BearerToken": []}],
    "securityDefinitions": {"BearerToken": {"type": "apiKey", "in": "header", "name": "n"}},
    "parameters": {"p": {"in": "query", "name": "q", "type": "boolean", "uniqueItems": True}},
    "paths": {
        "/pods": {
            "parameters": [
                {"$ref": "#/parameters/p"},
                {"in": "path", "name": "x", "required": True},
            ],
            "post": {
                "operationId": "make",
                "consumes": ["a", "b"],
                "parameters": [{"in": "body", "schema": {"$ref": "#/definitions/Pod"}}],
                "responses": {"200": {"description": "OK", "schema": {"type": "string"}}},
                "x-kubernetes-action": "post",
            },
        }
    },
    "definitions": {"Pod": POD},
}


def test_each_field_has_its_number() -> None:
    data = encode_v2_protobuf(DOCUMENT)
    assert one(data, 1) == b"2.0"
    assert [value for _, value in fields(one(data, 2))] == [b"T", b"V"]
    assert one(data, 12, 1, 1) == b"BearerToken"
    assert one(data, 13, 1, 2, 2, 3) == b"header"
    assert one(data, 10, 1, 2, 2, 3, 4) == b"q"
    assert one(data, 10, 1, 2, 2, 3, 20) == 1


def test_types_have_their_fields_and_extensions() -> None:
    data = encode_v2_protobuf(DOCUMENT)
    assert one(data, 9, 1, 1) == b"Pod"
    pod = one(data, 9, 1, 2)
    assert one(pod, 22, 1) == b"object"
    assert one(pod, 19) == b"spec"
    assert one(pod, 31, 1) == b"x-kubernetes-group-version-kind"
    assert one(pod, 31, 2, 2) == b'[{"group":"","kind":"Pod","version":"v1"}]'
    spec, tags, more = (value for _, value in fields(one(pod, 25)))
    assert one(spec, 2, 1) == b"#/definitions/Spec"
    assert one(tags, 2, 23, 1, 22, 1) == b"string"
    assert one(more, 2, 21, 1, 22, 1) == b"string"
    assert one(more, 2, 20, 2) == b'"a"'
    assert one(more, 2, 2) == b"byte"


def test_paths_have_their_operations() -> None:
    path = one(encode_v2_protobuf(DOCUMENT), 8, 2)
    assert one(path, 1) == b"/pods"
    shared, placed = (value for number, value in fields(one(path, 2)) if number == 9)
    assert one(shared, 2, 1) == b"#/parameters/p"
    assert one(placed, 1, 2, 4, 1) == 1
    post = one(path, 2, 4)
    assert one(post, 5) == b"make"
    assert [value for number, value in fields(post) if number == 7] == [b"a", b"b"]
    assert one(post, 8, 1, 1, 5, 1) == b"#/definitions/Pod"
    assert one(post, 9, 1, 1) == b"200"
    assert one(post, 9, 1, 2, 1, 2, 1, 22, 1) == b"string"
    assert one(post, 13, 2, 2) == b'"post"'


def test_every_served_document_parses() -> None:
    data = encode_v2_protobuf(read_v2_document())
    definitions = fields(one(data, 9))
    assert len(definitions) == len(read_v2_document()["definitions"])
    assert len(fields(one(data, 8))) == len(read_v2_document()["paths"])
    for _, definition in definitions:
        assert dict(fields(definition)).keys() == {1, 2}


@pytest.mark.parametrize(
    ("schema", "simple"),
    [
        ({"type": "string", "default": "a", "anyOf": [{}]}, {"type": "string"}),
        ({"type": "string", "nullable": True}, {}),
        ({"type": "array", PRESERVE: True, "items": {"type": "string"}}, {PRESERVE: True}),
        ({"type": "object", PRESERVE: True, "properties": {"a": {}}}, {PRESERVE: True}),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
            },
            {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}, "required": ["b"]},
        ),
        (
            {"type": "array", "items": {"type": "object", "default": {}}},
            {"type": "array", "items": {"type": "object"}},
        ),
        (
            {"type": "object", "additionalProperties": {"nullable": True}, "required": ["a"]},
            {"type": "object", "additionalProperties": {}},
        ),
    ],
)
def test_version_2_has_less_of_custom_schemas(schema: Any, simple: Any) -> None:
    assert simplify_for_v2(schema) == simple
