"""The status of a pod: phase, conditions and container statuses.

Phase and conditions are pure functions on dicts.

Source: kubelet_pods.go `getPhase`; status/generate.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.image_reference import to_canonical_name
from pytest_kwait.simulator.kubelet.cri import SIGKILL_EXIT_CODE
from pytest_kwait.simulator.kubelet.restart_policy import (
    RESTARTING_ALL,
    has_restart_all_rule,
    is_sidecar,
    should_restart,
)
from pytest_kwait.simulator.objects import Obj, clone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.simulator.kubelet.allocation import PodAllocation
    from pytest_kwait.simulator.kubelet.container import Container
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.kubelet.runtime_manager import RuntimeManager

# In the order of `status.conditions`.
KUBELET_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "AllContainersRestarting",
)
OWN_CONDITIONS = (*KUBELET_CONDITIONS, "PodResizePending", "PodResizeInProgress")
"""The types of conditions that only the kubelet writes."""
TERMINAL_PHASES = ("Succeeded", "Failed")

_CONTAINER_STATUS_UNKNOWN = {
    "exitCode": SIGKILL_EXIT_CODE,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


def _get_terminated(state: Obj | None) -> Obj | None:
    terminated: Obj | None = (state or {}).get("terminated")
    return terminated


def _will_restart(pod: Obj, container: Obj, ended: Obj) -> bool:
    if ended.get("reason") == RESTARTING_ALL:
        return True
    return should_restart(pod, container, ended.get("exitCode", 0))


class _StateCounts:
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
        # A failed init container that restarts counts as neither, as upstream.

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
    """Return the phase of a pod.

    Args:
        statuses: container statuses by name, with those of init containers.
        terminal: whether the containers have ended for good.
        initialized: whether a regular container was started.
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
        *(
            container["name"]
            for container in pod["spec"].get("initContainers") or ()
            if is_sidecar(container)
        ),
        *(container["name"] for container in pod["spec"]["containers"]),
    ]
    unknown = [name for name in watched if name not in statuses]
    unready = [name for name in watched if name in statuses and not statuses[name].get("ready")]
    if phase == "Succeeded" and not unknown:
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    messages = []
    if unknown:
        messages.append(f"containers with unknown status: {_join_names(unknown)}")
    if unready:
        messages.append(f"containers with unready status: {_join_names(unready)}")
    return ("False", "ContainersNotReady", ", ".join(messages)) if messages else ("True", "", "")


def _check_ready(
    pod: Obj, other_conditions: Sequence[Obj], containers: tuple[str, str, str]
) -> tuple[str, str, str]:
    if containers[0] != "True":
        return containers
    statuses = {condition["type"]: condition["status"] for condition in other_conditions}
    messages = []
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate["conditionType"]
        if kind not in statuses:
            messages.append(
                f'corresponding condition of pod readiness gate "{kind}" does not exist.'
            )
        elif statuses[kind] != "True":
            messages.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {statuses[kind]}'
            )
    return ("False", "ReadinessGatesNotReady", ", ".join(messages)) if messages else containers


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
    messages = []
    if unknown:
        messages.append(f"containers with unknown status: {_join_names(unknown)}")
    if incomplete:
        messages.append(f"containers with incomplete status: {_join_names(incomplete)}")
    return (
        ("False", "ContainersNotInitialized", ", ".join(messages)) if messages else ("True", "", "")
    )


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
    """Return the conditions of a pod: foreign ones first, then the kubelet's.

    Args:
        pod: the pod with its last status.
        statuses: container statuses by name, with those of init containers.
        phase: the phase, also before it is published.
        sandbox: whether the sandbox with its network is up.
        started: whether a regular container was ever started.
        stamp: the current time.
        restarting: whether all containers restart.
    """
    last = (pod.get("status") or {}).get("conditions") or ()
    other_conditions = [condition for condition in last if condition["type"] not in OWN_CONDITIONS]
    containers = _check_containers_ready(pod, statuses, phase)
    values = {
        "PodReadyToStartContainers": ("True" if sandbox else "False", "", ""),
        "Initialized": _check_initialized(pod, statuses, phase, started),
        "Ready": _check_ready(pod, other_conditions, containers),
        "ContainersReady": containers,
        "PodScheduled": ("True", "", ""),
    }
    if has_restart_all_rule(pod):
        values["AllContainersRestarting"] = (
            ("True", "RestartAllContainersStarted", "container exited with restart policy rule")
            if restarting
            else ("False", "", "")
        )
    before = {condition["type"]: condition for condition in last}
    conditions = list(other_conditions)
    for kind in KUBELET_CONDITIONS:
        if kind not in values:
            continue
        status, reason, message = values[kind]
        old = before.get(kind)
        generation = {"observedGeneration": pod["metadata"].get("generation", 1)}
        condition: Obj = {
            "type": kind,
            # Upstream sets no generation here.
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


class PodStatusGenerator:
    """Generates the status of one pod.

    Args:
        runtime: its containers.
        allocation: its allocated resources.
    """

    def __init__(
        self, worker: PodContext, runtime: RuntimeManager, allocation: PodAllocation
    ) -> None:
        self._worker = worker
        self._runtime = runtime
        self._allocation = allocation
        self.written: Obj = clone(worker.pod.get("status") or {})
        """The last published status."""

    def generate(self) -> tuple[Obj, str]:
        """Return the current status, and the phase that the containers imply.

        That phase differs from the published one while the sandbox is still up.
        """
        pod = {
            **self._worker.pod,
            "status": {
                **(self._worker.pod.get("status") or {}),
                "conditions": self._conditions_so_far(),
            },
        }
        spec, stamp = pod["spec"], self._worker.node.clock.stamp()
        init_names = [container["name"] for container in spec.get("initContainers") or ()]
        ephemeral = spec.get("ephemeralContainers") or []
        statuses = {
            container["name"]: self._container_status(container, container["name"] in init_names)
            for container in [*(spec.get("initContainers") or ()), *spec["containers"]]
        }
        started = any(
            self._runtime.record(container["name"]).current is not None
            for container in spec["containers"]
        )
        phase = compute_phase(pod, statuses, terminal=self._worker.finished, initialized=started)
        if self._worker.evicted is not None:
            phase = "Failed"
        conditions = compute_conditions(
            pod, statuses, phase, sandbox=self._worker.sandbox, started=started, stamp=stamp,
            restarting=self._runtime.must_restart_all(),
        )  # fmt: skip
        if self._allocation.pending is not None and not self._worker.finished:
            conditions.insert(0, dict(self._allocation.pending))
        published = phase
        if self._worker.finished and phase not in TERMINAL_PHASES:
            # A finished pod has no waiting containers: one that never ran counts as failed.
            _terminate_unknown(statuses[container["name"]] for container in spec["containers"])
            phase = published = "Failed"
        elif phase in TERMINAL_PHASES and not self._worker.finished:
            # A terminal phase is published once the sandbox is down.
            published = self.written.get("phase") or "Pending"
        status: Obj = {
            "observedGeneration": pod["metadata"].get("generation", 1),
            "phase": published,
            "conditions": conditions,
        }
        ending = self._worker.evicted
        if ending is not None and self._worker.finished:
            status["reason"], status["message"] = ending.reason, ending.message
            if ending.disrupted:
                _add_disruption_condition(conditions, pod, ending.message, stamp)
        status["hostIP"] = self._worker.node.address
        status["hostIPs"] = [{"ip": self._worker.node.address}]
        if self._worker.pod_ip:
            status["podIP"] = self._worker.pod_ip
            status["podIPs"] = [{"ip": self._worker.pod_ip}]
        status["startTime"] = self.written.get("startTime") or stamp
        if init_names:
            status["initContainerStatuses"] = [statuses[name] for name in init_names]
        regular = sorted(container["name"] for container in spec["containers"])
        status["containerStatuses"] = [statuses[name] for name in regular]
        if ephemeral:
            ephemeral_statuses = {
                container["name"]: self._ephemeral_status(container) for container in ephemeral
            }
            status["ephemeralContainerStatuses"] = [
                ephemeral_statuses[name] for name in sorted(ephemeral_statuses)
            ]
        status["qosClass"] = (self._worker.pod.get("status") or {}).get("qosClass", "BestEffort")
        status["resources"] = {}
        return status, phase

    def _conditions_so_far(self) -> list[Obj]:
        """Return foreign conditions from the API, and the kubelet's as last published."""
        last = (self._worker.pod.get("status") or {}).get("conditions") or []
        written = self.written.get("conditions") or []
        kubelet_conditions = [
            condition for condition in written if condition["type"] in KUBELET_CONDITIONS
        ]
        types = {condition["type"] for condition in kubelet_conditions}
        return [
            *(condition for condition in last if condition["type"] not in types),
            *kubelet_conditions,
        ]

    def _ephemeral_status(self, spec: Obj) -> Obj:
        """Return the status of an ephemeral container, which is never ready and never restarts."""
        status = self._container_status(spec, init=False)
        if "waiting" in status["state"] and "message" not in status["state"]["waiting"]:
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
        status["ready"] = False
        del status["started"]
        return status

    def _container_status(self, spec: Obj, init: bool) -> Obj:
        name = spec["name"]
        record = self._runtime.record(name)
        current, last = record.current, record.last
        waiting = {
            "reason": "PodInitializing"
            if self._worker.pod["spec"].get("initContainers")
            else "ContainerCreating"
        }
        status: Obj = {"name": name, "state": {"waiting": waiting}, "lastState": {}}
        if current is not None:
            status["state"] = current.state()
        if last is not None:
            status["lastState"] = last.state()
        elif record.removed is not None:
            status["lastState"] = clone(record.removed)
        if record.waiting_reason is not None and self._starts_again(spec, current):
            if current is not None and current.exited:
                status["lastState"] = current.state()
            status["state"] = {
                "waiting": dict(zip(("reason", "message"), record.waiting_reason, strict=True))
            }
        running = "running" in status["state"]
        started = running and record.is_started
        ready = started and record.is_ready
        if init and not is_sidecar(spec):
            ready = current is not None and current.exit_code == 0
            started = running
        status["ready"] = ready
        status["restartCount"] = record.restarts
        status["image"] = spec["image"] if current is None else to_canonical_name(spec["image"])
        status["imageID"] = "" if current is None else current.image_id
        if current is not None:
            status["containerID"] = current.container_id
        status["started"] = started
        resources = spec.get("resources") or {}
        if current is not None:
            if resources.get("requests"):
                status["allocatedResources"] = clone(resources["requests"])
            status["resources"] = clone((record.configured or spec).get("resources") or {})
        mounts = [_make_mount_status(mount) for mount in spec.get("volumeMounts") or ()]
        if mounts:
            status["volumeMounts"] = mounts
        return status

    def _starts_again(self, spec: Obj, current: Container | None) -> bool:
        if self._worker.deleted or self._worker.finished:
            return False
        if current is None:
            return True
        return current.exited and should_restart(self._worker.pod, spec, current.exit_code or 0)

    def with_resize(self) -> Obj:
        """Return the current status with `PodResizeInProgress`."""
        status, _ = self.generate()
        stamp = self._worker.node.clock.stamp()
        condition = {
            "type": "PodResizeInProgress",
            "observedGeneration": status["observedGeneration"],
            "status": "True",
            "lastProbeTime": stamp,
            "lastTransitionTime": stamp,
        }
        return {**status, "conditions": [condition, *status["conditions"]]}

    def with_sandbox(self) -> Obj:
        """Return the last status with the sandbox marked as up."""
        stamp, conditions = self._worker.node.clock.stamp(), []
        for condition in self.written.get("conditions") or ():
            if condition["type"] == "PodReadyToStartContainers":
                condition = {**condition, "status": "True", "lastTransitionTime": stamp}
            conditions.append(condition)
        return {**self.written, "conditions": conditions}


def _add_disruption_condition(conditions: list[Obj], pod: Obj, message: str, stamp: str) -> None:
    """Add the condition `DisruptionTarget`.

    Source: status_manager.go, `mergePodStatus`: not before its containers have ended.
    """
    kind = "DisruptionTarget"
    old = next((condition for condition in conditions if condition["type"] == kind), None)
    condition = {
        "type": kind,
        "observedGeneration": pod["metadata"].get("generation", 1),
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": stamp,
        "reason": "TerminationByKubelet",
        "message": message,
    }
    if old is None:
        conditions.append(condition)
    elif old.get("reason") != condition["reason"]:
        conditions[conditions.index(old)] = condition


def _terminate_unknown(statuses: Iterable[Obj]) -> None:
    for status in statuses:
        if "terminated" not in status["state"]:
            status["state"] = {"terminated": dict(_CONTAINER_STATUS_UNKNOWN)}
            status["ready"] = status["started"] = False


def _make_mount_status(mount: Obj) -> Obj:
    status: Obj = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        status["readOnly"] = True
        status["recursiveReadOnly"] = "Disabled"
    return status
