"""Makes the embedded cluster's registry of kinds from a running API server.

    python -m e2e.registry.generate KUBECONFIG

asks the server for its discovery, its OpenAPI v3 documents and, by dry-run creates of the samples
in `samples.yaml`, for the defaults that OpenAPI does not tell, and writes them without prose to
`pytest_kwait/simulator/data/`. Nothing is stored in the server but one namespace for the samples.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from e2e.conformance.endpoint import Endpoint
from e2e.registry.defaults import learn

DATA = Path(__file__).parents[2] / "pytest_kwait" / "simulator" / "data"
SAMPLES = Path(__file__).with_name("samples.yaml")
SCHEMA_PREFIX = "#/components/schemas/"
NAMESPACE = "kwait-registry"


def discovery(endpoint: Endpoint) -> dict[str, Any]:
    """Groups in the server's order, and the resource list of each group and version."""
    custom = custom_groups(endpoint)
    listed = endpoint.request("GET", "/apis").body["groups"]
    groups = [group for group in listed if group["name"] not in custom]
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


def custom_groups(endpoint: Endpoint) -> set[str]:
    """The groups that are there because somebody defined them."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    return {item["spec"]["group"] for item in endpoint.request("GET", path).body["items"]}


def schemas(endpoint: Endpoint) -> dict[str, Any]:
    """The schemas of all documents by name, without prose, and the kinds that each one is."""
    index = endpoint.request("GET", "/openapi/v3").body["paths"]
    custom = custom_groups(endpoint)
    merged: dict[str, Any] = {}
    for path, entry in sorted(index.items()):
        if path == "api/v1" or (path.count("/") == 2 and path.split("/")[1] not in custom):
            document = endpoint.request("GET", entry["serverRelativeURL"]).body
            for name, schema in document["components"].get("schemas", {}).items():
                merged[name] = compact(schema)
    return dict(sorted(merged.items()))


def compact(schema: Any) -> Any:
    """`schema` without descriptions, and with one-armed `allOf` reduced to its `$ref`."""
    if isinstance(schema, list):
        return [compact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    slim = {}
    for key, value in schema.items():
        if key == "description" and isinstance(value, str):
            continue
        if key == "allOf" and len(value) == 1:
            slim["$ref"] = value[0]["$ref"]
        elif key == "properties":
            slim[key] = {name: compact(field) for name, field in value.items()}
        else:
            slim[key] = compact(value)
    return slim


def write(name: str, content: Any) -> None:
    """Store `content` the same way on every machine: sorted where order means nothing, no time."""
    text = json.dumps(content, separators=(",", ":"))
    path = DATA / name
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    sys.stdout.write(f"{path.name}: {len(text)} bytes, {path.stat().st_size} compressed\n")


def main() -> None:
    """Write the data files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    arguments = parser.parse_args()
    endpoint = Endpoint(arguments.kubeconfig)
    DATA.mkdir(exist_ok=True)
    found, types = discovery(endpoint), schemas(endpoint)
    samples = list(yaml.safe_load_all(SAMPLES.read_text()))
    learned = learn(endpoint, NAMESPACE, samples, found["resources"], types)
    write("resources.json.gz", found)
    write("schemas.json.gz", types)
    write("defaults.json.gz", learned)


if __name__ == "__main__":
    main()
