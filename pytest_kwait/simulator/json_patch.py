"""JSON patches of clients, webhooks and policies, with the server's error messages.

Source: RFC 6902; gopkg.in/evanphx/json-patch.v4, `Patch.Apply`; k8s.io/apiserver
pkg/endpoints/handlers/patch.go, `jsonPatcher`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer
import msgspec

from pytest_kwait.simulator.api_errors import StatusError, bad_request, internal_error
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["JsonPatchError", "apply_json_patch", "apply_operations", "apply_webhook_patch"]

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
    for one in patch:
        if one is None:
            raise _rejection()
        if not isinstance(one, dict):
            raise _decoding_error(one, "Go value of type handlers.jsonPatchOp")
        for field in ("op", "from", "path"):
            if not isinstance(one.get(field, ""), str | None):
                where = f"Go struct field jsonPatchOp.{field} of type string"
                raise _decoding_error(one[field], where)
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
    given = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return bad_request(f"error decoding patch: json: cannot unmarshal {given} into {where}")


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
        given: Any = operation if isinstance(operation, dict) else {}
        kind, path = given.get("op", ""), str(given.get("path", ""))
        if kind not in _OPERATIONS:
            raise JsonPatchError(f"Unexpected kind: {kind}")
        if kind == "replace" and _is_missing_field(changed, path):
            # The server's library replaces missing fields, too.
            given = {**given, "op": "add"}
        try:
            if kind == "copy":
                source = jsonpointer.JsonPointer(given.get("from", "")).resolve(changed)
                copied += len(msgspec.json.encode(source))
            if copied <= _MAX_COPIED_BYTES:
                changed = jsonpatch.apply_patch(changed, [given], in_place=True)
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
        shown = path if kind == "replace" else f'"{path}"'
        return f"{kind} operation does not apply: doc is missing path: {shown}: missing value"
    if kind == "remove":
        key = path.rpartition("/")[2]
        return (
            f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing "
            "value"
        )
    return ""
