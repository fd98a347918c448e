"""The bars of exploring: races that must be found, and correct tests that may never fail.

Run it as `python -m conformance.explore.bars [--workers N] [--seed S] [--runs N]
[--correct-runs N]`; it prints the verdict of each race and of each correct test. `--races` and
`--correct` take one half alone, `-k` the tests that match. Of each race the runs end with the
first that fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
PLANTED = ("planted_tests.py", "planted_operator.py")
CORRECT = ("test_repaired_tests.py", "test_repaired_operator.py", "test_correct_tests.py")
BAR = 0.9
"""The share of the planted races that must be found: 20 of 22."""

_VERDICT = re.compile(r"^(\S.*: (\d+) of (\d+) passed\n(?: +.*\n)*)", re.MULTILINE)


class Verdict(NamedTuple):
    """What exploring has found out about a test."""

    text: str
    passed: int
    runs: int


def main() -> int:
    """Print what was found; exit 1 below a bar."""
    parser = argparse.ArgumentParser(prog="python -m conformance.explore.bars", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=200, help="of each race, at `usual`")
    parser.add_argument("--correct-runs", type=int, default=1000, help="at `gentle`")
    parser.add_argument("-k", default="", help="as pytest's", dest="keyword")
    half = parser.add_mutually_exclusive_group()
    half.add_argument("--races", action="store_true", help="the planted races alone")
    half.add_argument("--correct", action="store_true", help="the correct tests alone")
    given = parser.parse_args()
    held = True
    if not given.correct:
        held = find_races(given)
    if not given.races:
        held = keep_correct(given) and held
    return int(not held)


def find_races(given: argparse.Namespace) -> bool:
    """Explore each planted race until it is found; return whether enough are."""
    races = collect(given, PLANTED)
    found = 0
    for race in races:
        (verdict,) = explore(given, [race], given.runs, "--kwait-explore-level=usual", "-x")
        found += verdict.passed < verdict.runs
        print(verdict.text, flush=True)
    print(f"{found} of {len(races)} races found in at most {given.runs} runs", flush=True)
    return found >= BAR * len(races)


def keep_correct(given: argparse.Namespace) -> bool:
    """Explore the correct tests; return whether none has failed."""
    tests = collect(given, CORRECT)
    kept = 0
    for verdict in explore(given, tests, given.correct_runs, "--kwait-explore-level=gentle"):
        kept += verdict.passed == given.correct_runs
        print(verdict.text)
    print(f"{kept} of {len(tests)} correct tests passed {given.correct_runs} runs")
    return kept == len(tests)


def collect(given: argparse.Namespace, files: tuple[str, ...]) -> list[str]:
    """Return the ids of the tests in these files."""
    paths = [str(FOLDER / file) for file in files]
    command = [*_pytest(), "--collect-only", "-k", given.keyword, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    if not tests:
        sys.exit(done.stdout + done.stderr)
    return tests


def explore(given: argparse.Namespace, tests: list[str], runs: int, *options: str) -> list[Verdict]:
    """Explore tests; return the verdict of each."""
    command = [*_pytest(), f"-n={given.workers}", f"--kwait-explore={runs}"]
    command += [f"--kwait-seed={given.seed}", *options, *tests]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    verdicts = [
        Verdict(text.strip(), int(passed), int(runs))
        for text, passed, runs in _VERDICT.findall(done.stdout)
    ]
    if done.returncode not in (0, 1) or len(verdicts) != len(tests):
        sys.exit(done.stdout + done.stderr)
    return verdicts


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


if __name__ == "__main__":
    sys.exit(main())
