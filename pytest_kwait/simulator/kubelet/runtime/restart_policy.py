"""Which containers are started again: pod and container policies, and rules for exit codes.

Source: pkg/api/v1/pod/util.go, `ContainerShouldRestart`, `FindMatchingContainerRestartRule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "has_restart_all_rule",
    "is_sidecar",
    "restarts_after_probe_failure",
    "restarts_all_containers",
    "should_restart",
]

_RESTART_ALL = "RestartAllContainers"


def is_sidecar(container: Mapping[str, object]) -> bool:
    """Whether an init container stays and runs beside the others."""
    return container.get("restartPolicy") == "Always"


def _find_rule(container: Obj, exit_code: int) -> str:
    """Return the action of the first rule for the exit code, empty where there is none."""
    if not container.get("restartPolicy"):
        return ""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = exit_code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            action: str = rule.get("action") or ""
            return action
    return ""


def restarts_all_containers(container: Obj, exit_code: int) -> bool:
    """Whether a container that ended so makes all of them start again."""
    return _find_rule(container, exit_code) == _RESTART_ALL


def has_restart_all_rule(pod: Obj) -> bool:
    """Whether some container may make all of them start again."""
    spec = pod["spec"]
    return any(
        rule.get("action") == _RESTART_ALL
        for one in [*(spec.get("initContainers") or ()), *spec["containers"]]
        for rule in one.get("restartPolicyRules") or ()
    )


def _is_init(pod: Obj, container: Obj) -> bool:
    return any(one["name"] == container["name"] for one in pod["spec"].get("initContainers") or ())


def should_restart(pod: Obj, container: Obj, exit_code: int) -> bool:
    """Whether a container that ended so is started again."""
    if _find_rule(container, exit_code):
        return True
    if exit_code == 0 and _is_init(pod, container) and not is_sidecar(container):
        # Init containers that ended well are done, whatever the pod's policy.
        return False
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restarts_after_probe_failure(pod: Obj, container: Obj) -> bool:
    """Whether a container that a probe ends is started again: rules have no say in that.

    Source: kuberuntime_manager.go, `computePodActions`.
    """
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    return bool(policy != "Never")
