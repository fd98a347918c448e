from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine import retry
from pytest_kwait.errors import ApiError, ClusterError, WaitFailed, WaitTimeout
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.suite.cleanup.owned_objects import Owner, read_provenance
from pytest_kwait.suite.manifest_namespaces import move_documents, parse_moves
from pytest_kwait.suite.manifests import InvalidManifest, ManifestWriter, read_manifests
from pytest_kwait.wait.backoff import Backoff
from tests.objects import definition, served_version
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = Resource(GROUP, "v1", "widgets", "Widget", namespaced=True, verbs=frozenset({"list"}))
WIDGET: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Widget",
    "metadata": {"name": "small"},
}
UNKNOWN = "manifest 1: kind='Widget' is not valid: the server has no such kind in example.com/v1"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def widgets(**fields: Any) -> dict[str, Any]:
    versions = [served_version(), served_version("v0", served=False)]
    return definition(**{"versions": versions, **fields})


def writer(
    cluster: FakeCluster,
    established: Callable[[str], object],
) -> ManifestWriter:
    return ManifestWriter(
        ApiSession.of(cluster.client()),
        "ci-1",
        owner=Owner("run-1", "gw0", "tests/test_x.py::test_y"),
        owned=True,
        deadline=lambda: Deadline.after(10),
        established=established,
        gone=lambda *_: pytest.fail("nothing is in the way"),
    )


def never(crd: str) -> None:
    pytest.fail(f"waited for {crd}")


def test_defined_kind_missing_in_discovery_is_awaited(cluster: FakeCluster) -> None:
    transport = cluster.transport
    transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = widgets()
    awaited = []

    def established(crd: str) -> None:
        awaited.append(crd)
        transport.defined.append(WIDGETS)

    (applied,) = writer(cluster, established).apply(read_manifests([WIDGET], []))
    assert applied["metadata"]["namespace"] == "ci-1"
    (created,) = writer(cluster, never).create(
        read_manifests([copy.deepcopy(WIDGET) | {"metadata": {"name": "large"}}], [])
    )
    assert created["metadata"]["name"] == "large"
    assert awaited == [f"widgets.{GROUP}"]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({}, id="nothing"),
        pytest.param(widgets(group="other.com"), id="another group"),
        pytest.param(widgets(names={"plural": "widgets", "kind": "Wicket"}), id="another kind"),
        pytest.param(widgets(versions=[{"name": "v1", "served": False}]), id="not served"),
        pytest.param(
            widgets(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), id="being deleted"
        ),
    ],
)
def test_undefined_kind_is_an_error(cluster: FakeCluster, there: dict[str, Any]) -> None:
    if there:
        cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = there
    with pytest.raises(InvalidManifest) as caught:
        writer(cluster, never).apply(read_manifests([WIDGET], []))
    assert str(caught.value) == UNKNOWN


def test_unreadable_definitions_keep_the_discovery_error(cluster: FakeCluster) -> None:
    cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = widgets()
    cluster.transport.refuse("GET", DEFINITIONS, ApiError("no", status=403, reason="Forbidden"))
    with pytest.raises(InvalidManifest) as caught:
        writer(cluster, never).apply(read_manifests([WIDGET], []))
    assert str(caught.value) == UNKNOWN


def test_a_definition_that_is_not_served_in_time_names_the_manifest(cluster: FakeCluster) -> None:
    cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = widgets()

    def established(crd: str) -> None:
        raise WaitTimeout(f"{crd} is not served")

    with pytest.raises(WaitTimeout) as caught:
        writer(cluster, established).apply(read_manifests([WIDGET], []))
    assert caught.value.__notes__ == ["widget/small of manifest 1"]


def test_definitions_are_awaited_together_before_the_first_other_object(
    cluster: FakeCluster,
) -> None:
    plurals = ["widgets", "gears", "bolts"]
    definitions = [definition(plural, plural.title()) for plural in plurals]
    written: list[int] = []

    def established(crd: str) -> None:
        written.append(sum(path.startswith(DEFINITIONS) for path in cluster.transport.objects))
        if len(written) == len(plurals):
            cluster.transport.defined.append(WIDGETS)

    writer(cluster, established).apply(read_manifests([*definitions, WIDGET], []))
    assert written == [3, 3, 3]
    cluster.transport.objects.clear()
    written.clear()
    writer(cluster, established).apply(read_manifests(definitions, []))
    assert written == [3, 3]  # all but the last


def test_a_built_in_group_is_not_looked_for_among_definitions(cluster: FakeCluster) -> None:
    cluster.transport.refuse("GET", DEFINITIONS, ApiError("no", status=500))
    with pytest.raises(InvalidManifest):
        writer(cluster, never).apply(read_manifests([WIDGET | {"apiVersion": "apps/v1"}], []))
    assert f"GET {DEFINITIONS}" not in cluster.transport.requests


_WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
_REFUSALS = {
    "apply": ApiError(
        "failed to create typed patch object (ci-1/web; apps/v1, Kind=Deployment): "
        ".spec.replcias: field not declared in schema",
        status=500,
    ),
    "create": ApiError(
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'unknown field "spec.replcias"',
        status=400,
        reason="BadRequest",
    ),
}


@pytest.mark.parametrize("verb", _REFUSALS)
def test_unknown_field_is_refused_at_once(cluster: FakeCluster, verb: str, tmp_path: Path) -> None:
    path = "/apis/apps/v1/namespaces/ci-1/deployments"
    schema = {
        "properties": {"spec": {"properties": {"replicas": {}}}},
        "x-kubernetes-group-version-kind": [
            {"group": "apps", "version": "v1", "kind": "Deployment"}
        ],
    }
    transport = cluster.transport
    transport.objects["/openapi/v3/apis/apps/v1"] = {"components": {"schemas": {"x": schema}}}
    method, place = ("PATCH", f"{path}/web") if verb == "apply" else ("POST", path)
    transport.refuse(method, place, _REFUSALS[verb])
    (tmp_path / "web.yaml").write_text(json.dumps(_WEB))
    write = getattr(writer(cluster, never), verb)

    with pytest.raises(InvalidManifest) as caught:
        write(read_manifests(["web.yaml"], [tmp_path]))
    assert str(caught.value) == (
        'manifest web.yaml: Deployment web: unknown field "spec.replcias"; did you mean '
        "spec.replicas?"
    )
    transport.refuse(method, place, _REFUSALS[verb])
    with pytest.raises(InvalidManifest, match=r"^manifest 1: Deployment web: unknown field"):
        write(read_manifests([_WEB], []))
    assert [each for each in transport.requests if each.startswith(method)] == 2 * [
        f"{method} {place}"
    ]


UNCALLED = ApiError(
    'Internal error occurred: failed calling webhook "w": failed to call webhook: Post '
    '"https://guard.ci-1.svc:443/": connection refused',
    status=500,
    reason="InternalError",
)


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_write_is_tried_again_once_its_webhook_may_be_called(
    cluster: FakeCluster, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "make_retry_backoff", lambda: Backoff(0.0, steps=1))
    cluster.transport.defined.append(WIDGETS)
    method = {"apply": "PATCH", "create": "POST"}[verb]
    place = f"/apis/{GROUP}/v1/namespaces/ci-1/widgets"

    def refuse(name: str) -> None:
        path = f"{place}/{name}" if verb == "apply" else place
        cluster.transport.refuse(method, path, UNCALLED)

    refuse("small")
    awaited: list[ApiError] = []

    def send_again(_errors: WriteErrors, error: ApiError, *_: object) -> ApiError:
        awaited.append(error)
        if len(awaited) == 2:
            raise WaitFailed("the webhook is down")
        return error

    monkeypatch.setattr(WriteErrors, "send_again", send_again)
    write = getattr(writer(cluster, never), verb)
    (written,) = write(read_manifests([WIDGET], []))
    assert written["metadata"]["name"] == "small"
    assert awaited == [UNCALLED]
    refuse("large")
    with pytest.raises(WaitFailed, match="the webhook is down") as caught:
        write(read_manifests([WIDGET | {"metadata": {"name": "large"}}], []))
    assert caught.value.__notes__ == ["widget/large of manifest 1"]


ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "shop"},
}
ROLE_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterroles/shop"
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
OURS = Owner("run-1", "tests/test_x.py::test_y", "test_y", worker="gw0", nonce="n")
KEEP = {"pytest-kwait/kept": "true"}


def writer_of(cluster: FakeCluster, owner: Owner) -> ManifestWriter:
    cluster.transport.defined = [ROLES]
    return ManifestWriter(
        ApiSession.of(cluster.client()),
        "ci-1",
        owner=owner,
        owned=True,
        deadline=lambda: Deadline.after(10),
        established=never,
        gone=lambda *_: pytest.fail("nothing is in the way"),
    )


def apply_role(cluster: FakeCluster, owner: Owner) -> tuple[ManifestWriter, dict[str, Any]]:
    made = writer_of(cluster, owner)
    (applied,) = made.apply(read_manifests([ROLE], []))
    return made, applied


@pytest.mark.parametrize(
    ("other", "described"),
    [
        (replace(OURS, test="tests/test_x.py::test_z"), "tests/test_x.py::test_z"),
        (
            replace(OURS, test="tests/test_x.py::test_z", worker="gw1"),
            "tests/test_x.py::test_z on worker gw1",
        ),
        (replace(OURS, test="tests/test_x.py", worker="gw1"), "tests/test_x.py on worker gw1"),
        (
            replace(OURS, test="tests/test_x.py environment db", shard="2/3", worker=""),
            "tests/test_x.py environment db on shard 2/3",
        ),
    ],
)
def test_an_object_of_another_test_is_not_shared(
    cluster: FakeCluster, other: Owner, described: str
) -> None:
    apply_role(cluster, other)
    with pytest.raises(ClusterError) as caught:
        apply_role(cluster, OURS)
    assert str(caught.value) == (
        f"clusterrole/shop belongs to {described}, which deletes it at its end; give it another "
        "name, create it in an environment of scope session or run, or mark both with kwait_serial"
    )
    assert caught.value.__notes__ == ["clusterrole/shop of manifest 1"]
    refused = pytest.raises(ApiError, match="already exists")
    with refused as exists:
        writer_of(cluster, OURS).create(read_manifests([ROLE], []))
    assert exists.value.__notes__[0] == f"it belongs to {described}"


@pytest.mark.parametrize(
    "other",
    [
        replace(OURS, test="session", worker="gw1"),
        replace(OURS, test="session environment crds", worker="gw1"),
        replace(OURS, test="environment tests/conftest.py::crds", worker="gw1"),
        replace(OURS, test="factory shared", worker="gw1"),
        replace(OURS, test="tests/test_x.py"),
        replace(OURS, test="tests/test_x.py environment db"),
        replace(OURS, worker="gw1"),
        replace(OURS, run="run-2", test="tests/test_z.py::test_z"),
    ],
    ids=str,
)
def test_objects_that_last_are_shared_and_stay(cluster: FakeCluster, other: Owner) -> None:
    _, before = apply_role(cluster, other)
    made, applied = apply_role(cluster, OURS)
    assert applied["metadata"]["labels"] == before["metadata"]["labels"]
    assert made.delete() == []
    assert ROLE_PATH in cluster.transport.objects


def test_a_kept_object_is_applied_to(cluster: FakeCluster) -> None:
    other = replace(OURS, test="tests/test_x.py::test_z")
    apply_role(cluster, other)[0].keep()
    apply_role(cluster, OURS)
    assert cluster.transport.objects[ROLE_PATH]["metadata"]["annotations"].items() >= KEEP.items()


def test_own_objects_are_applied_again_with_their_labels(cluster: FakeCluster) -> None:
    made, _ = apply_role(cluster, OURS)
    (again,) = made.apply(read_manifests([ROLE], []))
    provenance = read_provenance(ROLES, again)
    assert provenance is not None
    assert provenance.owner.test == OURS.test
    assert made.delete() == []
    assert ROLE_PATH not in cluster.transport.objects


def test_an_object_of_two_tests_at_the_same_moment_is_a_conflict(cluster: FakeCluster) -> None:
    """Each test's apply has a field manager of its own, so the seals of two are a conflict."""
    apply_role(cluster, replace(OURS, test="tests/test_x.py::test_z"))
    made = writer_of(cluster, OURS)
    missing = ApiError("not found", status=404, reason="NotFound")
    conflict = ApiError("conflict with pytest-kwait-1", status=409, reason="Conflict")
    cluster.transport.refuse("GET", ROLE_PATH, missing)
    cluster.transport.refuse("PATCH", ROLE_PATH, conflict)
    with pytest.raises(ClusterError, match="::test_z, which deletes it"):
        made.apply(read_manifests([ROLE], []))


def test_a_namespace_of_a_moved_manifest_is_applied(cluster: FakeCluster) -> None:
    home = "/api/v1/namespaces/ci-1"
    cluster.transport.objects[home] = {"kind": "Namespace", "metadata": {"name": "ci-1"}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"a": "b"}},
    }
    documents = move_documents(read_manifests([manifest], []), parse_moves(True, "ci-1"))
    made = writer(cluster, never)
    (created,) = made.create(documents, target="ci-1")
    assert created["metadata"]["labels"] == {"a": "b"}
    assert made.delete() == []
    assert home in cluster.transport.objects
