"""Costs of rules; `conformance/api` compares the numbers with a real server."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.definition_validation import schema_validation_errors

Obj = dict[str, Any]

TEXT: Obj = {"type": "string"}
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


def listed(rule: str, **bounds: int) -> Obj:
    """Return a schema of a list of strings with a rule."""
    return {
        "type": "array",
        "items": {**TEXT, "maxLength": 10},
        "x-kubernetes-validations": [{"rule": rule}],
        **bounds,
    }


def errors(*rooms: Obj) -> list[str]:
    properties = {f"room{index}": room for index, room in enumerate(rooms)}
    schema = {"type": "object", "properties": properties}
    return [*map(str, schema_validation_errors({"openAPIV3Schema": schema}, "s", status=False))]


def test_exceeded_cost_limit_names_the_factor() -> None:
    square = "self.all(x, self.exists(y, x == y))"
    assert errors(listed(square, maxItems=100)) == []
    at = "s.openAPIV3Schema.properties[room0].x-kubernetes-validations[0].rule: Forbidden: "
    assert errors(listed(square, maxItems=1200)) == [
        f"{at}estimated rule cost exceeds budget by factor of 1.440600x {ADVICE}"
    ]
    assert errors(listed(square, maxItems=1300)) == [
        f"{at}estimated rule cost exceeds budget by factor of 1.7x {ADVICE}"
    ]
    assert errors(listed(square))[0] == (
        f"{at}estimated rule cost exceeds budget by factor of more than 100x {ADVICE}"
    )


def test_total_cost_of_rules_is_limited() -> None:
    square = "self.all(x, self.exists(y, x == y))"
    found = errors(*(listed(square, maxItems=900) for _ in range(13)))
    assert len(found) == 5
    assert found[0] == (
        "s.openAPIV3Schema.properties[room0].x-kubernetes-validations[0].rule: Forbidden: "
        "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    )
    assert found[4].startswith(
        "s.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for "
        "entire OpenAPIv3 schema exceeds budget by factor of 1.0"
    )


def test_message_expressions_have_a_cost_limit() -> None:
    rule = {"rule": "true", "messageExpression": "self.map(x, self.join(x)).join('')"}
    room = {**listed("true", maxItems=9000), "x-kubernetes-validations": [rule]}
    found = errors(room)[0]
    assert ".messageExpression: Forbidden: estimated messageExpression cost exceeds" in found


@pytest.mark.parametrize(
    ("schema", "cheap"),
    [
        ({"type": "array", "items": TEXT}, False),
        ({"type": "array", "items": TEXT, "maxItems": 10}, True),
        ({"type": "object", "additionalProperties": TEXT}, False),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 10}, True),
    ],
)
def test_rule_cost_is_multiplied_by_the_number_of_values(schema: Obj, cheap: bool) -> None:
    below = "items" if "items" in schema else "additionalProperties"
    rule = {"rule": "self.contains('abcdefghijkl')"}
    inner = {**TEXT, "maxLength": 100, "x-kubernetes-validations": [rule]}
    assert (errors({**schema, below: inner}) == []) is cheap


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("self.slice(0, 2).size() < 9", ""),
        ("self.slice(1, 0).size() < 9", "more than 100"),
        ("self.distinct() == self", "5.0"),
        ("self.sort() == self", "5.3"),
        ("self.sortBy(x, x.size()) == self", "5.0"),
        ("self.sortBy(x, x) == self", "5.3"),
        ("sets.contains(self, self)", "2.5"),
        ("sets.intersects(self, ['a'])", ""),
        ("sets.equivalent(self, self)", "5.0"),
        ("self.reverse() == self", ""),
        ("[self].flatten(2).size() < 9", ""),
        ("[self].flatten(self.size()).size() < 9", "more than 100"),
        ("lists.range(20000000).size() < 2", "2.0"),
        ("lists.range(self.size()).size() < 2", "more than 100"),
    ],
)
def test_list_functions_have_a_cost(rule: str, factor: str) -> None:
    found = errors(listed(rule, maxItems=5000))
    assert bool(found) == bool(factor), found
    if factor:
        assert f"estimated rule cost exceeds budget by factor of {factor}x" in found[0]


def test_invalid_constant_conversion_is_rejected() -> None:
    (found,) = errors(listed("int('x') == 1", maxItems=5))
    assert found.endswith(
        ": program instantiation failed: type conversion error from 'string' to 'int'"
    )
