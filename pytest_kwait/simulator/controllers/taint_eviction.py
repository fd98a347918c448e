"""The taint eviction controller: deletes pods that do not tolerate NoExecute taints.

Source: kube-controller-manager, tainteviction/taint_eviction.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.scheduler.framework.pod_info import tolerates
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, is_being_deleted, name_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.cluster_protocol import Cluster

_MESSAGE = "Taint manager: deleting due to NoExecute taint"


def min_toleration_seconds(taints: Sequence[Obj], tolerations: Sequence[Obj]) -> float | None:
    """Return the seconds for which a pod tolerates the taints; None for ever.

    Source: `GetMatchingTolerations`, `getMinTolerationTime`.
    """
    used = []
    for taint in taints:
        covering = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not covering:
            return 0.0
        used.append(covering[0])
    bounds = [
        max(float(toleration["tolerationSeconds"]), 0.0)
        for toleration in used
        if toleration.get("tolerationSeconds") is not None
    ]
    return min(bounds, default=None)


@dataclass(slots=True)
class _ScheduledEviction:
    uid: str
    timer: ScheduledCall


class TaintEvictionController:
    """Deletes pods whose toleration of a node's taints has expired.

    Their `tolerationSeconds` are real seconds, as are all durations of manifests.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "taint-eviction-controller")
        self._queue: Workqueue[str] = Workqueue(cluster, self._evict, "taint-eviction-controller")
        self._taints: dict[str, list[Obj]] = {}
        self._planned: dict[str, _ScheduledEviction] = {}
        self._marked: dict[str, str] = {}
        """The UIDs of the pods that are marked for deletion."""
        cluster.subscribe("nodes", self._node_changed)
        cluster.subscribe("pods", self._pod_changed)

    def _node_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        name, taints = name_of(new), []
        if change != "DELETED":
            all_taints = (new.get("spec") or {}).get("taints") or ()
            taints = [taint for taint in all_taints if taint["effect"] == "NoExecute"]
        if taints == self._taints.get(name, []):
            return
        if taints:
            self._taints[name] = taints
        else:
            del self._taints[name]
        for pod in self._cluster.list("pods"):
            if pod["spec"].get("nodeName") == name:
                self._consider(pod)

    def _pod_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        key = key_of(new)
        if change == "DELETED":
            planned = self._planned.pop(key, None)
            if planned is not None:
                planned.timer.cancel()
                self._record_event(new, f"Cancelling deletion of Pod {key}")
        elif new["spec"].get("nodeName") in self._taints or key in self._planned:
            self._consider(new)

    def _consider(self, pod: Obj) -> None:
        key, taints = key_of(pod), self._taints.get(pod["spec"]["nodeName"])
        if is_being_deleted(pod):
            return
        planned = self._planned.get(key)
        toleration_seconds = (
            min_toleration_seconds(taints, pod["spec"].get("tolerations") or ()) if taints else None
        )
        if toleration_seconds is None:
            self._cancel(pod)
            return
        if planned is not None and toleration_seconds:
            return
        self._cancel(pod)
        timer = self._cluster.clock.call_later(toleration_seconds, self._due, key, scaled=False)
        self._planned[key] = _ScheduledEviction(uid_of(pod), timer)

    def _cancel(self, pod: Obj) -> None:
        planned = self._planned.pop(key_of(pod), None)
        if planned is not None:
            planned.timer.cancel()
            self._record_event(pod, f"Cancelling deletion of Pod {key_of(pod)}")

    def _due(self, key: str) -> None:
        planned = self._planned.pop(key)
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if pod is not None and uid_of(pod) == planned.uid:
            self._record_event(pod, f"Marking for deletion Pod {key}")
            self._marked[key] = planned.uid
            self._queue.add(key)

    def _evict(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if pod is None or is_being_deleted(pod) or uid_of(pod) != self._marked.get(key):
            self._marked.pop(key, None)  # another pod may have the name by now
            return
        if get_condition(pod, "DisruptionTarget") is None:
            changed = clone(pod)
            target: Obj = {
                "type": "DisruptionTarget",
                "observedGeneration": pod["metadata"].get("generation", 1),
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": self._cluster.clock.stamp(),
                "reason": "DeletionByTaintManager",
                "message": _MESSAGE,
            }
            changed.setdefault("status", {}).setdefault("conditions", []).append(target)
            self._cluster.update_status("pods", changed)
        self._cluster.delete("pods", name, namespace, uid=uid_of(pod))
        self._marked.pop(key, None)

    def _record_event(self, pod: Obj, message: str) -> None:
        self._recorder.event(pod, ("v1", "Pod"), NORMAL, "TaintManagerEviction", message)
