"""The kubelet of a node: Node object, lease, pods, and injected node faults.

A node fault partitions the node, stops its kubelet, or makes it run short of memory or
disk. Containers keep running while the kubelet is stopped.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.times import format_micro_time
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.framework.pod_info import PodInfo
from pytest_kwait.scheduler.plugins.predicates import find_rejection
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.event_recorder import NORMAL, EventRecorder
from pytest_kwait.simulator.kubelet.allocation import DeferredResizes
from pytest_kwait.simulator.kubelet.eviction import EvictionManager, ResourceShortage
from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
from pytest_kwait.simulator.kubelet.restart_policy import KeyedBackoff
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.protocol.nodes import node_address, pod_subnet
from pytest_kwait.simulator.request_info import KUBELET_MANAGER, internal_caller

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet.cri import Runtimes
    from pytest_kwait.simulator.kubelet.pod_context import PodContext
    from pytest_kwait.simulator.kubelet_api import KubeletApi
    from pytest_kwait.simulator.protocol.nodes import EmbeddedNode

KUBELET_PORT = 10250

# Seconds between relists; source: kubelet.go, `genericPlegRelistPeriod`.
_RELIST_SECONDS = 1.0
# Seconds between renewals of the lease and of the Node's status.
# Source: kubelet config defaults, `nodeLeaseDurationSeconds` / 4, `nodeStatusReportFrequency`.
_RENEW_SECONDS = 10.0
_REPORT_SECONDS = 300.0
_LEASE_SECONDS = 40
_MAX_REMEMBERED_EVENTS = 512
"""The events that one node counts repetitions of: ten for each of its pods."""
_LEASES = "kube-node-lease"

_ARCHITECTURE, _OPERATING_SYSTEM = "kubernetes.io/arch", "kubernetes.io/os"

_CONDITIONS = (
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_NOT_READY = (
    "Ready",
    "False",
    "KubeletNotReady",
    "container runtime status check may not have completed yet",
)
"""The first condition of a node."""


class _Pressure(NamedTuple):
    """The condition and event of a kubelet for one kind of pressure."""

    shortage: ResourceShortage
    short: tuple[str, str]
    enough: tuple[str, str]
    event: str


_PRESSURES = {
    "memory": _Pressure(
        ResourceShortage("MemoryPressure", "memory", "100Mi", "64Mi"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "NodeHasInsufficientMemory",
    ),
    "disk": _Pressure(
        ResourceShortage("DiskPressure", "ephemeral-storage", "10485760Ki", "6291456Ki"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "NodeHasDiskPressure",
    ),
}


class NodeFaults:
    """The injected faults of one node."""

    def __init__(self, node: Kubelet) -> None:
        self._node = node
        self._cuts: list[bool] = []
        self._server: KubeletApi | None = None
        self._counts: dict[str, int] = {}

    # -- partition and stop

    @property
    def is_partitioned(self) -> bool:
        """Return whether the kubelet cannot reach the API server; also true while it is stopped."""
        return bool(self._cuts)

    @property
    def is_kubelet_stopped(self) -> bool:
        """Return whether the kubelet is stopped; containers keep running."""
        return any(self._cuts)

    def begin(self, *, dead: bool) -> None:
        """Partition the node, or stop its kubelet if `dead`."""
        if not self._cuts:
            self._server = self._node.cluster.kubelets.pop(self._node.name, None)
        self._cuts.append(dead)

    def end(self, *, dead: bool) -> None:
        """Undo one `begin`; after the last one the kubelet catches up with the API."""
        self._cuts.remove(dead)
        if self._cuts:
            return
        node = self._node
        if self._server is not None:
            node.cluster.kubelets[node.name] = self._server
        node.renew_lease()
        node.report()
        bound = {
            uid_of(pod): pod
            for pod in node.cluster.list("pods")
            if pod["spec"].get("nodeName") == node.name
        }
        for worker in list(node.workers):
            if uid_of(worker.pod) not in bound:
                node.on_pod_changed("DELETED", worker.pod)
        for pod in bound.values():
            node.on_pod_changed("MODIFIED", pod)
        for worker in list(node.workers):
            worker.reconcile()

    # -- pressure

    def start_pressure(self, resource: str) -> None:
        """Run short of `memory` or `disk`: set the condition and evict pods."""
        self._counts[resource] = self._counts.get(resource, 0) + 1
        if self._counts[resource] == 1:
            self._record_pressure(_PRESSURES[resource], short=True)
            self._node.eviction_manager.begin(_PRESSURES[resource].shortage)

    def end_pressure(self, resource: str) -> None:
        """Undo one `start_pressure`."""
        self._counts[resource] -= 1
        if not self._counts[resource]:
            self._node.eviction_manager.end(_PRESSURES[resource].shortage)
            self._record_pressure(_PRESSURES[resource], short=False)

    def _record_pressure(self, pressure: _Pressure, *, short: bool) -> None:
        node = self._node
        reason, message = pressure.short if short else pressure.enough
        condition_type = pressure.shortage.condition
        node.conditions[condition_type] = ["True" if short else "False", reason, message]
        node.report()
        event_reason = pressure.event if short else pressure.enough[0].replace("Kubelet", "Node")
        text = f"Node {node.name} status is now: {event_reason}"
        node_object = node.cluster.find("nodes", node.name)
        if node_object is not None and not self.is_partitioned:
            node.recorder.event(node_object, ("v1", "Node"), NORMAL, event_reason, text)

    # -- containers

    def run_out_of_memory(self, namespace: str, pod: str, container: str) -> bool:
        """OOM-kill a container; False if it does not run."""
        worker = self._node.find_worker(namespace, pod)
        instance = worker.runtime_manager.record(container).current if worker is not None else None
        return instance is not None and instance.run_out_of_memory()


class Kubelet:
    """The kubelet of one node.

    Args:
        node: the name, labels, taints and capacity of its Node.
        number: from 1; addresses are derived from it.
        runtimes: the container runtimes.
    """

    def __init__(
        self, cluster: Cluster, node: EmbeddedNode, number: int, runtimes: Runtimes
    ) -> None:
        self.cluster = cluster
        self.runtimes = runtimes
        self.clock = cluster.clock
        self.name = name = node.name
        self._node = node
        self.address = node_address(number)
        self.network = Network()
        self.peers: Mapping[str, Kubelet] = {name: self}
        """All nodes of the cluster by name."""
        self.recorder = EventRecorder(cluster, "kubelet", name, _MAX_REMEMBERED_EVENTS)
        self.backoff = KeyedBackoff(cluster.clock.scale)
        self._phase = (number - 1) * 0.381966 % 1
        self._subnet = pod_subnet(number)
        self._next_address = 1
        self._addresses: dict[str, str] = {}
        self._images: set[str] = set()
        self._workers: dict[str, PodWorker] = {}
        self._by_name: dict[tuple[str, str], PodWorker] = {}
        self._dirty: dict[PodContext, None] = {}
        self._relisting = False
        self.conditions = {kind: event_reason for kind, *event_reason in _CONDITIONS}
        self.eviction_manager = EvictionManager(self, lambda: self.workers)
        self.deferred_resizes = DeferredResizes(cluster.clock, self.admit_resize)
        self.node_faults = NodeFaults(self)
        self._info: NodeInfo | None = None
        cluster.clock.listen_to_jumps(self._on_clock_jump)

    # -- the Node

    def register(self) -> None:
        """Create the Node, Ready, and its lease, and start to renew both."""
        stamp = self.clock.stamp()
        architecture = self._node.labels.get(_ARCHITECTURE, "amd64")
        system = self._node.labels.get(_OPERATING_SYSTEM, "linux")
        machine = uuid.uuid5(uuid.NAMESPACE_DNS, self.name)
        node: Obj = {
            "metadata": {
                "name": self.name,
                "labels": {
                    "beta.kubernetes.io/arch": architecture,
                    "beta.kubernetes.io/os": system,
                    _ARCHITECTURE: architecture,
                    "kubernetes.io/hostname": self.name,
                    _OPERATING_SYSTEM: system,
                    **self._node.labels,
                },
                "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            },
        }
        status: Obj = {
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self.name},
            ],
            "capacity": self._node.all_capacity,
            "allocatable": self._node.all_allocatable,
            "conditions": [
                {
                    "type": kind, "status": value, "lastHeartbeatTime": stamp,
                    "lastTransitionTime": stamp, "reason": reason, "message": message,
                }
                for kind, value, reason, message in (*_CONDITIONS[:-1], _NOT_READY)
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
            "nodeInfo": {
                "architecture": architecture, "bootID": str(uuid.uuid4()),
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.12.0", "kubeProxyVersion": "", "machineID": machine.hex,
                "kubeletVersion": self.cluster.kinds.version.get("gitVersion", ""),
                "operatingSystem": system, "osImage": "pytest-kwait embedded",
                "systemUUID": str(machine),
            },
        }  # fmt: skip
        if self._node.taints:
            node["spec"] = {"taints": [taint.to_json() for taint in self._node.taints]}
        node["status"] = status
        self.cluster.create("nodes", node, caller=internal_caller(KUBELET_MANAGER))
        self.cluster.modify("nodes", self.name, "", self._assign_addresses)
        self.report()
        stored = self.cluster.get("nodes", self.name)
        self._info = NodeInfo(stored)
        self._create_lease(stored)
        self.recorder.event(stored, ("v1", "Node"), NORMAL, "Starting", "Starting kubelet.")
        # Nodes renew at different moments, so that many of them do not block the event loop.
        self.clock.call_later(_RENEW_SECONDS * (1 - self._phase), self._renew)
        self.clock.call_later(_REPORT_SECONDS * (1 - self._phase / 2), self._report)

    def _assign_addresses(self, node: Obj) -> None:
        """Write what controllers set for a new node: its range of addresses, and caches' TTL."""
        node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] = "0"
        node["spec"]["podCIDR"] = f"{self._subnet}.0/24"
        node["spec"]["podCIDRs"] = [f"{self._subnet}.0/24"]

    def _create_lease(self, node: Obj) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid_of(node)}
        lease: Obj = {
            "metadata": {"name": self.name, "namespace": _LEASES, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": self.name,
                "leaseDurationSeconds": _LEASE_SECONDS,
                "renewTime": format_micro_time(self.clock.time()),
            },
        }
        caller = internal_caller(KUBELET_MANAGER)
        self.cluster.create("leases.coordination.k8s.io", lease, _LEASES, caller=caller)

    def _renew(self) -> None:
        if not self.cluster.exploration.hold_renewal(self.name, self._renew_if_connected):
            self._renew_if_connected()
        self.clock.call_later(_RENEW_SECONDS, self._renew)

    def _renew_if_connected(self) -> None:
        if not self.node_faults.is_partitioned:
            self.renew_lease()

    def renew_lease(self) -> None:
        """Renew the lease, or create it again."""
        if not self.cluster.renew(_LEASES, self.name):
            node = self.cluster.find("nodes", self.name)
            if node is not None:
                self._create_lease(node)

    def _report(self) -> None:
        self.report(update_transitions=False)
        self.clock.call_later(_REPORT_SECONDS, self._report)

    def report(self, *, update_transitions: bool = True) -> None:
        """Publish the node's conditions; with `update_transitions` False only their heartbeat."""
        stamp = self.clock.stamp()

        def update_status(node: Obj) -> None:
            for condition in node["status"].get("conditions") or ():
                own = self.conditions.get(condition["type"]) if update_transitions else None
                condition["lastHeartbeatTime"] = stamp
                if own is not None and condition["status"] != own[0]:
                    condition["lastTransitionTime"] = stamp
                if own is not None:
                    condition["status"], condition["reason"], condition["message"] = own

        if self.node_faults.is_partitioned:
            return
        try:
            caller = internal_caller(KUBELET_MANAGER)
            self.cluster.modify(
                "nodes", self.name, "", update_status, subresource="status", caller=caller
            )
        except StatusError as error:
            if error.reason != "NotFound":
                raise

    # -- pods

    def on_pod_changed(self, change: str, pod: Obj) -> None:
        """Handle a change of a pod that is bound to this node."""
        if self.node_faults.is_partitioned:
            return
        uid = uid_of(pod)
        worker = self._workers.get(uid)
        if change == "DELETED":
            if worker is not None:
                worker.on_removed()
                self._forget(worker, pod)
        elif worker is not None:
            worker.update(pod)
        else:
            self._admit(pod)

    def _on_clock_jump(self) -> None:
        """Sync the pods with a deadline, which may have passed."""
        for worker in self.workers:
            if worker.pod["spec"].get("activeDeadlineSeconds") is not None:
                worker.sync()

    def _admit(self, pod: Obj) -> None:
        worker = PodWorker(self, pod, self.deferred_resizes)
        self._workers[uid_of(pod)] = worker
        self._by_name[namespace_of(pod), name_of(pod)] = worker
        rejection = self._find_rejection_reason(pod)
        if rejection is not None:
            self.clock.call_later(0, lambda: worker.reject(*rejection))
            return
        if self._info is not None:
            self._info.add(pod)
        self.eviction_manager.watch(worker)
        worker.sync()

    def _find_rejection_reason(self, pod: Obj) -> tuple[str, str] | None:
        """Return the reason and message of rejecting a bound pod; None if it is admitted.

        Source: lifecycle/predicate.go, `predicateAdmitHandler.Admit`.
        """
        if self._info is None or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return None
        rejection = self.eviction_manager.find_admission_error(pod)
        if rejection is not None:
            return rejection
        # The labels of the node may have changed.
        node = self.cluster.find("nodes", self.name)
        if node is not None and node is not self._info.node:
            self._info.set_node(node)
        pod_info = PodInfo(pod)
        pod_rejection = find_rejection(pod_info, self._info)
        if pod_rejection is None:
            return None
        reason = pod_rejection.reasons[0]
        if reason.startswith("node(s) didn't match Pod's node affinity"):
            return (
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            )
        if "free ports" in reason:
            return "NodePorts", f"Predicate NodePorts failed: {reason}"
        name = "pods" if reason == "Too many pods" else reason.removeprefix("Insufficient ")
        requested = 1 if name == "pods" else pod_info.requests.get(name, 0)
        used = self._info.pod_count if name == "pods" else self._info.requested.get(name, 0)
        capacity = self._info.allocatable.get(name, 0)
        message = (
            f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
            f"capacity: {capacity}"
        )
        return f"OutOf{name}", message

    def admit_resize(self, pod: Obj, requested: Obj) -> tuple[str, str] | None:
        """Reserve other resources for a pod of this node; reason and message of a refusal."""
        if self._info is None or not self._info.remove(pod):
            return None
        rejection = self._find_rejection_reason(requested)
        # The status still has the resources from before the resize.
        self._info.add({**(requested if rejection is None else pod), "status": {}})
        if rejection is None:
            # The pod may need less than before.
            self.deferred_resizes.retry()
        return rejection

    def release_pod(self, pod: Obj) -> None:
        """Free the address and resources of a pod whose containers have ended for good."""
        if self._info is not None:
            self._info.remove(pod)
        self.deferred_resizes.retry()
        self._addresses.pop(uid_of(pod), None)

    def _forget(self, worker: PodWorker, pod: Obj) -> None:
        self.release_pod(worker.pod)
        worker.runtime_manager.remove_all()
        uid = uid_of(pod)
        self._workers.pop(uid, None)
        self._dirty.pop(worker, None)
        self.backoff.forget(f"{uid}/")
        key = (namespace_of(pod), name_of(pod))
        if self._by_name.get(key) is worker:
            del self._by_name[key]

    def relist(self, worker: PodContext) -> None:
        """Sync a pod, whose containers changed, with the next relist."""
        self._dirty[worker] = None
        if not self._relisting:
            self._relisting = True
            period = _RELIST_SECONDS * self.clock.scale
            # Nodes relist at different moments, to spread the work.
            delay = period - (self.clock.monotonic() + self._phase * period) % period
            self.clock.call_later(delay, self._sync_changed_pods, scaled=False)

    def _sync_changed_pods(self) -> None:
        self._relisting = False
        dirty, self._dirty = self._dirty, {}
        for worker in dirty:
            worker.sync()

    def assign_address(self, pod: Obj) -> str:
        """Return a free address for a pod."""
        if pod["spec"].get("hostNetwork"):
            return self.address
        taken = set(self._addresses.values())
        for _ in range(254):
            self._next_address = self._next_address % 254 + 1
            address = f"{self._subnet}.{self._next_address}"
            if address not in taken:
                break
        self._addresses[uid_of(pod)] = address
        return address

    def find_network(self, address: str) -> Network | None:
        """Return the ports behind an address of a pod or node; None if it is unassigned."""
        for kubelet in self.peers.values():
            if kubelet.address == address:
                return kubelet.network
            for worker in kubelet.workers:
                if worker.pod_ip == address and worker.runtime_manager.list_running():
                    return worker.network
        return None

    def has_image(self, name: str) -> bool:
        """Return whether an image, by its full name, was pulled."""
        return name in self._images

    def record_image(self, name: str) -> None:
        """Record that an image, by its full name, was pulled."""
        self._images.add(name)

    @property
    def is_partitioned(self) -> bool:
        """Return whether the node cannot reach the API server."""
        return self.node_faults.is_partitioned

    @property
    def is_kubelet_stopped(self) -> bool:
        """Return whether the kubelet is stopped; containers keep running."""
        return self.node_faults.is_kubelet_stopped

    # -- lookup

    @property
    def workers(self) -> Collection[PodWorker]:
        """The workers of all pods of this node."""
        return self._workers.values()

    def find_worker(self, namespace: str, pod: str) -> PodWorker | None:
        """Return the worker of a pod by name; None if the pod is not on this node."""
        return self._by_name.get((namespace, pod))
