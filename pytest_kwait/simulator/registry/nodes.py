"""Nodes: created with the status that their kubelet knows.

Source: k8s.io/kubernetes pkg/registry/core/node/strategy.go, pkg/apis/core/v1/defaults.go,
conversion.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.nodes import (
    get_node_warnings,
    validate_node,
    validate_node_update,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["NodeStrategy"]


class NodeStrategy(Strategy):
    """Nodes."""

    def default(self, obj: Obj) -> None:
        """All is allocatable that there is; the network of pods is told twice."""
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
        """A node keeps the status that it is created with."""
        status = obj.get("status", {})
        super().prepare_create(obj)
        obj["status"] = status
        status.pop("config", None)
        (obj.get("spec") or {}).pop("configSource", None)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Kubelets are configured otherwise by now."""
        super().prepare_update(new, old)
        if "configSource" not in (old.get("spec") or {}):
            (new.get("spec") or {}).pop("configSource", None)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Taints, amounts, networks."""
        return validate_node(obj)

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """The same as of a new one."""
        del old
        return validate_node(new)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What never changes."""
        return validate_node_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """The same."""
        return validate_node_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """What is deprecated."""
        for text in get_node_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same."""
        del old
        self.warn_create(new, caller)
