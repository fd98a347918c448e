"""Starts the controllers, the scheduler and the kubelets of the embedded cluster.

Controllers that few tests need are imported and started with the first object of their kinds.

Source: cmd/kube-controller-manager/app/controllermanager.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.volume_claims import STANDARD_CLASS
from pytest_kwait.simulator.controllers.clusterrole_aggregation import (
    ClusterRoleAggregationController,
)
from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
from pytest_kwait.simulator.controllers.deployment import DeploymentController
from pytest_kwait.simulator.controllers.disruption import DisruptionController
from pytest_kwait.simulator.controllers.embedded_scheduler import EmbeddedScheduler
from pytest_kwait.simulator.controllers.event_ttl import EventTTL
from pytest_kwait.simulator.controllers.garbage_collector import GarbageCollector
from pytest_kwait.simulator.controllers.job import JobController
from pytest_kwait.simulator.controllers.namespace import NamespaceController, NamespaceDefaults
from pytest_kwait.simulator.controllers.node_lifecycle import NodeTaintController
from pytest_kwait.simulator.controllers.pod_gc import PodGCController
from pytest_kwait.simulator.controllers.replicaset import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    ReplicaSetController,
)
from pytest_kwait.simulator.controllers.resource_quota import ResourceQuotaController
from pytest_kwait.simulator.controllers.serviceaccount_tokens import TokensController
from pytest_kwait.simulator.controllers.ttl_after_finished import TTLAfterFinishedController
from pytest_kwait.simulator.controllers.volume.ephemeral import EphemeralVolumeController
from pytest_kwait.simulator.fake_metrics import has_usage_annotation
from pytest_kwait.simulator.kubelet import start_kubelets
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

__all__ = ["start_components"]

# Seconds after the start.
_START_DELAY = 1.0


def start_components(
    api: Cluster, *, nodes: int, authority: tuple[bytes, bytes] | None = None
) -> None:
    """Start the controllers, the scheduler and the kubelets of `nodes` nodes.

    When this returns, nodes are Ready and namespaces have their defaults.

    Args:
        nodes: their number.
        authority: the certificate and key that sign certificates, as PEM; None to sign none.
    """
    # No part of a server, but of every kind of cluster that people test on.
    api.create("storageclasses.storage.k8s.io", clone(STANDARD_CLASS))
    NamespaceDefaults(api)
    NamespaceController(api)
    ClusterRoleAggregationController(api)
    TokensController(api)
    pods = ControllerRefManager(api, "pods")
    replica_sets = ControllerRefManager(api, "replicasets.apps")
    ReplicaSetController(api, REPLICATION_CONTROLLERS, pods)
    ReplicaSetController(api, REPLICA_SETS, pods)
    DeploymentController(api, replica_sets, pods)
    JobController(api, pods)
    TTLAfterFinishedController(api)
    EventTTL(api)
    DisruptionController(api)
    EphemeralVolumeController(api)
    GarbageCollector(api)
    NodeTaintController(api)
    PodGCController(api)
    ResourceQuotaController(api)
    EmbeddedScheduler(api)
    start_kubelets(api, nodes)
    _start_on_first_object(api, pods)
    if authority is not None:
        _start_signer(api, authority)
    # The cluster is ready without them: their imports must not delay its start.
    api.clock.call_later(_START_DELAY, _start_node_lifecycle, api)
    api.clock.call_later(_START_DELAY, _start_aggregator, api)


def _start_node_lifecycle(api: Cluster) -> None:
    """Start the controllers of node heartbeats and taint-based eviction."""
    from pytest_kwait.simulator.controllers.node_lifecycle import NodeLifecycleController
    from pytest_kwait.simulator.controllers.taint_eviction import TaintEvictionController

    NodeLifecycleController(api)
    TaintEvictionController(api)


def _start_aggregator(api: Cluster) -> None:
    """Start the controllers of APIServices."""
    from pytest_kwait.simulator.aggregator.api_services import (
        MANAGED_LABEL,
        AutoRegistrationController,
    )

    def remote() -> None:
        from pytest_kwait.simulator.aggregator.api_services import AvailabilityController
        from pytest_kwait.simulator.aggregator.handler_proxy import start_availability_check

        AvailabilityController(api, start_availability_check)

    AutoRegistrationController(api)

    def metrics() -> None:
        from pytest_kwait.simulator.aggregator.metrics_api import register_metrics_api

        register_metrics_api(api)

    _on_first_object(api, ("pods",), metrics, has_usage_annotation)
    _on_first_object(
        api,
        ("apiservices.apiregistration.k8s.io",),
        remote,
        lambda new: MANAGED_LABEL not in (new["metadata"].get("labels") or {}),
    )


def _start_on_first_object(api: Cluster, pods: ControllerRefManager) -> None:
    """Import and start controllers with the first object of their kinds."""

    def sets() -> None:
        from pytest_kwait.simulator.controllers.daemon import DaemonSetController
        from pytest_kwait.simulator.controllers.statefulset import StatefulSetController

        revisions = ControllerRefManager(api, "controllerrevisions.apps")
        DaemonSetController(api, pods, revisions)
        StatefulSetController(api, pods, revisions)

    def endpoints() -> None:
        from pytest_kwait.simulator.controllers.endpoint import EndpointsController, ServicePods
        from pytest_kwait.simulator.controllers.endpointslice import (
            EndpointSliceController,
            EndpointSliceMirroringController,
        )

        selected = ServicePods(api)
        EndpointSliceController(api, selected)
        EndpointsController(api, selected)
        EndpointSliceMirroringController(api, selected)

    def cron_jobs() -> None:
        from pytest_kwait.simulator.controllers.cronjob import CronJobController

        CronJobController(api, ControllerRefManager(api, "jobs.batch"))

    def autoscalers() -> None:
        from pytest_kwait.simulator.controllers.podautoscaler.controller import HorizontalController

        HorizontalController(api)

    def volumes() -> None:
        from pytest_kwait.simulator.controllers.volume.expand import ExpandController
        from pytest_kwait.simulator.controllers.volume.persistent_volume import (
            PersistentVolumeController,
        )
        from pytest_kwait.simulator.controllers.volume.protection import ProtectionController

        PersistentVolumeController(api)
        ProtectionController(api)
        ExpandController(api)

    def policies() -> None:
        from pytest_kwait.simulator.controllers.validating_admission_policy_status import (
            PolicyStatusController,
        )

        PolicyStatusController(api)

    attributes = "volumeattributesclasses.storage.k8s.io"
    _on_first_object(api, ("persistentvolumeclaims", "persistentvolumes", attributes), volumes)
    _on_first_object(api, ("daemonsets.apps", "statefulsets.apps"), sets)
    _on_first_object(api, ("services", "endpoints"), endpoints)
    _on_first_object(api, ("cronjobs.batch",), cron_jobs)
    _on_first_object(api, ("validatingadmissionpolicies.admissionregistration.k8s.io",), policies)
    _on_first_object(api, ("horizontalpodautoscalers.autoscaling",), autoscalers)


def _start_signer(api: Cluster, authority: tuple[bytes, bytes]) -> None:
    """Start the certificate controller with the first request."""

    def certificates() -> None:
        from pytest_kwait.simulator.controllers.certificate_signing import CertificateController

        CertificateController(api, authority)

    _on_first_object(api, ("certificatesigningrequests.certificates.k8s.io",), certificates)


def _on_first_object(
    api: Cluster,
    resources: tuple[str, ...],
    start: Callable[[], None],
    means: Callable[[Obj], bool] | None = None,
) -> None:
    """Call `start` once, with the first object of one of the resources that `means` accepts."""
    stops: list[Callable[[], None]] = []
    started = False

    def begin(_change: str, new: Obj, _old: Obj | None) -> None:
        nonlocal started
        if not started and (means is None or means(new)):
            started = True
            for stop in stops:
                stop()
            start()

    stops += [api.subscribe(resource, begin) for resource in resources]
