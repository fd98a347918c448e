"""What a job makes of failed pods.

Source: pkg/apis/batch/validation/validation.go, validatePodFailurePolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import label_key_texts
from pytest_kwait.simulator.status_error import Rendered

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_failure_policy"]

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MOST_RULES, _MOST_CODES, _MOST_CONDITIONS = 20, 255, 20


def _listed(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def check_failure_policy(spec: Obj, at: str, found: Findings) -> None:
    """The policy of a job's spec."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MOST_RULES:
        found.too_many(f"{at}.rules", len(rules), _MOST_RULES)
    pod = spec.get("template", {}).get("spec", {})
    names = {
        one.get("name", "")
        for field in ("containers", "initContainers")
        for one in pod.get(field) or ()
    }
    for index, rule in enumerate(rules):
        here = f"{at}.rules[{index}]"
        action = rule.get("action", "")
        if not action:
            found.required(f"{here}.action", _listed(_ACTIONS))
        elif action not in _ACTIONS:
            found.unsupported(f"{here}.action", action, _ACTIONS)
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            text = "requires the backoffLimitPerIndex to be set"
            found.invalid(f"{here}.action", action, text)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
        if codes is not None:
            _check_codes(codes, names, f"{here}.onExitCodes", found)
        if conditions:
            _check_conditions(conditions, f"{here}.onPodConditions", found)
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.invalid_whole(here, text)
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            found.invalid_whole(here, text)


def _check_codes(codes: Obj, names: set[str], at: str, found: Findings) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    container = codes.get("containerName")
    if not operator:
        found.required(f"{at}.operator", _listed(_OPERATORS))
    elif operator not in _OPERATORS:
        found.unsupported(f"{at}.operator", operator, _OPERATORS)
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        found.invalid(f"{at}.containerName", container, text)
    if not values:
        shown = Rendered("null") if codes.get("values") is None else values
        found.invalid(f"{at}.values", shown, "at least one value is required")
    elif len(values) > _MOST_CODES:
        found.too_many(f"{at}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            found.duplicate(f"{at}.values[{index}]", value)
    if values != sorted(values):
        found.invalid(f"{at}.values", values, "must be ordered")


def _check_conditions(conditions: list[Obj], at: str, found: Findings) -> None:
    if len(conditions) > _MOST_CONDITIONS:
        found.too_many(at, len(conditions), _MOST_CONDITIONS)
    for index, pattern in enumerate(conditions):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        found.texts(f"{at}[{index}].type", kind, label_key_texts(kind))
        if not status:
            found.required(f"{at}[{index}].status", _listed(_STATUSES))
        elif status not in _STATUSES:
            found.unsupported(f"{at}[{index}].status", status, _STATUSES)
