"""The `needs` marker, and the nodes that have a kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.kubelet_nodes import list_kubelet_nodes

if TYPE_CHECKING:
    from pytest_kwait import Kwait

IMAGES = "images"
"""The capability of clusters whose nodes run images: the embedded cluster's nodes run none."""

SERVICE_NETWORK = "service network"
"""The capability of clusters with a DNS server and a proxy for services."""

PROGRAMS = "programs"
"""The capability of clusters that have the images of `e2e/programs`."""

MAPPINGS = "image mappings"
"""The capability of the embedded cluster: images mapped to programs, and events about them."""

PROVISIONER = "provisioner"
"""The capability of clusters that make volumes for claims: a default storage class."""


@pytest.fixture(autouse=True)
def capable(request: pytest.FixtureRequest) -> None:
    """Skip a test that needs a capability that the cluster lacks."""
    needed = [need for mark in request.node.iter_markers("needs") for need in mark.args]
    if not needed:
        return
    known = {IMAGES, MAPPINGS, PROGRAMS, PROVISIONER, SERVICE_NETWORK}
    unknown = sorted(set(needed) - known)
    if unknown:
        pytest.fail(f"needs {', '.join(unknown)}: known are {', '.join(sorted(known))}")
    provider = request.getfixturevalue("kwait_cluster").provider
    if IMAGES in needed and provider in ("embedded", "binaries"):
        pytest.skip("the nodes of the embedded cluster run no images")
    if provider == "embedded":
        return
    if MAPPINGS in needed:
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
