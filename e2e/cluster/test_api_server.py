"""Waiting for the API server and for aggregated APIs."""

from __future__ import annotations

import secrets
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from e2e.raising import raises, times_out
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from pytest_kwait import Kwait
    from pytest_kwait.typing import WaitForApiServerHealthy, WaitForApiServiceAvailable


def test_a_healthy_server(wait_for_api_server_healthy: WaitForApiServerHealthy) -> None:
    """With `stable_for`, one answer is not enough."""
    wait_for_api_server_healthy(timeout="4m")
    wait_for_api_server_healthy(timeout="4m", stable_for="300ms")
    wait_for_api_server_healthy(timeout="4m", mode="poll")


def test_the_servers_own_service(kwait: Kwait) -> None:
    """Programs in pods find the server by it."""
    service = kwait.get("service/kubernetes", namespace="default")
    (port,) = service["spec"]["ports"]
    assert (port["name"], port["port"], port["protocol"]) == ("https", 443, "TCP")
    labels = {"component": "apiserver", "provider": "kubernetes"}
    assert service["metadata"]["labels"] == labels
    if kwait.cluster.provider == "binaries":
        return  # kube-apiserver publishes no loopback address
    endpoints = kwait.get("endpoints/kubernetes", namespace="default")
    served = {"name": "https", "port": port["targetPort"], "protocol": "TCP"}
    assert [subset["ports"] for subset in endpoints["subsets"]] == [[served]]
    slice_ = kwait.get("endpointslice/kubernetes", namespace="default")
    assert slice_["ports"] == [served]
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    addresses = [one["ip"] for one in endpoints["subsets"][0]["addresses"]]
    assert [one["addresses"] for one in slice_["endpoints"]] == [addresses]


def test_the_default_range_of_services(kwait: Kwait) -> None:
    found = kwait.wait_for("servicecidr/kubernetes", "condition=Ready", timeout="1m")
    (network,) = [ip_network(cidr) for cidr in found["spec"]["cidrs"]]
    service = kwait.get("service/kubernetes", namespace="default")
    assert ip_address(service["spec"]["clusterIP"]) in network


def test_built_in_group_is_available(
    wait_for_api_service_available: WaitForApiServiceAvailable,
) -> None:
    for name in ("v1.apps", "v1."):
        assert wait_for_api_service_available(name, timeout="4m")["kind"] == "APIService"
    times_out(
        "apiservice v1.nobody.example did not become available .*not found",
        wait_for_api_service_available,
        "v1.nobody.example",
    )


def test_a_group_whose_service_is_missing(kwait: Kwait) -> None:
    """Final after `grace`. The broken group exists only briefly, as all discovery sees it."""
    group = f"g{secrets.token_hex(4)}.example"
    name = f"v1.{group}"
    kwait.create(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "version": "v1",
                "groupPriorityMinimum": 10,
                "versionPriority": 10,
                "service": {"name": "nowhere", "namespace": kwait.namespace},
                "insecureSkipTLSVerify": True,
            },
        }
    )
    try:
        with raises(WaitFailed, 'Available is False: ServiceNotFound: service/nowhere in "'):
            kwait.wait_for_api_service_available(name, timeout="4m", grace="1s")
    finally:
        kwait.delete(f"apiservice/{name}")


def test_a_flow_schema_names_a_missing_priority_level(kwait: Kwait) -> None:
    name = f"kwait-{secrets.token_hex(4)}"
    kwait.create(
        {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": name},
            "spec": {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": 9000},
        }
    )
    schema = kwait.wait_for(f"flowschema/{name}", "condition=Dangling", timeout="1m")
    (condition,) = schema["status"]["conditions"]
    assert condition["reason"] == "NotFound"
    assert condition["message"].endswith(f'named "{name}" but there is no such object')
    own = kwait.get("flowschema/probes")
    assert own["status"]["conditions"][0]["status"] == "False"


def test_the_api_server_holds_a_lease(kwait: Kwait) -> None:
    leases = kwait.list("leases", namespace="kube-system")
    held = [each for each in leases if each["metadata"]["name"].startswith("apiserver-")]
    assert held
    assert held[0]["spec"]["holderIdentity"].startswith(held[0]["metadata"]["name"])
