"""The rows of services, of what stands behind them and of what leads to them.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import age_cell
from pytest_kwait.simulator.apiserver.printers.workload_cells import (
    NONE,
    format_labels,
    selector_cell,
)
from pytest_kwait.simulator.objects import name_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "endpoint_slice_cells",
    "endpoints_cells",
    "ingress_cells",
    "ingress_class_cells",
    "ip_address_cells",
    "network_policy_cells",
    "service_cells",
    "service_range_cells",
]

_MAX_SHOWN_ADDRESSES = 3
_DEFAULT_INGRESS_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"


def service_cells(obj: Obj) -> list[Any]:
    """A service's row."""
    spec = obj.get("spec", {})
    ports = []
    for port in spec.get("ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        name_of(obj),
        spec.get("type", ""),
        addresses[0],
        _external_addresses(obj),
        ",".join(ports) or NONE,
        age_cell(obj),
        format_labels(spec.get("selector")),
    ]


def _external_addresses(obj: Obj) -> str:
    """Where a service is reached from outside the cluster."""
    spec = obj.get("spec", {})
    kind, given = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(given) or NONE
    if kind == "LoadBalancer":
        return ",".join([*_load_balancer_addresses(obj), *given]) or "<pending>"
    return str(spec.get("externalName", "")) if kind == "ExternalName" else "<unknown>"


def _load_balancer_addresses(obj: Obj) -> list[str]:
    """The addresses of a load balancer."""
    points = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""})


def ingress_cells(obj: Obj) -> list[Any]:
    """An ingress's row."""
    spec = obj.get("spec", {})
    rules = spec.get("rules") or ()
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == _MAX_SHOWN_ADDRESSES
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    shown = ",".join(hosts) or "*"
    if more:
        shown += f" + {len(rules) - _MAX_SHOWN_ADDRESSES} more..."
    return [
        name_of(obj),
        spec.get("ingressClassName", NONE),
        shown,
        ",".join(_load_balancer_addresses(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_cell(obj),
    ]


def ingress_class_cells(obj: Obj) -> list[Any]:
    """An ingress class's row."""
    spec, name = obj.get("spec", {}), name_of(obj)
    if (obj["metadata"].get("annotations") or {}).get(_DEFAULT_INGRESS_CLASS_ANNOTATION) == "true":
        name += " (default)"
    parameters, shown = spec.get("parameters"), NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        shown = f"{parameters['kind']}{group}/{parameters['name']}"
    return [name, spec.get("controller", ""), shown, age_cell(obj)]


def endpoints_cells(obj: Obj) -> list[Any]:
    """The row of endpoints: the first ones, and how many there are."""
    found = []
    for subset in obj.get("subsets") or ():
        addresses = [one["ip"] for one in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:
            found += addresses
        for port in ports or ():
            found += [_join_address(address, port["port"]) for address in addresses]
    shown = ",".join(found[:_MAX_SHOWN_ADDRESSES])
    if len(found) > _MAX_SHOWN_ADDRESSES:
        shown += f" + {len(found) - _MAX_SHOWN_ADDRESSES} more..."
    return [name_of(obj), shown if obj.get("subsets") else NONE, age_cell(obj)]


def _join_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def endpoint_slice_cells(obj: Obj) -> list[Any]:
    """An endpoint slice's row."""
    ports = [
        str(port["port"]) if port.get("port") is not None else port.get("name", "*")
        for port in obj.get("ports") or ()
    ]
    addresses = [
        address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        _join_first(ports),
        _join_first(addresses),
        age_cell(obj),
    ]


def _join_first(values: list[str]) -> str:
    """The first ones of several values, and how many more there are."""
    shown = ",".join(values[:_MAX_SHOWN_ADDRESSES])
    if len(values) > _MAX_SHOWN_ADDRESSES:
        return f"{shown} + {len(values) - _MAX_SHOWN_ADDRESSES} more..."
    return shown or "<unset>"


def network_policy_cells(obj: Obj) -> list[Any]:
    """A network policy's row."""
    return [name_of(obj), selector_cell(obj.get("spec", {}).get("podSelector")), age_cell(obj)]


def service_range_cells(obj: Obj) -> list[Any]:
    """The row of a range of services' addresses."""
    return [name_of(obj), ",".join(obj.get("spec", {}).get("cidrs") or ()), age_cell(obj)]


def ip_address_cells(obj: Obj) -> list[Any]:
    """An address's row; upstream it has an age without a head."""
    parent, shown = obj.get("spec", {}).get("parentRef"), NONE
    if parent:
        group = f".{parent['group']}" if parent.get("group") else ""
        place = f"/{parent['namespace']}" if parent.get("namespace") else ""
        shown = f"{parent.get('resource', '')}{group}".lower() + f"{place}/{parent['name']}"
    return [name_of(obj), shown, age_cell(obj)]
