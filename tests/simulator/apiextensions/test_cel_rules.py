"""Rules of a schema evaluated for objects, with the server's messages."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.apiextensions.cel_rules import rule_errors
from pytest_kwait.simulator.apiextensions.schema_validation import UNKNOWN_OLD_VALUE


def said(schema: dict[str, Any], new: Any, old: Any = UNKNOWN_OLD_VALUE) -> list[str]:
    whole = {"type": "object", "properties": {"x": schema}}
    before = UNKNOWN_OLD_VALUE if old is UNKNOWN_OLD_VALUE else {"x": old}
    return [str(error) for error in rule_errors({"x": new}, whole, before)]


def ruled(kind: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "x-kubernetes-validations": list(rules), **more}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({}, "Invalid value: 1: failed rule: self > 1"),
        ({"message": " too small "}, "Invalid value: 1: too small"),
        ({"messageExpression": "'got ' + string(self)"}, "Invalid value: 1: got 1"),
        ({"messageExpression": "string(1 / 0)", "message": "m"}, "Invalid value: 1: m"),
        ({"reason": "FieldValueForbidden", "message": "no"}, "Forbidden: no"),
        ({"reason": "FieldValueRequired", "message": "no"}, "Required value: no"),
        ({"reason": "FieldValueDuplicate"}, "Duplicate value: 1"),
    ],
)
def test_failed_rule_reports_its_message(rule: dict[str, Any], text: str) -> None:
    schema = ruled("integer", {"rule": "self > 1", **rule})
    assert said(schema, 1) == [f"x: {text}"]
    assert said(schema, 2) == []


def test_failed_rule_hides_objects_and_names_its_field() -> None:
    fields = {"a": {"type": "integer"}}
    schema = ruled("object", {"rule": "self.a > 1", "fieldPath": ".a"}, properties=fields)
    assert said(schema, {"a": 1}) == ["x.a: Invalid value: failed rule: self.a > 1"]


def test_evaluation_error_is_reported() -> None:
    schema = ruled("object", {"rule": "self.a > 1"}, properties={"a": {"type": "integer"}})
    assert said(schema, {}) == [
        'x: Invalid value: "object": no such key: a evaluating rule: self.a > 1'
    ]


def test_transition_rule_applies_to_updates_only() -> None:
    schema = ruled("integer", {"rule": "self >= oldSelf", "message": "grows"})
    assert said(schema, 1) == []
    assert said(schema, 1, 2) == ["x: Invalid value: 1: grows"]


def test_optional_old_self_applies_to_new_values() -> None:
    rule = {"rule": "oldSelf.hasValue() || self > 5", "optionalOldSelf": True, "message": "first"}
    schema = ruled("integer", rule)
    assert said(schema, 1) == ["x: Invalid value: 1: first"]
    assert said(schema, 1, 2) == []


def test_unchanged_parts_are_not_validated_again() -> None:
    schema = ruled("integer", {"rule": "self > 1"})
    assert said(schema, 1, 1) == []
    assert len(said(schema, 0, 1)) == 1
    items = {"type": "array", "items": schema}
    assert said(items, [1], [1]) == []
    assert len(said(items, [1, 1], [1])) == 2


def test_map_items_are_matched_by_key() -> None:
    fields = {"k": {"type": "string"}, "v": ruled("integer", {"rule": "self >= oldSelf"})}
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": fields},
    }
    new = [{"k": "b", "v": 0}, {"k": "a", "v": 1}]
    assert said(schema, new, [{"k": "a", "v": 2}]) == [
        "x[1].v: Invalid value: 1: failed rule: self >= oldSelf"
    ]


def test_exceeded_rule_cost_stops_the_evaluation() -> None:
    slow = "self.all(a, self.all(b, self.all(c, a + b + c > 0)))"
    schema = ruled(
        "array", {"rule": slow, "message": "m"}, {"rule": "false"}, items={"type": "integer"}
    )
    assert said(schema, [1] * 100) == [
        "x: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no "
        "further validation rules will be run due to call cost exceeds limit for rule: m"
    ]


def test_rules_may_read_the_objects_name() -> None:
    whole = ruled("object", {"rule": "self.metadata.name.startsWith('a')"})
    obj = {"apiVersion": "e.com/v1", "kind": "Thing", "metadata": {"name": "b"}}
    assert [str(error) for error in rule_errors(obj, whole)] == [
        "<nil>: Invalid value: failed rule: self.metadata.name.startsWith('a')"
    ]


def test_errors_of_unchanged_parts_are_warnings() -> None:
    schema = {
        "type": "object",
        "properties": {
            "x": ruled("integer", {"rule": "self > 1"}),
            "y": ruled("integer", {"rule": "self > oldSelf"}),
        },
    }
    warned: list[str] = []
    errors = rule_errors({"x": 0, "y": 1}, schema, {"x": 0, "y": 1}, warned.append)
    assert [str(error) for error in errors] == ["y: Invalid value: 1: failed rule: self > oldSelf"]
    assert warned == ["x: Invalid value: 0: failed rule: self > 1"]
    warned.clear()
    assert len(rule_errors({"x": -1}, schema, {"x": 0}, warned.append)) == 1
    assert warned == []


NESTED = "self.all(a, self.all(b, a + b > 0))"


def test_exceeded_message_cost_stops_the_evaluation() -> None:
    schema = ruled(
        "array", {"rule": NESTED}, {"rule": "self.size() < 3"}, items={"type": "integer"}
    )
    assert said(schema, [1] * 1000) == [
        "x: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no "
        "further validation rules will be run due to call cost exceeds limit for rule: "
        f"{NESTED}"
    ]
    assert said(schema, [1] * 10) == ["x: Invalid value: failed rule: self.size() < 3"]


def test_rules_of_an_object_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kwait.simulator.apiextensions.cel_rules.RUNTIME_COST_BUDGET", 2000)
    schema = ruled("array", {"rule": NESTED}, {"rule": NESTED}, items={"type": "integer"})
    over = "running out of cost budget, no further validation rules will be run"
    assert said(schema, [1] * 10) == []
    assert said(schema, [1] * 15) == [f'x: Invalid value: "array": validation failed due to {over}']
    told = ruled("integer", {"rule": "self > 1", "messageExpression": "'a' + string(self)"})
    monkeypatch.setattr("pytest_kwait.simulator.apiextensions.cel_rules.RUNTIME_COST_BUDGET", 3)
    assert said(told, 1) == [
        f'x: Invalid value: "integer": messageExpression evaluation failed due to {over}'
    ]


def test_optional_old_self_is_empty_for_new_values() -> None:
    rule = {"rule": "oldSelf.orValue(5) <= self", "optionalOldSelf": True}
    schema = ruled("integer", rule)
    assert said(schema, 5) == []
    assert said(schema, 4) == ["x: Invalid value: 4: failed rule: oldSelf.orValue(5) <= self"]
    assert said(schema, 4, 3) == []
