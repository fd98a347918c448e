"""What a pod's status says for the state its containers are in: pure functions on dicts.

Source: kubelet_pods.go `getPhase`; status/generate.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.runtime.restart_policy import (
    has_restart_all_rule,
    is_sidecar,
    should_restart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "KUBELET_CONDITIONS",
    "RESTARTING_ALL",
    "compute_conditions",
    "compute_phase",
]

RESTARTING_ALL = "RestartingAllContainers"
"""The reason of containers that are taken away so that all of them start again."""

# In the order of the status.
KUBELET_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "AllContainersRestarting",
)


def _get_terminated(state: Obj | None) -> Obj | None:
    found: Obj | None = (state or {}).get("terminated")
    return found


def _will_restart(pod: Obj, container: Obj, ended: Obj) -> bool:
    if ended.get("reason") == RESTARTING_ALL:
        return True
    return should_restart(pod, container, ended.get("exitCode", 0))


class _StateCounts:
    """How many containers are in which state."""

    def __init__(self) -> None:
        self.pending_init = 0
        self.pending_sidecars = 0
        self.failed_init = 0
        self.unknown = 0
        self.running = 0
        self.waiting = 0
        self.stopped = 0
        self.final = 0
        self.succeeded = 0

    def init(self, pod: Obj, container: Obj, status: Obj | None) -> None:
        state = (status or {}).get("state") or {}
        ended = _get_terminated(state) or (
            _get_terminated((status or {}).get("lastState")) if "waiting" in state else None
        )
        if ended is None:
            self.pending_init += 1
        elif ended.get("exitCode") and not _will_restart(pod, container, ended):
            self.failed_init += 1
        # One that failed and is started again counts as neither, as upstream.

    def sidecar(self, status: Obj | None) -> None:
        if status is None:
            self.unknown += 1
            return
        state = status.get("state") or {}
        if "running" in state:
            self.running += 1
            self.pending_sidecars += not status.get("started")
        elif "waiting" in state and _get_terminated(status.get("lastState")) is None:
            self.pending_sidecars += 1
            self.waiting += 1

    def regular(self, pod: Obj, container: Obj, status: Obj | None) -> None:
        state = (status or {}).get("state") or {}
        if status is None or not state:
            self.unknown += 1
            return
        if "running" in state:
            self.running += 1
            return
        ended = _get_terminated(state)
        last = _get_terminated(status.get("lastState"))
        if ended is None and last is None:
            self.waiting += 1
            return
        self.stopped += 1
        self.final += not _will_restart(pod, container, ended or last or {})
        code = (ended or {}).get("exitCode", 0)
        self.succeeded += ended is not None and code == 0


def compute_phase(
    pod: Obj, statuses: Mapping[str, Obj], *, terminal: bool = False, initialized: bool = False
) -> str:
    """Return the pod's phase.

    Args:
        pod: the pod.
        statuses: container statuses by name, init containers included.
        terminal: no container will ever be started again.
        initialized: a regular container has been started.
    """
    spec, count = pod["spec"], _StateCounts()
    for container in spec.get("initContainers") or ():
        status = statuses.get(container["name"])
        if is_sidecar(container):
            count.sidecar(status)
        else:
            count.init(pod, container, status)
    for container in spec["containers"]:
        count.regular(pod, container, statuses.get(container["name"]))
    if count.failed_init:
        return "Failed"
    if count.pending_init or (count.pending_sidecars and not initialized) or count.waiting:
        return "Pending"
    if count.running and not count.unknown:
        return "Running"
    if count.stopped and not count.unknown:
        if not terminal and count.stopped != count.final:
            return "Running"
        return "Succeeded" if count.stopped == count.succeeded else "Failed"
    return "Pending"


def _join_names(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


def _check_containers_ready(
    pod: Obj, statuses: Mapping[str, Obj], phase: str
) -> tuple[str, str, str]:
    watched = [
        *(one["name"] for one in pod["spec"].get("initContainers") or () if is_sidecar(one)),
        *(one["name"] for one in pod["spec"]["containers"]),
    ]
    unknown = [name for name in watched if name not in statuses]
    unready = [name for name in watched if name in statuses and not statuses[name].get("ready")]
    if phase == "Succeeded" and not unknown:
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    told = []
    if unknown:
        told.append(f"containers with unknown status: {_join_names(unknown)}")
    if unready:
        told.append(f"containers with unready status: {_join_names(unready)}")
    return ("False", "ContainersNotReady", ", ".join(told)) if told else ("True", "", "")


def _check_ready(
    pod: Obj, others: Sequence[Obj], containers: tuple[str, str, str]
) -> tuple[str, str, str]:
    if containers[0] != "True":
        return containers
    present = {one["type"]: one["status"] for one in others}
    told = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in present:
            told.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif present[kind] != "True":
            told.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {present[kind]}'
            )
    return ("False", "ReadinessGatesNotReady", ", ".join(told)) if told else containers


def _check_initialized(
    pod: Obj, statuses: Mapping[str, Obj], phase: str, started: bool
) -> tuple[str, str, str]:
    unknown, incomplete = [], []
    for container in pod["spec"].get("initContainers") or ():
        name = container["name"]
        status = statuses.get(name)
        if status is None:
            unknown.append(name)
        elif not status.get("started" if is_sidecar(container) else "ready"):
            incomplete.append(name)
    if phase == "Succeeded" and not unknown:
        return "True", "PodCompleted", ""
    if started:
        return "True", "", ""
    told = []
    if unknown:
        told.append(f"containers with unknown status: {_join_names(unknown)}")
    if incomplete:
        told.append(f"containers with incomplete status: {_join_names(incomplete)}")
    return ("False", "ContainersNotInitialized", ", ".join(told)) if told else ("True", "", "")


def compute_conditions(
    pod: Obj,
    statuses: Mapping[str, Obj],
    phase: str,
    *,
    sandbox: bool,
    started: bool,
    stamp: str,
    restarting: bool = False,
) -> list[Obj]:
    """Return the pod's conditions: others' first, then the kubelet's own in their order.

    Args:
        pod: the pod with its last status.
        statuses: container statuses by name, init containers included.
        phase: the pod's phase, also where it is not yet published.
        sandbox: whether the pod's sandbox with its network is there.
        started: whether a regular container has ever been started.
        stamp: now.
        restarting: whether a container ended so that all of them start again.
    """
    last = (pod.get("status") or {}).get("conditions") or ()
    own = (*KUBELET_CONDITIONS, "PodResizePending", "PodResizeInProgress")
    others = [one for one in last if one["type"] not in own]
    containers = _check_containers_ready(pod, statuses, phase)
    values = {
        "PodReadyToStartContainers": ("True" if sandbox else "False", "", ""),
        "Initialized": _check_initialized(pod, statuses, phase, started),
        "Ready": _check_ready(pod, others, containers),
        "ContainersReady": containers,
        "PodScheduled": ("True", "", ""),
    }
    if has_restart_all_rule(pod):
        values["AllContainersRestarting"] = (
            ("True", "RestartAllContainersStarted", "container exited with restart policy rule")
            if restarting
            else ("False", "", "")
        )
    before = {one["type"]: one for one in last}
    conditions = list(others)
    for kind in KUBELET_CONDITIONS:
        if kind not in values:
            continue
        status, reason, message = values[kind]
        old = before.get(kind)
        generation = {"observedGeneration": pod["metadata"].get("generation", 1)}
        condition: Obj = {
            "type": kind,
            # Upstream names no generation in this one.
            **({} if kind == "AllContainersRestarting" else generation),
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": (
                old["lastTransitionTime"] if old is not None and old["status"] == status else stamp
            ),
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions.append(condition)
    return conditions
