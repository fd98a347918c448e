"""Ports of a pod's containers that get in each other's way.

Source: pkg/api/pod/warnings.go, warningsForPodSpecAndMeta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.pods.windows import visit_containers_with_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["get_port_warnings"]


def get_port_warnings(spec: Obj, at: str) -> Iterator[str]:
    """Ports that are defined twice, or nearly; then names that are."""
    lists = (spec.get("containers", ()), spec.get("initContainers", ()))
    if not any("ports" in container for containers in lists for container in containers):
        return
    ports = [
        (f"{place}.ports[{index}]", port)
        for container, place in visit_containers_with_path(spec, at)
        if "ports" in container
        for index, port in enumerate(container["ports"])
    ]
    seen: dict[tuple[int, str], list[tuple[str, Obj]]] = {}
    for here, port in ports:
        address, host = port.get("hostIP", ""), port.get("hostPort", 0)
        if address and not host:
            yield f"{here}: hostIP set without hostPort: {_render_port(port)}"
        others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        for there, other in others:
            other_address, other_host = other.get("hostIP", ""), other.get("hostPort", 0)
            if address == other_address and host == other_host:
                yield f"{here}: duplicate port definition with {there}"
            elif not host or not other_host:
                yield f"{here}: overlapping port definition with {there}"
            elif host == other_host and bool(address) != bool(other_address):
                yield f"{here}: dangerously ambiguous port definition with {there}"
        others.append((here, port))
    names: dict[str, str] = {}
    for here, port in ports:
        name = port.get("name", "")
        if name and name in names:
            there = names[name]
            yield (
                f'{here}: duplicate port name "{name}" with {there}, services and probes that '
                f"select ports by name will use {there}"
            )
        elif name:
            names[name] = here


def _render_port(port: Obj) -> str:
    """A port as Go prints its struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', '')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )
