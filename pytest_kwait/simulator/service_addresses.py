"""Addresses and node ports of services: what the server hands out before it stores one.

Source: k8s.io/kubernetes pkg/registry/core/service/storage/alloc.go.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytest_kwait.simulator.status_error import invalid, invalid_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.objects import Obj

__all__ = ["ServiceAddresses"]

_FIRST_ADDRESS = int(IPv4Address("10.0.0.2"))
_LAST_ADDRESS = int(IPv4Address("10.0.255.254"))
_FIRST_NODE_PORT, _LAST_NODE_PORT = 30000, 32767


class ServiceAddresses:
    """Hands them out, over one cluster's services.

    Args:
        api: the cluster.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._next_address = _FIRST_ADDRESS
        self._next_port = _FIRST_NODE_PORT

    def allocate(self, service: Obj, caller: Caller) -> None:
        """Give the service what it has not yet, in place.

        Raises:
            StatusError: 422, the address that it asks for is none.
        """
        spec = service["spec"]
        if spec["type"] == "ExternalName":
            return
        address = spec.get("clusterIP") or caller.once("address", self._free_address)
        spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [address])
        if address != "None" or spec.get("selector"):
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        if address != "None" and not _is_address(address):
            raise invalid(
                "",
                "Service",
                service["metadata"].get("name", ""),
                [
                    invalid_value(
                        "spec.clusterIPs[0]",
                        address,
                        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    )
                ],
            )
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for index, port in enumerate(spec.get("ports", ())):
                if not port.get("nodePort"):
                    number = caller.once(f"port {index}", lambda: str(self._free_port()))
                    port["nodePort"] = int(number)

    def _free_address(self) -> str:
        used = {service["spec"].get("clusterIP") for service in self._api.list("services")}
        while True:
            address = str(IPv4Address(self._next_address))
            self._next_address += 1
            if self._next_address > _LAST_ADDRESS:
                self._next_address = _FIRST_ADDRESS
            if address not in used:
                return address

    def _free_port(self) -> int:
        used = {
            port.get("nodePort")
            for service in self._api.list("services")
            for port in service["spec"].get("ports", ())
        }
        while True:
            port = self._next_port
            self._next_port += 1
            if self._next_port > _LAST_NODE_PORT:
                self._next_port = _FIRST_NODE_PORT
            if port not in used:
                return port


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
