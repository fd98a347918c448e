"""When containers are restarted: by their own policy and rules, and by a change of resources.

Source: pkg/apis/core/validation/validation.go, validateContainerRestartPolicy,
validateInitContainerRestartPolicy, validateResizePolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_resize_policy", "check_restart_policy"]

_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_CODES = 20, 255
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")


def check_restart_policy(container: Obj, at: str, found: Findings) -> None:
    """A container's own policy, and the exit codes that it makes exceptions for."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    if policy is None:
        if rules:
            text = "must specify restartPolicy when restart rules are used"
            found.required(f"{at}.restartPolicy", text)
    elif policy not in _POLICIES:
        found.unsupported(f"{at}.restartPolicy", policy, _POLICIES)
    if len(rules) > _MOST_RULES:
        found.too_many(f"{at}.restartPolicyRules", len(rules), _MOST_RULES)
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
        if len(values) > _MOST_CODES:
            found.too_many(f"{here}.exitCodes.values", len(values), _MOST_CODES)


def check_resize_policy(policies: list[Obj], of_pod: str, at: str, found: Findings) -> None:
    """What a change of a resource does; `of_pod` is the pod's restart policy."""
    here, seen = f"{at}.resizePolicy", set()
    for index, one in enumerate(policies):
        resource, policy = one.get("resourceName", ""), one.get("restartPolicy", "")
        if resource in seen:
            found.duplicate(f"{here}[{index}]", resource)
        seen.add(resource)
        found.one_of(here, resource, _RESIZED)
        found.one_of(here, policy, _RESIZE_POLICIES)
        if of_pod == "Never" and policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.invalid(here, policy, text)
