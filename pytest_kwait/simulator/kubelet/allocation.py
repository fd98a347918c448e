"""Resources allocated to pods, and resizes of running containers.

A resize that does not fit the node is deferred until there is room.

Source: pkg/kubelet/allocation/allocation_manager.go; status/status_manager.go; kubelet.go,
`SyncPod`; kuberuntime_manager.go, `computePodResizeAction`; events/resize.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import NORMAL, WARNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.clock import SimClock
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.objects import Obj

_RESOURCE_ORDER = ("limits", "requests")
# Seconds between retries; source: allocation_manager.go, `retryDelay`.
_RETRY = 180.0
_FIELDS = ("initContainers", "containers")
_QOS_CLASSES = ("Guaranteed", "Burstable", "BestEffort")


def needs_restart(container: Obj, before: Obj) -> bool:
    """Return whether new resources need a restart of the container.

    Args:
        container: the requested spec.
        before: the spec as of its creation or last resize.
    """
    policies = {
        resize_policy["resourceName"]: resize_policy["restartPolicy"]
        for resize_policy in container.get("resizePolicy") or ()
    }
    new, old = container.get("resources") or {}, before.get("resources") or {}
    return any(
        policy == "RestartContainer"
        and any(
            (new.get(kind) or {}).get(name) != (old.get(kind) or {}).get(name)
            for kind in _RESOURCE_ORDER
        )
        for name, policy in policies.items()
    )


def record_resize(worker: PodContext, *, over: bool) -> None:
    """Record the start or completion of a resize."""
    word, reason = ("completed", "ResizeCompleted") if over else ("started", "ResizeStarted")
    worker.record_event(NORMAL, reason, f"Pod resize {word}: {_resize_summary(worker.pod)}")


def record_pending_resize(worker: PodContext, requested: Obj, why: str, message: str) -> None:
    """Record that a resize is deferred.

    Args:
        requested: the requested pod.
        why: the reason of the refusal.
        message: the message of the refusal.
    """
    text = f"Pod resize {why}: {_resize_summary(requested, error=message)}"
    worker.record_event(WARNING, "ResizeDeferred", text)


def _resize_summary(pod: Obj, **more: str) -> str:
    spec = pod["spec"]
    summary: Obj = {
        field: [_format_resources(container) for container in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    summary |= {"generation": pod["metadata"].get("generation", 1), **more}
    return json.dumps(summary, separators=(",", ":"), ensure_ascii=False)


def _format_resources(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    resources_by_kind = {
        kind: dict(sorted(resources[kind].items()))
        for kind in _RESOURCE_ORDER
        if resources.get(kind)
    }
    return {"name": container["name"], "resources": resources_by_kind}


def to_allocated_pod(pod: Obj) -> object:
    """Return the parts of a pod that the kubelet acts on: spec and readiness gates."""
    if not pod["spec"].get("readinessGates"):
        return pod["spec"]
    gates = {gate["conditionType"] for gate in pod["spec"]["readinessGates"]}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return pod["spec"], [
        (condition["type"], condition["status"])
        for condition in conditions
        if condition["type"] in gates
    ]


def _get_resources(pod: Obj) -> list[object]:
    spec = pod["spec"]
    container_resources = [
        container.get("resources") for field in _FIELDS for container in spec.get(field) or ()
    ]
    return [spec.get("resources"), *container_resources]


def _with_resources(pod: Obj, resources: list[object]) -> Obj:
    """Return the pod with other resources."""
    whole, *remaining_resources = resources
    spec = {**pod["spec"], "resources": whole}
    if whole is None:
        del spec["resources"]
    for field in _FIELDS:
        if spec.get(field):
            spec[field] = [
                {**container, "resources": remaining_resources.pop(0)} for container in spec[field]
            ]
    return {**pod, "spec": spec}


class PodAllocation:
    """The resources that a pod is allocated.

    Args:
        resizes: the deferred resizes of its node.
    """

    __slots__ = ("_allocated", "_checked", "_requested", "_resizes", "_worker", "pending")

    def __init__(self, worker: PodContext, resizes: DeferredResizes) -> None:
        self._worker = worker
        self._resizes = resizes
        self._allocated = _get_resources(worker.pod)
        self._requested = worker.pod
        self._checked = 0
        self.pending: Obj | None = None
        """The condition `PodResizePending`; None without a pending resize."""

    def apply(self, pod: Obj) -> Obj:
        """Return the pod with its allocated resources; try a new resize first."""
        resources = _get_resources(pod)
        if resources == self._allocated:
            if self.pending is not None:
                self.pending = None
                self._worker.sync()
            return pod
        self._requested = pod
        if self._worker.finished:
            return pod
        generation = pod["metadata"].get("generation", 1)
        if self._checked != generation:
            self._checked = generation
            if self._try_allocate():
                return pod
        return _with_resources(pod, self._allocated)

    def retry(self) -> None:
        """Retry a pending resize."""
        worker = self._worker
        waits = self.pending is not None and not worker.finished and not worker.deleted
        if waits and self._try_allocate():
            worker.pod = self._requested

    @property
    def priority(self) -> tuple[float, int, str]:
        """The order in which pending resizes are retried, lowest first.

        Source: allocation_manager.go, `sortPendingResizes`.
        """
        pod, pending = self._requested, self.pending or {}
        quality = (pod.get("status") or {}).get("qosClass", "BestEffort")
        since: str = pending.get("lastTransitionTime", "")
        return -float(pod["spec"].get("priority") or 0), _QOS_CLASSES.index(quality), since

    def _try_allocate(self) -> bool:
        """Allocate the requested resources; False if the resize is deferred.

        Source: allocation_manager.go, `handlePodResourcesResize`.
        """
        worker, requested = self._worker, self._requested
        refusal = self._resizes.allocate(self, worker.pod, requested)
        worker.sync()
        if refusal is None:
            self._allocated, self.pending = _get_resources(requested), None
            return True
        before, stamp = self.pending or {}, worker.node.clock.stamp()
        generation = requested["metadata"].get("generation", 1)
        self.pending = {
            "type": "PodResizePending",
            "observedGeneration": generation,
            "status": "True",
            "lastProbeTime": stamp,
            "lastTransitionTime": before.get("lastTransitionTime", stamp),
            "reason": "Deferred",
            "message": refusal[1],
        }
        if before.get("observedGeneration") != generation:
            record_pending_resize(worker, requested, *refusal)
        return False


class DeferredResizes:
    """The resizes that wait for room on a node.

    Args:
        clock: the cluster's clock.
        admit: reserves other resources for a pod; the reason and message of a refusal.
    """

    def __init__(
        self, clock: SimClock, admit: Callable[[Obj, Obj], tuple[str, str] | None]
    ) -> None:
        self._clock = clock
        self._admit = admit
        self._waiting: dict[PodAllocation, None] = {}
        self._planned = False
        self._recheck_planned = False

    def allocate(
        self, allocation: PodAllocation, pod: Obj, requested: Obj
    ) -> tuple[str, str] | None:
        """Reserve the requested resources, or defer the resize; reason and message of a refusal."""
        refusal = self._admit(pod, requested)
        if refusal is not None:
            self._waiting[allocation] = None
            if not self._recheck_planned:
                self._recheck_planned = True
                self._clock.call_later(_RETRY, self._on_timer)
        return refusal

    def retry(self) -> None:
        """Retry all deferred resizes soon."""
        if self._waiting and not self._planned:
            self._planned = True
            self._clock.call_later(0, self._retry_all)

    def _on_timer(self) -> None:
        self._recheck_planned = False
        self._retry_all()

    def _retry_all(self) -> None:
        self._planned = False
        waiting, self._waiting = (
            sorted(self._waiting, key=lambda allocation: allocation.priority),
            {},
        )
        for allocation in waiting:
            allocation.retry()
