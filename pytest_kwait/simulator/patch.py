"""JSON patch, merge patch and strategic merge patch, with the server's error messages.

A strategic merge patch merges the lists of built-in kinds by their merge keys. Its result is read
back as the kind's Go type, with messages of its own for values that do not fit.

Source: RFC 6902, RFC 7386; gopkg.in/evanphx/json-patch.v4, `Patch.Apply`; k8s.io/apiserver
pkg/endpoints/handlers/patch.go; k8s.io/apimachinery pkg/util/strategicpatch/patch.go,
pkg/runtime/converter.go (fromUnstructured).
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer
import msgspec

from pytest_kwait.simulator.api_errors import StatusError, bad_request, internal_error
from pytest_kwait.simulator.codec.json_yaml import json_type_name, not_a_map_message, read_json
from pytest_kwait.simulator.codec.schema import Form, Shape, go_fields
from pytest_kwait.simulator.managedfields.field_manager import (
    format_go_typed,
    format_go_value,
    go_type,
)
from pytest_kwait.simulator.objects import clone, json_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.objects import Obj

_MAX_OPERATIONS = 10_000
_MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes that the operations of one patch may copy; upstream, `JSONPatchMaxCopyBytes`."""
_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")
_LIBRARY_ERRORS = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of the library, also for pointers into values of another type."""
_KINDS = {bool: "bool", int: "int64", float: "float64", str: "string", list: "slice", dict: "map"}
_PLAIN = {Form.TEXT: "string", Form.BOOL: "bool", Form.NUMBER: "float64"}

_encode = msgspec.json.Encoder().encode
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_VALUES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class JsonPatchError(ValueError):
    """An operation failed.

    Args:
        text: the server's message.
        test: whether it was a `test` operation.
    """

    def __init__(self, text: str, *, test: bool = False) -> None:
        super().__init__(text)
        self.test = test


def apply_json_patch(target: Obj, patch: Any) -> Obj:
    """Apply the patch of a PATCH request to a copy of `target`.

    Raises:
        StatusError: 400 for a malformed patch, 422 for an operation that fails.
    """
    if not isinstance(patch, list):
        raise _decoding_error(patch, "Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        if operation is None:
            raise _rejection()
        if not isinstance(operation, dict):
            raise _decoding_error(operation, "Go value of type handlers.jsonPatchOp")
        for field in ("op", "from", "path"):
            if not isinstance(operation.get(field, ""), str | None):
                where = f"Go struct field jsonPatchOp.{field} of type string"
                raise _decoding_error(operation[field], where)
    if len(patch) > _MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MAX_OPERATIONS}, got {len(patch)}",
        )
    try:
        return apply_operations(target, patch)
    except JsonPatchError:
        raise _rejection() from None


def _decoding_error(value: object, where: str) -> StatusError:
    type_name = json_type_name(value)
    return bad_request(f"error decoding patch: json: cannot unmarshal {type_name} into {where}")


def _rejection() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})


def apply_webhook_patch(obj: Obj, operations: list[Any]) -> Obj:
    """Apply the patch of a webhook to a copy of `obj`.

    Raises:
        StatusError: 500, an operation fails.
    """
    try:
        return apply_operations(obj, operations)
    except JsonPatchError as error:
        raise internal_error(str(error)) from None


def apply_operations(obj: Obj, operations: list[Any]) -> Obj:
    """Apply operations to a copy of `obj`.

    Raises:
        JsonPatchError: an operation fails.
    """
    changed: Any = clone(obj)
    copied = 0
    for operation in operations:
        applied: Any = operation if isinstance(operation, dict) else {}
        kind, path = applied.get("op", ""), str(applied.get("path", ""))
        if kind not in _OPERATIONS:
            raise JsonPatchError(f"Unexpected kind: {kind}")
        if kind == "replace" and _is_missing_field(changed, path):
            # The server's library replaces missing fields, too.
            applied = {**applied, "op": "add"}
        try:
            if kind == "copy":
                source = jsonpointer.JsonPointer(applied.get("from", "")).resolve(changed)
                copied += len(msgspec.json.encode(source))
            if copied <= _MAX_COPIED_BYTES:
                changed = jsonpatch.apply_patch(changed, [applied], in_place=True)
        except _LIBRARY_ERRORS as error:
            why = _operation_error_text(changed, kind, path) or str(error)
            raise JsonPatchError(why, test=kind == "test") from None
        if copied > _MAX_COPIED_BYTES:
            raise JsonPatchError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{copied}, exceeding the limit {_MAX_COPIED_BYTES}"
            )
    if not isinstance(changed, dict):
        raise JsonPatchError("the patched object is no object")
    return changed


def _find_parent(obj: Any, path: str) -> Any:
    """Return the container of the path's last part; None if there is none."""
    try:
        return jsonpointer.resolve_pointer(obj, path.rpartition("/")[0], None)
    except jsonpointer.JsonPointerException:
        return None


def _is_missing_field(obj: Any, path: str) -> bool:
    parent = _find_parent(obj, path)
    return isinstance(parent, dict) and path.rpartition("/")[2] not in parent


def _operation_error_text(obj: Any, kind: str, path: str) -> str:
    """Return the message of the server's library; empty where it is unknown."""
    if kind == "test":
        return f"testing value {path} failed: test failed"
    if _find_parent(obj, path) is None:
        path_text = path if kind == "replace" else f'"{path}"'
        return f"{kind} operation does not apply: doc is missing path: {path_text}: missing value"
    if kind == "remove":
        key = path.rpartition("/")[2]
        return (
            f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing "
            "value"
        )
    return ""


def read_patch(data: bytes, before: str = "error decoding patch: ") -> Any:
    """Decode the JSON of a patch.

    Args:
        data: the body.
        before: the start of the message for invalid JSON.

    Raises:
        StatusError: 400, the JSON is invalid.
    """
    try:
        return read_json(data)
    except ValueError as error:
        raise bad_request(f"{before}{error}") from None


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Merge `patch` into `target`; null removes a field, other values replace."""
    if not isinstance(patch, dict):
        return clone(patch)
    merged: Obj = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def from_unstructured_error(value: Any, shape: Shape) -> str:
    """Why `value` cannot be made one of the type `shape`; empty if it can, or by a reader's words.

    Types that read themselves (quantities, times, `5` or `"5%"`) are left to the decoder.
    """
    if value is None or shape.form is Form.ANY:
        return ""
    kind_name = _KINDS[json_type(value)]
    if shape.form is Form.STRUCT:
        return _struct_error(value, shape, kind_name)
    if shape.form is Form.MAP:
        if kind_name != "map":
            return f"cannot restore map from {kind_name}"
        return _first_text(
            from_unstructured_error(element, shape.item) for element in value.values()
        )
    if shape.form is Form.LIST:
        if kind_name != "slice":
            return f"cannot restore slice from {kind_name}"
        return _first_text(from_unstructured_error(element, shape.item) for element in value)
    if shape.form is Form.INTEGER or shape.form in _PLAIN:
        return _scalar_error(value, shape, kind_name)
    return ""


def _first_text(texts: Any) -> str:
    return next((text for text in texts if text), "")


def _struct_error(value: Any, shape: Shape, kind: str) -> str:
    if kind != "map":
        return f"cannot restore struct from: {kind}"
    fields = shape.struct.fields
    order = go_fields(shape.struct.name) or fields
    return _first_text(
        from_unstructured_error(value[name], fields[name])
        for name in order
        if name in value and name in fields
    )


def _scalar_error(value: Any, shape: Shape, kind: str) -> str:
    expected = _PLAIN.get(shape.form, str(shape.node.get("format", "int64")))
    numeric = expected not in ("string", "bool")
    if kind == expected or (numeric and kind == "int64"):
        return ""
    if kind == "float64" and numeric:
        whole = value == int(value)
        return "" if whole else f"cannot convert float64 to {shape.go}"
    if kind == "int64" and expected == "string":
        # Go could make a letter of a number, and so this has a text of its own.
        return f"cannot convert int64 to {shape.go}"
    return f"unrecognized type: {expected}"


def apply_strategic_merge(target: Obj, patch: Any, shape: Shape) -> Obj:
    """Merge a strategic merge patch into `target` of the type `shape`.

    Raises:
        StatusError: 400 for a patch that does not fit the type.
    """
    if patch is None:
        patch = {}
    if not isinstance(patch, dict):
        raise bad_request(not_a_map_message(patch))
    merged: Obj = _merge_object(target, patch, shape)
    return merged


def _merge_object(target: Any, patch: Obj, shape: Shape | None) -> Any:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return clone({key: value for key, value in patch.items() if key != _DIRECTIVE})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        directive_text = (
            directive if isinstance(directive, str) else f"%!s({format_go_typed(directive)})"
        )
        raise StatusError(
            500, "", f"unknown patch type: {directive_text} in map: {format_go_value(patch)}"
        )
    merged: Obj = dict(target) if isinstance(target, dict) else {}
    retained = patch.get(_RETAIN)
    if retained is not None:
        if not isinstance(retained, list):
            raise bad_request("invalid patch format of retainKeys")
        merged = {key: value for key, value in merged.items() if key in retained}
    orders = {
        key.removeprefix(_ORDER): value for key, value in patch.items() if key.startswith(_ORDER)
    }
    for order in orders.values():
        if not isinstance(order, list):
            text = f"expected a []interface {{}}, but received a {go_type(order)}"
            raise StatusError(500, "", text)
    for key, value in patch.items():
        if key.startswith(_DELETE_VALUES):
            field = key.removeprefix(_DELETE_VALUES)
            if isinstance(value, list) and isinstance(merged.get(field), list):
                merged[field] = [element for element in merged[field] if element not in value]
        elif key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
            continue
        elif value is None:
            merged.pop(key, None)
        elif json_type(merged.get(key)) is not json_type(value) and key not in orders:
            # Nothing to merge with: the patch's value replaces.
            clean_value = _without_nulls(_without_directive_keys(value))
            if clean_value is None:
                merged.pop(key, None)
            else:
                merged[key] = clean_value
        else:
            merged[key] = _merge_value(
                merged.get(key), value, _field_shape(shape, key), orders.get(key)
            )
    for key, order in orders.items():
        if key not in patch and isinstance(merged.get(key), list):
            values = merged[key]
            merged[key] = _order_items(
                values, values, order, _merge_key_of(_field_shape(shape, key))
            )
    return merged


def _without_directive_keys(value: Any) -> Any:
    """Drop the parts of `value` with directives; None if it has one itself."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None
        pairs_by_key = {key: (part, _without_directive_keys(part)) for key, part in value.items()}
        return {
            key: new for key, (part, new) in pairs_by_key.items() if part is None or new is not None
        }
    if isinstance(value, list):
        pairs = [(part, _without_directive_keys(part)) for part in value]
        return [new for part, new in pairs if part is None or new is not None]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _field_shape(shape: Shape | None, name: str) -> Shape | None:
    if shape is None:
        return None
    if shape.form is Form.STRUCT:
        return shape.struct.fields.get(name)
    return shape.item if shape.form is Form.MAP else None


def _merge_key_of(shape: Shape | None) -> str:
    return shape.merge_key if shape is not None else ""


def _merge_value(target: Any, value: Any, shape: Shape | None, order: Any) -> Any:
    if isinstance(value, dict):
        if shape is not None and "replace" in shape.patch_strategy.split(","):
            return clone({key: part for key, part in value.items() if key != _DIRECTIVE})
        return _merge_object(target, value, shape)
    if not isinstance(value, list):
        return value
    merges = shape is not None and "merge" in shape.patch_strategy.split(",")
    if not merges:
        return _without_directives(value)
    key = _merge_key_of(shape)
    target_list = target if isinstance(target, list) else []
    if not target_list and not value:
        return target_list
    _check_same_types(target_list, value)
    if not key:
        merged = [*target_list, *(element for element in value if element not in target_list)]
        return _order_items(merged, target_list, value if order is None else order, "")
    return _merge_list(target_list, value, shape, key, order)


def _check_same_types(target_list: list[Any], patch: list[Any]) -> None:
    """Check that the elements have one type.

    Raises:
        StatusError: 500, they do not.
    """
    types = {json_type(element) for element in (*target_list, *patch)}
    if len(types) > 1:
        lists_text = format_go_value([target_list, patch])
        raise StatusError(500, "", f"list element types are not identical: {lists_text}")
    if types == {list}:
        raise StatusError(500, "", "lists of lists are not supported")


def _without_directives(value: list[Any]) -> list[Any]:
    return [
        clone(element)
        for element in value
        if not (isinstance(element, dict) and _DIRECTIVE in element)
    ]


def _merge_list(
    current: list[Any], patch: list[Any], shape: Shape | None, key: str, order: Any
) -> list[Any]:
    if any(
        isinstance(item_patch, dict) and item_patch.get(_DIRECTIVE) == "replace"
        for item_patch in patch
    ):
        return _without_directives(patch)
    merged = list(current)
    item = shape.item if shape is not None else None
    for item_patch in patch:
        if not isinstance(item_patch, dict) or key not in item_patch:
            raise StatusError(
                500,
                "",
                f"map: {format_go_value(item_patch)} does not contain declared merge key: {key}",
            )
        at = next(
            (
                index
                for index, old in enumerate(merged)
                if isinstance(old, dict) and old.get(key) == item_patch[key]
            ),
            None,
        )
        if item_patch.get(_DIRECTIVE) == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(_merge_object({}, item_patch, item))
        else:
            merged[at] = _merge_object(merged[at], item_patch, item)
    return _order_items(merged, current, patch if order is None else order, key)


def _order_items(
    merged: list[Any], before: list[Any], patch_order: list[Any], key: str
) -> list[Any]:
    """`merged` with what the patch names in its order, and the rest where it stood before.

    Between two items whose places before do not tell, the patch's comes first.
    """

    def identity(value: Any) -> Any:
        return value.get(key) if key and isinstance(value, dict) else value

    if key and merged:
        for index, element in enumerate(patch_order):
            if not isinstance(element, dict):
                raise StatusError(500, "", f"value for key {index} is not a map")
    places = _index_identities(identity(element) for element in before)
    order = _index_identities(identity(element) for element in patch_order)
    named: list[tuple[int, bytes, Any]] = []
    other_elements: list[tuple[int, bytes, Any]] = []
    for value in merged:
        encoded = _encode(identity(value))
        if encoded in order:
            named.append((order[encoded], encoded, value))
        else:
            other_elements.append((places.get(encoded, len(places)), encoded, value))
    first, second = (
        deque(sorted(named, key=itemgetter(0))),
        deque(sorted(other_elements, key=itemgetter(0))),
    )
    result: list[Any] = []
    while first and second:
        at = places.get(first[0][1])
        before_it = at is not None and second[0][0] < at
        result.append((second if before_it else first).popleft()[2])
    return [*result, *(entry[2] for entry in second), *(entry[2] for entry in first)]


def _index_identities(identities: Iterable[Any]) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for at, identity in enumerate(identities):
        places.setdefault(_encode(identity), at)
    return places
