"""Answers: objects, lists and failures as HTTP responses, in the form that the client wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.http.tables import partial_object, table
from pytest_kwait.simulator.kind_view import view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kwait.simulator.caller import Caller
    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind
    from pytest_kwait.simulator.status_error import StatusError
    from pytest_kwait.simulator.store import Entry

__all__ = ["failure", "json_answer", "list_answer", "object_answer", "stored_answer", "text_answer"]

_JSON = {"Content-Type": "application/json"}
_YAML = {"Content-Type": "application/yaml"}
_encode = msgspec.json.Encoder().encode
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def json_answer(
    request: ApiRequest, body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """`body` as JSON, or as YAML where that is what the client takes."""
    if request.header("Accept").startswith("application/yaml"):
        return _response(request, _yaml(body), status, {**_YAML, **(headers or {})})
    return _response(request, _encode(body), status, {**_JSON, **(headers or {})})


def text_answer(text: str, status: int = 200) -> web.Response:
    """Plain text."""
    return web.Response(text=text, status=status, content_type="text/plain")


def failure(request: ApiRequest, error: StatusError) -> web.Response:
    """A refusal as a Status object."""
    return json_answer(request, error.status(), error.code, error.headers)


def stored_answer(request: ApiRequest, kind: Kind, entry: Entry) -> web.Response:
    """A stored object; the usual form is its bytes as they are kept."""
    form = request.form
    if form.media == "json" and not form.convert and kind.stored:
        raw = entry.raw
        if kind.custom:
            raw = _encode(view(kind, entry.obj))
        return _response(request, raw, 200, _JSON)
    return object_answer(request, kind, entry.obj)


def object_answer(request: ApiRequest, kind: Kind, obj: Obj, status: int = 200) -> web.Response:
    """An object in the version and the form that the client wants."""
    if obj.get("kind") == "Status":
        return json_answer(request, obj, status)
    form = request.form
    body = view(kind, obj)
    if form.convert == "Table":
        body = table(kind, [body], body["metadata"], request.query)
    elif form.convert:
        body = partial_object(body)
    return json_answer(request, body, status)


def list_answer(
    request: ApiRequest, kind: Kind, entries: Sequence[Entry], metadata: Obj
) -> web.Response:
    """Objects as a list."""
    form = request.form
    if form.convert == "Table":
        rows = [view(kind, entry.obj) for entry in entries]
        return json_answer(request, table(kind, rows, metadata, request.query))
    if form.convert:
        return json_answer(
            request,
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": [partial_object(entry.obj) for entry in entries],
            },
        )
    if form.media == "yaml" or kind.custom or not kind.stored:
        items = [view(kind, entry.obj) for entry in entries]
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
        return json_answer(request, body)
    head = _encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    # Objects are stored with kind and apiVersion in front; items of built-in kinds go without.
    cut = len(_encode({"kind": kind.kind, "apiVersion": kind.api_version}))
    items_raw = b",{".join(entry.raw[cut:] for entry in entries)
    body_raw = b"".join((head[:-1], b',"items":[', b"{" if entries else b"", items_raw, b"]}"))
    return _response(request, body_raw, 200, _JSON)


def _response(
    request: ApiRequest, body: bytes, status: int, headers: Mapping[str, str]
) -> web.Response:
    if request.query_text or request.header("User-Agent").startswith(_PRETTY_AGENTS):
        pretty = request.query.get("pretty", "")
        if pretty not in ("", "0", "false") or (
            not pretty and request.header("User-Agent").startswith(_PRETTY_AGENTS)
        ):
            body = _indented(body, headers)
    response = web.Response(body=body, status=status, headers=headers)
    add_warnings(response, request.caller)
    return response


def _indented(body: bytes, headers: Mapping[str, str]) -> bytes:
    if headers.get("Content-Type", "").startswith("application/json"):
        return msgspec.json.format(body, indent=2) + b"\n"
    return body


def add_warnings(response: web.StreamResponse, caller: Caller) -> None:
    """Tell the client what it was warned of."""
    for text in caller.warnings:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')


def _yaml(body: object) -> bytes:
    import yaml

    return yaml.safe_dump(body, sort_keys=True).encode()
