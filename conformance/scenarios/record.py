"""Record scenarios on a real cluster.

python -m conformance.scenarios.record KUBECONFIG [NAME...] [--times N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from conformance.scenarios.player import PlayedScenario, play_scenarios
from conformance.scenarios.recording import merge_runs, write_recording
from conformance.scenarios.scenario import RECORDINGS, list_names, load_scenario
from pytest_kwait.clock import SYSTEM_CLOCK

_LINGER = 5.0


def main() -> None:
    """Write one recording for each scenario."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("names", nargs="*", help="the scenarios (default: all)")
    parser.add_argument("--times", type=int, default=6, help="how many runs (default: 6)")
    parser.add_argument("--together", type=int, default=20, help="how many at a time (default: 20)")
    parser.add_argument(
        "--runs", type=Path, help="a folder that keeps the runs, and has earlier ones"
    )
    arguments = parser.parse_args()
    wanted = arguments.names or list_names()
    for _ in range(arguments.times):
        began = SYSTEM_CLOCK.monotonic()
        played = play_scenarios(
            arguments.kubeconfig,
            map(load_scenario, wanted),
            settled=_never,
            linger=_LINGER,
            together=arguments.together,
        )
        took = SYSTEM_CLOCK.monotonic() - began
        sys.stdout.write(f"{took:.0f} s, not over: {', '.join(_open(played)) or 'none'}\n")
        sys.stdout.write(f"  longest: {', '.join(_longest(played))}\n")
        sys.stdout.flush()
        _keep(arguments.runs, played)
    RECORDINGS.mkdir(exist_ok=True)
    for name in wanted:
        runs = [json.loads(path.read_text()) for path in arguments.runs.glob(f"{name}@*.json")]
        if runs:
            write_recording(RECORDINGS / f"{name}.json", merge_runs(runs))


def _never(_: PlayedScenario) -> bool:
    return False


def _open(played: list[PlayedScenario]) -> list[str]:
    return [f"{each.scenario.name} ({each.missing})" for each in played if each.over_at is None]


def _longest(played: list[PlayedScenario]) -> list[str]:
    took = {each.scenario.name: (each.over_at or 0) - each.began_at for each in played}
    return [f"{name} {took[name]:.0f} s" for name in sorted(took, key=took.__getitem__)[:-9:-1]]


def _keep(folder: Path, played: list[PlayedScenario]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in played:
        if each.over_at is not None:
            text = json.dumps(each.story.as_json())
            suffix = each.namespace.rpartition("-")[2]
            (folder / f"{each.scenario.name}@{suffix}.json").write_text(text)


if __name__ == "__main__":
    main()
