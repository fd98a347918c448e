from __future__ import annotations

import pytest

from pytest_kwait.simulator.cel.ast import Type, decode_checked_expr
from pytest_kwait.simulator.cel.cost_estimate import (
    UNBOUNDED,
    Estimate,
    estimate_cost,
    fixed_estimate,
)
from pytest_kwait.simulator.cel.expressions import compile_expression

TYPES = {"self": "list<string>", "m": "map<string,int>", "n": "int"}


def test_checked_ast_types_and_overloads() -> None:
    tree = decode_checked_expr(
        compile_expression("self[0] == 'é' && -3 < n && !has(m.a)", TYPES).checked
    )
    first = tree.root.parts[0].parts[0]
    assert (tree.root.kind, tree.root.name) == ("call", "_&&_")
    assert first.name == "_==_"
    assert tree.overloads[first.number] == ["equals"]
    assert tree.types[first.parts[0].number] == Type("string")
    assert tree.types[first.parts[0].parts[0].number] == Type("list", "", (Type("string"),))
    assert first.parts[1].value == "é"
    assert tree.root.parts[0].parts[1].parts[0].value == -3
    assert tree.root.parts[1].parts[0].test


def test_comprehension_variables() -> None:
    tree = decode_checked_expr(
        compile_expression("self.all(x, x == 'a') && {'a': [1]}.a == [n]", TYPES).checked
    )
    loop = tree.root.parts[0]
    assert loop.kind == "loop"
    assert loop.names[1:] == ("x",)
    assert [part.kind for part in loop.parts] == ["ident", "literal", "call", "call", "ident"]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("true", 0),
        ("n > 1", 2),
        ("self[0] == 'abc'", 3),
        ("self.all(x, x == 'a')", 52),
        ("self.size() < 3 || n == 1", 5),
        ("'abcdefghijk' == self[1]", 4),
        ("m.exists(k, k == 'b')", 62),
        ("[1, 2].map(i, i + n) == [1]", 62),
        ("n > 1 ? self[0].matches('a+') : false", 7),
    ],
)
def test_estimated_costs(text: str, cost: int) -> None:
    sizes = {("self",): 10, ("self", "@items"): 20, ("m",): 10, ("m", "@keys"): 5, ("n",): 1}
    tree = decode_checked_expr(compile_expression(text, TYPES).checked)
    assert estimate_cost(tree, sizes.get) == cost


def test_estimates_saturate() -> None:
    endless = Estimate(1, UNBOUNDED)
    assert endless.plus(fixed_estimate(5)) == Estimate(6, UNBOUNDED)
    assert endless.times(fixed_estimate(5)) == Estimate(5, UNBOUNDED)
    assert endless.by(10.0) == Estimate(10, UNBOUNDED)
    assert fixed_estimate(3).by(0.1) == fixed_estimate(1)
