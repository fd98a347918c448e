from __future__ import annotations

import pytest

from pytest_kwait.simulator.api_errors import Rendered, invalid_value, render_json


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
def test_values_are_shown_as_go_shows_them(value: object, shown: str) -> None:
    assert str(invalid_value("f", value, "why")) == f"f: Invalid value: {shown}: why"
