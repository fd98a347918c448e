"""The controllers of node taints: by condition, and of unresponsive nodes.

`NodeTaintController` maintains the NoSchedule taints. `NodeLifecycleController` follows leases and
heartbeats, marks silent nodes and their pods, and sets NoExecute taints.

Source: kube-controller-manager, nodelifecycle/node_lifecycle_controller.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.event_recorder import NORMAL, WARNING, EventRecorder
from pytest_kwait.simulator.objects import Obj, clone, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_kwait.simulator.cluster_protocol import Cluster

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
# Seconds: the monitoring period, the grace of a silent node until it is Unknown, and that of a
# new node.
_MONITOR_PERIOD = 5.0
_MONITOR_GRACE_PERIOD = 50.0
_STARTUP_GRACE_PERIOD = 60.0
# Seconds between the evictions of two nodes of a zone: `node-eviction-rate` is 0.1.
_EVICTION_PERIOD = 10.0
# The share of NotReady nodes at which evictions stop, in zones with more than two such nodes.
_UNHEALTHY_ZONE_THRESHOLD = 0.55
_LEASES = "leases.coordination.k8s.io"
_TYPES = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_ZONE = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def list_condition_taints(node: Obj) -> list[str]:
    """Return the keys of the NoSchedule taints for the node's conditions.

    Source: kube-controller-manager, node_lifecycle_controller.go, `doNoScheduleTaintingPass`.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    taint_keys = [
        _BY_CONDITION.get((condition["type"], condition["status"])) for condition in conditions
    ]
    taints = [key for key in taint_keys if key is not None]
    if (node.get("spec") or {}).get("unschedulable"):
        taints.append(_UNSCHEDULABLE)
    return taints


def swap_taints(
    cluster: Cluster, name: str, effect: str, add: Collection[str], remove: Collection[str]
) -> bool:
    """Add and remove taints of one effect; return whether the node changed.

    Source: kube-controller-manager, util/node/controller_utils.go, `SwapNodeControllerTaint`.
    """
    node = cluster.find("nodes", name)
    if node is None:
        return False
    before = (node.get("spec") or {}).get("taints") or []
    taints = [taint for taint in before if taint["effect"] != effect or taint["key"] not in remove]
    keys = {taint["key"] for taint in taints if taint["effect"] == effect}
    stamp = cluster.clock.stamp()
    taints += [{"key": key, "effect": effect, "timeAdded": stamp} for key in add if key not in keys]
    if taints == before:
        return False

    def taint(changed: Obj) -> None:
        spec = changed.setdefault("spec", {})
        if taints:
            spec["taints"] = taints
        else:
            spec.pop("taints", None)

    cluster.modify("nodes", name, "", taint)
    return True


class NodeTaintController:
    """Maintains the NoSchedule taints of every node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: Workqueue[str] = Workqueue(cluster, self._sync, "node-lifecycle-controller")
        cluster.subscribe("nodes", self._changed)

    def _changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and _present(new) != set(list_condition_taints(new)):
            self._queue.add(name_of(new))

    def _sync(self, name: str) -> None:
        node = self._cluster.find("nodes", name)
        if node is not None:
            condition_taints = list_condition_taints(node)
            swap_taints(
                self._cluster,
                name,
                "NoSchedule",
                condition_taints,
                _MANAGED_TAINTS.difference(condition_taints),
            )


def _present(node: Obj) -> set[str]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return {
        taint["key"]
        for taint in taints
        if taint["effect"] == "NoSchedule" and taint["key"] in _MANAGED_TAINTS
    }


@dataclass(slots=True)
class _NodeHealth:
    """The last known health of a node.

    Args:
        heartbeat_at: the time of the last heartbeat, of the monotonic clock.
        heartbeat: the heartbeat of its Ready condition; None without one.
    """

    heartbeat_at: float
    heartbeat: object = None


class NodeLifecycleController:
    """Monitors the leases and heartbeats of nodes.

    A node whose kubelet is not part of this process has its grace in real time, whatever the
    cluster's timing: its kubelet renews the lease at a real pace.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recorder = EventRecorder(cluster, "node-controller")
        self._node_health: dict[str, _NodeHealth] = {}
        self._known: dict[str, Obj] = {}
        self._ours: set[str] = set()
        self._leaving: dict[str, None] = {}
        self._next_eviction: dict[str, float] = {}
        self._due = cluster.clock.monotonic() + _MONITOR_PERIOD * cluster.clock.scale
        cluster.subscribe("nodes", self._node_changed)
        cluster.subscribe(_LEASES, self._lease_changed)
        cluster.clock.call_later(_MONITOR_PERIOD, self._monitor)

    def _node_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        name = name_of(new)
        if change == "DELETED":
            self._node_health.pop(name, None)
            self._leaving.pop(name, None)
            return
        ready = get_condition(new, "Ready")
        heartbeat = None if ready is None else ready.get("lastHeartbeatTime") or ""
        node_health = self._node_health.get(name)
        if node_health is None:
            self._node_health[name] = _NodeHealth(self._cluster.clock.monotonic(), heartbeat)
        elif node_health.heartbeat != heartbeat:
            node_health.heartbeat, node_health.heartbeat_at = (
                heartbeat,
                self._cluster.clock.monotonic(),
            )

    def _lease_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and namespace_of(new) == "kube-node-lease":
            node_health = self._node_health.get(name_of(new))
            if node_health is not None:
                node_health.heartbeat_at = self._cluster.clock.monotonic()

    def _monitor(self) -> None:
        clock = self._cluster.clock
        clock.call_later(_MONITOR_PERIOD, self._monitor)
        # No heartbeat could arrive while this process was suspended, so that time does not count.
        delay = clock.monotonic() - self._due
        self._due = clock.monotonic() + _MONITOR_PERIOD * clock.scale
        nodes = self._cluster.list("nodes")
        self._record_node_changes({name_of(node): node for node in nodes})
        observed: dict[str, str] = {}
        for node in nodes:
            name = name_of(node)
            node_health = self._node_health[name]
            node_health.heartbeat_at += delay
            if self._is_silent(name, node_health):
                self._mark_unknown(node)
            ready = get_condition(node, "Ready")
            observed[name] = "Unknown" if ready is None else ready["status"]
            self._handle_readiness(node, observed[name])
        self._evict(nodes, observed)

    def _record_node_changes(self, nodes: dict[str, Obj]) -> None:
        for name, node in nodes.items():
            if name not in self._known:
                message = f"Node {name} event: Registered Node {name} in Controller"
                self._record_event(node, "RegisteredNode", message)
        for name, node in self._known.items():
            if name not in nodes:
                message = f"Node {name} event: Removing Node {name} from Controller"
                self._record_event(node, "RemovingNode", message)
        self._known = nodes

    def _is_silent(self, name: str, node_health: _NodeHealth) -> bool:
        grace = _STARTUP_GRACE_PERIOD if node_health.heartbeat is None else _MONITOR_GRACE_PERIOD
        if name in self._cluster.kubelets:
            self._ours.add(name)
        if name in self._ours:
            grace *= self._cluster.clock.scale
        return self._cluster.clock.monotonic() > node_health.heartbeat_at + grace

    def _mark_unknown(self, node: Obj) -> None:
        """Set the conditions reported by the kubelet to Unknown."""
        status = clone(node.get("status") or {})
        conditions = status.setdefault("conditions", [])
        stamp, changed = self._cluster.clock.stamp(), False
        for kind in _TYPES:
            condition = next(
                (condition for condition in conditions if condition["type"] == kind), None
            )
            if condition is None:
                created = node["metadata"]["creationTimestamp"]
                never = {
                    "type": kind, "status": "Unknown", "lastHeartbeatTime": created,
                    "lastTransitionTime": stamp, "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }  # fmt: skip
                conditions.append(never)
                changed = True
            elif condition["status"] != "Unknown":
                condition.update(
                    status="Unknown",
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                    lastTransitionTime=stamp,
                )
                changed = True
        if changed:
            heartbeat_at = self._node_health[name_of(node)].heartbeat_at
            self._update("nodes", {**node, "status": status})
            self._node_health[name_of(node)].heartbeat_at = heartbeat_at

    def _handle_readiness(self, node: Obj, observed: str) -> None:
        """Act on a node's readiness before and after this check."""
        name = name_of(node)
        if observed == "True":
            self._leaving.pop(name, None)
            swap_taints(self._cluster, name, "NoExecute", (), (NOT_READY, UNREACHABLE))
        else:
            key, other_key = _taint_key(observed)
            if _has_taint(node, other_key):
                swap_taints(self._cluster, name, "NoExecute", (key,), (other_key,))
            elif not _has_taint(node, key):
                self._leaving[name] = None
        now = self._cluster.find("nodes", name)
        ready = None if now is None else get_condition(now, "Ready")
        if observed == "True" and ready is not None and ready["status"] != "True":
            self._record_event(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._pods_not_ready(name)

    def _pods_not_ready(self, node: str) -> None:
        """Set the Ready condition of the node's pods to False.

        Source: util/node/controller_utils.go, `MarkPodsNotReady`.
        """
        for pod in self._cluster.list("pods"):
            if pod["spec"].get("nodeName") != node:
                continue
            ready = get_condition(pod, "Ready")
            if ready is None or ready["status"] == "False":
                continue
            changed = clone(pod)
            ready = get_condition(changed, "Ready") or {}
            ready.update(status="False", lastTransitionTime=self._cluster.clock.stamp())
            if self._update("pods", changed):
                kind = ("v1", "Pod")
                self._recorder.event(pod, kind, WARNING, "NodeNotReady", "Node is not ready")

    def _evict(self, nodes: list[Obj], observed: dict[str, str]) -> None:
        """Taint the nodes that are due, so that their pods are evicted.

        If no node of the cluster is ready, evictions are cancelled and the taints removed.

        Source: `handleDisruption`, `doNoExecuteTaintingPass`.
        """
        if not self._leaving:
            return
        if all(observed[name_of(node)] != "True" for node in nodes):
            for node in nodes:
                swap_taints(self._cluster, name_of(node), "NoExecute", (), (NOT_READY, UNREACHABLE))
            self._leaving.clear()
            return
        zones: dict[str, list[str]] = {}
        for node in nodes:
            zones.setdefault(_zone(node), []).append(name_of(node))
        now = self._cluster.clock.monotonic()
        for zone, names in zones.items():
            if _is_disrupted([observed[name] != "True" for name in names]):
                continue
            for name in names:
                if name not in self._leaving or self._next_eviction.get(zone, 0.0) > now:
                    continue
                del self._leaving[name]
                if self._add_no_execute_taint(name):
                    pause = _EVICTION_PERIOD * self._cluster.clock.scale
                    self._next_eviction[zone] = now + pause

    def _add_no_execute_taint(self, name: str) -> bool:
        node = self._cluster.find("nodes", name)
        ready = None if node is None else get_condition(node, "Ready")
        if ready is None or ready["status"] == "True":
            return False
        key, other_key = _taint_key(ready["status"])
        return swap_taints(self._cluster, name, "NoExecute", (key,), (other_key,))

    # -- writing

    def _update(self, resource: str, obj: Obj) -> bool:
        try:
            self._cluster.update_status(resource, obj)
        except StatusError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise
            return False
        return True

    def _record_event(self, node: Obj, reason: str, message: str) -> None:
        self._recorder.event(node, ("v1", "Node"), NORMAL, reason, message)


def _taint_key(ready: str) -> tuple[str, str]:
    """Return the taint of a node with this readiness, and the taint to remove."""
    return (UNREACHABLE, NOT_READY) if ready == "Unknown" else (NOT_READY, UNREACHABLE)


def _has_taint(node: Obj, key: str) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return any(taint["key"] == key and taint["effect"] == "NoExecute" for taint in taints)


def _zone(node: Obj) -> str:
    labels = node["metadata"].get("labels") or {}
    return ":".join(labels.get(name, "") for name in _ZONE)


def _is_disrupted(not_ready: list[bool]) -> bool:
    """Return whether so many nodes of a zone are down that evictions stop.

    Source: `ComputeZoneState`; zones of at most 50 nodes, `HealthyQPSFunc`, `ReducedQPSFunc`.
    """
    down = sum(not_ready)
    return down < len(not_ready) and down > 2 and down >= _UNHEALTHY_ZONE_THRESHOLD * len(not_ready)
