"""The controllers of the embedded cluster and its scheduler.

What may enter: loops that follow objects and change others through `ClusterApi`, as
kube-controller-manager and kube-scheduler do. None of them serves requests or runs containers; the
order and the content of their writes are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.storage_classes import STANDARD
from pytest_kwait.simulator.controllers.account_tokens import AccountTokenSecrets
from pytest_kwait.simulator.controllers.cluster_roles import ClusterRoleAggregation
from pytest_kwait.simulator.controllers.deployments import DeploymentController
from pytest_kwait.simulator.controllers.disruption_budgets import DisruptionBudgets
from pytest_kwait.simulator.controllers.event_expiry import EventExpiry
from pytest_kwait.simulator.controllers.garbage_collector import GarbageCollector
from pytest_kwait.simulator.controllers.jobs import ExpiryController, JobController
from pytest_kwait.simulator.controllers.namespaces import NamespaceContents, NamespaceDeletion
from pytest_kwait.simulator.controllers.node_taints import NodeTaints
from pytest_kwait.simulator.controllers.ownership import Dependents
from pytest_kwait.simulator.controllers.pod_cleanup import PodCleanup
from pytest_kwait.simulator.controllers.replica_sets import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    ReplicaController,
)
from pytest_kwait.simulator.controllers.resource_quotas import ResourceQuotas
from pytest_kwait.simulator.controllers.scheduler import Scheduler
from pytest_kwait.simulator.controllers.usage import says_what_it_uses
from pytest_kwait.simulator.controllers.volumes.ephemeral import EphemeralVolumes
from pytest_kwait.simulator.kubelet import start_kubelets
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.objects import Obj

__all__ = ["start_all"]

# Seconds after the start.
_LATER = 1.0


def start_all(api: ClusterApi, *, nodes: int, authority: tuple[bytes, bytes] | None = None) -> None:
    """Start the controllers, the scheduler and the kubelets of `nodes` nodes.

    Nodes are Ready, and every namespace has its contents, when this returns.

    Args:
        api: the cluster.
        nodes: how many.
        authority: who signs certificates: its own and its key, as PEM; None signs none.
    """
    # No part of a server, but of every kind of cluster that people test on.
    api.create("storageclasses.storage.k8s.io", clone(STANDARD))
    NamespaceContents(api)
    NamespaceDeletion(api)
    ClusterRoleAggregation(api)
    AccountTokenSecrets(api)
    pods = Dependents(api, "pods")
    replica_sets = Dependents(api, "replicasets.apps")
    ReplicaController(api, REPLICATION_CONTROLLERS, pods)
    ReplicaController(api, REPLICA_SETS, pods)
    DeploymentController(api, replica_sets, pods)
    JobController(api, pods)
    ExpiryController(api)
    EventExpiry(api)
    DisruptionBudgets(api)
    EphemeralVolumes(api)
    GarbageCollector(api)
    NodeTaints(api)
    PodCleanup(api)
    ResourceQuotas(api)
    Scheduler(api)
    start_kubelets(api, nodes)
    _start_with_the_first(api, pods)
    if authority is not None:
        _sign_with(api, authority)
    # They have no say in whether a cluster is ready: what loads later makes nobody wait.
    api.clock.call_later(_LATER, _follow_failures, api)
    api.clock.call_later(_LATER, _register_groups, api)


def _follow_failures(api: ClusterApi) -> None:
    """Follow nodes that go silent, and whom their taints drive away."""
    from pytest_kwait.simulator.controllers.node_health import NodeHealth
    from pytest_kwait.simulator.controllers.taint_eviction import TaintEviction

    NodeHealth(api)
    TaintEviction(api)


def _register_groups(api: ClusterApi) -> None:
    """Make the APIServices, and follow those of others."""
    from pytest_kwait.simulator.aggregation.local import MANAGED, LocalServices

    def remote() -> None:
        from pytest_kwait.simulator.aggregation.availability import RemoteServices
        from pytest_kwait.simulator.aggregation.proxy import ask

        RemoteServices(api, ask)

    LocalServices(api)

    def metrics() -> None:
        from pytest_kwait.simulator.aggregation.metrics import begin_metrics

        begin_metrics(api)

    _with_any(api, ("pods",), metrics, says_what_it_uses)
    _with_any(
        api,
        ("apiservices.apiregistration.k8s.io",),
        remote,
        lambda new: MANAGED not in (new["metadata"].get("labels") or {}),
    )


def _start_with_the_first(api: ClusterApi, pods: Dependents) -> None:
    """Let controllers begin with the first object that they are for, and load with it."""

    def sets() -> None:
        from pytest_kwait.simulator.controllers.daemon_sets import DaemonSetController
        from pytest_kwait.simulator.controllers.stateful_sets import StatefulSetController

        revisions = Dependents(api, "controllerrevisions.apps")
        DaemonSetController(api, pods, revisions)
        StatefulSetController(api, pods, revisions)

    def endpoints() -> None:
        from pytest_kwait.simulator.controllers.endpoints import (
            EndpointsController,
            EndpointSliceController,
            MirroringController,
            SelectedPods,
        )

        selected = SelectedPods(api)
        EndpointSliceController(api, selected)
        EndpointsController(api, selected)
        MirroringController(api, selected)

    def cron_jobs() -> None:
        from pytest_kwait.simulator.controllers.cron_jobs import CronJobController

        CronJobController(api, Dependents(api, "jobs.batch"))

    def autoscalers() -> None:
        from pytest_kwait.simulator.controllers.autoscalers import Autoscalers

        Autoscalers(api)

    def volumes() -> None:
        from pytest_kwait.simulator.controllers.volumes.binder import VolumeBinder
        from pytest_kwait.simulator.controllers.volumes.expansion import VolumeExpansion
        from pytest_kwait.simulator.controllers.volumes.protection import VolumeProtection

        VolumeBinder(api)
        VolumeProtection(api)
        VolumeExpansion(api)

    def policies() -> None:
        from pytest_kwait.simulator.controllers.policy_status import PolicyStatus

        PolicyStatus(api)

    attributes = "volumeattributesclasses.storage.k8s.io"
    _with_any(api, ("persistentvolumeclaims", "persistentvolumes", attributes), volumes)
    _with_any(api, ("daemonsets.apps", "statefulsets.apps"), sets)
    _with_any(api, ("services", "endpoints"), endpoints)
    _with_any(api, ("cronjobs.batch",), cron_jobs)
    _with_any(api, ("validatingadmissionpolicies.admissionregistration.k8s.io",), policies)
    _with_any(api, ("horizontalpodautoscalers.autoscaling",), autoscalers)


def _sign_with(api: ClusterApi, authority: tuple[bytes, bytes]) -> None:
    """Let requests for certificates be signed from the first one on."""

    def certificates() -> None:
        from pytest_kwait.simulator.controllers.certificates import CertificateController

        CertificateController(api, authority)

    _with_any(api, ("certificatesigningrequests.certificates.k8s.io",), certificates)


def _with_any(
    api: ClusterApi,
    resources: tuple[str, ...],
    start: Callable[[], None],
    means: Callable[[Obj], bool] | None = None,
) -> None:
    """Call `start` once, when there is an object of one of the resources that is meant."""
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
