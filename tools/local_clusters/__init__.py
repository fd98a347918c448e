"""The real kind and k3d, built from pinned Go modules, for tests of their providers.

`python -m tools.local_clusters` builds both, `conformance/clusters/test_local_clusters.py` runs
them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.controlplane import assets

_MODULE = Path(__file__).parent
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
    """Build both programs; return their folder."""
    assets.check_go("kind and k3d")
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(target)}
    subprocess.run(["go", "install", _KIND], check=True, env=environment)
    command = ["go", "build", "-C", str(_MODULE), "-mod=readonly", "-o", str(target / "k3d"), _K3D]
    subprocess.run(command, check=True, env=environment)
    return target
