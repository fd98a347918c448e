"""Lists: which state they show, which objects, which page.

Source: k8s.io/apiserver pkg/storage/etcd3/store.go, pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    invalid_value,
    too_large_resource_version,
)
from pytest_kwait.simulator.apiserver.handlers.list_options import (
    decode_continue_token,
    encode_continue_token,
)
from pytest_kwait.simulator.apiserver.versions import entries_to_requested_version
from pytest_kwait.simulator.codec.go_numbers import parse_uint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.apiserver.handlers.list_options import ListOptions
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry

__all__ = ["REVISION_TIMEOUT", "Page", "find_page", "parse_revision", "wait_for_revision"]

REVISION_TIMEOUT = 3.0
"""Seconds that a state which is yet to come is waited for."""
_REVISION_POLL_SECONDS = 0.02
_COMPACTED_TEXT = (
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


def parse_revision(version: str) -> int:
    """The revision that `version` spells; 0 for any state.

    Raises:
        ValueError: it spells none; the text is the server's own.
    """
    if not version:
        return 0
    try:
        return parse_uint(version)
    except ValueError as error:
        raise ValueError(str(invalid_value("resourceVersion", version, str(error)))) from None


async def wait_for_revision(
    api: SimulatedCluster, revision: int, patience: float = REVISION_TIMEOUT
) -> None:
    """Return once the cluster's state is as new as `revision`.

    Raises:
        StatusError: 504 if that takes more than `patience` seconds.
    """
    waited = 0.0
    while revision > api.store.revision:
        if waited >= patience:
            raise too_large_resource_version(revision, api.store.revision)
        await async_sleep(_REVISION_POLL_SECONDS)
        waited += _REVISION_POLL_SECONDS


async def find_page(
    api: SimulatedCluster, kind: Kind, namespace: str | None, options: ListOptions
) -> Page:
    """The page that `options` ask for, once the cluster's state is new enough for it.

    Raises:
        StatusError: 400 for what is no revision or token, 410 for a state that is no longer kept,
            504 for one that is yet to come.
    """
    if options.token and options.version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        asked = parse_revision(options.version)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    start = ""
    if options.token:
        asked, start = decode_continue_token(options.token)
    await wait_for_revision(api, asked)
    return await _build_page(api, kind, namespace, options, asked, start)


async def _build_page(
    api: SimulatedCluster,
    kind: Kind,
    namespace: str | None,
    options: ListOptions,
    asked: int,
    start: str,
) -> Page:
    store = api.store
    prefix = f"{namespace}/" if namespace and kind.namespaced else ""
    revision = store.revision
    if start and asked > 0:
        revision = asked
        try:
            entries = store.entries_at(kind.bucket, revision, namespace)
        except StatusError:
            rest = {"continue": encode_continue_token(-1, start.rstrip("\0"))}
            raise StatusError(410, "Expired", _COMPACTED_TEXT, metadata=rest) from None
    elif asked > 0 and (options.match == "Exact" or (options.limit and not options.match)):
        revision = asked
        entries = store.entries_at(kind.bucket, revision, namespace)
    else:
        entries = store.entries(kind.bucket, namespace)
    if start:
        entries = entries[bisect_left([entry.key for entry in entries], prefix + start) :]
    # The watch cache answers what may be of any time, and knows no pages.
    any_time = options.version == "0" and options.match != "Exact"
    limit = 0 if any_time else options.limit
    if not kind.custom:
        return _take_page(entries, options, revision, prefix, limit)
    seen = await entries_to_requested_version(kind, entries) if options.is_selective else entries
    page = _take_page(seen, options, revision, prefix, limit)
    return Page(await entries_to_requested_version(kind, page.entries), page.metadata)


def _take_page(
    entries: Sequence[Entry], options: ListOptions, revision: int, prefix: str, limit: int
) -> Page:
    """The first `limit` of `entries` that are wanted.

    Whether anything follows is told by the objects that are there, wanted or not.
    """
    chosen: Sequence[Entry] = entries
    last = len(entries) - 1
    if options.is_selective:
        chosen = wanted = []
        for at, entry in enumerate(entries):
            if options.selects(entry):
                wanted.append(entry)
                if limit and len(wanted) == limit:
                    last = at
                    break
    elif limit and len(entries) > limit:
        chosen, last = entries[:limit], limit - 1
    metadata: Obj = {"resourceVersion": str(revision)}
    if last + 1 < len(entries):
        key = entries[last].key.removeprefix(prefix)
        metadata["continue"] = encode_continue_token(revision, key)
        if not options.is_selective:
            metadata["remainingItemCount"] = len(entries) - limit
    return Page(chosen, metadata)
