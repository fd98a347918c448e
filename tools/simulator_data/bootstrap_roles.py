"""Generate the bootstrap roles and bindings from a running API server.

    python -m tools.simulator_data.bootstrap_roles KUBECONFIG

asks the server for what it marks as its own and writes it, without what differs from server to
server and without the rules that are collected from other roles, to
`pytest_kwait/simulator/data/roles.json.gz`. Nothing is stored in the server.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import pytest_kwait.simulator
from tools.raw_api import RawClient

_ROOT = "/apis/rbac.authorization.k8s.io/v1"
_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_OWN = "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults"
_METADATA = ("name", "namespace", "labels", "annotations")


def learn_roles(endpoint: RawClient) -> dict[str, list[dict[str, Any]]]:
    """The server's own roles and bindings by resource, in the order of their names."""
    return {
        f"{kind}.rbac.authorization.k8s.io": [
            _bare(item) for item in endpoint.request("GET", f"{_ROOT}/{kind}?{_OWN}").body["items"]
        ]
        for kind in _KINDS
    }


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {field: item["metadata"][field] for field in _METADATA if field in item["metadata"]}
    bare = {**item, "metadata": metadata}
    if "aggregationRule" in item:
        bare["rules"] = None
    return bare


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    found = learn_roles(RawClient(parser.parse_args().kubeconfig))
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    data = Path(next(iter(pytest_kwait.simulator.__path__)), "data", "roles.json.gz")
    data.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
