"""The embedded cluster's scheduler, with nominated pods and preemption.

It runs `pytest_kwait.scheduler.algorithm` on the cluster's own objects.

Source: kube-scheduler, schedule_one.go, framework/runtime/framework.go (`addGENominatedPods`),
framework/preemption/preemption.go, executor.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.scheduler.algorithm import (
    DEFAULT_PREDICATES,
    Algorithm,
    FitError,
    format_fit_error,
)
from pytest_kwait.scheduler.framework.cycle_state import Rejection
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.framework.object_fields import InvalidPod
from pytest_kwait.scheduler.framework.pod_info import DEFAULT_SCHEDULER
from pytest_kwait.scheduler.plugins.default_preemption import (
    NO_VICTIMS,
    OverlayNodeLister,
    PreemptionCandidate,
    clone_node_info,
    get_pod_priority,
    pick_one_candidate,
    select_victims_on_node,
)
from pytest_kwait.scheduler.plugins.pod_topology_spread import (
    collect_spread_selectors,
    find_spreading_controller,
)
from pytest_kwait.scheduler.plugins.predicates import list_scheduling_gates
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.volume.volume_binding import VolumeBinding
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, SchedulingRecorder
from pytest_kwait.simulator.objects import (
    Obj,
    clone,
    is_being_deleted,
    name_of,
    namespace_of,
    uid_of,
)
from pytest_kwait.simulator.request_info import SCHEDULER_MANAGER, internal_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.scheduler.framework.cycle_state import NodeLister
    from pytest_kwait.simulator.cluster_protocol import Cluster

TERMINATING = "not eligible due to a terminating pod on the nominated node."

_BUDGETS = "poddisruptionbudgets.policy"
_REASON = "PreemptionByScheduler"
_NOT_HELPFUL = Rejection(("Preemption is not helpful for scheduling",))
# The minimum number of nodes tried; a tenth of all if that is more.
_MIN_CANDIDATES = 100

# Seconds before an unschedulable pod is retried after a change; doubling with
# each try. Source: kube-scheduler, scheduling_queue.go, `DefaultPodInitialBackoffDuration`.
_INITIAL_BACKOFF = 1.0
_MAX_BACKOFF = 10.0

_OWNERS = {
    "ReplicationController": "replicationcontrollers",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
}


def add_nominated_pods(
    lister: NodeLister,
    nodes: Mapping[str, NodeInfo],
    nominated_node: Mapping[str, Mapping[str, Obj]],
    pod: Obj,
) -> NodeLister:
    """Return the nodes with the nominated pods of at least `pod`'s priority added.

    Unlike upstream the pod is not also tried on the nodes without them, which matters only for
    a pod with affinity to a nominated pod.

    Args:
        lister: the current nodes.
        nodes: the same by name.
        nominated_node: the nominated pods by node.
        pod: the pod to schedule.
    """
    changed: dict[str, NodeInfo] = {}
    own = get_pod_priority(pod)
    for name, pods in nominated_node.items():
        added = [
            nominated_pod
            for nominated_pod in pods.values()
            if get_pod_priority(nominated_pod) >= own and uid_of(nominated_pod) != uid_of(pod)
        ]
        if added and name in nodes:
            changed[name] = clone_node_info(nodes[name])
            for nominated_pod in added:
                changed[name].add(nominated_pod)
    return OverlayNodeLister(lister, changed) if changed else lister


def is_preemption_victim(pod: Obj) -> bool:
    """Return whether the pod is being deleted after a preemption."""
    target = get_condition(pod, "DisruptionTarget")
    return is_being_deleted(pod) and target is not None and target.get("reason") == _REASON


def find_candidate(
    cluster: Cluster, algorithm: Algorithm, lister: NodeLister, pod: Obj, error: FitError
) -> tuple[PreemptionCandidate | None, str]:
    """Return the preemption candidate for `pod`, or None, and the text of its condition.

    Args:
        algorithm: the scheduling algorithm.
        lister: the nodes.
        pod: an unschedulable pod.
        error: the reasons.
    """
    if error.reason or not error.may_preempt:
        return None, str(error)
    nodes = {info.name: info for info in lister.list()}
    nominated = nodes.get((pod.get("status") or {}).get("nominatedNodeName") or "")
    if nominated is not None and _has_terminating_victims(nominated, pod):
        return None, format_fit_error([*error.rejections.values()], preemption=TERMINATING)
    budgets = cluster.list(_BUDGETS)
    rejections: list[Rejection] = []
    candidates: list[PreemptionCandidate] = []
    most = max(len(nodes) // 10, _MIN_CANDIDATES)
    for name, rejection in error.rejections.items():
        outcome: PreemptionCandidate | Rejection = _NOT_HELPFUL
        if rejection.resolvable and len(candidates) < most:
            outcome = _try_preemption(algorithm, lister, nodes[name], pod, budgets)
        if isinstance(outcome, Rejection):
            rejections.append(outcome)
        else:
            candidates.append(outcome)
    if candidates:
        return pick_one_candidate(candidates), format_fit_error(
            [*error.rejections.values()], preemption=""
        )
    return None, format_fit_error([*error.rejections.values()], tried=rejections)


def _has_terminating_victims(info: NodeInfo, pod: Obj) -> bool:
    """Return whether victims of a preemption are still terminating on the node."""
    own = get_pod_priority(pod)
    return any(
        get_pod_priority(pod_info.pod) < own and is_preemption_victim(pod_info.pod)
        for pod_info in info.pods
    )


def _try_preemption(
    algorithm: Algorithm, lister: NodeLister, info: NodeInfo, pod: Obj, budgets: list[Obj]
) -> PreemptionCandidate | Rejection:
    own = get_pod_priority(pod)
    if not any(get_pod_priority(pod_info.pod) < own for pod_info in info.pods):
        return NO_VICTIMS
    copy = clone_node_info(info)
    changed_lister = OverlayNodeLister(lister, {info.name: copy})
    return select_victims_on_node(
        copy, pod, budgets, lambda node: algorithm.rejection(pod, changed_lister, node)
    )


def evict_victims(
    cluster: Cluster, recorder: SchedulingRecorder, pod: Obj, candidate: PreemptionCandidate
) -> None:
    """Delete the victims and record an event of each.

    Args:
        pod: the preempting pod.
        candidate: the node and its victims.
    """
    for victim in candidate.victims:
        if is_being_deleted(victim):
            continue
        try:
            _add_disruption_condition(cluster, victim)
            cluster.delete("pods", name_of(victim), namespace_of(victim), uid=uid_of(victim))
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            continue
        message = f"Preempted by pod {uid_of(pod)} on node {candidate.node}"
        recorder.event(victim, NORMAL, "Preempted", "Preempting", message)


def _add_disruption_condition(cluster: Cluster, victim: Obj) -> None:
    changed = clone(cluster.get("pods", name_of(victim), namespace_of(victim)))
    conditions = changed.setdefault("status", {}).setdefault("conditions", [])
    scheduler = victim["spec"].get("schedulerName", DEFAULT_SCHEDULER)
    target: Obj = {
        "type": "DisruptionTarget",
        "observedGeneration": victim["metadata"].get("generation", 1),
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": cluster.clock.stamp(),
        "reason": _REASON,
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
    }
    conditions[:] = [
        condition for condition in conditions if condition["type"] != "DisruptionTarget"
    ]
    conditions.append(target)
    cluster.update_status("pods", changed, caller=internal_caller(SCHEDULER_MANAGER))


@dataclass(frozen=True, slots=True)
class _UnschedulablePod:
    """The attempts to schedule an unschedulable pod.

    Args:
        at: the time of the last attempt, of the monotonic clock.
        tries: the number of attempts.
    """

    at: float
    tries: int = 1


class EmbeddedScheduler:
    """Schedules and binds pods.

    An unschedulable pod is retried when a node changes or a pod leaves one.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = SchedulingRecorder(cluster, DEFAULT_SCHEDULER)
        self._volumes = VolumeBinding(cluster, self._claim_changed)
        self._algorithm = Algorithm([*DEFAULT_PREDICATES, self._volumes.predicate])
        self._nodes: dict[str, NodeInfo] = {}
        self._pods_of_missing_nodes: dict[str, dict[str, Obj]] = {}
        self._unschedulable: dict[str, _UnschedulablePod] = {}
        self._nominated: dict[str, dict[str, Obj]] = {}
        self._queue: Workqueue[str] = Workqueue(cluster, self._schedule, "scheduler")
        cluster.subscribe("nodes", self._node_changed)
        cluster.subscribe("pods", self._pod_changed)

    def list(self) -> list[NodeInfo]:
        """Return all nodes with the pods on them."""
        return [*self._nodes.values()]

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""
        namespace = self._cluster.find("namespaces", name)
        return None if namespace is None else namespace["metadata"].get("labels") or {}

    def spread_selectors(self, pod: Obj) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the services and of the controller of `pod`."""
        namespace = pod["metadata"]["namespace"]
        reference, controller = find_spreading_controller(pod), None
        if reference is not None:
            kind, name = reference
            controller = self._cluster.find(_OWNERS[kind], name, namespace)
        return collect_spread_selectors(pod, self._cluster.list("services", namespace), controller)

    def _node_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED":
            self._nodes.pop(name, None)
            return
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(new)
            for pod in self._pods_of_missing_nodes.pop(name, {}).values():
                info.add(pod)
        else:
            info.set_node(new)
        if old is None or _scheduling_fields(new) != _scheduling_fields(old):
            self._retry_unschedulable()

    def _pod_changed(self, change: str, new: Obj, old: Obj | None) -> None:
        key, node = key_of(new), new["spec"].get("nodeName")
        self._update_nomination(key, change, new, old)
        ended = (new.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if change == "DELETED" or ended:
            self._unschedulable.pop(key, None)
            self._queue.forget(key)
            if node and self._remove_from_node(node, new):
                self._retry_unschedulable()
        elif node:
            self._unschedulable.pop(key, None)
            if node in self._nodes:
                self._nodes[node].add(new)
            else:
                self._pods_of_missing_nodes.setdefault(node, {})[new["metadata"]["uid"]] = new
            if old is None or not old["spec"].get("nodeName") or _labels(old) != _labels(new):
                self._retry_unschedulable(_depends_on_other_pods)
        elif key not in self._unschedulable and self._is_ours(new):
            self._queue.add(key)
        elif key in self._unschedulable and old is not None and old["spec"] != new["spec"]:
            self._retry(key)

    def _update_nomination(self, key: str, change: str, new: Obj, old: Obj | None) -> None:
        """Record the nominated node of a pod."""
        before = _get_nominated_node(old)
        after = None if change == "DELETED" or is_being_deleted(new) else _get_nominated_node(new)
        if before is not None and before != after:
            self._nominated.get(before, {}).pop(key, None)
            if not self._nominated.get(before, True):
                del self._nominated[before]
        if after is not None:
            self._nominated.setdefault(after, {})[key] = new

    def _remove_from_node(self, node: str, pod: Obj) -> bool:
        info = self._nodes.get(node)
        if info is not None:
            return info.remove(pod)
        self._pods_of_missing_nodes.get(node, {}).pop(pod["metadata"]["uid"], None)
        return False

    def _is_ours(self, pod: Obj) -> bool:
        name = pod["spec"].get("schedulerName", DEFAULT_SCHEDULER)
        return (
            name == DEFAULT_SCHEDULER
            and not is_being_deleted(pod)
            and not list_scheduling_gates(pod)
        )

    def _retry_unschedulable(self, condition: Callable[[Obj], bool] | None = None) -> None:
        for key in self._unschedulable:
            if condition is None or self._matches(condition, key):
                self._retry(key)

    def _matches(self, condition: Callable[[Obj], bool], key: str) -> bool:
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        return pod is not None and condition(pod)

    def _claim_changed(self, key: str) -> None:
        if key in self._unschedulable:
            self._queue.add(key)

    def _retry(self, key: str) -> None:
        attempt = self._unschedulable.get(key, _UnschedulablePod(0.0))
        pause = min(_INITIAL_BACKOFF * 2 ** min(attempt.tries - 1, 8), _MAX_BACKOFF)
        until = attempt.at + pause * self._cluster.clock.scale
        self._queue.add_after(key, until - self._cluster.clock.monotonic(), scaled=False)

    def _schedule(self, key: str) -> None:
        namespace, name = split_key(key)
        pod = self._cluster.find("pods", name, namespace)
        if pod is None or pod["spec"].get("nodeName") or not self._is_ours(pod):
            return
        try:
            chosen = self._select_node(pod)
        except FitError as error:
            self._preempt(key, pod, error)
            return
        except InvalidPod as error:
            self._report_unschedulable(key, pod, str(error), reason="SchedulerError")
            return
        try:
            if not self._volumes.reserve(pod, chosen):
                # It is bound once its claims have their volumes.
                self._unschedulable.setdefault(
                    key, _UnschedulablePod(self._cluster.clock.monotonic())
                )
                return
            self._cluster.bind(namespace, name, chosen)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return
        message = f"Successfully assigned {key} to {chosen}"
        self._recorder.event(pod, NORMAL, "Scheduled", "Binding", message)

    def _select_node(self, pod: Obj) -> str:
        """Return the node for a pod; its nominated node if it fits there.

        Source: kube-scheduler, schedule_one.go, `findNodesThatFitPod`.
        """
        lister = self._list_with_nominated_pods(pod)
        nominated_node = _get_nominated_node(pod)
        for info in lister.list() if nominated_node else ():
            if info.name == nominated_node and self._algorithm.rejection(pod, lister, info) is None:
                return info.name
        return self._algorithm.schedule(pod, lister)

    def _list_with_nominated_pods(self, pod: Obj) -> NodeLister:
        """Return the nodes with nominated pods added."""
        if not self._nominated:
            return self

        return add_nominated_pods(self, self._nodes, self._nominated, pod)

    def _preempt(self, key: str, pod: Obj, error: FitError) -> None:
        """Preempt less important pods if that helps; report the pod unschedulable either way."""
        if not any(rejection.resolvable for rejection in error.rejections.values()):
            self._report_unschedulable(key, pod, str(error), nominated_node="")
            return

        lister = self._list_with_nominated_pods(pod)
        candidate, message = find_candidate(self._cluster, self._algorithm, lister, pod, error)
        if candidate is None:
            waits = message.endswith(TERMINATING) or not error.may_preempt
            self._report_unschedulable(key, pod, message, nominated_node=None if waits else "")
            return
        self._report_unschedulable(key, pod, message, nominated_node=candidate.node)
        evict_victims(self._cluster, self._recorder, pod, candidate)
        own_priority = pod["spec"].get("priority") or 0
        for nominated_pod in [*self._nominated.get(candidate.node, {}).values()]:
            if (nominated_pod["spec"].get("priority") or 0) < own_priority:
                self._remove_nomination(nominated_pod)

    def _remove_nomination(self, pod: Obj) -> None:
        def withdraw(changed: Obj) -> None:
            changed["status"].pop("nominatedNodeName", None)

        namespace, name = split_key(key_of(pod))
        caller = internal_caller(SCHEDULER_MANAGER)
        self._cluster.modify("pods", name, namespace, withdraw, subresource="status", caller=caller)

    def _report_unschedulable(
        self,
        key: str,
        pod: Obj,
        message: str,
        *,
        reason: str = "Unschedulable",
        nominated_node: str | None = None,
    ) -> None:
        """Report a pod unschedulable by event and condition.

        Args:
            key: the pod's key.
            message: the text of the event and the condition.
            reason: the condition's reason.
            nominated_node: the nominated node; empty to remove it; None to keep it.
        """
        tries = self._unschedulable[key].tries + 1 if key in self._unschedulable else 1
        self._unschedulable[key] = _UnschedulablePod(self._cluster.clock.monotonic(), tries)
        self._recorder.event(pod, WARNING, "FailedScheduling", "Scheduling", message)
        last = get_condition(pod, "PodScheduled")
        now = (pod.get("status") or {}).get("nominatedNodeName") or ""
        same = last is not None and last["status"] == "False" and last.get("message") == message
        if same and nominated_node in (None, now):
            return
        stamp = self._cluster.clock.stamp()
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
        other_conditions = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] != "PodScheduled"
        ]
        status["conditions"] = [*other_conditions, condition]
        if nominated_node:
            status["nominatedNodeName"] = nominated_node
        elif nominated_node is not None:
            status.pop("nominatedNodeName", None)
        try:
            caller = internal_caller(SCHEDULER_MANAGER)
            self._cluster.update_status("pods", {**pod, "status": status}, caller=caller)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise


def _get_nominated_node(pod: Obj | None) -> str | None:
    """Return the nominated node of an unbound pod; None without one."""
    if pod is None or pod["spec"].get("nodeName"):
        return None
    nominated_node_name: str | None = (pod.get("status") or {}).get("nominatedNodeName")
    return nominated_node_name or None


def _labels(obj: Obj) -> object:
    return obj["metadata"].get("labels")


def _depends_on_other_pods(pod: Obj) -> bool:
    """Return whether a pod bound elsewhere can make this one schedulable."""
    affinity = pod["spec"].get("affinity") or {}
    return "podAffinity" in affinity or "topologySpreadConstraints" in pod["spec"]


def _scheduling_fields(node: Obj) -> tuple[object, ...]:
    """Return the fields of a node that decide whether pods fit; heartbeats do not."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return (
        node["metadata"].get("labels"),
        spec.get("taints"),
        spec.get("unschedulable"),
        status.get("allocatable"),
    )
