"""Strategies of namespaces, resource quotas and limit ranges.

Source: pkg/registry/core/namespace/strategy.go; pkg/apis/core/v1/defaults.go
(SetDefaults_LimitRangeItem).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.limit_ranges import validate_limit_range
from pytest_kwait.simulator.validation.core.resource_quotas import (
    validate_resource_quota,
    validate_resource_quota_status,
    validate_resource_quota_update,
)
from pytest_kwait.simulator.validation.objectmeta import (
    validate_finalizer_name,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "NAME_LABEL",
    "LimitRangeStrategy",
    "NamespaceStrategy",
    "ResourceQuotaStrategy",
]

NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Source: pkg/registry/core/namespace/strategy.go, pkg/apis/core/v1/defaults.go."""

    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """Label the namespace with its own name."""
        super().default(obj)
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_create(self, obj: Obj) -> None:
        """Active from the start, with the finalizer that its content is removed by."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Finalizers of the spec change through `finalize` alone."""
        super().prepare_update(new, old)
        new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Finalizers have names."""
        return [
            error
            for name in obj["spec"]["finalizers"]
            for error in validate_finalizer_name(name, "spec.finalizers")
        ]

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Only metadata changes."""
        del new, old
        return []

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """The phase follows from whether the namespace is being deleted."""
        del old
        phase = (new.get("status") or {}).get("phase", "")
        going = bool(new["metadata"].get("deletionTimestamp"))
        wanted = "Terminating" if going else "Active"
        if phase == wanted:
            return []
        text = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if going else ''}empty"
        return [invalid_value("status.Phase", phase, text)]


class ResourceQuotaStrategy(Strategy):
    """The strategy of resource quotas."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate names, amounts and scopes."""
        return validate_resource_quota(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; scopes must not change."""
        return validate_resource_quota_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate names and amounts."""
        del old
        return validate_resource_quota_status(new.get("status", {}))


class LimitRangeStrategy(Strategy):
    """The strategy of limit ranges."""

    def default(self, obj: Obj) -> None:
        """Limits of containers default to the most; requests to them, or to the least."""
        super().default(obj)
        for limit in obj.get("spec", {}).get("limits") or ():
            if limit.get("type") == "Container":
                default = {**limit.get("max", {}), **limit.get("default", {})}
                request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
                for field, value in (("default", default), ("defaultRequest", request)):
                    if value:
                        limit[field] = value

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate each limit."""
        return validate_limit_range(obj)
