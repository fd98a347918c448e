"""Play all scenarios once per pytest run, across all workers."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

from conformance.recordings import read_recording
from conformance.scenarios.comparison import Comparison, compare
from conformance.scenarios.player import PlayedScenario, play_scenarios
from conformance.scenarios.scenario import SCRIPTS, load_scenario
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from conformance.scenarios.recording import Run

MILESTONES = 0.97
EVENTS = 0.97
_LINGER = 30.0
_BRIEFLY = 5.0
"""Seconds to wait for skipped milestones when the end is as recorded."""


class Stage:
    """The observed timeline of each scenario.

    Args:
        runs: the timeline, and the missing milestones, of each scenario.
    """

    def __init__(self, runs: dict[str, dict[str, Any]]) -> None:
        self._runs = runs

    @property
    def names(self) -> list[str]:
        """The names of the played scenarios."""
        return sorted(self._runs)

    def run(self, name: str) -> Run:
        """Return the timeline of a scenario."""
        run: Run = self._runs[name]["run"]
        return run

    def missing(self, name: str) -> list[str]:
        """Return the milestones that a scenario still waited for."""
        missing: list[str] = self._runs[name]["missing"]
        return missing

    def describe(self, name: str) -> str:
        """Return the timeline of a scenario as text."""
        return json.dumps(self.run(name), indent=1)

    def compared(self, name: str) -> Comparison:
        """Return the comparison of a scenario with its recording."""
        return compare(name, read_recording(SCRIPTS / f"{name}.yaml"), self.run(name))


def play_once(kubeconfig: Path, wanted: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Play the scenarios; return the argument of `Stage`."""
    recordings = {name: read_recording(SCRIPTS / f"{name}.yaml") for name in wanted}

    def settled(played: PlayedScenario) -> bool:
        name = played.scenario.name
        compared = compare(name, recordings[name], played.timeline.as_json())
        lingered = SYSTEM_CLOCK.monotonic() - (played.over_at or 0.0)
        return compared.settled or (lingered > _BRIEFLY and not compared.end_faults)

    everything = play_scenarios(
        kubeconfig, map(load_scenario, recordings), settled=settled, linger=_LINGER
    )
    unplayed = {"run": {"objects": {}, "events": {}}, "missing": ["its turn"]}
    return dict.fromkeys(recordings, unplayed) | {
        each.scenario.name: {
            "run": each.timeline.as_json(),
            "missing": [] if each.over_at is not None else each.missing,
        }
        for each in everything
    }


def get_stage(folder: Path, kubeconfig: Path, wanted: Iterable[str]) -> Stage:
    """Return the stage of this pytest run; the first worker plays, the others wait.

    Args:
        folder: a folder that all workers share.
        kubeconfig: the cluster.
        wanted: the names of the scenarios.
    """
    seen = folder / "scenarios.json"
    with (folder / "scenarios.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not seen.exists():
            text = json.dumps(play_once(kubeconfig, wanted))
            seen.with_suffix(".part").write_text(text)
            seen.with_suffix(".part").rename(seen)
    return Stage(json.loads(seen.read_text()))
