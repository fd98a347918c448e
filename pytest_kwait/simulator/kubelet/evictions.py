"""Pods that a node gives up: who keeps more than it may, and whose turn it is when much is short.

Source: eviction/eviction_manager.go, `synchronize`, `Admit`; eviction/helpers.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.scheduler.algorithm.quantities import Quantity, parse_quantity
from pytest_kwait.scheduler.algorithm.requests import PodRequests
from pytest_kwait.simulator.events import WARNING
from pytest_kwait.simulator.kubelet.storage import excess, is_limited

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.node import NodeAgent
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.sim_clock import Timer

__all__ = ["EVICTED", "Ending", "Evictions", "Shortage"]

EVICTED = "Evicted"

# Seconds between looks at what is short, each of which gives up one pod.
# Source: cmd/kubelet/app, `evictionMonitoringPeriod`.
_LOOK = 10.0
# Looks after which what is in volumes is counted anew.
# Source: kubelet config defaults, `volumeStatsAggPeriod`; upstream takes up to twice as long.
_COUNT_EVERY = 6
# Source: pkg/apis/scheduling/types.go, `SystemCriticalPriority`.
_CRITICAL = 2_000_000_000
# Bytes that a container holds and keeps at least while it runs, whatever it does.
_LEAST_MEMORY = 256 << 10
_LEAST_DISK = 16 << 10
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"


class Ending(NamedTuple):
    """Why a kubelet ends a pod.

    Args:
        reason: the pod's reason then.
        message: its message.
        disrupted: whether it has a condition that says so.
    """

    reason: str
    message: str
    disrupted: bool = False


class Shortage(NamedTuple):
    """What a node runs short of.

    Args:
        condition: what its condition is called.
        resource: what it is called to those who are given up.
        threshold: how much there should be.
        available: how much there is.
    """

    condition: str
    resource: str
    threshold: str
    available: str


class Evictions:
    """What one node gives up.

    Args:
        node: its kubelet.
    """

    def __init__(self, node: NodeAgent) -> None:
        self._node = node
        self._limited: dict[PodWorker, dict[str, int]] = {}
        self._short: list[Shortage] = []
        self._looks = 0
        self._timer: Timer | None = None

    # -- what is looked at

    def watch(self, worker: PodWorker) -> None:
        """Look at a pod that is new here, if it may keep only so much."""
        if is_limited(worker.pod):
            self._limited[worker] = {}
            self._plan(_LOOK)

    def begin(self, shortage: Shortage) -> None:
        """Give up pods, one after the other, as long as something is short."""
        self._short.append(shortage)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._plan(0)

    def end(self, shortage: Shortage) -> None:
        """There is enough again."""
        self._short.remove(shortage)

    def _plan(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._node.clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        self._looks += 1
        for worker in [one for one in self._limited if one.finished]:
            del self._limited[worker]
        if not self._node.outages.dead and not self._storage() and self._short:
            self._reclaim(self._short[0])
        if self._short or self._limited:
            self._plan(_LOOK)

    # -- who keeps too much

    def _storage(self) -> bool:
        """Give up all who keep more than they may; whether there was any."""
        found = False
        for worker, volumes in list(self._limited.items()):
            if not _can_go(worker):
                continue
            starts = worker.starts
            if self._looks % _COUNT_EVERY == 0 or not volumes:
                volumes.update(starts.volumes.sizes())
            message = excess(worker.pod, volumes, starts.written, starts.logged)
            if message:
                found = True
                self._evict(worker, message, disrupted=False)
        return found

    # -- what is short

    def _reclaim(self, shortage: Shortage) -> None:
        node = self._node
        found = node.api.find("nodes", node.name)
        if found is not None and not node.outages.cut:
            told = f"Attempting to reclaim {shortage.resource}"
            node.recorder.event(found, ("v1", "Node"), WARNING, "EvictionThresholdMet", told)
        workers = [one for one in node.workers if _can_go(one)]
        if not workers:
            return
        worker = min(workers, key=lambda one: _rank(one, shortage.resource))
        self._evict(worker, _message(worker, shortage), disrupted=True)

    def _evict(self, worker: PodWorker, message: str, *, disrupted: bool) -> None:
        worker.evicted = Ending(EVICTED, message, disrupted)
        worker.event(WARNING, EVICTED, message)
        worker.sync()

    # -- who may come

    def refusal(self, pod: Obj) -> tuple[str, str] | None:
        """Why a pod may not run here while something is short: reason and message.

        Source: `managerImpl.Admit`.
        """
        short = sorted({one.condition for one in self._short})
        if not short or _is_critical(pod):
            return None
        if short == ["MemoryPressure"]:
            quality = (pod.get("status") or {}).get("qosClass", "BestEffort")
            if quality != "BestEffort" or _bears_memory_pressure(pod):
                return None
        return EVICTED, f"The node had condition: [{' '.join(short)}]. "


def _is_critical(pod: Obj) -> bool:
    """Source: pkg/kubelet/types/pod_update.go, `IsCriticalPod`."""
    return (pod["spec"].get("priority") or 0) >= _CRITICAL


def _bears_memory_pressure(pod: Obj) -> bool:
    return any(
        one.get("key") in (None, "", _MEMORY_TAINT)
        and one.get("effect") in (None, "", "NoSchedule")
        and (one.get("operator") == "Exists" or one.get("key"))
        and (one.get("operator") == "Exists" or not one.get("value"))
        for one in pod["spec"].get("tolerations") or ()
    )


def _can_go(worker: PodWorker) -> bool:
    return (
        not worker.finished
        and not worker.deleted
        and worker.evicted is None
        and not _is_critical(worker.pod)
    )


def _usage(worker: PodWorker, name: str, resource: str) -> int:
    """The bytes that a container has of what is short."""
    starts = worker.starts
    current = starts.slot(name).current
    running = current is not None and current.running
    if resource == "memory":
        return starts.held(name) + _LEAST_MEMORY * running
    return starts.written(name) + starts.logged(name) + _LEAST_DISK * running


def _requested(container: Obj, resource: str) -> Quantity:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get(resource, 0))


def _rank(worker: PodWorker, resource: str) -> tuple[float, ...]:
    """The order in which pods are given up.

    Source: eviction/helpers.go, `rankMemoryPressure`, `rankDiskPressureFunc`.
    """
    spec = worker.pod["spec"]
    asked = PodRequests(worker.pod, started=True).total().get(resource, 0)
    used = sum(_usage(worker, one["name"], resource) for one in spec["containers"])
    if resource != "memory":
        used += sum(worker.starts.volumes.sizes().values())
    return (0 if used > asked else 1, float(spec.get("priority") or 0), asked - used)


def _message(worker: PodWorker, shortage: Shortage) -> str:
    """Source: eviction/helpers.go, `evictionMessage`."""
    message = (
        f"The node was low on resource: {shortage.resource}. Threshold quantity: "
        f"{shortage.threshold}, available: {shortage.available}. "
    )
    spec = worker.pod["spec"]
    for one in [*spec["containers"], *(spec.get("initContainers") or ())]:
        used = Quantity(Fraction(_usage(worker, one["name"], shortage.resource)), "BinarySI")
        asked = _requested(one, shortage.resource)
        if used > asked:
            message += (
                f"Container {one['name']} was using {used}, request is {asked}, has larger "
                f"consumption of {shortage.resource}. "
            )
    return message
