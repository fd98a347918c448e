"""Verdicts on a raw Deployment and what it owns, one row per case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.framework.deployment import (
    wait_for_deployment_complete,
    wait_for_deployment_revision_and_image,
    wait_for_deployment_updated_replicas_gte,
    wait_for_deployment_with_condition,
    wait_for_observed_deployment,
)
from pytest_kwait.framework.registry import condition_of
from tests.framework.sources import enter
from tests.framework.workload_samples import stuck
from tests.objects import condition, deployment, owned_pod, replica_set

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition

NONE, SHORT, LONG = Grace.NONE, Grace.SHORT, Grace.LONG
LATE = condition(
    "Progressing",
    "False",
    reason="ProgressDeadlineExceeded",
    message='ReplicaSet "web-1" has timed out progressing.',
)
LATE_TEXT = 'ProgressDeadlineExceeded: ReplicaSet "web-1" has timed out progressing.'
REFUSED = condition(
    "ReplicaFailure", reason="FailedCreate", message='pods "web-1-x" is forbidden: exceeded quota'
)
REFUSED_TEXT = 'replicaset web-1: FailedCreate: pods "web-1-x" is forbidden: exceeded quota'
PSA = condition("ReplicaFailure", reason="FailedCreate", message="x violates PodSecurity: y")
NO_SET = condition("Progressing", "False", reason="ReplicaSetCreateError", message="no room")
GONE: dict[str, Any] = {"metadata": {"deletionTimestamp": "now"}}


@dataclass
class Row:
    awaited: Condition
    verdict: Verdict
    deployment: Any
    sets: list[Any] = field(default_factory=lambda: [replica_set()])
    pods: list[Any] = field(default_factory=list)


def complete() -> Any:
    return condition_of(wait_for_deployment_complete)("ci-1", "web")


def updated(least: int, generation: int | None = None) -> Any:
    return condition_of(wait_for_deployment_updated_replicas_gte)("ci-1", "web", least, generation)


def at(revision: int | str, image: str = "web:1") -> Any:
    return condition_of(wait_for_deployment_revision_and_image)("ci-1", "web", revision, image)


def reason(name: str, kind: str = "Progressing") -> Any:
    return condition_of(wait_for_deployment_with_condition)("ci-1", "web", name, kind)


def observed(generation: int) -> Any:
    return condition_of(wait_for_observed_deployment)("ci-1", "web", generation)


def stuck_verdict(text: str, grace: Grace = SHORT) -> Failed:
    return Failed(f"{text}: InvalidImageName: nope", grace, 0.0)


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
AVAILABLE = ("MinimumReplicasAvailable", "Available")

ROWS = {
    "not there": Row(complete(), Pending("not found yet"), None),
    "complete": Row(complete(), Met(), deployment(2, 2, 2)),
    "complete with none": Row(complete(), Met(), deployment(replicas=0)),
    "complete, whatever was late before": Row(
        complete(), Met(), deployment(2, 2, 2, conditions=[LATE, REFUSED])
    ),
    "no status yet": Row(
        complete(),
        Pending("generation 1 is not observed yet, its status is not written yet"),
        {"metadata": {"name": "web", "generation": 1}, "spec": None, "status": None},
    ),
    "a status of an older generation": Row(
        complete(),
        Pending("generation 3 is not observed yet, its status is of generation 2"),
        deployment(2, 2, 2, generation=3, observed=2, conditions=[LATE]),
    ),
    "an old status of one that is being deleted": Row(
        complete(),
        Failed("the deployment is being deleted", SHORT),
        deployment(2, 2, 2, generation=3, observed=2, **GONE),
    ),
    "too few updated": Row(
        complete(),
        Pending("2 wanted: 3 there, 1 updated, 2 available: 1 Pending"),
        deployment(3, 1, 2),
        [replica_set()],
        [owned_pod("web-1", "a", "Pending")],
    ),
    "old ones left": Row(
        complete(), Pending("2 wanted: 3 there, 2 updated, 2 available"), deployment(3, 2, 2)
    ),
    "not available": Row(
        complete(),
        Pending("2 wanted: 2 there, 2 updated, 1 available: 1 ready, 1 Running, not ready"),
        deployment(2, 2, 1),
        [replica_set()],
        [owned_pod("web-1", "a", ready=True), owned_pod("web-1", "b")],
    ),
    "scaled down to none": Row(
        complete(),
        Pending("0 wanted: 2 there, 2 updated, 2 available"),
        deployment(2, 2, 2, replicas=0),
        [replica_set(conditions=[REFUSED])],
    ),
    "being deleted": Row(
        complete(), Failed("the deployment is being deleted", SHORT), deployment(2, 1, 1, **GONE)
    ),
    "a pod that is stuck": Row(
        complete(),
        stuck_verdict("pod a"),
        deployment(2, 2, 1),
        [replica_set()],
        [stuck("web-1", "a"), owned_pod("web-1", "b", ready=True)],
    ),
    "two pods that are stuck": Row(
        complete(),
        stuck_verdict("pod a (and 1 more pod)"),
        deployment(2, 2, 0),
        [replica_set()],
        [stuck("web-1", "a"), stuck("web-1", "b")],
    ),
    "a stuck pod that is removed first": Row(
        complete(),
        Pending("2 wanted: 3 there, 3 updated, 2 available: 2 ready, 1 Pending (InvalidImageName)"),
        deployment(3, 3, 2),
        [replica_set()],
        [
            stuck("web-1", "a"),
            owned_pod("web-1", "b", ready=True),
            owned_pod("web-1", "c", ready=True),
        ],
    ),
    "a stuck pod of an older revision": Row(
        complete(),
        Pending("2 wanted: 2 there, 1 updated, 0 available"),
        deployment(2, 1, 0, revision="2"),
        [replica_set("web-0", "1"), replica_set("web-1", "2")],
        [stuck("web-0", "a")],
    ),
    "a stuck pod of a replica set of another owner": Row(
        complete(),
        Pending("2 wanted: 2 there, 1 updated, 0 available"),
        deployment(2, 1, 0),
        [replica_set(owner="uid-earlier")],
        [stuck("web-1", "a")],
    ),
    "a stuck pod that is on its way out": Row(
        complete(),
        Pending("2 wanted: 2 there, 2 updated, 1 available: 1 being deleted"),
        deployment(2, 2, 1),
        [replica_set()],
        [owned_pod("web-1", "a", "Pending", waiting=("InvalidImageName", "nope"), **GONE)],
    ),
    "a pod that has failed is replaced": Row(
        complete(),
        Pending("2 wanted: 2 there, 2 updated, 1 available: 1 Failed (Evicted)"),
        deployment(2, 2, 1),
        [replica_set()],
        [owned_pod("web-1", "a", "Failed", reason="Evicted")],
    ),
    "its progress deadline missed": Row(
        complete(), Failed(LATE_TEXT, SHORT), deployment(2, 1, 1, conditions=[LATE])
    ),
    "its progress deadline missed, and a pod that may come": Row(
        complete(),
        Failed(f"{LATE_TEXT} (pod a: CreateContainerError: nope)", SHORT),
        deployment(2, 2, 1, conditions=[LATE]),
        [replica_set()],
        [stuck("web-1", "a", "CreateContainerError")],
    ),
    "its progress deadline missed, and a pod that will not": Row(
        complete(),
        stuck_verdict("pod a"),
        deployment(2, 2, 1, conditions=[LATE]),
        [replica_set()],
        [stuck("web-1", "a")],
    ),
    "pods refused by a quota": Row(
        complete(),
        Failed(REFUSED_TEXT, LONG),
        deployment(1, 1, 1),
        [replica_set(conditions=[REFUSED])],
    ),
    "pods refused by a policy": Row(
        complete(),
        Failed("replicaset web-1: FailedCreate: x violates PodSecurity: y", SHORT),
        deployment(0, 0, 0),
        [replica_set(conditions=[PSA])],
    ),
    "pods refused until the deadline": Row(
        complete(),
        Failed(f"{LATE_TEXT} ({REFUSED_TEXT})", SHORT),
        deployment(1, 1, 1, conditions=[LATE, REFUSED]),
        [replica_set(conditions=[REFUSED])],
    ),
    "pods of an older replica set refused": Row(
        complete(),
        Pending("2 wanted: 3 there, 1 updated, 2 available"),
        deployment(3, 1, 2, revision="2", conditions=[REFUSED]),
        [replica_set("web-0", "1", conditions=[REFUSED]), replica_set("web-1", "2")],
    ),
    "a replica set refused": Row(
        complete(),
        Failed("ReplicaSetCreateError: no room", LONG),
        deployment(observed=0, conditions=[NO_SET], revision=""),
        [],
    ),
    "paused": Row(
        complete(),
        Failed("the deployment is paused", LONG),
        deployment(2, 0, 2, paused=True, conditions=[LATE]),
        [replica_set()],
        [stuck("web-1", "a")],
    ),
    "paused with nothing to be rolled out": Row(
        complete(),
        Pending("2 wanted: 2 there, 2 updated, 1 available"),
        deployment(2, 2, 1, paused=True, conditions=[LATE]),
    ),
    "enough updated": Row(updated(2), Met(), deployment(3, 2, 0)),
    "none updated, none awaited": Row(updated(0), Met(), deployment()),
    "updated, but a later generation is awaited": Row(
        updated(2, 2),
        Pending("generation 2 is not observed yet, its status is of generation 1"),
        deployment(3, 2, 0),
    ),
    "a later generation is awaited of one that goes": Row(
        updated(2, 2),
        Failed("the deployment is being deleted", SHORT),
        deployment(3, 2, 0, **GONE),
    ),
    "too few updated as awaited": Row(
        updated(2), Pending("1 of 2 updated, 3 there"), deployment(3, 1, 2)
    ),
    "more awaited than there will be": Row(
        updated(3), Failed("the deployment is to have 2 pods", LONG), deployment(2, 2, 2)
    ),
    "more awaited than one": Row(
        updated(3), Failed("the deployment is to have 1 pod", LONG), deployment(1, 1, replicas=1)
    ),
    "updated pods all stuck": Row(
        updated(2),
        stuck_verdict("pod a"),
        deployment(3, 1, 2),
        [replica_set()],
        [stuck("web-1", "a")],
    ),
    "one of the updated pods stuck": Row(
        updated(3),
        Pending("2 of 3 updated, 4 there"),
        deployment(4, 2, 2, replicas=3),
        [replica_set()],
        [stuck("web-1", "a"), owned_pod("web-1", "b")],
    ),
    "updated pods late": Row(
        updated(2), Failed(LATE_TEXT, SHORT), deployment(2, 1, 1, conditions=[LATE])
    ),
    "at the revision": Row(at("1"), Met(), deployment(0, 0, 0)),
    "at another revision": Row(
        at(2), Pending("the deployment is at revision 1"), deployment(2, 2, 2)
    ),
    "at no revision": Row(
        at(2), Pending("the deployment is at revision none"), deployment(2, revision="")
    ),
    "past the revision": Row(
        at(2), Failed("the deployment is at revision 3 already", SHORT), deployment(2, revision="3")
    ),
    "with another image": Row(
        at(1, "web:2"), Pending("the deployment has image web:1"), deployment(2)
    ),
    "without its replica set": Row(
        at(1), Pending("no replicaset of revision 1 yet"), deployment(2), []
    ),
    "with a replica set of another image": Row(
        at(1, "web:2"),
        Pending("replicaset web-1 has image web:1"),
        deployment(2, image="web:2"),
    ),
    "with a replica set without hash": Row(
        at(1),
        Pending("replicaset web-1 has no label pod-template-hash"),
        deployment(2),
        [replica_set(labels={"app": "web"})],
    ),
    "revision awaited of one that is paused": Row(
        at(2), Failed("the deployment is paused", LONG), deployment(2, 0, 2, paused=True)
    ),
    "revision awaited of one that goes": Row(
        at(2), Failed("the deployment is being deleted", SHORT), deployment(2, 2, 2, **GONE)
    ),
    "a reason": Row(reason("ProgressDeadlineExceeded"), Met(), deployment(2, conditions=[LATE])),
    "a reason of an older generation": Row(
        reason("ProgressDeadlineExceeded"),
        Pending("generation 2 is not observed yet, its status is of generation 1"),
        deployment(2, generation=2, conditions=[LATE]),
    ),
    "another reason": Row(
        reason("ReplicaSetUpdated"),
        Pending("Progressing is False with reason ProgressDeadlineExceeded"),
        deployment(2, conditions=[LATE]),
    ),
    "no reason": Row(
        reason("X", "Available"),
        Pending("Available is True without reason"),
        deployment(2, conditions=[condition("Available")]),
    ),
    "no condition": Row(
        reason("X", "Available"), Pending("there is no condition Available yet"), deployment(2)
    ),
    "no deadline to be missed": Row(
        reason("ProgressDeadlineExceeded"),
        Failed("the deployment has no progress deadline", LONG),
        deployment(2, progressDeadlineSeconds=2147483647),
    ),
    "a deadline to be missed": Row(
        reason("ProgressDeadlineExceeded"),
        Pending("there is no condition Progressing yet"),
        deployment(2, progressDeadlineSeconds=600),
    ),
    "refused a replica set as awaited": Row(
        reason("ReplicaSetCreateError"),
        Met(),
        deployment(observed=0, conditions=[NO_SET], revision=""),
    ),
    "a reason awaited of one that goes": Row(
        reason("X"), Failed("the deployment is being deleted", SHORT), deployment(2, **GONE)
    ),
    "a rollout as condition, late": Row(
        reason("NewReplicaSetAvailable"),
        Failed(LATE_TEXT, SHORT),
        deployment(2, 1, 1, conditions=[LATE]),
    ),
    "availability as condition, one stuck of which one may be": Row(
        reason(*AVAILABLE),
        Pending("there is no condition Available yet"),
        deployment(2, 2, 0, strategy=ROLLING),
        [replica_set()],
        [stuck("web-1", "a"), owned_pod("web-1", "b")],
    ),
    "availability as condition, too many stuck": Row(
        reason(*AVAILABLE),
        stuck_verdict("pod a (and 1 more pod)"),
        deployment(2, 2, 0, strategy=ROLLING),
        [replica_set()],
        [stuck("web-1", "a"), stuck("web-1", "b")],
    ),
    "availability as condition, with an older pod": Row(
        reason(*AVAILABLE),
        Pending("there is no condition Available yet"),
        deployment(3, 2, 0, revision="2", strategy=ROLLING),
        [replica_set("web-0", "1"), replica_set("web-1", "2")],
        [stuck("web-1", "a"), stuck("web-1", "b"), owned_pod("web-0", "c")],
    ),
    "observed": Row(observed(2), Met(), deployment(generation=2, observed=2)),
    "observed, and another change since": Row(
        observed(2),
        Pending("generation 3 is not observed yet, its status is of generation 2"),
        deployment(generation=3, observed=2),
    ),
    "observation awaited of one that goes": Row(
        observed(2), Failed("the deployment is being deleted", SHORT), deployment(**GONE)
    ),
    "null everywhere": Row(
        complete(),
        Pending("1 wanted: 0 there, 0 updated, 0 available: 1 Pending"),
        {
            "metadata": {
                "name": "web",
                "uid": "uid-web",
                "annotations": {"deployment.kubernetes.io/revision": "1"},
            },
            "spec": {"replicas": None, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "conditions": None, "replicas": None},
        },
        [replica_set(conditions=None)],
        [
            {
                "metadata": {
                    "name": "a",
                    "ownerReferences": [{"uid": "uid-web-1", "controller": True}],
                },
                "spec": None,
                "status": None,
            }
        ],
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    row = ROWS[name]
    if row.deployment is not None:
        enter(row.awaited, row.deployment)
        sources = row.awaited.sources()
        if len(sources) > 1:
            enter(row.awaited, *row.sets, position=1)
        if len(sources) > 2:
            enter(row.awaited, *row.pods, position=2)

    assert row.awaited.verdict() == row.verdict


@pytest.mark.parametrize(
    ("awaited", "resources"),
    [
        (complete(), ["deployments.apps", "replicasets.apps", "pods"]),
        (updated(1), ["deployments.apps", "replicasets.apps", "pods"]),
        (at(1), ["deployments.apps", "replicasets.apps"]),
        (observed(1), ["deployments.apps"]),
        (reason("X"), ["deployments.apps"]),
        (reason(*AVAILABLE), ["deployments.apps", "replicasets.apps", "pods"]),
    ],
)
def test_sources_of_a_deployment(awaited: Condition, resources: list[str]) -> None:
    assert [source.resource.qualified for source in awaited.sources()] == resources[:1]
    enter(awaited, deployment())
    sources = awaited.sources()

    assert [source.resource.qualified for source in sources] == resources
    assert {source.selector for source in sources[1:]} <= {"app=web"}
    assert awaited.sources() is sources


def test_deleted_and_made_anew() -> None:
    awaited = complete()
    enter(awaited, deployment(1, 1, 1))
    enter(awaited, deployment(2, 2, 2, metadata={"uid": "another"}))

    assert awaited.verdict() == Failed(
        "the deployment was deleted and created anew under another UID"
    )


def test_a_pod_may_change_hands() -> None:
    awaited = complete()
    enter(awaited, deployment(2, 2, 1))
    enter(awaited, replica_set(), position=1)
    enter(awaited, stuck("web-1", "a"), position=2)
    assert awaited.verdict() == stuck_verdict("pod a")

    enter(awaited, stuck("nobody", "a"), position=2)
    assert awaited.verdict() == Pending("2 wanted: 2 there, 2 updated, 1 available")
    enter(awaited, stuck("web-1", "a"), position=2)
    awaited.sources()[2].sink.drop("uid-a")
    awaited.sources()[2].sink.drop("uid-a")
    assert awaited.verdict() == Pending("2 wanted: 2 there, 2 updated, 1 available")

    awaited.sources()[1].sink.drop("uid-web-1")
    assert awaited.summarize() == "2 wanted: 2 there, 2 updated, 1 available"
    assert list(awaited.sources()[1].sink.uids()) == list(awaited.sources()[2].sink.uids()) == []
