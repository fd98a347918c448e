"""One fixture per wait; the catalogue of waits, read on first use, says what each of them takes."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin import activate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.suite.bound_wait import BoundWait

__all__ = ["WAIT_NAMES", "describe"]

_fixture = pytest.fixture()
# All of them are alike; pytest need not find that out for each.
_SIGNATURE = Signature([Parameter("request", Parameter.POSITIONAL_OR_KEYWORD)])
_functions: dict[str, Callable[[pytest.FixtureRequest], BoundWait]] = {}


def describe() -> None:
    """Give the fixtures their texts, which are read only where they are to be shown."""
    from pytest_kwait.resources.catalogue import WAITS

    for name, function in _functions.items():
        wait = WAITS[name]
        function.__doc__ = f"Wait for {wait.summary}: {name}({wait.usage})."


def bound(name: str) -> Any:
    """Return a fixture that gives a wait bound to the test's cluster, namespace and settings.

    Args:
        name: the wait's, and that of the attribute it is assigned to, which names the fixture.
    """

    def fixture(request: pytest.FixtureRequest) -> BoundWait:
        activate(request.config)
        from pytest_kwait.plugin.benches import bind
        from pytest_kwait.resources.catalogue import WAITS

        return bind(WAITS[name], request)

    vars(fixture)["__signature__"] = _SIGNATURE
    _functions[name] = fixture
    return _fixture(fixture)


wait_for = bound("wait_for")
wait_for_all_job_pods_gone = bound("wait_for_all_job_pods_gone")
wait_for_all_nodes_schedulable = bound("wait_for_all_nodes_schedulable")
wait_for_almost_all_pods_ready = bound("wait_for_almost_all_pods_ready")
wait_for_api_server_healthy = bound("wait_for_api_server_healthy")
wait_for_api_service_available = bound("wait_for_api_service_available")
wait_for_authorization_update = bound("wait_for_authorization_update")
wait_for_authz_update = bound("wait_for_authz_update")
wait_for_cache_sync = bound("wait_for_cache_sync")
wait_for_container_running = bound("wait_for_container_running")
wait_for_container_started = bound("wait_for_container_started")
wait_for_container_terminated = bound("wait_for_container_terminated")
wait_for_container_to_fail = bound("wait_for_container_to_fail")
wait_for_controlled_pods = bound("wait_for_controlled_pods")
wait_for_controlled_pods_running = bound("wait_for_controlled_pods_running")
wait_for_crd_established = bound("wait_for_crd_established")
wait_for_daemon_set_pods_on_nodes = bound("wait_for_daemon_set_pods_on_nodes")
wait_for_daemon_set_present_on_nodes = bound("wait_for_daemon_set_present_on_nodes")
wait_for_daemon_set_running_on_all_nodes = bound("wait_for_daemon_set_running_on_all_nodes")
wait_for_daemon_set_status = bound("wait_for_daemon_set_status")
wait_for_daemon_sets = bound("wait_for_daemon_sets")
wait_for_default_service_account = bound("wait_for_default_service_account")
wait_for_deployment_complete = bound("wait_for_deployment_complete")
wait_for_deployment_complete_and_check_rolling = bound(
    "wait_for_deployment_complete_and_check_rolling"
)
wait_for_deployment_revision_and_image = bound("wait_for_deployment_revision_and_image")
wait_for_deployment_updated_replicas_gte = bound("wait_for_deployment_updated_replicas_gte")
wait_for_deployment_with_condition = bound("wait_for_deployment_with_condition")
wait_for_endpoint_count = bound("wait_for_endpoint_count")
wait_for_endpoint_on_node = bound("wait_for_endpoint_on_node")
wait_for_endpoint_pods = bound("wait_for_endpoint_pods")
wait_for_endpoint_ports = bound("wait_for_endpoint_ports")
wait_for_endpoint_slices = bound("wait_for_endpoint_slices")
wait_for_event = bound("wait_for_event")
wait_for_hpa_replicas = bound("wait_for_hpa_replicas")
wait_for_job_complete = bound("wait_for_job_complete")
wait_for_job_condition = bound("wait_for_job_condition")
wait_for_job_failed = bound("wait_for_job_failed")
wait_for_job_finish = bound("wait_for_job_finish")
wait_for_job_gone = bound("wait_for_job_gone")
wait_for_job_pods_running = bound("wait_for_job_pods_running")
wait_for_job_pods_succeeded = bound("wait_for_job_pods_succeeded")
wait_for_job_ready = bound("wait_for_job_ready")
wait_for_job_state = bound("wait_for_job_state")
wait_for_job_suspend = bound("wait_for_job_suspend")
wait_for_kube_root_ca = bound("wait_for_kube_root_ca")
wait_for_load_balancer = bound("wait_for_load_balancer")
wait_for_load_balancer_destroy = bound("wait_for_load_balancer_destroy")
wait_for_named_authorization_update = bound("wait_for_named_authorization_update")
wait_for_namespaces_deleted = bound("wait_for_namespaces_deleted")
wait_for_new_ingress_ip = bound("wait_for_new_ingress_ip")
wait_for_node_condition = bound("wait_for_node_condition")
wait_for_node_heartbeat_after = bound("wait_for_node_heartbeat_after")
wait_for_node_not_ready = bound("wait_for_node_not_ready")
wait_for_node_ready = bound("wait_for_node_ready")
wait_for_node_schedulable = bound("wait_for_node_schedulable")
wait_for_nodes_ready = bound("wait_for_nodes_ready")
wait_for_number_of_pods = bound("wait_for_number_of_pods")
wait_for_observed_deployment = bound("wait_for_observed_deployment")
wait_for_observed_replica_set = bound("wait_for_observed_replica_set")
wait_for_persistent_volume_claim_deleted = bound("wait_for_persistent_volume_claim_deleted")
wait_for_persistent_volume_claim_modification_failure = bound(
    "wait_for_persistent_volume_claim_modification_failure"
)
wait_for_persistent_volume_claim_modified = bound("wait_for_persistent_volume_claim_modified")
wait_for_persistent_volume_claim_phase = bound("wait_for_persistent_volume_claim_phase")
wait_for_persistent_volume_claims_phase = bound("wait_for_persistent_volume_claims_phase")
wait_for_persistent_volume_deleted = bound("wait_for_persistent_volume_deleted")
wait_for_persistent_volume_phase = bound("wait_for_persistent_volume_phase")
wait_for_pod_condition = bound("wait_for_pod_condition")
wait_for_pod_failed_reason = bound("wait_for_pod_failed_reason")
wait_for_pod_no_longer_running = bound("wait_for_pod_no_longer_running")
wait_for_pod_not_found = bound("wait_for_pod_not_found")
wait_for_pod_not_pending = bound("wait_for_pod_not_pending")
wait_for_pod_observed_generation = bound("wait_for_pod_observed_generation")
wait_for_pod_ready = bound("wait_for_pod_ready")
wait_for_pod_running = bound("wait_for_pod_running")
wait_for_pod_running_ready = bound("wait_for_pod_running_ready")
wait_for_pod_scheduled = bound("wait_for_pod_scheduled")
wait_for_pod_success = bound("wait_for_pod_success")
wait_for_pod_terminated = bound("wait_for_pod_terminated")
wait_for_pod_terminating = bound("wait_for_pod_terminating")
wait_for_pod_unschedulable = bound("wait_for_pod_unschedulable")
wait_for_pods_on_minions = bound("wait_for_pods_on_minions")
wait_for_pods_responding = bound("wait_for_pods_responding")
wait_for_pods_running = bound("wait_for_pods_running")
wait_for_pods_running_on_nodes = bound("wait_for_pods_running_on_nodes")
wait_for_pods_running_ready = bound("wait_for_pods_running_ready")
wait_for_pods_scheduling_gated = bound("wait_for_pods_scheduling_gated")
wait_for_pods_with_label = bound("wait_for_pods_with_label")
wait_for_pods_with_label_running = bound("wait_for_pods_with_label_running")
wait_for_pods_with_label_running_ready = bound("wait_for_pods_with_label_running_ready")
wait_for_pods_with_label_scheduled = bound("wait_for_pods_with_label_scheduled")
wait_for_pods_with_scheduling_gates = bound("wait_for_pods_with_scheduling_gates")
wait_for_pv_and_pvc = bound("wait_for_pv_and_pvc")
wait_for_pv_claim_bound_phase = bound("wait_for_pv_claim_bound_phase")
wait_for_pv_finalizer = bound("wait_for_pv_finalizer")
wait_for_pvc_finalizer = bound("wait_for_pvc_finalizer")
wait_for_rc_pods_running = bound("wait_for_rc_pods_running")
wait_for_rc_to_stabilize = bound("wait_for_rc_to_stabilize")
wait_for_ready_replica_set = bound("wait_for_ready_replica_set")
wait_for_replica_set_desired_replicas = bound("wait_for_replica_set_desired_replicas")
wait_for_replica_set_target_available_replicas = bound(
    "wait_for_replica_set_target_available_replicas"
)
wait_for_replica_set_target_spec_replicas = bound("wait_for_replica_set_target_spec_replicas")
wait_for_rollout_status = bound("wait_for_rollout_status")
wait_for_service = bound("wait_for_service")
wait_for_service_deleted_with_finalizer = bound("wait_for_service_deleted_with_finalizer")
wait_for_service_reachable = bound("wait_for_service_reachable")
wait_for_service_responding = bound("wait_for_service_responding")
wait_for_service_updated_with_finalizer = bound("wait_for_service_updated_with_finalizer")
wait_for_stateful_set_pod_ready = bound("wait_for_stateful_set_pod_ready")
wait_for_stateful_set_running = bound("wait_for_stateful_set_running")
wait_for_stateful_set_running_and_ready = bound("wait_for_stateful_set_running_and_ready")
wait_for_stateful_set_status_available_replicas = bound(
    "wait_for_stateful_set_status_available_replicas"
)
wait_for_stateful_set_status_ready_replicas = bound("wait_for_stateful_set_status_ready_replicas")
wait_for_stateful_set_status_replicas = bound("wait_for_stateful_set_status_replicas")
wait_for_total_healthy = bound("wait_for_total_healthy")
wait_for_volume_attachment_attached = bound("wait_for_volume_attachment_attached")
wait_for_volume_attachment_created = bound("wait_for_volume_attachment_created")
wait_for_volume_attachment_terminated = bound("wait_for_volume_attachment_terminated")
wait_for_webhook_ready = bound("wait_for_webhook_ready")

WAIT_NAMES = frozenset(_functions)
"""The names of all waits: of functions, fixtures and markers alike."""
