"""The components of a cluster: a table of what runs in it, and when each starts.

Components that many clusters never need are imported and started with the first object of their
kinds. Those of kube-apiserver run without the others in a cluster that is an API server alone.

Source: cmd/kube-controller-manager/app/controllermanager.go, pkg/controlplane/instance.go.
"""

from __future__ import annotations

import asyncio
import gc
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.simulator.addons import create_addons, is_system_service
from pytest_kwait.simulator.apiserver.flow_schema_status import FLOW_SCHEMAS, is_bootstrap_schema
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.fake_metrics import USAGE
from pytest_kwait.simulator.objects import annotations_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.controllers.endpoint import ServicePods
    from pytest_kwait.simulator.network.load_balancers import LoadBalancers
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.nodes import Nodes

_GC_THRESHOLDS = (10_000, 20, 50)
_START_DELAY = 1.0
"""Seconds of the cluster after its start: imports must not delay when it is ready."""
_READY_TIMEOUT = 30.0


class Factory(NamedTuple):
    """A class or function that starts a component.

    Args:
        module: its module below this package, imported when it is called.
        name: its name.
        arguments: what it is called with, attributes of `SharedParts`.
    """

    module: str
    name: str
    arguments: tuple[str, ...] = ("cluster",)

    def call(self, shared: SharedParts) -> None:
        """Start the component."""
        start = getattr(import_module(f"{__package__}.{self.module}"), self.name)
        start(*(getattr(shared, argument) for argument in self.arguments))


class FirstObject(NamedTuple):
    """The object that starts a component.

    Args:
        resource: its resource.
        is_meant: returns whether an object is one; None if all are.
    """

    resource: str
    is_meant: Callable[[Obj], bool] | None = None


class Component(NamedTuple):
    """A row of the table.

    Args:
        factories: what starts together.
        first_objects: the first one of any of these starts it; empty to start with the cluster.
        is_late: whether it starts, or awaits its first object, a second later.
        needs: the attribute of `SharedParts` without which it is left out; empty for none.
    """

    factories: tuple[Factory, ...]
    first_objects: tuple[FirstObject, ...] = ()
    is_late: bool = False
    needs: str = ""


class SharedParts:
    """The parts that components of one cluster share, each made when it is first needed.

    Args:
        nodes: the number of nodes, or the nodes.
        authority: the certificate and key that sign certificates, as PEM; None to sign none.
    """

    def __init__(
        self, cluster: Cluster, nodes: Nodes = 0, authority: tuple[bytes, bytes] | None = None
    ) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.authority = authority

    @cached_property
    def pods(self) -> ControllerRefManager:
        """The pods by their controllers."""
        return ControllerRefManager(self.cluster, "pods")

    @cached_property
    def replica_sets(self) -> ControllerRefManager:
        """The replica sets by their controllers."""
        return ControllerRefManager(self.cluster, "replicasets.apps")

    @cached_property
    def jobs(self) -> ControllerRefManager:
        """The Jobs by their controllers."""
        return ControllerRefManager(self.cluster, "jobs.batch")

    @cached_property
    def revisions(self) -> ControllerRefManager:
        """The revisions by their controllers."""
        return ControllerRefManager(self.cluster, "controllerrevisions.apps")

    @cached_property
    def service_pods(self) -> ServicePods:
        """The pods of each service."""
        from pytest_kwait.simulator.controllers.endpoint import ServicePods

        return ServicePods(self.cluster)

    @cached_property
    def load_balancers(self) -> LoadBalancers | None:
        """The load balancers of services; None if the cluster has none."""
        if not self.cluster.has_load_balancers:
            return None
        from pytest_kwait.simulator.network.load_balancers import get_load_balancers

        return get_load_balancers(self.cluster)


def _is_custom_flow_schema(obj: Obj) -> bool:
    return not is_bootstrap_schema(obj)


def _has_usage(pod: Obj) -> bool:
    return any(name.startswith(USAGE) for name in annotations_of(pod))


def _is_aggregated(service: Obj) -> bool:
    # Not at import: the first one of a cluster comes late.
    from pytest_kwait.simulator.aggregator.api_services import MANAGED_LABEL

    return MANAGED_LABEL not in labels_of(service)


def _evicts(node: Obj) -> bool:
    return any(taint["effect"] == "NoExecute" for taint in node["spec"].get("taints") or ())


def _is_disrupted(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "DisruptionTarget" for condition in conditions)


def _has_ephemeral_volume(pod: Obj) -> bool:
    return any(volume.get("ephemeral") for volume in pod["spec"].get("volumes") or ())


def _is_load_balancer(service: Obj) -> bool:
    return bool(service["spec"].get("type") == "LoadBalancer")


def _is_custom_service(obj: Obj) -> bool:
    return not is_system_service(obj)


def _row(
    *factories: Factory,
    on: Sequence[FirstObject | str] = (),
    late: bool = False,
    needs: str = "",
) -> Component:
    first_objects = (FirstObject(first) if isinstance(first, str) else first for first in on)
    return Component(factories, tuple(first_objects), late, needs)


_GARBAGE_COLLECTOR = "controllers.garbage_collector"
_NAMESPACE = "controllers.namespace"
_KUBERNETES_SERVICE = "controllers.kubernetes_service"
_NODE_LIFECYCLE = "controllers.node_lifecycle"
_ENDPOINT_SLICE = "controllers.endpointslice"
_PODS = ("cluster", "pods")
_REVISIONS = ("cluster", "pods", "revisions")
_SERVICE_PODS = ("cluster", "service_pods")

SERVER_COMPONENTS = (
    _row(Factory(_GARBAGE_COLLECTOR, "EventTTL")),
    _row(Factory("apiserver.server_objects", "create_config_maps")),
    _row(Factory("apiserver.server_objects", "hold_identity_lease")),
    _row(Factory(_KUBERNETES_SERVICE, "IPAddressController")),
    _row(
        Factory("apiserver.flow_schema_status", "FlowSchemaStatusController"),
        on=[FirstObject(FLOW_SCHEMAS, _is_custom_flow_schema)],
    ),
    _row(Factory("aggregator.api_services", "AutoRegistrationController"), late=True),
    _row(
        Factory("aggregator.handler_proxy", "register_metrics_api"),
        on=[FirstObject("pods", _has_usage)],
        late=True,
    ),
    _row(
        Factory("aggregator.handler_proxy", "start_availability_controller"),
        on=[FirstObject("apiservices.apiregistration.k8s.io", _is_aggregated)],
        late=True,
    ),
)
"""The components of kube-apiserver, in the order of their start."""

COMPONENTS = (
    _row(Factory(_NAMESPACE, "NamespaceDefaults")),
    _row(Factory(_NAMESPACE, "NamespaceController")),
    _row(Factory("controllers.clusterrole_aggregation", "ClusterRoleAggregationController")),
    _row(Factory(_NAMESPACE, "TokensController")),
    _row(Factory(_GARBAGE_COLLECTOR, "TTLAfterFinishedController")),
    _row(Factory(_GARBAGE_COLLECTOR, "GarbageCollector")),
    _row(Factory(_NODE_LIFECYCLE, "NodeTaintController")),
    _row(Factory(_GARBAGE_COLLECTOR, "PodGCController")),
    _row(Factory(_KUBERNETES_SERVICE, "ServiceCIDRController")),
    _row(Factory("controllers.embedded_scheduler", "EmbeddedScheduler")),
    _row(Factory("kubelet.kubelets", "start_kubelets", ("cluster", "nodes"))),
    _row(
        Factory("controllers.replicaset", "start_replication_controllers", _PODS),
        on=["replicationcontrollers"],
    ),
    _row(Factory("controllers.replicaset", "start_replica_sets", _PODS), on=["replicasets.apps"]),
    _row(
        Factory(
            "controllers.deployment", "DeploymentController", ("cluster", "replica_sets", "pods")
        ),
        on=["deployments.apps"],
    ),
    _row(Factory("controllers.job.controller", "JobController", _PODS), on=["jobs.batch"]),
    _row(Factory("controllers.resource_quota", "ResourceQuotaController"), on=["resourcequotas"]),
    _row(
        Factory("controllers.disruption", "DisruptionController"),
        on=["poddisruptionbudgets.policy", FirstObject("pods", _is_disrupted)],
    ),
    _row(
        Factory("controllers.volume.ephemeral", "EphemeralVolumeController"),
        on=[FirstObject("pods", _has_ephemeral_volume)],
    ),
    _row(
        Factory("controllers.volume.persistent_volume", "PersistentVolumeController"),
        Factory("controllers.volume.protection", "ProtectionController"),
        Factory("controllers.volume.expand", "ExpandController"),
        on=[
            "persistentvolumeclaims",
            "persistentvolumes",
            "volumeattributesclasses.storage.k8s.io",
        ],
    ),
    _row(
        Factory("controllers.daemon", "DaemonSetController", _REVISIONS),
        Factory("controllers.statefulset", "StatefulSetController", _REVISIONS),
        on=["daemonsets.apps", "statefulsets.apps"],
    ),
    _row(
        Factory(_ENDPOINT_SLICE, "EndpointSliceController", _SERVICE_PODS),
        Factory("controllers.endpoint", "EndpointsController", _SERVICE_PODS),
        Factory(_ENDPOINT_SLICE, "EndpointSliceMirroringController", _SERVICE_PODS),
        on=[
            FirstObject("services", _is_custom_service),
            FirstObject("endpoints", _is_custom_service),
        ],
    ),
    _row(
        Factory("controllers.service", "ServiceController", ("cluster", "load_balancers")),
        on=[FirstObject("services", _is_load_balancer)],
        needs="load_balancers",
    ),
    _row(
        Factory("controllers.cronjob", "CronJobController", ("cluster", "jobs")),
        on=["cronjobs.batch"],
    ),
    _row(
        Factory("controllers.validating_admission_policy_status", "PolicyStatusController"),
        on=["validatingadmissionpolicies.admissionregistration.k8s.io"],
    ),
    _row(
        Factory("controllers.podautoscaler", "HorizontalController"),
        on=["horizontalpodautoscalers.autoscaling"],
    ),
    _row(
        Factory("controllers.network_policy", "NetworkPolicyController"),
        on=["networkpolicies.networking.k8s.io"],
    ),
    _row(
        Factory(
            "controllers.certificate_signing", "CertificateController", ("cluster", "authority")
        ),
        on=["certificatesigningrequests.certificates.k8s.io"],
        needs="authority",
    ),
    _row(Factory(_NODE_LIFECYCLE, "NodeLifecycleController"), late=True),
    _row(
        Factory("controllers.taint_eviction", "TaintEvictionController"),
        on=[FirstObject("nodes", _evicts)],
        late=True,
    ),
)
"""The controllers, the scheduler and the kubelets, in the order of their start."""


def start_components(
    cluster: Cluster, *, nodes: Nodes, authority: tuple[bytes, bytes] | None = None
) -> None:
    """Start the controllers, the scheduler and the kubelets of the nodes.

    When this returns, nodes are Ready and namespaces have their defaults.

    Args:
        nodes: the number of nodes, or the nodes.
        authority: the certificate and key that sign certificates, as PEM; None to sign none.
    """
    start_server_components(cluster)
    start_controllers(cluster, nodes=nodes, authority=authority)


def start_server_components(cluster: Cluster) -> None:
    """Start the controllers that run within kube-apiserver."""
    _start(SERVER_COMPONENTS, SharedParts(cluster))


def start_controllers(
    cluster: Cluster, *, nodes: Nodes, authority: tuple[bytes, bytes] | None = None
) -> None:
    """Start what does not belong to kube-apiserver; see `start_components`."""
    create_addons(cluster)
    _start(COMPONENTS, SharedParts(cluster, nodes, authority))


def _start(components: Sequence[Component], shared: SharedParts) -> None:
    late: list[Component] = []
    for component in components:
        if component.is_late:
            late.append(component)
        elif not component.needs or getattr(shared, component.needs) is not None:
            _start_or_await(component, shared)

    def start_late_ones() -> None:
        for component in late:
            _start_or_await(component, shared)

    shared.cluster.clock.call_later(_START_DELAY, start_late_ones)


def _start_or_await(component: Component, shared: SharedParts) -> None:
    """Start a component, or with its first object."""

    def start() -> None:
        for factory in component.factories:
            factory.call(shared)

    if component.first_objects:
        _on_first_object(shared.cluster, component.first_objects, start)
    else:
        start()


def _on_first_object(
    cluster: Cluster, first_objects: Sequence[FirstObject], start: Callable[[], object]
) -> None:
    """Call `start` once, with the first object that is meant."""
    stops: list[Callable[[], None]] = []
    started = False

    def subscribe(resource: str, is_meant: Callable[[Obj], bool] | None) -> Callable[[], None]:
        def begin(_change: str, new: Obj, _old: Obj | None) -> None:
            nonlocal started
            if not started and (is_meant is None or is_meant(new)):
                started = True
                for stop in stops:
                    stop()
                start()

        return cluster.subscribe(resource, begin)

    stops += [subscribe(*first_object) for first_object in first_objects]


def relax_garbage_collector() -> None:
    """Make full garbage collections rare: with 10,000 pods one takes a second.

    Objects of a cluster have no cycles and go without being looked for. Cycles come from requests,
    and die young.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def wait_nodes_ready(cluster: Cluster, nodes: int) -> None:
    """Return when that many nodes are Ready.

    Raises:
        TimeoutError: they are not in time.
    """
    ready = asyncio.Event()
    names: set[str] = set()

    def on_node(_event: str, node: dict[str, object], _old: object) -> None:
        metadata = node["metadata"]
        if isinstance(metadata, dict) and is_condition_true(node, "Ready"):
            names.add(metadata["name"])
        if len(names) >= nodes:
            ready.set()

    if nodes == 0:
        return
    stop = cluster.subscribe("nodes", on_node)
    try:
        await asyncio.wait_for(ready.wait(), _READY_TIMEOUT)
    finally:
        stop()
