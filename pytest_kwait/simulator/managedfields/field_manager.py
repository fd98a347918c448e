"""Field managers: sets of field paths, and which manager set which field.

A path is a tuple of elements as `fieldsV1` spells them: `f:name` for a field or a key, `k:{...}`
for an item of a list with keys, `v:...` for a member of a set. A configuration is checked against
its type before it is applied, with the server's own messages.

Source: k8s.io/apimachinery pkg/util/managedfields/internal; sigs.k8s.io/structured-merge-diff
fieldpath, typed/{tofieldset,compare,validate,helpers}.go.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.go_values import dump_go_json
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.codec.schema import Form, Shape, shape_of
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.objects import Obj

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind, Scheme

Path = tuple[str, ...]
Paths = set[Path]

_ANY_SCALAR = (Form.QUANTITY, Form.INT_OR_TEXT)
_NUMBERS = (Form.INTEGER, Form.NUMBER)
_GO_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}

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

_CERTIFICATE_REQUESTS = "certificatesigningrequests.certificates.k8s.io"
_RESET_FIELDS: dict[tuple[str, str], tuple[Path, ...]] = {
    (_CERTIFICATE_REQUESTS, ""): (("f:spec",), ("f:status",)),
    (_CERTIFICATE_REQUESTS, "status"): (("f:spec",), ("f:status", "f:conditions")),
    (_CERTIFICATE_REQUESTS, "approval"): (("f:spec",), ("f:status", "f:certificate")),
    ("deployments.apps", "status"): (("f:spec",), ("f:metadata", "f:labels")),
    ("pods", "status"): (("f:spec",), ("f:metadata", "f:ownerReferences")),
    ("podcertificaterequests.certificates.k8s.io", ""): (),
}
"""Paths that a write of a kind's subresource resets, where it is not the status or all but that."""
_STATUS_HAS_NO_METADATA = frozenset(
    {
        "apiservices.apiregistration.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "podgroups.scheduling.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourcepoolstatusrequests.resource.k8s.io",
        "servicecidrs.networking.k8s.io",
        "storageversionmigrations.storagemigration.k8s.io",
        "storageversions.internal.apiserver.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)
"""Kinds whose status writes own no metadata."""
_MAX_ENCODED_SETS = 512
_MAX_UPDATE_MANAGERS = 10
_ANCIENT_CHANGES = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"
"""The manager of all fields of an object that has no managers when it is applied."""
_INVALID_AFTER_ADMISSION = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
    "outdated mutating admission controller; please fix your requests: "
)


class Changes(NamedTuple):
    """The difference of two objects."""

    added: Paths
    modified: Paths
    removed: Paths


def _item_element(item: Any, shape: Shape) -> str:
    if shape.list_type == "set" or not isinstance(item, dict):
        return "v:" + dump_go_json(item)
    fields = shape.item.struct.fields if shape.item.form is Form.STRUCT else {}
    keys = {}
    for key in shape.map_keys:
        value = item.get(key)
        if value is None and key in fields:
            value = fields[key].default
        if value is not None:
            keys[key] = value
    if not keys:
        raise StatusError(500, "", f"associative list with keys {_key_fault(item, shape.map_keys)}")
    return "k:" + dump_go_json(keys)


def iter_children(value: Any, shape: Shape | None) -> Iterator[tuple[str, Any, Shape | None]]:
    """Yield the separately owned parts of `value`: path element, part, type."""
    if isinstance(value, dict) and is_granular(value, shape):
        for key, part in value.items():
            inner: Shape | None = None
            if shape is not None and shape.form is Form.STRUCT:
                inner = shape.struct.fields.get(key)
            elif shape is not None and shape.form is Form.MAP:
                inner = shape.item
            yield f"f:{key}", part, inner
    elif isinstance(value, list) and shape is not None and is_granular(value, shape):
        for part in value:
            yield _item_element(part, shape), part, shape.item


def is_granular(value: Any, shape: Shape | None) -> bool:
    """Return whether the parts of the value are owned separately."""
    if shape is None or shape.form is Form.ANY:
        whole = shape is not None and shape.node.get("x-kubernetes-map-type") == "atomic"
        return isinstance(value, dict) and not whole
    if isinstance(value, list):
        return shape.form is Form.LIST and shape.list_type in ("map", "set")
    return isinstance(value, dict) and not shape.atomic


def field_set_of(value: Any, shape: Shape | None, path: Path = ()) -> Paths:
    """Return the fields that an apply of `value` owns."""
    paths: Paths = set()
    _collect(value, shape, path, paths, containers=False)
    return paths


def _collect(
    value: Any, shape: Shape | None, path: Path, paths: Paths, *, containers: bool
) -> None:
    """Collect the fields of `value`, with `containers` their parents, too."""
    if not is_granular(value, shape):
        paths.add(path)
        return
    if containers or (isinstance(value, dict) and not value and path):
        paths.add(path)
    fields = shape.struct.fields if shape is not None and shape.form is Form.STRUCT else {}
    children = iter_children(value, shape)
    if containers and isinstance(value, list):
        children = _iter_unique(value, shape, path, paths)
    for element, part, inner in children:
        # Items, and the keys of maps, are owned besides what is in them.
        if element[0] == "k" or (element[0] == "f" and element[2:] not in fields):
            paths.add((*path, element))
        _collect(part, inner, (*path, element), paths, containers=containers)


def _iter_unique(
    items: list[Any], shape: Shape | None, path: Path, paths: Paths
) -> Iterator[tuple[str, Any, Shape | None]]:
    """Yield the children of a list; items that share their keys are one path without more."""
    children = list(iter_children(items, shape))
    counts = Counter(element for element, _, _ in children)
    for child in children:
        if counts[child[0]] == 1:
            yield child
        else:
            paths.add((*path, child[0]))


def compare_fields(old: Any, new: Any, shape: Shape | None) -> Changes:
    """Compare two objects: added, removed and modified fields."""
    changes = Changes(set(), set(), set())
    _compare(old, new, shape, (), changes)
    return changes


def _compare(old: Any, new: Any, shape: Shape | None, path: Path, changes: Changes) -> None:
    if old == new:
        return
    # A null is an empty value of the other's type.
    if shape is not None and shape.form is not Form.ANY:
        if old is None and is_granular(new, shape):
            old = [] if isinstance(new, list) else {}
        elif new is None and is_granular(old, shape):
            new = [] if isinstance(old, list) else {}
    is_list = isinstance(new, list)
    if (
        not is_granular(new, shape)
        or not is_granular(old, shape)
        or is_list != isinstance(old, list)
    ):
        changes.modified.add(path)
        return
    if isinstance(new, dict):
        _compare_dicts(old, new, shape, path, changes)
        return
    before = {element: (part, inner) for element, part, inner in iter_children(old, shape)}
    after = {element: (part, inner) for element, part, inner in iter_children(new, shape)}
    if len(before) < len(old) or len(after) < len(new):
        _compare_repeated(old, new, shape, path, changes, before, after)
    for element, (part, inner) in after.items():
        if element in before:
            _compare(before[element][0], part, inner, (*path, element), changes)
        else:
            _collect(part, inner, (*path, element), changes.added, containers=True)
    for element, (part, inner) in before.items():
        if element not in after:
            _collect(part, inner, (*path, element), changes.removed, containers=True)


def _compare_dicts(old: Obj, new: Obj, shape: Shape | None, path: Path, changes: Changes) -> None:
    fields = shape.struct.fields if shape is not None and shape.form is Form.STRUCT else {}
    of_items = shape.item if shape is not None and shape.form is Form.MAP else None
    for key, part in new.items():
        if key not in old:
            inner = fields.get(key, of_items)
            _collect(part, inner, (*path, f"f:{key}"), changes.added, containers=True)
        elif part != old[key]:
            _compare(old[key], part, fields.get(key, of_items), (*path, f"f:{key}"), changes)
    for key, part in old.items():
        if key not in new:
            inner = fields.get(key, of_items)
            _collect(part, inner, (*path, f"f:{key}"), changes.removed, containers=True)


def _compare_repeated(
    old: list[Any],
    new: list[Any],
    shape: Shape | None,
    path: Path,
    changes: Changes,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    """Compare items that share their keys, and remove them from `before` and `after`.

    They are one value. Source: structured-merge-diff typed/compare.go, func visitListItems.
    """
    olds, news = _group_items(old, shape), _group_items(new, shape)
    for element in olds.keys() | news.keys():
        earlier, later = olds.get(element, []), news.get(element, [])
        if len(earlier) < 2 and len(later) < 2:
            continue
        if len(earlier) > 1 and len(later) > 1:
            if earlier != later:
                changes.modified.add((*path, element))
        elif len(earlier) > 1:
            for part, inner in [after[element]] if later else ():
                _collect(part, inner, (*path, element), changes.added, containers=True)
            changes.removed.add((*path, element))
        else:
            for part, inner in [before[element]] if earlier else ():
                _collect(part, inner, (*path, element), changes.removed, containers=True)
            changes.added.add((*path, element))
        before.pop(element, None)
        after.pop(element, None)


def _group_items(items: list[Any], shape: Shape | None) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for element, part, _ in iter_children(items, shape):
        grouped.setdefault(element, []).append(part)
    return grouped


class _FieldsV1(Obj):
    """An encoded set that knows its paths; objects share it.

    Args:
        fields: the encoded set.
        paths: its paths.
    """

    __slots__ = ("paths",)

    def __init__(self, fields: Obj, paths: frozenset[Path]) -> None:
        super().__init__(fields)
        self.paths = paths


@lru_cache(maxsize=_MAX_ENCODED_SETS)
def encode_set(members: frozenset[Path]) -> Obj:
    """Encode a set as `fieldsV1`."""
    root: Obj = {}
    for path in sorted(members):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in members:
        node = root
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _FieldsV1(_sort_set(root), members)


def _sort_set(node: Obj) -> Obj:
    return {key: _sort_set(node[key]) for key in sorted(node)}


def decode_set(node: Obj, path: Path = ()) -> Paths:
    """Decode `fieldsV1`."""
    if isinstance(node, _FieldsV1):
        return set(node.paths)
    paths: Paths = set()
    if path and (not node or "." in node):
        paths.add(path)
    for element, inner in node.items():
        if element != ".":
            paths |= decode_set(inner or {}, (*path, element))
    return paths


def format_path(path: Path) -> str:
    """Format a path for messages: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = json.loads(rest)
            text += (
                "["
                + ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(keys.items()))
                + "]"
            )
        else:
            text += f"[={rest}]"
    return text


def find_type_errors(configuration: Obj, shape: Shape) -> list[str]:
    """Return the type errors of `configuration` with their paths.

    Fields come sorted; upstream reads them in any order.
    """
    return [f"{path}: {why}" for path, why in _iter_type_errors(configuration, shape, "")]


def _iter_type_errors(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    form = shape.form
    if value is None:
        return
    if form is Form.ANY:
        if shape.node.get("type") == "object" and not isinstance(value, dict):
            yield path, f"expected map, got {_format_pointer(value)}"
    elif form in (Form.STRUCT, Form.MAP):
        if not isinstance(value, dict):
            yield path, f"expected map, got {_format_pointer(value)}"
        elif form is Form.MAP:
            for key, item in sorted(value.items()):
                yield from _iter_type_errors(item, shape.item, f"{path}.{key}")
        else:
            yield from _struct_errors(value, shape, path)
    elif form is Form.LIST:
        if not isinstance(value, list):
            yield path, f"expected list, got {_format_pointer(value)}"
        else:
            yield from _list_errors(value, shape, path)
    else:
        yield from _scalar_errors(value, form, path)


def _struct_errors(value: Obj, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    fields = shape.struct.fields
    open_ended = shape.node.get("x-kubernetes-preserve-unknown-fields")
    for name, item in sorted(value.items()):
        if name not in fields:
            if open_ended:
                continue
            yield f"{path}.{name}", "field not declared in schema"
            return  # the server looks no further in this map
        yield from _iter_type_errors(item, fields[name], f"{path}.{name}")


def _list_errors(value: list[Any], shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    kind, keys, checked_places = shape.list_type, shape.map_keys, set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind == "map":
            key_values = _find_key_values(item, shape) if isinstance(item, dict) else {}
            if not key_values:
                # The server looks no further in this list.
                yield path, f"element {index}: associative list with keys {_key_fault(item, keys)}"
                return
            inner = ",".join(f"{key}={json.dumps(key_values[key])}" for key in sorted(key_values))
            place = f"[{inner}]"
        elif kind == "set":
            place = f"[={json.dumps(item)}]"
        if kind != "atomic":
            if place in checked_places:
                yield path, f"duplicate entries for key {place}"
            checked_places.add(place)
        yield from _iter_type_errors(item, shape.item, path + place)


def _find_key_values(item: Obj, shape: Shape) -> Obj:
    """Return the keys of an associative list's element, by their defaults where it lacks them."""
    fields = shape.item.struct.fields
    defaults = {key: fields[key].default for key in shape.map_keys if key in fields}
    return {
        key: item.get(key, defaults.get(key))
        for key in shape.map_keys
        if key in item or defaults.get(key) is not None
    }


def _key_fault(item: Any, keys: Sequence[str]) -> str:
    """Return why an element has no keys.

    Source: structured-merge-diff typed/helpers.go, func keyedAssociativeListItemToPathElement.
    """
    if item is None:
        return "may not have a null element"
    if not isinstance(item, dict):
        return "may not have non-map elements"
    keys_text = " ".join(json.dumps(key) for key in keys)
    return (
        f"has an element that omits all key fields [{keys_text}] (and doesn't have default values "
        "for "
        "any key fields)"
    )


def _scalar_errors(value: Any, form: Form, path: str) -> Iterator[tuple[str, str]]:
    if form is Form.BOOL:
        if not isinstance(value, bool):
            yield path, f"expected boolean, got {_format_pointer(value)}"
    elif form in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            type_name = go_type(value)
            yield path, f"expected numeric (int or float), got {type_name}"
    elif form in _ANY_SCALAR or form is Form.TIME:
        if isinstance(value, dict | list):
            yield path, f"expected any scalar, got {_format_pointer(value)}"
    elif not isinstance(value, str):
        yield (
            path,
            f"expected string, got &value.valueUnstructured{{Value:{_format_go_literal(value)}}}",
        )


def _format_pointer(value: Any) -> str:
    return f"&{{{format_go_value(value)}}}"


def go_type(value: Any) -> str:
    """Return Go's name of the type of a decoded value."""
    return _GO_TYPES.get(type(value), "map[string]interface {}")


def format_go_typed(value: Any) -> str:
    """Format a value with its type as Go's `%!s`: `int64=5`."""
    return f"{go_type(value)}={format_go_value(value)}"


def format_go_value(value: Any) -> str:
    """Format a value as Go's `%v`: `map[a:1]`, `[a b]`, `true`."""
    if isinstance(value, dict):
        return (
            "map[" + " ".join(f"{key}:{format_go_value(value[key])}" for key in sorted(value)) + "]"
        )
    if isinstance(value, list):
        return "[" + " ".join(format_go_value(item) for item in value) + "]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_go_literal(value: Any) -> str:
    """Format a value as Go's `%#v`."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(key)}:{_format_go_literal(value[key])}" for key in sorted(value)
        )
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_format_go_literal(item) for item in value)}}}"
    return "interface {}(nil)" if value is None else json.dumps(value)


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

    def changes(
        self, manager: ManagedFieldsEntry, before: Obj, new: Obj, subresource: str | None
    ) -> Changes | None:
        """Return the changes in the manager's version; None if it is not served any more."""
        group, _, version = manager.api_version.rpartition("/")
        served = self._kinds.served(group, version) or {}
        other_kind = served.get(self._kind.plural)
        if other_kind is None:
            return None
        old = to_version(other_kind, before) if "kind" in before else before
        converted = to_version(other_kind, new)
        changes = compare_fields(
            _without_managed_fields(old),
            _without_managed_fields(converted),
            object_shape(other_kind),
        )
        return strip_reset(other_kind, changes, subresource)


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
        (manager for manager in managers if manager.fields),
        key=lambda manager: (
            manager.operation,
            manager.time,
            manager.name,
            manager.api_version,
            manager.subresource,
        ),
    ):
        entry: Obj = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            **({"time": manager.time} if manager.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": encode_set(frozenset(manager.fields)),
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
    return _filter_reset(kind, paths - _NEVER_OWNED, subresource)


def strip_reset(kind: Kind, changes: Changes, subresource: str | None) -> Changes:
    """Return the changes that a write of the subresource does not reset."""
    return Changes(*(_filter_reset(kind, paths, subresource) for paths in changes))


def _filter_reset(kind: Kind, paths: Paths, subresource: str | None) -> Paths:
    """Return the paths that a write of the subresource does not reset.

    Source: GetResetFields of the strategies.
    """
    reset = _reset_fields(kind, subresource)
    if not reset or not paths:
        return paths
    firsts = {path[0] for path in reset}
    return {
        path
        for path in paths
        if path[0] not in firsts or not any(path[: len(one)] == one for one in reset)
    }


def _reset_fields(kind: Kind, subresource: str | None) -> Iterable[Path]:
    known = _RESET_FIELDS.get((kind.bucket, subresource or ""))
    if known is not None:
        return known
    if subresource is None:
        return (("f:status",),) if kind.has_status else ()
    if subresource != "status":
        return ()
    if kind.custom or kind.bucket in _STATUS_HAS_NO_METADATA:
        return (("f:metadata",), ("f:spec",))
    return (("f:spec",),)


def _without_managed_fields(obj: Obj) -> Obj:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


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

    `new` is decoded and has its defaults; nothing has admitted or prepared it yet.
    Managers of other versions lose the fields that differ there, by `versions`.

    A client that empties `managedFields` resets it; one that leaves it out does not.
    Source: k8s.io/apimachinery pkg/util/managedfields/internal/{fieldmanager,structuredmerge}.go.
    """
    if not caller.manager:
        if old is not None and "managedFields" in old["metadata"]:
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
        return
    shape = object_shape(kind)
    sent = new["metadata"].pop("managedFields", None) if subresource is None else None
    if old is not None and sent in ([], [{}]):
        return
    if not sent or find_managed_fields_error(sent):
        sent = (old or {"metadata": {}})["metadata"].get("managedFields")
    if old is not None and not sent:
        return  # an object without managers has none before its first apply
    blank = {"metadata": {}} if kind.custom else shape.struct.zero
    before = blank if old is None else old
    try:
        compared = compare_fields(
            _without_managed_fields(before), _without_managed_fields(new), shape
        )
    except StatusError:
        return  # an item without keys: the object has no owners
    for field in caller.empty_fields:
        path = tuple(f"f:{name}" for name in field.split("."))
        if "[" not in field and path not in compared.added:
            compared.modified.add(path)
    changes = strip_reset(kind, compared, subresource)
    own_fields = (changes.added | changes.modified) - _NEVER_OWNED
    if old is not None and not own_fields and not changes.removed and sent:
        new["metadata"]["managedFields"] = sent
        return
    if caller.applies:
        own_fields = _strip_containers(own_fields)
    operation = "Apply" if caller.applies else "Update"
    manager_entry = ManagedFieldsEntry(
        caller.manager, operation, kind.api_version, subresource or "", stamp, own_fields
    )
    merged: list[ManagedFieldsEntry] = []
    for manager in read_managed_fields({"metadata": {"managedFields": sent}}):
        if manager.identity == manager_entry.identity:
            if own_fields:
                manager_entry.fields = own_fields | (manager.fields - changes.removed)
            else:
                manager.fields -= changes.removed
                manager_entry = manager
            continue
        manager_changes: Changes | None = changes
        if versions is not None and manager.api_version != kind.api_version:
            manager_changes = versions.changes(manager, before, new, subresource)
        if manager_changes is not None:
            manager.fields -= (
                manager_changes.added | manager_changes.modified | manager_changes.removed
            )
            merged.append(manager)
    merged.append(manager_entry)
    write_managed_fields(new, _cap_update_managers(merged))


def _strip_containers(paths: Paths) -> Paths:
    """Return the paths as an apply owns them: without what only contains others, but items."""
    containers = {path[:-1] for path in paths}
    return {path for path in paths if path not in containers or path[-1].startswith("k:")}


def _cap_update_managers(managers: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Return the managers with the oldest updates beyond the limit as one for each version.

    Source: k8s.io/apimachinery pkg/util/managedfields/internal/capmanagers.go.
    """
    updaters = [manager for manager in managers if manager.operation == "Update"]
    excess = len(updaters) - _MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    left = [*managers]
    buckets = {
        manager.api_version: manager
        for manager in updaters
        if (manager.name, manager.subresource) == (_ANCIENT_CHANGES, "")
    }
    firsts: dict[str, ManagedFieldsEntry] = {}
    for manager in sorted(updaters, key=lambda manager: (manager.time, *manager.identity)):
        first = firsts.setdefault(manager.api_version, manager)
        if excess <= 0 or manager in (first, buckets.get(manager.api_version)):
            continue
        bucket = buckets.setdefault(manager.api_version, first)
        bucket.name, bucket.subresource, bucket.time = _ANCIENT_CHANGES, "", manager.time
        bucket.fields |= manager.fields
        left.remove(manager)
        excess -= 1
    return left


def find_managed_fields_error(entries: Iterable[Obj]) -> str:
    """Return why the entries of `managedFields` cannot be read; empty if they can.

    Source: k8s.io/apimachinery pkg/util/managedfields/internal/managedfields.go,
    func DecodeManagedFields.
    """
    for index, entry in enumerate(entries):
        if entry.get("operation") not in ("Apply", "Update"):
            return "operation must be `Apply` or `Update`"
        if not entry.get("apiVersion"):
            return "apiVersion must not be empty"
        fields_type = entry.get("fieldsType")
        if not fields_type:
            return f"missing fieldsType in managed fields entry {index}"
        if fields_type != "FieldsV1":
            return f"invalid fieldsType {json.dumps(fields_type)} in managed fields entry {index}"
    return ""


def keep_valid_managed_fields(obj: Obj, before: list[Obj] | None, caller: Caller) -> None:
    """Restore `managedFields` from `before` admission, which has made them unreadable.

    Source: k8s.io/apiserver pkg/endpoints/handlers/fieldmanager/admission.go.
    """
    metadata = obj["metadata"]
    entries = metadata.get("managedFields")
    if entries is before:
        return
    why = find_managed_fields_error(entries or ())
    if why:
        metadata["managedFields"] = before
        caller.warn(_INVALID_AFTER_ADMISSION + why)


def keep_unchanged_times(new: Obj, old: Obj) -> None:
    """Keep the times of managers if nothing else of the object changes.

    Source: k8s.io/apiserver pkg/endpoints/handlers/fieldmanager/equality.go.
    """
    after, before = new["metadata"].get("managedFields"), old["metadata"].get("managedFields")
    if after is before or after is None or before is None or len(after) != len(before):
        return
    if all(
        {**one, "time": None} == {**other, "time": None}
        for one, other in zip(after, before, strict=True)
    ) and _without_managed_fields(new) == _without_managed_fields(old):
        new["metadata"]["managedFields"] = before
