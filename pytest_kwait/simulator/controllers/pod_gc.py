"""The pod garbage collector: deletes pods of deleted nodes.

Source: kube-controller-manager, podgc/gc_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["PodGCController"]

# Seconds that a node may be missing before its pods are removed.
# Source: kube-controller-manager, podgc/gc_controller.go, `quarantineTime`.
_QUARANTINE_SECONDS = 40.0


class PodGCController:
    """Deletes pods of deleted nodes."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, "pod-garbage-collector")
        self._by_node: dict[str, dict[str, None]] = {}
        api.subscribe("pods", self._pod_changed)
        api.subscribe("nodes", self._node_changed)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key, node = key_of(new), new["spec"].get("nodeName")
        if node is None:
            return
        if change == "DELETED":
            pods = self._by_node.get(node, {})
            pods.pop(key, None)
            if not pods:
                self._by_node.pop(node, None)
        elif key not in self._by_node.setdefault(node, {}):
            self._by_node[node][key] = None
            if self._api.find("nodes", node) is None:
                self._queue.add_after(key, _QUARANTINE_SECONDS)

    def _node_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            for key in self._by_node.get(name_of(new), ()):
                self._queue.add_after(key, _QUARANTINE_SECONDS)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        if pod is None or self._api.find("nodes", pod["spec"].get("nodeName") or "") is not None:
            return
        self._fail(pod)
        try:
            self._api.delete("pods", name, namespace, grace=0)
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    def _fail(self, pod: Obj) -> None:
        """Set the pod's DisruptionTarget condition before its deletion.

        Source: podgc/gc_controller.go, `gcOrphaned`.
        """
        status = dict(pod.get("status") or {})
        if status.get("phase") in ("Succeeded", "Failed"):
            return
        stamp = self._api.clock.stamp()
        condition = {
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": None,
            "lastTransitionTime": stamp, "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }  # fmt: skip
        others = [
            one for one in status.get("conditions") or () if one["type"] != "DisruptionTarget"
        ]
        status.update(phase="Failed", conditions=[*others, condition])
        self._api.update_status("pods", {**pod, "status": status})
