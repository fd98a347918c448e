"""Other users of a `Kwait`: what is theirs, and what stays with the run's own user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.client.impersonation import Impersonation
from pytest_kwait.client.responses import Response
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.errors import ApiError, ClusterError, InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.suite.bound_wait import WaitDefaults
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.kwait import Kwait, NamespaceRequest
from tests.clusters.kubeconfigs import contents, written
from tests.objects import config_map, node, pod
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait.clusters.cluster import Cluster

_SETTINGS = Settings().merged({"mode": "poll", "poll": 0.01}, lambda _: "option")


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    cluster = FakeCluster()
    cluster.kubeconfig = written(tmp_path / "config", contents("ours"))
    send = cluster.transport.send

    def answer(method: str, path: str, **options: Any) -> Any:
        if path.endswith("/token"):
            return Response(201, {}, json.dumps({"status": {"token": "its-token"}}).encode())
        return send(method, path, **options)

    cluster.transport.send = answer  # type: ignore[method-assign]
    return cluster


@pytest.fixture
def kwait(cluster: FakeCluster, tmp_path: Path) -> Iterator[Kwait]:
    made = make_kwait(cluster, tmp_path, "ci-1")
    yield made
    made.close()


def make_kwait(cluster: FakeCluster, folder: Path, namespace: str) -> Kwait:
    client = cluster.client()
    defaults = WaitDefaults(client, namespace, _SETTINGS, _SETTINGS.timeouts())

    def further(request: NamespaceRequest) -> Kwait:
        return make_kwait(cluster, folder, request.name)

    return Kwait(
        cast("Cluster", cluster),
        client,
        namespace,
        owner=Owner("r1", "tests/test_x.py::test_y", "test_y"),
        defaults=lambda: defaults,
        folders=lambda: [folder],
        owned=True,
        namespace_maker=further,
    )


def user_of(kwait: Kwait) -> dict[str, Any]:
    """Return the user of a `Kwait`, as its kubeconfig names it."""
    [user] = read_kubeconfig(kwait.cluster.kubeconfig).contents["users"]
    fields: dict[str, Any] = user["user"]
    return fields


def test_a_user_by_impersonation(kwait: Kwait) -> None:
    jane = kwait.as_user("jane", groups=["devs"], uid="1", extra={"scopes": ["read"]})

    impersonated = Impersonation("jane", ("devs",), "1", {"scopes": ("read",)})
    assert user_of(jane) == {"token": "token-of-ours", **impersonated.kubeconfig_fields()}
    assert (jane.namespace, jane.settings, jane.timeouts) == (
        ("ci-1", kwait.settings, kwait.timeouts)
    )
    session, own = ApiSession.of(jane.client), ApiSession.of(kwait.client)
    assert (session.base, own.base) == (own, own)
    assert session.kubectl_args == ("--kubeconfig", str(jane.cluster.kubeconfig))
    assert (session.clock, session.time_budget) == (own.clock, own.time_budget)


def test_the_same_user_is_made_once(kwait: Kwait) -> None:
    jane = kwait.as_user("jane", groups=["devs"])
    assert kwait.as_user("jane", groups=("devs",)) is jane
    assert kwait.as_user("jane") is not jane
    assert jane.as_user("john") is kwait.as_user("john")


def test_a_service_account_by_its_token(kwait: Kwait) -> None:
    builder = kwait.as_service_account("builder")
    assert user_of(builder) == {"token": "its-token"}
    assert builder.namespace == "ci-1"
    other = kwait.as_user("jane").as_service_account("sa/builder", namespace="peer")
    assert other._defaults().user == "system:serviceaccount:peer:builder"
    assert other.namespace == "ci-1"


def test_files_and_clients_go_with_the_namespace(kwait: Kwait) -> None:
    users = kwait.as_user("jane"), kwait.as_service_account("builder")
    kwait.close()
    assert not any(user.cluster.kubeconfig.exists() for user in users)
    assert all(cast("Any", user.client).closed for user in users)


def test_what_a_user_creates_is_removed_by_the_run_s_own(
    kwait: Kwait, cluster: FakeCluster
) -> None:
    path = "/api/v1/nodes/node-9"
    kwait.as_user("jane").apply(node("node-9"))
    assert path in cluster.transport.objects
    assert kwait.close() == []
    assert cluster.transport.requests[-1] == f"DELETE {path}"


def test_what_a_user_changes_is_restored_by_the_run_s_own(
    kwait: Kwait, cluster: FakeCluster
) -> None:
    cluster.transport.objects["/api/v1/nodes/old"] = node("old", labels={"zone": "a"}) | {
        "metadata": {"name": "old", "uid": "u", "labels": {"zone": "a"}}
    }
    kwait.as_user("jane").label("node/old", {"zone": "b"}, overwrite=True)
    kwait.close()
    labels = cluster.transport.objects["/api/v1/nodes/old"]["metadata"]["labels"]
    assert labels == {"zone": "a"}


def test_a_further_namespace_is_the_same_user_s(kwait: Kwait) -> None:
    peer = kwait.as_user("jane").create_namespace("peer")
    assert (peer.namespace, user_of(peer)["as"]) == ("peer", "jane")
    builder = kwait.as_service_account("builder").create_namespace("peer")
    assert (builder.namespace, user_of(builder)) == ("peer", {"token": "its-token"})


def test_a_user_of_a_run_that_creates_no_namespaces(cluster: FakeCluster, tmp_path: Path) -> None:
    kwait = make_kwait(cluster, tmp_path, "ci-1")
    kwait._namespace_maker = None
    with pytest.raises(ClusterError, match="a run with a given namespace creates none"):
        kwait.as_user("jane").create_namespace("peer")
    kwait.close()


def test_a_failed_wait_names_the_user(kwait: Kwait) -> None:
    kwait.create(pod("web"))
    for user, name in (
        (kwait.as_user("jane"), "jane"),
        (kwait.as_service_account("builder"), "system:serviceaccount:ci-1:builder"),
    ):
        with pytest.raises(WaitTimeout) as late:
            user.wait_for("pod/web", "delete", timeout=0.01)
        assert late.value.__notes__ == [f"the wait's requests were those of user {name}"]
    with pytest.raises(WaitTimeout) as late:
        kwait.wait_for("pod/web", "delete", timeout=0.01)
    assert not hasattr(late.value, "__notes__")


def test_a_failed_wait_is_explained_with_the_rights_of_the_run(
    kwait: Kwait, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = pod("web", phase="Failed")
    cluster.transport.objects["/api/v1/namespaces/ci-1/pods/web"] = failing
    jane = kwait.as_user("jane")
    asked = []
    own_list = ApiSession.list

    def listed(session: ApiSession, resource: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(("jane" if session.base is not session else "", resource.plural))
        return own_list(session, resource, *arguments, **options)

    monkeypatch.setattr(ApiSession, "list", listed)
    with pytest.raises(WaitFailed):
        jane.wait_for_pod_ready("web", timeout=5)
    assert ("", "events") in asked
    assert ("jane", "events") not in asked
    assert ("jane", "pods") in asked


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_review_is_answered_and_not_stored(
    kwait: Kwait, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """It has no name and no UID, and nothing removes it."""
    review = {"metadata": {}, "status": {"allowed": True}}
    monkeypatch.setattr(ApiSession, verb, lambda *_, **__: review)
    assert getattr(kwait, verb)(config_map("me", namespace="other")) == [review]
    cluster.transport.requests.clear()
    kwait.close()
    assert cluster.transport.requests == []


def test_an_account_that_is_not_there(kwait: Kwait, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ApiError('serviceaccounts "no" not found', status=404, reason="NotFound")

    monkeypatch.setattr(ApiSession, "request", refuse)
    with pytest.raises(ApiError, match='serviceaccounts "no" not found'):
        kwait.as_service_account("no")


def test_an_invalid_user_is_refused(kwait: Kwait) -> None:
    with pytest.raises(InvalidArgument, match="groups='devs' is not valid"):
        kwait.as_user("jane", groups="devs")
