"""JSON patches of webhooks and policies, with the server's error messages.

Source: gopkg.in/evanphx/json-patch.v4, `Patch.Apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer

from pytest_kwait.simulator.api_errors import internal_error
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["JsonPatchError", "apply_operations", "apply_webhook_patch"]

_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")


class JsonPatchError(ValueError):
    """An operation cannot be done; the text is the server's.

    Args:
        text: why.
        test: whether it is one that only looks.
    """

    def __init__(self, text: str, *, test: bool = False) -> None:
        super().__init__(text)
        self.test = test


def apply_webhook_patch(obj: Obj, operations: list[Any]) -> Obj:
    """The object after the operations.

    Raises:
        StatusError: 500, one of them cannot be done.
    """
    try:
        return apply_operations(obj, operations)
    except JsonPatchError as error:
        raise internal_error(str(error)) from None


def apply_operations(obj: Obj, operations: list[Any]) -> Obj:
    """The object after the operations.

    Raises:
        PatchError: one of them cannot be done.
    """
    changed: Any = clone(obj)
    for operation in operations:
        given: Any = operation if isinstance(operation, dict) else {}
        kind, path = given.get("op", ""), str(given.get("path", ""))
        if kind not in _OPERATIONS:
            raise JsonPatchError(f"Unexpected kind: {kind}")
        if kind == "replace" and _is_missing_field(changed, path):
            # As the server's library, to which a field that is not there is one that is empty.
            given = {**given, "op": "add"}
        try:
            changed = jsonpatch.apply_patch(changed, [given])
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
            why = _operation_error_text(changed, kind, path) or str(error)
            raise JsonPatchError(why, test=kind == "test") from None
    if not isinstance(changed, dict):
        raise JsonPatchError("the patched object is no object")
    return changed


def _find_parent(obj: Any, path: str) -> Any:
    """What holds the last part of the path; None where there is nothing."""
    try:
        return jsonpointer.resolve_pointer(obj, path.rpartition("/")[0], None)
    except jsonpointer.JsonPointerException:
        return None


def _is_missing_field(obj: Any, path: str) -> bool:
    parent = _find_parent(obj, path)
    return isinstance(parent, dict) and path.rpartition("/")[2] not in parent


def _operation_error_text(obj: Any, kind: str, path: str) -> str:
    """What the server's library says; empty where it is not known."""
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
