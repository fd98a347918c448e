"""The kubectl that the scripts are run with, of the version that they were recorded with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane import assets

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_kubectl"]


def find_kubectl() -> tuple[Path | None, str]:
    """Return a kubectl of the version that the scripts were recorded with; else why there is none.

    It is looked for in KUBEBUILDER_ASSETS, in what `python -m tools.controlplane build` has made,
    and on the PATH.
    """
    _, minor, _ = assets.pinned("k8s.io/kubernetes").split(".", 2)
    found = []
    for program in _candidates():
        version = _minor(program)
        if version == minor:
            return program, ""
        found.append(f"{program} is of 1.{version}")
    others = f" ({', '.join(found)})" if found else ""
    return None, (
        f"there is no kubectl 1.{minor}{others}: put one on the PATH, or run"
        " python -m tools.controlplane build"
    )


def _candidates() -> Iterator[Path]:
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        yield from _executable(Path(given))
    version = f"kubernetes-{assets.pinned('k8s.io/kubernetes')}"
    for folder in sorted(assets.storage().glob(f"{version}-etcd-*[0-9]")):
        yield from _executable(folder)
    if on_path := shutil.which("kubectl"):
        yield Path(on_path)


def _executable(folder: Path) -> Iterator[Path]:
    program = folder / "kubectl"
    if os.access(program, os.X_OK):
        yield program


def _minor(program: Path) -> str:
    command = [str(program), "version", "--client", "--output=json"]
    said = subprocess.run(command, capture_output=True, check=False, timeout=60)
    try:
        return str(json.loads(said.stdout)["clientVersion"]["minor"])
    except (ValueError, KeyError):
        return "unknown"
