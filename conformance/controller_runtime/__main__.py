"""Run controller-runtime's own envtest suites and print how many specs pass.

python -m conformance.controller_runtime [PACKAGE...] [--real]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from conformance.controller_runtime.programs import end_leftovers, write_assets

_MODULE = "sigs.k8s.io/controller-runtime"
_VERSION = "v0.24.1"
_SPECS = {
    "cache": 276,
    "client": 296,
    "internal/controller": 75,
    "source": 19,
    "internal/recorder": 5,
    "builder": 72,
    "manager": 106,
    "manager/internal/integration": 2,
    "controller/controllerutil": 60,
    "webhook": 8,
}
"""Packages below `pkg` and the specs that pass on a real API server."""

_LIMIT_SECONDS = 900
_SUMMARY = re.compile(r"(\d+) Passed.* \| .*?(\d+) Failed")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Run the suites; return 1 if a spec fails or does not run."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.controller_runtime",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(_SPECS)}")
    parser.add_argument(
        "--real", action="store_true", help="on a real etcd and kube-apiserver, built from source"
    )
    arguments = parser.parse_args()
    unknown = [each for each in arguments.packages if each not in _SPECS]
    if unknown:
        parser.error(f"no package {unknown[0]!r}: use {', '.join(_SPECS)}")
    if shutil.which("go") is None:
        parser.error("the suites are built with Go 1.26, and there is no go")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.real:
            from tools.controlplane.assets import build

            assets = build()
        else:
            assets = folder / "assets"
            assets.mkdir()
            write_assets(assets)
        source = folder / "source"
        shutil.copytree(_download(), source)
        subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
        results = [_run(source, package, assets) for package in arguments.packages or list(_SPECS)]
        return 0 if all(results) else 1


def _download() -> Path:
    """Return the folder of the module in Go's cache."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{_MODULE}@{_VERSION}"],
        cwd=tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(done.stdout)["Dir"])


def _run(source: Path, package: str, assets: Path) -> bool:
    """Run one suite, print its result, return whether all specs have passed."""
    try:
        done = subprocess.run(
            [
                "go",
                "test",
                "-trimpath",
                "-vet=off",
                "-count=1",
                f"-timeout={_LIMIT_SECONDS}s",
                f"./pkg/{package}",
                "-v",
            ],
            cwd=source,
            env={**os.environ, "KUBEBUILDER_ASSETS": str(assets), "USE_EXISTING_CLUSTER": "false"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    finally:
        if (assets / "processes").is_dir():
            end_leftovers(assets)
    said = _COLOR.sub("", done.stdout)
    counts = [(int(passed), int(failed)) for passed, failed in _SUMMARY.findall(said)]
    passed, failed = sum(each[0] for each in counts), sum(each[1] for each in counts)
    print(f"{package}: {passed} of {_SPECS[package]} passed, {failed} failed", flush=True)
    good = done.returncode == 0 and passed == _SPECS[package]
    if not good:
        lines = said.splitlines()
        print("\n".join([*(each for each in lines if "[FAIL]" in each), *lines[-20:]]), flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
