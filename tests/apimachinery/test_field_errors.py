from __future__ import annotations

import pytest

from pytest_kwait.apimachinery.field_errors import ErrorList, Rendered, invalid_value, render_json


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("é<", '"é<"'),
        ('a"\\\n\t\x7f\x01\u200b', '"a\\"\\\\\\n\\t\\x7f\\x01\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
        (["é<"], '["é\\u003c"]'),
        ({"b": 1, "a": None}, '{"a":null,"b":1}'),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (Rendered("{}"), "{}"),
        (render_json({"b": "é>", "a": 1}), '{"b":"é\\u003e","a":1}'),
    ],
)
def test_values_are_printed_as_by_go(value: object, shown: str) -> None:
    assert str(invalid_value("f", value, "why")) == f"f: Invalid value: {shown}: why"


def test_requirements_add_their_errors() -> None:
    errors, seen = ErrorList(), {"b"}

    errors.require_supported("kind", None, ("A", "B"))
    errors.require_supported("kind", "C", ("A", "B"))
    errors.require_fields({"host": "h", "path": ""}, "at", "host", "path", "port")
    errors.require_valid("name", "", lambda _: ["unused"], "must be set")
    errors.require_valid("name", "x", lambda value: [f"{value} is bad"])
    errors.require_unique("key", "a", seen)
    errors.require_unique("key", "b", seen)

    assert [str(error) for error in errors] == [
        'kind: Unsupported value: "C": supported values: "A", "B"',
        "at.path: Required value",
        "at.port: Required value",
        "name: Required value: must be set",
        'name: Invalid value: "x": x is bad',
        'key: Duplicate value: "b"',
    ]
    assert seen == {"a", "b"}
