"""Play all scenarios several times and print how far each run equals the recording.

python -m conformance.scenarios.score [NAME...] [--kubeconfig FILE] [--times N]
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import reduce
from operator import add
from pathlib import Path

from conformance.scenarios.comparison import Comparison
from conformance.scenarios.scenario import list_names
from conformance.scenarios.stage import EVENTS, MILESTONES, Stage, play_once
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.clusters.provider import EmbeddedProvider


def main() -> int:
    """Print the scores of each play; return 1 if one is too low."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="the scenarios (default: all)")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        default=os.environ.get("KWAIT_KUBECONFIG"),
        help="the cluster (default: KWAIT_KUBECONFIG, else an embedded one)",
    )
    parser.add_argument("--times", type=int, default=3, help="how many times (default: 3)")
    arguments = parser.parse_args()
    if arguments.kubeconfig:
        return _score(Path(arguments.kubeconfig), arguments.names or list_names(), arguments.times)
    cluster = EmbeddedProvider().start()
    try:
        return _score(cluster.kubeconfig, arguments.names or list_names(), arguments.times)
    finally:
        cluster.stop()


def _score(kubeconfig: Path, wanted: list[str], times: int) -> int:
    good = True
    for time in range(1, times + 1):
        began = SYSTEM_CLOCK.monotonic()
        stage = Stage(play_once(kubeconfig, wanted))
        took = SYSTEM_CLOCK.monotonic() - began
        result = reduce(add, map(stage.compared, wanted), Comparison())
        missing = [
            f"{name} is not over: {stage.missing(name)}" for name in wanted if stage.missing(name)
        ]
        sys.stdout.write("\n".join([*missing, *filter(None, [str(result)])]) + "\n")
        sys.stdout.write(
            f"{time}: {len(wanted)} scenarios in {took:.0f} s,"
            f" milestones {result.milestone_score:.2%} of {result.milestones},"
            f" event reasons {result.event_score:.2%} of {result.events},"
            f" other ends {len(result.end_faults)}\n"
        )
        sys.stdout.flush()
        good &= result.milestone_score >= MILESTONES and result.event_score >= EVENTS
        good &= not (missing or result.end_faults)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
