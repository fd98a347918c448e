"""Build the control plane's programs from go.mod, once, into a cached folder."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.errors import BrokenError, UnavailableError
from tools.controlplane.processes import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = Path(__file__).resolve().parent
DNS_MODULE = MODULE / "coredns"
"""A module of its own, so that the versions that it needs are not those of Kubernetes."""

PROGRAMS = (
    "coredns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
# With Go 1.27 the API server's OpenAPI comes out broken.
GO = "1.26"


def storage() -> Path:
    """Return the folder that holds everything this package keeps between runs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).absolute() / "pytest-kwait" / "controlplane"


def pinned(module: str, folder: Path = MODULE) -> str:
    """Return the version that the go.mod of a folder asks for."""
    text = (folder / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)(?: //.*)?$", text, re.MULTILINE)
    if found is None:
        raise BrokenError(f"{folder / 'go.mod'} does not pin {module}")
    return found.group(1)


def build() -> Path:
    """Return the folder of the programs, after building the ones that are not there yet."""
    kubernetes = pinned("k8s.io/kubernetes")
    etcd = pinned("go.etcd.io/etcd/server/v3")
    dns = pinned("github.com/coredns/coredns", DNS_MODULE)
    folder = storage() / f"kubernetes-{kubernetes}-etcd-{etcd}-coredns-{dns}"
    if _complete(folder):
        return folder
    check_go("the control plane")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with only_one(folder.with_name(folder.name + ".lock")):
        if not _complete(folder):
            _install(kubernetes, folder)
    return folder


def _complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def check_go(what: str, folder: Path = MODULE) -> None:
    """Check that a folder is built with the right Go.

    Raises:
        UnavailableError: there is none, or another version.
    """
    wanted = f"{what} is built with Go {GO}"
    get = f"install Go {GO} from https://go.dev/dl"
    if shutil.which("go") is None:
        raise UnavailableError(f"{wanted}, and there is no go: {get}")
    asked = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=folder, capture_output=True, text=True, check=False
    )
    version = asked.stdout.strip()
    if not re.match(rf"go{re.escape(GO)}(\D|$)", version):
        found = version or " ".join(asked.stderr.split())
        raise UnavailableError(f"{wanted}, not with {found}: {get}, or set GOTOOLCHAIN=go{GO}.0")


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Hold a lock that one process at a time has."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def version_flags(kubernetes: str) -> str:
    """Return the flags of Go's linker: without a version programs say v0.0.0-master."""
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    version = "k8s.io/component-base/version"
    return (
        f"-s -w -X {version}.gitVersion={kubernetes}"
        f" -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    )


def _install(kubernetes: str, folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    print(
        f"building Kubernetes {kubernetes} into {folder}"
        " (first time: six to eight minutes on two CPUs, and 4 GB of Go caches)",
        file=sys.stderr,
        flush=True,
    )
    for module, packages in {MODULE: "tool", DNS_MODULE: "."}.items():
        done = subprocess.run(
            ["go", "install", "-ldflags", version_flags(kubernetes), packages],
            cwd=module,
            env={**os.environ, "CGO_ENABLED": "0", "GOBIN": str(partial)},
            stdout=sys.stderr,
            check=False,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        if done.returncode:
            raise BrokenError(f"go install in {module} failed with exit code {done.returncode}")
    (partial / "server").rename(partial / "etcd")
    if not _complete(partial):
        raise BrokenError(f"go install in {MODULE} did not make {', '.join(PROGRAMS)}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
