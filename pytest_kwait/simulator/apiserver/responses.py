"""Responses: objects, lists and errors, in the requested version and media type.

Custom objects are converted to the version of the request by the webhook of their definition;
lists and watches show the objects as converted when they were written.

Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters, pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.apimachinery.go_values import GO_TRUE
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.apiserver.request import ResponseForm, negotiate_plain
from pytest_kwait.simulator.apiserver.tables import to_partial_object_metadata, to_table
from pytest_kwait.simulator.codec.json_yaml import write_yaml
from pytest_kwait.simulator.conversion import to_version_without_webhook
from pytest_kwait.simulator.protocol.options import CONTROLLERS_HEADER, TIME_SCALE_HEADER
from pytest_kwait.simulator.store import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import ApiServerCluster
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller
    from pytest_kwait.simulator.scheme import Kind

_JSON = {"Content-Type": "application/json"}
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_YAML = {"Content-Type": "application/yaml"}
_encode = msgspec.json.Encoder().encode
_MAX_WARNING_LENGTH = 4096
_TRUNCATED_WARNING_LENGTH = 256
_MAX_WARNINGS = 80
"""Python's HTTP client refuses a response of more than 100 headers."""
_SLOW_BYTES = 256 * 1024
"""The size of objects whose tables or conversion would hold the event loop too long."""
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


async def to_requested_version(kind: Kind, obj: Obj) -> Obj:
    """Convert an object to the version of `kind`, if it is custom.

    Raises:
        StatusError: 500, the conversion webhook fails.
    """
    if kind.structure is None or obj.get("apiVersion") in (kind.api_version, "v1"):
        return obj
    if kind.structure.conversion is None:
        return to_version_without_webhook(kind, obj)
    return await kind.structure.conversion.convert_for_read(obj, kind)


async def entry_to_requested_version(kind: Kind, entry: Entry) -> Entry:
    """Convert a stored entry to the version of `kind`.

    Raises:
        StatusError: 500, the conversion webhook fails.
    """
    obj = await to_requested_version(kind, entry.obj)
    return entry if obj is entry.obj else Entry(entry.key, obj, entry.revision)


async def entries_to_requested_version(kind: Kind, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Convert the entries of a list to the version of `kind`.

    Raises:
        StatusError: 429, the conversion webhook fails.
    """
    if kind.structure is None:
        return entries
    if kind.structure.conversion is None:
        return [await entry_to_requested_version(kind, entry) for entry in entries]
    try:
        return await kind.structure.conversion.convert_entries(entries, kind)
    except StatusError as error:
        raise list_conversion_error(kind, error) from None


def list_conversion_error(kind: Kind, error: StatusError) -> StatusError:
    """Return the error of a list or watch whose conversion fails."""
    list_text = f"{kind.api_version}, Kind={kind.kind}"
    text = f"storage is (re)initializing: failed to list {list_text}: {error.message}"
    details = {"retryAfterSeconds": 1}
    return StatusError(429, "TooManyRequests", text, details, {"Retry-After": "1"})


def json_response(
    request: ApiRequest, body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return `body` as JSON, or as YAML if the client accepts only that.

    Raises:
        StatusError: 406, the client accepts neither.
    """
    form = negotiate_plain(request.header("Accept"))
    return encode_body(request, form, body, status, headers or {})


def json_only_response(request: ApiRequest, body: object) -> web.Response:
    """Return `body` as JSON, whatever the client accepts."""
    return encode_body(request, ResponseForm(), body, 200, {})


def text_response(text: str, status: int = 200, *, nosniff: bool = True) -> web.Response:
    """Return plain text; Go adds `nosniff` to errors only."""
    response = web.Response(text=text, status=status, headers=_TEXT)
    if nosniff:
        response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def error_response(request: ApiRequest, error: StatusError) -> web.Response:
    """Return an error as a Status object, in indented JSON if no accepted form is supported.

    Source: k8s.io/apiserver pkg/endpoints/handlers/responsewriters/writers.go, `WriteRawJSON`.
    """
    try:
        form = negotiate_plain(request.header("Accept"))
    except StatusError:
        form = ResponseForm(indented=True)
    return encode_body(request, form, error.status(), error.code, error.headers)


async def stored_object_response(request: ApiRequest, kind: Kind, entry: Entry) -> web.Response:
    """Return a stored object; its stored bytes where the form allows it."""
    form = request.form
    if form.media == "json" and not form.convert and kind.stored:
        raw = entry.raw
        if kind.custom:
            raw = _encode(to_version_without_webhook(kind, entry.obj))
        return _build_response(request, form, raw, 200, _JSON)
    return await object_response(request, kind, entry.obj)


async def object_response(
    request: ApiRequest, kind: Kind, obj: Obj, status: int = 200
) -> web.Response:
    """Return an object in the version and form that the client accepts."""
    form = request.form
    if form.media == "yaml" or ((form.convert or kind.custom) and len(_encode(obj)) >= _SLOW_BYTES):
        return await asyncio.to_thread(_build_object_response, request, kind, obj, status)
    return _build_object_response(request, kind, obj, status)


def _build_object_response(request: ApiRequest, kind: Kind, obj: Obj, status: int) -> web.Response:
    form = request.form
    if obj.get("kind") == "Status" and obj.get("apiVersion") == "v1":
        return encode_body(request, form, obj, status, {})
    body = to_version_without_webhook(kind, obj)
    if form.convert == "Table":
        body = to_table(kind, [obj], obj["metadata"], request.query, version=form.version)
    elif form.convert == "PartialObjectMetadataList":
        raise _conversion_error(form.convert, f"is not a list ({_go_type(kind)})")
    elif form.convert:
        body = to_partial_object_metadata(body, form.version)
    return encode_body(request, form, body, status, {})


async def list_response(
    request: ApiRequest, kind: Kind, entries: Sequence[Entry], metadata: Obj
) -> web.Response:
    """Return objects as a list."""
    form = request.form
    if form.media == "yaml" or (
        (form.convert or kind.custom) and sum(len(entry.raw) for entry in entries) >= _SLOW_BYTES
    ):
        return await asyncio.to_thread(_build_list_response, request, kind, entries, metadata)
    return _build_list_response(request, kind, entries, metadata)


def _build_list_response(
    request: ApiRequest, kind: Kind, entries: Sequence[Entry], metadata: Obj
) -> web.Response:
    form = request.form
    if form.convert == "Table":
        rows = [entry.obj for entry in entries]
        table = to_table(kind, rows, metadata, request.query, version=form.version)
        return encode_body(request, form, table, 200, {})
    if form.convert == "PartialObjectMetadata":
        raise _conversion_error(form.convert, f"is a list ({_go_type(kind)}List)")
    if form.convert:
        body = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": [to_partial_object_metadata(entry.obj, form.version) for entry in entries],
        }
        return encode_body(request, form, body, 200, {})
    if form.media == "yaml" or kind.custom or not kind.stored:
        items = [to_version_without_webhook(kind, entry.obj) for entry in entries]
        if kind.custom:
            metadata = {"continue": "", **metadata}
        if not kind.custom:
            items = [
                {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
                for item in items
            ]
        body = {
            "kind": kind.list_kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": items,
        }
        return encode_body(request, form, body, 200, {})
    head = _encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    # Stored objects start with kind and apiVersion; items of built-in kinds omit them.
    cut = len(_encode({"kind": kind.kind, "apiVersion": kind.api_version}))
    items_raw = b",{".join(entry.raw[cut:] for entry in entries)
    body_raw = b"".join((head[:-1], b',"items":[', b"{" if entries else b"", items_raw, b"]}"))
    return _build_response(request, form, body_raw, 200, _JSON)


def _conversion_error(requested: str, why: str) -> StatusError:
    message = f"you requested {requested}, but the requested object {why}"
    return StatusError(406, "NotAcceptable", message)


def _go_type(kind: Kind) -> str:
    """Return the Go type of the kind, as error messages show it."""
    if kind.custom:
        return "*unstructured.Unstructured"
    return f"*{kind.group.partition('.')[0] or 'core'}.{kind.kind}"


def encode_body(
    request: ApiRequest, form: ResponseForm, body: object, status: int, headers: Mapping[str, str]
) -> web.Response:
    """Return `body` in a form."""
    if form.media == "yaml":
        return _build_response(request, form, write_yaml(body), status, {**_YAML, **headers})
    return _build_response(request, form, _encode(body), status, {**_JSON, **headers})


def _build_response(
    request: ApiRequest, form: ResponseForm, body: bytes, status: int, headers: Mapping[str, str]
) -> web.Response:
    if headers.get("Content-Type", "").startswith("application/json"):
        # As Go's encoder writes it; indented JSON has no newline at its end.
        indented = form.indented or _is_pretty(request)
        body = indent_json(body) if indented else body + b"\n"
    response = web.Response(body=body, status=status, headers=headers)
    if request.caller.warnings:
        _add_warnings(response, request.caller)
    return response


def _is_pretty(request: ApiRequest) -> bool:
    """Return whether a client that asks for nothing else gets indented JSON, or asks for it.

    Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation/negotiate.go, `isPrettyPrint`.
    """
    pretty = request.query.get("pretty", "") if request.query_text else ""
    if pretty:
        return pretty in GO_TRUE
    return request.header("User-Agent").startswith(_PRETTY_AGENTS)


def indent_json(body: bytes) -> bytes:
    """Return JSON in several lines."""
    return msgspec.json.format(body, indent=2)


def add_response_headers(
    response: web.StreamResponse, request: ApiRequest, cluster: ApiServerCluster
) -> None:
    """Add the common headers, how the cluster is unlike a real one, and the warnings of a stream.

    Source: k8s.io/apiserver pkg/endpoints/filters/{cachecontrol,audit_init}.go.
    """
    heads = response.headers
    heads["Audit-Id"] = request.audit_id
    heads.setdefault("Cache-Control", "no-cache, private")
    if cluster.time_scale != 1.0:
        heads[TIME_SCALE_HEADER] = f"{cluster.time_scale:g}"
    if not cluster.has_controllers:
        heads[CONTROLLERS_HEADER] = "none"
    if not isinstance(response, web.Response):
        _add_warnings(response, request.caller)


def _add_warnings(response: web.StreamResponse, caller: Caller) -> None:
    """Add warning headers; all are cut to a length once they exceed their size limit together.

    They are as many as each client can read; upstream sends as many as fit into the limit.

    Source: k8s.io/apiserver pkg/endpoints/filters/warning.go.
    """
    texts = [text for text in caller.warnings if text.isprintable()]
    if sum(map(len, texts)) > _MAX_WARNING_LENGTH:
        texts = [text[:_TRUNCATED_WARNING_LENGTH] for text in texts]
    written = 0
    for text in texts[:_MAX_WARNINGS]:
        if written >= _MAX_WARNING_LENGTH:
            return
        written += len(text)
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
