"""Rollbacks: kubectl's rules of revisions, and what is written.

Source: kubectl/pkg/polymorphichelpers/rollback_test.go, rollback.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.operations.rollout import rollout_undo
from tests.objects import REVISION, deployment, replica_set, workload

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from tests.framework.writable_session import WritingSession

KINDS = [(STATEFUL_SETS, "statefulset/db"), (DAEMON_SETS, "daemonset/db")]
CAUSE = "kubernetes.io/change-cause"


def put_history(session: WritingSession, *revisions: int, **parts: Any) -> None:
    """Put a complete Deployment, and a ReplicaSet with an image of its own for each revision."""
    newest = max(revisions, default=1)
    image = f"web:{newest}"
    session.put(DEPLOYMENTS, deployment(2, 2, 2, revision=str(newest), image=image, **parts))
    for each in revisions:
        notes = {CAUSE: f"release {each}"}
        image = f"web:{each}"
        session.put(
            REPLICA_SETS, replica_set(f"web-{each}", str(each), image=image, annotations=notes)
        )


def image_written(session: WritingSession) -> str:
    """Return the image of the only patch."""
    ((verb, plural, name, patch),) = session.written
    assert (verb, plural, name) == ("patch", "deployments", "web")
    (container,) = patch[0]["value"]["spec"]["containers"]
    return str(container["image"])


@pytest.mark.parametrize(
    ("revisions", "wanted", "image"),
    [
        ((1, 2, 3), None, "web:2"),
        ((1, 2, 3), 0, "web:2"),
        ((1, 2, 3), 1, "web:1"),
        # An earlier rollback has renumbered revision 2, and history may be cut.
        ((1, 3, 12), None, "web:3"),
        ((2, 10), None, "web:2"),
    ],
)
def test_the_template_of_a_revision_is_written(
    client: ApiClient, session: WritingSession, revisions: Any, wanted: Any, image: str
) -> None:
    put_history(session, *revisions)

    rollout_undo(client, "ci-1", "deployment/web", wanted)

    assert image_written(session) == image


def test_annotations_of_the_revision_come_back(client: ApiClient, session: WritingSession) -> None:
    """All but those of Deployments themselves, and the hash of the ReplicaSet's labels."""
    own = {
        REVISION: "2",
        CAUSE: "release 2",
        "extra": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    put_history(session, 1, 2, metadata={"annotations": own})

    rollout_undo(client, "ci-1", "deployment/web")

    template, annotations = session.written[0][3]
    assert template["path"] == "/spec/template"
    assert "pod-template-hash" not in str(template["value"])
    assert annotations == {
        "op": "replace",
        "path": "/metadata/annotations",
        "value": {
            REVISION: "2",
            CAUSE: "release 1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    }


def test_nothing_is_written_if_the_template_is_there_already(
    client: ApiClient, session: WritingSession
) -> None:
    put_history(session, 1, 2)

    assert rollout_undo(client, "ci-1", "deployment/web", 2)["metadata"]["name"] == "web"
    assert session.written == []


@pytest.mark.parametrize(
    ("revisions", "wanted", "parts", "text"),
    [
        (
            (1, 2),
            99,
            {},
            "to_revision=99 is not valid: deployment/web has the revisions 1, 2",
        ),
        ((), 1, {}, "to_revision=1 is not valid: deployment/web has the revisions none"),
        ((1,), None, {}, "target='deployment/web' is not valid: it has no earlier revision"),
        ((1,), 0, {}, "target='deployment/web' is not valid: it has no earlier revision"),
        (
            (1, 2),
            None,
            {"paused": True},
            "target='deployment/web' is not valid: it is paused: resume it first",
        ),
        ((1, 2), -1, {}, "to_revision=-1 is not valid: use a whole number, 0 or more"),
    ],
)
def test_revisions_that_are_not_there(
    client: ApiClient, session: WritingSession, revisions: Any, wanted: Any, parts: Any, text: str
) -> None:
    put_history(session, *revisions, **parts)

    with pytest.raises(InvalidArgument) as caught:
        rollout_undo(client, "ci-1", "deployment/web", wanted)

    assert str(caught.value) == text
    assert session.written == []


def test_replica_sets_of_others_are_no_history(client: ApiClient, session: WritingSession) -> None:
    put_history(session, 2)
    session.put(REPLICA_SETS, replica_set("other", "1", owner="uid-other"))
    session.put(REPLICA_SETS, replica_set("bare", "none"))

    with pytest.raises(InvalidArgument, match="it has no earlier revision"):
        rollout_undo(client, "ci-1", "deployment/web")


def test_a_missing_deployment(client: ApiClient, session: WritingSession) -> None:
    with pytest.raises(ApiError, match=r'deployments\.apps "web" not found'):
        rollout_undo(client, "ci-1", "deployment/web")


def data(number: int) -> dict[str, Any]:
    return {"spec": {"template": {"$patch": "replace", "spec": {"number": number}}}}


def put_set(session: WritingSession, kind: Resource, *revisions: int, **spec: Any) -> None:
    """Put a rolled out set, and its ControllerRevisions."""
    counts = ("readyReplicas", "updatedReplicas", "desiredNumberScheduled")
    more = ("updatedNumberScheduled", "numberAvailable")
    status = dict.fromkeys((*counts, *more), 1)
    session.put(kind, workload(kind.kind, "db", replicas=1, status=status, **spec))
    for each in revisions:
        owners = [{"uid": "uid-db", "controller": True}]
        named = {"name": f"db-{each}", "labels": {"app": "db"}, "ownerReferences": owners}
        session.put(CONTROLLER_REVISIONS, {"metadata": named, "revision": each, "data": data(each)})


@pytest.mark.parametrize(("kind", "target"), KINDS)
@pytest.mark.parametrize(("wanted", "number"), [(None, 2), (0, 2), (1, 1)])
def test_the_data_of_a_controller_revision_is_written(
    client: ApiClient,
    session: WritingSession,
    kind: Resource,
    target: str,
    wanted: Any,
    number: int,
) -> None:
    put_set(session, kind, 1, 2, 3)

    rollout_undo(client, "ci-1", target, wanted)

    assert session.written == [("patch", kind.plural, "db", data(number))]


@pytest.mark.parametrize(("kind", "target"), KINDS)
@pytest.mark.parametrize(
    ("revisions", "wanted", "text"),
    [
        ((1,), None, "it has no earlier revision"),
        ((1, 2), 3, "to_revision=3 is not valid: .*/db has the revisions 1, 2"),
    ],
)
def test_controller_revisions_that_are_not_there(
    client: ApiClient,
    session: WritingSession,
    kind: Resource,
    target: str,
    revisions: Any,
    wanted: Any,
    text: str,
) -> None:
    put_set(session, kind, *revisions)

    with pytest.raises(InvalidArgument, match=text):
        rollout_undo(client, "ci-1", target, wanted)
    assert session.written == []


@pytest.mark.parametrize(("kind", "target"), KINDS)
def test_the_newest_controller_revision_needs_no_write(
    client: ApiClient, session: WritingSession, kind: Resource, target: str
) -> None:
    put_set(session, kind, 1, 2)

    rollout_undo(client, "ci-1", target, 2)
    assert session.written == []


@pytest.mark.parametrize(("kind", "target"), KINDS)
def test_a_set_that_is_not_updated_by_rolling(
    client: ApiClient, session: WritingSession, kind: Resource, target: str
) -> None:
    put_set(session, kind, 1, 2, updateStrategy={"type": "OnDelete"})

    with pytest.raises(InvalidArgument) as caught:
        rollout_undo(client, "ci-1", target)
    assert str(caught.value) == (
        f"target='{target}' is not valid: its update strategy is OnDelete: delete its pods instead"
    )
    assert session.written == []


def test_only_workloads_with_revisions(client: ApiClient, session: WritingSession) -> None:
    with pytest.raises(InvalidArgument) as caught:
        rollout_undo(client, "ci-1", "job/web")
    assert str(caught.value) == (
        "target='job/web' is not valid: use 'deployment/name', 'daemonset/name' or "
        "'statefulset/name'"
    )
