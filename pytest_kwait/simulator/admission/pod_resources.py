"""What a pod requests and is limited to as a whole, in exact quantities.

The scheduler counts in whole numbers; here the notation stays, because refusals show it.

Source: k8s.io/component-helpers resource/helpers.go, `PodRequests`, `PodLimits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_kwait.scheduler.algorithm.quantities import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj

__all__ = ["Amounts", "add", "amounts", "pod_amounts", "pod_wide"]

Amounts = dict[str, Quantity]


def amounts(listed: Mapping[str, str] | None) -> Amounts:
    """A resource list of the API as quantities."""
    return {name: parse_quantity(value) for name, value in (listed or {}).items()}


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add `more` to `total`, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def pod_wide(name: str) -> bool:
    """Whether the resource can be given to a pod as a whole."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def pod_amounts(
    spec: Obj, part: Literal["requests", "limits"], *, overhead: bool = True
) -> Amounts:
    """The containers' sum or the peak while the pod starts; what is said of the pod replaces it.

    Args:
        spec: the pod's spec.
        part: what is summed.
        overhead: whether what the pod itself takes comes on top, of limits where there are any.
    """
    total: Amounts = {}
    for container in spec.get("containers", ()):
        add(total, amounts(container.get("resources", {}).get(part)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        needed = amounts(container.get("resources", {}).get(part))
        if container.get("restartPolicy") == "Always":
            add(total, needed)
            add(sidecars, needed)
            _raise_to(peak, sidecars)
        else:
            add(needed, sidecars)
            _raise_to(peak, needed)
    _raise_to(total, peak)
    whole = amounts(spec.get("resources", {}).get(part))
    total.update({name: amount for name, amount in whole.items() if pod_wide(name)})
    if overhead:
        more = amounts(spec.get("overhead"))
        if part == "limits":
            more = {name: more[name] for name in more if name in total and total[name].amount}
        add(total, more)
    return total
