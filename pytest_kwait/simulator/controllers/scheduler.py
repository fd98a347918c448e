"""The cluster's own scheduler: gives pods without a node the one that suits them best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm.fit_errors import FitError
from pytest_kwait.scheduler.algorithm.generic import Algorithm
from pytest_kwait.scheduler.algorithm.malformed import InvalidPod
from pytest_kwait.scheduler.algorithm.node_info import NodeInfo
from pytest_kwait.scheduler.algorithm.predicates import waiting_gates
from pytest_kwait.scheduler.algorithm.registry import DEFAULT_PREDICATES
from pytest_kwait.scheduler.algorithm.spread_constraints import (
    controller_reference,
    spread_selectors,
)
from pytest_kwait.simulator.conditions import condition_of, is_being_deleted
from pytest_kwait.simulator.controllers.ownership import key_of, split_key
from pytest_kwait.simulator.controllers.volumes.placement import VolumePlacement
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.events import NORMAL, WARNING, SchedulingRecorder
from pytest_kwait.simulator.objects import Obj, name_of
from pytest_kwait.simulator.status_error import StatusError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.simulator.cluster_api import ClusterApi

__all__ = ["SCHEDULER_NAME", "Scheduler"]

SCHEDULER_NAME = "default-scheduler"

# Seconds before a pod that fitted nowhere is tried again when something changed; doubling with
# each try. Source: kube-scheduler, scheduling_queue.go, `DefaultPodInitialBackoffDuration`.
_BACKOFF_FIRST = 1.0
_BACKOFF_MOST = 10.0

_OWNERS = {
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
}


class Scheduler:
    """Binds pods.

    A pod that fits nowhere is tried again when a node changes or a pod leaves one.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._recorder = SchedulingRecorder(api, SCHEDULER_NAME)
        self._volumes = VolumePlacement(api, self._claim_changed)
        self._algorithm = Algorithm([*DEFAULT_PREDICATES, self._volumes.predicate])
        self._nodes: dict[str, NodeInfo] = {}
        self._homeless: dict[str, dict[str, Obj]] = {}
        self._refused: dict[str, int] = {}
        self._queue: Workqueue[str] = Workqueue(api.clock, self._schedule, "scheduler")
        api.subscribe("nodes", self._node_changed)
        api.subscribe("pods", self._pod_changed)

    def list(self) -> list[NodeInfo]:
        """Return all nodes with the pods on them."""
        return [*self._nodes.values()]

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None where there is none of that name."""
        namespace = self._api.find("namespaces", name)
        return None if namespace is None else namespace["metadata"].get("labels") or {}

    def spread_selectors(self, pod: Obj) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the services and of the controller of `pod`."""
        namespace = pod["metadata"]["namespace"]
        reference, controller = controller_reference(pod), None
        if reference is not None:
            kind, name = reference
            controller = self._api.find(_OWNERS[kind], name, namespace)
        return spread_selectors(pod, self._api.list("services", namespace), controller)

    def _node_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED":
            self._nodes.pop(name, None)
            return
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(new)
            for pod in self._homeless.pop(name, {}).values():
                info.add(pod)
        else:
            info.set_node(new)
        if old is None or _concerns_pods(new) != _concerns_pods(old):
            self._try_refused()

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, node = key_of(new), new["spec"].get("nodeName")
        ended = (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if change == "DELETED" or ended:
            self._refused.pop(key, None)
            self._queue.forget(key)
            if node and self._leave(node, new):
                self._try_refused()
        elif node:
            self._refused.pop(key, None)
            if node in self._nodes:
                self._nodes[node].add(new)
            else:
                self._homeless.setdefault(node, {})[new["metadata"]["uid"]] = new
            if old is None or not old["spec"].get("nodeName") or _labels(old) != _labels(new):
                self._try_refused(_asks_for_pods)
        elif key not in self._refused and self._is_ours(new):
            self._queue.add(key)
        elif key in self._refused and old is not None and old["spec"] != new["spec"]:
            self._retry(key)

    def _leave(self, node: str, pod: Obj) -> bool:
        info = self._nodes.get(node)
        if info is not None:
            return info.remove(pod)
        self._homeless.get(node, {}).pop(pod["metadata"]["uid"], None)
        return False

    def _is_ours(self, pod: Obj) -> bool:
        name = pod["spec"].get("schedulerName", SCHEDULER_NAME)
        return name == SCHEDULER_NAME and not is_being_deleted(pod) and not waiting_gates(pod)

    def _try_refused(self, whom: Callable[[Obj], bool] | None = None) -> None:
        for key in self._refused:
            if whom is None or self._is(whom, key):
                self._retry(key)

    def _is(self, whom: Callable[[Obj], bool], key: str) -> bool:
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        return pod is not None and whom(pod)

    def _claim_changed(self, key: str) -> None:
        if key in self._refused:
            self._queue.add(key)

    def _retry(self, key: str) -> None:
        tries = self._refused.get(key, 1)
        self._queue.add_after(key, min(_BACKOFF_FIRST * 2 ** min(tries - 1, 8), _BACKOFF_MOST))

    def _schedule(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        if pod is None or pod["spec"].get("nodeName") or not self._is_ours(pod):
            return
        try:
            chosen = self._algorithm.schedule(pod, self)
        except FitError as error:
            self._refuse(key, pod, str(error))
            return
        except InvalidPod as error:
            self._refuse(key, pod, str(error), reason="SchedulerError")
            return
        try:
            if not self._volumes.reserve(pod, chosen):
                # It goes there once its claims have their volumes.
                self._refused.setdefault(key, 1)
                return
            self._api.bind(namespace, name, chosen)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        message = f"Successfully assigned {key} to {chosen}"
        self._recorder.event(pod, NORMAL, "Scheduled", "Binding", message)

    def _refuse(self, key: str, pod: Obj, message: str, *, reason: str = "Unschedulable") -> None:
        self._refused[key] = self._refused.get(key, 0) + 1
        self._recorder.event(pod, WARNING, "FailedScheduling", "Scheduling", message)
        last = condition_of(pod, "PodScheduled")
        if last is not None and last["status"] == "False" and last.get("message") == message:
            return
        stamp = self._api.clock.stamp()
        since = (
            last["lastTransitionTime"] if last is not None and last["status"] == "False" else stamp
        )
        condition: Obj = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        status = dict(pod.get("status") or {})
        others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
        status["conditions"] = [*others, condition]
        try:
            self._api.update_status("pods", {**pod, "status": status})
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise


def _labels(obj: Obj) -> object:
    return obj["metadata"].get("labels")


def _asks_for_pods(pod: Obj) -> bool:
    """Whether a pod that comes elsewhere can make room for this one."""
    affinity = pod["spec"].get("affinity") or {}
    return "podAffinity" in affinity or "topologySpreadConstraints" in pod["spec"]


def _concerns_pods(node: Obj) -> tuple[object, ...]:
    """Return what of a node decides whether pods fit; heartbeats do not."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return (
        node["metadata"].get("labels"),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
    )
