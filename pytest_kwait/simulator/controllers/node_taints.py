"""Taints that keep new pods off a node because of its state: cordoned, not ready, short of room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = [
    "NOT_READY",
    "UNREACHABLE",
    "NodeTaintController",
    "list_condition_taints",
    "swap_taints",
]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# By type and status of a condition.
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_TAINTS = frozenset({_UNSCHEDULABLE, *_BY_CONDITION.values()})


def list_condition_taints(node: Obj) -> list[str]:
    """Keys of the NoSchedule taints that the node's state asks for.

    Source: kube-controller-manager, node_lifecycle_controller.go, `doNoScheduleTaintingPass`.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    found = [_BY_CONDITION.get((one["type"], one["status"])) for one in conditions]
    taints = [key for key in found if key is not None]
    if (node.get("spec") or {}).get("unschedulable"):
        taints.append(_UNSCHEDULABLE)
    return taints


def swap_taints(
    api: SimulatedCluster, name: str, effect: str, add: Collection[str], remove: Collection[str]
) -> bool:
    """Add taints of one effect to a node and take others of it away; whether that changed it.

    Source: kube-controller-manager, util/node/controller_utils.go, `SwapNodeControllerTaint`.
    """
    node = api.find("nodes", name)
    if node is None:
        return False
    before = (node.get("spec") or {}).get("taints") or []
    taints = [one for one in before if one["effect"] != effect or one["key"] not in remove]
    present = {one["key"] for one in taints if one["effect"] == effect}
    stamp = api.clock.stamp()
    taints += [
        {"key": key, "effect": effect, "timeAdded": stamp} for key in add if key not in present
    ]
    if taints == before:
        return False

    def taint(changed: Obj) -> None:
        spec = changed.setdefault("spec", {})
        if taints:
            spec["taints"] = taints
        else:
            spec.pop("taints", None)

    api.modify("nodes", name, "", taint)
    return True


class NodeTaintController:
    """Keeps these taints on every node."""

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "node-lifecycle-controller")
        api.subscribe("nodes", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and _present(new) != set(list_condition_taints(new)):
            self._queue.add(name_of(new))

    def _sync(self, name: str) -> None:
        node = self._api.find("nodes", name)
        if node is not None:
            wanted = list_condition_taints(node)
            swap_taints(self._api, name, "NoSchedule", wanted, _MANAGED_TAINTS.difference(wanted))


def _present(node: Obj) -> set[str]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return {
        one["key"]
        for one in taints
        if one["effect"] == "NoSchedule" and one["key"] in _MANAGED_TAINTS
    }
