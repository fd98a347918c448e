"""Custom objects in the version that a request names, by the webhook of their definition.

Source: k8s.io/apiserver pkg/storage/cacher/cacher.go (lists and watches are of what was converted
when it was written).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.kind_view import to_version_without_webhook
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = [
    "entries_to_requested_version",
    "entry_to_requested_version",
    "list_conversion_error",
    "to_requested_version",
]


async def to_requested_version(kind: Kind, obj: Obj) -> Obj:
    """An object as `kind` has it; what is no custom one stays as it is.

    Raises:
        StatusError: 500, the webhook fails.
    """
    if kind.structure is None or obj.get("apiVersion") in (kind.api_version, "v1"):
        return obj
    if kind.structure.conversion is None:
        return to_version_without_webhook(kind, obj)
    return await kind.structure.conversion.read(obj, kind)


async def entry_to_requested_version(kind: Kind, entry: Entry) -> Entry:
    """The same for what is stored.

    Raises:
        StatusError: 500, the webhook fails.
    """
    obj = await to_requested_version(kind, entry.obj)
    return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)


async def entries_to_requested_version(kind: Kind, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The same for a list.

    Raises:
        StatusError: 429, the webhook fails.
    """
    if kind.structure is None:
        return entries
    if kind.structure.conversion is None:
        return [await entry_to_requested_version(kind, entry) for entry in entries]
    try:
        return await kind.structure.conversion.entries(entries, kind)
    except StatusError as error:
        raise list_conversion_error(kind, error) from None


def list_conversion_error(kind: Kind, error: StatusError) -> StatusError:
    """What a list or a watch ends with where the webhook fails."""
    which = f"{kind.api_version}, Kind={kind.kind}"
    text = f"storage is (re)initializing: failed to list {which}: {error.message}"
    details = {"retryAfterSeconds": 1}
    return StatusError(429, "TooManyRequests", text, details, {"Retry-After": "1"})
