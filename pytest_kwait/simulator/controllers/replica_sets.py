"""ReplicaSets and ReplicationControllers: as many pods as asked for, and a status that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import is_being_deleted
from pytest_kwait.simulator.controllers.ownership import key_of, split_key
from pytest_kwait.simulator.controllers.pod_owners import PodOwners
from pytest_kwait.simulator.controllers.pods import (
    PodControl,
    SlowStartError,
    available_in,
    is_active,
    is_namespace_terminating,
    is_ready,
    is_terminating,
    pod_from_template,
    rank_for_removal,
    slow_start,
)
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.events import EventRecorder
from pytest_kwait.simulator.objects import Obj, uid_of
from pytest_kwait.simulator.selectors import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.controllers.ownership import Dependents
    from pytest_kwait.simulator.status_error import StatusError

__all__ = [
    "REPLICATION_CONTROLLERS",
    "REPLICA_SETS",
    "ReplicaController",
    "ReplicaKind",
    "replica_status",
]

# Upstream makes up to 500 side by side; here they are made in turn, and requests served between.
# Source: kube-controller-manager, replica_set.go, `BurstReplicas`; controller_utils.go.
_BURST = 100
_SLOW_START = 1
# Seconds of patience per pod. A look costs a few microseconds for each, so pods that change one
# after the other cost a small part of the time, however many there are.
_PAUSE_PER_POD = 0.0002


@dataclass(frozen=True, slots=True)
class ReplicaKind:
    """What sets the two kinds apart.

    Args:
        resource: as the API facade names it.
        api_version: of the kind.
        kind: its name.
        component: the source of its events.
        counts_terminating: whether the status tells how many pods are going.
    """

    resource: str
    api_version: str
    kind: str
    component: str
    counts_terminating: bool

    def selector(self, obj: Obj) -> Obj:
        """Return the pods it wants, as a LabelSelector."""
        selector = obj["spec"].get("selector") or {}
        return selector if self.counts_terminating else {"matchLabels": selector}


REPLICA_SETS = ReplicaKind(
    "replicasets.apps", "apps/v1", "ReplicaSet", "replicaset-controller", True
)
REPLICATION_CONTROLLERS = ReplicaKind(
    "replicationcontrollers", "v1", "ReplicationController", "replication-controller", False
)


def replica_status(
    obj: Obj,
    active: Sequence[Obj],
    terminating: int | None,
    failure: StatusError | None,
    now: float,
    stamp: str,
) -> Obj:
    """Return the status for what is there now.

    Args:
        obj: the controller object with its last status.
        active: its active pods.
        terminating: its pods that are being deleted; None where the kind does not tell.
        failure: why pods could not be made or removed.
        now: seconds since the epoch.
        stamp: the same as the API writes it.

    Source: kube-controller-manager, replica_set_utils.go, `calculateStatus`.
    """
    spec, last = obj["spec"], obj.get("status") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    ready = [pod for pod in active if is_ready(pod)]
    min_ready = spec.get("minReadySeconds") or 0
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active
        ),
        "readyReplicas": len(ready),
        "availableReplicas": sum(available_in(pod, min_ready, now) == 0 for pod in ready),
    }
    status: Obj = {name: count for name, count in counts.items() if count or name == "replicas"}
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    status["observedGeneration"] = obj["metadata"].get("generation", 0)
    others = [one for one in last.get("conditions") or () if one["type"] != "ReplicaFailure"]
    told = [one for one in last.get("conditions") or () if one["type"] == "ReplicaFailure"]
    if failure is not None and not told:
        missing = len(active) < spec.get("replicas", 1)
        told = [{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": stamp,
            "reason": "FailedCreate" if missing else "FailedDelete", "message": failure.message,
        }]  # fmt: skip
    conditions = [*others, *(told if failure is not None else [])]
    if conditions:
        status["conditions"] = conditions
    return status


class ReplicaController:
    """Keeps the pods of one of the kinds.

    Args:
        api: the cluster.
        kind: which of the kinds.
        pods: the cluster's pods by owner.
    """

    def __init__(self, api: ClusterApi, kind: ReplicaKind, pods: Dependents) -> None:
        self._api = api
        self._kind = kind
        self._pods = pods
        self._control = PodControl(
            api, EventRecorder(api, kind.component), kind.api_version, kind.kind
        )
        self._queue: Workqueue[str] = Workqueue(api.clock, self._sync, kind.component)
        PodOwners(api, kind.resource, pods, self._queue, _PAUSE_PER_POD)

    def _sync(self, key: str) -> None:
        namespace, name = split_key(key)
        obj = self._api.find(self._kind.resource, name, namespace)
        if obj is None:
            return
        selector = self._kind.selector(obj)
        owned = self._pods.of(uid_of(obj))
        terminating = sum(
            is_terminating(pod) and matches(selector, pod["metadata"].get("labels") or {})
            for pod in owned
        )
        claimed = self._pods.claim(obj, self._kind.api_version, self._kind.kind, selector)
        active = [pod for pod in claimed if is_active(pod)]
        failure = None
        if not is_being_deleted(obj):
            failure = self._manage(obj, active)
        now = self._api.clock.time()
        counted = terminating if self._kind.counts_terminating else None
        status = replica_status(obj, active, counted, failure, now, self._api.clock.stamp())
        if status != obj.get("status"):
            self._api.update_status(self._kind.resource, {**obj, "status": status})
        if failure is not None:
            raise failure
        waits = [available_in(pod, obj["spec"].get("minReadySeconds") or 0, now) for pod in active]
        if any(waits):
            self._queue.add_after(key, min(wait for wait in waits if wait), scaled=False)

    def _manage(self, obj: Obj, active: list[Obj]) -> StatusError | None:
        difference = obj["spec"].get("replicas", 1) - len(active)
        if difference > 0:
            pod = pod_from_template(
                obj["spec"]["template"], obj, self._kind.api_version, self._kind.kind
            )
            if difference > _BURST:
                self._queue.add(key_of(obj))
            try:
                slow_start(
                    min(difference, _BURST), _SLOW_START, lambda _: self._control.create(pod, obj)
                )
            except SlowStartError as error:
                return None if is_namespace_terminating(error.cause) else error.cause
        elif difference < 0:
            neighbours: dict[str, int] = {}
            for pod in active:
                node = pod["spec"].get("nodeName") or ""
                neighbours[node] = neighbours.get(node, 0) + 1
            for pod in rank_for_removal(active, neighbours)[: min(-difference, _BURST)]:
                self._control.delete(pod, obj)
        return None
