"""The OpenAPI documents of the built-in groups, each read when it is first asked for.

They come from `data/openapi.zip`, which `e2e/registry/generate.py` makes of a server's own: paths,
operations and parameters as they are, types without descriptions.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.simulator.schema import schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["SWAGGER", "collect", "document", "hashes", "lowered", "swagger"]

SWAGGER = "v2"
"""The name of the document of version 2."""
_TYPES = "#/components/schemas/"
_DEFINITIONS = "#/definitions/"
_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def _entry(name: str) -> Any:
    file = resources.files("pytest_kwait.simulator") / "data" / "openapi.zip"
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return msgspec.json.decode(archive.read(f"{name}.json"))


@cache
def hashes() -> dict[str, str]:
    """The documents by their paths, with a text that changes whenever the document does."""
    found: dict[str, str] = _entry("index")
    return found


@lru_cache(maxsize=4)
def document(path: str) -> bytes:
    """The document of version 3 at `path` (`apis/batch/v1`), as JSON."""
    entry = _entry(path)
    types: dict[str, Obj] = {}
    for name in references(entry["paths"]):
        collect(name, types)
    types |= entry["own"]
    components: Obj = {"schemas": _allowing(dict(sorted(types.items())))} if types else {}
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
def swagger() -> Obj:
    """The document of version 2."""
    entry = _entry(SWAGGER)
    definitions = {name: lowered(schema) for name, schema in schemas().items()}
    content: Obj = {**entry["rest"], "paths": entry["paths"]}
    content["definitions"] = {**definitions, **entry["own"]}
    return content


def collect(name: str, types: dict[str, Obj]) -> None:
    """Put the type `name` and all that it is made of into `types`."""
    if name in types or name not in schemas():
        return
    types[name] = schemas()[name]
    for reference in references(types[name]):
        collect(reference, types)


def references(node: Any) -> Iterator[str]:
    """The names of types that `node` refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_TYPES)
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def _allowing(node: Any) -> Any:
    """`node` with each `$ref` that has company in an `allOf` of its own, as version 3 wants it."""
    if isinstance(node, list):
        return [_allowing(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _allowing(value) for key, value in node.items()}
    if isinstance(found.get("$ref"), str) and len(found) > 1:
        found["allOf"] = [{"$ref": found.pop("$ref")}]
    return found


def lowered(node: Any) -> Any:
    """Types of version 3 as version 2 has them: other references, no defaults."""
    if isinstance(node, list):
        return [lowered(item) for item in node]
    if not isinstance(node, dict):
        return node
    slim = {}
    for key, value in node.items():
        if key == "properties":
            slim[key] = {name: lowered(field) for name, field in value.items()}
        elif key == "$ref":
            slim[key] = value.replace(_TYPES, _DEFINITIONS)
        elif key != "default":
            slim[key] = lowered(value)
    return slim
