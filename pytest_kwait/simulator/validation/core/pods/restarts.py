"""When containers are restarted: by their own policy and rules, and by a change of resources.

Source: pkg/apis/core/validation/validation.go, validateContainerRestartPolicy,
validateInitContainerRestartPolicy, validateResizePolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_resize_policy", "validate_restart_policy"]

_CONTAINER_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MAX_RULES, _MAX_CODES = 20, 255
_RESIZABLE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")


def validate_restart_policy(container: Obj, at: str, found: ErrorList) -> None:
    """A container's own policy, and the exit codes that it makes exceptions for."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            found.required(f"{at}.restartPolicy", text)
    elif policy not in _CONTAINER_RESTART_POLICIES:
        found.unsupported(f"{at}.restartPolicy", policy, _CONTAINER_RESTART_POLICIES)
    if len(rules) > _MAX_RULES:
        found.too_many(f"{at}.restartPolicyRules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        here = f"{at}.restartPolicyRules[{index}]"
        action, codes = rule.get("action", ""), rule.get("exitCodes")
        if action not in _ACTIONS:
            found.unsupported(f"{here}.action", action, _ACTIONS)
        if codes is None:
            found.required(f"{here}.exitCodes", "must be specified")
            continue
        operator, values = codes.get("operator", ""), codes.get("values", [])
        if operator not in _OPERATORS:
            found.unsupported(f"{here}.exitCodes.operator", operator, _OPERATORS)
        if len(values) > _MAX_CODES:
            found.too_many(f"{here}.exitCodes.values", len(values), _MAX_CODES)


def validate_resize_policy(policies: list[Obj], of_pod: str, at: str, found: ErrorList) -> None:
    """What a change of a resource does; `of_pod` is the pod's restart policy."""
    here, seen = f"{at}.resizePolicy", set()
    for index, one in enumerate(policies):
        resource, policy = one.get("resourceName", ""), one.get("restartPolicy", "")
        if resource in seen:
            found.duplicate(f"{here}[{index}]", resource)
        seen.add(resource)
        found.one_of(here, resource, _RESIZABLE_RESOURCES)
        found.one_of(here, policy, _RESIZE_POLICIES)
        if of_pod == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.invalid(here, policy, text)
