"""Rules of a schema (`x-kubernetes-validations`) held against objects.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.cel.expressions import (
    EvaluationError,
    Expression,
    optional_form,
    optional_values,
    uses,
)
from pytest_kwait.simulator.cel.object_types import as_value, with_identity
from pytest_kwait.simulator.custom_resources.field_paths import BadPath, follow
from pytest_kwait.simulator.custom_resources.findings import shown
from pytest_kwait.simulator.custom_resources.values import UNKNOWN, former_field, former_item
from pytest_kwait.simulator.status_error import FieldError, forbidden_field, required

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["Exhausted", "rule_errors"]

_RULES = "x-kubernetes-validations"
_MESSAGE_MAX = 5 * 1024


class Exhausted(Exception):
    """A rule would have taken too long: no further one is looked at."""


def rule_errors(new: Any, schema: Obj, old: Any = UNKNOWN) -> list[FieldError]:
    """What rules are broken, in `new` and in all that is in it.

    Args:
        new: the object.
        schema: the schema of the whole object.
        old: what it was before, UNKNOWN where it is new.
    """
    errors: list[FieldError] = []
    try:
        _visit(new, with_identity(schema), "", old, errors, changed=old is UNKNOWN or new != old)
    except Exhausted:
        return errors
    return errors


def _visit(
    value: Any, schema: Obj, at: str, old: Any, errors: list[FieldError], *, changed: bool
) -> None:
    """Look at `value` and what is in it; `changed` tells of the nearest part with a past."""
    if value is None:
        return
    if old is not UNKNOWN:
        changed = value != old
    for rule in schema.get(_RULES) or ():
        _hold(rule, value, schema, at, old, errors, changed)
    for rules in schema.get("allOf") or ():
        for rule in rules.get(_RULES) or ():
            _hold(rule, value, schema, at, old, errors, changed)
    if isinstance(value, dict):
        properties: Obj = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for key in sorted(value):
            inner = properties.get(key, more)
            if isinstance(inner, dict):
                step = f"{at}.{key}" if at else key
                step = step if key in properties else f"{at}[{key}]"
                _visit(value[key], inner, step, former_field(old, key), errors, changed=changed)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            before = former_item(old, item, schema)
            _visit(item, schema["items"], f"{at}[{index}]", before, errors, changed=changed)


@lru_cache(maxsize=1024)
def _expression(text: str, names: tuple[str, ...]) -> Expression:
    return Expression(text, names, "")


def _evaluate(text: str, rule: Obj, values: Obj) -> Any:
    if rule.get("optionalOldSelf"):
        text, values = optional_form(text, "oldSelf"), optional_values("oldSelf", values)
    return _expression(text, tuple(values)).evaluate(values)


def _hold(
    rule: Obj, value: Any, schema: Obj, at: str, old: Any, errors: list[FieldError], changed: bool
) -> None:
    text: str = rule["rule"]
    transition = uses(text, "oldSelf")
    known = old is not UNKNOWN and old is not None
    if transition and not known and not rule.get("optionalOldSelf"):
        return
    values = {"self": as_value(value, schema)}
    if known:
        values["oldSelf"] = as_value(old, schema)
    kind = schema.get("type", "")
    try:
        held = _evaluate(text, rule, values)
    except EvaluationError as error:
        _add_failure(rule, kind, at, error, errors)
        return
    if held is True or (not transition and not changed):
        return
    where = at
    if rule.get("fieldPath"):
        try:
            step = follow(rule["fieldPath"], schema)[0]
        except BadPath:
            step = ""
        where = f"{at}.{step}".strip(".") if step else at
    said = None if kind in ("object", "array") else shown(value)
    errors.append(_broken(rule, where or "<nil>", said, _message(rule, values)))


def _add_failure(
    rule: Obj, kind: str, at: str, error: EvaluationError, errors: list[FieldError]
) -> None:
    name = (rule.get("message") or rule["rule"]).strip()
    text = f"{error} evaluating rule: {name}"
    if str(error) == "no such overload":
        text = (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {name}"
        )
    if error.exhausted:
        text = (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {name}"
        )
    message = f'Invalid value: "{kind}": {text}'
    errors.append(FieldError("FieldValueInvalid", at or "<nil>", message))
    if error.exhausted:
        raise Exhausted


def _message(rule: Obj, values: Obj) -> str:
    expression = rule.get("messageExpression", "")
    if expression.strip():
        try:
            found = _evaluate(expression, rule, values)
        except EvaluationError:
            found = None
        if isinstance(found, str):
            text = found.strip()
            if text and "\n" not in text and len(text.encode()) <= _MESSAGE_MAX:
                return text
    message: str = rule.get("message", "").strip()
    return message or f"failed rule: {rule['rule'].strip()}"


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
