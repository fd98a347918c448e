"""Strategies of Nodes and RuntimeClasses.

Source: k8s.io/kubernetes pkg/registry/core/node/strategy.go, pkg/apis/core/v1/{defaults,
conversion}.go, pkg/registry/node/runtimeclass/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.nodes import (
    DEPRECATED_NODE_LABELS,
    get_node_warnings,
    validate_node,
    validate_node_update,
)
from pytest_kwait.simulator.validation.node import (
    validate_runtime_class,
    validate_runtime_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["NodeStrategy", "RuntimeClassStrategy"]


class NodeStrategy(Strategy):
    """Nodes."""

    def default(self, obj: Obj) -> None:
        """Default allocatable to capacity, and `podCIDR` and `podCIDRs` to each other."""
        super().default(obj)
        status, spec = obj.get("status") or {}, obj.get("spec") or {}
        if status.get("capacity") and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        one, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs") or []
        if one and all_of_them[:1] != [one]:
            spec["podCIDRs"] = [one]
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

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate taints, quantities and CIDRs."""
        return validate_node(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate or warn as for a new object."""
        del old
        return validate_node(new)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate immutable fields."""
        return validate_node_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """As for a new object."""
        return validate_node_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated fields."""
        for text in get_node_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """As for a new object."""
        del old
        self.warn_create(new, caller)


class RuntimeClassStrategy(Strategy):
    """Runtime classes."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate handler, overhead and scheduling."""
        return validate_runtime_class(obj)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated node labels."""
        for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
            if key in DEPRECATED_NODE_LABELS:
                caller.warn(f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}")

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """As for a new object."""
        del old
        self.warn_create(new, caller)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate that the handler does not change."""
        return validate_runtime_class_update(new, old)
