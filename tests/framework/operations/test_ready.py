"""Several objects that must be ready at the same time, each by the rules of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import DEPLOYMENTS, JOBS
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.framework.operations.ready import is_awaited, wait_for_objects_ready
from tests.objects import condition, deployment, job

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.framework.writable_session import WritingSession


def web(*counts: int) -> dict[str, Any]:
    return deployment(*counts, replicas=1, observed=1)


def migration(*conditions: dict[str, Any]) -> dict[str, Any]:
    made = job("migration")
    return made | {
        "metadata": {"name": "migration", "namespace": "ci-1", "uid": "uid-migration"},
        "status": {"conditions": list(conditions)},
    }


def test_all_are_awaited_side_by_side(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, web(1, 1, 0))
    session.put(JOBS, migration())
    session.at(2, session.put, JOBS, migration(condition("Complete")))
    session.at(5, session.put, DEPLOYMENTS, web(1, 1, 1))

    wait_for_objects_ready(client, "ci-1", [web(1, 1, 0), migration()])

    assert session.clock.monotonic() == pytest.approx(5, abs=0.1)


def test_first_failure_ends_the_wait(client: ApiClient, session: WritingSession) -> None:
    """The evidence is that of the object that has failed."""
    session.put(DEPLOYMENTS, web(1, 1, 0))
    session.put(JOBS, migration())
    failed = condition("Failed", reason="BackoffLimitExceeded", message="no")
    session.at(3, session.put, JOBS, migration(failed))

    with pytest.raises(WaitFailed) as caught:
        wait_for_objects_ready(client, "ci-1", [web(1, 1, 0), migration()], timeout="10m")

    assert caught.value.args == (
        "deployment ci-1/web, job ci-1/migration can no longer become ready: job ci-1/migration: "
        "the job failed: BackoffLimitExceeded: no",
    )
    assert [obj["name"] for obj in caught.value.evidence["objects"]] == ["migration"]
    assert session.clock.monotonic() == pytest.approx(3, abs=0.1)


def test_limit_names_what_is_not_ready(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, web(1, 1, 0))
    session.put(JOBS, migration(condition("Complete")))

    with pytest.raises(WaitTimeout) as caught:
        wait_for_objects_ready(client, "ci-1", [migration(), web(1, 1, 0)], timeout="10s")

    assert caught.value.args == (
        "job ci-1/migration, deployment ci-1/web did not become ready within 10s: "
        'deployment ci-1/web: Waiting for deployment "web" rollout to finish: 0 of 1 updated '
        "replicas are available...",
    )


def test_many_objects_are_counted(client: ApiClient, session: WritingSession) -> None:
    session.put(DEPLOYMENTS, web(1, 1, 0))
    session.put(JOBS, migration())
    objects = [web(1, 1, 0), *(migration() for _ in range(4))]

    with pytest.raises(WaitTimeout) as caught:
        wait_for_objects_ready(client, "ci-1", objects, timeout="10s")

    assert caught.value.args[0].startswith(
        "deployment ci-1/web, job ci-1/migration, job ci-1/migration and 2 more objects did not "
        "become ready within 10s: "
    )


def test_one_object_has_the_words_of_its_own_wait(
    client: ApiClient, session: WritingSession
) -> None:
    session.put(DEPLOYMENTS, web(1, 1, 0))

    with pytest.raises(WaitTimeout, match=r"^deployment ci-1/web did not roll out within 10s: "):
        wait_for_objects_ready(client, "ci-1", [web(1, 1, 0)], timeout="10s")


@pytest.mark.parametrize(
    ("version", "kind", "spec", "expected"),
    [
        ("v1", "Pod", {}, True),
        ("v1", "ReplicationController", {}, True),
        ("v1", "Service", {}, False),
        ("apps/v1", "ReplicaSet", {}, True),
        ("apps/v1", "Deployment", {}, True),
        ("apps/v1", "Deployment", {"paused": True}, False),
        ("apps/v1", "DaemonSet", {"updateStrategy": {"type": "RollingUpdate"}}, True),
        ("apps/v1", "DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, False),
        ("apps/v1", "StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, False),
        ("batch/v1", "Job", {}, True),
        ("batch/v1", "Job", {"suspend": True}, False),
        ("example.com/v1", "Deployment", {}, False),
    ],
)
def test_awaited_objects(version: str, kind: str, spec: dict[str, Any], expected: bool) -> None:
    assert is_awaited({"apiVersion": version, "kind": kind, "spec": spec}) is expected
