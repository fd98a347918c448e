"""The controllers of ReplicaSets and ReplicationControllers.

Pods are counted per owner as they change, so that a sync costs the same for any number.

Source: kube-controller-manager, replicaset/replica_set.go,
replication/replication_controller.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.simulator.controllers.controller_refs import OwnerIndex
from pytest_kwait.simulator.controllers.pod_control import (
    PodControl,
    SlowStartError,
    is_active,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    make_pod_from_template,
    rank_for_deletion,
    seconds_until_available,
    slow_start_batch,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue, key_of, split_key
from pytest_kwait.simulator.event_recorder import EventRecorder
from pytest_kwait.simulator.objects import is_being_deleted, labels_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.api_errors import StatusError
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
    from pytest_kwait.simulator.objects import Obj

# Upstream creates up to 500 concurrently; here one by one, with requests served between.
# Source: kube-controller-manager, replica_set.go, `BurstReplicas`; controller_utils.go.
_BURST_REPLICAS = 100
_INITIAL_BATCH = 1
# Seconds of delay per pod. A sync writes to the object, so changes of many pods are batched.
_PAUSE_PER_POD = 0.00005


class PodCounts(NamedTuple):
    """The numbers of an owner's pods.

    Args:
        strangers: the pods that do not match the selector.
        active: of the others, those that count as replicas.
        ready: the ready ones of the active pods.
        labelled: the active pods with all labels of the template.
    """

    strangers: int = 0
    active: int = 0
    terminating: int = 0
    ready: int = 0
    labelled: int = 0


class PodCounter:
    """The counts of the pods of one owner, updated pod by pod.

    Args:
        selector: the owner's selector.
        labels: the labels of its template.
        pods: its present pods.
    """

    def __init__(self, selector: Obj, labels: Obj, pods: Iterable[Obj]) -> None:
        self.selector = selector
        self.labels = labels
        self._sums = [0] * len(PodCounts._fields)
        self._pods: dict[str, tuple[Obj, PodCounts]] = {}
        for pod in pods:
            self.note(pod)

    @property
    def counts(self) -> PodCounts:
        """Return the present counts."""
        return PodCounts(*self._sums)

    def active(self) -> list[Obj]:
        """Return the active pods, in order of creation."""
        return [pod for pod, counts in self._pods.values() if counts.active]

    def note(self, pod: Obj) -> None:
        """Count a pod in its current state."""
        known, counts = self._pods.get(uid_of(pod)), self._counts(pod)
        if known is None:
            self._add(counts, 1)
        elif known[1] != counts:
            self._add(known[1], -1)
            self._add(counts, 1)
        self._pods[uid_of(pod)] = pod, counts

    def drop(self, pod: Obj) -> None:
        """Stop counting a pod."""
        known = self._pods.pop(uid_of(pod), None)
        if known is not None:
            self._add(known[1], -1)

    def _add(self, counts: PodCounts, sign: int) -> None:
        self._sums = [total + sign * more for total, more in zip(self._sums, counts, strict=True)]

    def _counts(self, pod: Obj) -> PodCounts:
        labels = labels_of(pod)
        if not matches_label_selector(self.selector, labels):
            return PodCounts(strangers=1)
        if not is_active(pod):
            return PodCounts(terminating=int(is_terminating(pod)))
        labelled = self.labels.items() <= labels.items()
        return PodCounts(active=1, ready=int(is_ready(pod)), labelled=int(labelled))


class PodCounters:
    """The pod counts of all owners of one kind, each read in constant time."""

    def __init__(self, pods: ControllerRefManager) -> None:
        self._pods = pods
        self._tallies: dict[str, PodCounter] = {}
        pods.listen(self._pod_changed)

    def of(self, owner_uid: str, selector: Obj, labels: Obj) -> PodCounter:
        """Return the owner's counter, recounted if selector or labels changed."""
        tally = self._tallies.get(owner_uid)
        if tally is None or tally.selector != selector or tally.labels != labels:
            tally = PodCounter(selector, labels, self._pods.of(owner_uid))
            self._tallies[owner_uid] = tally
        return tally

    def forget(self, owner_uid: str) -> None:
        """Drop the counter of a deleted owner."""
        self._tallies.pop(owner_uid, None)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        if previous_uid is not None and previous_uid != owner_uid:
            previous_tally = self._tallies.get(previous_uid)
            if previous_tally is not None:
                previous_tally.drop(pod)
        tally = self._tallies.get(owner_uid or "")
        if tally is not None:
            tally.note(pod)


@dataclass(frozen=True, slots=True)
class ReplicaKind:
    """The differences between ReplicaSets and ReplicationControllers.

    Args:
        resource: as `plural.group`.
        api_version: of the kind.
        kind: its name.
        component: the source of its events.
        counts_terminating: whether the status has the number of terminating pods.
    """

    resource: str
    api_version: str
    kind: str
    component: str
    counts_terminating: bool

    def selector(self, obj: Obj) -> Obj:
        """Return the selector of its pods, as a LabelSelector."""
        selector = obj["spec"].get("selector") or {}
        return selector if self.counts_terminating else {"matchLabels": selector}


REPLICA_SETS = ReplicaKind(
    "replicasets.apps", "apps/v1", "ReplicaSet", "replicaset-controller", True
)
REPLICATION_CONTROLLERS = ReplicaKind(
    "replicationcontrollers", "v1", "ReplicationController", "replication-controller", False
)


def calculate_status(
    kind: ReplicaKind,
    obj: Obj,
    counts: PodCounts,
    available: int,
    failure: StatusError | None,
    stamp: str,
) -> Obj:
    """Return the status for the present pods.

    Args:
        obj: the controller object with its last status.
        available: the number of available pods.
        failure: the error of creating or deleting pods.
        stamp: the current time, as the API writes it.

    Source: kube-controller-manager, replica_set_utils.go, `calculateStatus`.
    """
    spec, last = obj["spec"], obj.get("status") or {}
    status_counts = {
        "replicas": counts.active,
        "fullyLabeledReplicas": counts.labelled,
        "readyReplicas": counts.ready,
        "availableReplicas": available,
    }
    status: Obj = {
        name: count for name, count in status_counts.items() if count or name == "replicas"
    }
    if kind.counts_terminating:
        status["terminatingReplicas"] = counts.terminating
    status["observedGeneration"] = obj["metadata"].get("generation", 0)
    other_conditions = [
        condition
        for condition in last.get("conditions") or ()
        if condition["type"] != "ReplicaFailure"
    ]
    failures = [
        condition
        for condition in last.get("conditions") or ()
        if condition["type"] == "ReplicaFailure"
    ]
    if failure is not None and not failures:
        missing = counts.active < spec.get("replicas", 1)
        failures = [{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": stamp,
            "reason": "FailedCreate" if missing else "FailedDelete", "message": failure.message,
        }]  # fmt: skip
    conditions = [*other_conditions, *(failures if failure is not None else [])]
    if conditions:
        status["conditions"] = conditions
    return status


class ReplicaSetController:
    """Keeps the pods of one of the two kinds."""

    def __init__(self, cluster: Cluster, kind: ReplicaKind, pods: ControllerRefManager) -> None:
        self._cluster = cluster
        self._kind = kind
        self._pods = pods
        self._control = PodControl(
            cluster, EventRecorder(cluster, kind.component), kind.api_version, kind.kind
        )
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, kind.component)
        # Registered before the owners' handlers, which read these counts.
        self._tallies = PodCounters(pods)
        OwnerIndex(cluster, kind.resource, pods, self._queue, _PAUSE_PER_POD)
        cluster.subscribe(kind.resource, self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "DELETED":
            self._tallies.forget(uid_of(new))

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        obj = self._cluster.find(self._kind.resource, name, namespace)
        if obj is None:
            return
        spec, selector = obj["spec"], self._kind.selector(obj)
        labels = labels_of(spec.get("template") or {})
        tally = self._tallies.of(uid_of(obj), selector, labels)
        if tally.counts.strangers or self._pods.has_orphans(namespace):
            self._pods.claim(obj, self._kind.api_version, self._kind.kind, selector)
        # The status reports the pods before this sync changes them.
        counts, delay = tally.counts, spec.get("minReadySeconds") or 0
        waits: list[float | None] = []
        available, now = counts.ready, self._cluster.clock.time()
        if delay:
            waits = [seconds_until_available(pod, delay, now) for pod in tally.active()]
            available = waits.count(0.0)
        failure = None
        if not is_being_deleted(obj):
            failure = self._manage(obj, tally)
        stamp = self._cluster.clock.stamp()
        status = calculate_status(self._kind, obj, counts, available, failure, stamp)
        if status != obj.get("status"):
            self._cluster.update_status(self._kind.resource, {**obj, "status": status})
        if failure is not None:
            raise failure
        if any(waits):
            self._queue.add_after(key, min(wait for wait in waits if wait), scaled=False)

    def _manage(self, obj: Obj, tally: PodCounter) -> StatusError | None:
        difference = obj["spec"].get("replicas", 1) - tally.counts.active
        if difference > 0:
            pod = make_pod_from_template(
                obj["spec"]["template"], obj, self._kind.api_version, self._kind.kind
            )
            if difference > _BURST_REPLICAS:
                self._queue.add(key_of(obj))
            try:
                slow_start_batch(
                    min(difference, _BURST_REPLICAS),
                    _INITIAL_BATCH,
                    lambda _: self._control.create(pod, obj),
                )
            except SlowStartError as error:
                return None if is_namespace_terminating(error.cause) else error.cause
        elif difference < 0:
            active, neighbours = tally.active(), dict[str, int]()
            for pod in active:
                node = pod["spec"].get("nodeName") or ""
                neighbours[node] = neighbours.get(node, 0) + 1
            for pod in rank_for_deletion(active, neighbours)[: min(-difference, _BURST_REPLICAS)]:
                self._control.delete(pod, obj)
        return None


def start_replica_sets(cluster: Cluster, pods: ControllerRefManager) -> None:
    """Start the controller of ReplicaSets."""
    ReplicaSetController(cluster, REPLICA_SETS, pods)


def start_replication_controllers(cluster: Cluster, pods: ControllerRefManager) -> None:
    """Start the controller of ReplicationControllers."""
    ReplicaSetController(cluster, REPLICATION_CONTROLLERS, pods)
