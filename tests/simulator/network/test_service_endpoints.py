"""Services as their clients meet them; `test_cluster_network` has those of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.network.service_endpoints import (
    is_source_allowed,
    list_addresses,
    list_ingress_addresses,
    list_targets,
)
from tests.simulator.network.test_cluster_network import (
    LEAVING,
    READY,
    UNREADY,
    add_service,
    add_slice,
    make_api,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

VIP, PROXY = {"ip": "127.5.0.1", "ipMode": "VIP"}, {"ip": "127.5.0.2", "ipMode": "Proxy"}
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


def balanced(*ingress: dict[str, str], **spec: Any) -> Obj:
    """Return a service with a load balancer."""
    return {"metadata": {}, "spec": spec, "status": {"loadBalancer": {"ingress": list(ingress)}}}


@pytest.mark.parametrize(
    ("endpoints", "expected"),
    [
        ([], []),
        ([("10.244.0.5", UNREADY)], []),
        ([("10.244.0.5", READY), ("10.244.0.6", LEAVING)], [("10.244.0.5", 8080)]),
        ([("10.244.0.5", UNREADY), ("10.244.0.6", LEAVING)], [("10.244.0.6", 8080)]),
        ([("10.244.0.5", {})], [("10.244.0.5", 8080)]),
    ],
)
def test_targets_are_ready_or_the_last_that_serve(
    endpoints: list[tuple[str, dict[str, Any]]], expected: list[tuple[str, int]]
) -> None:
    api = make_api()
    add_service(api, "many", clusterIP="10.0.0.30")
    add_slice(api, "many", *({"addresses": [host], **state} for host, state in endpoints))
    service = api.get("services", "many", "default")
    port, other = service["spec"]["ports"]
    assert list_targets(api, service, port) == expected
    assert list_targets(api, service, other) == []


def test_targets_of_a_node() -> None:
    api = make_api()
    service = api.get("services", "local", "default")
    [port, _] = service["spec"]["ports"]
    assert list_targets(api, service, port, "node-1") == []
    assert list_targets(api, service, port, "node-2") == [("10.244.0.5", 8080)]


def test_addresses_of_a_service() -> None:
    """Those of its own, for IPv4; a load balancer that sends on as a proxy is no address of it."""
    service = balanced(
        VIP, PROXY, {"hostname": "lb.example"},
        clusterIPs=["10.0.0.9", "fd00::9"], externalIPs=["192.0.2.9"],
    )  # fmt: skip
    assert list_addresses(service) == ["10.0.0.9", "192.0.2.9", "127.5.0.1"]
    assert list_ingress_addresses(service) == ["127.5.0.1"]
    assert list_addresses({"spec": {"clusterIPs": ["None"]}}) == []


@pytest.mark.parametrize(
    ("client", "expected"), [("10.244.9.7", True), ("10.244.8.1", False), ("", True)]
)
def test_source_ranges_hold_for_load_balancers_alone(client: str, expected: bool) -> None:
    service = balanced(VIP, clusterIPs=["10.0.0.9"], loadBalancerSourceRanges=["10.244.9.0/24"])
    assert is_source_allowed(service, "127.5.0.1", client) == expected
    assert is_source_allowed(service, "10.0.0.9", client)
    annotated = balanced(VIP)
    annotated["metadata"]["annotations"] = {RANGES: "10.1.0.0/16, 10.244.9.0/24"}
    assert is_source_allowed(annotated, "127.5.0.1", client) == expected
