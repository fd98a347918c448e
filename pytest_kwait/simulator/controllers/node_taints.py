"""Taints that follow from a node's state: a cordoned node, one that is not ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import condition_of
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["NodeTaints", "wanted_taints"]

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_OWN = frozenset({_UNSCHEDULABLE, _NOT_READY, _UNREACHABLE})


def wanted_taints(node: Obj) -> list[tuple[str, str]]:
    """Key and effect of the taints that the node's state asks for.

    Source: kube-controller-manager, node_lifecycle_controller.go, `doNoScheduleTaintingPass`.
    """
    taints = []
    if (node.get("spec") or {}).get("unschedulable"):
        taints.append((_UNSCHEDULABLE, "NoSchedule"))
    ready = condition_of(node, "Ready")
    if ready is not None and ready["status"] != "True":
        key = _UNREACHABLE if ready["status"] == "Unknown" else _NOT_READY
        taints += [(key, "NoSchedule"), (key, "NoExecute")]
    return taints


class NodeTaints:
    """Keeps these taints on every node."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "node-lifecycle-controller")
        api.subscribe("nodes", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and _present(new) != wanted_taints(new):
            self._queue.add(name_of(new))

    def _sync(self, name: str) -> None:
        node = self._api.find("nodes", name)
        if node is None:
            return
        wanted = wanted_taints(node)

        def taint(changed: Obj) -> None:
            spec = changed.setdefault("spec", {})
            taints = [
                one
                for one in spec.get("taints") or ()
                if one["key"] not in _OWN or (one["key"], one["effect"]) in wanted
            ]
            present = {(one["key"], one["effect"]) for one in taints}
            for key, effect in wanted:
                if (key, effect) not in present:
                    taints.append(
                        {"key": key, "effect": effect, "timeAdded": self._api.clock.stamp()}
                    )
            if taints:
                spec["taints"] = taints
            else:
                spec.pop("taints", None)

        self._api.modify("nodes", name, "", taint)


def _present(node: Obj) -> list[tuple[str, str]]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return [(one["key"], one["effect"]) for one in taints if one["key"] in _OWN]
