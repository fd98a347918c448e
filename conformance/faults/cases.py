"""Cases of waits that meet faults, and their trials, which share the object of their family."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.faults.family import Family, Place
    from conformance.faults.trial import Trial, Trials
    from tools.fault_proxy.faults import Fault

TIMEOUT = 200.0
"""The timeout of a wait that is met or refused, in seconds."""

OUTAGE = 0.4
"""Seconds in which no connection comes about."""


@dataclass(frozen=True)
class Case:
    """One wait that meets one fault.

    Args:
        kind: its family.
        fault: the fault.
        moment: when it meets the fault, where a test has several.
    """

    kind: type[Family]
    fault: Fault
    moment: str = ""

    def __str__(self) -> str:
        title = f"{self.kind.title}: {self.fault.title}"
        return f"{title}, {self.moment}" if self.moment else title


@contextmanager
def tried(
    cases: Sequence[Case], trials: Trials, place: Place
) -> Iterator[list[tuple[Case, Trial]]]:
    """Yield a trial of each case; one object serves all cases of a family that can share it."""
    with ExitStack() as stack:
        made: dict[type[Family], Family] = {}
        families = []
        for number, case in enumerate(cases):
            family = made.get(case.kind)
            if family is None or not case.kind.shared:
                family = made[case.kind] = case.kind(place, f"object-{number}")
                stack.callback(family.dispose)
            families.append(family)
        yield list(zip(cases, stack.enter_context(trials.of(*families)), strict=True))


def fulfill(waits: Sequence[tuple[Case, Trial]]) -> None:
    """Make the conditions true."""
    for family in dict.fromkeys(trial.family for _, trial in waits):
        family.fulfill()


def ends(waits: Sequence[tuple[Case, Trial]]) -> dict[str, str]:
    """Return the error or verdict of each wait, once it has ended."""
    outcomes = [(case, trial.outcome(TIMEOUT + 10)) for case, trial in waits]
    return {str(case): str(outcome.error or outcome.verdict) for case, outcome in outcomes}
