"""Values validated by a schema, with the messages of a server of version 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.schema_validation import UNKNOWN_OLD_VALUE, validate_value

TEXT = {"type": "string"}


def said(value: Any, schema: dict[str, Any], old: Any = UNKNOWN_OLD_VALUE) -> list[str]:
    whole = {"type": "object", "properties": {"x": schema}}
    before = UNKNOWN_OLD_VALUE if old is UNKNOWN_OLD_VALUE else {"x": old}
    return [str(error) for error in validate_value({"x": value}, whole, "", before)]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "a", 'must be of type integer: "string"'),
        ({"type": "string"}, None, 'must be of type string: "null"'),
        ({"type": "string"}, {}, 'must be of type string: "object"'),
        ({"type": "array", "items": TEXT}, "a", 'must be of type array: "string"'),
        ({"x-kubernetes-int-or-string": True}, 1.5, 'must be of type integer,string: "number"'),
        ({"type": "string", "format": "date"}, 5, 'must be of type date: "int64"'),
        ({"type": "string", "format": "date"}, "2020-02-30", 'must be of type date: "2020-02-30"'),
    ],
)
def test_value_type_is_validated(schema: dict[str, Any], value: Any, text: str) -> None:
    shown = text.rpartition(": ")[2]
    assert said(value, schema) == [f"x: Invalid value: {shown}: x in body {text}"]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"minLength": 3}, "ab", 'Invalid value: "ab": x in body should be at least 3 chars long'),
        ({"maxLength": 3}, "abcd", "Too long: may not be more than 3 bytes"),
        ({"pattern": "^a$"}, "a\n", "Invalid value: \"a\\n\": x in body should match '^a$'"),
        ({"enum": ["a", 1]}, "c", 'Unsupported value: "c": supported values: "a", "1"'),
        ({"enum": [1]}, True, 'Unsupported value: true: supported values: "1"'),
        ({"minimum": 2}, 1, "Invalid value: 1: x in body should be greater than or equal to 2"),
        (
            {"minimum": 0.5},
            0.25,
            "Invalid value: 0.25: x in body should be greater than or equal to 0.5",
        ),
        (
            {"maximum": 5, "exclusiveMaximum": True},
            5,
            "Invalid value: 5: x in body should be less than 5",
        ),
        ({"multipleOf": 3}, 4, "Invalid value: 4: x in body should be a multiple of 3"),
        (
            {"multipleOf": 0.5},
            3,
            "Invalid value: 0: factor MultipleOf declared for x must be positive: 0",
        ),
        ({"minItems": 2}, [1], "Invalid value: 1: x in body should have at least 2 items"),
        ({"maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item"),
        ({"minProperties": 1}, {}, "Invalid value: 0: x in body should have at least 1 properties"),
        ({"maxProperties": 0}, {"a": 1}, "Too many: 1: must have at most 0 items"),
    ],
)
def test_value_bounds_are_validated(schema: dict[str, Any], value: Any, text: str) -> None:
    assert said(value, schema) == [f"x: {text}"]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"not": {"enum": ["a"]}}, "a", '"x" must not validate the schema (not)'),
        (
            {"type": "integer", "format": "int32"},
            2**40,
            "Checked value must be of type integer with format int32 in x",
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 2},
            '"x" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
    ],
)
def test_errors_without_a_field(schema: dict[str, Any], value: Any, text: str) -> None:
    assert said(value, schema) == [f'<nil>: Invalid value: "": {text}']


def test_failed_alternatives_report_the_closest() -> None:
    rules = {
        "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minimum": 3}}}]
    }
    assert said({"b": 1}, rules) == [
        '<nil>: Invalid value: "": "x" must validate at least one schema (anyOf)',
        "x.b: Invalid value: 1: x.b in body should be greater than or equal to 3",
    ]
    assert said({"b": 4}, rules) == []


def test_all_of_reports_every_failure() -> None:
    assert said(1, {"allOf": [{"minimum": 2}, {"maximum": 4}]}) == [
        "x: Invalid value: 1: x in body should be greater than or equal to 2",
        '<nil>: Invalid value: "": "x" must validate all the schemas (allOf)',
    ]


def test_unchanged_values_are_not_validated_again() -> None:
    schema = {"type": "object", "properties": {"a": {"maxLength": 1}, "b": {"maxLength": 1}}}
    assert said({"a": "long", "b": "long"}, schema, {"a": "long", "b": "x"}) == [
        "x.b: Too long: may not be more than 1 bytes"
    ]
    assert said({"a": "long"}, schema, {"a": "long"}) == []


def test_map_items_are_correlated_by_key() -> None:
    items = {"type": "object", "properties": {"v": {"maximum": 0}}}
    by_key = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items}
    old = [{"k": "a", "v": 1}]
    new = [{"k": "b", "v": 2}, {"k": "a", "v": 1}]
    assert said(new, by_key, old) == [
        "x[0].v: Invalid value: 2: x[0].v in body should be less than or equal to 0"
    ]
    assert len(said(new, {"items": items}, old)) == 2
