"""Dry runs: the server's answer is returned, and nothing is stored, owned or recorded."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import CONFIG_MAPS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.retry import create_once
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.suite.manifests import InvalidManifest
from tests.objects import definition, served_version
from tests.suite.fakes import FakeCluster
from tests.suite.test_kwait import make_kwait

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait import Kwait

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "example.com/a",
}
CLASS_PATH = "/apis/storage.k8s.io/v1/storageclasses/fast"
NODE_PATH = "/api/v1/nodes/n1"
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "small"}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def kwait(cluster: FakeCluster, tmp_path: Path) -> Kwait:
    return make_kwait(cluster, tmp_path, owned=True)


def writes(cluster: FakeCluster) -> list[str]:
    return [each for each in cluster.transport.requests if not each.startswith("GET ")]


@pytest.mark.parametrize("verb", ["apply", "create"])
def test_a_dry_run_returns_objects_and_stores_none(
    kwait: Kwait, cluster: FakeCluster, verb: str
) -> None:
    (config, storage_class) = getattr(kwait, verb)(CONFIG, CLASS, dry_run=True)

    assert (config["metadata"]["namespace"], config["data"]) == (kwait.namespace, {"a": "1"})
    # As apply and create label objects outside of the test's namespace.
    assert set(storage_class["metadata"]["labels"]) == {"pytest-kwait/run", "pytest-kwait/owner"}
    assert cluster.transport.objects == {}
    assert len(writes(cluster)) == 2
    assert kwait.close() == []
    assert not [each for each in cluster.transport.requests if each.startswith("DELETE")]


def test_the_run_does_not_register_a_kind_for_a_dry_run(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    registered: list[str] = []
    registration: Any = SimpleNamespace(place=lambda: "kwait/run", record=registered.append)
    kwait = make_kwait(cluster, tmp_path, owned=True)
    kwait._writer._owner = replace(kwait._writer._owner, registration=registration)

    kwait.create(CLASS, dry_run=True)
    assert registered == []
    kwait.create(CLASS)
    assert registered == ["storageclasses.v1.storage.k8s.io"]


def test_an_own_object_stays_as_it_is(kwait: Kwait, cluster: FakeCluster) -> None:
    kwait.apply(CLASS)
    stored = copy.deepcopy(cluster.transport.objects[CLASS_PATH])
    changed = {**CLASS, "provisioner": "example.com/b"}

    (tried,) = kwait.apply(changed, dry_run=True)

    assert tried["provisioner"] == "example.com/b"
    assert cluster.transport.objects[CLASS_PATH] == stored


def test_a_refusal_is_raised_as_without_a_dry_run(kwait: Kwait, cluster: FakeCluster) -> None:
    path = f"/api/v1/namespaces/{kwait.namespace}/configmaps"
    cluster.transport.refuse("POST", path, ApiError("exceeded quota", status=403))

    with pytest.raises(ApiError, match="exceeded quota") as caught:
        kwait.create(CONFIG, dry_run=True)

    assert caught.value.__notes__ == ["configmap/c of manifest 1"]


def test_an_existing_object_is_one_after_a_lost_answer_too(cluster: FakeCluster) -> None:
    """A dry run stores nothing, so the object is another's."""
    transport = cluster.transport
    path = "/api/v1/namespaces/ci-1/configmaps"
    transport.objects[f"{path}/c"] = copy.deepcopy(CONFIG)
    transport.refuse("POST", path, ApiError("lost", status=0, reason="ConnectionReset"))
    session = ApiSession.of(cluster.client())

    with pytest.raises(ApiError, match="c already exists"):
        create_once(
            session,
            CONFIG_MAPS,
            CONFIG,
            "ci-1",
            Deadline.after(10),
            errors=WriteErrors(session),
            dry_run=True,
        )


def test_a_definition_of_a_dry_run_is_not_awaited(kwait: Kwait, cluster: FakeCluster) -> None:
    (tried, _) = kwait.apply(definition(versions=[served_version()]), CONFIG, dry_run=True)

    assert tried["metadata"]["name"] == "widgets.example.com"
    assert cluster.transport.objects == {}


def test_a_kind_that_only_a_dry_run_defines(kwait: Kwait) -> None:
    with pytest.raises(InvalidManifest) as caught:
        kwait.apply(definition(versions=[served_version()]), WIDGET, dry_run=True)

    assert str(caught.value) == (
        "manifest 2: kind='Widget' is not valid: the server has no such kind in example.com/v1; "
        "a dry run stores no definitions: apply customresourcedefinition/widgets.example.com first"
    )


CHANGES: dict[str, Callable[[Kwait], dict[str, Any]]] = {
    "patch": lambda kwait: kwait.patch(
        "node/n1", {"metadata": {"labels": {"a": "b"}}}, type="merge", dry_run=True
    ),
    "update": lambda kwait: kwait.update(
        "node/n1", lambda node: node["metadata"].update(labels={"a": "b"}), dry_run=True
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_object_of_the_cluster_is_not_recorded(
    kwait: Kwait, cluster: FakeCluster, change: Callable[[Kwait], dict[str, Any]]
) -> None:
    """Nothing is restored either, and the test need not run alone."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}}
    cluster.transport.objects[NODE_PATH] = copy.deepcopy(node)
    cluster.fault_place = lambda: SimpleNamespace(alone=False)  # type: ignore[attr-defined] # of clusters with tests side by side

    tried = change(kwait)

    assert tried["metadata"]["labels"] == {"a": "b"}
    assert cluster.transport.objects[NODE_PATH] == node
    assert len(writes(cluster)) == 1
    assert kwait.close() == []
    assert len(writes(cluster)) == 1


@pytest.mark.parametrize("verb", ["apply", "create", "patch", "update"])
def test_a_dry_run_is_true_or_false(kwait: Kwait, cluster: FakeCluster, verb: str) -> None:
    arguments: dict[str, Any] = {
        "patch": ("configmap/c", {"data": {}}),
        "update": ("configmap/c", lambda obj: obj),
    }
    with pytest.raises(InvalidArgument) as caught:
        getattr(kwait, verb)(*arguments.get(verb, (CONFIG,)), dry_run="server")

    assert str(caught.value) == "dry_run='server' is not valid: use True or False"
    assert cluster.transport.requests == []
