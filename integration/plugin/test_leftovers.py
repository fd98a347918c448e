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
from tests.forked_python import ForkedPython, stop_fork_server
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


@pytest.fixture(scope="module", autouse=True)
def _fork_server() -> Iterator[None]:
    yield
    stop_fork_server()


_NOTE = """
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
"""
_WAITING = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_waits(kwait, number):
    kwait.apply(NOTE)
    Path("waiting").touch()
    kwait.wait_for("configmap/other", "create", timeout="2m")
"""
_ENVIRONMENT = """
from pathlib import Path
import pytest_kwait

@pytest_kwait.environment(scope="session")
def shop(kwait):
    kwait.apply(NOTE)
    Path("waiting").touch()
    kwait.wait_for("configmap/other", "create", timeout="2m")
    yield

def test_one(shop): pass

def test_two(shop): pass
"""
_OPERATOR = """
import os, sys
from pathlib import Path
import pytest, pytest_kwait

@pytest.fixture(scope="session")
def kwait_images():
    program = "import time; time.sleep(600)"
    return {"operator:1": [sys.executable, "-c", program, os.environ["MARK"]]}

@pytest_kwait.environment(scope="run")
def operator(kwait):
    container = {"name": "operator", "image": "operator:1"}
    kwait.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator"},
                 "spec": {"containers": [container]}})
    kwait.wait_for_pod_running("operator")
    yield kwait

@pytest.mark.parametrize("number", [1, 2])
def test_waits(operator, kwait, number):
    Path("waiting").touch()
    END
"""
_WAITS = 'kwait.wait_for("configmap/other", "create", timeout="2m")'
_DIES = "os.kill(os.getpid(), 9)"
_CTRL_C, _TWICE, _TERMINATED = (
    (signal.SIGINT,),
    (signal.SIGINT, signal.SIGINT),
    (signal.SIGTERM,),
)
_WORKERS = ("-n2", "--max-worker-restart=0")
_RECORDING = ("--kwait-record=always", "--kwait-artifacts=artifacts")
_ENDS: dict[str, tuple[str, tuple[str, ...], tuple[signal.Signals, ...]]] = {
    "environment": (_ENVIRONMENT, (), _CTRL_C),
    "environment, workers": (_ENVIRONMENT, _WORKERS, _CTRL_C),
    "environment, Ctrl-C twice": (_ENVIRONMENT, (), _TWICE),
    "environment, workers, Ctrl-C twice": (_ENVIRONMENT, _WORKERS, _TWICE),
    "environment, SIGTERM": (_ENVIRONMENT, (), _TERMINATED),
    "environment, workers, SIGTERM": (_ENVIRONMENT, _WORKERS, _TERMINATED),
    "exploration": (_WAITING, ("--kwait-explore=3",), _CTRL_C),
    "exploration, workers": (_WAITING, ("--kwait-explore=3", *_WORKERS), _CTRL_C),
    "recording": (_WAITING, _RECORDING, _CTRL_C),
    "recording, workers, Ctrl-C twice": (_WAITING, (*_RECORDING, *_WORKERS), _TWICE),
    "operator": (_OPERATOR.replace("END", _WAITS), (), _CTRL_C),
    "operator, workers, Ctrl-C twice": (_OPERATOR.replace("END", _WAITS), _WORKERS, _TWICE),
    "operator, SIGTERM": (_OPERATOR.replace("END", _WAITS), (), _TERMINATED),
    "operator, killed workers": (_OPERATOR.replace("END", _DIES), _WORKERS, ()),
}
"""What a run is doing, its options, and the signals that it gets then."""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
@pytest.mark.parametrize("ending", _ENDINGS)
def test_a_run_on_the_embedded_cluster_leaves_nothing(
    tmp_path: Path, temporary: Path, ending: str, workers: tuple[str, ...]
) -> None:
    body, status = _ENDINGS[ending]
    # One of them as users start it; the others are forks, which start in a tenth of the time.
    new_interpreters = ending == "interrupted" and bool(workers)
    _run(tmp_path, temporary, body, status, *workers, new_interpreters=new_interpreters)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_a_run_with_a_killed_worker_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    body = "import os; os.kill(os.getpid(), 9)"
    _run(tmp_path, temporary, body, 1, "-n2", "--max-worker-restart=0")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
@pytest.mark.parametrize("end", _ENDS)
def test_a_run_that_ends_in_the_middle_leaves_nothing(
    tmp_path: Path, temporary: Path, end: str
) -> None:
    suite, options, signals = _ENDS[end]
    process = _start(tmp_path, temporary, _NOTE + suite, *options)
    waiting = tmp_path / "suite" / "waiting"
    wait.poll_immediate(0.02, 120, lambda: waiting.exists() or process.poll() is not None)
    assert process.poll() is None or not signals
    for number in signals:
        if number is signal.SIGTERM:  # as of a CI system, to the run alone
            process.terminate()
        else:
            os.killpg(process.pid, number)
    output = process.communicate(timeout=180)[0]

    if signals == _CTRL_C:
        assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    _check_nothing_is_left(temporary, output)
    partial = [path for path in (tmp_path / "suite").rglob("*") if path.suffix in (".part", ".new")]
    assert partial == []


def _run(
    tmp_path: Path,
    temporary: Path,
    body: str,
    status: int,
    *options: str,
    new_interpreters: bool = False,
) -> None:
    """Run the suite, and check what it leaves.

    Args:
        body: the end of its second test; the run is interrupted once it has made `waiting`.
        status: the expected exit status.
        options: for pytest.
        new_interpreters: whether its processes are no forks.
    """
    text = _SUITE.replace("ENDING", body)
    process = _start(tmp_path, temporary, text, *options, new_interpreters=new_interpreters)
    if status == pytest.ExitCode.INTERRUPTED:
        waiting = tmp_path / "suite" / "waiting"
        wait.poll_immediate(0.02, 120, lambda: waiting.exists() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=180)[0]

    assert process.returncode == status, output
    _check_nothing_is_left(temporary, output)


def _start(
    tmp_path: Path, temporary: Path, text: str, *options: str, new_interpreters: bool = False
) -> ForkedPython | subprocess.Popen[str]:
    """Start pytest on a suite, in a process group of its own."""
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "pytest.ini").write_text("[pytest]\n")
    (suite / "test_it.py").write_text(text)
    start = subprocess.Popen[str] if new_interpreters else ForkedPython
    return start(
        [sys.executable, "-P", "-c", _RUN, "-q", *options, f"--basetemp={tmp_path / 'base'}"],
        cwd=suite,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "PYTEST_ADDOPTS": "",
            "MARK": str(temporary),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def _check_nothing_is_left(temporary: Path, output: str) -> None:
    """Check that no process and no file is left.

    The cluster of an interrupted run ends with its pipe, a moment after the run.
    """
    wait.poll_immediate(0.02, 30, lambda: not find_processes(temporary))
    wait.poll_immediate(0.02, 30, lambda: not _find_programs(temporary))
    assert list(temporary.iterdir()) == [], output


def _find_programs(temporary: Path) -> list[str]:
    """Return the programs of pods that run: they have no environment of this run."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            commands.append((process / "cmdline").read_bytes().split(b"\0"))
        except OSError:  # it has just ended
            continue
    return [str(command) for command in commands if str(temporary).encode() in command]
