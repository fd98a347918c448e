"""Build the suite's programs from go.mod, once, into a cached folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane import assets as controlplane
from tools.controlplane.errors import BrokenError
from tools.controlplane.processes import end_with_parent

MODULE = Path(__file__).resolve().parent
TOOLS = ("agnhost", "ginkgo", "nonewprivs", "sample-apiserver")
SUITE = "e2e.test"
_KUBERNETES = "k8s.io/kubernetes"


@dataclass(frozen=True)
class Programs:
    """The folders of what a run needs.

    Args:
        folder: `e2e.test`, `ginkgo` and the programs of images.
        controlplane: `kubectl` and `etcd`.
        images: upstream's sources of images, for the files in them.
    """

    folder: Path
    controlplane: Path
    images: Path


def build() -> Programs:
    """Return the programs, after building the ones that are not there yet.

    Raises:
        UnavailableError: there is no Go, or another version.
        BrokenError: the build failed.
    """
    version = controlplane.pinned(_KUBERNETES, MODULE)
    sums = hashlib.sha256((MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    storage = controlplane.storage().with_name("upstream-suite")
    folder = storage / f"kubernetes-{version}-{sums}"
    if not _complete(folder):
        controlplane.check_go("the suite", MODULE)
        storage.mkdir(parents=True, exist_ok=True)
        with controlplane.only_one(folder.with_name(folder.name + ".lock")):
            if not _complete(folder):
                _build(version, folder)
    return Programs(folder, controlplane.build(), folder / "images")


def _complete(folder: Path) -> bool:
    return (folder / "images").is_dir() and all(
        os.access(folder / program, os.X_OK) for program in (*TOOLS, SUITE)
    )


def _build(version: str, folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    print(
        f"building the suite of Kubernetes {version} into {folder}"
        " (first time: eight to ten minutes on two CPUs)",
        file=sys.stderr,
        flush=True,
    )
    flags = controlplane.version_flags(version)
    _go(partial, "install", "-ldflags", flags, "tool")
    suite = f"{_KUBERNETES}/test/e2e"
    _go(partial, "test", "-c", "-vet=off", "-ldflags", flags, "-o", str(partial / SUITE), suite)
    listed = _go(partial, "list", "-m", "-json", _KUBERNETES)
    source = Path(json.loads(listed)["Dir"]) / "test" / "images"
    (partial / "nonewprivs").chmod(0o4755)  # as its image has it
    for name in ("agnhost/porter", "kitten/html", "nautilus/html"):
        shutil.copytree(source / name, partial / "images" / name)
    subprocess.run(["chmod", "-R", "u+w", str(partial / "images")], check=True)
    if not _complete(partial):
        raise BrokenError(f"go in {MODULE} did not make {', '.join((*TOOLS, SUITE))}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _go(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=MODULE,
        env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=end_with_parent(signal.SIGTERM),
    )
    if done.returncode:
        said = f"go {arguments[0]} in {MODULE} failed with exit code {done.returncode}"
        raise BrokenError(said)
    return done.stdout
