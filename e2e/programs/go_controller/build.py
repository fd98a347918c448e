"""Build the controller, once for each state of its sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

_SOURCES = Path(__file__).parent


def find_missing_tools() -> str:
    """Return why the controller cannot be built; empty if it can."""
    return "" if shutil.which("go") else "the controller is built with Go 1.26, and there is no go"


def build_controller() -> Path:
    """Return the program, built into the user's cache unless it is there already."""
    digest = hashlib.sha256()
    for source in (*sorted(_SOURCES.glob("*.go")), _SOURCES / "go.sum"):
        digest.update(source.read_bytes())
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache).absolute() / "pytest-kwait" / "go-controller" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "manager"
    with (folder / "lock").open("w") as held:
        # Workers of pytest-xdist and runs side by side wait for the first one.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not program.exists():
            _run_go(folder / "manager.part")
            (folder / "manager.part").rename(program)
    return program


def _run_go(program: Path) -> None:
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=_SOURCES, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"go build in {_SOURCES} failed:\n{done.stderr}")
