"""The variables that tell containers of services.

Source: pkg/kubelet/envvars/envvars.go; kubelet_pods.go, `getServiceEnvVarMap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import Obj, name_of, namespace_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster

__all__ = ["make_service_variables"]


def make_service_variables(api: SimulatedCluster, pod: Obj) -> dict[str, str]:
    """Return the variables of the services of the pod's namespace, and of the API server."""
    found = []
    if pod["spec"].get("enableServiceLinks", True) and namespace_of(pod) != "default":
        found = api.list("services", namespace_of(pod))
    master = api.find("services", "kubernetes", "default")
    if master is not None:
        found = [*found, master]
    env: dict[str, str] = {}
    for service in found:
        address = service["spec"].get("clusterIP")
        if address and address != "None":
            env.update(_make_variables(service, address))
    return env


def _make_variables(service: Obj, address: str) -> dict[str, str]:
    name = name_of(service).upper().replace("-", "_")
    ports = service["spec"].get("ports") or []
    if not ports:
        return {}
    first = ports[0]
    env = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            word = str(port["name"]).upper().replace("-", "_")
            env[f"{name}_SERVICE_PORT_{word}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol = str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{address}:{port['port']}"
        if index == 0:
            env[f"{name}_PORT"] = url
        prefix = f"{name}_PORT_{port['port']}_{protocol.upper()}"
        env[prefix] = url
        env[f"{prefix}_PROTO"] = protocol.lower()
        env[f"{prefix}_PORT"] = str(port["port"])
        env[f"{prefix}_ADDR"] = address
    return env
