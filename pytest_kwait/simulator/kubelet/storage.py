"""What a pod keeps on its node's disk, beside what it may keep there.

Source: eviction/eviction_manager.go, `localStorageEviction`; helpers.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.simulator.kubelet.runtime.restart_policy import is_sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["find_excess_usage", "get_pod_limit", "get_volume_limits", "has_storage_limit"]

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
