"""The IPAddress objects of services."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait import Kwait


def test_a_cluster_ip_has_an_address_until_its_service_is_gone(kwait: Kwait) -> None:
    (service,) = kwait.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}]},
        }
    )
    address = f"ipaddress/{service['spec']['clusterIP']}"
    found = kwait.wait_for(address, "create", timeout="1m")
    assert found["spec"]["parentRef"] == {
        "resource": "services",
        "namespace": kwait.namespace,
        "name": "web",
    }
    assert found["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    kwait.delete("service/web")
    assert kwait.wait_for(address, "delete", timeout="1m") is None
