"""The real kind, k3d and helm, built from pinned Go modules, for tests of what runs them.

`python -m tools.local_clusters` builds them. `conformance/clusters/test_local_clusters.py` runs
kind and k3d, `e2e/helm` runs helm.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.controlplane import assets

_MODULE = Path(__file__).parent
_HELM = "helm.sh/helm/v4/cmd/helm@v4.2.3"
_KIND = "sigs.k8s.io/kind@v0.30.0"
_K3D = "github.com/k3d-io/k3d/v5"
"""Of go.mod: its packages cannot be installed by version, which needs a list of all versions."""


def folder() -> Path:
    """Return the folder of the programs."""
    return assets.storage().parent / "local-clusters"


def find(name: str) -> Path | None:
    """Return a program that was built here; None if there is none."""
    built = folder() / name
    return built if built.exists() else None


def build() -> Path:
    """Build the programs; return their folder."""
    assets.check_go("kind, k3d and helm")
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(target)}
    subprocess.run(["go", "install", _KIND], check=True, env=environment)
    # Without C, and small: as its own releases are built.
    command = ["go", "install", "-ldflags", "-s -w", _HELM]
    subprocess.run(command, check=True, env={**environment, "CGO_ENABLED": "0"})
    command = ["go", "build", "-C", str(_MODULE), "-mod=readonly", "-o", str(target / "k3d"), _K3D]
    subprocess.run(command, check=True, env=environment)
    return target
