"""Learns, by dry-run creates, the defaults that OpenAPI does not tell.

Where the server adds a field to an object of some type whenever it is not given, and always with
the same value, the value is that type's default. What only one kind gets is a fact of that kind.
What differs from case to case is a rule, and rules are code of the embedded cluster.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.raw_api import RawClient

__all__ = ["learn_defaults"]

_PREFIX = len("#/components/schemas/")
_ADMISSION = frozenset(
    # What depends on other objects, or is handed out, is added by code.
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
    """What the server did with fields that were not given."""

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
        samples: objects of as many types as matter, each type given and left out in turns.
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
        # A zero value that OpenAPI tells is one of Go's; the server may have another default.
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
    """Type, path (None beneath a list), field and value of what `given` lacks."""
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
