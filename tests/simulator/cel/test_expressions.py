"""Expressions as Kubernetes compiles and evaluates them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    EvaluationError,
    compile_expression,
    uses_variable,
)
from pytest_kwait.simulator.cel.schema_types import SchemaTypes, escape_identifier, to_cel_value
from pytest_kwait.simulator.cel.values import OPTIONAL_NONE, OptionalValue

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "ratio": {"type": "number"},
        "names": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "at": {"type": "string", "format": "date-time"},
        "every": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "port": {"x-kubernetes-int-or-string": True},
        "a-b": {"type": "string"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def value_of(text: str, obj: Any = None) -> Any:
    book = SchemaTypes()
    types = {"self": book.name_of(SCHEMA)}
    return compile_expression(text, types, book.pool()).evaluate(
        {"self": to_cel_value(obj or {}, SCHEMA)}
    )


@pytest.mark.parametrize(
    ("text", "obj"),
    [
        ("self.size > 1 && self.size < 2.5", {"size": 2}),
        ("self.ratio > 1 && self.ratio / 2.0 == 1.0", {"ratio": 2}),
        ("self.names.all(i, n, i < 2 && n.size() == 1)", {"names": ["a", "b"]}),
        ("self.labels['x'] == 'y' && 'x' in self.labels", {"labels": {"x": "y"}}),
        ("self.grid[0][1] == 2", {"grid": [[1, 2]]}),
        ("self.at.getFullYear() == 2020", {"at": "2020-02-03T04:05:06Z"}),
        ("self.every == duration('90m')", {"every": "1h30m"}),
        ("self.raw == b'ab'", {"raw": "YWI="}),
        ("type(self.port) == int ? self.port > 1 : self.port == 'x'", {"port": "x"}),
        ("self.a__dash__b == 'x'", {"a-b": "x"}),
        ("self.?size.orValue(5) == 5 && !has(self.size)", {}),
    ],
)
def test_schema_typed_objects(text: str, obj: dict[str, Any]) -> None:
    assert value_of(text, obj) is True


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2].sum() == 3 && [1, 2].isSorted() && [2, 1].min() == 1 && ['a'].max() == 'a'",
        "'a12'.find('[0-9]+') == '12' && 'abab'.findAll('(a)(b)', 1) == ['ab']",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1') == quantity('1000m')",
        "quantity('1').add(1).sub(quantity('500m')).asApproximateFloat() == 1.5",
        "sign(quantity('-1')) == -1 && !isQuantity('x') && quantity('2k').asInteger() == 2000",
        "url('https://a.b:8/c?d=e').getHost() == 'a.b:8' && !isURL('a')",
        "ip('::1').isLoopback() && ip('::1').family() == 6 && !ip.isCanonical('::0001')",
        "cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8') && !isCIDR('10.0.0.0')",
        "cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && isIP('1.2.3.4')",
        "semver('1.0.0').isGreaterThan(semver('1.0.0-rc.1')) && semver('v1.2', true).minor() == 2",
        "semver('1.2.3').compareTo(semver('1.2.4')) == -1 && !isSemver('1.2')",
        "sets.contains(['a', 'b'], ['a']) && 'aXb'.lowerAscii().split('x').join('-') == 'a-b'",
    ],
)
def test_kubernetes_functions(text: str) -> None:
    assert value_of(text) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "self.nope > 1",
            "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^",
        ),
        (
            "1 + other.x",
            "ERROR: <input>:1:5: undeclared reference to 'other' (in container '')\n"
            " | 1 + other.x\n | ....^",
        ),
        (
            "self.size > 'x'",
            "ERROR: <input>:1:11: found no matching overload for '_>_' applied to '(int, string)'\n"
            " | self.size > 'x'\n | ..........^",
        ),
        (
            "self.every == duration('1 day')",
            "ERROR: <input>:1:24: invalid duration argument\n"
            " | self.every == duration('1 day')\n | .......................^",
        ),
        (
            "self.size == 1 ||\n  self.at > timestamp('x') || string(self.size).matches('[')",
            "ERROR: <input>:2:23: invalid timestamp argument\n"
            " |   self.at > timestamp('x') || string(self.size).matches('[')\n"
            " | ......................^\n"
            "ERROR: <input>:2:57: invalid matches argument\n"
            " |   self.at > timestamp('x') || string(self.size).matches('[')\n"
            " | ........................................................^",
        ),
        (
            "self.free.x == 1",
            "ERROR: <input>:1:10: undefined field 'x'\n | self.free.x == 1\n | .........^",
        ),
    ],
)
def test_compilation_errors(text: str, message: str) -> None:
    with pytest.raises(CompilationError) as refused:
        value_of(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("self.labels['x'] == 'y'", "no such key: x"),
        ("self.names[3] == 'a'", "index out of bounds: 3"),
        ("1 / self.size == 1", "division by zero"),
        ("self.port > 1", "no such overload"),
    ],
)
def test_evaluation_error_messages(text: str, message: str) -> None:
    obj = {"labels": {}, "names": [], "size": 0, "port": "x"}
    with pytest.raises(EvaluationError) as failed:
        value_of(text, obj)
    assert str(failed.value) == message
    assert not failed.value.exhausted


def test_expensive_expressions_are_stopped() -> None:
    text = "self.names.all(a, self.names.all(b, self.names.all(c, a + b + c != '')))"
    with pytest.raises(EvaluationError) as failed:
        value_of(text, {"names": ["x"] * 100})
    assert failed.value.exhausted
    assert str(failed.value) == "operation cancelled: actual cost limit exceeded"


def test_optional_variables() -> None:
    types = {"self": "int", "oldSelf": "optional<int>"}
    expression = compile_expression("oldSelf.orValue(0) + self // the sum", types)
    assert expression.result == "INT"
    assert expression.evaluate({"self": 1, "oldSelf": OptionalValue(2)}) == 3
    assert expression.evaluate({"self": 1, "oldSelf": OPTIONAL_NONE}) == 1
    with pytest.raises(
        CompilationError, match=r"^ERROR: <input>:1:1: undeclared reference to 'foo'"
    ):
        compile_expression("foo", types)


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("self > oldSelf", True),
        ("self == 'oldSelf'", False),
        ("self.oldSelf == 1", False),
        ("true // oldSelf", False),
    ],
)
def test_uses_variable(text: str, used: bool) -> None:
    assert uses_variable(text, "oldSelf") is used


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("namespace", "__namespace__"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("$ref", ""),
    ],
)
def test_escaped_identifiers(name: str, written: str) -> None:
    assert escape_identifier(name) == written
