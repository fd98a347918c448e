"""The API server's own service and the ranges of services."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.controllers.kubernetes_service import KubernetesServiceController
from tests.simulator.cluster import NAMESPACE, Cluster, new_cluster

SLICES, CIDRS = "endpointslices.discovery.k8s.io", "servicecidrs.networking.k8s.io"
PORT = {"name": "https", "port": 6443, "protocol": "TCP"}
FINALIZER = "networking.k8s.io/service-cidr-finalizer"


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    KubernetesServiceController(cluster.api, "172.30.0.1", 6443)
    return cluster


def _find(cluster: Cluster, resource: str) -> dict[str, Any] | None:
    return cluster.api.find(resource, "kubernetes", "default")


def _content(cluster: Cluster, resource: str, *fields: str) -> list[Any]:
    found = _find(cluster, resource)
    assert found is not None
    return [found["metadata"]["labels"], *(found[field] for field in fields)]


def _condition(cluster: Cluster, name: str = "kubernetes") -> tuple[str, str, str]:
    (condition,) = cluster.api.get(CIDRS, name)["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


def test_the_service_of_the_api_server(cluster: Cluster) -> None:
    assert _content(cluster, "services", "spec") == [
        {"component": "apiserver", "provider": "kubernetes"},
        {
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    ]
    assert _content(cluster, "endpoints", "subsets") == [
        {"endpointslice.kubernetes.io/skip-mirror": "true"},
        [{"addresses": [{"ip": "172.30.0.1"}], "ports": [PORT]}],
    ]
    assert _content(cluster, SLICES, "addressType", "endpoints", "ports") == [
        {"kubernetes.io/service-name": "kubernetes"},
        "IPv4",
        [{"addresses": ["172.30.0.1"], "conditions": {"ready": True}}],
        [PORT],
    ]


@pytest.mark.parametrize("resource", ["services", "endpoints", SLICES])
def test_a_deleted_object_is_created_again(cluster: Cluster, resource: str) -> None:
    cluster.api.delete(resource, "kubernetes", "default")
    assert _find(cluster, resource) is None
    cluster.run(11)
    assert _find(cluster, resource) is not None


def test_changed_contents_are_restored(cluster: Cluster) -> None:
    def change_service(service: dict[str, Any]) -> None:
        service["spec"]["ports"] = [{"name": "other", "port": 444, "protocol": "TCP"}]
        service["spec"]["sessionAffinity"] = "ClientIP"

    cluster.api.modify("services", "kubernetes", "default", change_service)
    cluster.api.modify("endpoints", "kubernetes", "default", lambda one: one.update(subsets=[]))
    cluster.api.modify(SLICES, "kubernetes", "default", lambda one: one.update(endpoints=[]))
    cluster.run(11)
    spec = _content(cluster, "services", "spec")[1]
    (port,) = spec["ports"]
    # Other fields stay as they are.
    assert (port["port"], spec["sessionAffinity"]) == (443, "ClientIP")
    assert _content(cluster, "endpoints", "subsets")[1][0]["ports"] == [PORT]
    assert _content(cluster, SLICES, "endpoints")[1][0]["addresses"] == ["172.30.0.1"]


def test_other_controllers_leave_the_service_alone(cluster: Cluster) -> None:
    service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    cluster.api.create("services", service, NAMESPACE)
    cluster.run(30)
    names = [one["metadata"]["name"] for one in cluster.api.list(SLICES, "default")]
    assert names == ["kubernetes"]
    assert _content(cluster, "endpoints", "subsets")[1][0]["ports"] == [PORT]


def test_the_default_range_is_ready_and_in_use(cluster: Cluster) -> None:
    assert cluster.api.get(CIDRS, "kubernetes")["spec"] == {"cidrs": ["10.0.0.0/16"]}
    cluster.run(1)
    assert _condition(cluster) == ("True", "", "Kubernetes Service CIDR is ready")
    assert cluster.api.get(CIDRS, "kubernetes")["metadata"]["finalizers"] == [FINALIZER]
    cluster.api.delete(CIDRS, "kubernetes")
    cluster.run(30)
    assert _condition(cluster) == (
        "False",
        "Terminating",
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a "
        "new ServiceCIDR",
    )


def test_a_range_goes_once_no_address_needs_it(cluster: Cluster) -> None:
    cluster.run(1)
    cluster.api.create(CIDRS, {"metadata": {"name": "new"}, "spec": {"cidrs": ["10.1.0.0/16"]}})
    cluster.run(1)
    assert _condition(cluster, "new") == ("True", "", "Kubernetes Service CIDR is ready")
    reference = {"resource": "services", "namespace": "default", "name": "far"}
    address = {"metadata": {"name": "10.1.0.1"}, "spec": {"parentRef": reference}}
    cluster.api.create("ipaddresses.networking.k8s.io", address)
    cluster.api.delete(CIDRS, "new")
    cluster.run(30)
    assert _condition(cluster, "new")[1] == "Terminating"
    cluster.api.delete("ipaddresses.networking.k8s.io", "10.1.0.1")
    cluster.run(1)
    assert cluster.api.find(CIDRS, "new") is None


def test_a_range_goes_after_a_grace_period(cluster: Cluster) -> None:
    cluster.api.create(CIDRS, {"metadata": {"name": "new"}, "spec": {"cidrs": ["10.1.0.0/16"]}})
    cluster.run(1)
    cluster.api.delete(CIDRS, "new")
    cluster.run(8)
    assert cluster.api.find(CIDRS, "new") is not None
    cluster.run(4)
    assert cluster.api.find(CIDRS, "new") is None


def test_a_range_that_another_one_contains_is_deleted(cluster: Cluster) -> None:
    cluster.api.create(CIDRS, {"metadata": {"name": "wide"}, "spec": {"cidrs": ["10.0.0.0/8"]}})
    cluster.run(1)
    cluster.api.delete(CIDRS, "kubernetes")
    cluster.run(12)
    assert cluster.api.find(CIDRS, "kubernetes") is None


def test_the_server_alone_marks_its_range_as_ready() -> None:
    api = new_cluster()
    KubernetesServiceController(api, "2001:db8::1", 6443)
    (condition,) = api.get(CIDRS, "kubernetes")["status"]["conditions"]
    assert condition["message"] == "Kubernetes default Service CIDR is ready"
    assert api.get(SLICES, "kubernetes", "default")["addressType"] == "IPv6"


def test_each_cluster_ip_has_an_address_object(cluster: Cluster) -> None:
    addresses = "ipaddresses.networking.k8s.io"
    cluster.run(1)
    own = cluster.api.get(addresses, "10.0.0.1")
    assert own["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert own["spec"] == {
        "parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}
    }
    spec: dict[str, Any] = {"ports": [{"port": 80}], "clusterIP": "10.0.0.77"}
    cluster.create("services", "web", spec)
    cluster.create("services", "headless", {**spec, "clusterIP": "None"})
    cluster.run(1)
    assert sorted(each["metadata"]["name"] for each in cluster.api.list(addresses)) == [
        "10.0.0.1",
        "10.0.0.10",
        "10.0.0.77",
    ]
    cluster.api.delete(addresses, "10.0.0.77")
    cluster.run(1)
    parent = cluster.api.get(addresses, "10.0.0.77")["spec"]["parentRef"]
    assert (parent["namespace"], parent["name"]) == (NAMESPACE, "web")
    cluster.delete("services", "web")
    cluster.run(1)
    assert cluster.api.find(addresses, "10.0.0.77") is None
