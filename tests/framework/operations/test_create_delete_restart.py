"""Creating, deleting and restarting, and the waits that follow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from pytest_kwait.engine.condition import Met, Pending
from pytest_kwait.errors import ApiError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.create import create_and_wait
from pytest_kwait.framework.operations.delete import DeletedWithPods, delete_and_wait
from pytest_kwait.framework.operations.rollout import restart
from tests.framework.sources import enter
from tests.objects import condition, deployment, owned_pod, replica_set, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from tests.framework.writable_session import WritingSession

RC = {
    "apiVersion": "v1",
    "kind": "ReplicationController",
    "metadata": {"name": "web"},
    "spec": {"replicas": 1, "selector": {"app": "web"}},
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
READY = {"phase": "Running", "conditions": [condition("Ready")]}


UNCALLED = (
    'Internal error occurred: failed calling webhook "guard.example.com": failed to call webhook: '
    'Post "https://guard.ops.svc:443/?timeout=2s": connection refused'
)


def uncalled() -> ApiError:
    return ApiError(UNCALLED, status=500, reason="InternalError")


def test_a_creation_is_tried_again_once_its_webhook_may_be_called(
    client: ApiClient, session: WritingSession
) -> None:
    """As upstream's CreatePodWithRetries repeats internal errors."""
    ready = [{"addresses": ["10.0.0.9"], "conditions": {"ready": True}}]
    labels = {"kubernetes.io/service-name": "guard"}
    session.put(
        ENDPOINT_SLICES, {"metadata": {"name": "guard-1", "labels": labels}, "endpoints": ready}
    )
    session.refuse(uncalled(), uncalled())
    made = {"name": "a", "uid": "uid-made"}
    session.then = lambda *_: session.put(PODS, {**POD, "metadata": made, "status": READY})

    assert create_and_wait(client, "ci-1", POD)["metadata"]["name"] == "a"
    assert [entry[0] for entry in session.written] == ["create"] * 3


def test_a_creation_whose_webhook_is_down_fails_early(
    client: ApiClient, session: WritingSession
) -> None:
    session.put(SERVICES, {"metadata": {"name": "guard"}, "spec": {"selector": {"app": "guard"}}})
    session.refuse(*(uncalled() for _ in range(99)))

    with pytest.raises(WaitFailed) as caught:
        create_and_wait(client, "ci-1", POD, timeout="10m")

    assert caught.value.args == (
        "webhook guard.example.com can no longer be called: service ops/guard has no ready "
        "endpoint: the service's selector app=guard matches no pod",
    )
    assert session.clock.monotonic() < 120
    (note,) = caught.value.__notes__
    assert "failed calling webhook" in note


# Restarting


def test_restart_stamps_the_template_and_waits(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, deployment(2, 2, 2))

    def roll(verb: str, name: str, what: Any) -> None:
        session.put(DEPLOYMENTS, deployment(2, 2, 2, generation=2))
        session.at(2, session.put, DEPLOYMENTS, deployment(2, 1, 2, generation=2, observed=2))
        session.at(5, session.put, DEPLOYMENTS, deployment(2, 2, 2, generation=2, observed=2))

    session.then = roll
    found = restart(client, "ci-1", "deploy/web")

    assert found["status"]["observedGeneration"] == 2
    assert session.clock.monotonic() == pytest.approx(5, abs=0.1)
    ((verb, plural, name, patch),) = session.written
    assert (verb, plural, name) == ("patch", "deployments", "web")
    stamps = patch["spec"]["template"]["metadata"]["annotations"]
    # Finer than seconds: another restart soon after this one is another stamp.
    assert len(stamps["kubectl.kubernetes.io/restartedAt"]) == len("2026-11-21T07:34:33.000000Z")


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_restart_waits_until_the_earlier_pods_are_gone(
    client: ApiClient, session: WritingSession, mode: Any
) -> None:
    """The status counts no terminating pods, and an earlier ReplicaSet may be removed before."""
    session.put(DEPLOYMENTS, deployment(1, 1, 1, replicas=1))
    session.put(REPLICA_SETS, replica_set("web-1", "1"))
    session.put(PODS, owned_pod("web-1", "old"))
    finished = owned_pod("web-1", "evicted")
    session.put(PODS, {**finished, "status": {"phase": "Failed"}})

    def roll(verb: str, name: str, what: Any) -> None:
        ending = owned_pod("web-1", "old")
        ending["metadata"]["deletionTimestamp"] = "2026-11-21T07:34:33Z"
        session.put(REPLICA_SETS, replica_set("web-2", "2"))
        session.put(PODS, owned_pod("web-2", "new"))
        session.put(PODS, ending)
        made = deployment(1, 1, 1, replicas=1, generation=2, observed=2, revision="2")
        session.put(DEPLOYMENTS, made)
        session.at(3, session.drop, REPLICA_SETS, "web-1")
        session.at(8, session.drop, PODS, "old")

    session.then = roll
    restart(client, "ci-1", "deploy/web", mode=mode)

    assert session.clock.monotonic() == pytest.approx(8, abs=0.1)


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_restart_counts_no_pods_of_the_new_replica_set_as_earlier(
    client: ApiClient, session: WritingSession, mode: Any
) -> None:
    """The Deployment gets the revision of its new ReplicaSet after that is there."""
    session.put(DEPLOYMENTS, deployment(1, 1, 1, replicas=1))
    session.put(REPLICA_SETS, replica_set("web-1", "1"))

    def roll(verb: str, name: str, what: Any) -> None:
        session.put(DEPLOYMENTS, deployment(1, 1, 1, replicas=1, generation=2))
        session.put(REPLICA_SETS, replica_set("web-2", "2"))
        session.put(PODS, owned_pod("web-2", "new"))
        made = deployment(1, 1, 1, replicas=1, generation=2, observed=2, revision="2")
        session.at(3, session.put, DEPLOYMENTS, made)

    session.then = roll
    restart(client, "ci-1", "deploy/web", mode=mode)

    assert session.clock.monotonic() == pytest.approx(3, abs=2)


@pytest.mark.parametrize("mode", ["watch", "poll"])
def test_rollout_to_an_earlier_replica_set_does_not_wait_for_the_end_of_its_pods(
    client: ApiClient, session: WritingSession, mode: Any
) -> None:
    """The controller gives it the new revision only after the wait has begun."""
    session.put(DEPLOYMENTS, deployment(1, 1, 1, replicas=1, revision="2"))
    session.put(REPLICA_SETS, replica_set("web-1", "1"))
    session.put(REPLICA_SETS, replica_set("web-2", "2"))
    session.put(PODS, owned_pod("web-2", "old"))

    def roll(verb: str, name: str, what: Any) -> None:
        changed: dict[str, Any] = {"replicas": 1, "generation": 2}
        session.put(DEPLOYMENTS, deployment(1, 1, 1, **changed, revision="2"))
        session.at(3, session.put, REPLICA_SETS, replica_set("web-1", "3"))
        session.at(3, session.put, PODS, owned_pod("web-1", "new"))
        session.at(3, session.drop, PODS, "old")
        done = deployment(1, 1, 1, **changed, observed=2, revision="3")
        session.at(4, session.put, DEPLOYMENTS, done)

    session.then = roll
    restart(client, "ci-1", "deploy/web", mode=mode, timeout=30)

    assert session.clock.monotonic() == pytest.approx(4, abs=2)


def daemon_pod(name: str, generation: str, **fields: Any) -> Any:
    labels = {"app": "agent", "pod-template-generation": generation}
    return owned_pod("agent", name, ready=True, labels=labels, **fields)


def test_restart_of_a_daemon_set_waits_until_the_earlier_pods_are_gone(
    client: ApiClient, session: WritingSession
) -> None:
    notes = {"deprecated.daemonset.template.generation": "2"}
    counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    agent = workload("DaemonSet", "agent", annotations=notes, status=dict.fromkeys(counts, 1))
    session.put(DAEMON_SETS, agent)
    session.put(PODS, daemon_pod("new", "2"))
    session.put(PODS, daemon_pod("old", "1", deletionTimestamp="2026-11-21T07:34:33Z"))

    with pytest.raises(WaitTimeout) as caught:
        restart(client, "ci-1", "ds/agent", timeout=5)
    assert caught.value.args == (
        "daemonset ci-1/agent did not roll out within 5s: "
        "1 pod of earlier revisions is not gone yet",
    )

    session.drop(PODS, "old")
    assert restart(client, "ci-1", "ds/agent")["metadata"]["name"] == "agent"


def test_a_workload_that_is_deleted_meanwhile(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, deployment(2, 2, 2))
    session.then = lambda *_: session.put(DEPLOYMENTS, deployment(metadata={"uid": "uid-new"}))

    with pytest.raises(WaitFailed) as caught:
        restart(client, "ci-1", "deploy/web")

    assert caught.value.args == (
        "deployment ci-1/web can no longer roll out: "
        "the deployment was deleted and created anew under another UID",
    )


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("deploy/web", "target='deploy/web' is not valid: it is paused: resume it first"),
        (
            "statefulset/db",
            "target='statefulset/db' is not valid: its update strategy is OnDelete: "
            "delete its pods instead",
        ),
        (
            "rc/web",
            "target='rc/web' is not valid: use 'deployment/name', 'daemonset/name' or "
            "'statefulset/name'",
        ),
    ],
)
def test_kinds_that_cannot_be_restarted(
    client: ApiClient, session: WritingSession, target: str, text: str
) -> None:
    session.put(DEPLOYMENTS, deployment(paused=True))
    session.put(STATEFUL_SETS, workload("StatefulSet", "db", updateStrategy={"type": "OnDelete"}))

    with pytest.raises(InvalidArgument) as caught:
        restart(client, "ci-1", target)

    assert str(caught.value) == text
    assert session.written == []


# Deleting


def web_controller(**metadata: Any) -> Any:
    return workload("ReplicationController", replicas=1, **metadata)


def test_an_object_goes_with_its_pods(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.put(PODS, owned_pod("web", "a"))
    session.put(PODS, owned_pod("other", "b"))

    def remove(verb: str, name: str, what: Any) -> None:
        session.drop(REPLICATION_CONTROLLERS, "web")
        session.at(3, session.drop, PODS, "a")

    session.then = remove
    delete_and_wait(client, "ci-1", "rc/web", grace_period=1)

    assert session.written == [
        (
            "delete",
            "replicationcontrollers",
            "web",
            {
                "uid": "uid-web",
                "grace_period_seconds": 1,
                "propagation_policy": "Background",
            },
        )
    ]
    assert session.clock.monotonic() == pytest.approx(3, abs=0.1)


def test_orphans_are_not_awaited(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.put(PODS, owned_pod("web", "a"))
    session.then = lambda *_: session.drop(REPLICATION_CONTROLLERS, "web")

    delete_and_wait(client, "ci-1", "rc/web", propagation="Orphan")

    assert session.count("list pods") == 0


def test_remaining_objects_are_named(client: ApiClient, session: WritingSession) -> None:
    session.put(REPLICATION_CONTROLLERS, web_controller())
    session.then = lambda *_: session.put(
        REPLICATION_CONTROLLERS,
        web_controller(deletionTimestamp="now", finalizers=["example.com/hold"]),
    )

    with pytest.raises(WaitTimeout) as caught:
        delete_and_wait(client, "ci-1", "rc/web", timeout=2)

    assert caught.value.args == (
        "replicationcontroller ci-1/web did not go away with its pods within 2s: "
        "being deleted, held by example.com/hold",
    )


def test_gone_is_by_uid() -> None:
    awaited = DeletedWithPods(REPLICATION_CONTROLLERS, "ci-1", "web", "uid-web", "app=web")

    assert awaited.verdict() == Met()
    enter(awaited, web_controller())
    assert awaited.verdict() == Pending("still there")
    enter(awaited, web_controller(uid="uid-new"))
    enter(awaited, {**owned_pod("new", "b"), "status": None}, position=1)
    assert awaited.verdict() == Met()
    enter(awaited, owned_pod("web", "a"), position=1)
    assert awaited.verdict() == Pending("1 pod left: 1 of another owner, 1 Running")


def test_a_missing_object_is_an_error(client: ApiClient, session: WritingSession) -> None:
    with pytest.raises(ApiError, match="not found"):
        delete_and_wait(client, "ci-1", "cm/nothing")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"propagation": "Sideways"},
            "propagation='Sideways' is not valid: use Background, Foreground or Orphan",
        ),
        ({"grace_period": -1}, "grace_period=-1 is not valid: use a whole number, 0 or more"),
    ],
)
def test_bad_deletions(client: ApiClient, more: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        delete_and_wait(client, "ci-1", "rc/web", **more)

    assert str(caught.value) == text


# Creating


def test_a_pod_is_awaited_ready(client: ApiClient, session: WritingSession) -> None:
    def start(verb: str, name: str, what: Any) -> None:
        made = {**POD, "metadata": {"name": "a", "uid": "uid-made"}}
        session.put(PODS, {**made, "status": {"phase": "Pending"}})
        session.at(2, session.put, PODS, {**made, "status": READY})

    session.then = start
    found = create_and_wait(client, "ci-1", POD)

    assert found["status"]["phase"] == "Running"
    assert session.written == [("create", "pods", "a", POD)]
    assert session.clock.monotonic() == pytest.approx(2, abs=0.1)


def test_replicas_are_awaited_ready(client: ApiClient, session: WritingSession) -> None:
    counts = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}
    made = {**RC, "metadata": {"name": "web", "uid": "uid-made"}, "status": counts}
    session.then = lambda *_: session.put(REPLICATION_CONTROLLERS, made)
    session.at(1, session.put, PODS, owned_pod("made", "a", ready=True))

    assert create_and_wait(client, "ci-1", RC)["status"] == counts
    assert session.clock.monotonic() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("resource", "kind", "version", "status", "goal"),
    [
        (JOBS, "Job", "batch/v1", {"conditions": [condition("Complete")]}, "become complete"),
        (DEPLOYMENTS, "Deployment", "apps/v1", deployment(2, 2, 2)["status"], "roll out"),
    ],
)
def test_other_kinds(
    client: ApiClient,
    session: WritingSession,
    resource: Any,
    kind: str,
    version: str,
    status: Any,
    goal: str,
) -> None:
    manifest = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = {**manifest, "metadata": {"name": "web", "uid": "uid-made"}}
    session.then = lambda *_: session.put(resource, {**made, "status": status})

    assert create_and_wait(client, "ci-1", manifest)["status"] == status

    session.then = lambda *_: None
    session.drop(resource, "web")
    with pytest.raises(WaitFailed, match=f"can no longer {goal}: the {kind.lower()} was deleted"):
        create_and_wait(client, "ci-1", manifest, timeout=2)


@pytest.mark.parametrize(
    ("resource", "kind", "version"),
    [
        (PODS, "Pod", "v1"),
        (JOBS, "Job", "batch/v1"),
        (DEPLOYMENTS, "Deployment", "apps/v1"),
        (REPLICATION_CONTROLLERS, "ReplicationController", "v1"),
    ],
)
def test_another_one_is_not_the_one_that_was_made(
    client: ApiClient, session: WritingSession, resource: Any, kind: str, version: str
) -> None:
    manifest = {**RC, "apiVersion": version, "kind": kind}
    other = {**manifest, "metadata": {"name": "web", "uid": "uid-other"}}
    session.then = lambda *_: session.put(resource, other)

    with pytest.raises(WaitFailed) as caught:
        create_and_wait(client, "ci-1", manifest)

    (headline,) = caught.value.args
    assert headline.endswith(
        f"the {resource.singular} was deleted and created anew under another UID"
    )


def test_a_condition_of_ones_own(client: ApiClient, session: WritingSession) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    session.then = lambda *_: session.put(CONFIG_MAPS, made)

    assert create_and_wait(client, "ci-1", made, "create")["metadata"]["name"] == "c"
    session.then = lambda *_: session.put(JOBS, {**job, "status": {"active": 1}})
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    assert create_and_wait(client, "ci-1", job, "jsonpath={.status.active}=1")["kind"] == "Job"


@pytest.mark.parametrize(
    ("manifest", "more", "text"),
    [
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
            (),
            "condition=None is not valid: say what is awaited of a ConfigMap, as for wait_for: "
            "'create'",
        ),
        (
            "web.yaml",
            (),
            "manifest='web.yaml' is not valid: use an object with apiVersion, kind, metadata",
        ),
        (
            {"kind": "Pod", "metadata": {}},
            (),
            "manifest={'kind': 'Pod', 'metadata': {}} is not valid: "
            "use an object with apiVersion, kind, metadata",
        ),
    ],
)
def test_bad_creations(
    client: ApiClient, session: WritingSession, manifest: Any, more: Any, text: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        create_and_wait(client, "ci-1", manifest, *more)

    assert str(caught.value) == text
    assert session.written == []


# At the limit, and when answers get lost


@pytest.mark.parametrize("status", [404, 409])
def test_a_deletion_with_a_lost_response(
    client: ApiClient, session: WritingSession, status: int
) -> None:
    session.put(CONFIG_MAPS, {"metadata": {"name": "a", "uid": "uid-a"}})
    session.refuse(ApiError("reset", reason="ConnectionReset"), ApiError("gone", status=status))
    session.at(0.05, session.drop, CONFIG_MAPS, "a")

    delete_and_wait(client, "ci-1", "configmap/a")

    assert [verb for verb, *_ in session.written] == ["delete", "delete"]


def test_a_deletion_of_an_object_that_is_already_gone(
    client: ApiClient, session: WritingSession
) -> None:
    session.put(CONFIG_MAPS, {"metadata": {"name": "a", "uid": "uid-a"}})
    session.refuse(ApiError("gone", status=404))

    with pytest.raises(ApiError, match="gone"):
        delete_and_wait(client, "ci-1", "configmap/a")


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        (partial(delete_and_wait, target="deploy/web"), "deploy/web could not be deleted"),
        (partial(restart, target="deploy/web"), "deploy/web could not be restarted"),
        (partial(create_and_wait, manifest=POD), "the Pod could not be created"),
    ],
)
def test_a_server_that_writes_nothing(
    client: ApiClient, session: WritingSession, verb: Callable[..., Any], what: str
) -> None:
    session.put(DEPLOYMENTS, deployment(2, 2, 2))
    session.refuse(*[ApiError("no leader", status=500)] * 50)

    with pytest.raises(WaitTimeout) as caught:
        verb(client, "ci-1", timeout=5)

    assert str(caught.value) == f"{what} in time: 500: no leader"
    assert session.clock.monotonic() == pytest.approx(5.0)
