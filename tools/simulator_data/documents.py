"""The server's OpenAPI documents as package data: paths and names of types, without prose.

The types are kept once for all documents (`schemas.json.gz`): a document shows those that its paths
refer to, and keeps in full the few that differ from document to document.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.codec.documents import V2_PATH, to_v2_schema

if TYPE_CHECKING:
    from tools.raw_api import RawClient

__all__ = ["fetch_documents", "pack_documents", "strip_prose"]

_TIME = (1980, 1, 1, 0, 0, 0)


def fetch_documents(endpoint: RawClient, built_in: set[str]) -> dict[str, Any]:
    """Every document by its path beneath `/openapi/v3/`, and the one of version 2 as `v2`.

    Args:
        endpoint: the server.
        built_in: the groups that are kept.
    """
    index = endpoint.request("GET", "/openapi/v3").body["paths"]
    found = {}
    for path, entry in sorted(index.items()):
        if not path.startswith("apis/") or path.split("/")[1] in built_in:
            found[path] = strip_prose(endpoint.request("GET", entry["serverRelativeURL"]).body)
    swagger = strip_prose(endpoint.request("GET", "/openapi/v2").body)
    known = {"", *built_in}
    swagger["paths"] = {
        path: operations
        for path, operations in swagger["paths"].items()
        if not path.startswith("/apis/") or path.split("/")[2] in known
    }
    swagger["definitions"] = {
        name: schema
        for name, schema in swagger["definitions"].items()
        if {one["group"] for one in _kinds_of(schema)} <= known or len(_kinds_of(schema)) > 1
    }
    found[V2_PATH] = swagger
    return found


def pack_documents(found: dict[str, Any], types: dict[str, Any]) -> bytes:
    """The documents as an archive with one entry for each, the same on every machine."""
    entries: dict[str, Any] = {}
    for path, document in found.items():
        if path == V2_PATH:
            schemas, known = document.pop("definitions"), to_v2_schema(types)
        else:
            schemas, known = document.get("components", {}).get("schemas", {}), types
        own = {name: schema for name, schema in schemas.items() if known.get(name) != schema}
        slim: dict[str, Any] = {"paths": document["paths"], "own": own}
        if path == V2_PATH:
            slim["rest"] = {key: value for key, value in document.items() if key != "paths"}
        entries[path] = slim
    seed = json.dumps(types, sort_keys=True)
    hashes = {
        path: hashlib.sha512((seed + json.dumps(slim)).encode()).hexdigest().upper()
        for path, slim in entries.items()
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path, content in {"index": hashes, **entries}.items():
            text = json.dumps(content, separators=(",", ":"))
            file.writestr(zipfile.ZipInfo(f"{path}.json", _TIME), text, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def strip_prose(schema: Any) -> Any:
    """`schema` without descriptions, and with one-armed `allOf` reduced to its `$ref`."""
    if isinstance(schema, list):
        return [strip_prose(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    slim = {}
    for key, value in schema.items():
        if key == "description" and isinstance(value, str):
            continue
        if key == "allOf" and len(value) == 1:
            slim["$ref"] = value[0]["$ref"]
        elif key == "properties":
            slim[key] = {name: strip_prose(field) for name, field in value.items()}
        else:
            slim[key] = strip_prose(value)
    return slim


def _kinds_of(schema: dict[str, Any]) -> list[dict[str, str]]:
    kinds: list[dict[str, str]] = schema.get("x-kubernetes-group-version-kind", [])
    return kinds
