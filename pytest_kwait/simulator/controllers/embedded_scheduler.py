"""The cluster's own scheduler: gives pods without a node the one that suits them best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.algorithm import Algorithm
from pytest_kwait.scheduler.fit_errors import FitError
from pytest_kwait.scheduler.framework.invalid_objects import InvalidPod
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.framework.spread_constraints import (
    collect_spread_selectors,
    find_spreading_controller,
)
from pytest_kwait.scheduler.plugins.predicates import list_scheduling_gates
from pytest_kwait.scheduler.plugins.registry import DEFAULT_PREDICATES
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.conditions import get_condition, is_being_deleted
from pytest_kwait.simulator.controllers.controller_refs import key_of, split_key
from pytest_kwait.simulator.controllers.volume.volume_binding import VolumeBinding
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, SchedulingRecorder
from pytest_kwait.simulator.objects import Obj, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["SCHEDULER_NAME", "EmbeddedScheduler"]

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


@dataclass(frozen=True, slots=True)
class _UnschedulablePod:
    """That a pod fits nowhere.

    Args:
        at: the moment of the last try, of the monotonic clock.
        tries: how many there were.
    """

    at: float
    tries: int = 1


class EmbeddedScheduler:
    """Binds pods.

    A pod that fits nowhere is tried again when a node changes or a pod leaves one.

    Args:
        api: the cluster.
    """

    def __init__(self, api: SimulatedCluster) -> None:
        self._api = api
        self._recorder = SchedulingRecorder(api, SCHEDULER_NAME)
        self._volumes = VolumeBinding(api, self._claim_changed)
        self._algorithm = Algorithm([*DEFAULT_PREDICATES, self._volumes.predicate])
        self._nodes: dict[str, NodeInfo] = {}
        self._homeless: dict[str, dict[str, Obj]] = {}
        self._refused: dict[str, _UnschedulablePod] = {}
        self._nominated: dict[str, dict[str, Obj]] = {}
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
        reference, controller = find_spreading_controller(pod), None
        if reference is not None:
            kind, name = reference
            controller = self._api.find(_OWNERS[kind], name, namespace)
        return collect_spread_selectors(pod, self._api.list("services", namespace), controller)

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
        if old is None or _scheduling_fields(new) != _scheduling_fields(old):
            self._try_refused()

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, node = key_of(new), new["spec"].get("nodeName")
        self._update_nomination(key, change, new, old)
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
                self._try_refused(_depends_on_other_pods)
        elif key not in self._refused and self._is_ours(new):
            self._queue.add(key)
        elif key in self._refused and old is not None and old["spec"] != new["spec"]:
            self._retry(key)

    def _update_nomination(self, key: str, change: str, new: Obj, old: Obj | None) -> None:
        """Remember on which node a pod is to get the place of others."""
        before = _get_nominated_node(old)
        after = None if change == "DELETED" or is_being_deleted(new) else _get_nominated_node(new)
        if before is not None and before != after:
            self._nominated.get(before, {}).pop(key, None)
            if not self._nominated.get(before, True):
                del self._nominated[before]
        if after is not None:
            self._nominated.setdefault(after, {})[key] = new

    def _leave(self, node: str, pod: Obj) -> bool:
        info = self._nodes.get(node)
        if info is not None:
            return info.remove(pod)
        self._homeless.get(node, {}).pop(pod["metadata"]["uid"], None)
        return False

    def _is_ours(self, pod: Obj) -> bool:
        name = pod["spec"].get("schedulerName", SCHEDULER_NAME)
        return (
            name == SCHEDULER_NAME and not is_being_deleted(pod) and not list_scheduling_gates(pod)
        )

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
        refusal = self._refused.get(key, _UnschedulablePod(0.0))
        pause = min(_BACKOFF_FIRST * 2 ** min(refusal.tries - 1, 8), _BACKOFF_MOST)
        until = refusal.at + pause * self._api.clock.scale
        self._queue.add_after(key, until - self._api.clock.monotonic(), scaled=False)

    def _schedule(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._api.find("pods", name, namespace)
        if pod is None or pod["spec"].get("nodeName") or not self._is_ours(pod):
            return
        try:
            chosen = self._choose(pod)
        except FitError as error:
            self._make_room(key, pod, error)
            return
        except InvalidPod as error:
            self._refuse(key, pod, str(error), reason="SchedulerError")
            return
        try:
            if not self._volumes.reserve(pod, chosen):
                # It goes there once its claims have their volumes.
                self._refused.setdefault(key, _UnschedulablePod(self._api.clock.monotonic()))
                return
            self._api.bind(namespace, name, chosen)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        message = f"Successfully assigned {key} to {chosen}"
        self._recorder.event(pod, NORMAL, "Scheduled", "Binding", message)

    def _choose(self, pod: Obj) -> str:
        """Return the node for a pod; that which it was promised, where it fits there.

        Source: kube-scheduler, schedule_one.go, `findNodesThatFitPod`.
        """
        lister = self._try_nominated_node(pod)
        promised = _get_nominated_node(pod)
        for info in lister.list() if promised else ():
            if info.name == promised and self._algorithm.rejection(pod, lister, info) is None:
                return info.name
        return self._algorithm.schedule(pod, lister)

    def _try_nominated_node(self, pod: Obj) -> NodeLister:
        """Return the nodes as a pod has to take them, with those who are promised a place."""
        if not self._nominated:
            return self
        from pytest_kwait.simulator.controllers.promises import add_nominated_pods

        return add_nominated_pods(self, self._nodes, self._nominated, pod)

    def _make_room(self, key: str, pod: Obj, error: FitError) -> None:
        """Have less important pods leave a node where that helps, or say why nobody has to."""
        if not any(one.resolvable for one in error.rejections.values()):
            self._refuse(key, pod, str(error), promised="")
            return
        from pytest_kwait.simulator.controllers.preemption import (
            TERMINATING,
            evict_victims,
            find_candidate,
        )

        lister = self._try_nominated_node(pod)
        candidate, message = find_candidate(self._api, self._algorithm, lister, pod, error)
        if candidate is None:
            waits = message.endswith(TERMINATING) or not error.may_preempt
            self._refuse(key, pod, message, promised=None if waits else "")
            return
        self._refuse(key, pod, message, promised=candidate.node)
        evict_victims(self._api, self._recorder, pod, candidate)
        mine = pod["spec"].get("priority") or 0
        for other in [*self._nominated.get(candidate.node, {}).values()]:
            if (other["spec"].get("priority") or 0) < mine:
                self._withdraw(other)

    def _withdraw(self, pod: Obj) -> None:
        """Promise a pod no place any more."""

        def withdraw(changed: Obj) -> None:
            changed["status"].pop("nominatedNodeName", None)

        namespace, name = split_key(key_of(pod))
        self._api.modify("pods", name, namespace, withdraw, subresource="status")

    def _refuse(
        self,
        key: str,
        pod: Obj,
        message: str,
        *,
        reason: str = "Unschedulable",
        promised: str | None = None,
    ) -> None:
        """Say that a pod fits nowhere.

        Args:
            key: the pod's.
            pod: the pod.
            message: why.
            reason: of the condition.
            promised: the node where it gets the place of others; empty for none; None to leave
                that as it is.
        """
        tries = self._refused[key].tries + 1 if key in self._refused else 1
        self._refused[key] = _UnschedulablePod(self._api.clock.monotonic(), tries)
        self._recorder.event(pod, WARNING, "FailedScheduling", "Scheduling", message)
        last = get_condition(pod, "PodScheduled")
        now = (pod.get("status") or {}).get("nominatedNodeName") or ""
        same = last is not None and last["status"] == "False" and last.get("message") == message
        if same and promised in (None, now):
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
        if promised:
            status["nominatedNodeName"] = promised
        elif promised is not None:
            status.pop("nominatedNodeName", None)
        try:
            self._api.update_status("pods", {**pod, "status": status})
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise


def _get_nominated_node(pod: Obj | None) -> str | None:
    """The node on which a pod without one is to get the place of others."""
    if pod is None or pod["spec"].get("nodeName"):
        return None
    found: str | None = (pod.get("status") or {}).get("nominatedNodeName")
    return found or None


def _labels(obj: Obj) -> object:
    return obj["metadata"].get("labels")


def _depends_on_other_pods(pod: Obj) -> bool:
    """Whether a pod that comes elsewhere can make room for this one."""
    affinity = pod["spec"].get("affinity") or {}
    return "podAffinity" in affinity or "topologySpreadConstraints" in pod["spec"]


def _scheduling_fields(node: Obj) -> tuple[object, ...]:
    """Return what of a node decides whether pods fit; heartbeats do not."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return (
        node["metadata"].get("labels"),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
    )
