"""The rows of what a cluster is made of: nodes, namespaces, accounts, roles, quotas, policies.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, k8s.io/kube-aggregator
pkg/registry/apiservice/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.apiserver.printers.ages import (
    UNKNOWN,
    age_cell,
    elapsed_text,
    human_duration,
)
from pytest_kwait.simulator.apiserver.printers.workload_cells import NONE
from pytest_kwait.simulator.objects import labels_of, name_of, owner_of
from pytest_kwait.simulator.selectors import format_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "api_service_cells",
    "budget_cells",
    "certificate_signing_request_cells",
    "component_status_cells",
    "config_map_cells",
    "event_cells",
    "flow_schema_cells",
    "lease_cells",
    "namespace_cells",
    "node_cells",
    "policy_binding_cells",
    "policy_cells",
    "priority_class_cells",
    "priority_level_cells",
    "quota_cells",
    "revision_cells",
    "role_binding_cells",
    "runtime_class_cells",
    "secret_cells",
    "service_account_cells",
    "webhook_configuration_cells",
]

_ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"
_OLD_ROLE_LABEL = "kubernetes.io/role"
UNSET = "<unset>"


def node_cells(obj: Obj) -> list[Any]:
    """A node's row."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
    state = "Unknown"
    if "Ready" in conditions:
        state = "Ready" if conditions["Ready"] == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = labels_of(obj)
    roles = {
        key.removeprefix(_ROLE_LABEL_PREFIX)
        for key in labels
        if key.startswith(_ROLE_LABEL_PREFIX) and key != _ROLE_LABEL_PREFIX
    }
    if labels.get(_OLD_ROLE_LABEL):
        roles.add(labels[_OLD_ROLE_LABEL])
    addresses: dict[str, str] = {}
    for one in status.get("addresses", ()):
        addresses.setdefault(one["type"], one["address"])
    info = status.get("nodeInfo", {})
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        state,
        ",".join(sorted(roles)) or NONE,
        age_cell(obj),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def namespace_cells(obj: Obj) -> list[Any]:
    """A namespace's row."""
    return [name_of(obj), obj.get("status", {}).get("phase", ""), age_cell(obj)]


def component_status_cells(obj: Obj) -> list[Any]:
    """The row of a part of the control plane."""
    for one in obj.get("conditions", ()):
        if one["type"] == "Healthy":
            state = "Healthy" if one["status"] == "True" else "Unhealthy"
            return [name_of(obj), state, one.get("message", ""), one.get("error", "")]
    return [name_of(obj), "Unknown", "", ""]


def event_cells(obj: Obj) -> list[Any]:
    """An event's row."""
    about, source = obj.get("involvedObject", {}), obj.get("source", {})
    first = elapsed_text(obj.get("firstTimestamp") or obj.get("eventTime"))
    last = elapsed_text(obj["lastTimestamp"]) if obj.get("lastTimestamp") else first
    series = obj.get("series")
    count = obj.get("count", 0) or 1
    if series:
        last, count = elapsed_text(series.get("lastObservedTime")), series.get("count", 0)
    who = (
        source.get("component") or obj.get("reportingComponent", ""),
        source.get("host") or obj.get("reportingInstance", ""),
    )
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        ", ".join(who) if who[1] else who[0],
        obj.get("message", "").strip(),
        first,
        count,
        name_of(obj),
    ]


def lease_cells(obj: Obj) -> list[Any]:
    """A lease's row."""
    return [name_of(obj), obj.get("spec", {}).get("holderIdentity", ""), age_cell(obj)]


def config_map_cells(obj: Obj) -> list[Any]:
    """A config map's row."""
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [name_of(obj), count, age_cell(obj)]


def secret_cells(obj: Obj) -> list[Any]:
    """A secret's row."""
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age_cell(obj)]


def service_account_cells(obj: Obj) -> list[Any]:
    """A service account's row."""
    return [name_of(obj), age_cell(obj)]


def role_binding_cells(obj: Obj) -> list[Any]:
    """The row of a role's binding."""
    reference, subjects = obj.get("roleRef", {}), obj.get("subjects") or ()
    accounts = (
        f"{one.get('namespace', '')}/{one['name']}"
        for one in subjects
        if one["kind"] == "ServiceAccount"
    )
    return [
        name_of(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_cell(obj),
        ", ".join(one["name"] for one in subjects if one["kind"] == "User"),
        ", ".join(one["name"] for one in subjects if one["kind"] == "Group"),
        ", ".join(accounts),
    ]


def quota_cells(obj: Obj) -> list[Any]:
    """A resource quota's row: what is requested and what is limited."""
    status = obj.get("status", {})
    used = status.get("used", {})
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(status.get("hard", {}).items()):
        shown = f"{resource}: {used.get(resource, '0')}/{hard}"
        (limits if resource.startswith("limits.") else requests).append(shown)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_cell(obj)]


def budget_cells(obj: Obj) -> list[Any]:
    """The row of a pod disruption budget."""
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        obj.get("status", {}).get("disruptionsAllowed", 0),
        age_cell(obj),
    ]


def revision_cells(obj: Obj) -> list[Any]:
    """A controller revision's row."""
    owner, shown = owner_of(obj), NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        shown = f"{kind.lower()}/{owner['name']}"
    return [name_of(obj), shown, obj.get("revision", 0), age_cell(obj)]


def priority_class_cells(obj: Obj) -> list[Any]:
    """A priority class's row."""
    return [
        name_of(obj),
        obj.get("value", 0),
        obj.get("globalDefault", False),
        age_cell(obj),
        obj.get("preemptionPolicy", ""),
    ]


def runtime_class_cells(obj: Obj) -> list[Any]:
    """A runtime class's row."""
    return [name_of(obj), obj.get("handler", ""), age_cell(obj)]


def certificate_signing_request_cells(obj: Obj) -> list[Any]:
    """The row of a request for a certificate."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    types = {one["type"] for one in status.get("conditions", ())}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        state += ",Failed"
    if status.get("certificate"):
        state += ",Issued"
    seconds = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age_cell(obj),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        state,
    ]


def webhook_configuration_cells(obj: Obj) -> list[Any]:
    """The row of a configuration of webhooks."""
    return [name_of(obj), len(obj.get("webhooks") or ()), age_cell(obj)]


def policy_cells(obj: Obj) -> list[Any]:
    """The row of an admission policy, validating or mutating."""
    spec = obj.get("spec", {})
    kind = spec.get("paramKind")
    shown = f"{kind['apiVersion']}/{kind['kind']}" if kind else UNSET
    rules = spec.get("mutations") or spec.get("validations") or ()
    return [name_of(obj), len(rules), shown, age_cell(obj)]


def policy_binding_cells(obj: Obj) -> list[Any]:
    """The row of an admission policy's binding."""
    spec = obj.get("spec", {})
    reference, shown = spec.get("paramRef"), UNSET
    if reference and reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference and reference.get("selector"):
        shown = format_selector(reference["selector"])
    return [name_of(obj), spec.get("policyName", ""), shown, age_cell(obj)]


def flow_schema_cells(obj: Obj) -> list[Any]:
    """A flow schema's row."""
    spec = obj.get("spec", {})
    dangling = "?"
    for one in obj.get("status", {}).get("conditions", ()):
        if one["type"] == "Dangling":
            dangling = one["status"]
    return [
        name_of(obj),
        spec.get("priorityLevelConfiguration", {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type", NONE),
        age_cell(obj),
        dangling,
    ]


def priority_level_cells(obj: Obj) -> list[Any]:
    """The row of a priority level."""
    spec = obj.get("spec", {})
    limited = spec.get("limited")
    shares: Any = NONE
    queues: list[Any] = [NONE] * 3
    if limited:
        shares = limited.get("nominalConcurrencyShares", 0)
        queuing = limited.get("limitResponse", {}).get("queuing")
        if queuing:
            queues = [queuing.get(name, 0) for name in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *queues, age_cell(obj)]


def api_service_cells(obj: Obj) -> list[Any]:
    """An API service's row."""
    service, state = obj.get("spec", {}).get("service"), "Unknown"
    for one in obj.get("status", {}).get("conditions", ()):
        if one["type"] == "Available":
            state = one["status"]
            if state != "True":
                state += f" ({one.get('reason', '')})"
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [name_of(obj), where, state, age_cell(obj)]
