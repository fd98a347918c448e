"""Whichever way a run ends: no file in the folder for temporary files, and no process, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from tests.leftovers import find_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUITE = """
from pathlib import Path

def test_passes(kwait):
    kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})

def test_ends(kwait, wait_for):
    kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
    ENDING
"""
# A job in the background of a shell ignores Ctrl-C, and so would what it starts.
_RUN = """
import signal, sys, pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(pytest.main(sys.argv[1:]))
"""
_ENDINGS = {
    "passed": ("assert kwait.get('configmap/settings')", 0),
    "failed": ("wait_for('configmap/other', 'create', timeout='100ms')", 1),
    "interrupted": (
        "Path('waiting').touch(); wait_for('configmap/other', 'create', timeout='2m')",
        2,
    ),
}


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files, by whose name processes are found, too."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    for process in find_processes(folder):
        os.kill(process, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
@pytest.mark.parametrize("ending", _ENDINGS)
def test_a_run_on_the_embedded_cluster_leaves_nothing(
    tmp_path: Path, temporary: Path, ending: str, workers: tuple[str, ...]
) -> None:
    body, status = _ENDINGS[ending]
    _run(tmp_path, temporary, body, status, *workers)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_a_run_with_a_killed_worker_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    body = "import os; os.kill(os.getpid(), 9)"
    _run(tmp_path, temporary, body, 1, "-n2", "--max-worker-restart=0")


def _run(tmp_path: Path, temporary: Path, body: str, status: int, *options: str) -> None:
    """Run the suite, and check what it leaves.

    Args:
        body: the end of its second test; the run is interrupted once it has made `waiting`.
        status: the expected exit status.
        options: for pytest.
    """
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_it.py").write_text(_SUITE.replace("ENDING", body))
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN, "-q", *options, f"--basetemp={tmp_path / 'base'}"],
        cwd=suite,
        env={**os.environ, "TMPDIR": str(temporary), "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        if status == pytest.ExitCode.INTERRUPTED:
            waiting = suite / "waiting"
            wait.poll_immediate(0.02, 120, lambda: waiting.exists() or process.poll() is not None)
            os.killpg(process.pid, signal.SIGINT)
        output = process.communicate(timeout=180)[0]

    assert process.returncode == status, output
    # An interrupted run's cluster ends with its pipe, a moment after the run.
    wait.poll_immediate(0.02, 30, lambda: not find_processes(temporary))
    assert list(temporary.iterdir()) == [], output
