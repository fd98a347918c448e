"""The cost of loading the plugin in a run of one empty test: bar 10 ms.

Run it as `python -m benchmarks.plugin_load [ROUNDS]`. Peer: the same run with this plugin blocked.
CPU time is measured, as it depends less on other load.

The bar is for runs without garbage collection. With it, a few hundred objects decide whether one
more collection of everything that pytest has loaded (25 ms) falls into a run, whichever plugin
creates them; that figure is printed too.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.pairs import Pairs, measure

BAR = 0.010
_PROGRAM = "import gc, sys; {setup}; import pytest; sys.exit(pytest.main())"


def main() -> int:
    """Print the difference; exit 1 above the bar."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")
        usual = _compare(folder, rounds, "gc.enable()")
        bare = _compare(folder, rounds, "gc.disable()")
    for title, pairs in (("as it runs", usual), ("without garbage collection", bare)):
        print(f"one empty test, processor time, {title}")
        print(pairs.lines("with pytest-kwait", "without"))
        print(f"  median of paired differences {pairs.median_difference * 1000:.2f} ms")
    print("bar 10 ms without garbage collection")
    return int(bare.median_difference > BAR)


def _compare(folder: str, rounds: int, setup: str) -> Pairs:
    program = _PROGRAM.format(setup=setup)
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

    return measure(lambda: run(), lambda: run("-p", "no:kwait"), rounds)


if __name__ == "__main__":
    sys.exit(main())
