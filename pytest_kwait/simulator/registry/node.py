"""Runtime classes: how containers of a class are run, and where.

Source: k8s.io/kubernetes pkg/apis/node/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.node_labels import DEPRECATED_NODE_LABELS
from pytest_kwait.simulator.validation.core.resources import validate_resource_requirements
from pytest_kwait.simulator.validation.core.tolerations import validate_tolerations
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.findings import ErrorList
from pytest_kwait.simulator.validation.formats import dns_label_texts
from pytest_kwait.simulator.validation.objectmeta import label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = ["RuntimeClassStrategy"]


class RuntimeClassStrategy(Strategy):
    """Runtime classes."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A handler by name, what it costs, and nodes by their labels and taints."""
        handler, scheduling = obj.get("handler", ""), obj.get("scheduling") or {}
        found = ErrorList()
        if obj.get("overhead") is not None:
            limits = {"limits": obj["overhead"].get("podFixed") or {}}
            validate_resource_requirements(limits, (), "overhead", found)
        found += label_errors(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        validate_tolerations(tolerations, "scheduling.tolerations", found)
        seen: list[Obj] = []
        for index, toleration in enumerate(tolerations):
            key = {**toleration, "tolerationSeconds": None}
            if key in seen:
                shown = format_internal("core.Toleration", toleration)
                found.duplicate(f"scheduling.tolerations[{index}]", shown)
            seen.append(key)
        if not handler:
            found.required("handler")
        else:
            found.texts("handler", handler, dns_label_texts(handler))
        return found

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Labels that are on their way out."""
        for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
            if key in DEPRECATED_NODE_LABELS:
                caller.warn(f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[key]}")

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same."""
        del old
        self.warn_create(new, caller)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The handler never changes."""
        handler = new.get("handler", "")
        if handler == old.get("handler", ""):
            return []
        return [invalid_value("handler", handler, "field is immutable")]
