"""Objects with one broken field, and differences between two servers' responses.

    python -m conformance.api.mutations compare KUBECONFIG OTHER [--seed S] [--count N] [--kind K]
    python -m conformance.api.mutations transcript [--seed S] [--count N] > FILE

Each takes a valid object of the registry's samples, walks by the server's schema to any field,
present or not, and sets an invalid value. Nothing is stored: creates are dry runs. The same seed
makes the same objects. Refusals with the same causes in another order are equal, as maps have no
order.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import yaml

from conformance.api.transcript import play_transcript
from pytest_kwait.simulator.codec.schema import Form, struct_of
from pytest_kwait.simulator.scheme import Scheme
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.simulator.codec.schema import Shape, Struct

SAMPLES = Path(__file__).parents[2] / "tools" / "simulator_data" / "samples.yaml"
KINDS = (
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "HorizontalPodAutoscaler",
    "Ingress",
    "IngressClass",
    "Job",
    "Lease",
    "LimitRange",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
    "StorageClass",
)
"""Common kinds."""

_TEXTS = (
    *("", "a", "A_", "a b", "Odd", "..", "/", "/a/../b", "-a", "a.example/b", "a.example", "1"),
    *("x" * 64, "x" * 254, 'é"\n', "1.2.3.4", "::1", "http://a", "*", "0 0 * * *", "a,b", "None"),
)
_ODD: dict[Form, tuple[Any, ...]] = {
    Form.TEXT: _TEXTS,
    Form.INTEGER: (-1, 0, 1, 2, 100, 256, 65536, 2**31 - 1, 2**31, 2**63, 1.5, "1"),
    Form.NUMBER: (-1, 0, 0.5, "1"),
    Form.BOOL: (True, False, "true", 1),
    Form.INT_OR_TEXT: (-1, 0, 80, 65536, "", "A", "http", "5%", "150%", "x%", 1.5),
    Form.QUANTITY: ("-1", "0", "1.5", "x", "1Gi", "100m", 1, "", "1e3", "0.0001"),
    Form.BYTES: ("YQ==", "?", "", 1),
    Form.TIME: ("2026-01-01T00:00:00Z", "x", "", "2026-01-01T00:00:00.5+01:00"),
    Form.ANY: ({}, {"a": "b"}, "a", 1),
}
_KEYS = ("a", "a.example/b", "A b", "", "cpu", "memory", "kubernetes.io/a", "x" * 64)
_NODE_PORT = re.compile(r"(nodePort: Duplicate value: |Duplicate value: )3[0-2]\d{3}")
_TYPE_ERRORS = re.compile(r"failed to create typed patch object \(.*?\): (.*)", re.DOTALL)
_NEVER = frozenset({"apiVersion", "kind", "managedFields", "status"})
_DEEPEST = 5


def break_field(sample: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Return a copy of `sample` with one broken field."""
    found = deepcopy(sample)
    group, _, version = sample["apiVersion"].rpartition("/")
    _break(struct_of(group, version, sample["kind"]), found, rng)
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName"):
        # Every response would contain the server's changes to it.
        metadata.setdefault("name", "made")
    return found


def _break(struct: Struct, value: dict[str, Any], rng: Random) -> None:
    if rng.random() < 0.02:
        value["odd"] = 1
        return
    fields = sorted(struct.fields.keys() - _NEVER)
    below = [one for one in fields if isinstance(value.get(one), dict | list)]
    name = rng.choice(below if below and rng.random() < 0.6 else fields)
    shape, present = struct.fields[name], value.get(name)
    if shape.form is Form.STRUCT and isinstance(present, dict) and rng.random() < 0.95:
        _break(shape.struct, present, rng)
    elif (
        shape.form is Form.LIST
        and shape.item.form is Form.STRUCT
        and present
        and isinstance(present, list)
        and rng.random() < 0.9
    ):
        place = rng.randrange(len(present))
        if rng.random() < 0.1:
            present.append(deepcopy(present[place]))
        else:
            _break(shape.item.struct, present[place], rng)
    elif rng.random() < 0.04:
        value[name] = rng.choice((None, [], {}, "odd", 7))
    elif name in value and rng.random() < 0.1:
        del value[name]
    else:
        value[name] = _made(shape, rng, 0)


def _made(shape: Shape, rng: Random, depth: int) -> Any:
    """Return a random value of that type, broken in about half of the cases."""
    if shape.form is Form.STRUCT:
        if depth >= _DEEPEST:
            return {}
        struct, made = shape.struct, {}
        for name in sorted(struct.fields.keys() - _NEVER):
            if rng.random() < (0.8 if name in struct.required else 0.25):
                made[name] = _made(struct.fields[name], rng, depth + 1)
        return made
    if shape.form is Form.LIST:
        return [_made(shape.item, rng, depth + 1) for _ in range(rng.choice((0, 1, 1, 2)))]
    if shape.form is Form.MAP:
        # One key: errors about several have no order.
        return {key: _made(shape.item, rng, depth + 1) for key in (rng.choice(_KEYS),)}
    return rng.choice(_ODD[shape.form])


def make_steps(seed: int, count: int, kinds: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Return the steps of a transcript: dry-run creates of broken objects."""
    samples = [one for one in yaml.safe_load_all(SAMPLES.read_text()) if one["kind"] in kinds]
    registry = Scheme()
    for number in range(count):
        rng = Random(f"{seed} {number}")
        sample = rng.choice(samples)
        kind = registry.of_kind(sample["apiVersion"], sample["kind"])
        assert kind is not None, sample
        root = "/apis/" if kind.group else "/api/"
        where = "/namespaces/{ns}" if kind.namespaced else ""
        path = f"{root}{kind.api_version}{where}/{kind.plural}"
        yield {
            "do": f"POST {path}?dryRun=All&fieldValidation=Strict",
            "body": break_field(sample, rng),
            "headers_compared": ["Warning"],
        }


def is_same_outcome(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether responses are equal up to the order of their causes.

    The type errors of an applied object are equal if one server's contain the other's: a server
    reads fields in any order, and not beyond an unknown one.
    """
    if one == other or _unordered(one) == _unordered(other):
        return True
    mine, theirs = (_read_type_errors(outcome["body"]) for outcome in (one, other))
    return bool(mine and theirs) and (mine <= theirs or mine >= theirs)


def _read_type_errors(body: Any) -> frozenset[str]:
    """Return the type errors of an answer to an applied object; empty for another one."""
    message = body.get("message", "") if isinstance(body, dict) else ""
    found = _TYPE_ERRORS.fullmatch(message)
    return frozenset(found[1].removeprefix("errors:\n  ").split("\n  ")) if found else frozenset()


def _unordered(outcome: dict[str, Any]) -> Any:
    body = json.loads(_NODE_PORT.sub(r"\1<nodePort>", json.dumps(outcome["body"])))
    causes = body.get("details", {}).get("causes") if isinstance(body, dict) else None
    if not causes or len(causes) == 1:
        return outcome
    details = {**body["details"], "causes": sorted(map(json.dumps, causes))}
    return {**outcome, "body": {**body, "details": details, "message": sorted(body["message"])}}


def _compare(one: Path, other: Path, made: list[dict[str, Any]]) -> int:
    """Print each difference; return their number."""
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda path: list(play_transcript(RawClient(path), made)), (one, other))
    differ = 0
    for step, mine, theirs in zip(made, *answers, strict=True):
        if is_same_outcome(mine, theirs):
            continue
        differ += 1
        sys.stdout.write(f"{step['do']}\n  {json.dumps(step['body'])}\n")
        for mark, outcome in (("-", mine), ("+", theirs)):
            body = outcome["body"]
            short = body["message"] if "message" in body else json.dumps(body)
            sys.stdout.write(f"  {mark} {outcome['status']} {short} {outcome['Warning']}\n")
    return differ


def main() -> None:
    """Compare two servers, or write a transcript."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("compare", "transcript"))
    parser.add_argument("kubeconfig", nargs="*", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--kind", action="append", choices=KINDS, default=[])
    given = parser.parse_args()
    made = list(make_steps(given.seed, given.count, frozenset(given.kind or KINDS)))
    if given.what == "transcript":
        for step in made:
            sys.stdout.write(f"- {json.dumps(step)}\n")
        return
    if len(given.kubeconfig) != 2:
        parser.error("compare wants two kubeconfigs")
    one, other = given.kubeconfig
    differ = _compare(one, other, made)
    sys.stdout.write(f"{differ} of {given.count} differ\n")


if __name__ == "__main__":
    main()
