"""Evictions: pods over their storage limits, and pods of a node under pressure, by rank.

Source: eviction/eviction_manager.go, `synchronize`, `Admit`, `localStorageEviction`;
eviction/helpers.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.scheduler.framework.resource_requests import PodRequests
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.pod_context import EVICTED, PodContext, TerminationReason
from pytest_kwait.simulator.kubelet.restart_policy import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kwait.simulator.clock import Timer
    from pytest_kwait.simulator.kubelet.pod_context import NodeContext
    from pytest_kwait.simulator.kubelet.runtime_manager import RuntimeManager
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "EvictionManager",
    "ResourceShortage",
    "find_excess_usage",
    "get_pod_limit",
    "get_volume_limits",
    "has_storage_limit",
]

_RESOURCE = "ephemeral-storage"
_ZERO = Quantity(Fraction(0))


def has_storage_limit(pod: Obj) -> bool:
    """Whether anything of the pod may keep only so much."""
    return get_pod_limit(pod) is not None or any(get_volume_limits(pod))


def get_volume_limits(pod: Obj) -> Iterator[tuple[str, Quantity]]:
    """Return the names of the pod's own volumes that have a limit, and their limits."""
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and parse_quantity(limit).amount > 0:
            yield volume["name"], parse_quantity(limit)


def _get_limit(container: Obj) -> Quantity | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE)
    return parse_quantity(text) if text is not None else None


def get_pod_limit(pod: Obj) -> Quantity | None:
    """Return what the pod's containers may keep together; None where none of them has a limit.

    Source: component-helpers resource/helpers.go, `PodLimits`.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or []
    stay = [one for one in inits if is_sidecar(one)]
    if not any(_get_limit(one) is not None for one in [*inits, *spec["containers"]]):
        return None
    total = sum((_get_limit(one) or _ZERO for one in [*spec["containers"], *stay]), _ZERO)
    before = _ZERO
    for one in inits:
        own = _get_limit(one) or _ZERO
        if is_sidecar(one):
            before += own
        else:
            total = max(total, own + before)
    return total + parse_quantity((spec.get("overhead") or {}).get(_RESOURCE, 0))


def find_excess_usage(
    pod: Obj,
    volumes: Mapping[str, int],
    used: Callable[[str], int],
    logged: Callable[[str], int],
) -> str:
    """Return what a pod is told that keeps too much; empty for one that does not.

    Args:
        pod: the pod.
        volumes: the bytes in each of its own volumes, when they were last counted.
        used: the bytes that a container, by its name, keeps beside volumes and logs.
        logged: the bytes of a container's logs.
    """
    for name, limit in get_volume_limits(pod):
        if volumes.get(name, 0) > limit.amount:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    whole = get_pod_limit(pod)
    if whole is None:
        return ""
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    kept = {one["name"]: used(one["name"]) + logged(one["name"]) for one in every}
    on_disk = sum(
        volumes.get(one["name"], 0) for one in spec.get("volumes") or () if _is_on_disk(one)
    )
    if sum(kept.values()) + on_disk > whole.amount:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
    for one in spec["containers"]:
        limit_of_one = _get_limit(one)
        if limit_of_one and limit_of_one.amount and kept[one["name"]] > limit_of_one.amount:
            return (
                f"Container {one['name']} exceeded its local ephemeral storage limit "
                f'"{limit_of_one}". '
            )
    return ""


def _is_on_disk(volume: Obj) -> bool:
    """Whether a volume is on the disk: one in memory is not."""
    return "emptyDir" in volume and not (volume["emptyDir"] or {}).get("medium")


# Seconds between looks at what is short, each of which gives up one pod.
# Source: cmd/kubelet/app, `evictionMonitoringPeriod`.
_SYNC_SECONDS = 10.0
# Looks after which what is in volumes is counted anew.
# Source: kubelet config defaults, `volumeStatsAggPeriod`; upstream takes up to twice as long.
_STORAGE_SYNC_EVERY = 6
# Source: pkg/apis/scheduling/types.go, `SystemCriticalPriority`.
_CRITICAL_PRIORITY = 2_000_000_000
# Bytes that a container holds and keeps at least while it runs, whatever it does.
_MIN_MEMORY_USAGE = 256 << 10
_MIN_DISK_USAGE = 16 << 10
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"


class ResourceShortage(NamedTuple):
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


class EvictablePod(PodContext, Protocol):
    """A pod with its containers."""

    @property
    def runtime_manager(self) -> RuntimeManager:
        """The pod's containers."""
        ...


class EvictionManager:
    """What one node gives up.

    Args:
        node: the node.
        workers: returns the pods of the node.
    """

    def __init__(self, node: NodeContext, workers: Callable[[], Iterable[EvictablePod]]) -> None:
        self._node = node
        self._workers = workers
        self._limited: dict[EvictablePod, dict[str, int]] = {}
        self._short: list[ResourceShortage] = []
        self._looks = 0
        self._timer: Timer | None = None

    # -- what is looked at

    def watch(self, worker: EvictablePod) -> None:
        """Look at a pod that is new here, if it may keep only so much."""
        if has_storage_limit(worker.pod):
            self._limited[worker] = {}
            self._plan(_SYNC_SECONDS)

    def begin(self, shortage: ResourceShortage) -> None:
        """Give up pods, one after the other, as long as something is short."""
        self._short.append(shortage)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._plan(0)

    def end(self, shortage: ResourceShortage) -> None:
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
        if not self._node.is_kubelet_stopped and not self._evict_over_limit() and self._short:
            self._reclaim(self._short[0])
        if self._short or self._limited:
            self._plan(_SYNC_SECONDS)

    # -- who keeps too much

    def _evict_over_limit(self) -> bool:
        """Give up all who keep more than they may; whether there was any."""
        found = False
        for worker, volumes in list(self._limited.items()):
            if not _can_evict(worker):
                continue
            runtime = worker.runtime_manager
            if self._looks % _STORAGE_SYNC_EVERY == 0 or not volumes:
                volumes.update(runtime.volumes.sizes())
            message = find_excess_usage(
                worker.pod,
                volumes,
                lambda name, runtime=runtime: runtime.record(name).disk_written,  # type: ignore[misc]
                lambda name, runtime=runtime: runtime.record(name).log_size,  # type: ignore[misc]
            )
            if message:
                found = True
                self._evict(worker, message, disrupted=False)
        return found

    # -- what is short

    def _reclaim(self, shortage: ResourceShortage) -> None:
        node = self._node
        found = node.api.find("nodes", node.name)
        if found is not None and not node.is_partitioned:
            told = f"Attempting to reclaim {shortage.resource}"
            node.recorder.event(found, ("v1", "Node"), WARNING, "EvictionThresholdMet", told)
        workers = [one for one in self._workers() if _can_evict(one)]
        if not workers:
            return
        worker = min(workers, key=lambda one: _rank_pod(one, shortage.resource))
        self._evict(worker, _make_message(worker, shortage), disrupted=True)

    def _evict(self, worker: EvictablePod, message: str, *, disrupted: bool) -> None:
        worker.evicted = TerminationReason(EVICTED, message, disrupted)
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
            if quality != "BestEffort" or _tolerates_memory_pressure(pod):
                return None
        return EVICTED, f"The node had condition: [{' '.join(short)}]. "


def _is_critical(pod: Obj) -> bool:
    """Source: pkg/kubelet/types/pod_update.go, `IsCriticalPod`."""
    return (pod["spec"].get("priority") or 0) >= _CRITICAL_PRIORITY


def _tolerates_memory_pressure(pod: Obj) -> bool:
    return any(
        one.get("key") in (None, "", _MEMORY_TAINT)
        and one.get("effect") in (None, "", "NoSchedule")
        and (one.get("operator") == "Exists" or one.get("key"))
        and (one.get("operator") == "Exists" or not one.get("value"))
        for one in pod["spec"].get("tolerations") or ()
    )


def _can_evict(worker: EvictablePod) -> bool:
    return (
        not worker.finished
        and not worker.deleted
        and worker.evicted is None
        and not _is_critical(worker.pod)
    )


def _get_usage(worker: EvictablePod, name: str, resource: str) -> int:
    """The bytes that a container has of what is short."""
    record = worker.runtime_manager.record(name)
    if resource == "memory":
        return record.memory_held + _MIN_MEMORY_USAGE * record.is_running
    return record.disk_written + record.log_size + _MIN_DISK_USAGE * record.is_running


def _get_request(container: Obj, resource: str) -> Quantity:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get(resource, 0))


def _rank_pod(worker: EvictablePod, resource: str) -> tuple[float, ...]:
    """The order in which pods are given up.

    Source: eviction/helpers.go, `rankMemoryPressure`, `rankDiskPressureFunc`.
    """
    spec = worker.pod["spec"]
    asked = PodRequests(worker.pod, started=True).total().get(resource, 0)
    used = sum(_get_usage(worker, one["name"], resource) for one in spec["containers"])
    if resource != "memory":
        used += sum(worker.runtime_manager.volumes.sizes().values())
    return (0 if used > asked else 1, float(spec.get("priority") or 0), asked - used)


def _make_message(worker: EvictablePod, shortage: ResourceShortage) -> str:
    """Source: eviction/helpers.go, `evictionMessage`."""
    message = (
        f"The node was low on resource: {shortage.resource}. Threshold quantity: "
        f"{shortage.threshold}, available: {shortage.available}. "
    )
    spec = worker.pod["spec"]
    for one in [*spec["containers"], *(spec.get("initContainers") or ())]:
        used = Quantity(Fraction(_get_usage(worker, one["name"], shortage.resource)), "BinarySI")
        asked = _get_request(one, shortage.resource)
        if used > asked:
            message += (
                f"Container {one['name']} was using {used}, request is {asked}, has larger "
                f"consumption of {shortage.resource}. "
            )
    return message
