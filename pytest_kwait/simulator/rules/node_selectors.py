"""Which nodes are meant: terms over labels, and over the name.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateNodeSelector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import (
    dns_subdomain_texts,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.simulator.status_error import forbidden_field, invalid_value, required

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["volume_affinity_errors"]


def volume_affinity_errors(affinity: Obj | None, at: str) -> list[FieldError]:
    """What is wrong with where a volume can be reached from."""
    if affinity is None:
        return []
    if affinity.get("required") is None:
        return [required(f"{at}.required", "must specify required node constraints")]
    at, terms = f"{at}.required.nodeSelectorTerms", affinity["required"].get("nodeSelectorTerms")
    if not terms:
        return [required(at, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        for number, rule in enumerate(term.get("matchExpressions") or []):
            errors += _expression_errors(rule, f"{at}[{index}].matchExpressions[{number}]")
        for number, rule in enumerate(term.get("matchFields") or []):
            errors += _field_errors(rule, f"{at}[{index}].matchFields[{number}]")
    return errors


def _expression_errors(rule: Obj, at: str) -> list[FieldError]:
    operator, values, key = rule.get("operator", ""), rule.get("values") or [], rule.get("key", "")
    errors = []
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{at}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{at}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{at}.values", text))
    else:
        errors.append(invalid_value(f"{at}.operator", operator, "not a valid selector operator"))
    errors += [invalid_value(f"{at}.key", key, text) for text in label_key_texts(key)]
    return errors + [
        invalid_value(f"{at}.values[{index}]", value, text)
        for index, value in enumerate(values)
        for text in label_value_texts(value)
    ]


def _field_errors(rule: Obj, at: str) -> list[FieldError]:
    operator, values, key = rule.get("operator", ""), rule.get("values") or [], rule.get("key", "")
    errors = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid_value(f"{at}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{at}.values", text))
    if key != "metadata.name":
        errors.append(invalid_value(f"{at}.key", key, "not a valid field selector key"))
        return errors
    return errors + [
        invalid_value(f"{at}.values[{index}]", value, text)
        for index, value in enumerate(values)
        for text in dns_subdomain_texts(value)
    ]
