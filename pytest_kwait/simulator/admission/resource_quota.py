"""ResourceQuota: the usage of objects, and the plugin that refuses what exceeds a quota.

Source: k8s.io/apiserver pkg/quota/v1/{resources.go,generic/evaluator.go},
pkg/admission/plugin/resourcequota/controller.go (`CheckRequest`); k8s.io/kubernetes
pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.quantities import Quantity, parse_quantity
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.admission.pod_resources import (
    ResourceList,
    add_resources,
    is_pod_level_resource,
    parse_resource_list,
    total_pod_resources,
)
from pytest_kwait.simulator.objects import name_of, namespace_of, storage_class_of
from pytest_kwait.simulator.request_info import server_caller
from pytest_kwait.simulator.validation.core.resources import qos_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

IGNORED_RESOURCES = frozenset(("events", "events.events.k8s.io", "bindings", "componentstatuses"))
"""The resources that quotas ignore."""

_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
_ONE = Quantity(Fraction(1))
_ZERO = Quantity(Fraction(0))
_ALIASES = frozenset(("configmaps", "replicationcontrollers", "resourcequotas", "secrets"))
_PODS = frozenset(
    [
        "count/pods",
        "pods",
        *(
            f"{part}{name}"
            for part in ("", "requests.", "limits.")
            for name in ("cpu", "memory", "ephemeral-storage")
        ),
    ]
)
_SERVICES = frozenset(
    ("count/services", "services", "services.nodeports", "services.loadbalancers")
)
_CLAIMS = frozenset(("persistentvolumeclaims", "requests.storage"))
_BY_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = "deviceclass.resource.kubernetes.io/"
_REQUIRED_RESOURCES = frozenset(
    f"{part}{name}" for part in ("", "requests.", "limits.") for name in ("cpu", "memory")
)


def is_in_scopes(quota_spec: Obj, resource: str, obj: Obj) -> bool:
    """Return whether the object is in all scopes of the quota.

    Args:
        quota_spec: the quota's spec.
        resource: the object's resource, such as `pods`.
    """
    selectors = [
        {"scopeName": scope, "operator": "Exists"} for scope in quota_spec.get("scopes", ())
    ]
    selectors += quota_spec.get("scopeSelector", {}).get("matchExpressions", ())
    if resource == "pods":
        return all(_pod_matches(selector, obj) for selector in selectors)
    if resource == "persistentvolumeclaims":
        return all(_claim_matches(selector, obj) for selector in selectors)
    return not selectors


def has_deadline(pod: Obj) -> bool:
    """Return whether the pod has a deadline: the quota scope `Terminating`."""
    return int(pod["spec"].get("activeDeadlineSeconds", -1)) >= 0


def _pod_matches(selector: Obj, pod: Obj) -> bool:
    spec = pod["spec"]
    match selector.get("scopeName"):
        case "Terminating":
            return has_deadline(pod)
        case "NotTerminating":
            return not has_deadline(pod)
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            name = spec.get("priorityClassName", "")
            return _matches_expression(selector, {name} if name else set())
        case "CrossNamespacePodAffinity":
            return _has_cross_namespace_affinity(spec.get("affinity", {}))
    return False


def _claim_matches(selector: Obj, claim: Obj) -> bool:
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status", {})
    names = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        status.get("modifyVolumeStatus", {}).get("targetVolumeAttributesClassName"),
    )
    return _matches_expression(selector, {name for name in names if name})


def _matches_expression(selector: Obj, names: set[str]) -> bool:
    values = set(selector.get("values", ()))
    match selector.get("operator"):
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return bool(names & values)
        case "NotIn":
            return not names or bool(names - values)
    return False


def _has_cross_namespace_affinity(affinity: Mapping[str, Any]) -> bool:
    for part in ("podAffinity", "podAntiAffinity"):
        pod_affinity = affinity.get(part, {})
        terms = [*pod_affinity.get(_REQUIRED_TERMS, ())]
        terms += [
            wish.get("podAffinityTerm", {}) for wish in pod_affinity.get(_PREFERRED_TERMS, ())
        ]
        if any(term.get("namespaces") or "namespaceSelector" in term for term in terms):
            return True
    return False


def matching_resource_names(resource: str, names: Iterable[str]) -> list[str]:
    """Return the quota names that count objects of `resource`, in order."""
    return sorted(name for name in names if resource_of_quota_name(name) == resource)


def resource_of_quota_name(name: str) -> str:
    """Return the resource that a quota name counts; empty for none."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in _PODS or name.startswith(("hugepages-", "requests.hugepages-")):
        return "pods"
    if name in _SERVICES:
        return "services"
    if name in _CLAIMS or name.endswith(tuple(_BY_CLASS + claim for claim in _CLAIMS)):
        return "persistentvolumeclaims"
    if name in _ALIASES:
        return name
    foreign = "/" in name and "kubernetes.io/" not in name
    if name.startswith("requests.") and (foreign or name.startswith(f"requests.{_DEVICES}")):
        return "pods"
    return ""


def object_usage(resource: str, obj: Obj, now: float) -> ResourceList:
    """Return the usage of an object, by quota names.

    Args:
        resource: the object's resource, such as `jobs.batch`.
        now: seconds since the epoch.
    """
    taken: ResourceList = {f"count/{resource}": _ONE}
    match resource:
        case "pods":
            if is_pod_counted(obj, now):
                spec = obj["spec"]
                requests, limits = (
                    total_pod_resources(spec, "requests"),
                    total_pod_resources(spec, "limits"),
                )
                taken.update(_compute_usage(requests, limits))
        case "services":
            taken.update(_service_usage(obj["spec"]))
        case "persistentvolumeclaims":
            taken.update(_claim_usage(obj))
        case _ if resource in _ALIASES:
            taken[resource] = _ONE
    return taken


def is_pod_counted(pod: Obj, now: float) -> bool:
    """Return whether the pod is neither finished nor overdue for deletion."""
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata and "deletionGracePeriodSeconds" in metadata:
        grace = metadata["deletionGracePeriodSeconds"]
        return now <= parse_time(metadata["deletionTimestamp"]) + float(grace)
    return True


def _compute_usage(requests: ResourceList, limits: ResourceList) -> ResourceList:
    taken: ResourceList = {"pods": _ONE}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            taken[name] = taken[f"requests.{name}"] = requests[name]
        if name in limits:
            taken[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            taken[name] = taken[f"requests.{name}"] = amount
        elif ("/" in name and "kubernetes.io/" not in name) or name.startswith(_DEVICES):
            taken[f"requests.{name}"] = amount
    return taken


def _service_usage(spec: Obj) -> ResourceList:
    ports = spec.get("ports", ())
    of_nodes = balancers = 0
    if spec.get("type") == "NodePort":
        of_nodes = len(ports)
    elif spec.get("type") == "LoadBalancer":
        balancers = 1
        allocate_load_balancer_node_ports = spec.get("allocateLoadBalancerNodePorts", True)
        of_nodes = (
            len(ports)
            if allocate_load_balancer_node_ports
            else sum(bool(port.get("nodePort")) for port in ports)
        )
    return {
        "services": _ONE,
        "services.nodeports": Quantity(Fraction(of_nodes)),
        "services.loadbalancers": Quantity(Fraction(balancers)),
    }


def _claim_usage(claim: Obj) -> ResourceList:
    taken: ResourceList = {"persistentvolumeclaims": _ONE}
    storage_class = storage_class_of(claim)
    requested = claim["spec"].get("resources", {}).get("requests", {}).get("storage")
    if requested is not None:
        storage = parse_quantity(requested)
        allocated = claim.get("status", {}).get("allocatedResources", {}).get("storage")
        if allocated is not None:
            storage = max(storage, parse_quantity(allocated))
        whole = Fraction(math.ceil(storage.amount))
        taken["requests.storage"] = Quantity(whole, storage.notation)
    if storage_class:
        taken.update({f"{storage_class}{_BY_CLASS}{name}": taken[name] for name in list(taken)})
    return taken


def missing_resources(resource: str, obj: Obj, names: Iterable[str]) -> str:
    """Return an error for missing requests or limits; empty if there is none.

    Each container of a pod must set the cpu and memory that a quota counts.
    """
    if resource != "pods":
        return ""
    spec = obj["spec"]
    whole = spec.get("resources", {})
    if any(
        is_pod_level_resource(name)
        for part in ("requests", "limits")
        for name in whole.get(part, ())
    ):
        return ""
    required = _REQUIRED_RESOURCES.intersection(names)
    unsaid: dict[str, set[str]] = {}
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            resources = container.get("resources", {})
            requests = dict.fromkeys(resources.get("requests", ()), _ZERO)
            limits = dict.fromkeys(resources.get("limits", ()), _ZERO)
            for name in required - _compute_usage(requests, limits).keys():
                unsaid.setdefault(name, set()).add(container.get("name", ""))
    if not unsaid:
        return ""
    texts = [f"{name} for: {','.join(sorted(unsaid[name]))}" for name in sorted(unsaid)]
    return f"must specify {'; '.join(texts)}"


def is_counted_change(attributes: Attributes) -> bool:
    """Return whether the request may change a quota's usage."""
    operation, subresource = attributes.operation, attributes.subresource
    match attributes.kind.bucket:
        case "pods":
            if subresource == "resize":
                return operation == "UPDATE"
            if operation == "UPDATE" and not subresource and attributes.obj and attributes.old:
                return has_deadline(attributes.obj) != has_deadline(attributes.old)
            return operation == "CREATE" and not subresource
        case "services":
            return not subresource
        case "persistentvolumeclaims":
            return subresource in ("", "status")
    return operation == "CREATE" and not subresource


class ResourceQuota(AdmissionPlugin):
    """The ResourceQuota plugin."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._quotas = cluster.store.present("resourcequotas")

    def validate(self, attributes: Attributes) -> None:
        """Charge the request to every quota, or deny it.

        Usage is written together with the object, so denied requests charge nothing.

        Raises:
            StatusError: 403, a quota is exceeded or the pod lacks requests or limits.
        """
        kind = attributes.kind
        if (
            not kind.namespaced
            or attributes.operation == "DELETE"
            or kind.bucket in IGNORED_RESOURCES
        ):
            return
        if not self._quotas or attributes.obj is None:
            return
        quotas = self._cluster.list("resourcequotas", attributes.namespace)
        if not quotas or not is_counted_change(attributes):
            return
        self._check(attributes, attributes.obj, quotas)

    def _check(self, attributes: Attributes, obj: Obj, quotas: Iterable[Obj]) -> None:
        resource, now = attributes.kind.bucket, self._cluster.clock.time()
        chosen = [
            (quota, names)
            for quota in quotas
            if (names := matching_resource_names(resource, quota.get("status", {}).get("hard", ())))
            and is_in_scopes(quota["spec"], resource, obj)
        ]
        for quota, names in chosen:
            why = missing_resources(resource, obj, names)
            if why:
                raise attributes.forbidden(f"failed quota: {name_of(quota)}: {why}")
            used = quota["status"].get("used", {})
            if any(name not in used for name in names):
                raise attributes.forbidden(
                    f"status unknown for quota: {name_of(quota)}, resources: {','.join(names)}"
                )
        if not chosen:
            return
        taken = object_usage(resource, obj, now)
        negative = sorted(name for name, amount in taken.items() if amount.amount < 0)
        if negative:
            raise attributes.forbidden(
                f"quota usage is negative for resource(s): {','.join(negative)}"
            )
        before = object_usage(resource, attributes.old, now) if attributes.old is not None else {}
        for quota, names in chosen:
            more = taken
            if attributes.old is not None and is_in_scopes(quota["spec"], resource, attributes.old):
                more = _usage_increase(taken, before)
            more = {name: more[name] for name in names if name in more and more[name].amount}
            if more:
                self._charge(attributes, quota, more)

    def _charge(self, attributes: Attributes, quota: Obj, more: ResourceList) -> None:
        used, hard = (
            parse_resource_list(quota["status"]["used"]),
            parse_resource_list(quota["status"]["hard"]),
        )
        total = dict(used)
        add_resources(total, more)
        exceeded = sorted(name for name in more if total[name] > hard[name])
        if exceeded and attributes.subresource != "status":
            raise attributes.forbidden(
                f"exceeded quota: {name_of(quota)}, "
                f"requested: {_format_resources(more, exceeded)}, "
                f"used: {_format_resources(used, exceeded)}, "
                f"limited: {_format_resources(hard, exceeded)}"
            )
        attributes.on_store.append(lambda: self._record_usage(quota, more))

    def _record_usage(self, quota: Obj, more: ResourceList) -> None:
        def take(changed: Obj) -> None:
            used = parse_resource_list(changed["status"].get("used"))
            add_resources(used, more)
            changed["status"]["used"] = {name: str(amount) for name, amount in used.items()}

        name, namespace = name_of(quota), namespace_of(quota)
        if self._cluster.find("resourcequotas", name, namespace) is not None:
            self._cluster.modify(
                "resourcequotas",
                name,
                namespace,
                take,
                subresource="status",
                caller=server_caller(),
            )


def _usage_increase(taken: ResourceList, before: ResourceList) -> ResourceList:
    """Return the increase of usage, at least zero."""
    return {
        name: amount - before[name] if name in before else amount
        for name, amount in taken.items()
        if name not in before or amount > before[name]
    }


def _format_resources(listed: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={listed[name]}" for name in names)
