"""What loading the plugin adds to a run of one empty test: bar 10 ms.

Run it as `python -m benchmarks.plugin_load [ROUNDS]`.

Peer: the same run with pytest + pytest-xdist + pytest-timeout and this plugin blocked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.pairs import measure, seconds

BAR = 0.010


def main() -> int:
    """Print the difference; exit 1 above the bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")

        def run(*options: str) -> float:
            command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            return seconds(
                lambda: subprocess.run(
                    [*command, *options], cwd=folder, check=True, capture_output=True
                )
            )

        pairs = measure(lambda: run(), lambda: run("-p", "no:kwait"), rounds)
    print("one empty test")
    print(pairs.lines("with pytest-kwait", "without (-p no:kwait)"))
    print(f"  median of paired differences {pairs.median_difference * 1000:.2f} ms, bar 10 ms")
    return int(pairs.median_difference > BAR)


if __name__ == "__main__":
    sys.exit(main())
