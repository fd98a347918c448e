"""What may stand beside the expression of a rule.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, func
ValidateCustomResourceDefinitionOpenAPISchema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value, not_supported, required
from pytest_kwait.simulator.apiextensions.field_paths import FieldPathError, resolve_field_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["rule_field_errors"]

_RULE_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def rule_field_errors(schema: Obj, at: str) -> list[FieldError]:
    """What is wrong with the rules of `schema`, their expressions apart."""
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        errors += _rule_errors(rule, schema, f"{at}.x-kubernetes-validations[{index}]")
    return errors


def _has_line_break(text: str) -> bool:
    return "\n" in text or "\r" in text


def _rule_errors(rule: Obj, schema: Obj, at: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield required(f"{at}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{at}.message", message, "must be non-empty if specified")
    elif _has_line_break(message.strip()):
        yield invalid_value(f"{at}.message", message, "must not contain line breaks")
    elif _has_line_break(text) and not message:
        yield required(f"{at}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        why = "messageExpression must be non-empty if specified"
        yield required(f"{at}.messageExpression", why)
    if rule.get("reason") is not None and rule["reason"] not in _RULE_REASONS:
        yield not_supported(f"{at}.reason", rule["reason"], _RULE_REASONS)
    path = rule.get("fieldPath", "")
    if path and not path.strip():
        yield invalid_value(f"{at}.fieldPath", path, "must be non-empty if specified")
    if _has_line_break(path):
        yield invalid_value(f"{at}.fieldPath", path, "must not contain line breaks")
    if path:
        try:
            resolve_field_path(path, schema)
        except FieldPathError:
            yield invalid_value(f"{at}.fieldPath", path, "must be a valid path")
