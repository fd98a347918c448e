"""Containers that have ended and are not started again where they ought to be running."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.framework.terminal_states.endings import describe_exit

__all__ = ["detect_finished_container", "will_restart"]


def will_restart(pod: dict[str, Any], name: str, terminated: dict[str, Any]) -> bool | None:
    """Say whether the kubelet starts a container again that has ended; None where nobody knows.

    The pod's policy decides, or the container's own. Rules of its own by exit code are taken for
    unknown, and so is a pod whose policy was not read.

    Args:
        pod: the pod.
        name: the container's name.
        terminated: how it has ended.

    Source: kubernetes/pkg/kubelet/container/helpers.go, ShouldContainerBeRestarted.
    """
    spec = pod.get("spec") or {}
    policy, failed = spec.get("restartPolicy"), terminated.get("exitCode") != 0
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            if container.get("name") != name:
                continue
            if container.get("restartPolicyRules"):
                return None
            if container.get("restartPolicy"):
                policy = container["restartPolicy"]
            elif kind == "initContainers" and policy == "Always":
                # One that is done is done; only a sidecar has a policy of its own.
                policy = "OnFailure"
    if policy == "OnFailure":
        return failed
    return {"Always": True, "Never": False}.get(policy or "")


def detect_finished_container(pod: dict[str, Any], name: str = "") -> TerminalState | None:
    """Return the doom of a pod of which a container has ended for good; None while all may run.

    Args:
        pod: the pod; its spec must name its restart policy, or nothing is said.
        name: the only container that matters; empty for all of them, init containers apart.
    """
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state, facts = get_current_state(container)
        its_name = container.get("name") or ""
        if state != "terminated" or (name and its_name != name):
            continue
        if will_restart(pod, its_name, facts) is False:
            text = f"container {its_name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Patience.SHORT)
    return None
