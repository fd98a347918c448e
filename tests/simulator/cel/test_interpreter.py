"""Values and costs of expressions, both as in the language's Go implementation."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cel.expressions import (
    CostBudget,
    CostBudgetExceededError,
    EvaluationError,
    Expression,
    compile_expression,
)
from pytest_kwait.simulator.cel.interpreter import PER_CALL_COST_LIMIT
from pytest_kwait.simulator.cel.schema_types import SchemaTypes, to_cel_value
from pytest_kwait.simulator.cel.values import OPTIONAL_NONE, ErrorValue, OptionalValue

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": NUMBER,
        "flag": {"type": "boolean"},
        "name": TEXT,
        "names": {"type": "array", "items": TEXT},
        "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "kv": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": TEXT, "v": NUMBER}},
        },
        "labels": {"type": "object", "additionalProperties": TEXT},
        "grid": {"type": "array", "items": {"type": "array", "items": NUMBER}},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "every": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "inner": {"type": "object", "properties": {"x": NUMBER}},
    },
}
VALUE: dict[str, Any] = {
    "size": 3,
    "flag": True,
    "name": "héllo-world",
    "names": ["b", "a", "b"],
    "set": ["x", "y"],
    "kv": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "labels": {"l": "m", "n": "o"},
    "grid": [[1, 2], [3]],
    "at": "2020-02-03T04:05:06.789Z",
    "day": "2021-01-02",
    "every": "1h30m",
    "raw": "YWI=",
    "inner": {"x": 1},
}


def evaluated(text: str) -> tuple[Any, int]:
    """The value of an expression, and its cost."""
    book = SchemaTypes()
    types = {"self": book.name_of(SCHEMA), "d": "dyn"}
    expression = compile_expression(text, types, book.pool())
    budget = CostBudget(PER_CALL_COST_LIMIT)
    values = {"self": to_cel_value(VALUE, SCHEMA), "d": VALUE}
    try:
        found = expression.evaluate(values, budget)
    except EvaluationError as error:
        found = ErrorValue(str(error))
    return found, PER_CALL_COST_LIMIT - budget.left


@pytest.mark.parametrize(
    ("text", "value", "cost"),
    [
        ("true", True, 0),
        ("self.inner.x", 1, 3),
        ("has(self.inner.x)", True, 2),
        ("self.size > 5 && self.size < 9", False, 3),
        ("self.name.startsWith('hé')", True, 4),
        ("self.names[self.size - 2]", "a", 6),
        ("self.labels.map(k, self.labels[k]).size()", 2, 34),
        ("'l' in self.labels", True, 3),
        ("'a' in self.names", True, 5),
        ("self.name in ['a', 'b']", False, 2),
        ("self.names.all(n, n != 'q')", True, 18),
        ("self.names.exists(n, n == 'a')", True, 18),
        ("self.names.exists_one(n, n == 'b')", False, 14),
        ("self.names.map(n, n + 'x')", ["bx", "ax", "bx"], 45),
        ("self.names.filter(n, n == 'b')", ["b", "b"], 35),
        ("self.grid.all(r, r.all(c, c > 0))", True, 28),
        ("self.kv.all(x, self.kv.exists_one(y, y.k == x.k))", True, 41),
        ("self.flag ? self.inner.x : self.size", 1, 4),
        ("(self.flag ? self.names : self.set)[0]", "b", 4),
        ("{'a': self.size}.a", 3, 34),
        ("[self.inner][0].x", 1, 15),
        ("self.at.getMilliseconds()", 789, 3),
        ("self.at.getHours('+02:00')", 6, 3),
        ("self.at + self.every > self.at", True, 8),
        ("string(self.at)", "2020-02-03T04:05:06.789Z", 3),
        ("string(self.every)", "5400s", 3),
        ("timestamp('2020-01-01T00:00:00Z') < self.at", True, 3),
        ("int('12') + int(1.9)", 13, 1),
        ("7 / -2 == -3 && -7 % 3 == -1", True, 4),
        ("string(1e20) + string(100.0) + string(123456789.0)", "1e+201001.23456789e+08", 4),
        ("type(1) == int", True, 1),
        ("1 < 1.5 && 2u > 1", True, 2),
        ("self.?inner.?x.orValue(4)", 1, 3),
        ("d.?nope.?b.orValue(1)", 1, 1),
        ("self.labels[?'zz'].orValue('q')", "q", 2),
        ("self.?name.optMap(x, x + 'a').value()", "héllo-worlda", 11),
        ("[?self.?name, 'x']", ["héllo-world", "x"], 12),
        ("{'a': 1, ?'b': self.?size}", {"a": 1, "b": 3}, 32),
        ("optional.of(1).or(optional.of(2)).value()", 1, 2),
        ("self.name.split('l').join(',')", "hé,,o-wor,d", 8),
        ("self.name.substring(1, 3).upperAscii().replace('L', 'xx')", "éxx", 6),
        ("'%s-%d'.format([self.name, self.size])", "héllo-world-3", 15),
        ("strings.quote('\\a\\n\\u0001')", '"\\a\\n\x01"', 1),
        ("'%.2f %e %x %X'.format([1.234, 1.5, 255, 'hi'])", "1.23 1.500000\u00d710⁰⁰ ff 6869", 2),
        ("'%s'.format([{'z': [1, true], 'a': duration('1h')}])", None, 1),
        ("self.names.sort().reverse().distinct().slice(0, 1)", ["b"], 86),
        ("self.kv.sortBy(x, x.v).map(x, x.k)", ["a", "b"], 81),
        ("self.grid.flatten()", [1, 2, 3], 15),
        ("lists.range(3)", [0, 1, 2], 14),
        ("self.names.first().orValue('z')", "b", 3),
        ("sets.equivalent([1, 2], [2, 1, 1])", True, 13),
        ("self.names.transformMap(i, n, n + 'x')", {0: "bx", 1: "ax", 2: "bx"}, 18),
        ("self.labels.all(k, v, k != v)", True, 15),
        ("self.name.find('l+')", "ll", 4),
        ("self.name.matches('^h') && self.name.contains('llo')", True, 8),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", True, 6),
        ("string(ip('::1')) + string(cidr('10.0.0.1/8'))", "::110.0.0.1/8", 6),
        ("quantity('1') == quantity('1000m')", True, 3),
        ("url('https://u@a.b:8/c%20d?e=f&e=g').getHost()", "a.b:8", 4),
    ],
)
def test_values_and_costs(text: str, value: Any, cost: int) -> None:
    found, spent = evaluated(text)
    if value is None:
        value = '{"a":duration("3600s"), "z":[1, true]}'
    assert (found, spent) == (value, cost)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("self.names[9] == 'a'", "index out of bounds: 9"),
        ("self.labels.zz == 'a'", "no such key: zz"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("string(d.inner) == ''", "no such overload: string(map)"),
        ("size(d.size) == 1", "no such overload: size"),
        ("d.inner < d.inner", "no such overload: _<_"),
        ("d.size && true", "no such overload"),
        ("d.names['x'] == 'a'", "unsupported index type 'string' in list"),
        ("d.names[0.5] == 'a'", "unsupported index value 0.5 in list"),
        ("d.name.all(x, true)", "got 'types.String', expected iterable type"),
        ("self.at.getHours('Nope/Zone') == 1", "unknown time zone Nope/Zone"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1h') > self.at", "timestamp overflow"),
        ("self.labels[?'zz'].value() == 'a'", "optional.none() dereference"),
        ("'abc'.charAt(5) == ''", "index out of range: 5"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("d.names.join(d.size) == ''", "no such overload: join(list, int)"),
        ("[1].slice(2, 1) == []", "cannot slice(2, 1), start index must be less than or equal to"
         " end index"),
        ("[1, 1].transformMapEntry(i, v, {v: i}) == {}", "insert failed: key 1 already exists"),
        ("ip('x').family() == 4", 'IP Address "x" parse error during conversion from string: '
         'ParseAddr("x"): unable to parse IP'),
        ("ip('::ffff:1.2.3.4').family() == 4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not'
         " allowed"),
        ("cidr('10.0.0.0/33').prefixLength() == 4", "network address parse error during conversion"
         " from string: network address parse error during conversion from string: "
         'netip.ParsePrefix("10.0.0.0/33"): prefix length out of range'),
        ("cidr('10.0.0.0/8').containsIP('zz')", "no such overload"),
        ("semver('1.2').major() == 1", "No Major.Minor.Patch elements found"),
        ("semver('01.2.3').major() == 1", 'Major number must not contain leading zeroes "01"'),
        ("url('zz').getHost() == ''", 'URL parse error during conversion from string: parse "zz": '
         "invalid URI for request"),
    ],
)  # fmt: skip
def test_evaluation_errors(text: str, why: str) -> None:
    assert evaluated(text)[0] == ErrorValue(why)


def test_logical_operators_absorb_errors() -> None:
    assert evaluated("[1, 2].exists(x, x / 0 == 1 || x == 2)") == (True, 19)
    assert evaluated("d.kv.all(x, x.zz == 'a')") == (ErrorValue("no such key: zz"), 15)
    assert evaluated("1 / 0 == 1 || true")[0] is True
    assert evaluated("d.kv.exists(x, x.k == 'a') && !has(d.nope)")[0] is True


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.set == ['y', 'x']", True),
        ("['y', 'x'] == self.set", False),
        ("self.set != ['y', 'z']", True),
        ("self.set + ['z', 'x'] == ['z', 'y', 'x']", True),
        ("self.set + ['z', 'x']", ["x", "y", "z"]),
        ("self.set.map(x, x) == ['y', 'x']", False),
        ("self.set + ['z'] != [] && self.set == ['z', 'x']", True),
        ("self.names == ['b', 'b', 'a']", False),
        ("self.kv == [self.kv[1], self.kv[0]]", True),
        ("[self.kv[1], self.kv[0]] == self.kv", False),
        ("self.kv + [self.kv[1]] == self.kv", True),
        ("(self.kv + self.kv).size()", 2),
    ],
)
def test_set_and_map_lists_compare_without_order(text: str, value: Any) -> None:
    assert evaluated(text)[0] == value


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("format.dns1123Label().validate('abc')", None),
        ("format.dns1123LabelPrefix().validate('abc-')", None),
        ("format.named('nope')", None),
        ("format.uuid().validate('x')", ["does not match the UUID format"]),
        ("format.byte().validate('x')", ["invalid base64"]),
        ("format.date().validate('x')", ["invalid date"]),
        ("format.datetime().validate('x')", ["invalid datetime"]),
        ("format.uri().validate('x')", ['parse "x": invalid URI for request']),
        ("format.uri().validate('')", ['parse "": empty url']),
        (
            "format.named('dns1123Label').value().validate('a.b')",
            ["must not contain dots"],
        ),
        (
            "format.dns1035Label().validate('9')",
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start"
                " with an alphabetic character, and end with an alphanumeric character (e.g. "
                "'my-name',  or 'abc-123', regex used for validation is "
                "'[a-z]([-a-z0-9]*[a-z0-9])?')"
            ],
        ),
    ],
)
def test_named_formats(text: str, texts: list[str] | None) -> None:
    found = Expression(text).evaluate({})
    assert found == (OPTIONAL_NONE if texts is None else OptionalValue(texts))


def test_evaluation_stops_at_the_cost_limit() -> None:
    budget = CostBudget(PER_CALL_COST_LIMIT + 100)
    with pytest.raises(EvaluationError) as ended:
        Expression("self.all(x, self.all(y, x + y > 0))").evaluate({"self": [1] * 1000}, budget)
    assert ended.value.exhausted
    assert str(ended.value) == "operation cancelled: actual cost limit exceeded"
    assert budget.left < 100


def test_a_budget_is_shared() -> None:
    expression, budget = Expression("self.all(x, x > 0)"), CostBudget(100)
    values = {"self": [1] * 10}
    assert expression.evaluate(values, budget) is True
    assert budget.left == 48
    with pytest.raises(CostBudgetExceededError) as over:
        expression.evaluate({"self": [1] * 20}, budget)
    assert str(over.value) == (
        "validation failed due to running out of cost budget, no further validation rules will be "
        "run"
    )
