"""The filter of connections follows policies and what they select."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.network.network_policies import NETWORK_POLICIES, get_network_policies
from pytest_kwait.simulator.network.pod_network import get_pod_networks
from tests.objects import pod

if TYPE_CHECKING:
    from tests.simulator.cluster import Cluster

POLICY = {"podSelector": {}, "policyTypes": ["Ingress"]}


@pytest.fixture
def updates(cluster: Cluster) -> list[str]:
    """Return a list that grows with each update of the filter of a cluster with a policy."""
    made: list[str] = []
    network: Any = SimpleNamespace(update_filter=lambda: made.append("update"))
    get_pod_networks(cluster.api).current = network
    cluster.create(NETWORK_POLICIES, "closed", POLICY)
    cluster.run(1)
    return made


def test_changes_of_one_moment_are_one_update(cluster: Cluster, updates: list[str]) -> None:
    assert updates
    updates.clear()
    for name in ("second", "third"):
        cluster.create(NETWORK_POLICIES, name, POLICY)
    assert not updates
    cluster.clock.advance(0)
    assert updates == ["update"]


@pytest.mark.parametrize("resource", ["pods", "namespaces", "endpointslices.discovery.k8s.io"])
def test_what_policies_depend_on(cluster: Cluster, updates: list[str], resource: str) -> None:
    updates.clear()
    if resource == "pods":
        cluster.api.create(resource, pod("web"), "t")
    elif resource == "namespaces":
        cluster.api.create(resource, {"metadata": {"name": "other"}})
    else:
        content = {"metadata": {"name": "web"}, "addressType": "IPv4", "endpoints": []}
        cluster.api.create(resource, content, "t")
    cluster.clock.advance(0)
    assert updates


@pytest.mark.parametrize(("labels", "is_update"), [({"app": "web"}, True), ({}, False)])
def test_changes_of_pods_that_policies_depend_on(
    cluster: Cluster, updates: list[str], labels: dict[str, str], is_update: bool
) -> None:
    cluster.create("pods", "p", {"containers": [{"name": "c", "image": "busybox:1.36"}]})
    cluster.run(10)
    updates.clear()
    cluster.change(
        "pods", "p", lambda pod: pod["metadata"].update(labels=labels, annotations={"a": "b"})
    )
    cluster.clock.advance(0)
    assert bool(updates) == is_update


def test_interpreted_pods_need_no_filter(cluster: Cluster) -> None:
    """They ask for the policies at each connection, so that no event says otherwise."""
    cluster.create(NETWORK_POLICIES, "closed", POLICY)
    cluster.run(1)
    assert cluster.events("closed") == []


def test_what_was_reported_of_a_policy_is_forgotten_with_it(
    cluster: Cluster, updates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    policies = get_network_policies(cluster.api)
    monkeypatch.setattr(policies, "forget", lambda obj: forgotten.append(obj["metadata"]["name"]))
    cluster.delete(NETWORK_POLICIES, "closed")
    assert forgotten == ["closed"]
    assert updates
