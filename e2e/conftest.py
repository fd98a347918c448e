"""The `needs` marker, the nodes that have a kubelet, and a cluster with load balancers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from e2e.kubelet_nodes import list_kubelet_nodes
from e2e.objects import service
from pytest_kwait import WaitTimeout
from pytest_kwait.clusters import ClusterRequest, choose_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait import Kwait, KwaitFactory
    from pytest_kwait.clusters import Cluster

IMAGES = "images"
"""The capability of clusters whose nodes run images: the embedded cluster's nodes run none."""

SERVICE_NETWORK = "service network"
"""The capability of clusters with a DNS server and a proxy for services."""

PROGRAMS = "programs"
"""The capability of clusters that have the images of `e2e/programs`."""

MAPPINGS = "image mappings"
"""The capability of the embedded cluster: images mapped to programs, and events about them."""

NETWORK_POLICIES = "network policies"
"""The capability of clusters that enforce them; in them programs are mapped to images."""

PROVISIONER = "provisioner"
"""The capability of clusters that make volumes for claims: a default storage class."""


@pytest.fixture(autouse=True)
def capable(request: pytest.FixtureRequest) -> None:
    """Skip a test that needs a capability that the cluster lacks."""
    needed = [need for mark in request.node.iter_markers("needs") for need in mark.args]
    if not needed:
        return
    known = {IMAGES, MAPPINGS, NETWORK_POLICIES, PROGRAMS, PROVISIONER, SERVICE_NETWORK}
    unknown = sorted(set(needed) - known)
    if unknown:
        pytest.fail(f"needs {', '.join(unknown)}: known are {', '.join(sorted(known))}")
    provider = request.getfixturevalue("kwait_cluster").provider
    if IMAGES in needed and provider in ("embedded", "binaries"):
        pytest.skip("the nodes of the embedded cluster run no images")
    if provider == "embedded":
        return
    if NETWORK_POLICIES in needed and provider != "binaries":
        pytest.skip("no network plugin here enforces network policies")
    elif MAPPINGS in needed:
        pytest.skip("about image mappings and events that only the embedded cluster has")
    elif PROGRAMS in needed and not request.getfixturevalue("images_on_nodes"):
        pytest.skip("only `python -m tools.controlplane run` makes images of these programs")
    elif PROVISIONER in needed and not request.getfixturevalue("kwait").list("storageclasses"):
        pytest.skip("no storage class: nothing makes volumes for claims")
    elif SERVICE_NETWORK in needed:
        services = request.getfixturevalue("kwait").list("services", namespace="kube-system")
        if not any(service["metadata"]["name"] == "kube-dns" for service in services):
            pytest.skip("no service kube-dns: the cluster has no DNS server and no kube-proxy")


@pytest.fixture
def kubelets(kwait: Kwait) -> tuple[str, ...]:
    """Return the names of the nodes with a kubelet."""
    return list_kubelet_nodes(kwait)


@pytest.fixture(scope="session")
def clusters_of_tests() -> Iterator[ExitStack]:
    """Return what ends further clusters."""
    with ExitStack() as ends:
        yield ends


@pytest.fixture(scope="session")
def kwait_factory(clusters_of_tests: ExitStack, kwait_factory: KwaitFactory) -> KwaitFactory:
    """Return what makes namespaces; it ends before further clusters do."""
    del clusters_of_tests
    return kwait_factory


@pytest.fixture(scope="session")
def balancing_cluster(
    clusters_of_tests: ExitStack, kwait_cluster: Cluster, kwait_factory: KwaitFactory
) -> Cluster:
    """Return a cluster whose services of type LoadBalancer get addresses.

    It is an embedded one beside that of the run, or the run's own, if it has load balancers.
    """
    if kwait_cluster.provider == "embedded":
        cluster = choose_provider("embedded", ClusterRequest(load_balancers=True)).start()
        clusters_of_tests.callback(cluster.stop)
        return cluster
    if not has_load_balancers(kwait_factory):
        pytest.skip("nothing gives services of type LoadBalancer addresses here")
    return kwait_cluster


def has_load_balancers(kwait_factory: KwaitFactory) -> bool:
    """Return whether services of the run's own cluster get load balancers."""
    with kwait_factory("balancer") as kwait:
        kwait.create(service("probe", type="LoadBalancer"))
        try:
            kwait.wait_for_load_balancer("probe", timeout="10s")
        except WaitTimeout:
            return False
        return True


@pytest.fixture
def balanced(kwait_factory: KwaitFactory, balancing_cluster: Cluster) -> Iterator[Kwait]:
    """Return a namespace of a cluster with load balancers."""
    with kwait_factory("balanced", cluster=balancing_cluster) as kwait:
        yield kwait
