"""Generate the bootstrap objects of RBAC and of priority and fairness from a running API server.

    python -m tools.simulator_data.bootstrap_objects KUBECONFIG

lists what the server marks as its own and writes it, without what differs from server to
server and without the rules that are collected from other roles, to
`pytest_kwait/simulator/data/bootstrap.json.gz`. Nothing is stored in the server.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import pytest_kwait.simulator
from tools.raw_api import RawClient

_ROLES = "rbac.authorization.k8s.io"
_FLOWS = "flowcontrol.apiserver.k8s.io"
_FLOW_KINDS = ("prioritylevelconfigurations", "flowschemas")
_AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
_KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_OWN = "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults"
_METADATA = ("name", "namespace", "generation", "labels", "annotations")


def list_bootstrap_objects(endpoint: RawClient) -> dict[str, list[dict[str, Any]]]:
    """Return the server's own objects by resource, in the order of their names."""
    found = {
        f"{kind}.{_ROLES}": [_bare(item) for item in _list(endpoint, f"{_ROLES}/v1/{kind}?{_OWN}")]
        for kind in _KINDS
    }
    for kind in _FLOW_KINDS:
        found[f"{kind}.{_FLOWS}"] = [
            _bare(item)
            for item in _list(endpoint, f"{_FLOWS}/v1/{kind}")
            if _AUTOUPDATE in (item["metadata"].get("annotations") or {})
        ]
    return found


def _list(endpoint: RawClient, path: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = endpoint.request("GET", f"/apis/{path}").body["items"]
    return listed


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {field: item["metadata"][field] for field in _METADATA if field in item["metadata"]}
    bare = {**item, "metadata": metadata}
    metadata["managedFields"] = item["metadata"]["managedFields"]
    for entry in metadata["managedFields"]:
        del entry["time"]
    for condition in (item.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    if "aggregationRule" in item:
        bare["rules"] = None
    return bare


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    found = list_bootstrap_objects(RawClient(parser.parse_args().kubeconfig))
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    data = Path(next(iter(pytest_kwait.simulator.__path__)), "data", "bootstrap.json.gz")
    data.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
