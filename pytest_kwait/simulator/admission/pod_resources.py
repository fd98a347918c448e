"""Total requests and limits of a pod.

Source: k8s.io/component-helpers resource/helpers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

ResourceList = dict[str, Quantity]


def parse_resource_list(listed: Mapping[str, str] | None) -> ResourceList:
    """Parse a resource list of the API."""
    return {name: parse_quantity(value) for name, value in (listed or {}).items()}


def add_resources(total: ResourceList, more: Mapping[str, Quantity]) -> None:
    """Add `more` to `total`, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _max_resources(total: ResourceList, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def is_pod_level_resource(name: str) -> bool:
    """Return whether pods can request the resource as a whole."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def total_pod_resources(
    spec: Obj, part: Literal["requests", "limits"], *, overhead: bool = True
) -> ResourceList:
    """Return the sum of containers or the startup peak, overridden by pod-level resources.

    Args:
        spec: the pod's spec.
        part: `requests` or `limits`.
        overhead: whether to add the pod's overhead.
    """
    total: ResourceList = {}
    for container in spec.get("containers", ()):
        add_resources(total, parse_resource_list(container.get("resources", {}).get(part)))
    sidecars: ResourceList = {}
    peak: ResourceList = {}
    for container in spec.get("initContainers", ()):
        needed = parse_resource_list(container.get("resources", {}).get(part))
        if container.get("restartPolicy") == "Always":
            add_resources(total, needed)
            add_resources(sidecars, needed)
            _max_resources(peak, sidecars)
        else:
            add_resources(needed, sidecars)
            _max_resources(peak, needed)
    _max_resources(total, peak)
    whole = parse_resource_list(spec.get("resources", {}).get(part))
    total.update({name: amount for name, amount in whole.items() if is_pod_level_resource(name)})
    if overhead:
        more = parse_resource_list(spec.get("overhead"))
        if part == "limits":
            more = {name: more[name] for name in more if name in total and total[name].amount}
        add_resources(total, more)
    return total
