"""Build JobSet, a published operator, from its Go module, with the manifests beside it.

Run it as `python -m e2e.programs.jobset.build`: the first build takes minutes of Go.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from e2e.programs.go_programs import build_once, cache_folder, run_go

_VERSION = "v0.12.0"
_MODULE = f"sigs.k8s.io/jobset@{_VERSION}"
IMAGE = f"us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:{_VERSION}"
"""The image that the manifests name."""
NOT_BUILT = "`python -m e2e.programs.jobset.build` builds JobSet, with Go 1.26"


def find_program() -> Path:
    """Return the path of the program in the user's cache, whether it is built or not."""
    return cache_folder("jobset") / _VERSION / "manager"


def find_manifests() -> Path:
    """Return the folder of the kustomization that its users apply."""
    return find_program().with_name("config") / "default"


def build_program() -> Path:
    """Build the program unless it is there already; return its path."""
    return build_once(find_program(), _build)


def _build(program: Path) -> None:
    source = Path(json.loads(run_go("mod", "download", "-json", _MODULE))["Dir"])
    manifests = program.with_name("config")
    # The files of a module are read-only.
    shutil.copytree(source / "config", manifests, copy_function=shutil.copyfile, dirs_exist_ok=True)
    # `go install` of a version looks for a newer one, which not every proxy of modules answers.
    run_go("-C", str(source), "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), ".")


if __name__ == "__main__":
    print(build_program())
