"""A run of pytest in a process of its own, a fork, on the cluster of the test that starts it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.forked_python import ForkedPython

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


def run(folder: Path, kubeconfig: Path | None, suite: str, *options: str) -> tuple[int, str]:
    """Run a suite; return its status and output.

    Args:
        folder: where it is written to.
        kubeconfig: the cluster and the user; None for an embedded cluster of its own.
        suite: the code of its tests.
        options: for pytest.
    """
    return finish(begin(folder, kubeconfig, suite, *options))


def finish(process: ForkedPython) -> tuple[int, str]:
    """Return the status and output of a process, once it has ended."""
    try:
        said, _ = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode is not None
    return process.returncode, said


def begin(folder: Path, kubeconfig: Path | None, suite: str, *options: str) -> ForkedPython:
    """Start to run a suite; arguments as for `run`."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(suite)
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    cluster = (
        "--kwait-cluster=embedded" if kubeconfig is None else f"--kwait-kubeconfig={kubeconfig}"
    )
    command += [cluster, "--kwait-no-janitor", *options]
    environment = {name: value for name, value in os.environ.items() if name[:6] != "KWAIT_"}
    return start(command, folder, environment)


def start(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    new_session: bool = False,
) -> ForkedPython:
    """Start a command of Python in a fork, with both of its streams as one.

    Args:
        command: the interpreter and its arguments.
        folder: where it runs.
        environment: its environment, by default that of this process.
        new_session: whether it has a process group of its own, which a test can kill.
    """
    return ForkedPython(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=new_session,
    )


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that all workers of this run share; the first one fills it by `make`."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made"
        if not made.exists():
            make(folder)
            made.touch()
    return folder
