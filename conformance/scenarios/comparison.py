"""Compare a run of a scenario with its recording: missing, extra, early or different milestones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.scenarios.recording import get_end
from conformance.scenarios.timeline import parse_count

if TYPE_CHECKING:
    from conformance.scenarios.recording import Recording, Run


@dataclass
class Comparison:
    """The differences between one run and the recording."""

    milestones: int = 0
    """All that were expected or observed."""
    events: int = 0
    milestone_faults: list[str] = field(default_factory=list)
    event_faults: list[str] = field(default_factory=list)
    end_faults: list[str] = field(default_factory=list)
    missing: int = 0
    """The number of milestones and events that may still come."""

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(
            self.milestones + other.milestones,
            self.events + other.events,
            self.milestone_faults + other.milestone_faults,
            self.event_faults + other.event_faults,
            self.end_faults + other.end_faults,
            self.missing + other.missing,
        )

    @property
    def settled(self) -> bool:
        """Return whether more time could not remove any difference."""
        return not (self.missing or self.end_faults)

    @property
    def milestone_score(self) -> float:
        """The share of equal milestones, from 0 to 1."""
        return 1 - len(self.milestone_faults) / max(self.milestones, 1)

    @property
    def event_score(self) -> float:
        """The share of equal events, from 0 to 1."""
        return 1 - len(self.event_faults) / max(self.events, 1)

    def __str__(self) -> str:
        return "\n".join(self.end_faults + self.milestone_faults + self.event_faults)


def compare(name: str, recording: Recording, run: Run) -> Comparison:
    """Compare a run of the scenario of that name with its recording."""
    result = Comparison()
    for key in sorted(recording["objects"].keys() | run["objects"].keys()):
        wanted = recording["objects"].get(key, {"always": {}, "sometimes": [], "ends": [[]]})
        _compare_object(f"{name}: {key}", wanted, run["objects"].get(key, []), result)
    for key in sorted(recording["events"].keys() | run["events"].keys()):
        expected = recording["events"].get(key, {"always": [], "sometimes": []})
        _compare_events(f"{name}: {key}", expected, set(run["events"].get(key, ())), result)
    return result


def _compare_object(
    what: str, wanted: dict[str, Any], instances: list[dict[str, Any]], result: Comparison
) -> None:
    always, sometimes = wanted["always"], set(wanted["sometimes"])
    seen = {milestone for each in instances for milestone in each["seen"]}
    result.milestones += len(always.keys() | seen)
    result.missing += len(always.keys() - seen)
    result.milestone_faults += [
        f"{what} was never '{each}'" for each in sorted(always.keys() - seen)
    ]
    for milestone in sorted(seen - always.keys() - sometimes):
        if not _between(milestone, always.keys() | sometimes):
            result.milestone_faults.append(f"{what} was '{milestone}', which it never is")
    for milestone in sorted(always.keys() & seen):
        early = _early(milestone, always[milestone], instances)
        if early:
            result.milestone_faults.append(f"{what} was '{milestone}' before '{early}'")
    end = get_end(instances)
    if end not in wanted["ends"]:
        ends = "\n  or ".join(str(each) for each in wanted["ends"])
        result.end_faults.append(f"{what} ended as\n     {end}\n  not {ends}")


def _between(milestone: str, known: set[str]) -> bool:
    """Return whether it is an intermediate count of a known counter."""
    counted = parse_count(milestone)
    if counted is None:
        return False
    numbers = [
        other[1] for each in known if (other := parse_count(each)) and other[0] == counted[0]
    ]
    return bool(numbers) and counted[1] <= max(numbers)


def _early(milestone: str, before: list[str], instances: list[dict[str, Any]]) -> str:
    """Return a milestone that came after it but must come before it; empty if none.

    Milestones of the same observation have no order: a watch may skip a state.
    """
    for instance in instances:
        life = instance["seen"]
        for other in before:
            if milestone in life and other in life and life[milestone] < life[other]:
                return other
    return ""


def _compare_events(
    what: str, wanted: dict[str, list[str]], observed: set[str], result: Comparison
) -> None:
    always, sometimes = set(wanted["always"]), set(wanted["sometimes"])
    result.events += len(always | observed)
    result.missing += len(always - observed)
    result.event_faults += [f"{what} has no event '{each}'" for each in sorted(always - observed)]
    result.event_faults += [
        f"{what} has the event '{each}', which it never has"
        for each in sorted(observed - always - sometimes)
    ]
