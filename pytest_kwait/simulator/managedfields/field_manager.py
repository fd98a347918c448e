"""Record which field manager set which field, in an object's `managedFields`.

Source: k8s.io/apimachinery pkg/util/managedfields/internal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.schema import Form, shape_of
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.field_sets import (
    Changes,
    Paths,
    compare_fields,
    decode_set,
    encode_set,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind, Scheme

__all__ = [
    "ManagedFieldsEntry",
    "VersionConverter",
    "object_shape",
    "read_managed_fields",
    "record_update",
    "strip_unowned",
    "write_managed_fields",
]

_NEVER_OWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{field}")
            for field in [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ]
        ),
    }
)


@dataclass(slots=True)
class ManagedFieldsEntry:
    """An entry of `managedFields`."""

    name: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: Paths

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The identity of a manager; appliers are the same in every version."""
        version = "" if self.operation == "Apply" else self.api_version
        return self.name, self.operation, version, self.subresource


class VersionConverter:
    """Computes the changes of a write in the versions of other managers.

    Args:
        kinds: the kinds of the cluster.
        kind: the written version.
    """

    def __init__(self, kinds: Scheme, kind: Kind) -> None:
        self._kinds = kinds
        self._kind = kind

    def changes(self, manager: ManagedFieldsEntry, before: Obj, new: Obj) -> Changes | None:
        """Return the changes in the manager's version; None if it is not served any more."""
        group, _, version = manager.api_version.rpartition("/")
        served = self._kinds.served(group, version) or {}
        other = served.get(self._kind.plural)
        if other is None:
            return None
        old = to_version(other, before) if "kind" in before else before
        shown = to_version(other, new)
        return compare_fields(
            _without_managed_fields(old), _without_managed_fields(shown), object_shape(other)
        )


def read_managed_fields(obj: Obj) -> list[ManagedFieldsEntry]:
    """Return the object's managers."""
    return [
        ManagedFieldsEntry(
            name=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            api_version=entry.get("apiVersion", ""),
            subresource=entry.get("subresource", ""),
            time=entry.get("time", ""),
            fields=decode_set(entry.get("fieldsV1") or {}),
        )
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def write_managed_fields(obj: Obj, managers: list[ManagedFieldsEntry]) -> None:
    """Set the object's managers, without those that own no field."""
    entries = []
    for manager in sorted(
        (one for one in managers if one.fields),
        key=lambda one: (one.operation, one.time, one.name, one.api_version, one.subresource),
    ):
        entry: Obj = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": manager.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_set(manager.fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    metadata = obj["metadata"]
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def object_shape(kind: Kind) -> Shape:
    """Return the type of the kind's objects."""
    if kind.structure is not None:
        shape: Shape = kind.structure.shape
        return shape
    return shape_of(kind.group, kind.version, kind.kind)


def strip_unowned(kind: Kind, paths: Paths, subresource: str | None) -> Paths:
    """Return the paths that can be owned: without identity and reset fields."""
    kept = paths - _NEVER_OWNED
    if subresource == "status":
        return {path for path in kept if path[0] == "f:status"}
    if kind.has_status and subresource is None:
        return {path for path in kept if path[0] != "f:status"}
    return kept


def _without_managed_fields(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _blank_object(kind: Kind, shape: Shape) -> Obj:
    """Return an empty object: the fields that are always written."""
    if kind.structure is not None:
        return {"metadata": {}}
    blank = Decoder(kind).struct({}, shape.struct)
    _fill_required(blank, shape)
    return blank


def _fill_required(value: Obj, shape: Shape) -> None:
    """Add the fields that are written even if empty."""
    for field, inner in shape.struct.fields.items():
        if field in value and inner.form is Form.STRUCT:
            _fill_required(value[field], inner)
        elif inner.form in (Form.LIST, Form.MAP) and (
            field in shape.struct.required and value.get(field) is None
        ):
            value[field] = [] if inner.form is Form.LIST else {}


def record_update(
    kind: Kind,
    new: Obj,
    old: Obj | None,
    caller: Caller,
    stamp: str,
    subresource: str | None = None,
    versions: VersionConverter | None = None,
) -> None:
    """Record `caller` as the manager of the fields of `new` that differ from `old`.

    Managers of other versions lose the fields that differ there, by `versions`.

    A client that empties `managedFields` resets it; one that leaves it out does not.
    """
    if not caller.manager:
        if old is not None and "managedFields" in old["metadata"]:
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
        return
    shape = object_shape(kind)
    sent = new["metadata"].get("managedFields")
    before = old if old is not None else _blank_object(kind, shape)
    source = new if sent and old is not None else (old or {"metadata": {}})
    managers = read_managed_fields(source)
    changes = compare_fields(_without_managed_fields(before), _without_managed_fields(new), shape)
    ours = strip_unowned(kind, changes.added | changes.modified, subresource)
    this = ManagedFieldsEntry(
        caller.manager, "Update", kind.api_version, subresource or "", stamp, ours
    )
    merged: list[ManagedFieldsEntry] = []
    for manager in managers:
        if manager.identity == this.identity:
            if ours:
                this.fields = ours | (manager.fields - changes.removed)
            else:
                manager.fields -= changes.removed
                this = manager
            continue
        theirs: Changes | None = changes
        if versions is not None and manager.api_version != kind.api_version:
            theirs = versions.changes(manager, before, new)
        if theirs is not None:
            manager.fields -= theirs.added | theirs.modified | theirs.removed
            merged.append(manager)
    if this.fields:
        merged.append(this)
    if not ours and old is not None and not sent and not changes.removed:
        if "managedFields" in old["metadata"]:
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
        else:
            new["metadata"].pop("managedFields", None)
        return
    write_managed_fields(new, merged)
