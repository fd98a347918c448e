"""Strategies of core kinds, except services, and of kinds that configure the cluster.

Contents: ConfigMaps, Secrets, ServiceAccounts, Events, Leases, Namespaces, ResourceQuotas,
LimitRanges, Nodes, RuntimeClasses, PriorityClasses; Pods, and the defaults of pod templates.

Source: k8s.io/kubernetes
pkg/registry/core/{configmap,secret,event,serviceaccount,namespace,node,pod}/strategy.go,
pkg/registry/{coordination/lease,node/runtimeclass,scheduling/priorityclass}/strategy.go,
pkg/apis/{core,scheduling}/v1/{defaults,conversion}.go, pkg/api/pod/util.go.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import invalid_value
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.config import (
    get_secret_warnings,
    validate_config_map,
    validate_event,
    validate_event_update,
    validate_immutable_data,
    validate_lease,
    validate_secret,
)
from pytest_kwait.simulator.validation.core.limit_ranges import validate_limit_range
from pytest_kwait.simulator.validation.core.nodes import (
    DEPRECATED_NODE_LABELS,
    get_node_warnings,
    validate_node,
    validate_node_update,
)
from pytest_kwait.simulator.validation.core.pods.pod_spec import (
    APP_ARMOR_ANNOTATION_PREFIX,
    validate_pod_create,
)
from pytest_kwait.simulator.validation.core.pods.pod_update import (
    validate_pod_status_update,
    validate_pod_update,
)
from pytest_kwait.simulator.validation.core.pods.security import visit_containers_with_path
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings
from pytest_kwait.simulator.validation.core.resource_quotas import (
    validate_resource_quota,
    validate_resource_quota_status,
    validate_resource_quota_update,
)
from pytest_kwait.simulator.validation.core.resources import (
    aggregate_container_resources,
    qos_class,
)
from pytest_kwait.simulator.validation.node import (
    validate_runtime_class,
    validate_runtime_class_update,
)
from pytest_kwait.simulator.validation.objectmeta import validate_finalizer_name
from pytest_kwait.simulator.validation.scheduling import (
    validate_priority_class,
    validate_priority_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

NAME_LABEL = "kubernetes.io/metadata.name"

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_LISTS = ("initContainers", "containers")
_COMPUTE = ("cpu", "memory")
_HUGE_PAGES_PREFIX = "hugepages-"
_IMAGE_REFERENCE = re.compile(
    # An image's name as far as it may be read: [host[:port]/]path[:tag][@digest].
    r"(?:[A-Za-z0-9][-A-Za-z0-9.]*(?::\d+)?/|\[[0-9a-fA-F:]+\](?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?P<tag>:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_DISABLED_SOURCES = ("clusterTrustBundle", "podCertificate")
_REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


class ConfigMapStrategy(Strategy):
    """Config maps."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_config_map)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that immutable data does not change."""
        return validate_immutable_data(new, old, "data", "binaryData")


class SecretStrategy(Strategy):
    """Secrets."""

    validates_metadata_on_update = True
    warns_on_update = True
    validate_create = staticmethod(validate_secret)

    def default(self, obj: Obj) -> None:
        """Encode `stringData` into `data`."""
        super().default(obj)
        obj.setdefault("type", "Opaque")
        for key, text in obj.pop("stringData", {}).items():
            data = obj.setdefault("data", {})
            data[key] = base64.b64encode(text.encode()).decode()

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that the type and immutable data do not change."""
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid_value("type", new.get("type"), "field is immutable"))
        return errors + validate_immutable_data(new, old, "data")

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of invalid TLS certificates."""
        for text in get_secret_warnings(obj):
            caller.warn(text)


class ServiceAccountStrategy(Strategy):
    """Service accounts."""

    validates_metadata_on_update = True

    def prepare_create(self, obj: Obj) -> None:
        """Keep only the names of secrets."""
        super().prepare_create(obj)
        _keep_only_names(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Prepare the object as at creation."""
        super().prepare_update(new, old)
        _keep_only_names(new)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of a deprecated annotation."""
        if _MOUNTABLE in annotations_of(obj):
            caller.warn(
                f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate "
                "namespaces to isolate access to mounted secrets"
            )

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of a deprecated annotation that is new."""
        if _MOUNTABLE not in annotations_of(old):
            self.warn_create(new, caller)


def _keep_only_names(account: Obj) -> None:
    if "secrets" in account:
        account["secrets"] = [
            {"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]
        ]


class EventStrategy(Strategy):
    """Events, in both of their groups."""

    validates_metadata = False

    def default(self, obj: Obj) -> None:
        """Set the defaults of core/v1 events only."""
        if not self.kind.group:
            super().default(obj)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the namespace, and in events.k8s.io/v1 the required fields."""
        return validate_event(obj, newer=bool(self.kind.group))

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate a change: in events.k8s.io/v1 only the series may change."""
        return validate_event_update(new, old, newer=bool(self.kind.group))


class LeaseStrategy(Strategy):
    """Leases."""

    validate_create = staticmethod(validate_lease)

    def prepare_create(self, obj: Obj) -> None:
        """Drop the fields of coordinated leader election, which is disabled."""
        super().prepare_create(obj)
        _drop_coordinated_fields(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Prepare the object as at creation."""
        super().prepare_update(new, old)
        _drop_coordinated_fields(new)


def _drop_coordinated_fields(obj: Obj) -> None:
    spec = obj.get("spec") or {}
    for field in ("strategy", "preferredHolder"):
        spec.pop(field, None)


class NamespaceStrategy(Strategy):
    """The strategy of namespaces."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Label the namespace with its own name."""
        super().default(obj)
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_create(self, obj: Obj) -> None:
        """Set the phase Active and the finalizer `kubernetes`."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Restore the finalizers of the spec; only `finalize` changes them."""
        super().prepare_update(new, old)
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the finalizers of the spec."""
        return [
            error
            for name in obj["spec"]["finalizers"]
            for error in validate_finalizer_name(name, "spec.finalizers")
        ]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that only metadata changes."""
        del new, old
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that the phase matches the deletion timestamp."""
        del old
        phase = (new.get("status") or {}).get("phase", "")
        going = bool(new["metadata"].get("deletionTimestamp"))
        expected_phase = "Terminating" if going else "Active"
        if phase == expected_phase:
            return []
        text = (
            f"may only be '{expected_phase}' if `deletionTimestamp` is "
            f"{'not ' if going else ''}empty"
        )
        return [invalid_value("status.Phase", phase, text)]


class ResourceQuotaStrategy(Strategy):
    """The strategy of resource quotas."""

    validate_create = staticmethod(validate_resource_quota)
    validate_update = staticmethod(validate_resource_quota_update)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate names and amounts."""
        del old
        return validate_resource_quota_status(new.get("status", {}))


class LimitRangeStrategy(Strategy):
    """The strategy of limit ranges."""

    validate_create = staticmethod(validate_limit_range)

    def default(self, obj: Obj) -> None:
        """Default the limits of containers to `max`, and requests to limits or `min`."""
        super().default(obj)
        for limit in obj.get("spec", {}).get("limits") or ():
            if limit.get("type") == "Container":
                default = {**limit.get("max", {}), **limit.get("default", {})}
                request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
                for field, value in (("default", default), ("defaultRequest", request)):
                    if value:
                        limit[field] = value


class NodeStrategy(Strategy):
    """Nodes."""

    warns_on_update = True
    validate_create = staticmethod(validate_node)
    validate_update = staticmethod(validate_node_update)
    validate_status = staticmethod(validate_node_update)

    def default(self, obj: Obj) -> None:
        """Default allocatable to capacity, and `podCIDR` and `podCIDRs` to each other."""
        super().default(obj)
        status, spec = obj.get("status") or {}, obj.get("spec") or {}
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        pod_cidr, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if pod_cidr and all_of_them[:1] != [pod_cidr]:
            spec["podCIDRs"] = [pod_cidr]
        elif all_of_them:
            spec["podCIDR"] = all_of_them[0]

    def prepare_create(self, obj: Obj) -> None:
        """Keep the status that the node is created with."""
        status = obj.get("status", {})
        super().prepare_create(obj)
        obj["status"] = status
        status.pop("config", None)
        (obj.get("spec") or {}).pop("configSource", None)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Drop the removed dynamic kubelet configuration."""
        super().prepare_update(new, old)
        if "configSource" not in (old.get("spec") or {}):
            (new.get("spec") or {}).pop("configSource", None)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate or warn as for a new object."""
        del old
        return validate_node(new)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated fields."""
        for text in get_node_warnings(obj):
            caller.warn(text)


class RuntimeClassStrategy(Strategy):
    """Runtime classes."""

    validates_metadata_on_update = True
    warns_on_update = True
    validate_create = staticmethod(validate_runtime_class)
    validate_update = staticmethod(validate_runtime_class_update)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated node labels."""
        for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
            if key in DEPRECATED_NODE_LABELS:
                caller.warn(f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}")


class PriorityClassStrategy(Strategy):
    """Priority classes."""

    validate_create = staticmethod(validate_priority_class)
    validate_update = staticmethod(validate_priority_class_update)

    def default(self, obj: Obj) -> None:
        """Set the default preemption policy."""
        super().default(obj)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def counts(self, new: Obj, old: Obj) -> bool:
        """Return False: priority classes have no generation."""
        del new, old
        return False


def default_pod_spec(spec: Obj) -> None:
    """Set the defaults of pods and templates that depend on other fields."""
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = _default_pull_policy(container.get("image", ""))
            container.setdefault("resources", {})
    for container in spec.get("ephemeralContainers", ()):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]


def _default_volume(volume: Obj) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    elif "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = _default_pull_policy(volume["image"].get("reference", ""))
    elif "azureDisk" in volume:
        volume["azureDisk"].setdefault("readOnly", False)


def _default_pull_policy(image: str) -> str:
    match = _IMAGE_REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    latest = match["tag"] == ":latest" or (not match["tag"] and not match["digest"])
    return "Always" if latest else "IfNotPresent"


def default_pod(spec: Obj) -> None:
    """Set the defaults of pods alone: requests from limits, host ports."""
    for field in _LISTS:
        for container in spec.get(field, ()):
            limits = container["resources"].get("limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for name, value in limits.items():
                    requests.setdefault(name, value)
            if spec.get("hostNetwork"):
                for port in container.get("ports", ()):
                    if not port.get("hostPort") and port.get("containerPort"):
                        port["hostPort"] = port["containerPort"]
    if spec.get("resources"):
        _default_pod_resources(spec, spec["resources"])
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _default_pod_resources(spec: Obj, resources: Obj) -> None:
    """Set pod-level requests and limits from those of the containers."""
    limits: dict[str, str] = resources.get("limits", {})
    requests: dict[str, str] = resources.get("requests", {})
    if limits or requests:
        for name, amount in aggregate_container_resources(spec, "limits").items():
            if name.startswith(_HUGE_PAGES_PREFIX) and name not in requests and name not in limits:
                limits[name] = str(amount)
                resources["limits"] = limits
    if not limits:
        return
    for name, amount in aggregate_container_resources(spec, "requests").items():
        if name in _COMPUTE and name not in requests:
            requests[name] = str(amount)
            resources["requests"] = requests
    for name, text in limits.items():
        if name not in requests and (name in _COMPUTE or name.startswith(_HUGE_PAGES_PREFIX)):
            requests[name] = text
            resources["requests"] = requests


def drop_disabled_fields(spec: Obj) -> None:
    """Drop fields of features that are off by default."""
    spec.pop("schedulingGroup", None)
    for volume in spec.get("volumes", ()):
        if "projected" in volume:
            for source in volume["projected"].get("sources") or ():
                for field in _DISABLED_SOURCES:
                    source.pop(field, None)
    for field in (*_LISTS, "ephemeralContainers"):
        for container in spec.get(field, ()):
            lifecycle = container.get("lifecycle", {})
            if "stopSignal" in lifecycle:
                del lifecycle["stopSignal"]
                if not lifecycle:
                    del container["lifecycle"]


class PodStrategy(Strategy):
    """The strategy of pods."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_pod_create)
    validate_update = staticmethod(validate_pod_update)
    validate_status = staticmethod(validate_pod_status_update)

    def default(self, obj: Obj) -> None:
        """Set the defaults of the spec."""
        super().default(obj)
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_pod(spec)

    def prepare_create(self, obj: Obj) -> None:
        """Set phase Pending and the QoS class."""
        sent = (obj.get("status") or {}).get("qosClass")
        super().prepare_create(obj)
        spec = obj["spec"]
        drop_disabled_fields(spec)
        quality = sent or qos_class(spec)
        obj["status"] = {"phase": "Pending", "qosClass": quality}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            _apply_label_keys(spec, obj["metadata"].get("labels", {}))

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Restore the status."""
        super().prepare_update(new, old)
        drop_disabled_fields(new["spec"])

    def prepare_by_caller(self, obj: Obj, caller: Caller) -> None:
        """Copy old annotations to fields."""
        annotations = obj["metadata"].get("annotations")
        if annotations:
            _apply_apparmor_annotations(obj["spec"], annotations, caller)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of fields and names that are not advised."""
        for text in get_name_warnings(obj, "the Pod's hostname"):
            caller.warn(text)
        for text in get_pod_warnings(obj["spec"], obj["metadata"], ""):
            caller.warn(text)

    def grace(self, obj: Obj, requested: int | None) -> int | None:
        """Return the requested or the pod's own period; 0 if pending or ended."""
        spec, status = obj.get("spec", {}), obj.get("status", {})
        period = (
            requested
            if requested is not None
            else int(spec.get("terminationGracePeriodSeconds", 0))
        )
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else period

    def prepare_status(self, new: Obj, old: Obj) -> None:
        """Restore the QoS class and the observed generations."""
        super().prepare_status(new, old)
        before = old.get("status", {})
        status = new.setdefault("status", {})
        for field in ("qosClass", "observedGeneration"):
            if field in before and not status.get(field):
                status[field] = before[field]
        forgotten = any(
            not condition.get("observedGeneration") for condition in status.get("conditions") or ()
        )
        if forgotten and any(
            "observedGeneration" in condition for condition in before.get("conditions", ())
        ):
            status["conditions"] = _keep_condition_generations(
                status["conditions"], before["conditions"]
            )


def _keep_condition_generations(conditions: list[Obj], before: list[Obj]) -> list[Obj]:
    """Return the conditions with their earlier generations."""
    known: dict[str, list[int]] = {}
    for condition in before:
        known.setdefault(condition.get("type", ""), []).append(
            condition.get("observedGeneration", 0)
        )
    merged_conditions = []
    for condition in conditions:
        earlier = known.get(condition.get("type", ""))
        generation = earlier.pop(0) if earlier else 0
        if generation and not condition.get("observedGeneration"):
            condition = {**condition, "observedGeneration": generation}
        merged_conditions.append(condition)
    return merged_conditions


def _apply_label_keys(spec: Obj, labels: dict[str, str]) -> None:
    """Add the pod's own values of `matchLabelKeys` to selectors."""
    affinity = spec.get("affinity", {})
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field, {})
        for term in terms.get(_REQUIRED_TERMS, ()):
            _apply_to_term(term, labels)
        for weighted in terms.get(_PREFERRED_TERMS, ()):
            _apply_to_term(weighted.get("podAffinityTerm", {}), labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _apply_to_term(constraint, labels)


def _apply_to_term(term: Obj, labels: dict[str, str]) -> None:
    if "labelSelector" not in term:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field, ()):
            if key in labels:
                rule = {"key": key, "operator": operator, "values": [labels[key]]}
                term["labelSelector"].setdefault("matchExpressions", []).append(rule)


def _apply_apparmor_annotations(spec: Obj, annotations: dict[str, str], caller: Caller) -> None:
    """Copy AppArmor annotations to fields, with a warning that refused pods have as well.

    Source: pkg/registry/core/pod/strategy.go, func applyAppArmorVersionSkew.
    """
    if (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, _ in visit_containers_with_path(spec, ""):
        key = APP_ARMOR_ANNOTATION_PREFIX + container.get("name", "")
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        if key not in annotations or own is not None:
            continue
        profile = _parse_apparmor_profile(annotations[key])
        if profile is not None and profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != of_pod:
            text = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            caller.warn(f"metadata.annotations[{key}]: {text}")


def _parse_apparmor_profile(annotation: str) -> Obj | None:
    kind, _, local = annotation.partition("/")
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if kind == "localhost" and local:
        return {"type": "Localhost", "localhostProfile": local} if local == local.strip() else None
    return None
