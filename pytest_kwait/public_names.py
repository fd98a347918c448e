"""The public names of the package, and the modules that define them.

Type checkers see the imports, `pytest_kwait` imports a name on its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Written by `python -m tools.waits` from HOMES and the declared waits.
if TYPE_CHECKING:
    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.cache.sync import wait_for_cache_sync
    from pytest_kwait.client.exec import ExecResult
    from pytest_kwait.client.port_forward import PortForward
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.clusters.egress import Egress
    from pytest_kwait.clusters.faults import Fault, Faults
    from pytest_kwait.clusters.images import Images, MappedImage
    from pytest_kwait.clusters.scripted_pods import ScriptedPods
    from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
    from pytest_kwait.engine.options import TIMEOUTS, Mode, TimeoutEntry, Timeouts, WaitOptions
    from pytest_kwait.errors import (
        ApiError,
        ClusterError,
        InvalidArgument,
        KwaitError,
        WaitFailed,
        WaitTimeout,
    )
    from pytest_kwait.framework.cluster.api_server import (
        wait_for_api_server_healthy,
        wait_for_api_service_available,
    )
    from pytest_kwait.framework.cluster.authorization import (
        wait_for_authorization_update,
        wait_for_authz_update,
        wait_for_named_authorization_update,
    )
    from pytest_kwait.framework.cluster.crds import wait_for_crd_established
    from pytest_kwait.framework.cluster.hpa import wait_for_hpa_replicas
    from pytest_kwait.framework.cluster.namespaces import (
        wait_for_default_service_account,
        wait_for_kube_root_ca,
        wait_for_namespaces_deleted,
    )
    from pytest_kwait.framework.cluster.webhooks import wait_for_webhook_ready
    from pytest_kwait.framework.daemonset import (
        check_daemon_pod_on_nodes,
        check_present_on_nodes,
        check_running_on_all_nodes,
        wait_for_daemon_set_pods_on_nodes,
        wait_for_daemon_set_present_on_nodes,
        wait_for_daemon_set_running_on_all_nodes,
        wait_for_daemon_set_status,
        wait_for_daemon_sets,
    )
    from pytest_kwait.framework.deployment import (
        wait_for_deployment_complete,
        wait_for_deployment_complete_and_check_rolling,
        wait_for_deployment_revision_and_image,
        wait_for_deployment_updated_replicas_gte,
        wait_for_deployment_with_condition,
        wait_for_observed_deployment,
    )
    from pytest_kwait.framework.endpoints import (
        wait_for_endpoint_count,
        wait_for_endpoint_on_node,
        wait_for_endpoint_pods,
        wait_for_endpoint_ports,
        wait_for_endpoint_slices,
    )
    from pytest_kwait.framework.events import wait_for_event
    from pytest_kwait.framework.job.wait import (
        get_job_pods,
        wait_for_all_job_pods_gone,
        wait_for_job_complete,
        wait_for_job_condition,
        wait_for_job_failed,
        wait_for_job_finish,
        wait_for_job_gone,
        wait_for_job_pods_running,
        wait_for_job_pods_succeeded,
        wait_for_job_ready,
        wait_for_job_state,
        wait_for_job_suspend,
    )
    from pytest_kwait.framework.log import LogMatch, wait_for_log
    from pytest_kwait.framework.named_objects import KubernetesObject
    from pytest_kwait.framework.node.kubelet_pods import wait_for_pods_running_on_nodes
    from pytest_kwait.framework.node.minions import (
        FakePodInfo,
        PodInfo,
        pods_on_minions,
        wait_for_pods_on_minions,
    )
    from pytest_kwait.framework.node.wait import (
        check_ready_for_tests,
        wait_for_all_nodes_schedulable,
        wait_for_node_condition,
        wait_for_node_heartbeat_after,
        wait_for_node_not_ready,
        wait_for_node_ready,
        wait_for_node_schedulable,
        wait_for_nodes_ready,
        wait_for_total_healthy,
    )
    from pytest_kwait.framework.objects.combinators import (
        all_of,
        any_of,
        consistently,
        not_,
        stable_for,
    )
    from pytest_kwait.framework.objects.lists import at_least, at_most, exactly
    from pytest_kwait.framework.objects.wait import wait_for
    from pytest_kwait.framework.operations.create import create_and_wait
    from pytest_kwait.framework.operations.debug import debug
    from pytest_kwait.framework.operations.delete import delete_and_wait
    from pytest_kwait.framework.operations.drain import cordon, drain, evict, taint, uncordon
    from pytest_kwait.framework.operations.edit import annotate, label, patch, update
    from pytest_kwait.framework.operations.resize import resize
    from pytest_kwait.framework.operations.rolling_update import rolling_update
    from pytest_kwait.framework.operations.rollout import (
        restart,
        rollout_undo,
        wait_for_rollout_status,
    )
    from pytest_kwait.framework.operations.run import RunResult, run
    from pytest_kwait.framework.operations.scale import scale
    from pytest_kwait.framework.pod.containers import (
        wait_for_container_running,
        wait_for_container_started,
        wait_for_container_terminated,
        wait_for_container_to_fail,
    )
    from pytest_kwait.framework.pod.list_wait import (
        wait_for_almost_all_pods_ready,
        wait_for_number_of_pods,
        wait_for_pods_running,
        wait_for_pods_running_ready,
        wait_for_pods_scheduling_gated,
        wait_for_pods_with_label,
        wait_for_pods_with_label_running,
        wait_for_pods_with_label_running_ready,
        wait_for_pods_with_label_scheduled,
        wait_for_pods_with_scheduling_gates,
    )
    from pytest_kwait.framework.pod.port import wait_for_pod_port
    from pytest_kwait.framework.pod.resize import wait_for_pod_resized
    from pytest_kwait.framework.pod.responding import wait_for_pods_responding
    from pytest_kwait.framework.pod.wait import (
        wait_for_pod_condition,
        wait_for_pod_failed_reason,
        wait_for_pod_no_longer_running,
        wait_for_pod_not_found,
        wait_for_pod_not_pending,
        wait_for_pod_observed_generation,
        wait_for_pod_ready,
        wait_for_pod_running,
        wait_for_pod_running_ready,
        wait_for_pod_scheduled,
        wait_for_pod_success,
        wait_for_pod_terminated,
        wait_for_pod_terminating,
        wait_for_pod_unschedulable,
    )
    from pytest_kwait.framework.rc import (
        wait_for_controlled_pods,
        wait_for_controlled_pods_running,
        wait_for_rc_pods_running,
        wait_for_rc_to_stabilize,
    )
    from pytest_kwait.framework.replicaset import (
        wait_for_observed_replica_set,
        wait_for_ready_replica_set,
        wait_for_replica_set_desired_replicas,
        wait_for_replica_set_target_available_replicas,
        wait_for_replica_set_target_spec_replicas,
    )
    from pytest_kwait.framework.service import (
        wait_for_load_balancer,
        wait_for_load_balancer_destroy,
        wait_for_new_ingress_ip,
        wait_for_service,
        wait_for_service_deleted_with_finalizer,
        wait_for_service_reachable,
        wait_for_service_responding,
        wait_for_service_updated_with_finalizer,
    )
    from pytest_kwait.framework.statefulset import (
        wait_for_stateful_set_pod_ready,
        wait_for_stateful_set_running,
        wait_for_stateful_set_running_and_ready,
        wait_for_stateful_set_status_available_replicas,
        wait_for_stateful_set_status_ready_replicas,
        wait_for_stateful_set_status_replicas,
    )
    from pytest_kwait.framework.storage.claims import (
        wait_for_persistent_volume_claim_deleted,
        wait_for_persistent_volume_claim_modification_failure,
        wait_for_persistent_volume_claim_modified,
        wait_for_persistent_volume_claim_phase,
        wait_for_persistent_volume_claims_phase,
        wait_for_pvc_finalizer,
    )
    from pytest_kwait.framework.storage.volumes import (
        wait_for_persistent_volume_deleted,
        wait_for_persistent_volume_phase,
        wait_for_pv_and_pvc,
        wait_for_pv_claim_bound_phase,
        wait_for_pv_finalizer,
        wait_for_volume_attachment_attached,
        wait_for_volume_attachment_created,
        wait_for_volume_attachment_terminated,
    )
    from pytest_kwait.plugin.environments import environment
    from pytest_kwait.plugin.informers import InformersFactory
    from pytest_kwait.plugin.schedulers import SchedulerFactory
    from pytest_kwait.suite.bound_wait import BoundWait
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.election.candidates import Candidate, Candidates
    from pytest_kwait.suite.fixture_types import KwaitFactory, LeaderElectionFactory, RollingUpdate
    from pytest_kwait.suite.helm.program import HelmError, HelmResult
    from pytest_kwait.suite.helm.records import HelmHook, HelmRelease
    from pytest_kwait.suite.informers import InformerEvent, Informers, RecordedInformers
    from pytest_kwait.suite.kubectl import KubectlError, KubectlResult
    from pytest_kwait.suite.kwait import AsyncKwait, Kwait
    from pytest_kwait.suite.manifests import InvalidManifest
    from pytest_kwait.suite.matches import matches
    from pytest_kwait.suite.observers import WaitInfo
    from pytest_kwait.suite.schedulers import RunningScheduler

__all__ = [
    "TIMEOUTS",
    "ApiError",
    "AsyncKwait",
    "BoundWait",
    "Candidate",
    "Candidates",
    "Cluster",
    "ClusterError",
    "Duration",
    "Egress",
    "ExecResult",
    "Failed",
    "FakePodInfo",
    "Fault",
    "Faults",
    "Grace",
    "HelmError",
    "HelmHook",
    "HelmRelease",
    "HelmResult",
    "Images",
    "InformerEvent",
    "Informers",
    "InformersFactory",
    "InvalidArgument",
    "InvalidManifest",
    "KubectlError",
    "KubectlResult",
    "KubernetesObject",
    "Kwait",
    "KwaitError",
    "KwaitFactory",
    "LeaderElectionFactory",
    "LogMatch",
    "MappedImage",
    "Met",
    "Mode",
    "Pending",
    "PodInfo",
    "PortForward",
    "RecordedInformers",
    "RollingUpdate",
    "RunResult",
    "RunningScheduler",
    "SchedulerFactory",
    "ScriptedPods",
    "Settings",
    "TimeoutEntry",
    "Timeouts",
    "Verdict",
    "WaitFailed",
    "WaitInfo",
    "WaitOptions",
    "WaitTimeout",
    "all_of",
    "annotate",
    "any_of",
    "at_least",
    "at_most",
    "check_daemon_pod_on_nodes",
    "check_present_on_nodes",
    "check_ready_for_tests",
    "check_running_on_all_nodes",
    "consistently",
    "cordon",
    "create_and_wait",
    "debug",
    "delete_and_wait",
    "drain",
    "environment",
    "evict",
    "exactly",
    "get_job_pods",
    "label",
    "matches",
    "not_",
    "patch",
    "pods_on_minions",
    "resize",
    "restart",
    "rolling_update",
    "rollout_undo",
    "run",
    "scale",
    "stable_for",
    "taint",
    "uncordon",
    "update",
    "wait_for",
    "wait_for_all_job_pods_gone",
    "wait_for_all_nodes_schedulable",
    "wait_for_almost_all_pods_ready",
    "wait_for_api_server_healthy",
    "wait_for_api_service_available",
    "wait_for_authorization_update",
    "wait_for_authz_update",
    "wait_for_cache_sync",
    "wait_for_container_running",
    "wait_for_container_started",
    "wait_for_container_terminated",
    "wait_for_container_to_fail",
    "wait_for_controlled_pods",
    "wait_for_controlled_pods_running",
    "wait_for_crd_established",
    "wait_for_daemon_set_pods_on_nodes",
    "wait_for_daemon_set_present_on_nodes",
    "wait_for_daemon_set_running_on_all_nodes",
    "wait_for_daemon_set_status",
    "wait_for_daemon_sets",
    "wait_for_default_service_account",
    "wait_for_deployment_complete",
    "wait_for_deployment_complete_and_check_rolling",
    "wait_for_deployment_revision_and_image",
    "wait_for_deployment_updated_replicas_gte",
    "wait_for_deployment_with_condition",
    "wait_for_endpoint_count",
    "wait_for_endpoint_on_node",
    "wait_for_endpoint_pods",
    "wait_for_endpoint_ports",
    "wait_for_endpoint_slices",
    "wait_for_event",
    "wait_for_hpa_replicas",
    "wait_for_job_complete",
    "wait_for_job_condition",
    "wait_for_job_failed",
    "wait_for_job_finish",
    "wait_for_job_gone",
    "wait_for_job_pods_running",
    "wait_for_job_pods_succeeded",
    "wait_for_job_ready",
    "wait_for_job_state",
    "wait_for_job_suspend",
    "wait_for_kube_root_ca",
    "wait_for_load_balancer",
    "wait_for_load_balancer_destroy",
    "wait_for_log",
    "wait_for_named_authorization_update",
    "wait_for_namespaces_deleted",
    "wait_for_new_ingress_ip",
    "wait_for_node_condition",
    "wait_for_node_heartbeat_after",
    "wait_for_node_not_ready",
    "wait_for_node_ready",
    "wait_for_node_schedulable",
    "wait_for_nodes_ready",
    "wait_for_number_of_pods",
    "wait_for_observed_deployment",
    "wait_for_observed_replica_set",
    "wait_for_persistent_volume_claim_deleted",
    "wait_for_persistent_volume_claim_modification_failure",
    "wait_for_persistent_volume_claim_modified",
    "wait_for_persistent_volume_claim_phase",
    "wait_for_persistent_volume_claims_phase",
    "wait_for_persistent_volume_deleted",
    "wait_for_persistent_volume_phase",
    "wait_for_pod_condition",
    "wait_for_pod_failed_reason",
    "wait_for_pod_no_longer_running",
    "wait_for_pod_not_found",
    "wait_for_pod_not_pending",
    "wait_for_pod_observed_generation",
    "wait_for_pod_port",
    "wait_for_pod_ready",
    "wait_for_pod_resized",
    "wait_for_pod_running",
    "wait_for_pod_running_ready",
    "wait_for_pod_scheduled",
    "wait_for_pod_success",
    "wait_for_pod_terminated",
    "wait_for_pod_terminating",
    "wait_for_pod_unschedulable",
    "wait_for_pods_on_minions",
    "wait_for_pods_responding",
    "wait_for_pods_running",
    "wait_for_pods_running_on_nodes",
    "wait_for_pods_running_ready",
    "wait_for_pods_scheduling_gated",
    "wait_for_pods_with_label",
    "wait_for_pods_with_label_running",
    "wait_for_pods_with_label_running_ready",
    "wait_for_pods_with_label_scheduled",
    "wait_for_pods_with_scheduling_gates",
    "wait_for_pv_and_pvc",
    "wait_for_pv_claim_bound_phase",
    "wait_for_pv_finalizer",
    "wait_for_pvc_finalizer",
    "wait_for_rc_pods_running",
    "wait_for_rc_to_stabilize",
    "wait_for_ready_replica_set",
    "wait_for_replica_set_desired_replicas",
    "wait_for_replica_set_target_available_replicas",
    "wait_for_replica_set_target_spec_replicas",
    "wait_for_rollout_status",
    "wait_for_service",
    "wait_for_service_deleted_with_finalizer",
    "wait_for_service_reachable",
    "wait_for_service_responding",
    "wait_for_service_updated_with_finalizer",
    "wait_for_stateful_set_pod_ready",
    "wait_for_stateful_set_running",
    "wait_for_stateful_set_running_and_ready",
    "wait_for_stateful_set_status_available_replicas",
    "wait_for_stateful_set_status_ready_replicas",
    "wait_for_stateful_set_status_replicas",
    "wait_for_total_healthy",
    "wait_for_volume_attachment_attached",
    "wait_for_volume_attachment_created",
    "wait_for_volume_attachment_terminated",
    "wait_for_webhook_ready",
]
# End of the written part.

HOMES = {
    "framework.operations.rolling_update": ("rolling_update",),
    "framework.operations.delete": ("delete_and_wait",),
    "framework.operations.create": ("create_and_wait",),
    "framework.operations.drain": ("cordon", "drain", "evict", "taint", "uncordon"),
    "framework.operations.edit": ("annotate", "label", "patch", "update"),
    "framework.operations.rollout": ("restart", "rollout_undo"),
    "framework.operations.debug": ("debug",),
    "framework.operations.run": ("RunResult", "run"),
    "framework.operations.resize": ("resize",),
    "framework.operations.scale": ("scale",),
    "framework.log": ("LogMatch",),
    "client.exec": ("ExecResult",),
    "client.port_forward": ("PortForward",),
    "clusters.cluster": ("Cluster",),
    "clusters.egress": ("Egress",),
    "clusters.faults": ("Fault", "Faults"),
    "clusters.images": ("Images", "MappedImage"),
    "clusters.scripted_pods": ("ScriptedPods",),
    "engine.options": ("TIMEOUTS", "Mode", "TimeoutEntry", "Timeouts", "WaitOptions"),
    "engine.condition": ("Failed", "Grace", "Met", "Pending", "Verdict"),
    "errors": (
        "ApiError",
        "ClusterError",
        "InvalidArgument",
        "KwaitError",
        "WaitFailed",
        "WaitTimeout",
    ),
    "framework.objects.combinators": ("all_of", "any_of", "consistently", "not_", "stable_for"),
    "framework.job.wait": ("get_job_pods",),
    "framework.objects.lists": ("at_least", "at_most", "exactly"),
    "framework.daemonset": (
        "check_daemon_pod_on_nodes",
        "check_present_on_nodes",
        "check_running_on_all_nodes",
    ),
    "framework.node.minions": ("FakePodInfo", "PodInfo", "pods_on_minions"),
    "framework.node.wait": ("check_ready_for_tests",),
    "framework.named_objects": ("KubernetesObject",),
    "plugin.informers": ("InformersFactory",),
    "plugin.schedulers": ("SchedulerFactory",),
    "suite.config.settings": ("Settings",),
    "suite.fixture_types": ("KwaitFactory", "LeaderElectionFactory", "RollingUpdate"),
    "suite.helm.program": ("HelmError", "HelmResult"),
    "suite.helm.records": ("HelmHook", "HelmRelease"),
    "suite.informers": ("InformerEvent", "Informers", "RecordedInformers"),
    "suite.kubectl": ("KubectlError", "KubectlResult"),
    "suite.matches": ("matches",),
    "suite.observers": ("WaitInfo",),
    "plugin.environments": ("environment",),
    "suite.kwait": ("AsyncKwait", "Kwait"),
    "suite.schedulers": ("RunningScheduler",),
    "suite.bound_wait": ("BoundWait",),
    "suite.election.candidates": ("Candidate", "Candidates"),
    "suite.manifests": ("InvalidManifest",),
    "apimachinery.times": ("Duration",),
}
"""Names that are no waits, by the module that defines them, without `pytest_kwait.`."""

MODULES = (
    "cache",
    "clusters",
    "errors",
    "leaderelection",
    "scheduler",
    "testing",
    "typing",
    "wait",
)
"""The public modules."""


def __getattr__(name: str) -> Any:
    """Import a public name or module (PEP 562)."""
    if name in MODULES:
        return import_module(f"pytest_kwait.{name}")
    home = _find_home(name)
    if home is None:
        hint = (
            "; types of wait fixtures are in pytest_kwait.typing" if name[:7] == "WaitFor" else ""
        )
        raise AttributeError(f"module 'pytest_kwait' has no attribute {name!r}{hint}")
    return getattr(import_module(f"pytest_kwait.{home}"), name)


def _find_home(name: str) -> str | None:
    """Return the module that defines a public name, without `pytest_kwait.`; None without one."""
    if name.startswith("wait_for"):
        from pytest_kwait.framework.wait_names import WAIT_MODULES

        return WAIT_MODULES.get(name)
    return next((home for home, names in HOMES.items() if name in names), None)
