"""Responses of two servers to the manifests of a folder, by choice.

    python -m conformance.api.manifests FOLDER [--apply] [--kubeconfig FILE] [--least PERCENT]

Each subfolder of FOLDER is one set, for example of one project. Its definitions are created first
and awaited, then built-in and custom objects are created dry, in a namespace of the player's own.
The status, the body without volatile fields, and the warnings of an embedded cluster are compared
with those of the cluster that the kubeconfig names; every difference is printed.

Cluster IPs and names of users are left out. The embedded cluster's default storage class, which a
control plane alone does not have, is removed first.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from conformance.api.mutations import is_same_outcome
from conformance.api.transcript import normalize_body
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import EmbeddedProvider
from pytest_kwait.simulator.scheme import Scheme
from tools.raw_api import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.api.transcript import Outcome

_CRD = "CustomResourceDefinition"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_USER_FIELDS = ("username", "groups", "uid", "extra")
_TOGETHER = 4
_UNTIL = 60.0
_MOST_SHOWN = 4
_LONGEST = 300


_UNSERVED = {"status": 404, "body": "the kind is not served", "Warning": ""}


class Manifest(NamedTuple):
    """One object and the file it is from."""

    source: str
    obj: dict[str, Any]

    @property
    def category(self) -> str:
        """Whether it is a definition, or of a built-in or custom kind."""
        if self.obj["kind"] == _CRD:
            return "definitions"
        group, _, _ = self.obj["apiVersion"].rpartition("/")
        builtin = "." not in group or group in _BUILTIN_GROUPS
        return "built-in objects" if builtin else "custom objects"


_BUILTIN_GROUPS = frozenset(kind.group for kind in Scheme())


def load_manifests(folder: Path) -> list[Manifest]:
    """Return the objects of the YAML files below `folder`, each once; skip what is no object."""
    found: dict[str, Manifest] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    paths = [*folder.rglob("*.yaml"), *folder.rglob("*.yml")]
    for path in sorted(path for path in paths if path.is_file()):
        try:
            documents = [*yaml.load_all(path.read_text(errors="replace"), loader)]
        except (yaml.YAMLError, ValueError):
            continue  # a template, for example
        for document in documents:
            for obj in _objects(document):
                text = json.dumps(obj, sort_keys=True, default=str)
                found.setdefault(text, Manifest(str(path.relative_to(folder)), json.loads(text)))
    return [*found.values()]


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict):
        return
    if not all(isinstance(document.get(key), str) for key in ("apiVersion", "kind")):
        return
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item)
    elif isinstance(document.get("metadata"), dict):
        yield document


class _Player:
    """Sends the objects of one set to one server.

    Args:
        endpoint: the API server.
        namespace: the namespace of the objects.
        applies: whether objects are applied, and owned fields are compared.
    """

    def __init__(self, endpoint: RawClient, namespace: str, *, applies: bool) -> None:
        self._applies = applies
        self._endpoint = endpoint
        self._namespace = namespace
        self._resources: dict[str, dict[str, dict[str, Any]]] = {}
        self._created: list[str] = []

    def open(self) -> None:
        """Create the namespace and wait for its service account."""
        path = "/api/v1/namespaces"
        self._endpoint.request("POST", path, {"metadata": {"name": self._namespace}})
        self._await(f"{path}/{self._namespace}/serviceaccounts/default")

    def close(self) -> None:
        """Delete the namespace."""
        self._endpoint.request("DELETE", f"/api/v1/namespaces/{self._namespace}")

    def play_definition(self, obj: dict[str, Any]) -> Outcome:
        """Create a definition; compare one whose name is taken as an update."""
        path = f"{_CRDS}/{obj['metadata'].get('name')}"
        present = self._endpoint.request("GET", path)
        if present.status != 200:
            outcome = self._send("POST", f"{_CRDS}?fieldValidation=Warn", obj)
            if outcome["status"] == 201:
                self._created.append(obj["metadata"]["name"])
            return outcome
        version = present.body["metadata"]["resourceVersion"]
        new = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
        return self._send("PUT", f"{path}?fieldValidation=Warn&dryRun=All", new)

    def await_definition(self, name: str) -> Outcome:
        """Wait until the kinds of a definition are served or refused; return it."""
        path = f"{_CRDS}/{name}"
        deadline = SYSTEM_CLOCK.monotonic() + _UNTIL
        while SYSTEM_CLOCK.monotonic() < deadline:
            body = self._endpoint.request("GET", path).body
            conditions = {
                one["type"]: one["status"] for one in body.get("status", {}).get("conditions") or ()
            }
            if conditions.get("NamesAccepted") == "False":
                break
            if conditions.get("Established") == "True":
                spec = body["spec"]
                for version in spec["versions"]:
                    if version["served"]:
                        root = f"/apis/{spec['group']}/{version['name']}"
                        self._await_resource(root, spec["names"]["plural"])
                break
            SYSTEM_CLOCK.sleep(0.1)
        return self._send("GET", path, None)

    def remove_definitions(self) -> None:
        """Delete the created definitions and wait until they are gone."""
        for name in self._created:
            self._endpoint.request("DELETE", f"{_CRDS}/{name}")
        for name in self._created:
            self._await(f"{_CRDS}/{name}", 404)
        self._created.clear()

    def forget_resources(self) -> None:
        """Read discovery again with the next object."""
        self._resources.clear()

    def play_object(self, obj: dict[str, Any]) -> Outcome | None:
        """Create an object dry; None if its kind is not served."""
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._resources:
            found = self._endpoint.request("GET", root)
            listed = found.body["resources"] if found.status == 200 else ()
            self._resources[version] = {
                one["kind"]: one
                for one in reversed(listed)
                if "/" not in one["name"] and "create" in one["verbs"]
            }
        resource = self._resources[version].get(obj["kind"])
        if resource is None:
            return None
        new = deepcopy(obj)
        new["metadata"].pop("namespace", None)
        spec = new.get("spec")
        is_service = (version, obj["kind"]) == ("v1", "Service")
        if is_service and isinstance(spec, dict) and spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        where = f"/namespaces/{self._namespace}" if resource["namespaced"] else ""
        path = f"{root}{where}/{resource['name']}"
        if self._applies and new["metadata"].get("name"):
            query = "dryRun=All&fieldValidation=Strict&fieldManager=player&force=true"
            return self._send("PATCH", f"{path}/{new['metadata']['name']}?{query}", new)
        return self._send("POST", f"{path}?dryRun=All&fieldValidation=Warn", new)

    def _send(self, method: str, path: str, body: object) -> Outcome:
        form = "application/json" if method != "PATCH" else "application/apply-patch+yaml"
        answer = self._endpoint.request(method, path, body, content_type=form)
        content = answer.body
        if path.startswith(_CRDS) and isinstance(content, dict):
            # Controllers add conditions in any order.
            status = content.get("status")
            if isinstance(status, dict) and status.get("conditions"):
                status["conditions"].sort(key=lambda one: one["type"])
        names = {self._namespace: "<namespace>"}
        metadata = content.get("metadata", {}) if isinstance(content, dict) else {}
        if "generateName" in metadata:
            names[metadata["name"]] = "<generated>"
        if isinstance(content, dict) and content.get("kind") == "CertificateSigningRequest":
            for field in _USER_FIELDS:
                content.get("spec", {}).pop(field, None)
        return {
            "status": answer.status,
            "body": normalize_body(content, names, fields=method == "PATCH"),
            "Warning": normalize_body(answer.headers.get("Warning", ""), names),
        }

    def _await_resource(self, root: str, plural: str) -> None:
        """Wait until a resource is served and in discovery."""
        self._await(f"{root}/{plural}?limit=1")
        deadline = SYSTEM_CLOCK.monotonic() + _UNTIL
        while SYSTEM_CLOCK.monotonic() < deadline:
            found = self._endpoint.request("GET", root)
            if found.status == 200 and any(
                one["name"] == plural for one in found.body["resources"]
            ):
                return
            SYSTEM_CLOCK.sleep(0.1)

    def _await(self, path: str, status: int = 200) -> None:
        deadline = SYSTEM_CLOCK.monotonic() + _UNTIL
        while self._endpoint.request("GET", path).status != status:
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise TimeoutError(f"GET {path} is not {status} after {_UNTIL:.0f} s")
            SYSTEM_CLOCK.sleep(0.1)


def find_differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Yield the differences of two outcomes, each as its path and both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if one.get(key, ...) != other.get(key, ...):
                yield from find_differences(one.get(key, ...), other.get(key, ...), f"{at}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from find_differences(mine, theirs, f"{at}[{index}]")
    elif one != other:
        mine, theirs = ("absent" if each is ... else json.dumps(each) for each in (one, other))
        yield f"{at}: {mine[:_LONGEST]} instead of {theirs[:_LONGEST]}"


class _Comparison:
    """Counts of equal and other outcomes of two servers."""

    def __init__(self, embedded: RawClient, real: RawClient, *, applies: bool) -> None:
        namespace = f"manifests-{secrets.token_hex(4)}"
        self.players = [_Player(server, namespace, applies=applies) for server in (embedded, real)]
        self.sent: Counter[str] = Counter()
        self.equal: Counter[str] = Counter()
        self.unserved = 0
        embedded.request("DELETE", "/apis/storage.k8s.io/v1/storageclasses")

    def play_set(self, name: str, manifests: Sequence[Manifest]) -> None:
        """Play the objects of one set and print the differences."""
        definitions = [one for one in manifests if one.obj["kind"] == _CRD]
        objects = [one for one in manifests if one.obj["kind"] != _CRD]
        sent, equal = self.sent.total(), self.equal.total()
        first = {one.obj["metadata"].get("name"): one for one in reversed(definitions)}
        created: dict[str, Manifest] = {}
        try:
            for one in first.values():
                outcomes = [player.play_definition(one.obj) for player in self.players]
                self._compare(name, one, *outcomes)
                if all(outcome["status"] == 201 for outcome in outcomes):
                    created[one.obj["metadata"]["name"]] = one
            for definition, one in created.items():
                found = [player.await_definition(definition) for player in self.players]
                self._compare(name, one, *found)
            for one in definitions:
                if first[one.obj["metadata"].get("name")] is not one:
                    outcomes = [player.play_definition(one.obj) for player in self.players]
                    self._compare(name, one, *outcomes)
            for player in self.players:
                player.forget_resources()
            with ThreadPoolExecutor(_TOGETHER) as pool:
                for one, answers in zip(objects, pool.map(self._play, objects), strict=True):
                    mine, theirs = answers
                    if mine is None and theirs is None:
                        self.unserved += 1
                    else:
                        self._compare(name, one, mine or _UNSERVED, theirs or _UNSERVED)
        finally:
            for player in self.players:
                player.remove_definitions()
        sent, equal = self.sent.total() - sent, self.equal.total() - equal
        sys.stdout.write(f"{name}: {equal} of {sent} equal\n")
        sys.stdout.flush()

    def _play(self, one: Manifest) -> list[Outcome | None]:
        return [player.play_object(one.obj) for player in self.players]

    def _compare(self, name: str, one: Manifest, mine: Outcome, theirs: Outcome) -> None:
        self.sent[one.category] += 1
        if is_same_outcome(mine, theirs):
            self.equal[one.category] += 1
            return
        named = one.obj["metadata"].get("name") or one.obj["metadata"].get("generateName")
        lines = [f"{name}/{one.source}: {one.obj['kind']} {named}"]
        lines += [f"  {line}" for line in [*find_differences(mine, theirs)][:_MOST_SHOWN]]
        sys.stdout.write("\n".join(lines) + "\n")

    def summarize(self) -> float:
        """Print the counts; return the percentage of equal outcomes."""
        for category in (*sorted(self.sent), "all"):
            sent = self.sent[category] if category != "all" else self.sent.total()
            equal = self.equal[category] if category != "all" else self.equal.total()
            sys.stdout.write(
                f"{category}: {equal} of {sent} equal, {_percent(equal, sent):.2f} %\n"
            )
        sys.stdout.write(f"objects of kinds that neither serves: {self.unserved}\n")
        return _percent(self.equal.total(), self.sent.total())


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 100.0


def main() -> int:
    """Compare an embedded cluster with a real one; return 1 if too few outcomes are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="one subfolder per set of manifests")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        default=os.environ.get("KWAIT_KUBECONFIG"),
        help="the real cluster (default: KWAIT_KUBECONFIG)",
    )
    parser.add_argument(
        "--set", action="append", dest="sets", help="a subfolder; repeatable (default: all)"
    )
    parser.add_argument(
        "--apply", action="store_true", help="apply objects instead of creating them"
    )
    parser.add_argument(
        "--least", type=float, default=99.5, help="percentage of equal outcomes (default: 99.5)"
    )
    given = parser.parse_args()
    if given.kubeconfig is None:
        parser.error("no real cluster: give --kubeconfig, or set KWAIT_KUBECONFIG")
    if not given.folder.is_dir():
        parser.error(f"no such folder: {given.folder}")
    folders = sorted(path for path in given.folder.iterdir() if path.is_dir())
    folders = [path for path in folders if not given.sets or path.name in given.sets]
    cluster = EmbeddedProvider().start()
    try:
        comparison = _Comparison(
            RawClient(cluster.kubeconfig),
            RawClient(Path(given.kubeconfig), timeout=120),
            applies=given.apply,
        )
        for player in comparison.players:
            player.open()
        try:
            for folder in folders:
                comparison.play_set(folder.name, load_manifests(folder))
        finally:
            for player in comparison.players:
                player.close()
    finally:
        cluster.stop()
    return 0 if comparison.summarize() >= given.least else 1


if __name__ == "__main__":
    raise SystemExit(main())
