"""Rules of a schema (`x-kubernetes-validations`) held against objects.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_kwait.simulator.api_errors import FieldError, forbidden_field, required
from pytest_kwait.simulator.apiextensions.field_paths import FieldPathError, resolve_field_path
from pytest_kwait.simulator.apiextensions.findings import format_value as printed
from pytest_kwait.simulator.apiextensions.schema_validation import (
    UNKNOWN_OLD_VALUE,
    old_field,
    old_item,
)
from pytest_kwait.simulator.cel.expressions import (
    RUNTIME_COST_BUDGET,
    Budget,
    CostBudgetExceededError,
    EvaluationError,
    Expression,
    uses_variable,
)
from pytest_kwait.simulator.cel.schema_types import to_cel_value, with_type_and_object_meta
from pytest_kwait.simulator.cel.values import OPTIONAL_NONE, OptionalValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["rule_errors"]

_RULES = "x-kubernetes-validations"
_MAX_MESSAGE_LENGTH = 5 * 1024
_MESSAGE_BUDGET_EXCEEDED = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation "
    "rules will be run"
)


def rule_errors(
    new: Any, schema: Obj, old: Any = UNKNOWN_OLD_VALUE, warn: Callable[[str], None] | None = None
) -> list[FieldError]:
    """What rules are broken, in `new` and in all that is in it.

    Args:
        new: the object.
        schema: the schema of the whole object.
        old: what it was before, UNKNOWN where it is new.
        warn: gets what was broken before and has not changed since; None for nobody.
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
    """No further rule is looked at."""


class _RuleEvaluator:
    """One object held to its rules.

    Args:
        warn: gets what is broken but has not changed.
    """

    def __init__(self, warn: Callable[[str], None] | None) -> None:
        self.errors: list[FieldError] = []
        self._warn = warn
        self._budget = Budget(RUNTIME_COST_BUDGET)

    def visit(self, value: Any, schema: Obj, at: str, old: Any, *, changed: bool) -> None:
        """Look at `value` and what is in it; `changed` tells of the nearest part with a past."""
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
                self._hold(rule, value, schema, at, values, changed=changed or transition)

    def _hold(
        self, rule: Obj, value: Any, schema: Obj, at: str, values: Obj, *, changed: bool
    ) -> None:
        kind: str = schema.get("type", "")
        shown = values
        if rule.get("optionalOldSelf"):
            shown = {**values, "oldSelf": OPTIONAL_NONE}
            if "oldSelf" in values:
                shown["oldSelf"] = OptionalValue(values["oldSelf"])
        try:
            if _compile_expression(rule["rule"]).evaluate(shown, self._budget) is True:
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
        said = None if kind in ("object", "array") else printed(value)
        try:
            found = _broken_rule_error(rule, where or "<nil>", said, self._message(rule, values))
        except CostBudgetExceededError:
            self._tell(_rule_error(kind, where, _MESSAGE_BUDGET_EXCEEDED), changed)
            raise _EvaluationStopped from None
        except EvaluationError:
            why = "no further validation rules will be run due to call cost exceeds limit for "
            text = f"{why}messageExpression: {json.dumps(rule['messageExpression'])}"
            self._tell(_rule_error(kind, where, text), changed)
            raise _EvaluationStopped from None
        self._tell(found, changed)

    def _tell(self, error: FieldError, changed: bool) -> None:
        """Whoever changes nothing about it is told, and not held to it."""
        if changed:
            self.errors.append(error)
        elif self._warn is not None:
            self._warn(f"{error.field}: {error.message}")

    def _end(self, schema: Obj, at: str, why: CostBudgetExceededError) -> NoReturn:
        self.errors.append(_rule_error(schema.get("type", ""), at, str(why)))
        raise _EvaluationStopped

    def _message(self, rule: Obj, values: Obj) -> str:
        """What is said of a broken rule.

        Raises:
            EvaluationError: to say it would cost too much.
            OverBudgetError: there is too little left for it.
        """
        expression = rule.get("messageExpression", "")
        if expression.strip():
            found: Any = None
            try:
                found = _compile_expression(expression).evaluate(values, self._budget)
            except EvaluationError as error:
                if error.exhausted:
                    raise
            if isinstance(found, str):
                text = found.strip()
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
    """That a rule has no value, and why."""
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
