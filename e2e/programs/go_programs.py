"""Programs in Go that tests run, each built once into the user's cache."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def cache_folder(name: str) -> Path:
    """Return the folder of the builds of a program."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).absolute() / "pytest-kwait" / name


def build_once(program: Path, build: Callable[[Path], None]) -> Path:
    """Build a program unless it is there already; return its path.

    Args:
        program: its path, in a folder of its own.
        build: makes a program at a path beside it.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as held:
        # Builds side by side wait for the first one.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not program.exists():
            build(program.with_suffix(".part"))
            program.with_suffix(".part").rename(program)
    return program


def run_go(*arguments: str) -> str:
    """Run `go`, for programs without a part in C; return its output.

    Raises:
        RuntimeError: it failed; with what it said.
    """
    command = ["go", *arguments]
    variables = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout
