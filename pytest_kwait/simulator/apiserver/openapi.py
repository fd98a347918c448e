"""The `/openapi` endpoints: documents of built-in and of custom kinds, version 2 and 3.

Documents of built-in groups are in `data/openapi.zip`, which `tools/simulator_data/generate.py`
makes from a server's own: paths, operations and parameters as they are, types without descriptions.
Documents of custom kinds hold the parts that clients read: types, paths, patch types.

Source: k8s.io/kube-openapi pkg/handler3, pkg/handler.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from email.utils import formatdate
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.simulator.apiextensions.pruning import PRESERVE
from pytest_kwait.simulator.apiserver.openapi_protobuf import encode_v2_protobuf
from pytest_kwait.simulator.codec.schema import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind, Scheme

V2_PATH = "v2"
"""The name of the document of version 2."""

_json = msgspec.json.Encoder().encode
_TYPES = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}

_PREFIX = "#/components/schemas/"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_GVK = "x-kubernetes-group-version-kind"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_OLD = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The clients' name for it; responses avoid the at sign, invalid in media types."""
_YEAR = 365 * 24 * 3600.0
_UNKNOWN_TO_V2 = frozenset({"allOf", "anyOf", "default", "not", "oneOf"})
_VALIDATION = {
    "in": "query",
    "name": "fieldValidation",
    "schema": {"type": "string", "uniqueItems": True},
}

_ENCODED_DOCUMENTS: dict[str, bytes] = {}
"""The latest document in protobuf, by its tag."""


def _read_entry(name: str) -> Any:
    file = resources.files("pytest_kwait.simulator") / "data" / "openapi.zip"
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return msgspec.json.decode(archive.read(f"{name}.json"))


@cache
def document_hashes() -> dict[str, str]:
    """The documents by their paths, with a text that changes whenever the document does."""
    entry: dict[str, str] = _read_entry("index")
    return entry


@lru_cache(maxsize=4)
def read_document(path: str) -> bytes:
    """The document of version 3 at `path` (`apis/batch/v1`), as JSON."""
    entry = _read_entry(path)
    types: dict[str, Obj] = {}
    for name in iter_references(entry["paths"]):
        collect_types(name, types)
    types |= entry["own"]
    components: Obj = (
        {"schemas": _wrap_refs_in_all_of(dict(sorted(types.items())))} if types else {}
    )
    components["securitySchemes"] = _SECURITY
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.36"},
            "paths": entry["paths"],
            "components": components,
        }
    )


@lru_cache(maxsize=1)
def read_v2_document() -> Obj:
    """The document of version 2."""
    entry = _read_entry(V2_PATH)
    definitions = {name: to_v2_schema(schema) for name, schema in schemas().items()}
    rest: Obj = entry["rest"]
    return {
        "swagger": rest["swagger"],
        "info": rest["info"],
        "paths": entry["paths"],
        "definitions": {**definitions, **entry["own"]},
        **rest,
    }


def collect_types(name: str, types: dict[str, Obj]) -> None:
    """Put the type `name` and all that it is made of into `types`."""
    if name in types or name not in schemas():
        return
    types[name] = schemas()[name]
    for reference in iter_references(types[name]):
        collect_types(reference, types)


def iter_references(node: Any) -> Iterator[str]:
    """The names of types that `node` refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_TYPES)
            else:
                yield from iter_references(value)
    elif isinstance(node, list):
        for value in node:
            yield from iter_references(value)


def _wrap_refs_in_all_of(node: Any) -> Any:
    """`node` with each `$ref` that has company in an `allOf` of its own, as version 3 wants it."""
    if isinstance(node, list):
        return [_wrap_refs_in_all_of(item) for item in node]
    if not isinstance(node, dict):
        return node
    wrapped_node = {key: _wrap_refs_in_all_of(value) for key, value in node.items()}
    if isinstance(wrapped_node.get("$ref"), str) and len(wrapped_node) > 1:
        wrapped_node["allOf"] = [{"$ref": wrapped_node.pop("$ref")}]
    return wrapped_node


def to_v2_schema(node: Any) -> Any:
    """Types of version 3 as version 2 has them: other references, no defaults."""
    if isinstance(node, list):
        return [to_v2_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    slim = {}
    for key, value in node.items():
        if key == "properties":
            slim[key] = {name: to_v2_schema(field) for name, field in value.items()}
        elif key == "$ref":
            slim[key] = value.replace(_TYPES, _DEFINITIONS)
        elif key != "default":
            slim[key] = to_v2_schema(value)
    return slim


def serve_openapi(request: ApiRequest, kinds: Scheme) -> web.Response | None:
    """Serve a path under `/openapi`; None for any other path."""
    path = request.path
    if path == "/openapi/v2":
        return _serve_swagger(request, kinds)
    if path == "/openapi/v3":
        index = {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={tag}"}
            for name, tag in sorted(_document_hashes(kinds).items())
        }
        body = msgspec.json.encode({"paths": index})
        return web.Response(body=body, content_type="text/plain", charset="utf-8")
    if not path.startswith("/openapi/v3/"):
        return None
    name = path.removeprefix("/openapi/v3/")
    tag = _document_hashes(kinds).get(name)
    if tag is None:
        return web.Response(status=404)
    return _serve_document(request, kinds, name, tag)


def _document_hashes(kinds: Scheme) -> dict[str, str]:
    """Return a hash of each document's content."""
    tags = {name: tag for name, tag in document_hashes().items() if name != V2_PATH}
    for group, version in kinds.group_versions():
        name = _document_path(group, version)
        if name not in tags:
            tags[name] = _hash_document(_custom_document(kinds, group, version))
    return tags


def _hash_document(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


def _accepts_json(request: ApiRequest) -> bool:
    """Return whether the client accepts JSON, the only form here."""
    accepted = request.header("Accept") or "*/*"
    forms = [form.partition(";")[0].strip() for form in accepted.split(",")]
    return any(form in ("*/*", "application/*", "application/json") for form in forms)


def _serve_document(request: ApiRequest, kinds: Scheme, name: str, tag: str) -> web.Response:
    headers = {"ETag": f'"{tag}"', "Vary": "Accept"}
    if not _accepts_json(request):
        return web.Response(status=406, headers={"Vary": "Accept"})
    requested_hash = request.query.get("hash", "")
    if requested_hash and requested_hash != tag:
        url = f"/openapi/v3/{name}?hash={tag}"
        return web.Response(status=301, headers={**headers, "Location": url})
    if requested_hash:
        headers["Cache-Control"] = "public, immutable"
        headers["Expires"] = formatdate(SYSTEM_CLOCK.time() + _YEAR, usegmt=True)
    if request.header("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    if name in document_hashes():
        body = read_document(name)
    else:
        group, _, version = name.removeprefix("apis/").rpartition("/")
        body = _custom_document(kinds, group, version)
    return web.Response(body=body, content_type="application/json", headers=headers)


def _serve_swagger(request: ApiRequest, kinds: Scheme) -> web.Response:
    """Serve version 2; custom kinds are in its definitions, not in its paths."""
    media = _negotiate_swagger(request)
    if not media:
        return web.Response(status=406, headers={"Vary": "Accept-Encoding, Accept"})
    content = read_v2_document()
    custom = {
        _schema_name(kind): {**_custom_v2_schema(kind), _GVK: [_group_version_kind(kind)]}
        for group, version in kinds.group_versions()
        for kind in (kinds.served(group, version) or {}).values()
        if kind.structure is not None
    }
    full = {**content, "definitions": {**content["definitions"], **custom}}
    body = msgspec.json.encode(full)
    headers = {"ETag": f'"{_hash_document(body)}"', "Vary": "Accept-Encoding, Accept"}
    if request.header("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    if media == _PROTOBUF:
        body = _encode_protobuf(headers["ETag"], full)
    return web.Response(body=body, content_type=media, headers=headers)


def _negotiate_swagger(request: ApiRequest) -> str:
    """Choose the form of version 2; empty if none is accepted."""
    accepted = request.header("Accept") or "*/*"
    for form in accepted.split(","):
        media = form.partition(";")[0].strip()
        if media in (_PROTOBUF, _PROTOBUF_OLD):
            return _PROTOBUF
        if media in ("*/*", "application/*", "application/json"):
            return "application/json"
    return ""


def _encode_protobuf(tag: str, content: Obj) -> bytes:
    """Encode the document in protobuf, once for each state."""
    if tag not in _ENCODED_DOCUMENTS:
        _ENCODED_DOCUMENTS.clear()
        _ENCODED_DOCUMENTS[tag] = encode_v2_protobuf(content)
    return _ENCODED_DOCUMENTS[tag]


def _document_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _schema_name(kind: Kind) -> str:
    return ".".join(reversed(kind.group.split("."))) + f".{kind.version}.{kind.kind}"


def _custom_schema(kind: Kind) -> Obj:
    """Return the schema of a custom kind with type and object metadata."""
    schema = kind.structure.schema if kind.structure is not None else {}
    properties = {**schema.get("properties", {}), "metadata": {"$ref": _PREFIX + _META}}
    for name in ("apiVersion", "kind"):
        properties.setdefault(name, {"type": "string"})
    return {**schema, "properties": dict(sorted(properties.items()))}


def _custom_v2_schema(kind: Kind) -> Obj:
    """Return the schema of a custom kind in version 2, which knows less.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go, `buildKubeNative`.
    """
    schema = _custom_schema(kind)
    if schema.get(PRESERVE):
        return {"type": "object"}
    whole: Obj = to_v2_schema(simplify_for_v2(schema))
    return whole


def simplify_for_v2(node: Obj) -> Obj:
    """Return a schema without what kubectl would read wrongly in version 2.

    Source: apiextensions-apiserver pkg/controller/openapi/v2/conversion.go,
    `ToStructuralOpenAPIV2`.
    """
    slim = {key: value for key, value in node.items() if key not in _UNKNOWN_TO_V2}
    is_nullable, preserves = bool(slim.pop("nullable", False)), bool(slim.get(PRESERVE))
    if is_nullable or preserves:
        slim.pop("items", None)
        slim.pop("properties", None)
    kind = slim.get("type")
    is_untyped = (kind == "array" and "items" not in slim) or (kind == "object" and preserves)
    if is_nullable or is_untyped:
        slim.pop("type", None)
    fields: Obj = slim.get("properties") or {}
    required = [name for name in slim.pop("required", ()) if not _is_nullable(fields.get(name))]
    if required and not _is_nullable(slim.get("additionalProperties")):
        slim["required"] = required
    for key in ("items", "additionalProperties"):
        if isinstance(slim.get(key), dict):
            slim[key] = simplify_for_v2(slim[key])
    if "properties" in slim:
        slim["properties"] = {name: simplify_for_v2(schema) for name, schema in fields.items()}
    return slim


def _is_nullable(node: object) -> bool:
    return isinstance(node, dict) and bool(node.get("nullable"))


def _custom_document(kinds: Scheme, group: str, version: str) -> bytes:
    types: dict[str, Obj] = {}
    paths: dict[str, Obj] = {}
    collect_types(_META, types)
    collect_types(_PATCH, types)
    for kind in (kinds.served(group, version) or {}).values():
        name = _schema_name(kind)
        types[name] = {**_custom_schema(kind), _GVK: [_group_version_kind(kind)]}
        paths.update(_path_operations(kind, name))
    return msgspec.json.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
            "paths": paths,
            "components": {"schemas": dict(sorted(types.items()))},
        }
    )


def _group_version_kind(kind: Kind) -> Obj:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def _path_operations(kind: Kind, name: str) -> Iterator[tuple[str, Obj]]:
    root = "/" + _document_path(kind.group, kind.version)
    where = (
        f"{root}/namespaces/{{namespace}}/{kind.plural}"
        if kind.namespaced
        else (f"{root}/{kind.plural}")
    )
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": _PREFIX + name}}}}}
    about = {"responses": answer, "x-kubernetes-group-version-kind": _group_version_kind(kind)}
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
    operations: Obj = {}
    if "get" in kind.verbs:
        operations["get"] = {**about, "x-kubernetes-action": "get"}
    if "update" in kind.verbs:
        operations["put"] = {
            **about,
            "parameters": [_VALIDATION],
            "requestBody": body,
            "x-kubernetes-action": "put",
        }
    if "patch" in kind.verbs:
        patch = {"$ref": _PREFIX + _PATCH}
        operations["patch"] = {
            **about,
            "parameters": [_VALIDATION],
            "requestBody": {"content": {form: {"schema": patch} for form in _PATCHES}},
            "x-kubernetes-action": "patch",
        }
    if "delete" in kind.verbs:
        operations["delete"] = {**about, "x-kubernetes-action": "delete"}
    if operations:
        yield f"{where}/{{name}}", operations
