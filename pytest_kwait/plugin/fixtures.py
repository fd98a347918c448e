"""The fixtures, among them one per wait.

Each can be overridden in a conftest; the others then use its value. Loaded with the plugin,
so the code behind them is in other modules, imported when a test requests the fixture. The
registry of waits is read on first use.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_kwait.plugin import activate, is_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.engine.timeouts import Timeouts
    from pytest_kwait.plugin.informers import InformersFactory
    from pytest_kwait.plugin.schedulers import SchedulerFactory
    from pytest_kwait.suite.bound_wait import BoundWait, TimeBudget
    from pytest_kwait.suite.election.candidates import Candidates
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.namespaces.namespaces import Namespaces

__all__ = ["WAIT_NAMES", "add_docstrings"]

_fixture = pytest.fixture()
# All of them are alike; pytest need not find that out for each.
_SIGNATURE = Signature([Parameter("request", Parameter.POSITIONAL_OR_KEYWORD)])
_functions: dict[str, Callable[[pytest.FixtureRequest], BoundWait]] = {}


def add_docstrings() -> None:
    """Give the fixtures their texts, which are read only where they are to be shown."""
    from pytest_kwait.framework.registry import WAITS

    for name, function in _functions.items():
        wait = WAITS[name]
        function.__doc__ = f"Wait for {wait.summary}: {name}({wait.usage})."


def make_wait_fixture(name: str) -> Any:
    """Return a fixture that gives a wait bound to the test's cluster, namespace and settings.

    Args:
        name: the wait's, and that of the attribute it is assigned to, which names the fixture.
    """

    def fixture(request: pytest.FixtureRequest) -> BoundWait:
        activate(request.config)
        from pytest_kwait.framework.registry import WAITS
        from pytest_kwait.plugin.namespaces import bind_wait

        return bind_wait(WAITS[name], request)

    vars(fixture)["__signature__"] = _SIGNATURE
    _functions[name] = fixture
    return _fixture(fixture)


wait_for = make_wait_fixture("wait_for")
wait_for_all_job_pods_gone = make_wait_fixture("wait_for_all_job_pods_gone")
wait_for_all_nodes_schedulable = make_wait_fixture("wait_for_all_nodes_schedulable")
wait_for_almost_all_pods_ready = make_wait_fixture("wait_for_almost_all_pods_ready")
wait_for_api_server_healthy = make_wait_fixture("wait_for_api_server_healthy")
wait_for_api_service_available = make_wait_fixture("wait_for_api_service_available")
wait_for_authorization_update = make_wait_fixture("wait_for_authorization_update")
wait_for_authz_update = make_wait_fixture("wait_for_authz_update")
wait_for_cache_sync = make_wait_fixture("wait_for_cache_sync")
wait_for_container_running = make_wait_fixture("wait_for_container_running")
wait_for_container_started = make_wait_fixture("wait_for_container_started")
wait_for_container_terminated = make_wait_fixture("wait_for_container_terminated")
wait_for_container_to_fail = make_wait_fixture("wait_for_container_to_fail")
wait_for_controlled_pods = make_wait_fixture("wait_for_controlled_pods")
wait_for_controlled_pods_running = make_wait_fixture("wait_for_controlled_pods_running")
wait_for_crd_established = make_wait_fixture("wait_for_crd_established")
wait_for_daemon_set_pods_on_nodes = make_wait_fixture("wait_for_daemon_set_pods_on_nodes")
wait_for_daemon_set_present_on_nodes = make_wait_fixture("wait_for_daemon_set_present_on_nodes")
wait_for_daemon_set_running_on_all_nodes = make_wait_fixture(
    "wait_for_daemon_set_running_on_all_nodes"
)
wait_for_daemon_set_status = make_wait_fixture("wait_for_daemon_set_status")
wait_for_daemon_sets = make_wait_fixture("wait_for_daemon_sets")
wait_for_default_service_account = make_wait_fixture("wait_for_default_service_account")
wait_for_deployment_complete = make_wait_fixture("wait_for_deployment_complete")
wait_for_deployment_complete_and_check_rolling = make_wait_fixture(
    "wait_for_deployment_complete_and_check_rolling"
)
wait_for_deployment_revision_and_image = make_wait_fixture("wait_for_deployment_revision_and_image")
wait_for_deployment_updated_replicas_gte = make_wait_fixture(
    "wait_for_deployment_updated_replicas_gte"
)
wait_for_deployment_with_condition = make_wait_fixture("wait_for_deployment_with_condition")
wait_for_endpoint_count = make_wait_fixture("wait_for_endpoint_count")
wait_for_endpoint_on_node = make_wait_fixture("wait_for_endpoint_on_node")
wait_for_endpoint_pods = make_wait_fixture("wait_for_endpoint_pods")
wait_for_endpoint_ports = make_wait_fixture("wait_for_endpoint_ports")
wait_for_endpoint_slices = make_wait_fixture("wait_for_endpoint_slices")
wait_for_event = make_wait_fixture("wait_for_event")
wait_for_hpa_replicas = make_wait_fixture("wait_for_hpa_replicas")
wait_for_job_complete = make_wait_fixture("wait_for_job_complete")
wait_for_job_condition = make_wait_fixture("wait_for_job_condition")
wait_for_job_failed = make_wait_fixture("wait_for_job_failed")
wait_for_job_finish = make_wait_fixture("wait_for_job_finish")
wait_for_job_gone = make_wait_fixture("wait_for_job_gone")
wait_for_job_pods_running = make_wait_fixture("wait_for_job_pods_running")
wait_for_job_pods_succeeded = make_wait_fixture("wait_for_job_pods_succeeded")
wait_for_job_ready = make_wait_fixture("wait_for_job_ready")
wait_for_job_state = make_wait_fixture("wait_for_job_state")
wait_for_job_suspend = make_wait_fixture("wait_for_job_suspend")
wait_for_kube_root_ca = make_wait_fixture("wait_for_kube_root_ca")
wait_for_load_balancer = make_wait_fixture("wait_for_load_balancer")
wait_for_load_balancer_destroy = make_wait_fixture("wait_for_load_balancer_destroy")
wait_for_named_authorization_update = make_wait_fixture("wait_for_named_authorization_update")
wait_for_namespaces_deleted = make_wait_fixture("wait_for_namespaces_deleted")
wait_for_new_ingress_ip = make_wait_fixture("wait_for_new_ingress_ip")
wait_for_node_condition = make_wait_fixture("wait_for_node_condition")
wait_for_node_heartbeat_after = make_wait_fixture("wait_for_node_heartbeat_after")
wait_for_node_not_ready = make_wait_fixture("wait_for_node_not_ready")
wait_for_node_ready = make_wait_fixture("wait_for_node_ready")
wait_for_node_schedulable = make_wait_fixture("wait_for_node_schedulable")
wait_for_nodes_ready = make_wait_fixture("wait_for_nodes_ready")
wait_for_number_of_pods = make_wait_fixture("wait_for_number_of_pods")
wait_for_observed_deployment = make_wait_fixture("wait_for_observed_deployment")
wait_for_observed_replica_set = make_wait_fixture("wait_for_observed_replica_set")
wait_for_persistent_volume_claim_deleted = make_wait_fixture(
    "wait_for_persistent_volume_claim_deleted"
)
wait_for_persistent_volume_claim_modification_failure = make_wait_fixture(
    "wait_for_persistent_volume_claim_modification_failure"
)
wait_for_persistent_volume_claim_modified = make_wait_fixture(
    "wait_for_persistent_volume_claim_modified"
)
wait_for_persistent_volume_claim_phase = make_wait_fixture("wait_for_persistent_volume_claim_phase")
wait_for_persistent_volume_claims_phase = make_wait_fixture(
    "wait_for_persistent_volume_claims_phase"
)
wait_for_persistent_volume_deleted = make_wait_fixture("wait_for_persistent_volume_deleted")
wait_for_persistent_volume_phase = make_wait_fixture("wait_for_persistent_volume_phase")
wait_for_pod_condition = make_wait_fixture("wait_for_pod_condition")
wait_for_pod_failed_reason = make_wait_fixture("wait_for_pod_failed_reason")
wait_for_pod_no_longer_running = make_wait_fixture("wait_for_pod_no_longer_running")
wait_for_pod_not_found = make_wait_fixture("wait_for_pod_not_found")
wait_for_pod_not_pending = make_wait_fixture("wait_for_pod_not_pending")
wait_for_pod_observed_generation = make_wait_fixture("wait_for_pod_observed_generation")
wait_for_pod_ready = make_wait_fixture("wait_for_pod_ready")
wait_for_pod_running = make_wait_fixture("wait_for_pod_running")
wait_for_pod_running_ready = make_wait_fixture("wait_for_pod_running_ready")
wait_for_pod_scheduled = make_wait_fixture("wait_for_pod_scheduled")
wait_for_pod_success = make_wait_fixture("wait_for_pod_success")
wait_for_pod_terminated = make_wait_fixture("wait_for_pod_terminated")
wait_for_pod_terminating = make_wait_fixture("wait_for_pod_terminating")
wait_for_pod_unschedulable = make_wait_fixture("wait_for_pod_unschedulable")
wait_for_pods_on_minions = make_wait_fixture("wait_for_pods_on_minions")
wait_for_pods_responding = make_wait_fixture("wait_for_pods_responding")
wait_for_pods_running = make_wait_fixture("wait_for_pods_running")
wait_for_pods_running_on_nodes = make_wait_fixture("wait_for_pods_running_on_nodes")
wait_for_pods_running_ready = make_wait_fixture("wait_for_pods_running_ready")
wait_for_pods_scheduling_gated = make_wait_fixture("wait_for_pods_scheduling_gated")
wait_for_pods_with_label = make_wait_fixture("wait_for_pods_with_label")
wait_for_pods_with_label_running = make_wait_fixture("wait_for_pods_with_label_running")
wait_for_pods_with_label_running_ready = make_wait_fixture("wait_for_pods_with_label_running_ready")
wait_for_pods_with_label_scheduled = make_wait_fixture("wait_for_pods_with_label_scheduled")
wait_for_pods_with_scheduling_gates = make_wait_fixture("wait_for_pods_with_scheduling_gates")
wait_for_pv_and_pvc = make_wait_fixture("wait_for_pv_and_pvc")
wait_for_pv_claim_bound_phase = make_wait_fixture("wait_for_pv_claim_bound_phase")
wait_for_pv_finalizer = make_wait_fixture("wait_for_pv_finalizer")
wait_for_pvc_finalizer = make_wait_fixture("wait_for_pvc_finalizer")
wait_for_rc_pods_running = make_wait_fixture("wait_for_rc_pods_running")
wait_for_rc_to_stabilize = make_wait_fixture("wait_for_rc_to_stabilize")
wait_for_ready_replica_set = make_wait_fixture("wait_for_ready_replica_set")
wait_for_replica_set_desired_replicas = make_wait_fixture("wait_for_replica_set_desired_replicas")
wait_for_replica_set_target_available_replicas = make_wait_fixture(
    "wait_for_replica_set_target_available_replicas"
)
wait_for_replica_set_target_spec_replicas = make_wait_fixture(
    "wait_for_replica_set_target_spec_replicas"
)
wait_for_rollout_status = make_wait_fixture("wait_for_rollout_status")
wait_for_service = make_wait_fixture("wait_for_service")
wait_for_service_deleted_with_finalizer = make_wait_fixture(
    "wait_for_service_deleted_with_finalizer"
)
wait_for_service_reachable = make_wait_fixture("wait_for_service_reachable")
wait_for_service_responding = make_wait_fixture("wait_for_service_responding")
wait_for_service_updated_with_finalizer = make_wait_fixture(
    "wait_for_service_updated_with_finalizer"
)
wait_for_stateful_set_pod_ready = make_wait_fixture("wait_for_stateful_set_pod_ready")
wait_for_stateful_set_running = make_wait_fixture("wait_for_stateful_set_running")
wait_for_stateful_set_running_and_ready = make_wait_fixture(
    "wait_for_stateful_set_running_and_ready"
)
wait_for_stateful_set_status_available_replicas = make_wait_fixture(
    "wait_for_stateful_set_status_available_replicas"
)
wait_for_stateful_set_status_ready_replicas = make_wait_fixture(
    "wait_for_stateful_set_status_ready_replicas"
)
wait_for_stateful_set_status_replicas = make_wait_fixture("wait_for_stateful_set_status_replicas")
wait_for_total_healthy = make_wait_fixture("wait_for_total_healthy")
wait_for_volume_attachment_attached = make_wait_fixture("wait_for_volume_attachment_attached")
wait_for_volume_attachment_created = make_wait_fixture("wait_for_volume_attachment_created")
wait_for_volume_attachment_terminated = make_wait_fixture("wait_for_volume_attachment_terminated")
wait_for_webhook_ready = make_wait_fixture("wait_for_webhook_ready")

WAIT_NAMES = frozenset(_functions)
"""The names of all waits: of functions, fixtures and markers alike."""


def _scope(
    fixture_name: str, config: pytest.Config
) -> Literal["session", "module", "class", "function"]:
    if not is_active(config):
        # Nobody has given any setting.
        return "function"
    from pytest_kwait.plugin.settings import run_settings

    scope = run_settings(config).namespace_scope
    if scope == "session":
        return "session"
    if scope == "module":
        return "module"
    return "class" if scope == "class" else "function"


@pytest.fixture(scope="session")
def kwait_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Give the cluster of the run, the same for all: .kubeconfig, .provider, .nodes, .faults."""
    activate(request.config)
    from pytest_kwait.plugin.cluster import cluster_of
    from pytest_kwait.plugin.faults import end_faults_with_tests
    from pytest_kwait.plugin.readiness import check_ready
    from pytest_kwait.plugin.run import running_item

    cluster = cluster_of(request.config)
    item = running_item(request.config)
    # Where no test has said beforehand that it would use the cluster.
    check_ready(request.config, item.nodeid if item is not None else "")
    end_faults_with_tests(request.config, cluster)
    return cluster


@pytest.fixture(scope="session")
def kwait_client(kwait_cluster: Cluster) -> Iterator[ApiClient]:
    """Give a kubernetes.client.ApiClient for the cluster of the run."""
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import TEST_CLOCK

    client = kwait_cluster.client()
    Session.of(client).clock = TEST_CLOCK
    yield client
    client.close()  # type: ignore[no-untyped-call] # the official client has no types here


@pytest.fixture
def kwait_timeouts(request: pytest.FixtureRequest) -> Timeouts:
    """Give the timeout table of this test: seconds by name, as items and as attributes."""
    activate(request.config)
    from pytest_kwait.plugin.markers import settings_of

    return settings_of(request.node).timeouts()


@pytest.fixture(scope="session")
def _kwait_namespaces(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, kwait_client: ApiClient
) -> Iterator[Namespaces]:
    """Keep the namespaces that this process made (internal)."""
    activate(request.config)
    from pytest_kwait.plugin.namespaces import make_namespaces

    with make_namespaces(request.config, kwait_cluster, kwait_client) as namespaces:
        yield namespaces


@pytest.fixture(scope=_scope)
def kwait_namespace(
    request: pytest.FixtureRequest, kwait_cluster: Cluster, _kwait_namespaces: Namespaces
) -> Iterator[str]:
    """Give the name of a namespace of this test's own, or of its scope's by option."""
    from pytest_kwait.plugin.namespaces import make_namespace, make_owner

    nodeid = request.node.nodeid or "session"
    owner = make_owner(request.config, kwait_cluster, nodeid, request.node.name)
    with make_namespace(
        request.config, request.node, owner, _kwait_namespaces, kwait_cluster
    ) as name:
        yield name


@pytest.fixture(scope=_scope)
def kwait(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_namespace: str,
    _kwait_namespaces: Namespaces,
) -> Iterator[Kwait]:
    """Give the bench of this test: apply, create, get, list, delete, logs, events, wait_for."""
    from pytest_kwait.plugin.namespaces import make_kwait, make_owner

    timeouts = None
    if request.scope == "function":
        timeouts = request.getfixturevalue("kwait_timeouts")
    nodeid = request.node.nodeid or "session"
    owner = make_owner(request.config, kwait_cluster, nodeid, request.node.name, again=True)
    with make_kwait(
        request.config,
        request.node,
        owner,
        kwait_namespace,
        kwait_cluster,
        kwait_client,
        _kwait_namespaces,
        timeouts,
    ) as bench:
        for _, mark in reversed(list(request.node.iter_markers_with_node("manifests"))):
            bench.apply(*mark.args)
        yield bench


@pytest.fixture(scope="session")
def kwait_factory(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    _kwait_namespaces: Namespaces,
) -> Callable[[str], AbstractContextManager[Kwait]]:
    """Make further benches, of any scope, each for a `with` block that names it."""
    from pytest_kwait.plugin.namespaces import make_kwait, make_namespace, make_owner

    @contextmanager
    def factory(name: str) -> Iterator[Kwait]:
        owner = make_owner(request.config, kwait_cluster, f"factory {name}", name)
        with (
            make_namespace(
                request.config, request.session, owner, _kwait_namespaces, kwait_cluster
            ) as namespace,
            make_kwait(
                request.config,
                request.session,
                owner,
                namespace,
                kwait_cluster,
                kwait_client,
                _kwait_namespaces,
            ) as bench,
        ):
            yield bench

    return factory


@pytest.fixture
def kwait_informers(request: pytest.FixtureRequest) -> Iterator[InformersFactory]:
    """Start informers for this test by the names of resources; they are synced and keep events."""
    activate(request.config)
    from pytest_kwait.plugin.informers import InformersFactory

    with InformersFactory(request) as maker:
        yield maker


@pytest.fixture
def kwait_leader_election(
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    kwait_namespace: str,
) -> Iterator[Callable[..., Candidates]]:
    """Hold elections among processes that one can pause, kill and cut off from the server."""
    activate(request.config)
    from pytest_kwait.plugin.run import time_budget_of
    from pytest_kwait.suite.election.candidates import Candidates

    def allowance() -> TimeBudget | None:
        return time_budget_of(request.node)

    with ExitStack() as held:

        def election(
            number: int = 3, *, namespace: str | None = None, **options: Any
        ) -> Candidates:
            place = kwait_namespace if namespace is None else namespace
            candidates = Candidates(
                kwait_cluster, kwait_client, place, number, **options, allowance=allowance
            )
            held.callback(candidates.stop)
            return candidates

        yield election


@pytest.fixture
def kwait_rolling_update(kwait: Kwait) -> Callable[..., list[dict[str, Any]]]:
    """Delete the pods of a controller one by one until all are others, as kwait.rolling_update."""
    return kwait.rolling_update


@pytest.fixture
def kwait_scheduler(request: pytest.FixtureRequest) -> Iterator[SchedulerFactory]:
    """Run a scheduler for this test under a name of its own, with an algorithm of your choice."""
    activate(request.config)
    from pytest_kwait.plugin.schedulers import SchedulerFactory

    with SchedulerFactory(request) as maker:
        yield maker
