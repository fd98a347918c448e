"""Rollouts: kubectl's rules, and pods that fail them early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.operations.rollout import wait_for_rollout_status
from pytest_kwait.framework.registry import condition_of
from tests.framework.sources import enter
from tests.framework.workload_samples import LABELS, stuck
from tests.objects import condition, deployment, owned_pod, replica_set, workload

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition

SHORT, LONG = Grace.SHORT, Grace.LONG
LATE = condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="too late")
LATE_TEXT = 'deployment "web" exceeded its progress deadline'
NO_SET = condition("Progressing", "False", reason="ReplicaSetCreateError", message="no room")
REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: q")
UNSEEN = Pending("Waiting for deployment spec update to be observed...")
PARTLY = Pending(
    'Waiting for deployment "web" rollout to finish: 1 of 2 updated replicas are available...'
)
STUCK_POD = Failed("pod a: InvalidImageName: nope", SHORT, 0.0)


def show(awaited: Condition, *objects: Any) -> Verdict:
    for position, each in enumerate(objects):
        enter(awaited, *(each if isinstance(each, list) else [each]), position=position)
    return awaited.verdict()


@pytest.mark.parametrize(
    ("made", "sets", "pods", "verdict"),
    [
        (deployment(2, 2, 2), [], [], Met()),
        (deployment(2, 2, 2, observed=0), [], [], UNSEEN),
        (deployment(2, 2, 1), [replica_set()], [owned_pod("web-1", "a")], PARTLY),
        (deployment(2, 2, 1), [replica_set()], [stuck("web-1", "a")], STUCK_POD),
        (deployment(2, 2, 1, generation=2), [replica_set()], [stuck("web-1", "a")], UNSEEN),
        (deployment(2, 2, 1), [replica_set("web-0", "0")], [stuck("web-0", "a")], PARTLY),
        (deployment(2, 2, 1, conditions=[LATE]), [], [], Failed(LATE_TEXT, SHORT)),
        (
            deployment(2, 2, 1, conditions=[LATE]),
            [replica_set()],
            [stuck("web-1", "a", "CreateContainerError")],
            Failed(f"{LATE_TEXT} (pod a: CreateContainerError: nope)", SHORT),
        ),
        (
            deployment(2, 1, 1, conditions=[LATE]),
            [replica_set(conditions=[REFUSED])],
            [],
            Failed(
                f"{LATE_TEXT} (replicaset web-1: FailedCreate: exceeded quota: q)",
                SHORT,
            ),
        ),
        (
            deployment(2, 0, 2, conditions=[LATE], paused=True),
            [],
            [],
            Failed("the deployment is paused", LONG),
        ),
        (
            deployment(observed=0, conditions=[NO_SET]),
            [],
            [],
            Failed("ReplicaSetCreateError: no room", LONG),
        ),
        (
            deployment(2, 1, 1, metadata={"deletionTimestamp": "now"}),
            [],
            [],
            Failed("the deployment is being deleted", SHORT),
        ),
    ],
)
def test_deployment(made: Any, sets: Any, pods: Any, verdict: Verdict) -> None:
    assert (
        show(condition_of(wait_for_rollout_status)("ci-1", "deploy/web"), made, sets, pods)
        == verdict
    )


@pytest.mark.parametrize(
    ("running", "verdict"),
    [
        (
            "3",
            Failed("desired revision (2) is different from the running revision (3)"),
        ),
        (
            "1",
            Failed("desired revision (2) is different from the running revision (1)", LONG),
        ),
        ("2", Met()),
    ],
)
def test_revision_of_a_deployment(running: str, verdict: Verdict) -> None:
    awaited = condition_of(wait_for_rollout_status)("ci-1", "deployment.apps/web", 2)

    assert awaited.goal == "roll out at revision 2"
    made = deployment(2, 2, 2, revision=running)
    assert show(awaited, made, [replica_set(revision=running)], [stuck("web-1", "a")]) == verdict


def rolling_set(ready: int, updated: int, observed: int = 1, **metadata: Any) -> dict[str, Any]:
    return workload(
        "StatefulSet",
        "db",
        observed=observed,
        selector={"matchLabels": LABELS},
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        readyReplicas=ready,
        updatedReplicas=updated,
        updateRevision="db-new",
        **metadata,
    )


def member(revision: str, name: str = "a") -> dict[str, Any]:
    labels = LABELS | {"controller-revision-hash": revision}
    return owned_pod("db", name, "Pending", waiting=("InvalidImageName", "nope"), labels=labels)


@pytest.mark.parametrize(
    ("made", "pods", "verdict"),
    [
        (rolling_set(2, 2), [], Met()),
        (rolling_set(1, 1), [], Pending("Waiting for 1 pods to be ready...")),
        (rolling_set(1, 1), [member("db-new")], STUCK_POD),
        (rolling_set(1, 1), [member("db-old")], Pending("Waiting for 1 pods to be ready...")),
        (
            rolling_set(1, 1, 0),
            [member("db-new")],
            Pending("Waiting for statefulset spec update to be observed..."),
        ),
        (
            rolling_set(1, 1, deletionTimestamp="now"),
            [],
            Failed("the statefulset is being deleted", SHORT),
        ),
    ],
)
def test_stateful_set(made: Any, pods: Any, verdict: Verdict) -> None:
    assert show(condition_of(wait_for_rollout_status)("ci-1", "sts/db"), made, pods) == verdict


def rolling_daemons(updated: int, available: int) -> dict[str, Any]:
    return workload(
        "DaemonSet",
        "db",
        observed=2,
        generation=2,
        annotations={"deprecated.daemonset.template.generation": "2"},
        selector={"matchLabels": LABELS},
        desiredNumberScheduled=2,
        updatedNumberScheduled=updated,
        numberAvailable=available,
    )


def daemon(generation: str) -> dict[str, Any]:
    labels = LABELS | {"pod-template-generation": generation}
    return owned_pod("db", "a", "Pending", waiting=("InvalidImageName", "nope"), labels=labels)


LEAD = 'Waiting for daemon set "db" rollout to finish'


@pytest.mark.parametrize(
    ("made", "pods", "verdict"),
    [
        (rolling_daemons(2, 2), [], Met()),
        (
            rolling_daemons(1, 1),
            [daemon("1")],
            Pending(f"{LEAD}: 1 out of 2 new pods have been updated..."),
        ),
        (rolling_daemons(1, 1), [daemon("2")], STUCK_POD),
    ],
)
def test_daemon_set(made: Any, pods: Any, verdict: Verdict) -> None:
    awaited = condition_of(wait_for_rollout_status)("ci-1", "daemonsets/db")

    assert show(awaited, made, pods) == verdict


def test_summaries() -> None:
    for target in ("deployment/web", "ds/web", "sts/web"):
        awaited = condition_of(wait_for_rollout_status)("ci-1", target)
        assert awaited.verdict() == Pending("not found yet")
        assert awaited.summarize() == ""
    enter(awaited, rolling_set(1, 1))
    enter(awaited, member("db-new"), member("db-old", "b"), position=1)
    assert awaited.summarize() == "pods of the present revision: 1 Pending (InvalidImageName)"


@pytest.mark.parametrize(
    ("target", "revision", "text"),
    [
        (
            "job/pi",
            None,
            "target='job/pi' is not valid: use 'deployment/name', 'daemonset/name' or "
            "'statefulset/name'",
        ),
        (
            "deployment",
            None,
            "target='deployment' is not valid: use 'deployment/name', 'daemonset/name' or "
            "'statefulset/name'",
        ),
        (
            "widget/web",
            None,
            "target='widget/web' is not valid: use 'deployment/name', 'daemonset/name' or "
            "'statefulset/name'",
        ),
        (
            "deployment/web",
            0,
            "revision=0 is not valid: use a whole number, 1 or more",
        ),
        (
            "sts/db",
            1,
            "revision=1 is not valid: only a deployment can be asked for one",
        ),
        (
            "deployment/Web",
            None,
            "target='Web' is not valid: use a DNS name: up to 253 lower-case letters, digits, '-' "
            "and '.', with a letter or digit at both ends of each part",
        ),
    ],
)
def test_bad_targets(target: str, revision: int | None, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        condition_of(wait_for_rollout_status)("ci-1", target, revision)

    assert str(caught.value) == text
