"""Rules of a schema (`x-kubernetes-validations`) held against objects.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_kwait.simulator.cel.cel_values import NONE, Optional
from pytest_kwait.simulator.cel.expressions import (
    OBJECT_BUDGET,
    Budget,
    EvaluationError,
    Expression,
    OverBudgetError,
    uses,
)
from pytest_kwait.simulator.cel.object_types import as_value, with_identity
from pytest_kwait.simulator.custom_resources.field_paths import BadPath, follow
from pytest_kwait.simulator.custom_resources.findings import shown as printed
from pytest_kwait.simulator.custom_resources.values import UNKNOWN, former_field, former_item
from pytest_kwait.simulator.status_error import FieldError, forbidden_field, required

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["rule_errors"]

_RULES = "x-kubernetes-validations"
_MESSAGE_MAX = 5 * 1024
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation "
    "rules will be run"
)


def rule_errors(
    new: Any, schema: Obj, old: Any = UNKNOWN, warn: Callable[[str], None] | None = None
) -> list[FieldError]:
    """What rules are broken, in `new` and in all that is in it.

    Args:
        new: the object.
        schema: the schema of the whole object.
        old: what it was before, UNKNOWN where it is new.
        warn: gets what was broken before and has not changed since; None for nobody.
    """
    held = _Held(warn)
    with suppress(_Ended):
        held.visit(new, with_identity(schema), "", old, changed=old is UNKNOWN or new != old)
    return held.errors


class _Ended(Exception):
    """No further rule is looked at."""


class _Held:
    """One object held to its rules.

    Args:
        warn: gets what is broken but has not changed.
    """

    def __init__(self, warn: Callable[[str], None] | None) -> None:
        self.errors: list[FieldError] = []
        self._warn = warn
        self._budget = Budget(OBJECT_BUDGET)

    def visit(self, value: Any, schema: Obj, at: str, old: Any, *, changed: bool) -> None:
        """Look at `value` and what is in it; `changed` tells of the nearest part with a past."""
        if value is None:
            return
        if old is not UNKNOWN:
            changed = value != old
        self._hold_all(schema.get(_RULES), value, schema, at, old, changed)
        for rules in schema.get("allOf") or ():
            self._hold_all(rules.get(_RULES), value, schema, at, old, changed)
        if isinstance(value, dict):
            properties: Obj = schema.get("properties") or {}
            more = schema.get("additionalProperties")
            for key in sorted(value):
                inner = properties.get(key, more)
                if isinstance(inner, dict):
                    step = f"{at}.{key}" if at else key
                    step = step if key in properties else f"{at}[{key}]"
                    self.visit(value[key], inner, step, former_field(old, key), changed=changed)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            for index, item in enumerate(value):
                before = former_item(old, item, schema)
                self.visit(item, schema["items"], f"{at}[{index}]", before, changed=changed)

    def _hold_all(
        self, rules: list[Obj] | None, value: Any, schema: Obj, at: str, old: Any, changed: bool
    ) -> None:
        if not rules:
            return
        if self._budget.left <= 0:
            self._end(schema, at, OverBudgetError())
        values = {"self": as_value(value, schema)}
        known = old is not UNKNOWN and old is not None
        if known:
            values["oldSelf"] = as_value(old, schema)
        for rule in rules:
            transition = uses(rule["rule"], "oldSelf")
            if not transition or known or rule.get("optionalOldSelf"):
                self._hold(rule, value, schema, at, values, changed=changed or transition)

    def _hold(
        self, rule: Obj, value: Any, schema: Obj, at: str, values: Obj, *, changed: bool
    ) -> None:
        kind: str = schema.get("type", "")
        shown = values
        if rule.get("optionalOldSelf"):
            shown = {**values, "oldSelf": NONE}
            if "oldSelf" in values:
                shown["oldSelf"] = Optional(values["oldSelf"])
        try:
            if _expression(rule["rule"]).evaluate(shown, self._budget) is True:
                return
        except OverBudgetError as error:
            self._end(schema, at, error)
        except EvaluationError as error:
            self.errors.append(_failure(kind, at, _failed(rule, error)))
            if error.exhausted:
                raise _Ended from None
            return
        where = at
        if rule.get("fieldPath"):
            try:
                step = follow(rule["fieldPath"], schema)[0]
            except BadPath:
                step = ""
            where = f"{at}.{step}".strip(".") if step else at
        said = None if kind in ("object", "array") else printed(value)
        try:
            found = _broken(rule, where or "<nil>", said, self._message(rule, values))
        except OverBudgetError:
            self._tell(_failure(kind, where, _MESSAGE_OUT_OF_BUDGET), changed)
            raise _Ended from None
        except EvaluationError:
            why = "no further validation rules will be run due to call cost exceeds limit for "
            text = f"{why}messageExpression: {json.dumps(rule['messageExpression'])}"
            self._tell(_failure(kind, where, text), changed)
            raise _Ended from None
        self._tell(found, changed)

    def _tell(self, error: FieldError, changed: bool) -> None:
        """Whoever changes nothing about it is told, and not held to it."""
        if changed:
            self.errors.append(error)
        elif self._warn is not None:
            self._warn(f"{error.field}: {error.message}")

    def _end(self, schema: Obj, at: str, why: OverBudgetError) -> NoReturn:
        self.errors.append(_failure(schema.get("type", ""), at, str(why)))
        raise _Ended

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
                found = _expression(expression).evaluate(values, self._budget)
            except EvaluationError as error:
                if error.exhausted:
                    raise
            if isinstance(found, str):
                text = found.strip()
                if text and "\n" not in text and len(text.encode()) <= _MESSAGE_MAX:
                    return text
        message: str = rule.get("message", "").strip()
        return message or f"failed rule: {rule['rule'].strip()}"


@lru_cache(maxsize=1024)
def _expression(text: str) -> Expression:
    return Expression(text)


def _failure(kind: str, at: str, text: str) -> FieldError:
    return FieldError("FieldValueInvalid", at or "<nil>", f'Invalid value: "{kind}": {text}')


def _failed(rule: Obj, error: EvaluationError) -> str:
    """That a rule has no value, and why."""
    name = (rule.get("message") or rule["rule"]).strip()
    if error.exhausted:
        why = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{error}': {why}: {name}"
    if str(error).startswith("no such overload"):
        why = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {why} for rule: {name}"
    return f"{error} evaluating rule: {name}"


def _broken(rule: Obj, at: str, value: str | None, detail: str) -> FieldError:
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
