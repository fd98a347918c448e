"""General waits that end early by pods and claims: of controllers, in lists, held, combined."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.client.resource import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.framework.objects.combinators import all_of, any_of, consistently, stable_for
from pytest_kwait.framework.objects.lists import at_least
from pytest_kwait.framework.objects.wait import general_condition
from tests.engine.fake_session import FakeSession, Obj
from tests.framework.storage.claims import claim_event, fast_claim
from tests.objects import condition, created_job, deployment, owned_pod, replica_set, workload

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])
UNBOUND = condition(
    "PodScheduled",
    "False",
    reason="Unschedulable",
    message="0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. Nope.",
)
NO_CLASS = 'storageclass.storage.k8s.io "fast" not found'
UNAVAILABLE = condition(
    "Available", "False", reason="MinimumReplicasUnavailable", message="No minimum availability."
)
COUNTED = {"observedGeneration": 1, "replicas": 1}
SELECTED = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}
BOUND = "jsonpath={.status.phase}=Bound"


def unbound(owner: str, name: str = "web-0") -> Obj:
    made = owned_pod(owner, name, "Pending", nodeName=None, conditions=[UNBOUND])
    made["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    made["metadata"]["labels"] = {"app": "web", "batch.kubernetes.io/controller-uid": "uid-web"}
    return made


def owner(kind: str = "ReplicaSet", **status: Any) -> Obj:
    return workload(kind, replicas=1, status={"replicas": 1, **status})


CONTROLLERS = {
    "deployment available": (
        DEPLOYMENTS,
        deployment(1, 1, replicas=1, conditions=[UNAVAILABLE]),
        "condition=Available",
    ),
    "deployment ready": (
        DEPLOYMENTS,
        deployment(1, 1, replicas=1),
        "jsonpath={.status.readyReplicas}=1",
    ),
    "deployment any ready": (
        DEPLOYMENTS,
        deployment(1, 1, replicas=1),
        "jsonpath={.status.availableReplicas}",
    ),
    "replica set": (REPLICA_SETS, owner(), "jsonpath={.status.readyReplicas}=1"),
    "replication controller": (
        REPLICATION_CONTROLLERS,
        owner("ReplicationController"),
        "jsonpath={.status.availableReplicas}=1",
    ),
    "stateful set": (STATEFUL_SETS, owner("StatefulSet"), "jsonpath={.status.readyReplicas}=1"),
    "daemon set": (
        DAEMON_SETS,
        owner("DaemonSet", desiredNumberScheduled=1, currentNumberScheduled=1),
        "jsonpath={.status.numberReady}=1",
    ),
    "job complete": (
        JOBS,
        created_job("web", spec={"parallelism": 1, "completions": 1}),
        "condition=Complete",
    ),
    "job succeeded": (
        JOBS,
        created_job("web", spec={"parallelism": 1, "completions": 1}),
        "jsonpath={.status.succeeded}=1",
    ),
    "job ready": (
        JOBS,
        created_job("web", spec={"parallelism": 1, "completions": 1}),
        "jsonpath={.status.ready}=1",
    ),
}


def fill(session: FakeSession, resource: Resource, obj: Obj) -> None:
    session.put(resource, obj)
    owner = "web"
    if resource == DEPLOYMENTS:
        session.put(REPLICA_SETS, replica_set(replicas=1))
        owner = "web-1"
    session.put(PODS, unbound(owner))
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim())
    session.put(EVENTS, claim_event("ProvisioningFailed", NO_CLASS))


def wait(session: FakeSession, general: Any, *resources: Resource, **options: Any) -> Any:
    settings = WaitSettings(**{"timeout": 300, "poll": 1.0} | options)
    return wait_for_condition(session, general.on(resources), settings)


def reason_of(session: FakeSession, general: Any, *resources: Resource, **options: Any) -> str:
    with pytest.raises(WaitFailed) as caught:
        wait(session, general, *resources, **options)
    return str(caught.value.evidence["reason"])


BLOCKED = f"pod web-0: Unschedulable: claim data is not bound: ProvisioningFailed: {NO_CLASS}"


@MODES
@pytest.mark.parametrize("case", CONTROLLERS)
def test_a_controller_whose_pod_uses_an_unbound_claim(case: str, mode: Any) -> None:
    """Its pods are listed after 5 s, and must be stuck for 45 s from then on."""
    resource, obj, wanted = CONTROLLERS[case]
    session = FakeSession()
    fill(session, resource, obj)
    general = general_condition("ci-1", f"{resource.singular}/web", wanted)

    assert reason_of(session, general, resource, mode=mode) == BLOCKED
    assert session.clock.monotonic() == 50.0


def test_the_message_of_a_deployment_names_the_claims_event() -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    general = general_condition("ci-1", "deployment/web", "condition=Available")

    with pytest.raises(WaitFailed) as caught:
        wait(session, general, DEPLOYMENTS)

    assert caught.value.args == (
        "deployment ci-1/web can no longer have condition Available=True: pod web-0: "
        "Unschedulable: claim data is not bound: ProvisioningFailed: "
        'storageclass.storage.k8s.io "fast" not found',
    )
    assert "Unschedulable: 0/1 nodes are available" in str(caught.value)


def test_a_timeout_names_the_claims_event_too() -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    general = general_condition("ci-1", "deployment/web", "condition=Available")

    with pytest.raises(WaitTimeout) as caught:
        wait(session, general, DEPLOYMENTS, timeout=20)

    assert caught.value.evidence["reason"] == f"final if it holds for 45s: {BLOCKED}"


@MODES
@pytest.mark.parametrize(
    "wanted",
    [
        stable_for("2s", "condition=Available"),
        all_of("create", "condition=Available"),
        all_of(lambda obj: True, stable_for("2s", "condition=Available")),
    ],
)
def test_a_deployment_in_a_combined_condition(wanted: Any, mode: Any) -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    general = general_condition("ci-1", "deployment/web", wanted)

    assert reason_of(session, general, DEPLOYMENTS, mode=mode) == BLOCKED


@MODES
def test_several_targets_name_the_stuck_one(mode: Any) -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    general = general_condition("ci-1", ["deployment/web", "pvc/data"], "jsonpath={.status.x}")
    assert len(list(general.on([DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS]).parts)) == 2

    general = general_condition("ci-1", ["pvc/data", "pvc/other"], BOUND)
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim("Bound", "other"))
    kinds = (PERSISTENT_VOLUME_CLAIMS,) * 2
    assert reason_of(session, general, *kinds, mode=mode) == (
        f"persistentvolumeclaim ci-1/data: ProvisioningFailed: {NO_CLASS}"
    )


@MODES
def test_selected_deployments(mode: Any) -> None:
    session = FakeSession()
    made = deployment(1, 1, replicas=1, conditions=[UNAVAILABLE], metadata={"labels": {"a": "b"}})
    fill(session, DEPLOYMENTS, made)
    general = general_condition("ci-1", "deployments", "condition=Available", selector="a=b")
    assert reason_of(session, general, DEPLOYMENTS, mode=mode) == BLOCKED

    enough = general_condition(
        "ci-1", "deployments", "condition=Available", selector="a=b", count=at_least(1)
    )
    assert reason_of(session, enough, DEPLOYMENTS, mode=mode) == BLOCKED


@MODES
@pytest.mark.parametrize("wanted", [BOUND, stable_for("1s", BOUND), all_of("create", BOUND)])
@pytest.mark.parametrize("count", [None, 2, at_least(2)])
def test_selected_claims(wanted: Any, count: Any, mode: Any) -> None:
    session = FakeSession()
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(labels={"app": "web"}))
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim("Bound", "ok", labels={"app": "web"}))
    session.put(EVENTS, claim_event("ProvisioningFailed", NO_CLASS))
    general = general_condition("ci-1", "pvc", wanted, selector="app=web", count=count)

    assert reason_of(session, general, PERSISTENT_VOLUME_CLAIMS, mode=mode) == (
        f"data: ProvisioningFailed: {NO_CLASS}"
    )
    assert 45.0 <= session.clock.monotonic() <= 51.0


def test_selected_claims_of_which_enough_can_be_bound() -> None:
    session = FakeSession()
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(labels={"app": "web"}))
    session.put(PERSISTENT_VOLUME_CLAIMS, fast_claim(name="slow", labels={"app": "web"}))
    session.put(EVENTS, claim_event("ProvisioningFailed", NO_CLASS))
    bound = fast_claim("Bound", "slow", labels={"app": "web"})
    session.at(100, session.put, PERSISTENT_VOLUME_CLAIMS, bound)
    general = general_condition("ci-1", "pvc", BOUND, selector="app=web", count=at_least(1))

    assert len(wait(session, general, PERSISTENT_VOLUME_CLAIMS)) == 1


NO_CONFIG = ("CreateContainerConfigError", 'configmap "web" not found')
WAITING = f"b: {NO_CONFIG[0]}: {NO_CONFIG[1]}"


@MODES
@pytest.mark.parametrize(
    "wanted",
    [
        "condition=Ready",
        stable_for("2s", "condition=Ready"),
        all_of(stable_for("1s", "condition=Ready"), lambda pod: True),
        any_of("condition=Ready", "jsonpath={.status.phase}=Running"),
    ],
)
@pytest.mark.parametrize("count", [None, 2, at_least(2)])
def test_selected_pods_that_wait_for_a_config_map(wanted: Any, count: Any, mode: Any) -> None:
    session = FakeSession()
    session.put(PODS, owned_pod("web", "a", ready=True))
    session.put(PODS, owned_pod("web", "b", "Pending", waiting=NO_CONFIG))
    general = general_condition("ci-1", "pods", wanted, selector="app=web", count=count)

    assert reason_of(session, general, PODS, mode=mode) == WAITING
    assert session.clock.monotonic() == 45.0


def test_enough_pods_without_the_stuck_one() -> None:
    session = FakeSession()
    session.put(PODS, owned_pod("web", "a", "Pending"))
    session.put(PODS, owned_pod("web", "b", "Pending", waiting=NO_CONFIG))
    session.at(100, session.put, PODS, owned_pod("web", "a", ready=True))
    for count in (at_least(1), 1):
        general = general_condition(
            "ci-1", "pods", "condition=Ready", selector="app=web", count=count
        )
        assert len(wait(session, general, PODS)) == 1


@MODES
def test_a_deployment_that_recovers_within_the_grace(mode: Any) -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    session.at(30, session.put, PODS, owned_pod("web-1", "web-0"))
    up = deployment(1, 1, 1, replicas=1, conditions=[condition("Available")])
    session.at(120, session.put, DEPLOYMENTS, up)
    general = general_condition("ci-1", "deployment/web", "condition=Available")

    assert wait(session, general, DEPLOYMENTS, mode=mode)["metadata"]["name"] == "web"


def test_a_deployment_that_comes_soon_lists_no_pods() -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    up = deployment(1, 1, 1, replicas=1, conditions=[condition("Available")])
    session.at(4, session.put, DEPLOYMENTS, up)
    general = general_condition("ci-1", "deployment/web", "condition=Available")

    wait(session, general, DEPLOYMENTS)
    assert session.count("list pods") == 0


def test_pods_that_may_not_be_read_fail_nothing() -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    forbidden = ApiError("pods is forbidden", status=403, reason="Forbidden")
    session.fail("list", PODS, *(forbidden for _ in range(20)))
    general = general_condition("ci-1", "deployment/web", "condition=Available")

    with pytest.raises(WaitTimeout):
        wait(session, general, DEPLOYMENTS)


@pytest.mark.parametrize(
    "wanted", ["condition=Available=False", "condition=Progressing", "jsonpath={.status.replicas}"]
)
def test_conditions_that_need_no_ready_pods_list_none(wanted: str) -> None:
    session = FakeSession()
    session.put(DEPLOYMENTS, deployment(replicas=1))
    general = general_condition("ci-1", "deployment/web", wanted)

    with pytest.raises(WaitTimeout):
        wait(session, general, DEPLOYMENTS, timeout=60)
    assert session.count("list pods") <= 1  # of the evidence


@MODES
def test_pods_refused_to_a_stateful_set(mode: Any) -> None:
    """The events of its own kind's deferred check are read too."""
    session = FakeSession()
    made = owner()
    made["status"]["replicas"] = 0
    session.put(STATEFUL_SETS, made)
    about = {"kind": "StatefulSet", "name": "web", "uid": "uid-web"}
    refusal = "create Pod web-0 in StatefulSet web failed error: no service account"
    session.put(EVENTS, claim_event("FailedCreate", refusal, **about))
    general = general_condition("ci-1", "sts/web", "jsonpath={.status.readyReplicas}=1")

    assert reason_of(session, general, STATEFUL_SETS, mode=mode) == f"FailedCreate: {refusal}"


@MODES
def test_a_held_deployment_that_never_was_as_awaited(mode: Any) -> None:
    session = FakeSession()
    fill(session, *CONTROLLERS["deployment available"][:2])
    general = general_condition("ci-1", "deployment/web", consistently("5s", "condition=Available"))

    assert reason_of(session, general, DEPLOYMENTS, mode=mode).startswith(
        "it does not hold to begin with"
    )
