"""Evictions: pods over their storage limits, and pods of a node under pressure, by rank.

Source: eviction/eviction_manager.go, `synchronize`, `Admit`, `localStorageEviction`;
eviction/helpers.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.scheduler.framework.pod_info import PodRequests
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.kubelet.pod_context import EVICTED, PodContext, TerminationReason
from pytest_kwait.simulator.kubelet.restart_policy import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.kubelet.pod_context import NodeContext
    from pytest_kwait.simulator.kubelet.runtime_manager import RuntimeManager
    from pytest_kwait.simulator.objects import Obj

_RESOURCE = "ephemeral-storage"
_ZERO = Quantity(Fraction(0))
# Seconds between syncs, each of which evicts one pod.
# Source: cmd/kubelet/app, `evictionMonitoringPeriod`.
_SYNC_SECONDS = 10.0
# Syncs after which the usage of volumes is counted again.
# Source: kubelet config defaults, `volumeStatsAggPeriod`; upstream takes up to twice as long.
_STORAGE_SYNC_EVERY = 6
# Source: pkg/apis/scheduling/types.go, `SystemCriticalPriority`.
_CRITICAL_PRIORITY = 2_000_000_000
# The least usage of a running container in bytes.
_MIN_MEMORY_USAGE = 256 << 10
_MIN_DISK_USAGE = 16 << 10
_MEMORY_TAINT = "node.kubernetes.io/memory-pressure"


def has_storage_limit(pod: Obj) -> bool:
    """Return whether the pod has a limit of local storage."""
    return get_pod_limit(pod) is not None or any(get_volume_limits(pod))


def get_volume_limits(pod: Obj) -> Iterator[tuple[str, Quantity]]:
    """Yield name and size limit of the pod's emptyDir volumes."""
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and parse_quantity(limit).amount > 0:
            yield volume["name"], parse_quantity(limit)


def _get_limit(container: Obj) -> Quantity | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE)
    return parse_quantity(text) if text is not None else None


def get_pod_limit(pod: Obj) -> Quantity | None:
    """Return the storage limit of all containers; None if none has a limit.

    Source: component-helpers resource/helpers.go, `PodLimits`.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or []
    sidecars = [container for container in inits if is_sidecar(container)]
    if not any(_get_limit(container) is not None for container in [*inits, *spec["containers"]]):
        return None
    total = sum(
        (_get_limit(container) or _ZERO for container in [*spec["containers"], *sidecars]), _ZERO
    )
    before = _ZERO
    for container in inits:
        own = _get_limit(container) or _ZERO
        if is_sidecar(container):
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
    """Return the eviction message of a pod over its storage limit; empty if it is not.

    Args:
        volumes: bytes in each emptyDir volume, as last counted.
        used: returns the bytes that a container has written outside volumes and logs.
        logged: returns the bytes of a container's logs.
    """
    for name, limit in get_volume_limits(pod):
        if volumes.get(name, 0) > limit.amount:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    whole = get_pod_limit(pod)
    if whole is None:
        return ""
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    usage_by_container = {
        container_spec["name"]: used(container_spec["name"]) + logged(container_spec["name"])
        for container_spec in every
    }
    on_disk = sum(
        volumes.get(volume["name"], 0)
        for volume in spec.get("volumes") or ()
        if _is_on_disk(volume)
    )
    if sum(usage_by_container.values()) + on_disk > whole.amount:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
    for container in spec["containers"]:
        limit_of_one = _get_limit(container)
        if (
            limit_of_one
            and limit_of_one.amount
            and usage_by_container[container["name"]] > limit_of_one.amount
        ):
            return (
                f"Container {container['name']} exceeded its local ephemeral storage limit "
                f'"{limit_of_one}". '
            )
    return ""


def _is_on_disk(volume: Obj) -> bool:
    """Return whether a volume is on disk, not in memory."""
    return "emptyDir" in volume and not (volume["emptyDir"] or {}).get("medium")


class ResourceShortage(NamedTuple):
    """A resource that a node runs short of.

    Args:
        condition: the type of the node's condition.
        resource: the name of the resource in messages.
        available: the available quantity.
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


class EvictionManager:
    """Evicts pods of one node.

    Args:
        workers: returns the pods of the node.
    """

    def __init__(self, node: NodeContext, workers: Callable[[], Iterable[EvictablePod]]) -> None:
        self._node = node
        self._workers = workers
        self._limited: dict[EvictablePod, dict[str, int]] = {}
        self._short: list[ResourceShortage] = []
        self._syncs = 0
        self._timer: ScheduledCall | None = None

    # -- watching

    def watch(self, worker: EvictablePod) -> None:
        """Watch the storage of a new pod that has a limit."""
        if has_storage_limit(worker.pod):
            self._limited[worker] = {}
            self._schedule(_SYNC_SECONDS)

    def begin(self, shortage: ResourceShortage) -> None:
        """Evict pods one by one while a resource is short."""
        self._short.append(shortage)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._schedule(0)

    def end(self, shortage: ResourceShortage) -> None:
        """End a shortage."""
        self._short.remove(shortage)

    def _schedule(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._node.clock.call_later(seconds, self._synchronize)

    def _synchronize(self) -> None:
        self._timer = None
        self._syncs += 1
        for worker in [worker for worker in self._limited if worker.finished]:
            del self._limited[worker]
        if not self._node.is_kubelet_stopped and not self._evict_over_limit() and self._short:
            self._reclaim(self._short[0])
        if self._short or self._limited:
            self._schedule(_SYNC_SECONDS)

    # -- storage limits

    def _evict_over_limit(self) -> bool:
        """Evict all pods over their storage limits; False if there were none."""
        evicted = False
        for worker, volumes in list(self._limited.items()):
            if not _can_evict(worker):
                continue
            runtime = worker.runtime_manager
            if self._syncs % _STORAGE_SYNC_EVERY == 0 or not volumes:
                volumes.update(runtime.volumes.in_memory.sizes())
            message = find_excess_usage(
                worker.pod,
                volumes,
                lambda name, runtime=runtime: runtime.record(name).disk_written,  # type: ignore[misc]
                lambda name, runtime=runtime: runtime.record(name).log_size,  # type: ignore[misc]
            )
            if message:
                evicted = True
                self._evict(worker, message, disrupted=False)
        return evicted

    # -- shortages

    def _reclaim(self, shortage: ResourceShortage) -> None:
        node = self._node
        node_object = node.cluster.find("nodes", node.name)
        if node_object is not None and not node.is_partitioned:
            message = f"Attempting to reclaim {shortage.resource}"
            node.recorder.event(
                node_object, ("v1", "Node"), WARNING, "EvictionThresholdMet", message
            )
        workers = [worker for worker in self._workers() if _can_evict(worker)]
        if not workers:
            return
        worker = min(workers, key=lambda worker: _rank_pod(worker, shortage.resource))
        self._evict(worker, _make_message(worker, shortage), disrupted=True)

    def _evict(self, worker: EvictablePod, message: str, *, disrupted: bool) -> None:
        worker.evicted = TerminationReason(EVICTED, message, disrupted)
        worker.record_event(WARNING, EVICTED, message)
        worker.sync()

    # -- admission

    def find_admission_error(self, pod: Obj) -> tuple[str, str] | None:
        """Return why a shortage keeps a pod off the node: reason and message, or None.

        Source: `managerImpl.Admit`.
        """
        short = sorted({shortage.condition for shortage in self._short})
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
        toleration.get("key") in (None, "", _MEMORY_TAINT)
        and toleration.get("effect") in (None, "", "NoSchedule")
        and (toleration.get("operator") == "Exists" or toleration.get("key"))
        and (toleration.get("operator") == "Exists" or not toleration.get("value"))
        for toleration in pod["spec"].get("tolerations") or ()
    )


def _can_evict(worker: EvictablePod) -> bool:
    return (
        not worker.finished
        and not worker.deleted
        and worker.evicted is None
        and not _is_critical(worker.pod)
    )


def _get_usage(worker: EvictablePod, name: str, resource: str) -> int:
    """Return a container's usage of a resource in bytes."""
    record = worker.runtime_manager.record(name)
    if resource == "memory":
        return record.memory_held + _MIN_MEMORY_USAGE * record.is_running
    return record.disk_written + record.log_size + _MIN_DISK_USAGE * record.is_running


def _get_request(container: Obj, resource: str) -> Quantity:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get(resource, 0))


def _rank_pod(worker: EvictablePod, resource: str) -> tuple[float, ...]:
    """Return the sort key of a pod: the lowest is evicted first.

    Source: eviction/helpers.go, `rankMemoryPressure`, `rankDiskPressureFunc`.
    """
    spec = worker.pod["spec"]
    requested = PodRequests(worker.pod, started=True).total().get(resource, 0)
    used = sum(_get_usage(worker, container["name"], resource) for container in spec["containers"])
    if resource != "memory":
        used += sum(worker.runtime_manager.volumes.in_memory.sizes().values())
    return (0 if used > requested else 1, float(spec.get("priority") or 0), requested - used)


def _make_message(worker: EvictablePod, shortage: ResourceShortage) -> str:
    """Source: eviction/helpers.go, `evictionMessage`."""
    message = (
        f"The node was low on resource: {shortage.resource}. Threshold quantity: "
        f"{shortage.threshold}, available: {shortage.available}. "
    )
    spec = worker.pod["spec"]
    for container in [*spec["containers"], *(spec.get("initContainers") or ())]:
        used = Quantity(
            Fraction(_get_usage(worker, container["name"], shortage.resource)), "BinarySI"
        )
        requested = _get_request(container, shortage.resource)
        if used > requested:
            message += (
                f"Container {container['name']} was using {used}, request is {requested}, has "
                "larger "
                f"consumption of {shortage.resource}. "
            )
    return message
