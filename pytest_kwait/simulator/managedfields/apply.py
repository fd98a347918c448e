"""Server-side apply: merge a configuration, own its fields, report conflicts.

kubectl's last-applied annotation is honoured and kept up to date where an object has one.
Source: sigs.k8s.io/structured-merge-diff merge/update.go, k8s.io/apimachinery
pkg/util/managedfields/internal/{structuredmerge,conflict,lastapplied,lastappliedmanager,
lastappliedupdater}.go.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.go_values import dump_go_json
from pytest_kwait.simulator.api_errors import StatusError, bad_request
from pytest_kwait.simulator.codec.decode import Decoder
from pytest_kwait.simulator.codec.go_text import parse_uint
from pytest_kwait.simulator.codec.json_yaml import not_a_map_message, read_yaml
from pytest_kwait.simulator.codec.schema import Form, struct_of
from pytest_kwait.simulator.conversion import to_version
from pytest_kwait.simulator.managedfields.field_manager import (
    BEFORE_FIRST_APPLY,
    Changes,
    ManagedFieldsEntry,
    Path,
    Paths,
    VersionConverter,
    compare_fields,
    field_set_of,
    find_type_errors,
    format_path,
    is_granular,
    iter_children,
    object_shape,
    read_managed_fields,
    record_update,
    strip_reset,
    strip_unowned,
    write_managed_fields,
)
from pytest_kwait.simulator.objects import clone, name_of
from pytest_kwait.simulator.request_info import Caller, internal_caller
from pytest_kwait.simulator.store import key_of
from pytest_kwait.simulator.suspendable import beside_loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.codec.schema import Shape
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

KUBECTL_MANAGER = "kubectl"
"""The manager that takes over what it has applied on the client; any other one does not."""

_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_SIZE = 256 * 1024
_TYPE_ERROR = re.compile(
    r"json: cannot unmarshal (?P<given>.+) into Go struct field \S+ of type (?P<go>.+)"
)


def last_applied_fields(live: Obj, shape: Shape) -> Paths:
    """Return the fields of kubectl's client-side apply that are unchanged since.

    Args:
        live: the object without `managedFields`.
        shape: its type.
    """
    try:
        last = json.loads(_annotations_or_empty(live).get(_ANNOTATION) or "null")
    except ValueError:
        return set()
    if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
        return set()
    changes = compare_fields(last, live, shape)
    return field_set_of(last, shape) - changes.modified - changes.removed


def update_last_applied(live: Obj, configuration: Obj) -> bool:
    """Update the last-applied annotation of an object that has one; returns whether it changed.

    The annotation is removed if the annotations become too large.
    """
    annotations = _annotations_or_empty(live)
    if _ANNOTATION not in annotations:
        return False
    applied = dict(configuration, metadata=dict(configuration["metadata"]))
    applied_annotations = applied["metadata"].get("annotations")
    if isinstance(applied_annotations, dict):
        applied["metadata"]["annotations"] = {
            name: text for name, text in applied_annotations.items() if name != _ANNOTATION
        }
    text = dump_go_json(applied) + "\n"
    before = annotations[_ANNOTATION]
    other_annotations = {name: value for name, value in annotations.items() if name != _ANNOTATION}
    note = {_ANNOTATION: text}
    size = sum(
        len(name.encode()) + len(value.encode())
        for name, value in (other_annotations | note).items()
    )
    live["metadata"]["annotations"] = (
        other_annotations | note if size <= _MAX_ANNOTATIONS_SIZE else other_annotations
    )
    return before != text


def _annotations_or_empty(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def read_apply(data: bytes, kind: Kind, name: str, namespace: str, caller: Caller) -> Obj:
    """Decode the applied configuration of a body, JSON or YAML, with or without a name.

    Raises:
        StatusError: 400, the body is invalid or for another object.
    """
    try:
        obj, repeated = read_yaml(data)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if caller.field_validation == "Warn":
        for text in repeated:
            caller.warn(text)
    if not isinstance(obj, dict):
        why = "error unmarshaling JSON: while decoding JSON: "
        raise bad_request(f"error decoding YAML: {why}{not_a_map_message(obj)}")
    if not obj.get("apiVersion") or not obj.get("kind"):
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={obj.get('kind') or ''}")
    if kind.custom and obj["apiVersion"] != kind.api_version:
        group, _, version = str(obj["apiVersion"]).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={obj['kind']}")
    if obj["apiVersion"] != kind.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{obj['apiVersion']}, expected: {kind.api_version}"
        )
    if obj["kind"] != kind.kind:
        raise bad_request(f"invalid object type: {kind.group}/{kind.version}, Kind={obj['kind']}")
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    configuration: Obj = obj
    metadata = configuration["metadata"]
    _check_types(kind, configuration)
    if repeated and caller.field_validation == "Strict":
        text = "yaml: unmarshal errors:\n  " + "\n  ".join(repeated)
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {text}")
    if metadata.get("name") and metadata["name"] != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    if namespace and not metadata.get("namespace"):
        metadata["namespace"] = namespace
    if namespace and metadata["namespace"] != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return configuration


def apply_object(
    cluster: ApiServerCluster,
    kind: Kind,
    configuration: Obj,
    subresource: str | None,
    caller: Caller,
    *,
    force: bool,
) -> tuple[Obj, bool]:
    """Apply a configuration; returns the object and whether it was created.

    Raises:
        StatusError: 409 if another manager owns a changed field, without `force`; 500 for unknown
            fields; or the write is invalid or denied.
    """
    name, namespace = name_of(configuration), configuration["metadata"].get("namespace", "")
    shape = object_shape(kind)
    with beside_loop():
        own_fields = strip_unowned(kind, field_set_of(configuration, shape), subresource)
    entry = cluster.store.get(kind.bucket, key_of(name, namespace if kind.namespaced else ""))
    manager_entry = ManagedFieldsEntry(
        caller.manager,
        "Apply",
        kind.api_version,
        subresource or "",
        cluster.clock.stamp(),
        own_fields,
    )
    if entry is None:
        if subresource is not None:
            cluster.entry(kind, name, namespace)
        if configuration["metadata"].get("uid"):
            raise StatusError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {kind.qualified} "{name}": uid mismatch: the '
                f"provided object specified uid {configuration['metadata']['uid']}, and no "
                "existing object was found",
                {
                    "name": name,
                    **({"group": kind.group} if kind.group else {}),
                    "kind": kind.plural,
                },
            )
        try:
            parse_uint(configuration["metadata"].get("resourceVersion") or "0")
        except ValueError as error:
            raise StatusError(500, "", str(error)) from None
        with beside_loop():
            new = _decode_applied(cluster, kind, configuration)
        created = cluster.create(
            kind,
            new,
            namespace,
            caller=caller,
            record=lambda new: write_managed_fields(new, [manager_entry]),
            decoded=True,
        )
        return created, True
    with beside_loop():
        live = to_version(kind, entry.obj)
        managers = read_managed_fields(live)
        if not managers:
            before = {**live, "metadata": {**live["metadata"]}}
            author = Caller(manager=BEFORE_FIRST_APPLY)
            record_update(kind, before, None, author, cluster.clock.stamp(), subresource)
            managers = read_managed_fields(before)
        last = next(
            (manager for manager in managers if manager.identity == manager_entry.identity), None
        )
        other_managers = [manager for manager in managers if manager is not last]
        plain = clone({**live, "metadata": {**live["metadata"]}})
        plain["metadata"].pop("managedFields", None)
        merged = merge_configuration(plain, configuration, shape)
        if last is not None:
            held: Paths = (
                set().union(*(manager.fields for manager in other_managers))
                if other_managers
                else set()
            )
            _prune_dropped(merged, shape, last.fields - own_fields, own_fields | held)
        changes = strip_reset(kind, compare_fields(plain, merged, shape), subresource)
        touched = changes.added | changes.modified
        allowed = last_applied_fields(plain, shape) if caller.manager == KUBECTL_MANAGER else set()
        versions = VersionConverter(cluster.kinds, kind)
        changes_by_version: dict[str, Changes] = {kind.api_version: changes}
        if kind.custom:
            for other_manager in [*other_managers]:
                if other_manager.api_version not in changes_by_version:
                    version_changes = versions.changes(other_manager, plain, merged, subresource)
                    if version_changes is None:
                        other_managers.remove(other_manager)
                    else:
                        changes_by_version[other_manager.api_version] = version_changes
        check_conflicts(
            other_managers,
            touched - allowed,
            force=force,
            elsewhere={
                version: version_changes.added | version_changes.modified
                for version, version_changes in changes_by_version.items()
                if version != kind.api_version
            },
        )
        for other_manager in other_managers:
            lost = changes_by_version.get(other_manager.api_version, changes)
            other_manager.fields -= lost.added | lost.modified | lost.removed
        if caller.manager == KUBECTL_MANAGER:
            update_last_applied(merged, configuration)

    def record(new: Obj) -> None:
        write_managed_fields(new, [*other_managers, manager_entry])

    with beside_loop():
        new = _decode_applied(cluster, kind, merged)
    stored = cluster.replace_decoded(kind, entry, new, subresource, caller, record)
    return stored, False


def _decode_applied(cluster: ApiServerCluster, kind: Kind, obj: Obj) -> Obj:
    """Decode without strictness: the type has been checked, and other fields are removed.

    Nulls in custom objects stay for validation: only bodies and stored objects are freed of them.
    """
    return cluster.decode(kind, obj, internal_caller(), keeps_nulls=True)


def _check_types(kind: Kind, configuration: Obj) -> None:
    """Check the configuration against the kind's schema, then against its Go type.

    Raises:
        StatusError: 500, as upstream has it.
    """
    errors = find_type_errors(configuration, object_shape(kind))
    if errors:
        text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
        raise _typed_value_error(kind, configuration, f"create typed patch object ({{}}): {text}")
    if kind.structure is not None:
        return
    try:
        Decoder(kind).struct(configuration, struct_of(kind.group, kind.version, kind.kind))
    except StatusError as error:
        why = _conversion_message(error.message.partition(f" handled as a {kind.kind}: ")[2])
        group = f"{kind.group}/{kind.version}" if kind.group else f"/{kind.version}"
        text = f"unable to convert unstructured object to {group}, Kind={kind.kind}: {why}"
        raise _typed_value_error(
            kind, configuration, f"convert new object ({{}}) to proper version: {text}"
        ) from None


def _conversion_message(why: str) -> str:
    """Return the conversion's message for a decoding error."""
    match = _TYPE_ERROR.fullmatch(why)
    if match is None:
        return f"error decoding from json: {why}" if why.startswith("illegal base64") else why
    if "." in match["given"]:
        return f"cannot convert float64 to {match['go']}"
    return f"json: cannot unmarshal {match['given']} into Go value of type {match['go']}"


def _typed_value_error(kind: Kind, configuration: Obj, why: str) -> StatusError:
    metadata = configuration.get("metadata") or {}
    group = f"{kind.group}/{kind.version}" if kind.group else f"/{kind.version}"
    object_text = (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}, Kind={kind.kind}"
    )
    return StatusError(500, "", "failed to " + why.replace("{}", object_text, 1))


def merge_configuration(live: Any, applied: Any, shape: Shape | None) -> Any:
    """Merge `applied` into `live`; lists with keys merge by item."""
    if isinstance(applied, dict) and isinstance(live, dict):
        parts = {element: inner for element, _, inner in iter_children(applied, shape)}
        if not parts:
            return clone(applied) if applied or not live else clone(live if shape else applied)
        merged = dict(live)
        for key, value in applied.items():
            inner = parts.get(f"f:{key}")
            if value is None:
                merged[key] = None
            elif key in live and live[key] is not None:
                merged[key] = merge_configuration(live[key], value, inner)
            else:
                merged[key] = clone(value)
        return merged
    if isinstance(applied, list) and isinstance(live, list):
        items = {element: (part, inner) for element, part, inner in iter_children(applied, shape)}
        live_parts = {element: part for element, part, _ in iter_children(live, shape)}
        if not is_granular(applied, shape) or (not live_parts and live):
            return clone(applied)
        result = []
        for element, part in live_parts.items():
            if element in items:
                inner = items[element][1]
                result.append(merge_configuration(part, items[element][0], inner))
            else:
                result.append(part)
        result += [clone(part) for element, (part, _) in items.items() if element not in live_parts]
        return _order_as_applied(result, list(items), shape)
    return clone(applied)


def _order_as_applied(result: list[Any], order: list[str], shape: Shape | None) -> list[Any]:
    """Order applied items as applied; others keep their places."""
    elements = [element for element, _, _ in iter_children(result, shape)]
    by_element = dict(zip(elements, result, strict=False))
    applied_elements = iter(order)
    return [
        by_element[next(applied_elements)] if element in order else by_element[element]
        for element in elements
    ]


def _prune_dropped(obj: Obj, shape: Shape, dropped: Paths, owned_paths: Paths) -> None:
    """Remove fields that are no longer applied and have no other owner."""
    prefixes = {path[:length] for path in owned_paths for length in range(1, len(path) + 1)}
    for path in sorted(dropped, key=len):
        if path not in prefixes:
            _remove(obj, shape, path)
    for path in sorted(dropped, key=len, reverse=True):
        for length in range(len(path) - 1, 1, -1):
            if path[:length] not in prefixes:
                _remove_if_empty(obj, shape, path[:length])


def _find(obj: Any, shape: Shape | None, path: Path) -> tuple[Any, Shape | None] | None:
    value, inner = obj, shape
    for path_element in path:
        for element, part, below in iter_children(value, inner):
            if element == path_element:
                value, inner = part, below
                break
        else:
            return None
    return value, inner


def _remove(obj: Obj, shape: Shape, path: Path) -> None:
    parent = _find(obj, shape, path[:-1])
    if parent is None:
        return
    value, inner = parent
    if isinstance(value, dict):
        value.pop(path[-1][2:], None)
    elif isinstance(value, list):
        for index, (element, _, _) in enumerate(list(iter_children(value, inner))):
            if element == path[-1]:
                del value[index]
                return


def _remove_if_empty(obj: Obj, shape: Shape, path: Path) -> None:
    node = _find(obj, shape, path)
    if node is None or node[0]:
        return
    inner = node[1]
    if inner is not None and inner.form is Form.STRUCT and inner.default is not None:
        return
    if isinstance(node[0], dict | list):
        _remove(obj, shape, path)


def check_conflicts(
    other_managers: list[ManagedFieldsEntry],
    touched: Paths,
    *,
    force: bool,
    elsewhere: Mapping[str, Paths] | None = None,
) -> None:
    """Check the changed fields `touched` for other owners.

    Args:
        other_managers: the other managers.
        touched: the fields in the written version.
        force: take the fields over.
        elsewhere: the fields in other versions, by version.

    Raises:
        StatusError: 409, another manager owns one, without `force`.
    """
    versions = elsewhere or {}
    conflicts = [
        (manager, path)
        for manager in other_managers
        for path in sorted(
            manager.fields & versions.get(manager.api_version, touched), key=_set_order
        )
    ]
    if not conflicts or force:
        return
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_format_manager(manager)}",
            "field": format_path(path),
        }
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager_entry, path = conflicts[0]
        manager = _format_manager(manager_entry)
        text = f"Apply failed with 1 conflict: conflict with {manager}: {format_path(path)}"
    else:
        lines = []
        for manager_text in sorted({_format_manager(manager) for manager, _ in conflicts}):
            lines.append(f"conflicts with {manager_text}:")
            lines += [
                f"- {format_path(path)}"
                for manager, path in conflicts
                if _format_manager(manager) == manager_text
            ]
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    raise StatusError(409, "Conflict", text, {"causes": causes})


def _set_order(path: Path) -> list[tuple[bool, str]]:
    """Return the order of a set: at each level the members, then what is below others."""
    return [(depth < len(path), element) for depth, element in enumerate(path, 1)]


def _format_manager(manager: ManagedFieldsEntry) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text
