"""Build the controller, once for each state of its sources.

Run it as `python -m e2e.programs.go_controller.build`: the first build takes minutes of Go.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

_SOURCES = Path(__file__).parent
NOT_BUILT = "`python -m e2e.programs.go_controller.build` builds the controller, with Go 1.26"


def find_program() -> Path:
    """Return the path of the program in the user's cache, whether it is built or not."""
    digest = hashlib.sha256()
    for source in (*sorted(_SOURCES.glob("*.go")), _SOURCES / "go.sum"):
        digest.update(source.read_bytes())
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache).absolute() / "pytest-kwait" / "go-controller" / digest.hexdigest()[:16]
    return folder / "manager"


def build_program() -> Path:
    """Build the program unless it is there already; return its path."""
    program = find_program()
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as held:
        # Builds side by side wait for the first one.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not program.exists():
            _run_go(program.with_suffix(".part"))
            program.with_suffix(".part").rename(program)
    return program


def _run_go(program: Path) -> None:
    command = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=_SOURCES, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"go build in {_SOURCES} failed:\n{done.stderr}")


if __name__ == "__main__":
    print(build_program())
