"""A shell whose calls with paths are intercepted: runs a script in a container's files.

Arguments are the layer's folder, the script, and mounts: target, source and `ro` or `rw`, separated
by colons.
"""

from __future__ import annotations

import os
import sys

from pytest_kwait.simulator.runtimes.processes.intercepted.files import FileCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount
from pytest_kwait.simulator.runtimes.processes.intercepted.program import (
    CaughtCalls,
    run_intercepted,
)


def main(upper: str, script: str, *mounts: str) -> None:
    """Run the script, and end with its exit code."""
    targets = [mount.split(":") for mount in mounts]
    files = ContainerFiles(
        upper, tuple(Mount(target, source, mode == "ro") for target, source, mode in targets)
    )
    calls = FileCalls(files)
    run_intercepted(
        CaughtCalls(calls.CAUGHT, calls.answers),
        lambda: os.execv("/bin/sh", ["sh", "-c", script]),
        lambda _pid: None,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
