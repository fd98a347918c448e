"""Storage classes, attachments, CSI drivers and their nodes.

Source: k8s.io/kubernetes pkg/registry/storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.node_labels import DEPRECATED_NODE_LABELS
from pytest_kwait.simulator.validation.storage import (
    validate_csi_driver,
    validate_csi_node,
    validate_immutable_fields,
    validate_storage_class,
    validate_volume_attachment,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "CSIDriverStrategy",
    "CSINodeStrategy",
    "StorageClassStrategy",
    "VolumeAttachmentStrategy",
]


class StorageClassStrategy(Strategy):
    """Storage classes."""

    validates_metadata_on_update = True

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Who provisions, how, and where."""
        return validate_storage_class(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Only what later volumes may do changes."""
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return validate_immutable_fields(new, old, *fields)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Labels that are on their way out."""
        for index, term in enumerate(obj.get("allowedTopologies") or []):
            for number, rule in enumerate(term.get("matchLabelExpressions") or []):
                if rule.get("key") in DEPRECATED_NODE_LABELS:
                    at = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
                    caller.warn(f"{at}: {DEPRECATED_NODE_LABELS[rule['key']]}")

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same."""
        del old
        self.warn_create(new, caller)


class VolumeAttachmentStrategy(Strategy):
    """Attachments of volumes."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """By whom, of what, and where."""
        return validate_volume_attachment(obj)


class CSIDriverStrategy(Strategy):
    """CSI drivers."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Policies, tokens, modes."""
        return validate_csi_driver(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Whether it attaches, and its modes, never change."""
        errors = validate_csi_driver(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        for field, shown in (
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ):
            if spec.get(field) != before.get(field):
                text = "field is immutable"
                errors.append(invalid_value(f"spec.{shown}", spec.get(field), text))
        return errors


class CSINodeStrategy(Strategy):
    """Nodes as CSI drivers know them."""

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Drivers by name, each once."""
        return validate_csi_node(obj)
