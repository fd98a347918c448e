"""What a pod keeps on its node's disk, beside what it may keep there.

Source: eviction/eviction_manager.go, `localStorageEviction`; helpers.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.kubelet.restarts import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["excess", "is_limited", "pod_limit", "volume_limits"]

_RESOURCE = "ephemeral-storage"
_NOTHING = Quantity(Fraction(0))


def is_limited(pod: Obj) -> bool:
    """Whether anything of the pod may keep only so much."""
    return pod_limit(pod) is not None or any(volume_limits(pod))


def volume_limits(pod: Obj) -> Iterator[tuple[str, Quantity]]:
    """Return the names of the pod's own volumes that have a limit, and their limits."""
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        if limit is not None and parse_quantity(limit).amount > 0:
            yield volume["name"], parse_quantity(limit)


def _limit(container: Obj) -> Quantity | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE)
    return parse_quantity(text) if text is not None else None


def pod_limit(pod: Obj) -> Quantity | None:
    """Return what the pod's containers may keep together; None where none of them has a limit.

    Source: component-helpers resource/helpers.go, `PodLimits`.
    """
    spec = pod["spec"]
    inits = spec.get("initContainers") or []
    stay = [one for one in inits if is_sidecar(one)]
    if not any(_limit(one) is not None for one in [*inits, *spec["containers"]]):
        return None
    total = sum((_limit(one) or _NOTHING for one in [*spec["containers"], *stay]), _NOTHING)
    before = _NOTHING
    for one in inits:
        own = _limit(one) or _NOTHING
        if is_sidecar(one):
            before += own
        else:
            total = max(total, own + before)
    return total + parse_quantity((spec.get("overhead") or {}).get(_RESOURCE, 0))


def excess(
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
    for name, limit in volume_limits(pod):
        if volumes.get(name, 0) > limit.amount:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    whole = pod_limit(pod)
    if whole is None:
        return ""
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    kept = {one["name"]: used(one["name"]) + logged(one["name"]) for one in every}
    on_disk = sum(volumes.get(one["name"], 0) for one in spec.get("volumes") or () if _counts(one))
    if sum(kept.values()) + on_disk > whole.amount:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
    for one in spec["containers"]:
        limit_of_one = _limit(one)
        if limit_of_one and limit_of_one.amount and kept[one["name"]] > limit_of_one.amount:
            return (
                f"Container {one['name']} exceeded its local ephemeral storage limit "
                f'"{limit_of_one}". '
            )
    return ""


def _counts(volume: Obj) -> bool:
    """Whether a volume is on the disk: one in memory is not."""
    return "emptyDir" in volume and not (volume["emptyDir"] or {}).get("medium")
