"""Options and bodies of write requests: patch types, delete options, object paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Propagation",
    "delete_options",
    "encode_json",
    "get_object_name",
    "get_object_path",
    "write_options",
]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
# JSON is YAML: the server accepts it under this type, the only one of server-side apply.
APPLY_PATCH = "application/apply-patch+yaml"

Propagation = Literal["Background", "Foreground", "Orphan"]
"""The effect of an owner's deletion on its dependents."""


def encode_json(body: object) -> bytes:
    """Return a body as JSON.

    Raises:
        InvalidArgument: a value that JSON cannot represent.
    """
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument("body", body, f"values that JSON has ({error})") from error


def write_options(field_manager: str, dry_run: bool) -> dict[str, Any]:
    """Return the query parameters of a write request."""
    return {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}


def delete_options(
    *,
    uid: str | None,
    resource_version: str | None,
    grace_period_seconds: int | None,
    propagation_policy: Propagation | None,
    dry_run: bool,
) -> dict[str, Any]:
    """Return the body of a deletion; None leaves an option to the server."""
    preconditions = _drop_none(uid=uid, resourceVersion=resource_version)
    return _drop_none(
        kind="DeleteOptions",
        apiVersion="v1",
        preconditions=preconditions or None,
        gracePeriodSeconds=grace_period_seconds,
        propagationPolicy=propagation_policy,
        dryRun=["All"] if dry_run else None,
    )


def get_object_name(obj: Mapping[str, Any]) -> str:
    """Return the name of an object.

    Raises:
        InvalidArgument: the object has no name.
    """
    name = _metadata(obj).get("name")
    if not isinstance(name, str) or not name:
        raise InvalidArgument("metadata.name", name, "the name of the object to write")
    return name


def get_object_path(
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of an object, in the given namespace or its own.

    Raises:
        InvalidArgument: the namespace of a namespaced object is missing.
    """
    where = namespace if namespace is not None else _metadata(obj).get("namespace")
    if resource.namespaced and not where:
        raise InvalidArgument("namespace", where, f"{resource.kind} lives in a namespace, name it")
    return resource.path(where, name, subresource)


def _drop_none(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
