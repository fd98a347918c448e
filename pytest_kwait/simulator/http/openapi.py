"""The OpenAPI v3 documents, as far as clients read them: types, paths of kinds, patch forms.

Source: k8s.io/kube-openapi pkg/handler3; kubectl's openapi3 query-parameter verifier.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.simulator.http.answer import json_answer
from pytest_kwait.simulator.schema import schemas, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.http.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind, Registry

__all__ = ["serve_openapi"]

_PREFIX = "#/components/schemas/"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_VALIDATION = {
    "in": "query",
    "name": "fieldValidation",
    "schema": {"type": "string", "uniqueItems": True},
}


def serve_openapi(request: ApiRequest, kinds: Registry) -> web.Response | None:
    """The answer to a path under `/openapi/v3`, None for any other path."""
    path = request.path.rstrip("/")
    if path == "/openapi/v3":
        return json_answer(request, {"paths": dict(sorted(_index(kinds)))})
    if not path.startswith("/openapi/v3/"):
        return None
    name = path.removeprefix("/openapi/v3/")
    for group, version in kinds.group_versions():
        if name == _path(group, version):
            body = _document(kinds, group, version)
            return web.Response(body=body, content_type="application/json")
    return None


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _index(kinds: Registry) -> Iterator[tuple[str, Obj]]:
    for group, version in kinds.group_versions():
        path = _path(group, version)
        tag = hashlib.sha512(_document(kinds, group, version)).hexdigest().upper()
        yield path, {"serverRelativeURL": f"/openapi/v3/{path}?hash={tag}"}


def _document(kinds: Registry, group: str, version: str) -> bytes:
    served = kinds.served(group, version) or {}
    if any(kind.custom for kind in served.values()):
        return _encoded(tuple(served.values()))
    return _cached(tuple(served.values()))


@lru_cache(maxsize=64)
def _cached(served: tuple[Kind, ...]) -> bytes:
    return _encoded(served)


def _encoded(served: tuple[Kind, ...]) -> bytes:
    types: dict[str, Obj] = {}
    paths: dict[str, Obj] = {}
    for kind in served:
        if kind.structure is not None:
            name = ".".join(reversed(kind.group.split("."))) + f".{kind.version}.{kind.kind}"
            types[name] = {
                **kind.structure.schema,
                "x-kubernetes-group-version-kind": [_gvk(kind)],
            }
        else:
            shape = shape_of(kind.group, kind.version, kind.kind)
            name = str(shape.node["$ref"]).removeprefix(_PREFIX)
            _collect(name, types)
        paths.update(_operations(kind, name))
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "unversioned"},
            "paths": paths,
            "components": {"schemas": dict(sorted(types.items()))},
        }
    )


def _collect(name: str, types: dict[str, Obj]) -> None:
    if name in types:
        return
    types[name] = schemas()[name]
    for reference in _references(types[name]):
        _collect(reference, types)


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_PREFIX)
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _gvk(kind: Kind) -> Obj:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _operations(kind: Kind, name: str) -> Iterator[tuple[str, Obj]]:
    root = "/" + _path(kind.group, kind.version)
    where = (
        f"{root}/namespaces/{{namespace}}/{kind.plural}"
        if kind.namespaced
        else (f"{root}/{kind.plural}")
    )
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": _PREFIX + name}}}}}
    about = {"responses": answer, "x-kubernetes-group-version-kind": _gvk(kind)}
    body = {"content": {"*/*": {"schema": {"$ref": _PREFIX + name}}}}
    many: Obj = {}
    if "list" in kind.verbs:
        many["get"] = {**about, "x-kubernetes-action": "list"}
    if "create" in kind.verbs:
        many["post"] = {
            **about,
            "parameters": [_VALIDATION],
            "requestBody": body,
            "x-kubernetes-action": "post",
        }
    yield where, many
    one: Obj = {}
    if "get" in kind.verbs:
        one["get"] = {**about, "x-kubernetes-action": "get"}
    if "update" in kind.verbs:
        one["put"] = {
            **about,
            "parameters": [_VALIDATION],
            "requestBody": body,
            "x-kubernetes-action": "put",
        }
    if "patch" in kind.verbs:
        media = _PATCHES[:3] if kind.custom else _PATCHES
        patch = {"$ref": _PREFIX + "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}
        one["patch"] = {
            **about,
            "parameters": [_VALIDATION],
            "requestBody": {"content": {form: {"schema": patch} for form in media}},
            "x-kubernetes-action": "patch",
        }
    if "delete" in kind.verbs:
        one["delete"] = {**about, "x-kubernetes-action": "delete"}
    if one:
        yield f"{where}/{{name}}", one
