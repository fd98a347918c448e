"""Runs the programs that start a command with restrictions."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_launcher(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command by a launcher.

    The test is skipped where the interpreter is in a folder that the user may not enter, and
    nothing can be mounted on it: as root in a container of Docker's default profile.
    """
    started = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(started, capture_output=True, text=True, check=False, timeout=60)
    if "a cover cannot be mounted" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done
