"""Conditions under which webhooks and policies are asked: expressions with names.

Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, func
validateMatchConditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import FieldError, duplicate, invalid_value, required
from pytest_kwait.simulator.validation.formats import label_key_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["match_condition_errors"]

_MAX_MATCH_CONDITIONS = 64


def match_condition_errors(
    conditions: list[Obj],
    at: str,
    *,
    params: bool = False,
) -> list[FieldError]:
    """What is wrong with conditions.

    Args:
        conditions: the conditions.
        at: where they stand; they cannot speak of a policy's variables.
        params: whether there are parameters.
    """
    errors: list[FieldError] = []
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MAX_MATCH_CONDITIONS} items"
        errors.append(FieldError("FieldValueTooMany", at, text))
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{at}[{index}]"
        name, text = condition.get("name", ""), condition.get("expression", "")
        if not text.strip():
            errors.append(required(f"{where}.expression"))
        else:
            # Not at import: the expressions' library is loaded where one is met.
            from pytest_kwait.simulator.admission.cel_expressions import compilation_error

            fault, _ = compilation_error(text, "bool", None, params=params)
            if fault:
                errors.append(invalid_value(f"{where}.expression", text, fault))
        if not name:
            errors.append(required(f"{where}.name"))
        else:
            errors += [invalid_value(f"{where}.name", name, why) for why in label_key_texts(name)]
        if name and name in names:
            errors.append(duplicate(f"{where}.name", name))
        names.add(name)
    return errors
