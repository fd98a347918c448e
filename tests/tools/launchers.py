"""Runs the programs that start a command with restrictions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


def run_launcher(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command by a launcher.

    The test is skipped where the interpreter is in a folder that the user may not enter, and
    nothing can be mounted on it: as root in a container of Docker's default profile.
    """
    started = [sys.executable, "-m", module, *arguments]
    # PYTHONSAFEPATH keeps the working directory off the path. A folder of PATH may be one that the
    # command's user may not enter, such as tox's own.
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PATH": os.defpath}
    done = subprocess.run(
        started, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    if "a cover cannot be mounted" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done
