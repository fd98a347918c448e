"""What a pod asks of a node: resources and host ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.quantities import milli_value, value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Amounts", "HostPort", "amounts", "host_ports", "ports_conflict", "resource_requests"]

_Pod = dict[str, Any]
# Whole numbers by resource name: `cpu` in thousandths of a core, everything else in its own unit.
Amounts = dict[str, int]
# (protocol, host address, port)
HostPort = tuple[str, str, int]

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's word for any address; nothing is bound here


def amounts(quantities: Mapping[str, str | int | float] | None) -> Amounts:
    """Return a resource list of the API (`requests`, `allocatable`, …) in whole numbers."""
    return {
        name: milli_value(quantity) if name == "cpu" else value(quantity)
        for name, quantity in (quantities or {}).items()
    }


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _requests(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts(resources.get("requests"))


def resource_requests(pod: _Pod) -> Amounts:
    """Return what the node must have free for `pod`; names that are not requested are absent.

    The containers' sum, or the peak of an init container together with the restartable ones
    started before it where that is more; pod-level requests replace both; overhead comes on top.

    Source: component-helpers, resource/helpers.go, `PodRequests`.
    """
    spec = pod.get("spec") or {}
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        needed = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, needed)
            _add(sidecars, needed)
            _raise_to(peak, sidecars)
        else:
            together = dict(sidecars)
            _add(together, needed)
            _raise_to(peak, together)
    _raise_to(total, peak)
    total.update(amounts((spec.get("resources") or {}).get("requests")))
    _add(total, amounts(spec.get("overhead")))
    return total


def host_ports(pod: _Pod) -> set[HostPort]:
    """Return the ports of the node's own addresses that `pod` takes, sidecars included."""
    spec = pod.get("spec") or {}
    containers = [
        *(spec.get("containers") or ()),
        *(c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"),
    ]
    return {
        (port.get("protocol") or "TCP", port.get("hostIP") or _ANY_ADDRESS, port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def ports_conflict(wanted: set[HostPort], used: set[HostPort]) -> bool:
    """Whether one of `wanted` is taken, on the same address or on all of them."""
    return any(
        protocol == used_protocol
        and port == used_port
        and (address == used_address or _ANY_ADDRESS in (address, used_address))
        for protocol, address, port in wanted
        for used_protocol, used_address, used_port in used
    )
