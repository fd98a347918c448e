"""CEL rules of a schema (`x-kubernetes-validations`): compilation, cost limits, evaluation.

The cost of a rule is that of its expression for the largest value that the schema allows, times the
number of such values: `maxItems`, `maxProperties` and `maxLength` lower the cost. This module loads
CEL, and is loaded with the first rule.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/{compilation,validation}.go,
pkg/apis/apiextensions/validation/{validation,cel_validation}.go; k8s.io/apiserver
pkg/cel/common/schemas.go.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_kwait.apimachinery.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
)
from pytest_kwait.simulator.apiextensions.definition_schema import (
    FieldPathError,
    max_values_below,
    resolve_field_path,
)
from pytest_kwait.simulator.apiextensions.internal_types import internal_rule, invalid_struct_error
from pytest_kwait.simulator.apiextensions.pruning import EMBEDDED, INT_OR_STRING
from pytest_kwait.simulator.apiextensions.schema_validation import (
    UNKNOWN_OLD_VALUE,
    old_field,
    old_item,
)
from pytest_kwait.simulator.apiextensions.schema_validation import format_value as printed
from pytest_kwait.simulator.cel.ast import decode_checked_expr
from pytest_kwait.simulator.cel.cost_estimate import UNBOUNDED, estimate_cost
from pytest_kwait.simulator.cel.expressions import (
    RUNTIME_COST_BUDGET,
    CompilationError,
    CostBudget,
    CostBudgetExceededError,
    EvaluationError,
    Expression,
    compile_expression,
    uses_variable,
)
from pytest_kwait.simulator.cel.schema_types import (
    SchemaTypes,
    escape_identifier,
    to_cel_value,
    with_type_and_object_meta,
)
from pytest_kwait.simulator.cel.values import OPTIONAL_NONE, OptionalValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.simulator.apiextensions.definition_schema import SchemaPosition
    from pytest_kwait.simulator.objects import Obj

_MAX_EXPRESSION_COST = 10_000_000
_MAX_TOTAL_COST = 100_000_000
_MAX_REQUEST_BYTES = 3 * 1024 * 1024
_COST_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
_FORMAT_SIZES = {"date": (12, 12), "date-time": (21, 32), "duration": (3, 32)}
"""The minimum and maximum size in JSON of strings by format."""
_RULES = "x-kubernetes-validations"
_MAX_MESSAGE_LENGTH = 5 * 1024
_MESSAGE_BUDGET_EXCEEDED = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation "
    "rules will be run"
)


class TotalCost:
    """The costs of all rules of one schema."""

    def __init__(self) -> None:
        self._total = 0
        self._most_expensive: list[tuple[int, str]] = []

    def add(self, at: str, cost: int) -> None:
        """Add the cost of the expression at `at`."""
        self._total = min(self._total + cost, UNBOUNDED)
        if cost >= _MAX_TOTAL_COST // 100:
            self._most_expensive.append((cost, at))
            self._most_expensive.sort(key=lambda entry: -entry[0])
            del self._most_expensive[4:]

    def errors(self, at: str) -> list[FieldError]:
        """Return an error if the costs exceed the limit of the schema at `at`."""
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
    """Return the maximum cost of one evaluation.

    Args:
        checked: the checked expression; empty if its cost is unknown.
        schema: the schema of `self`.
        whole: whether `self` is an object with metadata.
    """
    if not checked:
        return 0
    typed_schema = with_type_and_object_meta(schema) if whole else schema
    return estimate_cost(
        decode_checked_expr(checked), lambda path: _size_at(typed_schema, path[1:])
    )


def cost_errors(expression_kind: str, at: str, cost: int) -> list[FieldError]:
    """Return an error if an expression exceeds its cost limit."""
    if cost <= _MAX_EXPRESSION_COST:
        return []
    return [
        forbidden_field(
            at, _excess_text(f"estimated {expression_kind} cost", cost, _MAX_EXPRESSION_COST)
        )
    ]


def max_rule_evaluations(schema: Obj, cardinality: int | None) -> int:
    """Return the maximum number of evaluations of the rules of `schema`.

    Args:
        schema: the schema of the rules.
        cardinality: the maximum number of values; None if unbounded.
    """
    return (
        _MAX_REQUEST_BYTES // (_min_json_size(schema) + 1) if cardinality is None else cardinality
    )


def _excess_text(subject: str, cost: int, most: int) -> str:
    times = cost / most
    factor = "more than 100x"
    if times <= 100:
        factor = f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    return f"{subject} exceeds budget by factor of {factor} {_COST_ADVICE}"


def _size_at(schema: Obj, path: tuple[str, ...]) -> int | None:
    """Return the maximum size of the value at a path; None if unknown."""
    for step in path:
        if step in ("@items", "@values"):
            inner = schema.get("items" if schema.get("type") == "array" else "additionalProperties")
        elif step == "@keys":
            if not isinstance(schema.get("additionalProperties"), dict):
                return None
            return 0
        else:
            properties: Obj = schema.get("properties") or {}
            if schema.get(EMBEDDED):
                properties = with_type_and_object_meta(schema)["properties"]
            # As upstream, a reserved word without escape has no known size.
            inner = next(
                (
                    property_schema
                    for key, property_schema in properties.items()
                    if escape_identifier(key) == step
                ),
                None,
            )
        if not isinstance(inner, dict):
            return None
        schema = inner
    return _max_size(schema)


def _max_size(schema: Obj) -> int:
    """Return the maximum size of a value in items or characters; 0 for scalars."""
    kind, longest = schema.get("type"), schema.get("maxLength")
    if schema.get(INT_OR_STRING):
        return _MAX_REQUEST_BYTES - 2 if longest is None else max(longest, 0) * 4
    if kind == "string":
        form = schema.get("format", "")
        if form in _FORMAT_SIZES:
            return _FORMAT_SIZES[form][1]
        if longest is not None:
            return int(max(longest, 0)) * (1 if form == "byte" else 4)
        if schema.get("enum") and form != "byte":
            texts = [value for value in schema["enum"] if isinstance(value, str)]
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
    """Return the minimum size of a value in JSON."""
    if schema.get(INT_OR_STRING):
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


def expression_errors(schema: Obj, place: SchemaPosition, total: TotalCost) -> list[FieldError]:
    """Validate the expressions of the rules of `schema`.

    Args:
        total: adds up their costs.
    """
    book = SchemaTypes()
    whole = place.root or bool(schema.get(EMBEDDED))
    self_type = book.name_of(with_type_and_object_meta(schema) if whole else schema)
    errors: list[FieldError] = []
    for index, rule in enumerate(schema["x-kubernetes-validations"]):
        at = f"{place.at}.x-kubernetes-validations[{index}]"
        errors += _rule_expression_errors(
            rule, self_type, book, place, at, _ExpressionCosts(schema, place, whole, total)
        )
    return errors


class _ExpressionCosts:
    """The costs of the expressions of one schema.

    Args:
        whole: whether it describes an object with metadata.
        total: adds up the costs.
    """

    def __init__(self, schema: Obj, place: SchemaPosition, whole: bool, total: TotalCost) -> None:
        self._schema = schema
        self._times = max_rule_evaluations(schema, place.count)
        self._whole = whole
        self._total = total

    def errors(self, expression_kind: str, at: str, expression: Expression) -> list[FieldError]:
        """Return errors for exceeded cost limits; one of them has the message."""
        cost = expression_cost(expression.checked, self._schema, self._whole)
        if expression_kind == "rule":
            cost = min(cost * self._times, UNBOUNDED)
        self._total.add(at, cost)
        return cost_errors(expression_kind, at, cost)


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
        expression = compile_expression(text, types, book.pool())
    except CompilationError as error:
        why = f"compilation failed: {error}"
        yield invalid_struct_error(f"{at}.rule", internal_rule(rule), why)
        message = ""
    else:
        if expression.result == "BOOL" and (fault := expression.planning_error):
            why = f"program instantiation failed: {fault}"
            yield invalid_struct_error(f"{at}.rule", internal_rule(rule), why)
            message = ""
        elif expression.result == "BOOL":
            yield from costs.errors("rule", f"{at}.rule", expression)
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
        expression = compile_expression(rule["messageExpression"], types, book.pool())
    except CompilationError as error:
        why = f"messageExpression compilation failed: {error}"
        yield invalid_struct_error(at, internal_rule(rule), why)
        return
    if expression.result == "STRING":
        yield from costs.errors("messageExpression", at, expression)
    else:
        yield invalid_struct_error(
            at, internal_rule(rule), "messageExpression must evaluate to a string"
        )


def rule_errors(
    new: Any, schema: Obj, old: Any = UNKNOWN_OLD_VALUE, warn: Callable[[str], None] | None = None
) -> list[FieldError]:
    """Validate an object against the rules of its schema.

    Args:
        new: the object.
        schema: the schema of the whole object.
        old: the previous object; UNKNOWN_OLD_VALUE for a new one.
        warn: receives the old errors of unchanged parts.
    """
    held = _RuleEvaluator(warn)
    with suppress(_EvaluationStopped):
        held.visit(
            new,
            with_type_and_object_meta(schema),
            "",
            old,
            changed=old is UNKNOWN_OLD_VALUE or new != old,
        )
    return held.errors


class _EvaluationStopped(Exception):
    """The budget is exceeded; further rules are skipped."""


class _RuleEvaluator:
    """Evaluates rules for one object.

    Args:
        warn: receives the errors of unchanged parts.
    """

    def __init__(self, warn: Callable[[str], None] | None) -> None:
        self.errors: list[FieldError] = []
        self._warn = warn
        self._budget = CostBudget(RUNTIME_COST_BUDGET)

    def visit(self, value: Any, schema: Obj, at: str, old: Any, *, changed: bool) -> None:
        """Evaluate the rules of `value` and its parts.

        `changed` says whether the nearest part with an old value has changed.
        """
        if value is None:
            return
        if old is not UNKNOWN_OLD_VALUE:
            changed = value != old
        self._evaluate_rules(schema.get(_RULES), value, schema, at, old, changed)
        for rules in schema.get("allOf") or ():
            self._evaluate_rules(rules.get(_RULES), value, schema, at, old, changed)
        if isinstance(value, dict):
            properties: Obj = schema.get("properties") or {}
            more = schema.get("additionalProperties")
            for key in sorted(value):
                inner = properties.get(key, more)
                if isinstance(inner, dict):
                    step = f"{at}.{key}" if at else key
                    step = step if key in properties else f"{at}[{key}]"
                    self.visit(value[key], inner, step, old_field(old, key), changed=changed)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                before = old_item(old, item, schema)
                self.visit(item, schema["items"], f"{at}[{index}]", before, changed=changed)

    def _evaluate_rules(
        self, rules: list[Obj] | None, value: Any, schema: Obj, at: str, old: Any, changed: bool
    ) -> None:
        if not rules:
            return
        if self._budget.left <= 0:
            self._end(schema, at, CostBudgetExceededError())
        values = {"self": to_cel_value(value, schema)}
        known = old is not UNKNOWN_OLD_VALUE and old is not None
        if known:
            values["oldSelf"] = to_cel_value(old, schema)
        for rule in rules:
            transition = uses_variable(rule["rule"], "oldSelf")
            if not transition or known or rule.get("optionalOldSelf"):
                self._evaluate_rule(rule, value, schema, at, values, changed=changed or transition)

    def _evaluate_rule(
        self, rule: Obj, value: Any, schema: Obj, at: str, values: Obj, *, changed: bool
    ) -> None:
        kind: str = schema.get("type", "")
        variables = values
        if rule.get("optionalOldSelf"):
            variables = {**values, "oldSelf": OPTIONAL_NONE}
            if "oldSelf" in values:
                variables["oldSelf"] = OptionalValue(values["oldSelf"])
        try:
            if _compile_expression(rule["rule"]).evaluate(variables, self._budget) is True:
                return
        except CostBudgetExceededError as error:
            self._end(schema, at, error)
        except EvaluationError as error:
            self.errors.append(_rule_error(kind, at, _evaluation_error_text(rule, error)))
            if error.exhausted:
                raise _EvaluationStopped from None
            return
        where = at
        if rule.get("fieldPath"):
            try:
                step = resolve_field_path(rule["fieldPath"], schema)[0]
            except FieldPathError:
                step = ""
            where = f"{at}.{step}".strip(".") if step else at
        text = None if kind in ("object", "array") else printed(value)
        try:
            rule_error = _broken_rule_error(
                rule, where or "<nil>", text, self._message(rule, values)
            )
        except CostBudgetExceededError:
            self._report(_rule_error(kind, where, _MESSAGE_BUDGET_EXCEEDED), changed)
            raise _EvaluationStopped from None
        except EvaluationError:
            why = "no further validation rules will be run due to call cost exceeds limit for "
            text = f"{why}messageExpression: {json.dumps(rule['messageExpression'])}"
            self._report(_rule_error(kind, where, text), changed)
            raise _EvaluationStopped from None
        self._report(rule_error, changed)

    def _report(self, error: FieldError, changed: bool) -> None:
        """Record an error; only warn about unchanged parts."""
        if changed:
            self.errors.append(error)
        elif self._warn is not None:
            self._warn(f"{error.field}: {error.message}")

    def _end(self, schema: Obj, at: str, why: CostBudgetExceededError) -> NoReturn:
        self.errors.append(_rule_error(schema.get("type", ""), at, str(why)))
        raise _EvaluationStopped

    def _message(self, rule: Obj, values: Obj) -> str:
        """Return the message of a failed rule.

        Raises:
            EvaluationError: the message expression exceeds its cost limit.
            CostBudgetExceededError: the budget is exceeded.
        """
        expression = rule.get("messageExpression", "")
        if expression.strip():
            result: Any = None
            try:
                result = _compile_expression(expression).evaluate(values, self._budget)
            except EvaluationError as error:
                if error.exhausted:
                    raise
            if isinstance(result, str):
                text = result.strip()
                if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_LENGTH:
                    return text
        message: str = rule.get("message", "").strip()
        return message or f"failed rule: {rule['rule'].strip()}"


@lru_cache(maxsize=1024)
def _compile_expression(text: str) -> Expression:
    return Expression(text)


def _rule_error(kind: str, at: str, text: str) -> FieldError:
    return FieldError("FieldValueInvalid", at or "<nil>", f'Invalid value: "{kind}": {text}')


def _evaluation_error_text(rule: Obj, error: EvaluationError) -> str:
    """Return the message of a rule whose evaluation failed."""
    name = (rule.get("message") or rule["rule"]).strip()
    if error.exhausted:
        why = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{error}': {why}: {name}"
    if str(error).startswith("no such overload"):
        why = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {why} for rule: {name}"
    return f"{error} evaluating rule: {name}"


def _broken_rule_error(rule: Obj, at: str, value: str | None, detail: str) -> FieldError:
    reason = rule.get("reason")
    if reason == "FieldValueForbidden":
        return forbidden_field(at, detail)
    if reason == "FieldValueRequired":
        return required(at, detail)
    if reason == "FieldValueDuplicate":
        text = "Duplicate value" if value is None else f"Duplicate value: {value}"
        return FieldError("FieldValueDuplicate", at, text)
    text = "Invalid value" if value is None else f"Invalid value: {value}"
    return FieldError("FieldValueInvalid", at, f"{text}: {detail}")
