"""What the rules of a definition may cost at most, and how much that is too much.

A rule costs what its expression costs for the largest value that its schema allows, as often as
there can be such values: `maxItems`, `maxProperties` and `maxLength` make it cheap.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/{validation,
cel_validation}.go, pkg/apiserver/schema/cel/compilation.go; k8s.io/apiserver
pkg/cel/common/schemas.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.cel.checked_trees import read_tree
from pytest_kwait.simulator.cel.cost_estimates import estimated_cost
from pytest_kwait.simulator.cel.cost_sizes import UNBOUNDED
from pytest_kwait.simulator.cel.object_types import escaped, with_identity
from pytest_kwait.simulator.custom_resources.schema_definition import most_below
from pytest_kwait.simulator.status_error import forbidden_field

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["TotalCost", "cost_errors", "expression_cost", "times_at_most"]

_MOST_OF_ONE = 10_000_000
_MOST_OF_ALL = 100_000_000
_LARGEST_REQUEST = 3 * 1024 * 1024
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
_FORMATS = {"date": (12, 12), "date-time": (21, 32), "duration": (3, 32)}
"""Of texts in these formats: how short and how long they are in JSON."""


class TotalCost:
    """The costs of all rules of one schema."""

    def __init__(self) -> None:
        self._total = 0
        self._dearest: list[tuple[int, str]] = []

    def add(self, at: str, cost: int) -> None:
        """Count the cost of the expression that stands at `at`."""
        self._total = min(self._total + cost, UNBOUNDED)
        if cost >= _MOST_OF_ALL // 100:
            self._dearest.append((cost, at))
            self._dearest.sort(key=lambda one: -one[0])
            del self._dearest[4:]

    def errors(self, at: str) -> list[FieldError]:
        """That it is too much for the schema at `at`, if it is."""
        if self._total <= _MOST_OF_ALL:
            return []
        text = (
            "contributed to estimated rule cost total exceeding cost limit for entire "
            "OpenAPIv3 schema"
        )
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden_field(where, text) for _, where in self._dearest),
            forbidden_field(at, _exceeded(whole, self._total, _MOST_OF_ALL)),
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
    shown = with_identity(schema) if whole else schema
    return estimated_cost(read_tree(checked), lambda path: _size_at(shown, path[1:]))


def cost_errors(what: str, at: str, cost: int) -> list[FieldError]:
    """That an expression costs too much, if it does."""
    if cost <= _MOST_OF_ONE:
        return []
    return [forbidden_field(at, _exceeded(f"estimated {what} cost", cost, _MOST_OF_ONE))]


def times_at_most(schema: Obj, cardinality: int | None) -> int:
    """How often the rules of `schema` can be asked.

    Args:
        schema: where they stand.
        cardinality: how often there can be such values; None where nothing bounds that.
    """
    return _LARGEST_REQUEST // (_smallest(schema) + 1) if cardinality is None else cardinality


def _exceeded(what: str, cost: int, most: int) -> str:
    times = cost / most
    factor = "more than 100x"
    if times <= 100:
        factor = f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{what} exceeds budget by factor of {factor} {_ADVICE}"


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
                properties = with_identity(schema)["properties"]
            inner = next((one for key, one in properties.items() if escaped(key) == step), None)
        if not isinstance(inner, dict):
            return None
        schema = inner
    return _most(schema)


def _most(schema: Obj) -> int:
    """How many items or characters a value has at most; 0 for what has none."""
    kind, longest = schema.get("type"), schema.get("maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return _LARGEST_REQUEST - 2 if longest is None else max(longest, 0) * 4
    if kind == "string":
        form = schema.get("format", "")
        if form in _FORMATS:
            return _FORMATS[form][1]
        if longest is not None:
            return int(max(longest, 0)) * (1 if form == "byte" else 4)
        if schema.get("enum") and form != "byte":
            texts = [one for one in schema["enum"] if isinstance(one, str)]
            return max((len(text.encode()) for text in texts), default=0)
        return _LARGEST_REQUEST - 2
    bound: int | None = most_below(schema)
    if kind == "array":
        smallest = _smallest(schema.get("items") or {}) + 1
        return (_LARGEST_REQUEST - 2) // smallest if bound is None else bound
    more = schema.get("additionalProperties")
    if kind == "object" and isinstance(more, dict):
        return (_LARGEST_REQUEST - 2) // (_smallest(more) + 6) if bound is None else bound
    return 0


def _smallest(schema: Obj) -> int:
    """How short a value can be in JSON."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type")
    if kind == "object" and not isinstance(schema.get("additionalProperties"), dict):
        properties: Obj = schema.get("properties") or {}
        needed = [name for name in schema.get("required") or () if name in properties]
        return 2 + sum(
            len(name.encode()) + _smallest(properties[name]) + 4
            for name in needed
            if properties[name].get("default") is None
        )
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), (2, 0))[0]
    return {"boolean": 4, "integer": 1, "number": 1}.get(str(kind), 2)
