"""Makes the embedded cluster's registry of kinds from a running API server.

    python -m tools.simulator_data.generate KUBECONFIG

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

from pytest_kwait.simulator.codec.documents import V2_PATH
from tools.raw_api import RawClient
from tools.simulator_data.defaults import learn_defaults
from tools.simulator_data.documents import fetch_documents, pack_documents

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
    """The groups that the server has of itself, whatever anybody defines meanwhile."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    path += "?labelSelector=kube-aggregator.kubernetes.io/automanaged%3Donstart"
    found = endpoint.request("GET", path).body["items"]
    # The group of the API services themselves is served by who reads them, and so has none.
    return {"apiregistration.k8s.io", *(item["spec"].get("group", "") for item in found)}


def fetch_schemas(found: dict[str, Any]) -> dict[str, Any]:
    """The schemas of all documents by name, and the kinds that each one is."""
    merged: dict[str, Any] = {}
    for path, document in found.items():
        if path != V2_PATH:
            merged |= document.get("components", {}).get("schemas", {})
    return dict(sorted(merged.items()))


def generate(endpoint: RawClient) -> dict[str, bytes]:
    """The data files by name, made from what the server says."""
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
    """`content`, the same on every machine: no time, no name."""
    text = json.dumps(content, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def write(name: str, data: bytes) -> None:
    """Store one of the data files."""
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
