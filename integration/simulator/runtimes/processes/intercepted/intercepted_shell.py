"""A shell whose calls with paths are intercepted: runs a script in a container's files.

Arguments are the layer's folder, the script, and mounts: target, source and `ro` or `rw`, separated
by colons.
"""

from __future__ import annotations

import os
import sys

from pytest_kwait.simulator.runtimes.processes.intercepted.files import FileCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.interceptor import (
    CaughtCalls,
    Interceptor,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount


def main(upper: str, script: str, *mounts: str) -> None:
    """Run the script."""
    targets = [mount.split(":") for mount in mounts]
    files = ContainerFiles(
        upper, tuple(Mount(target, source, mode == "ro") for target, source, mode in targets)
    )
    calls = FileCalls(files)
    interceptor = Interceptor(CaughtCalls(calls.CAUGHT, calls.answers), lambda _pid, _code: None)
    interceptor.run(interceptor.start(lambda: os.execv("/bin/sh", ["sh", "-c", script])))


if __name__ == "__main__":
    main(*sys.argv[1:])
