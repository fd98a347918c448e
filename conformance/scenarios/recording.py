"""Recordings: the timeline of a scenario on a real cluster, merged from several runs."""

from __future__ import annotations

import re
from typing import Any

from conformance.scenarios.timeline import parse_count

Recording = dict[str, Any]
Run = dict[str, Any]
"""`Timeline.as_json()` of one run."""
_PULL = re.compile(r"waiting (ErrImagePull|ImagePullBackOff)")
"""Reasons that alternate forever."""
_SANDBOX = re.compile(r"PodReadyToStartContainers=\w+; (?=.*phase=(Succeeded|Failed))")
"""Becomes false when the kubelet removes the sandbox of a pod that has ended."""
_TWICE = frozenset(
    {"PodReadyToStartContainers=False", "Ready=False ContainersNotReady"}
    | {"ContainersReady=False ContainersNotReady"}
)
"""Initial states that may return: a watch that misses the first time sees another order."""


def get_end(instances: list[dict[str, Any]]) -> list[str]:
    """Return the final states of the objects of one name; deleted ones count as one."""
    ends = ["; ".join(each["now"]) for each in instances]
    deleted = ["gone"] if "gone" in ends else []
    return deleted + sorted(map(_steady, (end for end in ends if end != "gone")))


def _steady(end: str) -> str:
    return _SANDBOX.sub("", _PULL.sub("waiting for its image", end))


def merge_runs(runs: list[Run]) -> Recording:
    """Return the recording of these runs."""
    keys = sorted({key for run in runs for key in run["objects"]})
    keys = sorted({key for run in runs for key in run["events"]})
    return {
        "runs": len(runs),
        "objects": {key: _object([run["objects"].get(key, []) for run in runs]) for key in keys},
        "events": {key: _events([set(run["events"].get(key, ())) for run in runs]) for key in keys},
    }


def _events(runs: list[set[str]]) -> dict[str, list[str]]:
    always, ever = set.intersection(*runs), set.union(*runs)
    return {"always": sorted(always), "sometimes": sorted(ever - always)}


def _object(runs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    seen = [{milestone for each in run for milestone in each["seen"]} for run in runs]
    always, ever = set.intersection(*seen), set.union(*seen)
    passing = _passing(ever, runs)
    always -= passing
    lifetimes = [each["seen"] for run in runs for each in run]
    return {
        "always": {
            milestone: _latest(_before(milestone, ever - passing, lifetimes), always, lifetimes)
            for milestone in sorted(always)
        },
        "sometimes": sorted(ever - always),
        "ends": [list(end) for end in sorted({tuple(get_end(run)) for run in runs})],
    }


def _passing(ever: set[str], runs: list[list[dict[str, Any]]]) -> set[str]:
    """Return counts that are no object's last; a watch may miss them."""
    last = {milestone for run in runs for each in run for milestone in each["now"]}
    return {milestone for milestone in ever - last if parse_count(milestone)}


def _before(milestone: str, ever: set[str], lifetimes: list[dict[str, int]]) -> set[str]:
    """Return the milestones that precede it in each lifetime with both, and in at least one."""
    found: set[str] = set()
    if milestone in _TWICE:
        return found
    for other in ever - {milestone} - _TWICE:
        both = [life for life in lifetimes if milestone in life and other in life]
        if both and all(life[other] < life[milestone] for life in both):
            found.add(other)
    return found


def _latest(before: set[str], always: set[str], lifetimes: list[dict[str, int]]) -> list[str]:
    """Return the latest of `before`: the others precede one that always comes."""
    return sorted(
        each
        for each in before
        if not any(
            each in _before(other, {each}, lifetimes) for other in (before & always) - {each}
        )
    )
