"""Rules of a definition: whether their expressions can be compiled.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go,
pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.apiextensions.internal_types import internal_rule, invalid_struct_error
from pytest_kwait.simulator.apiextensions.rule_costs import (
    cost_errors,
    expression_cost,
    max_rule_evaluations,
)
from pytest_kwait.simulator.cel.cost_sizes import UNBOUNDED
from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    compile_expression,
    uses_variable,
)
from pytest_kwait.simulator.cel.schema_types import SchemaTypes, with_type_and_object_meta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.apiextensions.definition_schema import SchemaPosition
    from pytest_kwait.simulator.apiextensions.rule_costs import TotalCost
    from pytest_kwait.simulator.cel.expressions import Expression
    from pytest_kwait.simulator.objects import Obj

__all__ = ["expression_errors"]


def expression_errors(schema: Obj, place: SchemaPosition, total: TotalCost) -> list[FieldError]:
    """What is wrong with the expressions of the rules that stand in `schema`.

    Args:
        schema: the schema.
        place: where it stands.
        total: gets what they cost at most.
    """
    book = SchemaTypes()
    whole = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    self_type = book.name_of(with_type_and_object_meta(schema) if whole else schema)
    errors: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        at = f"{place.at}.x-kubernetes-validations[{index}]"
        errors += _rule_expression_errors(
            rule, self_type, book, place, at, _ExpressionCosts(schema, place, whole, total)
        )
    return errors


class _ExpressionCosts:
    """What the expressions of one schema cost.

    Args:
        schema: the schema.
        place: where it stands.
        whole: whether it is that of an object with metadata.
        total: gets the costs.
    """

    def __init__(self, schema: Obj, place: SchemaPosition, whole: bool, total: TotalCost) -> None:
        self._schema = schema
        self._times = max_rule_evaluations(schema, place.count)
        self._whole = whole
        self._total = total

    def errors(self, what: str, at: str, found: Expression) -> list[FieldError]:
        """That an expression costs too much, if it does; a message is needed but once."""
        cost = expression_cost(found.checked, self._schema, self._whole)
        if what == "rule":
            cost = min(cost * self._times, UNBOUNDED)
        self._total.add(at, cost)
        return cost_errors(what, at, cost)


def _rule_expression_errors(
    rule: Obj,
    self_type: str,
    book: SchemaTypes,
    place: SchemaPosition,
    at: str,
    costs: _ExpressionCosts,
) -> Iterator[FieldError]:
    text: str = rule["rule"]
    optional = bool(rule.get("optionalOldSelf"))
    types = {"self": self_type, "oldSelf": f"optional<{self_type}>" if optional else self_type}
    message = rule.get("messageExpression", "").strip()
    try:
        found = compile_expression(text, types, book.pool())
    except CompilationError as error:
        why = f"compilation failed: {error}"
        yield invalid_struct_error(f"{at}.rule", internal_rule(rule), why)
        message = ""
    else:
        if found.result == "BOOL" and (fault := found.planning_error):
            why = f"program instantiation failed: {fault}"
            yield invalid_struct_error(f"{at}.rule", internal_rule(rule), why)
            message = ""
        elif found.result == "BOOL":
            yield from costs.errors("rule", f"{at}.rule", found)
        else:
            why = "cel expression must evaluate to a bool"
            yield invalid_struct_error(f"{at}.rule", internal_rule(rule), why)
            message = ""
    if message:
        yield from _message_expression_errors(rule, types, book, f"{at}.messageExpression", costs)
    if not uses_variable(text, "oldSelf"):
        if rule.get("optionalOldSelf") is not None:
            why = "may not be set if oldSelf is not used in rule"
            yield invalid_value(f"{at}.optionalOldSelf", optional, why)
    elif place.uncorrelated:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        yield invalid_value(f"{at}.rule", text, why + place.uncorrelated)


def _message_expression_errors(
    rule: Obj, types: dict[str, str], book: SchemaTypes, at: str, costs: _ExpressionCosts
) -> Iterator[FieldError]:
    try:
        found = compile_expression(rule["messageExpression"], types, book.pool())
    except CompilationError as error:
        why = f"messageExpression compilation failed: {error}"
        yield invalid_struct_error(at, internal_rule(rule), why)
        return
    if found.result == "STRING":
        yield from costs.errors("messageExpression", at, found)
    else:
        yield invalid_struct_error(
            at, internal_rule(rule), "messageExpression must evaluate to a string"
        )
