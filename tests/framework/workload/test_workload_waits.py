"""Waits on Deployments, ReplicaSets and rollouts, from call to result or message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytest_kwait as kw
from pytest_kwait.client.resource import DEPLOYMENTS, EVENTS, PODS, REPLICA_SETS
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from tests.framework.workload_samples import show, stuck
from tests.objects import condition, deployment, owned_pod, replica_set

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

MODES = pytest.mark.parametrize("mode", ["watch", "poll"])


@MODES
def test_complete(client: ApiClient, session: FakeSession, mode: Any) -> None:
    session.at(2, session.put, DEPLOYMENTS, deployment(1, 1, 0))
    session.at(4, session.put, REPLICA_SETS, replica_set())
    session.at(6, session.put, DEPLOYMENTS, deployment(2, 2, 2))

    web = kw.wait_for_deployment_complete(client, "ci-1", "web", mode=mode)

    assert (web["kind"], web["status"]["availableReplicas"]) == ("Deployment", 2)
    assert session.clock.monotonic() == 6.0
    if mode == "watch":
        assert sorted(session.requests) == [
            "list deployments metadata.name=web",
            "list pods app=web",
            "list replicasets app=web",
            "watch deployments metadata.name=web @100",
            "watch pods app=web @101",
            "watch replicasets app=web @101",
        ]


def test_other_waits(client: ApiClient, session: FakeSession) -> None:
    late = condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    ready = [owned_pod("web-1", name, ready=True) for name in ("a", "b")]
    sets = [replica_set(replicas=2, readyReplicas=2, availableReplicas=2)]
    sets[0]["status"]["replicas"] = 2
    show(session, deployment(2, 2, 2, conditions=[late]), sets, ready)

    for web in (
        kw.wait_for_deployment_complete_and_check_rolling(client, "ci-1", "web"),
        kw.wait_for_deployment_revision_and_image(client, "ci-1", "web", 1, "web:1"),
        kw.wait_for_deployment_updated_replicas_gte(client, "ci-1", "web", 2, 1),
        kw.wait_for_deployment_with_condition(
            client, "ci-1", "web", "ProgressDeadlineExceeded", "Progressing"
        ),
        kw.wait_for_observed_deployment(client, "ci-1", "web", 1),
    ):
        assert (web["kind"], web["metadata"]["name"]) == ("Deployment", "web")
    for made in (
        kw.wait_for_ready_replica_set(client, "ci-1", "web-1"),
        kw.wait_for_replica_set_target_available_replicas(client, "ci-1", "web-1", 2),
        kw.wait_for_replica_set_target_spec_replicas(client, "ci-1", "web-1", 2),
        kw.wait_for_replica_set_desired_replicas(client, "ci-1", "web-1"),
        kw.wait_for_observed_replica_set(client, "ci-1", "web-1", 1),
    ):
        assert (made["kind"], made["metadata"]["name"]) == ("ReplicaSet", "web-1")
    session.put(DEPLOYMENTS, deployment(2, 2, 2))
    assert kw.wait_for_rollout_status(client, "ci-1", "deployment/web")["kind"] == "Deployment"


def progressing(reason: str, message: str) -> Any:
    return condition("Progressing", "False", reason=reason, message=message)


LATE = progressing("ProgressDeadlineExceeded", 'ReplicaSet "web-1" has timed out progressing.')


def refused(message: str) -> Any:
    return replica_set(
        conditions=[condition("ReplicaFailure", reason="FailedCreate", message=message)]
    )


GOLDEN: list[tuple[Any, list[Any], list[Any], float, str]] = [
    (
        deployment(2, 1, 1, conditions=[LATE]),
        [replica_set()],
        [],
        5.0,
        "deployment ci-1/web can no longer become complete: ProgressDeadlineExceeded: ReplicaSet "
        '"web-1" has timed out progressing.',
    ),
    (
        deployment(1, 1, 1),
        [refused('pods "web-1-x" is forbidden: exceeded quota: q, requested: pods=1')],
        [],
        45.0,
        "deployment ci-1/web can no longer become complete: replicaset web-1: FailedCreate: pods "
        '"web-1-x" is forbidden: exceeded quota: q, requested: pods=1',
    ),
    (
        deployment(0, 0, 0),
        [refused('pods "web-1-x" is forbidden: violates PodSecurity "restricted:latest": no')],
        [],
        5.0,
        "deployment ci-1/web can no longer become complete: replicaset web-1: FailedCreate: pods "
        '"web-1-x" is forbidden: violates PodSecurity "restricted:latest": no',
    ),
    (
        deployment(0, 0, 0),
        [refused('admission webhook "w" denied the request: not on a Friday')],
        [],
        45.0,
        "deployment ci-1/web can no longer become complete: replicaset web-1: FailedCreate: "
        'admission webhook "w" denied the request: not on a Friday',
    ),
    (
        deployment(observed=0, conditions=[progressing("ReplicaSetCreateError", "no room")]),
        [],
        [],
        45.0,
        "deployment ci-1/web can no longer become complete: ReplicaSetCreateError: no room",
    ),
    (
        deployment(2, 0, 2, paused=True),
        [],
        [],
        45.0,
        "deployment ci-1/web can no longer become complete: the deployment is paused",
    ),
    (
        deployment(2, 1, 1, metadata={"deletionTimestamp": "now"}),
        [],
        [],
        5.0,
        "deployment ci-1/web can no longer become complete: the deployment is being deleted",
    ),
    (
        deployment(2, 2, 1),
        [replica_set()],
        [stuck("web-1", "web-1-a"), stuck("web-1", "web-1-b")],
        5.0,
        "deployment ci-1/web can no longer become complete: pod web-1-a (and 1 more pod): "
        "InvalidImageName: nope",
    ),
    (
        deployment(2, 2, 1),
        [replica_set()],
        [stuck("web-1", "web-1-a", "CreateContainerConfigError")],
        45.0,
        "deployment ci-1/web can no longer become complete: pod web-1-a: "
        "CreateContainerConfigError: nope",
    ),
]


@pytest.mark.parametrize(("made", "sets", "pods", "after", "headline"), GOLDEN)
def test_deployments_that_fail_early(
    client: ApiClient,
    session: FakeSession,
    made: Any,
    sets: list[Any],
    pods: list[Any],
    after: float,
    headline: str,
) -> None:
    show(session, made, sets, pods)

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_deployment_complete(client, "ci-1", "web")

    assert caught.value.args == (headline,)
    assert session.clock.monotonic() == after


def test_a_replica_set_that_fails_early(client: ApiClient, session: FakeSession) -> None:
    show(session, deployment(), [refused("exceeded quota: q")], [])

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_ready_replica_set(client, "ci-1", "web-1")

    assert caught.value.args == (
        "replicaset ci-1/web-1 can no longer have all its pods ready: FailedCreate: exceeded "
        "quota: q",
    )
    assert session.clock.monotonic() == 45.0


def test_a_rollout_that_fails_early(client: ApiClient, session: FakeSession) -> None:
    show(session, deployment(2, 1, 1, conditions=[LATE]), [replica_set()], [])

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_rollout_status(client, "ci-1", "deployment/web")

    assert caught.value.args == (
        'deployment ci-1/web can no longer roll out: deployment "web" exceeded its progress '
        "deadline",
    )
    assert session.clock.monotonic() == 5.0


def test_bounds_broken_at_once(client: ApiClient, session: FakeSession) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    show(session, deployment(3, 1, 2, strategy=rolling), [replica_set()], [])
    session.at(7, session.put, DEPLOYMENTS, deployment(2, 1, 1, strategy=rolling))

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_deployment_complete_and_check_rolling(client, "ci-1", "web")

    assert session.clock.monotonic() == 7.0
    assert caught.value.args == (
        "deployment ci-1/web can no longer become complete within the bounds of its rolling "
        "update: 1 pod is available, 2 must be at every step",
    )


def test_a_freed_quota_fails_nothing(client: ApiClient, session: FakeSession) -> None:
    show(session, deployment(1, 1, 1), [refused("exceeded quota: q")], [])
    session.at(44, session.put, REPLICA_SETS, replica_set())
    session.at(60, session.put, DEPLOYMENTS, deployment(2, 2, 2))

    kw.wait_for_deployment_complete(client, "ci-1", "web")

    assert session.clock.monotonic() == 60.0


def test_refused_pods_of_a_deployment_give_the_reason(
    client: ApiClient, session: FakeSession
) -> None:
    text = 'pods "web-1-abcde" is forbidden: violates PodSecurity "restricted:latest": root'
    about = {"kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1"}
    for number, name in enumerate(("abcde", "fghij")):
        message = f"Error creating: {text.replace('abcde', name)}"
        event = {"metadata": {"name": f"e{number}"}, "type": "Warning", "involvedObject": about}
        session.put(EVENTS, event | {"reason": "FailedCreate", "message": message})
    show(session, deployment(0, 0, 0), [refused(text)], [])

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_deployment_complete(client, "ci-1", "web")

    assert str(caught.value) == (
        "deployment ci-1/web can no longer become complete: replicaset web-1: FailedCreate: pods\n"
        '    "web-1-abcde" is forbidden: violates PodSecurity "restricted:latest": root\n'
        "  awaited   deployment ci-1/web to become complete\n"
        "  limit     5m0s, ended after 5s (watch mode)\n"
        "  seen      2 wanted: 0 there, 0 updated, 0 available; pods of replicaset web-1: none\n"
        "  timeline\n"
        "       0.0s  final if it holds for 5s: replicaset web-1: FailedCreate: pods "
        '"web-1-abcde"...\n'
        '       5.0s  replicaset web-1: FailedCreate: pods "web-1-abcde" is forbidden: violates '
        "Po...\n"
        "  warnings\n"
        '    2x FailedCreate (replicaset/web-1): Error creating: pods "web-1-abcde" is forbidden:\n'
        '      violates PodSecurity "restricted:latest": root\n'
        "  try: kubectl --namespace ci-1 describe deployments.apps/web"
    )


def test_stuck_pods_of_a_deployment_come_first(client: ApiClient, session: FakeSession) -> None:
    old = [owned_pod("web-0", f"web-0-{n}", ready=True) for n in range(2)]
    sets = [replica_set("web-0", "1", replicas=2), replica_set("web-1", "2", replicas=1)]
    show(session, deployment(3, 1, 2, revision="2"), sets, [*old, stuck("web-1", "web-1-x")])

    with pytest.raises(WaitFailed) as caught:
        kw.wait_for_rollout_status(client, "ci-1", "deploy/web")

    assert str(caught.value) == (
        "deployment ci-1/web can no longer roll out: pod web-1-x: InvalidImageName: nope\n"
        "  awaited   deployment ci-1/web to roll out\n"
        "  limit     5m0s, ended after 5s (watch mode)\n"
        "  seen      2 wanted: 3 there, 1 updated, 2 available; pods of replicaset web-1: 1 "
        "Pending\n"
        "            (InvalidImageName)\n"
        "  timeline\n"
        "       0.0s  final if it holds for 5s: pod web-1-x: InvalidImageName: nope\n"
        "       5.0s  pod web-1-x: InvalidImageName: nope\n"
        "  pods\n"
        "    web-1-x Pending on node-1\n"
        "      main: waiting: InvalidImageName: nope\n"
        "    web-0-0 Running on node-1, ready\n"
        "    web-0-1 Running on node-1, ready\n"
        "  try: kubectl --namespace ci-1 describe pod/web-1-x"
    )


TIMEOUTS = [
    ("wait_for_deployment_complete", ("web",), "deployment ci-1/web did not become complete"),
    (
        "wait_for_deployment_complete_and_check_rolling",
        ("web",),
        "deployment ci-1/web did not become complete within the bounds of its rolling update",
    ),
    (
        "wait_for_deployment_revision_and_image",
        ("web", 2, "web:2"),
        "deployment ci-1/web did not reach revision 2 with image web:2",
    ),
    (
        "wait_for_deployment_updated_replicas_gte",
        ("web", 1),
        "deployment ci-1/web did not have 1 or more pods updated",
    ),
    (
        "wait_for_deployment_with_condition",
        ("web", "X", "Available"),
        "deployment ci-1/web did not have condition Available with reason X",
    ),
    (
        "wait_for_observed_deployment",
        ("web", 3),
        "deployment ci-1/web did not have generation 3 observed",
    ),
    ("wait_for_ready_replica_set", ("web",), "replicaset ci-1/web did not have all its pods ready"),
    (
        "wait_for_replica_set_target_available_replicas",
        ("web", 1),
        "replicaset ci-1/web did not have exactly 1 pod available",
    ),
    (
        "wait_for_replica_set_target_spec_replicas",
        ("web", 1),
        "replicaset ci-1/web did not get scaled to 1 replica",
    ),
    (
        "wait_for_replica_set_desired_replicas",
        ("web",),
        "replicaset ci-1/web did not have the pods that it is to have",
    ),
    (
        "wait_for_observed_replica_set",
        ("web", 3),
        "replicaset ci-1/web did not have generation 3 observed",
    ),
    ("wait_for_rollout_status", ("sts/db",), "statefulset ci-1/db did not roll out"),
]


@pytest.mark.parametrize(("name", "arguments", "headline"), TIMEOUTS)
def test_first_lines(client: ApiClient, name: str, arguments: Any, headline: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        getattr(kw, name)(client, "ci-1", *arguments, timeout=2)

    assert caught.value.args == (f"{headline} within 2s: not found yet",)


BAD: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("wait_for_deployment_complete", ("CI", "web"), {}),
    ("wait_for_deployment_complete", ("ci-1", "Web"), {}),
    ("wait_for_deployment_complete", ("ci-1", "web"), {"timeout": 0}),
    ("wait_for_deployment_complete_and_check_rolling", ("ci-1", ""), {}),
    ("wait_for_deployment_revision_and_image", ("ci-1", "web", 0, "web:1"), {}),
    ("wait_for_deployment_revision_and_image", ("ci-1", "web", "first", "web:1"), {}),
    ("wait_for_deployment_revision_and_image", ("ci-1", "web", 1, ""), {}),
    ("wait_for_deployment_updated_replicas_gte", ("ci-1", "web", -1), {}),
    ("wait_for_deployment_updated_replicas_gte", ("ci-1", "web", 1, 0), {}),
    ("wait_for_deployment_with_condition", ("ci-1", "web", "", "Available"), {}),
    ("wait_for_observed_deployment", ("ci-1", "web", 0), {}),
    ("wait_for_observed_deployment", ("ci-1", "web", "1"), {}),
    ("wait_for_ready_replica_set", ("ci-1", "web_1"), {}),
    ("wait_for_replica_set_target_available_replicas", ("ci-1", "web", -1), {}),
    ("wait_for_replica_set_target_spec_replicas", ("ci-1", "web", True), {}),
    ("wait_for_replica_set_desired_replicas", ("ci-1", None), {}),
    ("wait_for_observed_replica_set", ("ci-1", "web", 0), {}),
    ("wait_for_rollout_status", ("ci-1", "web"), {}),
    ("wait_for_rollout_status", ("ci-1", "rs/web"), {}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), BAD)
def test_bad_arguments_send_no_request(
    client: ApiClient, session: FakeSession, name: str, arguments: Any, options: Any
) -> None:
    with pytest.raises(InvalidArgument):
        getattr(kw, name)(client, *arguments, **options)

    assert session.requests == []


def test_a_condition_that_no_deployment_has(client: ApiClient) -> None:
    with pytest.raises(InvalidArgument) as caught:
        kw.wait_for_deployment_with_condition(client, "ci-1", "web", "X", "Ready")

    assert str(caught.value) == (
        "condition='Ready' is not valid: use 'Available' or 'Progressing' or 'ReplicaFailure'"
    )


def test_pods_of_older_replica_sets_are_watched_but_fail_nothing(
    client: ApiClient, session: FakeSession
) -> None:
    show(session, deployment(2, 1, 1, revision="2"), [replica_set("web-0")], [stuck("web-0", "a")])
    session.at(2, session.put, REPLICA_SETS, replica_set("web-1", "2"))
    session.at(90, session.drop, PODS, "a")
    session.at(91, session.put, DEPLOYMENTS, deployment(2, 2, 2, revision="2"))

    kw.wait_for_deployment_complete(client, "ci-1", "web")

    assert session.clock.monotonic() == 91.0
