"""Record scenarios on a real cluster.

python -m conformance.scenarios.record KUBECONFIG [NAME...] [--times N] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from conformance.recordings import add_record_arguments, select_scripts, write_recording
from conformance.scenarios.player import PlayedScenario, play_scenarios
from conformance.scenarios.recording import merge_runs
from conformance.scenarios.scenario import SCRIPTS, load_scenario
from pytest_kwait.clock import SYSTEM_CLOCK

_LINGER = 5.0


def main() -> None:
    """Write one recording for each scenario."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_record_arguments(parser, SCRIPTS)
    parser.add_argument("--times", type=int, default=6, help="how many runs (default: 6)")
    parser.add_argument("--together", type=int, default=20, help="how many at a time (default: 20)")
    parser.add_argument(
        "--runs", type=Path, help="a folder that keeps the runs, and has earlier ones"
    )
    arguments = parser.parse_args()
    scripts = select_scripts(parser, SCRIPTS, arguments.names)
    with tempfile.TemporaryDirectory() as folder:
        _record(arguments, scripts, arguments.runs or Path(folder))


def _record(arguments: argparse.Namespace, scripts: list[Path], kept: Path) -> None:
    for _ in range(arguments.times):
        began = SYSTEM_CLOCK.monotonic()
        played = play_scenarios(
            arguments.kubeconfig,
            (load_scenario(path.stem) for path in scripts),
            settled=_never,
            linger=_LINGER,
            together=arguments.together,
        )
        took = SYSTEM_CLOCK.monotonic() - began
        sys.stdout.write(f"{took:.0f} s, not over: {', '.join(_open(played)) or 'none'}\n")
        sys.stdout.write(f"  longest: {', '.join(_longest(played))}\n")
        sys.stdout.flush()
        _keep(kept, played)
    for script in scripts:
        runs = [json.loads(path.read_text()) for path in kept.glob(f"{script.stem}@*.json")]
        if runs:
            write_recording(script, merge_runs(runs), sort_keys=True)


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
            text = json.dumps(each.timeline.as_json())
            suffix = each.namespace.rpartition("-")[2]
            (folder / f"{each.scenario.name}@{suffix}.json").write_text(text)


if __name__ == "__main__":
    main()
