from __future__ import annotations

import pytest

from pytest_kwait.simulator.apiextensions.definition_schema import (
    FieldPathError,
    resolve_field_path,
)

SCHEMA = {
    "properties": {
        "spec": {"properties": {"a.b": {"type": "string"}}},
        "labels": {"additionalProperties": {"type": "integer"}},
    }
}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (".spec['a.b']", "spec.a.b"),
        (".labels.x", "labels[x]"),
        (".labels['it\\'s']", "labels[it's]"),
    ],
)
def test_field_path_is_resolved(path: str, written: str) -> None:
    assert resolve_field_path(path, SCHEMA)[0] == written


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".", "unexpected end of JSON path"),
        (".nope", "does not refer to a valid field"),
        (".spec[a]", "expected single quoted string but got a"),
        (".spec['a.b'", "unexpected end of JSON path"),
        (".spec['\\q']", "invalid string literal: invalid escape char \\q"),
    ],
)
def test_invalid_field_path_is_rejected(path: str, text: str) -> None:
    with pytest.raises(FieldPathError) as refused:
        resolve_field_path(path, SCHEMA)
    assert str(refused.value) == text


def test_brackets_in_field_paths_are_optional() -> None:
    with pytest.raises(FieldPathError, match=r"^array notation is not allowed$"):
        resolve_field_path(".spec['a.b']", SCHEMA, brackets=False)
