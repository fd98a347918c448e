"""What a job makes of failed pods.

Source: pkg/apis/batch/validation/validation.go, validatePodFailurePolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.validation.formats import label_key_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_pod_failure_policy"]

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_CODES, _MAX_CONDITIONS = 20, 255, 20


def _render_list(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def validate_pod_failure_policy(spec: Obj, at: str, found: ErrorList) -> None:
    """The policy of a job's spec."""
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MAX_RULES:
        found.too_many(f"{at}.rules", len(rules), _MAX_RULES)
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
            found.required(f"{here}.action", _render_list(_ACTIONS))
        elif action not in _ACTIONS:
            found.unsupported(f"{here}.action", action, _ACTIONS)
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            text = "requires the backoffLimitPerIndex to be set"
            found.invalid(f"{here}.action", action, text)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
        if codes is not None:
            _validate_on_exit_codes(codes, names, f"{here}.onExitCodes", found)
        if conditions:
            _validate_on_pod_conditions(conditions, f"{here}.onPodConditions", found)
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.invalid_whole(here, text)
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            found.invalid_whole(here, text)


def _validate_on_exit_codes(codes: Obj, names: set[str], at: str, found: ErrorList) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    container = codes.get("containerName")
    if not operator:
        found.required(f"{at}.operator", _render_list(_OPERATORS))
    elif operator not in _OPERATORS:
        found.unsupported(f"{at}.operator", operator, _OPERATORS)
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        found.invalid(f"{at}.containerName", container, text)
    if not values:
        shown = Rendered("null") if codes.get("values") is None else values
        found.invalid(f"{at}.values", shown, "at least one value is required")
    elif len(values) > _MAX_CODES:
        found.too_many(f"{at}.values", len(values), _MAX_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            found.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            found.duplicate(f"{at}.values[{index}]", value)
    if values != sorted(values):
        found.invalid(f"{at}.values", values, "must be ordered")


def _validate_on_pod_conditions(conditions: list[Obj], at: str, found: ErrorList) -> None:
    if len(conditions) > _MAX_CONDITIONS:
        found.too_many(at, len(conditions), _MAX_CONDITIONS)
    for index, pattern in enumerate(conditions):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        found.texts(f"{at}[{index}].type", kind, label_key_texts(kind))
        if not status:
            found.required(f"{at}[{index}].status", _render_list(_STATUSES))
        elif status not in _STATUSES:
            found.unsupported(f"{at}[{index}].status", status, _STATUSES)
