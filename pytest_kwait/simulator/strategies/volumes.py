"""Claims and volumes: pending until something binds them.

Source: k8s.io/kubernetes pkg/registry/core/{persistentvolume,persistentvolumeclaim}/strategy.go,
pkg/api/persistentvolumeclaim/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.internal_values import internal_diff
from pytest_kwait.simulator.objects import name_of
from pytest_kwait.simulator.rules.claims import (
    claim_change_errors,
    claim_errors,
    claim_status_errors,
    claim_warnings,
)
from pytest_kwait.simulator.rules.persistent_sources import SOURCES
from pytest_kwait.simulator.rules.volumes import check_volume_spec, volume_warnings
from pytest_kwait.simulator.status_error import forbidden_field, invalid_value
from pytest_kwait.simulator.strategies.generic import Strategy

if TYPE_CHECKING:
    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["ClaimStrategy", "VolumeStrategy"]

_SNAPSHOTS = ("snapshot.storage.k8s.io", "VolumeSnapshot")


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    looks_at_metadata_again = True

    def default(self, obj: Obj) -> None:
        """The group of a source is always shown."""
        super().default(obj)
        for field in ("dataSource", "dataSourceRef"):
            if (source := (obj.get("spec") or {}).get(field)) is not None:
                source.setdefault("apiGroup", None)

    def prepare_create(self, obj: Obj) -> None:
        """Pending, and protected while pods use it."""
        super().prepare_create(obj)
        obj["status"] = {"phase": "Pending"}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pvc-protection" not in finalizers:
            finalizers.append("kubernetes.io/pvc-protection")
        _settle_sources(obj.get("spec") or {}, {})

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Where the content comes from is told in both ways."""
        super().prepare_update(new, old)
        _settle_sources(new.get("spec") or {}, old.get("spec") or {})

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """How it is used, how much, and from where."""
        return claim_errors(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Nothing but the size of what is bound changes."""
        return claim_errors(new) + claim_change_errors(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """Amounts and states."""
        del old
        return claim_status_errors(new)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """What is deprecated or odd."""
        for text in claim_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same."""
        del old
        self.warn_create(new, caller)


def _settle_sources(spec: Obj, before: Obj) -> None:
    """Drop what cannot be a source, and tell the source in both ways."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is not None and reference.get("namespace") and not before.get("dataSourceRef"):
        del spec["dataSourceRef"]
        reference = None
    if source is not None and reference is None and not before.get("dataSource"):
        found = (source.get("apiGroup") or "", source.get("kind", ""))
        if found not in (("", "PersistentVolumeClaim"), _SNAPSHOTS):
            del spec["dataSource"]
            source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        fields = ("apiGroup", "kind", "name")
        spec["dataSource"] = {name: reference[name] for name in fields if name in reference}


class VolumeStrategy(Strategy):
    """Persistent volumes."""

    looks_at_metadata_again = True

    def default(self, obj: Obj) -> None:
        """A disk of Azure says whether it can be written."""
        super().default(obj)
        if (disk := (obj.get("spec") or {}).get("azureDisk")) is not None:
            disk.setdefault("readOnly", False)

    def prepare_create(self, obj: Obj) -> None:
        """Pending, and protected while bound."""
        super().prepare_create(obj)
        created = obj["metadata"].get("creationTimestamp")
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": created}
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pv-protection" not in finalizers:
            finalizers.append("kubernetes.io/pv-protection")

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """How it is used, how much, and what is behind it."""
        found = Findings()
        check_volume_spec(obj.get("spec") or {}, name_of(obj), "spec", found)
        return found

    def validate_change(self, new: Obj, old: Obj) -> list[FieldError]:
        """All of its rules, which the server asks twice."""
        del old
        return self.validate_create(new)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is behind it never changes."""
        errors = self.validate_create(new)
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        now, then = ({name: one.get(name) for name in SOURCES} for one in (spec, before))
        _let_expand(now, then)
        if now != then:
            text = "spec.persistentvolumesource is immutable after creation\n"
            text += internal_diff("core.PersistentVolumeSource", then, now)
            errors.append(forbidden_field("spec.persistentvolumesource", text))
        if spec.get("volumeMode") != before.get("volumeMode"):
            text = "field is immutable"
            errors.append(invalid_value("volumeMode", spec.get("volumeMode"), text))
        name = "volumeAttributesClassName"
        if before.get(name) is not None and spec.get(name) is None:
            text = "update from non-nil value to nil is forbidden"
            errors.append(forbidden_field(f"spec.{name}", text))
        return errors

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """What is deprecated."""
        for text in volume_warnings(obj):
            caller.warn(text)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """The same."""
        del old
        self.warn_create(new, caller)


def _let_expand(now: Obj, then: Obj) -> None:
    """A secret to expand a volume with may come later."""
    field = "controllerExpandSecretRef"
    if now.get("csi") and then.get("csi") and field not in then["csi"]:
        now["csi"] = {name: value for name, value in now["csi"].items() if name != field}
