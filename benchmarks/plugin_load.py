"""The cost of loading the plugin in a run of one empty test: bar 25 ms.

Run it as `python -m benchmarks.plugin_load [ROUNDS]`. Peer: the same run with this plugin blocked.
CPU time is measured, as it depends less on other load. Each run is a fork of a process that has
run pytest once without the plugin: importing pytest costs several times what is measured, and
varies by more than that.

The bar is for runs without garbage collection. With it, a few hundred objects decide whether one
more collection of everything that pytest has loaded (25 ms) falls into a run, whichever plugin
creates them; that figure is printed too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.children import ChildFailedError, describe_failure
from benchmarks.pairs import Pairs, measure
from benchmarks.rows import Row, run_alone

BAR = 0.025
_OPTIONS = "-q -p no:cacheprovider"
_BLOCKED = f"{_OPTIONS} -p no:kwait"
_FORKS = """
import gc, os, sys

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
collects, blocked = sys.argv[1:]
if collects == "False":
    gc.disable()
import pytest

assert pytest.main(blocked.split()) == 0
for options in sys.stdin:
    child = os.fork()
    if child == 0:
        os._exit(pytest.main(options.split()))
    _, status, used = os.wait4(child, 0)
    assert status == 0
    answers.write(f"{used.ru_utime + used.ru_stime}\\n")
"""


def measure_rows(rounds: int = 40) -> list[Row]:
    """Run pytest with and without the plugin in turns."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")
        usual = _compare(folder, rounds, collects=True)
        bare = _compare(folder, rounds, collects=False)
    for title, pairs in (("as it runs", usual), ("without garbage collection", bare)):
        print(f"one empty test, processor time, {title}")
        print(pairs.lines("with pytest-kwait", "without"))
    return [
        Row("CPU of loading, without collections", bare.median_difference * 1000, BAR * 1000, "ms"),
        Row("CPU of loading, as it runs", usual.median_difference * 1000, None, "ms"),
    ]


def _compare(folder: str, rounds: int, *, collects: bool) -> Pairs:
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is kept, as usual
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _FORKS, str(collects), _BLOCKED],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        requests, answers = forks.stdin, forks.stdout

        def run(options: str) -> float:
            with contextlib.suppress(BrokenPipeError):
                requests.write(f"{options}\n")
                requests.flush()
            answer = answers.readline()
            if not answer:  # its own errors are on standard error
                output = Path(folder, "output").read_text()
                raise ChildFailedError(describe_failure(["pytest", options], forks.wait(), output))
            return float(answer)

        return measure(lambda: run(_OPTIONS), lambda: run(_BLOCKED), rounds)


if __name__ == "__main__":
    run_alone(measure_rows)
