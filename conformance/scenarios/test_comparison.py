"""Differences between a run and its recording."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.scenarios.comparison import compare
from conformance.scenarios.recording import merge_runs


def _run(*lives: list[str], events: tuple[str, ...] = ("Normal Started",)) -> dict[str, Any]:
    """A run with one kind of pod: the milestones of each instance, of which the last stays."""
    instances = [
        {"seen": {each: number for number, each in enumerate(life, 1)}, "now": [life[-1]]}
        for life in lives
    ]
    return {"objects": {"pod/p": instances}, "events": {"pod/p": list(events)}}


RECORDING = merge_runs([_run(["a", "n=1", "b", "n=2"]), _run(["a", "c", "b", "n=2"])])


@pytest.mark.parametrize(
    ("run", "difference"),
    [
        (_run(["a", "b", "n=2"]), ""),
        (_run(["a", "c", "b", "n=1", "n=2"]), ""),
        (_run(["a", "n=2"]), "s: pod/p was never 'b'"),
        (_run(["a", "d", "b", "n=2"]), "s: pod/p was 'd', which it never is"),
        (_run(["b", "a", "n=2"]), "s: pod/p was 'b' before 'a'"),
        (_run(["a", "b", "n=2"], events=()), "s: pod/p has no event 'Normal Started'"),
        (
            _run(["a", "b", "n=2"], events=("Normal Started", "Warning Failed")),
            "s: pod/p has the event 'Warning Failed', which it never has",
        ),
        (
            _run(["a", "b", "n=2"], ["a", "b", "n=2"]),
            "s: pod/p ended as\n     ['n=2', 'n=2']\n  not ['n=2']",
        ),
    ],
)
def test_differences_of_a_run_from_its_recording(run: dict[str, Any], difference: str) -> None:
    assert str(compare("s", RECORDING, run)) == difference


def test_scores() -> None:
    compared = compare("s", RECORDING, _run(["a", "n=2"], events=("Warning Failed",)))
    assert compared.milestones == 3
    assert compared.milestone_score == pytest.approx(2 / 3)
    assert (compared.events, compared.event_score) == (2, 0)
