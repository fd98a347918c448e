"""`kwait.apply` of 15,000 lines of definitions, beside `kubectl apply --server-side`: bar 1.5.

Run it as `python -m benchmarks.apply_definitions [ROUNDS]`. Both apply the same file to the same
embedded cluster, in turns: four CustomResourceDefinitions whose `spec` is that of a pod, with its
descriptions, as an operator's definitions are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.children import run_child
from benchmarks.pairs import Pairs
from benchmarks.rows import CannotMeasureError, Row, run_alone
from conformance.kubectl.script import find_kubectl
from pytest_kwait.clusters.simulator_process import SimulatorProcess

BAR = 1.5
_PLURALS = ("alarms", "collectors", "agents", "rulers")
_OPENAPI = "/openapi/v3/api/v1"
_COPIED = (
    *("type", "description", "format", "required"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type"),
)
_TEST = """
import json
import subprocess
import time
from pathlib import Path

FILE = "definitions.yaml"


def test_apply(kwait):
    kubectl, rounds = json.loads(Path("run.json").read_text())
    command = [str(kubectl), "--kubeconfig", str(kwait.cluster.kubeconfig)]

    def peer():
        subprocess.run([*command, "apply", "--server-side", "-f", FILE], check=True)

    figures = {"ours": [], "peer": []}
    for number in range(rounds + 1):
        works = [("ours", lambda: kwait.apply(FILE)), ("peer", peer)]
        for name, apply in works if number % 2 else reversed(works):
            start = time.monotonic()
            apply()
            if number:  # the first does not count
                figures[name].append(time.monotonic() - start)
            subprocess.run([*command, "delete", "-f", FILE], check=True)
    Path("figures.json").write_text(json.dumps(figures))
"""


def measure_rows(rounds: int = 5) -> list[Row]:
    """Apply the file in turns."""
    kubectl, reason = find_kubectl()
    if kubectl is None:
        raise CannotMeasureError(reason)
    with TemporaryDirectory() as name:
        folder = Path(name)
        kubeconfig = folder / "kubeconfig"
        process = SimulatorProcess(kubeconfig, folder / "log")
        try:
            command = [str(kubectl), "--kubeconfig", str(kubeconfig), "get", "--raw", _OPENAPI]
            document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            text = _format_definitions(document["components"]["schemas"])
            (folder / "definitions.yaml").write_text(text, "utf-8")
            (folder / "pytest.ini").write_text("[pytest]\n")
            (folder / "test_apply.py").write_text(_TEST)
            (folder / "run.json").write_text(json.dumps([str(kubectl), rounds]))
            option = f"--kwait-kubeconfig={kubeconfig}"
            run_child(
                [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", option],
                cwd=name,
                env=dict(os.environ),
            )
        finally:
            process.stop()
        pairs = Pairs(**json.loads((folder / "figures.json").read_text()))
    print(f"apply of {text.count(chr(10)):,} lines of definitions")
    print(pairs.lines("kwait.apply", "kubectl apply --server-side"))
    return [Row("apply of definitions, of kubectl's time", pairs.median_ratio, BAR)]


def _format_definitions(schemas: dict[str, Any]) -> str:
    """Return definitions as YAML.

    Args:
        schemas: the schemas of the API server's OpenAPI document of v1.
    """
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    properties = {"spec": _inline(schemas["io.k8s.api.core.v1.PodSpec"], schemas), "status": status}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    definitions = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": plural.title().removesuffix("s"), "plural": plural},
                "versions": [version],
            },
        }
        for plural in _PLURALS
    ]
    copies = json.loads(json.dumps(definitions))  # no part of one is the same in another
    return yaml.dump_all(copies, sort_keys=False)


def _inline(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references, as far as definitions may have it."""
    schema = {**schema, **next(iter(schema.get("allOf", ())), {})}
    described = {"description": schema["description"]} if "description" in schema else {}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**_inline(schemas[name], schemas), **described}
    if "oneOf" in schema or schema.get("format") == "int-or-string":
        either = [{"type": "integer"}, {"type": "string"}]
        return {**described, "anyOf": either, "x-kubernetes-int-or-string": True}
    inlined = {key: schema[key] for key in _COPIED if key in schema}
    if "properties" in schema:
        properties = schema["properties"].items()
        inlined["properties"] = {key: _inline(value, schemas) for key, value in properties}
    for key in ("items", "additionalProperties"):
        if key in schema:
            inlined[key] = _inline(schema[key], schemas)
    if schema.get("x-kubernetes-list-type") == "map":
        keys = schema["x-kubernetes-list-map-keys"]
        if set(keys) <= {*inlined["items"].get("required", ())}:
            inlined["x-kubernetes-list-map-keys"] = keys
        else:
            inlined["x-kubernetes-list-type"] = "atomic"
    return inlined


if __name__ == "__main__":
    run_alone(measure_rows)
