"""The status of a pod as its kubelet publishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.kubelet.images import to_canonical_name
from pytest_kwait.simulator.kubelet.runtime.containers import SIGKILL_EXIT_CODE, Container
from pytest_kwait.simulator.kubelet.runtime.restart_policy import is_sidecar, should_restart
from pytest_kwait.simulator.kubelet.status import (
    KUBELET_CONDITIONS,
    compute_conditions,
    compute_phase,
)
from pytest_kwait.simulator.objects import Obj, clone

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker

__all__ = ["TERMINAL_PHASES", "PodStatusGenerator"]

TERMINAL_PHASES = ("Succeeded", "Failed")

_CONTAINER_STATUS_UNKNOWN = {
    "exitCode": SIGKILL_EXIT_CODE,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


class PodStatusGenerator:
    """Makes the status of one pod from what its worker knows.

    Args:
        worker: the pod's worker.
    """

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker
        self.written: Obj = clone(worker.pod.get("status") or {})
        """The status as it was last published."""

    def generate(self) -> tuple[Obj, str]:
        """Return the status for what is so now, and the phase that the containers amount to.

        The phase differs from the published one while something might still run.
        """
        pod = {
            **self._worker.pod,
            "status": {
                **(self._worker.pod.get("status") or {}),
                "conditions": self._conditions_so_far(),
            },
        }
        spec, stamp = pod["spec"], self._worker.node.clock.stamp()
        init_names = [one["name"] for one in spec.get("initContainers") or ()]
        ephemeral = spec.get("ephemeralContainers") or []
        statuses = {
            one["name"]: self._container_status(one, one["name"] in init_names)
            for one in [*(spec.get("initContainers") or ()), *spec["containers"]]
        }
        started = any(
            self._worker.runtime_manager.current(one["name"]) is not None
            for one in spec["containers"]
        )
        phase = compute_phase(pod, statuses, terminal=self._worker.finished, initialized=started)
        if self._worker.evicted is not None:
            phase = "Failed"
        conditions = compute_conditions(
            pod, statuses, phase, sandbox=self._worker.sandbox, started=started, stamp=stamp,
            restarting=self._worker.runtime_manager.all_restart(),
        )  # fmt: skip
        if self._worker.allocation.pending is not None and not self._worker.finished:
            conditions.insert(0, dict(self._worker.allocation.pending))
        published = phase
        if self._worker.finished and phase not in TERMINAL_PHASES:
            # A pod that is over has no waiting containers: what never ran counts as failed.
            _terminate_unknown(statuses[one["name"]] for one in spec["containers"])
            phase = published = "Failed"
        elif phase in TERMINAL_PHASES and not self._worker.finished:
            # Not before the sandbox is gone: until then something might still run.
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
        regular = sorted(one["name"] for one in spec["containers"])
        status["containerStatuses"] = [statuses[name] for name in regular]
        if ephemeral:
            shown = {one["name"]: self._ephemeral_status(one) for one in ephemeral}
            status["ephemeralContainerStatuses"] = [shown[name] for name in sorted(shown)]
        status["qosClass"] = (self._worker.pod.get("status") or {}).get("qosClass", "BestEffort")
        status["resources"] = {}
        return status, phase

    def _conditions_so_far(self) -> list[Obj]:
        """Return the API's conditions of others, and our own as we wrote them."""
        last = (self._worker.pod.get("status") or {}).get("conditions") or []
        written = self.written.get("conditions") or []
        ours = [one for one in written if one["type"] in KUBELET_CONDITIONS]
        types = {one["type"] for one in ours}
        return [*(one for one in last if one["type"] not in types), *ours]

    def _ephemeral_status(self, spec: Obj) -> Obj:
        """Return the status of a container that came later: never ready, never started again."""
        status = self._container_status(spec, init=False)
        if "waiting" in status["state"] and "message" not in status["state"]["waiting"]:
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
        status["ready"] = False
        del status["started"]
        return status

    def _container_status(self, spec: Obj, init: bool) -> Obj:
        name = spec["name"]
        current, last = (
            self._worker.runtime_manager.current(name),
            self._worker.runtime_manager.last(name),
        )
        waiting = {
            "reason": "PodInitializing"
            if self._worker.pod["spec"].get("initContainers")
            else "ContainerCreating"
        }
        status: Obj = {"name": name, "state": {"waiting": waiting}, "lastState": {}}
        if current is not None:
            status["state"] = current.state()
        removed = self._worker.runtime_manager.removed(name)
        if last is not None:
            status["lastState"] = last.state()
        elif removed is not None:
            status["lastState"] = clone(removed)
        trouble = self._worker.runtime_manager.trouble(name)
        if trouble is not None and self._starts_again(spec, current):
            if current is not None and current.exited:
                status["lastState"] = current.state()
            status["state"] = {"waiting": {"reason": trouble[0], "message": trouble[1]}}
        running = "running" in status["state"]
        started = running and self._worker.runtime_manager.is_started(name)
        ready = started and self._worker.runtime_manager.is_ready(name)
        if init and not is_sidecar(spec):
            ready = current is not None and current.exit_code == 0
            started = running
        status["ready"] = ready
        status["restartCount"] = self._worker.runtime_manager.restarts(name)
        status["image"] = spec["image"] if current is None else to_canonical_name(spec["image"])
        status["imageID"] = "" if current is None else current.image.image_id
        if current is not None:
            status["containerID"] = current.container_id
        status["started"] = started
        resources = spec.get("resources") or {}
        if current is not None:
            if resources.get("requests"):
                status["allocatedResources"] = clone(resources["requests"])
            status["resources"] = clone(self._worker.runtime_manager.resources(spec))
        mounts = [_make_mount_status(one) for one in spec.get("volumeMounts") or ()]
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
        """Return the status for what is so now, and that resources are changing."""
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
        """Return the last status with nothing changed but that the sandbox is there."""
        stamp, conditions = self._worker.node.clock.stamp(), []
        for condition in self.written.get("conditions") or ():
            if condition["type"] == "PodReadyToStartContainers":
                condition = {**condition, "status": "True", "lastTransitionTime": stamp}
            conditions.append(condition)
        return {**self.written, "conditions": conditions}


def _add_disruption_condition(conditions: list[Obj], pod: Obj, message: str, stamp: str) -> None:
    """Say in the conditions that the kubelet has given the pod up.

    Source: status_manager.go, `mergePodStatus`: not before its containers have ended.
    """
    kind = "DisruptionTarget"
    old = next((one for one in conditions if one["type"] == kind), None)
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
