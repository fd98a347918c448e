"""Duration of `e2e/` on the embedded cluster relative to a real one: bar 0.5.

Run it as `python -m benchmarks.e2e_duration KUBECONFIG [ROUNDS]`.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.pairs import measure, seconds

BAR = 0.5


def main() -> int:
    """Print the ratio; exit 1 above the bar."""
    kubeconfig = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    suite = [sys.executable, "-P", "-m", "pytest", "e2e", "-q", "-p", "no:cacheprovider"]
    real = [*suite, "--kwait-cluster=existing", f"--kwait-kubeconfig={kubeconfig}"]

    def run(command: list[str]) -> float:
        return seconds(lambda: subprocess.run(command, check=True, capture_output=True))

    pairs = measure(lambda: run(suite), lambda: run(real), rounds)
    print("the whole of e2e/")
    print(pairs.lines("embedded cluster", "real control plane and kubelet"))
    print(f"  median of paired ratios {pairs.median_ratio:.2f}, bar {BAR}")
    return int(pairs.median_ratio > BAR)


if __name__ == "__main__":
    sys.exit(main())
