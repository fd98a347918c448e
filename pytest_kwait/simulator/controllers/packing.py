"""How endpoints are spread over slices so that few slices change.

Source: k8s.io/endpointslice reconciler.go, `reconcileByPortMapping`, `finalize`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import Obj, labels_of, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_ENDPOINTS_PER_SLICE",
    "SERVICE_NAME_LABEL",
    "SLICE_MANAGED_BY_LABEL",
    "SliceChanges",
    "plan_slices",
]

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
SLICE_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"

MAX_ENDPOINTS_PER_SLICE = 100
"""Endpoints in a slice, at most; upstream, `max-endpoints-per-slice`."""


@dataclass(slots=True)
class SliceChanges:
    """What to write: new contents, slices with other contents, slices that go."""

    create: list[Obj] = field(default_factory=list)
    update: list[Obj] = field(default_factory=list)
    delete: list[Obj] = field(default_factory=list)


def _identity(endpoint: Obj) -> tuple[object, ...]:
    target = endpoint.get("targetRef") or {}
    return (target.get("uid") or target.get("name"), *sorted(endpoint["addresses"]))


def plan_slices(
    wanted: Sequence[tuple[list[Obj], list[Obj]]],
    present: Sequence[Obj],
    labels: dict[str, str],
    *,
    most: int = MAX_ENDPOINTS_PER_SLICE,
    empty: bool = True,
) -> SliceChanges:
    """Return how `present` becomes `wanted`.

    Args:
        wanted: ports, and the endpoints that have just these.
        present: the slices of the service.
        labels: what the slices are to be labelled.
        most: how many endpoints one slice may have.
        empty: whether an empty slice stands for a service without endpoints.
    """
    plan = SliceChanges()
    left = list(present)
    for ports, endpoints in wanted:
        same = [one for one in left if (one.get("ports") or []) == ports]
        left = [one for one in left if one not in same]
        _fill_slices(plan, ports, endpoints, same, labels, most)
    plan.delete += left
    if empty and len(plan.delete) == len(present) and not plan.create:
        if len(plan.delete) == 1 and _is_placeholder(plan.delete[0], labels):
            plan.delete.clear()
        else:
            plan.create.append({"endpoints": [], "ports": []})
    while plan.create and plan.delete:
        # A slice that goes is one that may hold something else: its name stays.
        plan.update.append({**plan.delete.pop(0), **plan.create.pop(0)})
    return plan


def _is_placeholder(slice_: Obj, labels: dict[str, str]) -> bool:
    empty = not slice_.get("endpoints") and not slice_.get("ports")
    return empty and labels_of(slice_) == labels


def _fill_slices(
    plan: SliceChanges,
    ports: list[Obj],
    endpoints: list[Obj],
    slices: list[Obj],
    labels: dict[str, str],
    most: int,
) -> None:
    missing = {_identity(one): one for one in endpoints}
    contents: dict[str, list[Obj]] = {}
    changed: set[str] = set()
    for slice_ in slices:
        before = slice_.get("endpoints") or []
        kept = [found for one in before if (found := missing.pop(_identity(one), None)) is not None]
        contents[name_of(slice_)] = kept
        if kept != before or labels_of(slice_) != labels:
            changed.add(name_of(slice_))
    left = list(missing.values())
    for name in sorted(changed, key=lambda name: -len(contents[name])):
        if contents[name]:
            room = most - len(contents[name])
            contents[name] += left[:room]
            left = left[room:]
    while left:
        batch, left = left[:most], left[most:]
        fitting = [
            name
            for name, kept in contents.items()
            if kept and name not in changed and len(kept) + len(batch) <= most
        ]
        if fitting:
            fullest = max(fitting, key=lambda name: len(contents[name]))
            contents[fullest] += batch
            changed.add(fullest)
        else:
            plan.create.append({"endpoints": batch, "ports": ports})
    for slice_ in slices:
        name = name_of(slice_)
        if not contents[name]:
            plan.delete.append(slice_)
        elif name in changed:
            plan.update.append({**slice_, "endpoints": contents[name]})
