"""Duration of `e2e/` on the embedded cluster relative to a real one: bar 0.5.

Run it as `python -m benchmarks.e2e_duration [KUBECONFIG [ROUNDS]]`; without a kubeconfig (or with
`-`) on the cluster of `python -m tools.controlplane run -- python -m benchmarks.e2e_duration`.
"""

from __future__ import annotations

import os
import sys

from benchmarks.children import run_child
from benchmarks.pairs import measure, seconds
from benchmarks.rows import CannotMeasureError, Row, run_alone

BAR = 0.5


def measure_rows(kubeconfig: str = "-", rounds: int = 3) -> list[Row]:
    """Run e2e/ on both in turns.

    Raises:
        CannotMeasureError: there is no real cluster.
    """
    kubeconfig = os.environ.get("KWAIT_KUBECONFIG", "-") if kubeconfig == "-" else kubeconfig
    if kubeconfig == "-":
        raise CannotMeasureError(
            "no real cluster: python -m tools.controlplane run -- python -m benchmarks e2e_duration"
        )
    suite = [sys.executable, "-P", "-m", "pytest", "e2e", "-q", "-p", "no:cacheprovider"]
    embedded = [*suite, "--kwait-cluster=embedded"]
    real = [*suite, "--kwait-cluster=existing", f"--kwait-kubeconfig={kubeconfig}"]

    environment = {name: value for name, value in os.environ.items() if name != "KWAIT_KUBECONFIG"}

    def run(command: list[str]) -> float:
        return seconds(lambda: run_child(command, env=environment))

    pairs = measure(lambda: run(embedded), lambda: run(real), rounds)
    print("the whole of e2e/")
    print(pairs.lines("embedded cluster", "real control plane and kubelet"))
    return [Row("duration, of a real cluster's", pairs.median_ratio, BAR)]


if __name__ == "__main__":
    run_alone(measure_rows)
