"""What loading the plugin adds to a run of one empty test: bar 10 ms.

Run it as `python -m benchmarks.plugin_load [ROUNDS]`. Peer: the same run with
this plugin blocked. The processor's time is measured, which a busy machine disturbs less. Garbage
collection is off in both runs: whether one more collection of everything that pytest has loaded
falls into a run (25 ms) depends on a few hundred objects, whoever makes them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.pairs import measure

BAR = 0.010


def main() -> int:
    """Print the difference; exit 1 above the bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")
        program = "import gc, sys; gc.disable(); import pytest; sys.exit(pytest.main())"
        command = [sys.executable, "-P", "-c", program, "-q", "-p", "no:cacheprovider"]
        environment = dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual

        def run(*options: str) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [*command, *options], cwd=folder, check=True, capture_output=True, env=environment
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        pairs = measure(lambda: run(), lambda: run("-p", "no:kwait"), rounds)
    print("one empty test, processor time")
    print(pairs.lines("with pytest-kwait", "without"))
    print(f"  median of paired differences {pairs.median_difference * 1000:.2f} ms, bar 10 ms")
    return int(pairs.median_difference > BAR)


if __name__ == "__main__":
    sys.exit(main())
