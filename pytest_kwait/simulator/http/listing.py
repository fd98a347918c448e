"""Lists: which state they show, which objects, which page.

Source: k8s.io/apiserver pkg/storage/etcd3/store.go, pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.http.list_options import continue_token, read_continue
from pytest_kwait.simulator.status_error import (
    StatusError,
    bad_request,
    invalid_value,
    too_large_resource_version,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.cluster_api import ClusterApi
    from pytest_kwait.simulator.http.list_options import ListOptions
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["Page", "page", "wait_for_revision"]

_PATIENCE = 3.0
_PAUSE = 0.02
_COMPACTED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class Page:
    """One page of a list.

    Args:
        entries: the objects.
        metadata: the list's metadata.
    """

    __slots__ = ("entries", "metadata")

    def __init__(self, entries: Sequence[Entry], metadata: Obj) -> None:
        self.entries = entries
        self.metadata = metadata


async def wait_for_revision(api: ClusterApi, version: str) -> None:
    """Return once the cluster's state is as new as `version`.

    Raises:
        StatusError: 504 if that takes too long, 400 if `version` is no revision.
    """
    if version in ("", "0"):
        return
    if not version.isdigit():
        error = invalid_value(
            "resourceVersion", version, f'strconv.ParseUint: parsing "{version}": invalid syntax'
        )
        raise StatusError(400, "BadRequest", f"invalid resource version: {error}")
    asked, waited = int(version), 0.0
    while asked > api.store.revision:
        if waited >= _PATIENCE:
            raise too_large_resource_version(asked, api.store.revision)
        await async_sleep(_PAUSE)
        waited += _PAUSE


def page(api: ClusterApi, kind: Kind, namespace: str | None, options: ListOptions) -> Page:
    """The page that `options` ask for.

    Raises:
        StatusError: 400 or 422 for a bad token, 410 for a state that is no longer kept.
    """
    store = api.store
    start = ""
    revision = store.revision
    if options.token:
        if options.version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        asked, start = read_continue(options.token)
        if asked > 0:
            revision = asked
            try:
                entries = store.entries_at(kind.bucket, revision, namespace)
            except StatusError:
                raise StatusError(
                    410,
                    "Expired",
                    _COMPACTED,
                    metadata={"continue": continue_token(-1, start)},
                ) from None
        else:
            entries = store.entries(kind.bucket, namespace)
    elif (
        options.match == "Exact" or (options.limit and not options.match)
    ) and options.version not in ("", "0"):
        revision = int(options.version)
        entries = store.entries_at(kind.bucket, revision, namespace)
    else:
        entries = store.entries(kind.bucket, namespace)
    if start:
        keys = [entry.key for entry in entries]
        entries = entries[bisect_right(keys, start) :]
    limit = 0 if options.version == "0" and not options.match else options.limit
    metadata: Obj = {"resourceVersion": str(revision)}
    if options.selective:
        entries = [entry for entry in entries if options.selects(entry)]
    if limit and len(entries) > limit:
        metadata["continue"] = continue_token(revision, entries[limit - 1].key)
        if not options.selective:
            metadata["remainingItemCount"] = len(entries) - limit
        entries = entries[:limit]
    return Page(entries, metadata)
