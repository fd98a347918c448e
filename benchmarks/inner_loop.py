"""One test on a cluster that runs already, as in development: bar 1 s over an empty test.

Run it as `python -m benchmarks.inner_loop [ROUNDS]`. Peer: `pytest` on an empty test, in turn with
a test that creates a config map in a namespace of its own, on the same cluster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.children import run_child
from benchmarks.pairs import Pairs, measure, seconds
from benchmarks.rows import Row, run_alone
from pytest_kwait.clusters.simulator_process import SimulatorProcess

BAR = 1.0
_TEST = """
def test_config_map(kwait):
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert kwait.get("configmap/a")
"""


def measure_rows(rounds: int = 10) -> list[Row]:
    """Run both tests in turns."""
    with TemporaryDirectory() as folder, TemporaryDirectory() as place:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")
        Path(folder, "test_one.py").write_text(_TEST)
        kubeconfig = Path(place, "kubeconfig")
        process = SimulatorProcess(kubeconfig, Path(place, "log"))
        try:
            pairs = _compare(folder, f"--kwait-kubeconfig={kubeconfig}", rounds)
        finally:
            process.stop()
    print("one test on a running cluster")
    print(pairs.lines("pytest test_one.py", "pytest test_empty.py"))
    return [Row("one test, above an empty test", pairs.median_difference, BAR, "s")]


def _compare(folder: str, option: str, rounds: int) -> Pairs:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual

    def run(*arguments: str) -> None:
        run_child([*command, *arguments], cwd=folder, env=environment)

    return measure(
        lambda: seconds(lambda: run("test_one.py", option)),
        lambda: seconds(lambda: run("test_empty.py")),
        rounds,
    )


if __name__ == "__main__":
    run_alone(measure_rows)
