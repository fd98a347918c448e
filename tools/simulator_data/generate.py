"""Generate the embedded cluster's resources, OpenAPI documents and defaults from an API server.

    python -m tools.simulator_data.generate KUBECONFIG

asks the server for its discovery, its OpenAPI v3 documents and, by dry-run creates of the samples
in `samples.yaml`, for the defaults that OpenAPI does not list, and writes them without prose to
`pytest_kwait/simulator/data/`. Nothing is stored in the server but one namespace for the samples.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import sys
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kwait.simulator.apiserver.openapi import V2_PATH, to_v2_schema
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = len("#/components/schemas/")
_ADMISSION = frozenset(
    # Fields that depend on other objects, or are allocated, are added by code.
    [
        "clusterIP",
        "clusterIPs",
        "imagePullSecrets",
        "ipFamilies",
        "ipFamilyPolicy",
        "preemptionPolicy",
        "priority",
        "serviceAccount",
        "serviceAccountName",
        "tolerations",
        "volumeMounts",
        "volumes",
        "storageClassName",
        "finalizers",
        "nodePort",
        "selector",
        "taints",
        "username",
        "groups",
        "uid",
        "extra",
    ]
)
_MISSING = object()


class _Observations:
    """The server's defaults of omitted fields."""

    def __init__(self) -> None:
        self.by_type: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.by_kind: dict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
        self.generation: dict[str, bool] = {}


def learn_defaults(
    endpoint: RawClient,
    namespace: str,
    samples: list[dict[str, Any]],
    resources: dict[str, list[dict[str, Any]]],
    types: dict[str, Any],
) -> dict[str, Any]:
    """Defaults by type (`types`) and facts by resource (`resources`).

    Args:
        endpoint: the server.
        namespace: where the samples are created, dry; made and removed here.
        samples: objects of all relevant types; each type is present in some and absent in others.
        resources: the server's resource lists by group and version.
        types: the server's schemas by name.
    """
    roots = {
        (entry["group"], entry["version"], entry["kind"]): name
        for name, schema in types.items()
        for entry in schema.get("x-kubernetes-group-version-kind", ())
    }
    endpoint.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    seen = _Observations()
    try:
        for sample in samples:
            _observe(endpoint, namespace, sample, resources, types, roots, seen)
    finally:
        endpoint.request("DELETE", f"/api/v1/namespaces/{namespace}")
    learned: dict[str, Any] = {"types": defaultdict(dict), "resources": defaultdict(dict)}
    general = set()
    for (name, field), values in sorted(seen.by_type.items()):
        node = types[name]["properties"][field]
        # A zero value in OpenAPI is Go's; the server may have another default.
        if not node.get("default") and len(values) == 1 and "" not in values:
            value = json.loads(next(iter(values)))
            if "default" not in node or value != node["default"]:
                learned["types"][name][field] = value
                general.add((name, field))
    for (resource, path), values in sorted(seen.by_kind.items()):
        *steps, owner, field = path
        documented = "default" in types[owner]["properties"][field]
        if (
            len(values) == 1
            and "" not in values
            and not documented
            and (owner, field) not in general
        ):
            node = learned["resources"][resource].setdefault("defaults", {})
            for step in steps:
                node = node.setdefault(step, {})
            node[field] = json.loads(next(iter(values)))
    for resource, generation in sorted(seen.generation.items()):
        if generation:
            learned["resources"][resource]["generation"] = True
    return learned


def _observe(
    endpoint: RawClient,
    namespace: str,
    sample: dict[str, Any],
    resources: dict[str, list[dict[str, Any]]],
    types: dict[str, Any],
    roots: dict[tuple[str, str, str], str],
    seen: _Observations,
) -> None:
    version = sample["apiVersion"]
    group, _, short = version.rpartition("/")
    entry = next(
        one
        for one in resources[version]
        if one["kind"] == sample["kind"] and "/" not in one["name"] and "list" in one["verbs"]
    )
    where = f"/namespaces/{namespace}" if entry["namespaced"] else ""
    root = f"/apis/{version}" if group else f"/api/{version}"
    answer = endpoint.request(
        "POST", f"{root}{where}/{entry['name']}?dryRun=All&fieldValidation=Strict", sample
    )
    if answer.status != 201:
        raise SystemExit(f"{sample['kind']} {sample['metadata']['name']}: {answer.text}")
    sys.stdout.write(f"{sample['kind']} {sample['metadata']['name']}\n")
    resource = f"{entry['name']}.{group}" if group else entry["name"]
    generation = "generation" in answer.body["metadata"]
    seen.generation[resource] = generation
    given = {key: value for key, value in sample.items() if key not in ("metadata", "status")}
    got = {key: answer.body[key] for key in answer.body if key not in ("metadata", "status")}
    name = roots[(group, short, sample["kind"])]
    for owner, path, field, value in _additions(given, got, name, types, ()):
        text = "" if value is _MISSING else json.dumps(value, sort_keys=True)
        if path is None or path:
            seen.by_type[(owner, field)].add(text)
        if path is not None:
            seen.by_kind[(resource, (*path, owner, field))].add(text)


def _additions(
    given: dict[str, Any],
    got: dict[str, Any],
    name: str,
    types: dict[str, Any],
    path: tuple[str, ...] | None,
) -> Iterator[tuple[str, tuple[str, ...] | None, str, Any]]:
    """Yield type, path (None beneath a list), field and value of each field that `given` lacks."""
    for field, node in types[name].get("properties", {}).items():
        if field == "metadata" or (field in _ADMISSION and field not in given):
            continue
        root = "x-kubernetes-group-version-kind" in types[name]
        if root and field in ("apiVersion", "kind", "status"):
            continue
        reference = node.get("$ref", "")[_PREFIX:]
        below = None if path is None else (*path, field)
        if field not in given:
            yield name, path, field, got.get(field, _MISSING)
            continue
        if got.get(field) is None:
            continue  # what is empty may be stored as nothing
        if reference and "properties" in types[reference] and isinstance(given[field], dict):
            yield from _additions(given[field], got[field], reference, types, below)
        item = node.get("items", {}).get("$ref", "")[_PREFIX:]
        if item and "properties" in types[item] and isinstance(given[field], list):
            for one, other in zip(given[field], got[field], strict=False):
                yield from _additions(one, other, item, types, None)


_TIME = (1980, 1, 1, 0, 0, 0)


def fetch_documents(endpoint: RawClient, built_in: set[str]) -> dict[str, Any]:
    """Return each document by its path beneath `/openapi/v3/`, and that of version 2 as `v2`.

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


DATA = Path(__file__).parents[2] / "pytest_kwait" / "simulator" / "data"
SAMPLES = Path(__file__).with_name("samples.yaml")
NAMESPACE = "kwait-registry"


def fetch_discovery(endpoint: RawClient) -> dict[str, Any]:
    """Groups in the server's order, and the resource list of each group and version."""
    built_in = list_built_in_groups(endpoint)
    listed = endpoint.request("GET", "/apis").body["groups"]
    groups = [group for group in listed if group["name"] in built_in]
    lists = {"v1": endpoint.request("GET", "/api/v1").body["resources"]}
    for group in groups:
        for version in group["versions"]:
            name = version["groupVersion"]
            lists[name] = endpoint.request("GET", f"/apis/{name}").body["resources"]
    return {
        "version": endpoint.request("GET", "/version").body,
        "groups": groups,
        "resources": lists,
    }


def list_built_in_groups(endpoint: RawClient) -> set[str]:
    """Return the server's built-in groups."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    path += "?labelSelector=kube-aggregator.kubernetes.io/automanaged%3Donstart"
    found = endpoint.request("GET", path).body["items"]
    # The aggregator serves the group of API services itself, so it has no API service.
    return {"apiregistration.k8s.io", *(item["spec"].get("group", "") for item in found)}


def fetch_schemas(found: dict[str, Any]) -> dict[str, Any]:
    """The schemas of all documents by name, and the kinds that each one is."""
    merged: dict[str, Any] = {}
    for path, document in found.items():
        if path != V2_PATH:
            merged |= document.get("components", {}).get("schemas", {})
    return dict(sorted(merged.items()))


def generate(endpoint: RawClient) -> dict[str, bytes]:
    """Return the generated data files by name."""
    found = fetch_discovery(endpoint)
    shown = fetch_documents(endpoint, list_built_in_groups(endpoint))
    types = fetch_schemas(shown)
    held = pack_documents(shown, types)
    samples = list(yaml.safe_load_all(SAMPLES.read_text()))
    learned = learn_defaults(endpoint, NAMESPACE, samples, found["resources"], types)
    return {
        "resources.json.gz": pack(found),
        "schemas.json.gz": pack(types),
        "defaults.json.gz": pack(learned),
        "openapi.zip": held,
    }


def pack(content: Any) -> bytes:
    """Return `content` compressed, equal on every machine: without time and name."""
    text = json.dumps(content, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def write(name: str, data: bytes) -> None:
    """Write one of the data files."""
    path = DATA / name
    path.write_bytes(data)
    sys.stdout.write(f"{path.name}: {len(data)} bytes\n")


def main() -> None:
    """Write the data files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    arguments = parser.parse_args()
    endpoint = RawClient(arguments.kubeconfig)
    DATA.mkdir(exist_ok=True)
    for name, data in generate(endpoint).items():
        write(name, data)


if __name__ == "__main__":
    main()
