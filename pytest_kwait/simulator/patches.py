"""Merge patch and JSON patch.

Source: RFC 7386, RFC 6902, k8s.io/apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.json_errors import json_error
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.status_error import StatusError, bad_request

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["json_patch", "merge_patch", "no_map", "read_patch"]

_MOST_OPERATIONS = 10_000


def read_patch(data: bytes, before: str = "error decoding patch: ") -> Any:
    """The patch's JSON.

    Args:
        data: the patch.
        before: how the refusal of what is no JSON begins.

    Raises:
        StatusError: 400, it is none.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"{before}{json_error(data) or error}") from None


def no_map(value: object) -> str:
    """What Go's JSON reader says of a value that is to be an object and is none."""
    name = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with the fields of `patch`; a null removes, anything but objects replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    merged: Obj = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Obj, patch: Any) -> Any:
    """`target` after the operations of `patch`.

    Raises:
        StatusError: 400 for what is no list of operations, 422 for one that cannot be done.
    """
    import jsonpatch
    import jsonpointer

    if not isinstance(patch, list) or not all(isinstance(one, dict) for one in patch):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    if len(patch) > _MOST_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got "
            f"{len(patch)}",
        )
    try:
        return jsonpatch.apply_patch(target, patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        raise _refused() from None


def _refused() -> StatusError:
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})
