"""One test on a cluster that runs already, as in development: bar 1 s over an empty test.

Run it as `python -m benchmarks.inner_loop [ROUNDS]`. Peer: `pytest` on an empty test, in turn with
a test that creates a config map in a namespace of its own, on the same cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.pairs import Pairs, measure, seconds
from pytest_kwait.clusters.simulator_process import SimulatorProcess

BAR = 1.0
_TEST = """
def test_config_map(kwait):
    kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert kwait.get("configmap/a")
"""


def main() -> int:
    """Print the difference; exit 1 above the bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
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
    print(f"  median of paired differences {pairs.median_difference:.2f} s; bar {BAR:g} s")
    return int(pairs.median_difference > BAR)


def _compare(folder: str, option: str, rounds: int) -> Pairs:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual

    def run(*arguments: str) -> None:
        subprocess.run(
            [*command, *arguments], cwd=folder, check=True, capture_output=True, env=environment
        )

    return measure(
        lambda: seconds(lambda: run("test_one.py", option)),
        lambda: seconds(lambda: run("test_empty.py")),
        rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
