"""The types of wait fixtures, written by `python -m tools.waits`.

The method of `Kwait` has the signature of the fixture, and satisfies its type too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol

from pytest_kwait.suite.wait_methods import WaitMethods

if TYPE_CHECKING:
    from collections.abc import Callable

    import typing_extensions

    # The default is that of `_Model`: mypy gives a generic result the default of this variable.
    _Result = typing_extensions.TypeVar("_Result", default=dict[str, Any])

_Arguments = ParamSpec("_Arguments")


def _like(
    method: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method, typed for another class than its own."""
    return method


class WaitForCacheSync(Protocol):
    __call__ = _like(WaitMethods.wait_for_cache_sync)


class WaitForApiServerHealthy(Protocol):
    __call__ = _like(WaitMethods.wait_for_api_server_healthy)


class WaitForApiServiceAvailable(Protocol):
    __call__ = _like(WaitMethods.wait_for_api_service_available)


class WaitForAuthorizationUpdate(Protocol):
    __call__ = _like(WaitMethods.wait_for_authorization_update)


class WaitForNamedAuthorizationUpdate(Protocol):
    __call__ = _like(WaitMethods.wait_for_named_authorization_update)


class WaitForAuthzUpdate(Protocol):
    __call__ = _like(WaitMethods.wait_for_authz_update)


class WaitForCrdEstablished(Protocol):
    __call__ = _like(WaitMethods.wait_for_crd_established)


class WaitForHpaReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_hpa_replicas)


class WaitForNamespacesDeleted(Protocol):
    __call__ = _like(WaitMethods.wait_for_namespaces_deleted)


class WaitForDefaultServiceAccount(Protocol):
    __call__ = _like(WaitMethods.wait_for_default_service_account)


class WaitForKubeRootCa(Protocol):
    __call__ = _like(WaitMethods.wait_for_kube_root_ca)


class WaitForWebhookReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_webhook_ready)


class WaitForDaemonSetRunningOnAllNodes(Protocol):
    __call__ = _like(WaitMethods.wait_for_daemon_set_running_on_all_nodes)


class WaitForDaemonSetPodsOnNodes(Protocol):
    __call__ = _like(WaitMethods.wait_for_daemon_set_pods_on_nodes)


class WaitForDaemonSetPresentOnNodes(Protocol):
    __call__ = _like(WaitMethods.wait_for_daemon_set_present_on_nodes)


class WaitForDaemonSetStatus(Protocol):
    __call__ = _like(WaitMethods.wait_for_daemon_set_status)


class WaitForDaemonSets(Protocol):
    __call__ = _like(WaitMethods.wait_for_daemon_sets)


class WaitForDeploymentComplete(Protocol):
    __call__ = _like(WaitMethods.wait_for_deployment_complete)


class WaitForDeploymentCompleteAndCheckRolling(Protocol):
    __call__ = _like(WaitMethods.wait_for_deployment_complete_and_check_rolling)


class WaitForDeploymentRevisionAndImage(Protocol):
    __call__ = _like(WaitMethods.wait_for_deployment_revision_and_image)


class WaitForDeploymentUpdatedReplicasGte(Protocol):
    __call__ = _like(WaitMethods.wait_for_deployment_updated_replicas_gte)


class WaitForDeploymentWithCondition(Protocol):
    __call__ = _like(WaitMethods.wait_for_deployment_with_condition)


class WaitForObservedDeployment(Protocol):
    __call__ = _like(WaitMethods.wait_for_observed_deployment)


class WaitForEndpointCount(Protocol):
    __call__ = _like(WaitMethods.wait_for_endpoint_count)


class WaitForEndpointPods(Protocol):
    __call__ = _like(WaitMethods.wait_for_endpoint_pods)


class WaitForEndpointPorts(Protocol):
    __call__ = _like(WaitMethods.wait_for_endpoint_ports)


class WaitForEndpointOnNode(Protocol):
    __call__ = _like(WaitMethods.wait_for_endpoint_on_node)


class WaitForEndpointSlices(Protocol):
    __call__ = _like(WaitMethods.wait_for_endpoint_slices)


class WaitForEvent(Protocol):
    __call__ = _like(WaitMethods.wait_for_event)


class WaitForJobPodsRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_pods_running)


class WaitForJobPodsSucceeded(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_pods_succeeded)


class WaitForJobFinish(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_finish)


class WaitForJobComplete(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_complete)


class WaitForJobFailed(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_failed)


class WaitForJobReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_ready)


class WaitForJobSuspend(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_suspend)


class WaitForJobCondition(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_condition)


class WaitForJobState(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_state)


class WaitForJobGone(Protocol):
    __call__ = _like(WaitMethods.wait_for_job_gone)


class WaitForAllJobPodsGone(Protocol):
    __call__ = _like(WaitMethods.wait_for_all_job_pods_gone)


class WaitForLog(Protocol):
    __call__ = _like(WaitMethods.wait_for_log)


class WaitForPodsRunningOnNodes(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_running_on_nodes)


class WaitForPodsOnMinions(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_on_minions)


class WaitForNodeReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_node_ready)


class WaitForNodeNotReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_node_not_ready)


class WaitForNodeCondition(Protocol):
    __call__ = _like(WaitMethods.wait_for_node_condition)


class WaitForNodeSchedulable(Protocol):
    __call__ = _like(WaitMethods.wait_for_node_schedulable)


class WaitForNodeHeartbeatAfter(Protocol):
    __call__ = _like(WaitMethods.wait_for_node_heartbeat_after)


class WaitForAllNodesSchedulable(Protocol):
    __call__ = _like(WaitMethods.wait_for_all_nodes_schedulable)


class WaitForNodesReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_nodes_ready)


class WaitForTotalHealthy(Protocol):
    __call__ = _like(WaitMethods.wait_for_total_healthy)


class WaitFor(Protocol):
    __call__ = _like(WaitMethods.wait_for)


class WaitForRolloutStatus(Protocol):
    __call__ = _like(WaitMethods.wait_for_rollout_status)


class WaitForContainerStarted(Protocol):
    __call__ = _like(WaitMethods.wait_for_container_started)


class WaitForContainerRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_container_running)


class WaitForContainerTerminated(Protocol):
    __call__ = _like(WaitMethods.wait_for_container_terminated)


class WaitForContainerToFail(Protocol):
    __call__ = _like(WaitMethods.wait_for_container_to_fail)


class WaitForNumberOfPods(Protocol):
    __call__ = _like(WaitMethods.wait_for_number_of_pods)


class WaitForPodsRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_running)


class WaitForPodsSchedulingGated(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_scheduling_gated)


class WaitForPodsWithSchedulingGates(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_with_scheduling_gates)


class WaitForPodsWithLabel(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_with_label)


class WaitForPodsWithLabelScheduled(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_with_label_scheduled)


class WaitForPodsWithLabelRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_with_label_running)


class WaitForPodsWithLabelRunningReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_with_label_running_ready)


class WaitForPodsRunningReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_running_ready)


class WaitForAlmostAllPodsReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_almost_all_pods_ready)


class WaitForPodPort(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_port)


class WaitForPodResized(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_resized)


class WaitForPodsResponding(Protocol):
    __call__ = _like(WaitMethods.wait_for_pods_responding)


class WaitForPodCondition(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_condition)


class WaitForPodRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_running)


class WaitForPodReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_ready)


class WaitForPodRunningReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_running_ready)


class WaitForPodSuccess(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_success)


class WaitForPodNoLongerRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_no_longer_running)


class WaitForPodTerminated(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_terminated)


class WaitForPodFailedReason(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_failed_reason)


class WaitForPodNotPending(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_not_pending)


class WaitForPodScheduled(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_scheduled)


class WaitForPodUnschedulable(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_unschedulable)


class WaitForPodTerminating(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_terminating)


class WaitForPodNotFound(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_not_found)


class WaitForPodObservedGeneration(Protocol):
    __call__ = _like(WaitMethods.wait_for_pod_observed_generation)


class WaitForControlledPods(Protocol):
    __call__ = _like(WaitMethods.wait_for_controlled_pods)


class WaitForControlledPodsRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_controlled_pods_running)


class WaitForRcPodsRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_rc_pods_running)


class WaitForRcToStabilize(Protocol):
    __call__ = _like(WaitMethods.wait_for_rc_to_stabilize)


class WaitForReadyReplicaSet(Protocol):
    __call__ = _like(WaitMethods.wait_for_ready_replica_set)


class WaitForReplicaSetTargetAvailableReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_replica_set_target_available_replicas)


class WaitForReplicaSetTargetSpecReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_replica_set_target_spec_replicas)


class WaitForReplicaSetDesiredReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_replica_set_desired_replicas)


class WaitForObservedReplicaSet(Protocol):
    __call__ = _like(WaitMethods.wait_for_observed_replica_set)


class WaitForLoadBalancer(Protocol):
    __call__ = _like(WaitMethods.wait_for_load_balancer)


class WaitForNewIngressIp(Protocol):
    __call__ = _like(WaitMethods.wait_for_new_ingress_ip)


class WaitForLoadBalancerDestroy(Protocol):
    __call__ = _like(WaitMethods.wait_for_load_balancer_destroy)


class WaitForServiceUpdatedWithFinalizer(Protocol):
    __call__ = _like(WaitMethods.wait_for_service_updated_with_finalizer)


class WaitForServiceDeletedWithFinalizer(Protocol):
    __call__ = _like(WaitMethods.wait_for_service_deleted_with_finalizer)


class WaitForService(Protocol):
    __call__ = _like(WaitMethods.wait_for_service)


class WaitForServiceReachable(Protocol):
    __call__ = _like(WaitMethods.wait_for_service_reachable)


class WaitForServiceResponding(Protocol):
    __call__ = _like(WaitMethods.wait_for_service_responding)


class WaitForStatefulSetRunning(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_running)


class WaitForStatefulSetRunningAndReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_running_and_ready)


class WaitForStatefulSetPodReady(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_pod_ready)


class WaitForStatefulSetStatusReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_status_replicas)


class WaitForStatefulSetStatusReadyReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_status_ready_replicas)


class WaitForStatefulSetStatusAvailableReplicas(Protocol):
    __call__ = _like(WaitMethods.wait_for_stateful_set_status_available_replicas)


class WaitForPersistentVolumeClaimPhase(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_claim_phase)


class WaitForPersistentVolumeClaimsPhase(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_claims_phase)


class WaitForPersistentVolumeClaimDeleted(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_claim_deleted)


class WaitForPvcFinalizer(Protocol):
    __call__ = _like(WaitMethods.wait_for_pvc_finalizer)


class WaitForPersistentVolumeClaimModified(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_claim_modified)


class WaitForPersistentVolumeClaimModificationFailure(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_claim_modification_failure)


class WaitForPvAndPvc(Protocol):
    __call__ = _like(WaitMethods.wait_for_pv_and_pvc)


class WaitForPvClaimBoundPhase(Protocol):
    __call__ = _like(WaitMethods.wait_for_pv_claim_bound_phase)


class WaitForPersistentVolumePhase(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_phase)


class WaitForPersistentVolumeDeleted(Protocol):
    __call__ = _like(WaitMethods.wait_for_persistent_volume_deleted)


class WaitForPvFinalizer(Protocol):
    __call__ = _like(WaitMethods.wait_for_pv_finalizer)


class WaitForVolumeAttachmentCreated(Protocol):
    __call__ = _like(WaitMethods.wait_for_volume_attachment_created)


class WaitForVolumeAttachmentAttached(Protocol):
    __call__ = _like(WaitMethods.wait_for_volume_attachment_attached)


class WaitForVolumeAttachmentTerminated(Protocol):
    __call__ = _like(WaitMethods.wait_for_volume_attachment_terminated)
