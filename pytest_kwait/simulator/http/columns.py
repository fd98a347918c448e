"""The columns of built-in kinds' tables.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.http.ages import UNKNOWN, age, since
from pytest_kwait.simulator.http.pod_cells import pod_cells
from pytest_kwait.simulator.http.workload_cells import (
    NONE,
    controller_cells,
    cron_job_cells,
    daemon_set_cells,
    deployment_cells,
    job_cells,
    labels_text,
    replica_set_cells,
    stateful_set_cells,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.objects import Obj

__all__ = ["BUILT_IN", "GENERIC", "Columns", "definition"]


@dataclass(frozen=True)
class Columns:
    """The heads of a table and the cells of an object."""

    definitions: list[Obj]
    cells: Callable[[Obj], list[Any]]


def definition(
    name: str, kind: str = "string", priority: int = 0, form: str = "", description: str = ""
) -> Obj:
    """One column's head; a higher priority means that only wide output shows it."""
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": description,
        "priority": priority,
    }


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _columns(cells: Callable[[Obj], list[Any]], *heads: str | tuple[str, str, int]) -> Columns:
    definitions = []
    for head in heads:
        name, kind, priority = (head, "string", 0) if isinstance(head, str) else head
        form = "name" if name == "Name" else ""
        definitions.append(definition(name, kind, priority, form))
    return Columns(definitions, cells)


def _wide(*names: str) -> list[tuple[str, str, int]]:
    return [(name, "string", 1) for name in names]


def _whole(*names: str) -> list[tuple[str, str, int]]:
    return [(name, "integer", 0) for name in names]


def _joined(values: Iterable[str]) -> str:
    return ",".join(values) or NONE


def _node(obj: Obj) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
    states = []
    if "Ready" in conditions:
        states.append("Ready" if conditions["Ready"] == "True" else "NotReady")
    else:
        states.append("Unknown")
    if spec.get("unschedulable"):
        states.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = sorted(
        key.removeprefix(prefix)
        for key in obj["metadata"].get("labels", {})
        if key.startswith(prefix) and key != prefix
    )
    addresses = {one["type"]: one["address"] for one in status.get("addresses", ())}
    info = status.get("nodeInfo", {})
    return [
        _name(obj),
        ",".join(states),
        _joined(roles),
        age(obj),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _namespace(obj: Obj) -> list[Any]:
    return [_name(obj), obj.get("status", {}).get("phase", ""), age(obj)]


def _service(obj: Obj) -> list[Any]:
    spec = obj["spec"]
    ports = []
    for port in spec.get("ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    external = ",".join(spec.get("externalIPs", ())) or NONE
    if spec.get("type") == "ExternalName":
        external = spec.get("externalName", "")
    elif spec.get("type") == "LoadBalancer":
        external = "<pending>"
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external,
        ",".join(ports) or NONE,
        age(obj),
        labels_text(spec.get("selector")),
    ]


def _event(obj: Obj) -> list[Any]:
    about = obj.get("involvedObject", {})
    first, last = obj.get("firstTimestamp"), obj.get("lastTimestamp")
    micro = obj.get("eventTime")
    count = obj.get("count", 0)
    series = obj.get("series") or {}
    if series:
        last, count = series.get("lastObservedTime", last), series.get("count", count)
    elif not count:
        count = 1
    source = obj.get("source", {})
    name = about.get("name", "")
    return [
        since(last or first or micro),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{name}" if name else about.get("kind", "").lower(),
        about.get("fieldPath", ""),
        ", ".join(part for part in (source.get("component"), source.get("host")) if part)
        or obj.get("reportingComponent", ""),
        obj.get("message", "").strip(),
        since(first or micro),
        count,
        _name(obj),
    ]


def _lease(obj: Obj) -> list[Any]:
    return [_name(obj), obj.get("spec", {}).get("holderIdentity", ""), age(obj)]


def _config_map(obj: Obj) -> list[Any]:
    return [_name(obj), len(obj.get("data", {})) + len(obj.get("binaryData", {})), age(obj)]


def _secret(obj: Obj) -> list[Any]:
    return [_name(obj), obj.get("type", ""), len(obj.get("data", {})), age(obj)]


def _account(obj: Obj) -> list[Any]:
    return [_name(obj), len(obj.get("secrets", ())), age(obj)]


def _binding(obj: Obj) -> list[Any]:
    reference, subjects = obj["roleRef"], obj.get("subjects") or ()
    accounts = (
        f"{one.get('namespace', '')}/{one['name']}"
        for one in subjects
        if one["kind"] == "ServiceAccount"
    )
    return [
        _name(obj),
        f"{reference['kind']}/{reference['name']}",
        age(obj),
        ", ".join(one["name"] for one in subjects if one["kind"] == "User"),
        ", ".join(one["name"] for one in subjects if one["kind"] == "Group"),
        ", ".join(accounts),
    ]


GENERIC = Columns(
    [
        definition("Name", form="name"),
        definition("Created At", form="date"),
    ],
    lambda obj: [_name(obj), obj["metadata"].get("creationTimestamp")],
)

_TEMPLATE = _wide("Containers", "Images")
_BINDINGS = _columns(_binding, "Name", "Role", "Age", *_wide("Users", "Groups", "ServiceAccounts"))

BUILT_IN: dict[str, Columns] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "configmaps": _columns(_config_map, "Name", "Data", "Age"),
    "cronjobs.batch": _columns(
        cron_job_cells,
        "Name",
        "Schedule",
        "Timezone",
        ("Suspend", "boolean", 0),
        *_whole("Active"),
        "Last Schedule",
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "daemonsets.apps": _columns(
        daemon_set_cells,
        "Name",
        *_whole("Desired", "Current", "Ready", "Up-to-date", "Available"),
        "Node Selector",
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "deployments.apps": _columns(
        deployment_cells,
        "Name",
        "Ready",
        "Up-to-date",
        "Available",
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "events": _columns(
        _event,
        "Last Seen",
        "Type",
        "Reason",
        "Object",
        *_wide("Subobject", "Source"),
        "Message",
        *_wide("First Seen", "Count", "Name"),
    ),
    "jobs.batch": _columns(
        job_cells,
        "Name",
        "Status",
        "Completions",
        "Duration",
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "leases.coordination.k8s.io": _columns(_lease, "Name", "Holder", "Age"),
    "namespaces": _columns(_namespace, "Name", "Status", "Age"),
    "nodes": _columns(
        _node,
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ),
    "pods": _columns(
        lambda obj: pod_cells(obj, age(obj), since),
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
        *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
    ),
    "replicasets.apps": _columns(
        replica_set_cells,
        "Name",
        *_whole("Desired", "Current", "Ready"),
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "replicationcontrollers": _columns(
        controller_cells,
        "Name",
        *_whole("Desired", "Current", "Ready"),
        "Age",
        *_TEMPLATE,
        *_wide("Selector"),
    ),
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "secrets": _columns(_secret, "Name", "Type", "Data", "Age"),
    "serviceaccounts": _columns(_account, "Name", "Secrets", "Age"),
    "services": _columns(
        _service,
        "Name",
        "Type",
        "Cluster-IP",
        "External-IP",
        "Port(s)",
        "Age",
        *_wide("Selector"),
    ),
    "statefulsets.apps": _columns(stateful_set_cells, "Name", "Ready", "Age", *_TEMPLATE),
}
