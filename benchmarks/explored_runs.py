"""Explored runs of a test of two seconds: bar 1.2 times that many plain runs, over the workers.

Run it as `python -m benchmarks.explored_runs [RUNS] [WORKERS]`.

Ours: RUNS explored runs (200) at the level `usual`, over WORKERS (2), with the start of everything.
Peer: a run of the same test without exploring, in one process whose start does not count. For 200
runs of 2 s over two workers the bar is 240 s.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.children import run_child
from benchmarks.pairs import seconds
from benchmarks.rows import Row, run_alone

BAR = 1.2
PLAIN_RUNS = 11
_TEST = """
import pytest
from pytest_kwait.clock import SYSTEM_CLOCK

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
    "terminationGracePeriodSeconds": 0,
    "containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "300"]}]}}

def check(kwait):
    began = SYSTEM_CLOCK.monotonic()
    kwait.create(POD)
    kwait.wait_for_pod_ready("web")
    kwait.delete_and_wait("pod/web")
    SYSTEM_CLOCK.sleep(2 - (SYSTEM_CLOCK.monotonic() - began))
"""
_EXPLORED = "def test_pod(kwait): check(kwait)\n"
_PLAIN = """
@pytest.mark.parametrize("number", range({runs}))
def test_pod(kwait, number): check(kwait)
"""


def measure_rows(runs: int = 200, workers: int = 2) -> list[Row]:
    """Run the test plainly, then explored."""
    with TemporaryDirectory() as folder:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        Path(folder, "test_explored.py").write_text(_TEST + _EXPLORED)
        Path(folder, "test_plain.py").write_text(_TEST + _PLAIN.format(runs=PLAIN_RUNS))
        explore = (f"-n={workers}", f"--kwait-explore={runs}", "--kwait-seed=1")

        first = seconds(lambda: _run(folder, "test_plain.py", "-p", "no:xdist", "-k", "[0]"))
        all_plain = seconds(lambda: _run(folder, "test_plain.py", "-p", "no:xdist"))
        ours = seconds(lambda: _run(folder, "test_explored.py", *explore))
    peer = (all_plain - first) / (PLAIN_RUNS - 1)
    ratio = ours / (runs * peer / workers)
    print(f"{runs} explored runs of a test of 2 s over {workers} workers")
    print(f"  explored {ours:.0f} s, plain {peer:.2f} s a run")
    return [Row("duration, of as many plain runs over the workers", ratio, BAR)]


def _run(folder: str, *arguments: str) -> None:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name[:6] != "KWAIT_"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual
    run_child([*command, "--kwait-cluster=embedded"], cwd=folder, env=environment)


if __name__ == "__main__":
    run_alone(measure_rows)
