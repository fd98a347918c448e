"""A pod's row: the one word that sums up its containers.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, printPod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["pod_cells"]

_NONE = "<none>"


def pod_cells(pod: Obj, age: str, since: Callable[[str | None], str]) -> list[Any]:
    """Name, ready, status, restarts, age, and what wide output adds."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    restarts, ready, last = 0, 0, ""
    reason = _init_container_reason(spec, status)
    initializing = reason is not None
    if reason is None:
        reason, running = status.get("reason") or status.get("phase", ""), False
        for state in reversed(status.get("containerStatuses", ())):
            restarts += state.get("restartCount", 0)
            ended = state.get("lastState", {}).get("terminated", {})
            last = max(last, ended.get("finishedAt") or "")
            waiting = state.get("state", {}).get("waiting")
            terminated = state.get("state", {}).get("terminated")
            if waiting and waiting.get("reason"):
                reason = waiting["reason"]
            elif terminated and terminated.get("reason"):
                reason = terminated["reason"]
            elif terminated:
                reason = _termination_reason(terminated)
            elif state.get("ready") and state.get("state", {}).get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed" and running:
            is_ready = any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in status.get("conditions", ())
            )
            reason = "Running" if is_ready else "NotReady"
    else:
        for state in status.get("initContainerStatuses", ()):
            restarts += state.get("restartCount", 0)
    if not initializing and status.get("phase") == "Pending" and reason == "Pending":
        gated = any(
            one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated"
            for one in status.get("conditions", ())
        )
        reason = "SchedulingGated" if gated else reason
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Failed", "Succeeded"):
            reason = "Terminating"
    restarted = f"{restarts} ({since(last)} ago)" if restarts and last else str(restarts)
    gates = spec.get("readinessGates", ())
    held = {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}
    met = sum(gate["conditionType"] in held for gate in gates)
    return [
        pod["metadata"]["name"],
        f"{ready}/{len(spec.get('containers', ()))}",
        reason,
        restarted,
        age,
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{met}/{len(gates)}" if gates else _NONE,
    ]


def _init_container_reason(spec: Obj, status: Obj) -> str | None:
    """What init containers wait for, None when they are done."""
    total = len(spec.get("initContainers", ()))
    for index, state in enumerate(status.get("initContainerStatuses", ())):
        terminated = state.get("state", {}).get("terminated")
        waiting = state.get("state", {}).get("waiting")
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if state.get("started") and _is_sidecar(spec, index):
            continue
        if terminated:
            return f"Init:{terminated.get('reason') or _termination_reason(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def _is_sidecar(spec: Obj, index: int) -> bool:
    containers = spec.get("initContainers", ())
    return index < len(containers) and containers[index].get("restartPolicy") == "Always"


def _termination_reason(terminated: Obj) -> str:
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
