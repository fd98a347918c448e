"""Strategies of core kinds without storages of their own, and of kinds that configure the cluster.

Contents: ConfigMaps, Secrets, ServiceAccounts, Events, Leases, ResourceQuotas, LimitRanges,
Nodes, RuntimeClasses, PriorityClasses.

Source: k8s.io/kubernetes
pkg/registry/core/{configmap,secret,event,serviceaccount,node}/strategy.go,
pkg/registry/{coordination/lease,node/runtimeclass,scheduling/priorityclass}/strategy.go,
pkg/apis/{core,scheduling}/v1/{defaults,conversion}.go.
"""

from __future__ import annotations

import base64
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
from pytest_kwait.simulator.validation.core.resource_quotas import (
    validate_resource_quota,
    validate_resource_quota_status,
    validate_resource_quota_update,
)
from pytest_kwait.simulator.validation.node import (
    validate_runtime_class,
    validate_runtime_class_update,
)
from pytest_kwait.simulator.validation.objectmeta import name_is_path_segment
from pytest_kwait.simulator.validation.scheduling import (
    validate_priority_class,
    validate_priority_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ConfigMapStrategy(Strategy):
    """The strategy of config maps."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_config_map)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that immutable data does not change."""
        return validate_immutable_data(new, old, "data", "binaryData")


class SecretStrategy(Strategy):
    """The strategy of secrets."""

    validates_metadata_on_update = True
    repeats_warnings_on_update = True
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

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of invalid TLS certificates."""
        for text in get_secret_warnings(obj):
            caller.warn(text)


class ServiceAccountStrategy(Strategy):
    """The strategy of service accounts."""

    returns_deleted_object = True
    validates_metadata_on_update = True

    def prepare_for_create(self, obj: Obj) -> None:
        """Keep only the names of secrets."""
        super().prepare_for_create(obj)
        _keep_only_names(obj)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Prepare the object as at creation."""
        super().prepare_for_update(new, old)
        _keep_only_names(new)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of a deprecated annotation."""
        if _MOUNTABLE in annotations_of(obj):
            caller.warn(
                f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate "
                "namespaces to isolate access to mounted secrets"
            )

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of a deprecated annotation that is new."""
        if _MOUNTABLE not in annotations_of(old):
            self.warn_on_create(new, caller)


def _keep_only_names(account: Obj) -> None:
    if "secrets" in account:
        account["secrets"] = [
            {"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]
        ]


class EventStrategy(Strategy):
    """The strategy of events, in both of their groups."""

    validate_name = staticmethod(name_is_path_segment)
    allows_create_on_update = True
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
    """The strategy of leases."""

    allows_create_on_update = True
    allows_unconditional_update = False
    validate_create = staticmethod(validate_lease)

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop the fields of coordinated leader election, which is disabled."""
        super().prepare_for_create(obj)
        _drop_coordinated_fields(obj)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Prepare the object as at creation."""
        super().prepare_for_update(new, old)
        _drop_coordinated_fields(new)


def _drop_coordinated_fields(obj: Obj) -> None:
    spec = obj.get("spec") or {}
    for field in ("strategy", "preferredHolder"):
        spec.pop(field, None)


class ResourceQuotaStrategy(Strategy):
    """The strategy of resource quotas."""

    returns_deleted_object = True
    validate_create = staticmethod(validate_resource_quota)
    validate_update = staticmethod(validate_resource_quota_update)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate names and amounts."""
        del old
        return validate_resource_quota_status(new.get("status", {}))


class LimitRangeStrategy(Strategy):
    """The strategy of limit ranges."""

    allows_create_on_update = True
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
    """The strategy of nodes."""

    resource_prefix = "minions"
    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_node)
    validate_update = staticmethod(validate_node_update)
    validate_status = staticmethod(validate_node_update)

    def default(self, obj: Obj) -> None:
        """Default allocatable to capacity, and `podCIDR` and `podCIDRs` to each other."""
        super().default(obj)
        status, spec = obj.get("status") or {}, obj.get("spec") or {}
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        pod_cidr, pod_cidrs = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if pod_cidr and pod_cidrs[:1] != [pod_cidr]:
            spec["podCIDRs"] = [pod_cidr]
        elif pod_cidrs:
            spec["podCIDR"] = pod_cidrs[0]

    def prepare_for_create(self, obj: Obj) -> None:
        """Keep the status that the node is created with."""
        status = obj.get("status", {})
        super().prepare_for_create(obj)
        obj["status"] = status
        status.pop("config", None)
        (obj.get("spec") or {}).pop("configSource", None)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Drop the removed dynamic kubelet configuration."""
        super().prepare_for_update(new, old)
        if "configSource" not in (old.get("spec") or {}):
            (new.get("spec") or {}).pop("configSource", None)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate or warn as for a new object."""
        del old
        return validate_node(new)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated fields."""
        for text in get_node_warnings(obj):
            caller.warn(text)


class RuntimeClassStrategy(Strategy):
    """The strategy of runtime classes."""

    allows_create_on_update = True
    allows_unconditional_update = False
    validates_metadata_on_update = True
    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_runtime_class)
    validate_update = staticmethod(validate_runtime_class_update)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated node labels."""
        for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
            if key in DEPRECATED_NODE_LABELS:
                caller.warn(f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}")


class PriorityClassStrategy(Strategy):
    """The strategy of priority classes."""

    validate_create = staticmethod(validate_priority_class)
    validate_update = staticmethod(validate_priority_class_update)

    def default(self, obj: Obj) -> None:
        """Set the default preemption policy."""
        super().default(obj)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def increments_generation(self, new: Obj, old: Obj) -> bool:
        """Return False: priority classes have no generation."""
        del new, old
        return False
