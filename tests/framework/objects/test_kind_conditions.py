from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    Resource,
)
from pytest_kwait.engine.condition import Failed, Grace
from pytest_kwait.framework.objects.combinators import all_of, any_of, stable_for
from pytest_kwait.framework.objects.conditions import detect_terminal_failure
from pytest_kwait.framework.predicates import parse_predicate
from tests.objects import condition, created_job, job_pod, workload

if TYPE_CHECKING:
    from tests.engine.fake_session import Obj

SHORT, LONG = Grace.SHORT, Grace.LONG
NO_IMAGE = job_pod("a", "Pending", waiting=("InvalidImageName", "no"))
RUNNING = "jsonpath={.status.phase}=Running"
SUCCEEDED = "jsonpath={.status.phase}=Succeeded"


def prospect(resource: Resource, wanted: Any, obj: Obj) -> Failed | None:
    return detect_terminal_failure(resource, parse_predicate(wanted), obj, None)


def waiting(reason: str, **more: Any) -> Obj:
    state = {"waiting": {"reason": reason, "message": "no"}}
    return {"name": "main", "state": state, "restartCount": 0, **more}


def init_failed() -> Obj:
    terminated = {"exitCode": 3, "reason": "Error"}
    status = {"name": "first", "state": {"terminated": terminated}, "restartCount": 0}
    obj = job_pod("a", "Pending", initContainerStatuses=[status])
    obj["spec"]["restartPolicy"] = "Never"
    return obj


def unscheduled() -> Obj:
    why = condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes: no cpu.")
    return job_pod("a", "Pending", nodeName="", conditions=[why])


def looping() -> Obj:
    return job_pod("a", containerStatuses=[waiting("CrashLoopBackOff", restartCount=5)])


@pytest.mark.parametrize(
    ("wanted", "obj", "verdict"),
    [
        ("condition=Ready", NO_IMAGE, Failed("InvalidImageName: no", SHORT)),
        ("condition=containersready", NO_IMAGE, Failed("InvalidImageName: no", SHORT)),
        ("condition=Ready=False", NO_IMAGE, None),
        ("condition=Fine", NO_IMAGE, None),
        ("condition=PodScheduled", NO_IMAGE, None),
        ("condition=Ready", job_pod("a", "Failed"), Failed("the pod has ended: Failed")),
        ("condition=Ready", job_pod("a", "Pending"), None),
        (RUNNING, NO_IMAGE, Failed("InvalidImageName: no", SHORT)),
        ("jsonpath=.status['phase']=Running", NO_IMAGE, Failed("InvalidImageName: no", SHORT)),
        ("jsonpath={.status.phase}=Pending", job_pod("a"), None),
        ("jsonpath={.status.phase}", job_pod("a", "Failed"), None),
        ("jsonpath={.status.podIP}=10.0.0.1", NO_IMAGE, None),
        ("jsonpath={.spec.phase}=Running", NO_IMAGE, None),
        (RUNNING, job_pod("a", "Succeeded"), Failed("the pod has ended: Succeeded")),
        (RUNNING, looping(), None),
        (SUCCEEDED, job_pod("a", "Failed"), Failed("the pod has ended: Failed")),
        (
            "jsonpath={.status.phase}=Failed",
            job_pod("a", "Succeeded"),
            Failed("the pod has ended: Succeeded"),
        ),
        ("jsonpath={.status.phase}=Failed", NO_IMAGE, None),
    ],
)
def test_pods(wanted: str, obj: Obj, verdict: Failed | None) -> None:
    assert prospect(PODS, wanted, obj) == verdict


@pytest.mark.parametrize(
    ("wanted", "obj", "begins", "grace"),
    [
        ("condition=Initialized", init_failed(), "init container first", SHORT),
        ("condition=Ready", init_failed(), "init container first", SHORT),
        (RUNNING, init_failed(), "init container first", SHORT),
        ("condition=PodScheduled", unscheduled(), "Unschedulable: 0/1 nodes: no cpu.", LONG),
        ("condition=Ready", looping(), "CrashLoopBackOff", LONG),
        (SUCCEEDED, looping(), "CrashLoopBackOff", LONG),
    ],
)
def test_terminal_failures_of_pods(wanted: str, obj: Obj, begins: str, grace: Grace) -> None:
    found = prospect(PODS, wanted, obj)
    assert found is not None
    assert (found.reason[: len(begins)], found.grace) == (begins, grace)


def test_a_pod_that_always_starts_again_does_not_succeed() -> None:
    obj = job_pod("a")
    obj["spec"]["restartPolicy"] = "Always"
    assert prospect(PODS, SUCCEEDED, obj) == Failed(
        "its restart policy is Always: its containers are started again, always"
    )


def ended(end: str) -> Obj:
    return created_job(status={"conditions": [condition(end)]})


@pytest.mark.parametrize(
    ("wanted", "obj", "verdict"),
    [
        ("condition=Complete", ended("Failed"), Failed("the job is failed")),
        ("condition=failed", ended("Complete"), Failed("the job is complete")),
        ("condition=Suspended", ended("Complete"), None),
        ("condition=Complete", created_job(), None),
        ("jsonpath={.status.succeeded}=3", ended("Failed"), Failed("the job is failed", SHORT)),
        ("jsonpath={.status.ready}=1", ended("Complete"), Failed("the job is complete", SHORT)),
        ("jsonpath={.status.succeeded}=3", created_job(), None),
        ("jsonpath={.status.other}=3", ended("Failed"), None),
    ],
)
def test_jobs(wanted: str, obj: Obj, verdict: Failed | None) -> None:
    assert prospect(JOBS, wanted, obj) == verdict


def controller(*conditions: Obj, replicas: int = 0, observed: int = 2, **spec: Any) -> Obj:
    status = {"replicas": replicas, "conditions": list(conditions)}
    return workload(observed=observed, generation=2, replicas=4, status=status, **spec)


REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: few")
LATE = condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="timed out")
DENIED = condition("Progressing", "False", reason="ReplicaSetCreateError", message="denied")
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
BY_QUOTA = Failed("FailedCreate: exceeded quota: few", LONG)
AVAILABLE = "condition=Available"


@pytest.mark.parametrize(
    ("wanted", "obj", "verdict"),
    [
        (AVAILABLE, controller(), None),
        (AVAILABLE, controller(LATE), Failed("ProgressDeadlineExceeded: timed out", SHORT)),
        (
            "condition=Progressing",
            controller(LATE),
            Failed("ProgressDeadlineExceeded: timed out", SHORT),
        ),
        (AVAILABLE, controller(LATE, observed=1), None),
        (AVAILABLE, controller(LATE, paused=True), None),
        (
            AVAILABLE,
            controller(DENIED, observed=1),
            Failed("ReplicaSetCreateError: denied", LONG),
        ),
        (AVAILABLE, controller(REFUSED, replicas=2, strategy=ROLLING), BY_QUOTA),
        # Three are enough for it, and three are there, however slow.
        (AVAILABLE, controller(REFUSED, replicas=3, strategy=ROLLING), None),
        ("condition=ReplicaFailure=False", controller(REFUSED), None),
        ("condition=Other", controller(LATE, REFUSED), None),
        ("jsonpath={.status.readyReplicas}=4", controller(REFUSED, replicas=3), BY_QUOTA),
    ],
)
def test_deployments(wanted: str, obj: Obj, verdict: Failed | None) -> None:
    assert prospect(DEPLOYMENTS, wanted, obj) == verdict


@pytest.mark.parametrize("resource", [REPLICA_SETS, REPLICATION_CONTROLLERS])
@pytest.mark.parametrize(
    ("wanted", "obj", "verdict"),
    [
        ("jsonpath={.status.readyReplicas}=4", controller(REFUSED, replicas=3), BY_QUOTA),
        ("jsonpath={.status.replicas}=4", controller(REFUSED, replicas=3), BY_QUOTA),
        ("jsonpath={.status.readyReplicas}=3", controller(REFUSED, replicas=3), None),
        ("jsonpath={.status.readyReplicas}=4", controller(replicas=3), None),
        ("jsonpath={.status.readyReplicas}=4", controller(REFUSED, observed=1), None),
        ("jsonpath={.status.readyReplicas}=four", controller(REFUSED), None),
        ("jsonpath={.status.observedGeneration}=4", controller(REFUSED), None),
    ],
)
def test_controllers(resource: Resource, wanted: str, obj: Obj, verdict: Failed | None) -> None:
    assert prospect(resource, wanted, obj) == verdict


def test_definitions() -> None:
    taken = condition("NamesAccepted", "False", reason="PluralConflict", message="widgets is taken")
    refused = {"metadata": {"name": "w"}, "status": {"conditions": [taken]}}
    accepted = {"metadata": {"name": "w"}, "status": {"conditions": []}}
    verdict = Failed("its names are not accepted: PluralConflict: widgets is taken", LONG)
    for wanted in ("condition=Established", "condition=NamesAccepted"):
        assert prospect(CUSTOM_RESOURCE_DEFINITIONS, wanted, refused) == verdict
        assert prospect(CUSTOM_RESOURCE_DEFINITIONS, wanted, accepted) is None
    assert prospect(CUSTOM_RESOURCE_DEFINITIONS, "condition=Other", refused) is None


def test_claims_and_namespaces() -> None:
    claim = {"metadata": {"name": "c"}, "status": {"phase": "Lost"}}
    bound = "jsonpath={.status.phase}=Bound"
    assert prospect(PERSISTENT_VOLUME_CLAIMS, bound, claim) == Failed(
        "the claim is Lost, its volume is gone or is another claim's", SHORT
    )
    assert prospect(PERSISTENT_VOLUME_CLAIMS, "jsonpath={.status.phase}=Pending", claim) is None
    active = "jsonpath={.status.phase}=Active"
    going = {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert prospect(NAMESPACES, active, going) == Failed("the namespace is being deleted")
    assert prospect(NAMESPACES, active, {"metadata": {"name": "n"}}) is None
    assert prospect(NAMESPACES, "jsonpath={.status.phase}=Terminating", going) is None


def test_open_parts_of_a_combination_decide() -> None:
    ready, fine = "condition=Ready", "condition=Fine"
    lost = Failed("InvalidImageName: no", SHORT)
    assert prospect(PODS, all_of(fine, ready), NO_IMAGE) == lost
    assert prospect(PODS, any_of(fine, ready), NO_IMAGE) is None
    assert prospect(PODS, any_of(RUNNING, ready), NO_IMAGE) == lost
    assert prospect(PODS, stable_for("2s", ready), NO_IMAGE) == lost


def test_nothing_is_known_of_other_kinds() -> None:
    node = {"metadata": {"name": "n"}, "status": {"phase": "Pending"}}
    assert prospect(NODES, "condition=Ready", node) is None
    assert prospect(NODES, RUNNING, node) is None
