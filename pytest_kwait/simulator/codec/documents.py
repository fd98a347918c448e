"""The OpenAPI documents of the built-in groups, each read when it is first asked for.

They come from `data/openapi.zip`, which `tools/simulator_data/generate.py` makes of a server's own: paths,
operations and parameters as they are, types without descriptions.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.codec.schema import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "V2_PATH",
    "collect_types",
    "document_hashes",
    "read_document",
    "read_v2_document",
    "to_v2_schema",
]

V2_PATH = "v2"
"""The name of the document of version 2."""
_TYPES = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def _read_entry(name: str) -> Any:
    file = resources.files("pytest_kwait.simulator") / "data" / "openapi.zip"
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return msgspec.json.decode(archive.read(f"{name}.json"))


@cache
def document_hashes() -> dict[str, str]:
    """The documents by their paths, with a text that changes whenever the document does."""
    found: dict[str, str] = _read_entry("index")
    return found


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
    content: Obj = {**entry["rest"], "paths": entry["paths"]}
    content["definitions"] = {**definitions, **entry["own"]}
    return content


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
    found = {key: _wrap_refs_in_all_of(value) for key, value in node.items()}
    if isinstance(found.get("$ref"), str) and len(found) > 1:
        found["allOf"] = [{"$ref": found.pop("$ref")}]
    return found


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
