"""What the rules of a definition may cost at most, and how much that is too much.

A rule costs what its expression costs for the largest value that its schema allows, as often as
there can be such values: `maxItems`, `maxProperties` and `maxLength` make it cheap.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/{validation,
cel_validation}.go, pkg/apiserver/schema/cel/compilation.go; k8s.io/apiserver
pkg/cel/common/schemas.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import forbidden_field
from pytest_kwait.simulator.apiextensions.definition_schema import max_values_below
from pytest_kwait.simulator.cel.ast import decode_checked_expr
from pytest_kwait.simulator.cel.cost_estimates import estimate_cost
from pytest_kwait.simulator.cel.cost_sizes import UNBOUNDED
from pytest_kwait.simulator.cel.schema_types import escape_identifier, with_type_and_object_meta

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["TotalCost", "cost_errors", "expression_cost", "max_rule_evaluations"]

_MAX_EXPRESSION_COST = 10_000_000
_MAX_TOTAL_COST = 100_000_000
_MAX_REQUEST_BYTES = 3 * 1024 * 1024
_COST_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
_FORMAT_SIZES = {"date": (12, 12), "date-time": (21, 32), "duration": (3, 32)}
"""Of texts in these formats: how short and how long they are in JSON."""


class TotalCost:
    """The costs of all rules of one schema."""

    def __init__(self) -> None:
        self._total = 0
        self._most_expensive: list[tuple[int, str]] = []

    def add(self, at: str, cost: int) -> None:
        """Count the cost of the expression that stands at `at`."""
        self._total = min(self._total + cost, UNBOUNDED)
        if cost >= _MAX_TOTAL_COST // 100:
            self._most_expensive.append((cost, at))
            self._most_expensive.sort(key=lambda one: -one[0])
            del self._most_expensive[4:]

    def errors(self, at: str) -> list[FieldError]:
        """That it is too much for the schema at `at`, if it is."""
        if self._total <= _MAX_TOTAL_COST:
            return []
        text = (
            "contributed to estimated rule cost total exceeding cost limit for entire "
            "OpenAPIv3 schema"
        )
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden_field(where, text) for _, where in self._most_expensive),
            forbidden_field(at, _excess_text(whole, self._total, _MAX_TOTAL_COST)),
        ]


def expression_cost(checked: bytes, schema: Obj, whole: bool) -> int:
    """The most that evaluating an expression once may cost.

    Args:
        checked: what the checker made of it; empty for one that it knows nothing of.
        schema: what `self` is.
        whole: whether that is an object with metadata.
    """
    if not checked:
        return 0
    shown = with_type_and_object_meta(schema) if whole else schema
    return estimate_cost(decode_checked_expr(checked), lambda path: _size_at(shown, path[1:]))


def cost_errors(what: str, at: str, cost: int) -> list[FieldError]:
    """That an expression costs too much, if it does."""
    if cost <= _MAX_EXPRESSION_COST:
        return []
    return [forbidden_field(at, _excess_text(f"estimated {what} cost", cost, _MAX_EXPRESSION_COST))]


def max_rule_evaluations(schema: Obj, cardinality: int | None) -> int:
    """How often the rules of `schema` can be asked.

    Args:
        schema: where they stand.
        cardinality: how often there can be such values; None where nothing bounds that.
    """
    return (
        _MAX_REQUEST_BYTES // (_min_json_size(schema) + 1) if cardinality is None else cardinality
    )


def _excess_text(what: str, cost: int, most: int) -> str:
    times = cost / most
    factor = "more than 100x"
    if times <= 100:
        factor = f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_COST_ADVICE}"


def _size_at(schema: Obj, path: tuple[str, ...]) -> int | None:
    """How many items or characters there may be at a path; None where nothing is known of it."""
    for step in path:
        if step in ("@items", "@values"):
            inner = schema.get("items" if schema.get("type") == "array" else "additionalProperties")
        elif step == "@keys":
            if not isinstance(schema.get("additionalProperties"), dict):
                return None
            return 0
        else:
            properties: Obj = schema.get("properties") or {}
            if schema.get("x-kubernetes-embedded-resource"):
                properties = with_type_and_object_meta(schema)["properties"]
            inner = next(
                (one for key, one in properties.items() if escape_identifier(key) == step), None
            )
        if not isinstance(inner, dict):
            return None
        schema = inner
    return _max_size(schema)


def _max_size(schema: Obj) -> int:
    """How many items or characters a value has at most; 0 for what has none."""
    kind, longest = schema.get("type"), schema.get("maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return _MAX_REQUEST_BYTES - 2 if longest is None else max(longest, 0) * 4
    if kind == "string":
        form = schema.get("format", "")
        if form in _FORMAT_SIZES:
            return _FORMAT_SIZES[form][1]
        if longest is not None:
            return int(max(longest, 0)) * (1 if form == "byte" else 4)
        if schema.get("enum") and form != "byte":
            texts = [one for one in schema["enum"] if isinstance(one, str)]
            return max((len(text.encode()) for text in texts), default=0)
        return _MAX_REQUEST_BYTES - 2
    bound: int | None = max_values_below(schema)
    if kind == "array":
        smallest = _min_json_size(schema.get("items") or {}) + 1
        return (_MAX_REQUEST_BYTES - 2) // smallest if bound is None else bound
    more = schema.get("additionalProperties")
    if kind == "object" and isinstance(more, dict):
        return (_MAX_REQUEST_BYTES - 2) // (_min_json_size(more) + 6) if bound is None else bound
    return 0


def _min_json_size(schema: Obj) -> int:
    """How short a value can be in JSON."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type")
    if kind == "object" and not isinstance(schema.get("additionalProperties"), dict):
        properties: Obj = schema.get("properties") or {}
        needed = [name for name in schema.get("required") or () if name in properties]
        return 2 + sum(
            len(name.encode()) + _min_json_size(properties[name]) + 4
            for name in needed
            if properties[name].get("default") is None
        )
    if kind == "string":
        return _FORMAT_SIZES.get(schema.get("format", ""), (2, 0))[0]
    return {"boolean": 4, "integer": 1, "number": 1}.get(str(kind), 2)
