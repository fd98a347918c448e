"""Strategies of volumes, claims, their classes, volume attachments and CSI drivers.

Source: k8s.io/kubernetes pkg/registry/storage,
pkg/registry/core/{persistentvolume,persistentvolumeclaim}/strategy.go,
pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import forbidden_field, invalid_value
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.core.nodes import DEPRECATED_NODE_LABELS
from pytest_kwait.simulator.validation.core.persistent_volume_claims import (
    get_persistent_volume_claim_warnings,
    validate_persistent_volume_claim,
    validate_persistent_volume_claim_status_update,
    validate_persistent_volume_claim_update,
)
from pytest_kwait.simulator.validation.core.persistent_volumes import (
    PERSISTENT_VOLUME_SOURCES,
    get_persistent_volume_warnings,
    validate_persistent_volume_spec,
)
from pytest_kwait.simulator.validation.internal_types import diff_internal
from pytest_kwait.simulator.validation.storage import (
    validate_csi_driver,
    validate_csi_node,
    validate_csi_storage_capacity,
    validate_immutable_fields,
    validate_storage_class,
    validate_volume_attachment,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_SNAPSHOT_KIND = ("snapshot.storage.k8s.io", "VolumeSnapshot")


class PersistentVolumeClaimStrategy(Strategy):
    """The strategy of persistent volume claims."""

    returns_deleted_object = True
    validates_metadata_on_update = True
    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_persistent_volume_claim)

    def prepare_for_create(self, obj: Obj) -> None:
        """Set phase Pending and the protection finalizer."""
        super().prepare_for_create(obj)
        obj["status"] = {"phase": "Pending"}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pvc-protection" not in finalizers:
            finalizers.append("kubernetes.io/pvc-protection")
        _sync_data_sources(obj.get("spec") or {}, {})

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Keep both data source fields equal."""
        super().prepare_for_update(new, old)
        _sync_data_sources(new.get("spec") or {}, old.get("spec") or {})

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; only the requested size of a bound claim may change."""
        return validate_persistent_volume_claim(new) + validate_persistent_volume_claim_update(
            new, old
        )

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate capacities and resize states."""
        del old
        return validate_persistent_volume_claim_status_update(new)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated and suspicious fields."""
        for text in get_persistent_volume_claim_warnings(obj):
            caller.warn(text)


def _sync_data_sources(spec: Obj, before: Obj) -> None:
    """Drop disallowed data sources and keep `dataSource` and `dataSourceRef` equal."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace") and not before.get("dataSourceRef"):
        del spec["dataSourceRef"]
        reference = None
    if source is not None and reference is None and not before.get("dataSource"):
        source_kind = (source.get("apiGroup") or "", source.get("kind", ""))
        if source_kind not in (("", "PersistentVolumeClaim"), _SNAPSHOT_KIND):
            del spec["dataSource"]
            source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        fields = ("apiGroup", "kind", "name")
        spec["dataSource"] = {name: reference[name] for name in fields if name in reference}


class PersistentVolumeStrategy(Strategy):
    """The strategy of persistent volumes."""

    returns_deleted_object = True
    validates_metadata_on_update = True
    repeats_warnings_on_update = True

    def default(self, obj: Obj) -> None:
        """Default `readOnly` of Azure disks."""
        super().default(obj)
        if (disk := (obj.get("spec") or {}).get("azureDisk")) is not None:
            disk.setdefault("readOnly", False)

    def prepare_for_create(self, obj: Obj) -> None:
        """Set phase Pending and the protection finalizer."""
        super().prepare_for_create(obj)
        created = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": created}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pv-protection" not in finalizers:
            finalizers.append("kubernetes.io/pv-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate access modes, capacity and source."""
        return validate_persistent_volume_spec(obj.get("spec") or {}, name_of(obj), "spec")

    def validate_immutable(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate as a new volume; upstream validates twice."""
        del old
        return self.validate_create(new)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; the source must not change."""
        errors = self.validate_create(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        now, then = (
            {name: volume_spec.get(name) for name in PERSISTENT_VOLUME_SOURCES}
            for volume_spec in (spec, before)
        )
        _allow_expansion(now, then)
        if now != then:
            text = "spec.persistentvolumesource is immutable after creation\n"
            text += diff_internal("core.PersistentVolumeSource", then, now)
            errors.append(forbidden_field("spec.persistentvolumesource", text))
        if spec.get("volumeMode") != before.get("volumeMode"):
            text = "field is immutable"
            errors.append(invalid_value("volumeMode", spec.get("volumeMode"), text))
        name = "volumeAttributesClassName"
        if before.get(name) is not None and spec.get(name) is None:
            text = "update from non-nil value to nil is forbidden"
            errors.append(forbidden_field(f"spec.{name}", text))
        return errors

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated fields."""
        for text in get_persistent_volume_warnings(obj):
            caller.warn(text)


def _allow_expansion(now: Obj, then: Obj) -> None:
    """Allow a secret for expansion to be added."""
    field = "controllerExpandSecretRef"
    if now.get("csi") and then.get("csi") and field not in then["csi"]:
        now["csi"] = {name: value for name, value in now["csi"].items() if name != field}


class StorageClassStrategy(Strategy):
    """The strategy of storage classes."""

    returns_deleted_object = True
    validates_metadata_on_update = True
    repeats_warnings_on_update = True
    validate_create = staticmethod(validate_storage_class)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; only allowed fields may change."""
        fields = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return validate_immutable_fields(new, old, *fields)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of deprecated node labels."""
        for index, term in enumerate(obj.get("allowedTopologies") or []):
            for number, rule in enumerate(term.get("matchLabelExpressions") or []):
                if rule.get("key") in DEPRECATED_NODE_LABELS:
                    at = f"allowedTopologies[{index}].matchLabelExpressions[{number}].key"
                    caller.warn(f"{at}: {DEPRECATED_NODE_LABELS[rule['key']]}")


class VolumeAttachmentStrategy(Strategy):
    """The strategy of volume attachments."""

    allows_unconditional_update = False
    returns_deleted_object = True
    validate_create = staticmethod(validate_volume_attachment)


class CSIDriverStrategy(Strategy):
    """The strategy of CSI drivers."""

    allows_unconditional_update = False
    returns_deleted_object = True
    validate_create = staticmethod(validate_csi_driver)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; `attachRequired` and lifecycle modes must not change."""
        errors = validate_csi_driver(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        for field, reported_field in (
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ):
            if spec.get(field) != before.get(field):
                text = "field is immutable"
                errors.append(invalid_value(f"spec.{reported_field}", spec.get(field), text))
        return errors


class CSINodeStrategy(Strategy):
    """The strategy of CSI nodes."""

    allows_unconditional_update = False
    returns_deleted_object = True
    validate_create = staticmethod(validate_csi_node)


class VolumeAttributesClassStrategy(Strategy):
    """The strategy of volume attributes classes."""

    validates_metadata_on_update = True
    validate_create = staticmethod(validate_volume_attributes_class)
    validate_immutable = staticmethod(validate_volume_attributes_class_update)

    def prepare_for_create(self, obj: Obj) -> None:
        """Add the protection finalizer."""
        super().prepare_for_create(obj)
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/vac-protection" not in finalizers:
            finalizers.append("kubernetes.io/vac-protection")


class CSIStorageCapacityStrategy(Strategy):
    """The strategy of CSI storage capacities."""

    allows_unconditional_update = False
    validate_create = staticmethod(validate_csi_storage_capacity)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate; class and topology must not change."""
        return validate_immutable_fields(new, old, "nodeTopology", "storageClassName")
