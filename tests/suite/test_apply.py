from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.client.resource import Resource
from pytest_kwait.client.session import Session
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.suite.apply import ManifestWriter
from pytest_kwait.suite.cleanup.owned_objects import Owner
from pytest_kwait.suite.manifests import InvalidManifest, read_manifests
from tests.suite.fakes import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = Resource(GROUP, "v1", "widgets", "Widget", namespaced=True, verbs=frozenset({"list"}))
WIDGET: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Widget",
    "metadata": {"name": "small"},
}
UNKNOWN = "manifest 1: kind='Widget' is not valid: a kind that the server has in example.com/v1"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def definition(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}", **changes.pop("metadata", {})},
        "spec": {
            "group": GROUP,
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
            **changes,
        },
    }


def writer(cluster: FakeCluster, established: Callable[[str], object]) -> ManifestWriter:
    return ManifestWriter(
        Session.of(cluster.client()),
        "ci-1",
        owner=Owner("run-1", "gw0", "tests/test_x.py::test_y"),
        owned=True,
        deadline=lambda: Deadline.after(10),
        established=established,
        gone=lambda *_: pytest.fail("nothing is in the way"),
    )


def never(crd: str) -> None:
    pytest.fail(f"waited for {crd}")


def test_a_kind_that_is_defined_and_not_told_yet_is_awaited(cluster: FakeCluster) -> None:
    transport = cluster.transport
    transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = definition()
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
        pytest.param(definition(group="other.com"), id="another group"),
        pytest.param(definition(names={"plural": "widgets", "kind": "Wicket"}), id="another kind"),
        pytest.param(definition(versions=[{"name": "v1", "served": False}]), id="not served"),
        pytest.param(
            definition(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), id="being deleted"
        ),
    ],
)
def test_a_kind_that_nothing_defines_is_none(cluster: FakeCluster, there: dict[str, Any]) -> None:
    if there:
        cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = there
    with pytest.raises(InvalidManifest) as caught:
        writer(cluster, never).apply(read_manifests([WIDGET], []))
    assert str(caught.value) == UNKNOWN


def test_who_may_not_see_definitions_is_told_what_was_wrong(cluster: FakeCluster) -> None:
    cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = definition()
    cluster.transport.refuse("GET", DEFINITIONS, ApiError("no", status=403, reason="Forbidden"))
    with pytest.raises(InvalidManifest) as caught:
        writer(cluster, never).apply(read_manifests([WIDGET], []))
    assert str(caught.value) == UNKNOWN


def test_a_definition_that_is_not_served_in_time_names_the_manifest(cluster: FakeCluster) -> None:
    cluster.transport.objects[f"{DEFINITIONS}/widgets.{GROUP}"] = definition()

    def established(crd: str) -> None:
        raise WaitTimeout(f"{crd} is not served")

    with pytest.raises(WaitTimeout) as caught:
        writer(cluster, established).apply(read_manifests([WIDGET], []))
    assert caught.value.__notes__ == ["widget/small of manifest 1"]


def test_a_built_in_group_is_not_looked_for_among_definitions(cluster: FakeCluster) -> None:
    cluster.transport.refuse("GET", DEFINITIONS, ApiError("no", status=500))
    with pytest.raises(InvalidManifest):
        writer(cluster, never).apply(read_manifests([WIDGET | {"apiVersion": "apps/v1"}], []))
    assert f"GET {DEFINITIONS}" not in cluster.transport.requests
