"""Merge patch and JSON patch.

Source: RFC 7386, RFC 6902, k8s.io/apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.api_errors import StatusError, bad_request
from pytest_kwait.simulator.codec.json_text import read_json
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["apply_json_patch", "apply_merge_patch", "not_a_map_message", "read_patch"]

_MAX_OPERATIONS = 10_000
_MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes that the operations of one patch may copy; upstream, `JSONPatchMaxCopyBytes`."""
_PATCH_ERRORS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What the library raises for pointers of another type, or into values of another type."""


def read_patch(data: bytes, before: str = "error decoding patch: ") -> Any:
    """The patch's JSON.

    Args:
        data: the patch.
        before: how the refusal of what is no JSON begins.

    Raises:
        StatusError: 400, it is none.
    """
    try:
        return read_json(data)
    except ValueError as error:
        raise bad_request(f"{before}{error}") from None


def not_a_map_message(value: object) -> str:
    """What Go's JSON reader says of a value that is to be an object and is none."""
    name = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """`target` with the fields of `patch`; a null removes, anything but objects replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    merged: Obj = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged


def apply_json_patch(target: Obj, patch: Any) -> Any:
    """`target` after the operations of `patch`.

    Raises:
        StatusError: 400 for what is no list of operations, 422 for one that cannot be done.
    """
    import jsonpatch
    import jsonpointer

    if not isinstance(patch, list):
        raise _undecodable(patch, "Go value of type []handlers.jsonPatchOp")
    for one in patch:
        if one is None:
            raise _refused()
        if not isinstance(one, dict):
            raise _undecodable(one, "Go value of type handlers.jsonPatchOp")
        for field in ("op", "from", "path"):
            if not isinstance(one.get(field, ""), str | None):
                where = f"Go struct field jsonPatchOp.{field} of type string"
                raise _undecodable(one[field], where)
    if len(patch) > _MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MAX_OPERATIONS}, got {len(patch)}",
        )
    copied = 0
    try:
        for operation in patch:
            if operation.get("op") == "copy":
                source = jsonpointer.JsonPointer(operation.get("from", ""))
                copied += len(msgspec.json.encode(source.resolve(target)))
                if copied > _MAX_COPIED_BYTES:
                    raise _refused()
            target = jsonpatch.apply_patch(target, [operation], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, *_PATCH_ERRORS):
        raise _refused() from None
    if not isinstance(target, dict):
        raise _refused()
    return target


def _undecodable(value: object, where: str) -> StatusError:
    given = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return bad_request(f"error decoding patch: json: cannot unmarshal {given} into {where}")


def _refused() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})
