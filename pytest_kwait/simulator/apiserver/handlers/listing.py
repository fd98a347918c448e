"""Lists: options, resource versions, pages and continue tokens.

Source: k8s.io/apimachinery pkg/apis/meta/internalversion/{defaults,validation}; k8s.io/apiserver
pkg/storage/etcd3/store.go, pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import posixpath
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    not_supported,
)
from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import (
    StatusError,
    bad_request,
    expired,
    invalid,
    too_large_resource_version,
)
from pytest_kwait.simulator.apiserver.responses import entries_to_requested_version
from pytest_kwait.simulator.codec.go_text import parse_uint
from pytest_kwait.simulator.codec.json_yaml import find_json_error, json_type_name
from pytest_kwait.simulator.registry.generic_store import LARGE_BYTES
from pytest_kwait.simulator.selectors import FieldSelector, parse_fields, parse_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.apimachinery.selectors import LabelSelector
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind
    from pytest_kwait.simulator.store import Entry

REVISION_TIMEOUT = 3.0
"""The time limit for a future resource version."""

_RESOURCE_VERSION_MATCHES = ("Exact", "NotOlderThan")
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - names a format
_TOKEN_TYPES = {"v": (str, "string"), "rv": (int, "int64"), "start": (str, "string")}
_MANY_ENTRIES = 1000
"""Objects that are compared with selectors on the event loop."""
_REVISION_POLL_SECONDS = 0.02
_COMPACTED_TEXT = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or watch."""

    labels: LabelSelector
    fields: FieldSelector
    version: str
    match: str
    limit: int
    token: str
    watch: bool
    bookmarks: bool
    initial_events: bool | None
    timeout: int | None
    is_large: bool = False
    """Whether comparing with the selectors takes so long that it must not hold the event loop."""

    @property
    def is_selective(self) -> bool:
        """Return whether a selector may exclude objects."""
        return not self.labels.everything or bool(self.fields)

    def selects(self, entry: Entry) -> bool:
        """Return whether the selectors match."""
        obj = entry.obj
        if not self.labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return not self.fields or self.fields.matches(obj)


def read_options(
    request: ApiRequest, kind: Kind, *, name: str = "", watch: bool = False
) -> ListOptions:
    """Parse the options of a list or watch request.

    Args:
        kind: the listed kind; it defines the selectable fields.
        name: the object's name, for watches of one object.
        watch: whether the path already requests a watch.

    Raises:
        StatusError: 400 for unparsable options, 422 for conflicting ones.
    """
    query = request.query
    labels = parse_labels(query.get("labelSelector", ""))
    text = query.get("fieldSelector", "")
    fields = parse_fields(text, kind)
    if name:
        if text and fields.name != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
        fields = parse_fields(f"metadata.name={name}", kind)
    watch = watch or request.flag("watch")
    initial: bool | None = None
    if "sendInitialEvents" in query:
        initial = request.flag("sendInitialEvents")
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    limit, timeout = request.integer("limit"), request.integer("timeoutSeconds")
    if watch and initial is None and not match and version in ("", "0"):
        initial, match = True, "NotOlderThan"
    token = query.get("continue", "")
    errors = (
        _watch_errors(match, initial, token)
        if watch
        else _list_errors(match, version, initial, token)
    )
    if errors:
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    return ListOptions(
        labels=labels,
        fields=fields,
        version=version,
        match=match,
        limit=max(limit or 0, 0),
        token=token,
        watch=watch,
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=initial,
        timeout=timeout,
        is_large=len(request.query_text) >= LARGE_BYTES,
    )


async def read_list_options(
    request: ApiRequest, kind: Kind, *, name: str = "", watch: bool = False
) -> ListOptions:
    """Parse the options of a request as `read_options` does, in a thread if they are large.

    Raises:
        StatusError: 400 for unparsable options, 422 for conflicting ones.
    """
    if len(request.query_text) < LARGE_BYTES:
        return read_options(request, kind, name=name, watch=watch)
    return await asyncio.to_thread(read_options, request, kind, name=name, watch=watch)


def _list_errors(match: str, version: str, initial: bool | None, token: str) -> list[FieldError]:
    errors = []
    if match:
        if not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
        if token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
        if match not in _RESOURCE_VERSION_MATCHES:
            errors.append(
                not_supported("resourceVersionMatch", match, (*_RESOURCE_VERSION_MATCHES, ""))
            )
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errors.append(forbidden_field("resourceVersionMatch", text))
    if initial is not None:
        text = "sendInitialEvents is forbidden for list"
        errors.append(forbidden_field("sendInitialEvents", text))
    return errors


def _watch_errors(match: str, initial: bool | None, token: str) -> list[FieldError]:
    errors = []
    if initial is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field("resourceVersionMatch", text))
    if match:
        if initial is None:
            text = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            errors.append(forbidden_field("resourceVersionMatch", text))
        if match != "NotOlderThan":
            errors.append(not_supported("resourceVersionMatch", match, ("NotOlderThan",)))
        if token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            errors.append(forbidden_field("resourceVersionMatch", text))
    return errors


def encode_continue_token(revision: int, last_key: str) -> str:
    """Return the token to continue after `last_key` at `revision`; -1 for any state."""
    content = {"v": _TOKEN_VERSION, "rv": revision, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(content)).decode().rstrip("=")


def decode_continue_token(token: str) -> tuple[int, str]:
    """Return a token's revision and first key.

    Raises:
        StatusError: 400, the token is invalid.

    Source: k8s.io/apiserver pkg/storage/continue.go, DecodeContinue.
    """
    content = _token_content(token)
    version = content.get("v") or ""
    if version != _TOKEN_VERSION:
        raise _invalid_token_error(f"server does not recognize this encoded version {version}")
    revision, start = content.get("rv") or 0, content.get("start") or ""
    if revision == 0:
        raise _invalid_token_error(
            f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})"
        )
    if not start:
        raise _invalid_token_error(f"encoded start key empty (version {_TOKEN_VERSION})")
    rooted = start if start.startswith("/") else f"/{start}"
    if posixpath.normpath(rooted) != rooted:
        raise _invalid_token_error(start)
    return revision, rooted[1:]


def _token_content(token: str) -> dict[str, Any]:
    sign = re.search(r"[^A-Za-z0-9_-]", token)
    if sign or len(token) % 4 == 1:
        at = sign.start() if sign else len(token) - 1
        raise _invalid_token_error(f"illegal base64 data at input byte {at}")
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = msgspec.json.decode(data)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _invalid_token_error(find_json_error(data)) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _invalid_token_error(
            f"json: cannot unmarshal {_describe_type(content)} into Go value of type "
            "storage.continueToken"
        )
    for name, (kind, type_name) in _TOKEN_TYPES.items():
        value = content.get(name)
        if value is not None and type(value) is not kind:
            raise _invalid_token_error(
                f"json: cannot unmarshal {_describe_type(value)} into Go struct field "
                f"continueToken.{name} of type {type_name}"
            )
    return content


def _describe_type(value: object) -> str:
    return f"number {value}" if isinstance(value, float) else json_type_name(value)


def _invalid_token_error(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")


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
    """Parse a resource version; 0 for any state.

    Raises:
        ValueError: it is invalid; the text is the server's own.
    """
    if not version:
        return 0
    try:
        return parse_uint(version)
    except ValueError as error:
        raise ValueError(str(invalid_value("resourceVersion", version, str(error)))) from None


async def wait_for_revision(
    cluster: Cluster, revision: int, patience: float = REVISION_TIMEOUT
) -> None:
    """Wait until the cluster has reached `revision`.

    Raises:
        StatusError: 504, it takes more than `patience` seconds.
    """
    waited = 0.0
    while revision > cluster.store.revision:
        if waited >= patience:
            raise too_large_resource_version(revision, cluster.store.revision)
        await async_sleep(_REVISION_POLL_SECONDS)
        waited += _REVISION_POLL_SECONDS


async def find_page(
    cluster: Cluster,
    request: ApiRequest,
    kind: Kind,
    namespace: str | None,
    options: ListOptions,
) -> Page:
    """Return a page, once the cluster has reached its resource version.

    Raises:
        StatusError: 400 for an invalid revision or token, 410 for a compacted revision, 504 for a
            future one.
    """
    if options.token and options.version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        requested = parse_revision(options.version)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    start = ""
    if options.token:
        requested, start = decode_continue_token(options.token)
    await wait_for_revision(cluster, requested)
    return await _build_page(cluster, request, kind, namespace, options, requested, start)


async def _build_page(
    cluster: Cluster,
    request: ApiRequest,
    kind: Kind,
    namespace: str | None,
    options: ListOptions,
    requested: int,
    start: str,
) -> Page:
    store = cluster.store
    prefix = f"{namespace}/" if namespace and kind.namespaced else ""
    revision = store.revision
    if start and requested > 0:
        revision = requested
        try:
            is_old = revision < store.revision
            if is_old and cluster.exploration.expires_list(request, kind.plural, namespace):
                raise expired(_COMPACTED_TEXT)
            entries = store.entries_at(kind.bucket, revision, namespace)
        except StatusError:
            rest = {"continue": encode_continue_token(-1, start.rstrip("\0"))}
            raise StatusError(410, "Expired", _COMPACTED_TEXT, metadata=rest) from None
    elif requested > 0 and (options.match == "Exact" or (options.limit and not options.match)):
        revision = requested
        entries = store.entries_at(kind.bucket, revision, namespace)
    else:
        entries = store.entries(kind.bucket, namespace)
    if start:
        entries = entries[bisect_left([entry.key for entry in entries], prefix + start) :]
    # The watch cache answers requests for any state, without pages.
    any_time = options.version == "0" and options.match != "Exact"
    limit = 0 if any_time else options.limit
    if not kind.custom:
        return await _take_large_page(entries, options, revision, prefix, limit)
    converted_entries = (
        await entries_to_requested_version(kind, entries) if options.is_selective else entries
    )
    page = await _take_large_page(converted_entries, options, revision, prefix, limit)
    return Page(await entries_to_requested_version(kind, page.entries), page.metadata)


async def _take_large_page(
    entries: Sequence[Entry], options: ListOptions, revision: int, prefix: str, limit: int
) -> Page:
    """Take a page, in a thread if the selectors are large, or select among many objects."""
    is_large = options.is_large or (options.is_selective and len(entries) > _MANY_ENTRIES)
    if not is_large:
        return _take_page(entries, options, revision, prefix, limit)
    return await asyncio.to_thread(_take_page, entries, options, revision, prefix, limit)


def _take_page(
    entries: Sequence[Entry], options: ListOptions, revision: int, prefix: str, limit: int
) -> Page:
    """Return the first `limit` selected entries.

    The continue token depends on the remaining entries, whether selected or not.
    """
    chosen: Sequence[Entry] = entries
    last = len(entries) - 1
    if options.is_selective:
        chosen = selected = []
        for at, entry in enumerate(entries):
            if options.selects(entry):
                selected.append(entry)
                if limit and len(selected) == limit:
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
