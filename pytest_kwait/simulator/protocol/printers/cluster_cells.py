"""Cells of networking, storage, nodes, namespaces, RBAC, quotas and policies.

Source: k8s.io/kubernetes pkg/printers/internalversion/printers.go, k8s.io/kube-aggregator
pkg/registry/apiservice/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.selectors import format_label_selector
from pytest_kwait.simulator.objects import labels_of, name_of, owner_of, storage_class_of
from pytest_kwait.simulator.protocol.printers.workload_cells import (
    NONE,
    UNKNOWN,
    UNSET,
    age_cell,
    elapsed_text,
    format_labels,
    human_duration,
    selector_cell,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

_MAX_SHOWN_ADDRESSES = 3
_DEFAULT_INGRESS_CLASS_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_SHORT_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}

_ROLE_LABEL_PREFIX = "node-role.kubernetes.io/"
_OLD_ROLE_LABEL = "kubernetes.io/role"


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
    """Return a service's external addresses."""
    spec = obj.get("spec", {})
    kind, addresses = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(addresses) or NONE
    if kind == "LoadBalancer":
        return ",".join([*_load_balancer_addresses(obj), *addresses]) or "<pending>"
    return str(spec.get("externalName", "")) if kind == "ExternalName" else "<unknown>"


def _load_balancer_addresses(obj: Obj) -> list[str]:
    points = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return sorted({point.get("ip") or point.get("hostname") or "" for point in points} - {""})


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
    hosts_text = ",".join(hosts) or "*"
    if more:
        hosts_text += f" + {len(rules) - _MAX_SHOWN_ADDRESSES} more..."
    return [
        name_of(obj),
        spec.get("ingressClassName", NONE),
        hosts_text,
        ",".join(_load_balancer_addresses(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_cell(obj),
    ]


def ingress_class_cells(obj: Obj) -> list[Any]:
    """An ingress class's row."""
    spec, name = obj.get("spec", {}), name_of(obj)
    if (obj["metadata"].get("annotations") or {}).get(_DEFAULT_INGRESS_CLASS_ANNOTATION) == "true":
        name += " (default)"
    parameters, parameters_text = spec.get("parameters"), NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        parameters_text = f"{parameters['kind']}{group}/{parameters['name']}"
    return [name, spec.get("controller", ""), parameters_text, age_cell(obj)]


def endpoints_cells(obj: Obj) -> list[Any]:
    """An Endpoints row: the first addresses and their number."""
    all_addresses = []
    for subset in obj.get("subsets") or ():
        addresses = [address["ip"] for address in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:
            all_addresses += addresses
        for port in ports or ():
            all_addresses += [_join_address(address, port["port"]) for address in addresses]
    text = ",".join(all_addresses[:_MAX_SHOWN_ADDRESSES])
    if len(all_addresses) > _MAX_SHOWN_ADDRESSES:
        text += f" + {len(all_addresses) - _MAX_SHOWN_ADDRESSES} more..."
    return [name_of(obj), text if obj.get("subsets") else NONE, age_cell(obj)]


def _join_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def endpoint_slice_cells(obj: Obj) -> list[Any]:
    """An endpoint slice's row."""
    ports = [
        str(port["port"]) if port.get("port") is not None else port.get("name", "*")
        for port in obj.get("ports") or ()
    ]
    addresses = [
        address
        for endpoint in obj.get("endpoints") or ()
        for address in endpoint.get("addresses") or ()
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        _join_first(ports),
        _join_first(addresses),
        age_cell(obj),
    ]


def _join_first(values: list[str]) -> str:
    """Join the first values; append the number of the others."""
    text = ",".join(values[:_MAX_SHOWN_ADDRESSES])
    if len(values) > _MAX_SHOWN_ADDRESSES:
        return f"{text} + {len(values) - _MAX_SHOWN_ADDRESSES} more..."
    return text or UNSET


def network_policy_cells(obj: Obj) -> list[Any]:
    """A network policy's row."""
    return [name_of(obj), selector_cell(obj.get("spec", {}).get("podSelector")), age_cell(obj)]


def service_range_cells(obj: Obj) -> list[Any]:
    """A service CIDR's row."""
    return [name_of(obj), ",".join(obj.get("spec", {}).get("cidrs") or ()), age_cell(obj)]


def ip_address_cells(obj: Obj) -> list[Any]:
    """An IP address's row; upstream it has an age without a column."""
    parent, parent_text = obj.get("spec", {}).get("parentRef"), NONE
    if parent:
        group = f".{parent['group']}" if parent.get("group") else ""
        place = f"/{parent['namespace']}" if parent.get("namespace") else ""
        parent_text = f"{parent.get('resource', '')}{group}".lower() + f"{place}/{parent['name']}"
    return [name_of(obj), parent_text, age_cell(obj)]


def _annotations(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _format_access_modes(modes: Any) -> str:
    return ",".join(short for mode, short in _SHORT_ACCESS_MODES.items() if mode in (modes or ()))


def _phase_cell(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def claim_cells(obj: Obj) -> list[Any]:
    """A claim's row."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    volume = spec.get("volumeName", "")
    return [
        name_of(obj),
        _phase_cell(obj),
        volume,
        status.get("capacity", {}).get("storage", "0") if volume else "",
        _format_access_modes(status.get("accessModes")) if volume else "",
        storage_class_of(obj),
        spec.get("volumeAttributesClassName", UNSET),
        age_cell(obj),
        spec.get("volumeMode", UNSET),
    ]


def volume_cells(obj: Obj) -> list[Any]:
    """A volume's row."""
    spec = obj.get("spec", {})
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        spec.get("capacity", {}).get("storage", "0"),
        _format_access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase_cell(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        storage_class_of(obj),
        spec.get("volumeAttributesClassName", UNSET),
        obj.get("status", {}).get("reason", ""),
        age_cell(obj),
        spec.get("volumeMode", UNSET),
    ]


def storage_class_cells(obj: Obj) -> list[Any]:
    """A storage class's row."""
    name = name_of(obj)
    if any(
        _annotations(obj).get(annotation) == "true" for annotation in _DEFAULT_CLASS_ANNOTATIONS
    ):
        name += " (default)"
    return [
        name,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False),
        age_cell(obj),
    ]


def attributes_class_cells(obj: Obj) -> list[Any]:
    """A volume attributes class's row."""
    return [name_of(obj), obj.get("driverName", ""), age_cell(obj)]


def volume_attachment_cells(obj: Obj) -> list[Any]:
    """A volume attachment's row."""
    spec = obj.get("spec", {})
    return [
        name_of(obj),
        spec.get("attacher", ""),
        spec.get("source", {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        obj.get("status", {}).get("attached", False),
        age_cell(obj),
    ]


def driver_cells(obj: Obj) -> list[Any]:
    """A CSI driver's row."""
    spec = obj.get("spec", {})
    requests = spec.get("tokenRequests")
    return [
        name_of(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET
        if requests is None
        else ",".join(request.get("audience", "") for request in requests),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_cell(obj),
    ]


def driver_node_cells(obj: Obj) -> list[Any]:
    """A CSI node's row."""
    return [name_of(obj), len(obj.get("spec", {}).get("drivers") or ()), age_cell(obj)]


def device_claim_cells(obj: Obj) -> list[Any]:
    """A resource claim's row."""
    status, states = obj.get("status", {}), []
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    if deleted:
        states.append("deleted")
    if status.get("allocation"):
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_cell(obj)]


def device_slice_cells(obj: Obj) -> list[Any]:
    """A resource slice's row."""
    spec = obj.get("spec", {})
    pool = spec.get("pool", {}).get("name", "")
    return [name_of(obj), spec.get("nodeName", ""), spec.get("driver", ""), pool, age_cell(obj)]


def name_and_age_cells(obj: Obj) -> list[Any]:
    """A row of name and age."""
    return [name_of(obj), age_cell(obj)]


def node_cells(obj: Obj) -> list[Any]:
    """A node's row."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", ())
    }
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
    for address in status.get("addresses", ()):
        addresses.setdefault(address["type"], address["address"])
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
    """A component status's row."""
    for condition in obj.get("conditions", ()):
        if condition["type"] == "Healthy":
            state = "Healthy" if condition["status"] == "True" else "Unhealthy"
            return [name_of(obj), state, condition.get("message", ""), condition.get("error", "")]
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
    """A role binding's row."""
    reference, subjects = obj.get("roleRef", {}), obj.get("subjects") or ()
    accounts = (
        f"{subject.get('namespace', '')}/{subject['name']}"
        for subject in subjects
        if subject["kind"] == "ServiceAccount"
    )
    return [
        name_of(obj),
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_cell(obj),
        ", ".join(subject["name"] for subject in subjects if subject["kind"] == "User"),
        ", ".join(subject["name"] for subject in subjects if subject["kind"] == "Group"),
        ", ".join(accounts),
    ]


def quota_cells(obj: Obj) -> list[Any]:
    """A resource quota's row: requests and limits."""
    status = obj.get("status", {})
    used = status.get("used", {})
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted(status.get("hard", {}).items()):
        text = f"{resource}: {used.get(resource, '0')}/{hard}"
        (limits if resource.startswith("limits.") else requests).append(text)
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_cell(obj)]


def budget_cells(obj: Obj) -> list[Any]:
    """A pod disruption budget's row."""
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
    owner, owner_text = owner_of(obj), NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        owner_text = f"{kind.lower()}/{owner['name']}"
    return [name_of(obj), owner_text, obj.get("revision", 0), age_cell(obj)]


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
    """A certificate signing request's row."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    types = {condition["type"] for condition in status.get("conditions", ())}
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
    """A webhook configuration's row."""
    return [name_of(obj), len(obj.get("webhooks") or ()), age_cell(obj)]


def policy_cells(obj: Obj) -> list[Any]:
    """An admission policy's row, validating or mutating."""
    spec = obj.get("spec", {})
    kind = spec.get("paramKind")
    kind_text = f"{kind['apiVersion']}/{kind['kind']}" if kind else UNSET
    rules = spec.get("mutations") or spec.get("validations") or ()
    return [name_of(obj), len(rules), kind_text, age_cell(obj)]


def policy_binding_cells(obj: Obj) -> list[Any]:
    """An admission policy binding's row."""
    spec = obj.get("spec", {})
    reference, params_text = spec.get("paramRef"), UNSET
    if reference and reference.get("name"):
        params_text = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference and reference.get("selector"):
        params_text = format_label_selector(reference["selector"])
    return [name_of(obj), spec.get("policyName", ""), params_text, age_cell(obj)]


def flow_schema_cells(obj: Obj) -> list[Any]:
    """A flow schema's row."""
    spec = obj.get("spec", {})
    dangling = "?"
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition["type"] == "Dangling":
            dangling = condition["status"]
    return [
        name_of(obj),
        spec.get("priorityLevelConfiguration", {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type", NONE),
        age_cell(obj),
        dangling,
    ]


def priority_level_cells(obj: Obj) -> list[Any]:
    """A priority level configuration's row."""
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
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition["type"] == "Available":
            state = condition["status"]
            if state != "True":
                state += f" ({condition.get('reason', '')})"
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [name_of(obj), where, state, age_cell(obj)]
