"""Costs of waits, counted at the proxy, and their end under lasting faults.

Two requests per watched resource, a few more for what breaks, and no storm ever.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from e2e.faults.core_families import CORE_FAMILIES, POLL, CacheWait, Family, PolledJobWait
from e2e.faults.trial import TRIES, ProcessStalls, ends_at_its_limit
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.fault_proxy.faults import FAULTS, RESET, SILENCES, TOO_BUSY, TOO_OLD, Fault

if TYPE_CHECKING:
    from e2e.faults.core_families import Place
    from e2e.faults.trial import Outcome, Trial, Trials

LIMIT = 1.0
"""Seconds that a wait is given when nothing comes of it."""

OF_A_SLOW_CLUSTER = frozenset({"get nodes/proxy/pods", "list events"})
QUIET = 1.1
"""Seconds after which a watch that breaks has proved itself, and goes on where it was."""

TIMEOUT = 120.0

RATE = 8.0
"""Requests per second that each watched resource may cost while everything fails."""

PAIRS = tuple(CORE_FAMILIES[start : start + 2] for start in range(0, len(CORE_FAMILIES), 2))

WATCHED = {
    "job, watch mode": {"jobs", "pods"},
    "condition of a pod": {"pods"},
    "deletion": {"configmaps"},
    "pods on minions": {"replicationcontrollers", "pods"},
    "set of pods": {"pods"},
    "deployment": {"deployments", "replicasets", "pods"},
    "endpoints of a service": {"services", "endpointslices"},
    "cache sync": {"configmaps"},
}


@pytest.mark.parametrize("pair", PAIRS, ids=[" and ".join(f.title for f in p) for p in PAIRS])
@pytest.mark.usefixtures("little_evidence")
def test_timeout_is_kept_without_a_request_storm(
    pair: tuple[type[Family], ...], trials: Trials, place: Place
) -> None:
    """Faults that never end, all at the same time."""
    faults = [*FAULTS, *SILENCES, TOO_BUSY]
    waits = {
        family(place, f"lasting-{i}-{j}"): fault
        for i, family in enumerate(pair)
        for j, fault in enumerate(faults)
    }
    with ProcessStalls() as stalls, trials.of(*waits) as tried:
        for trial in tried:
            trial.proxy.strike(waits[trial.family], None)
            trial.begin(LIMIT if expected(trial.family, waits[trial.family])[1] else TIMEOUT)
        ends = [(trial, trial.outcome(TIMEOUT + 10)) for trial in tried]

        for trial, outcome in ends:
            family, fault = trial.family, waits[trial.family]
            what = (family.title, fault.title)
            verdict, comes_at_the_limit = expected(family, fault)
            assert outcome.verdict == verdict, what
            if not comes_at_the_limit:
                continue
            assert ends_at_its_limit(trial, outcome, LIMIT, stalls), (what, outcome)
            cost = len(outcome.requests_until(outcome.begun + LIMIT))
            assert cost <= (LIMIT * RATE * family.watches or 2 * (LIMIT / POLL + 1)), what
            assert cost <= max(family.watches, 1) or fault is not TOO_BUSY, what


def expected(family: Family, fault: Fault) -> tuple[str, bool]:
    """Return how a wait ends that meets a fault for good, and whether at its limit."""
    # What repeats and makes no sense is final, but for a cache: it asks for as long as it runs.
    if fault.title == "HTML instead of JSON" and not isinstance(family, CacheWait):
        return "ApiError", False
    return "WaitTimeout", True


def test_requests_of_a_wait_under_fault(trials: Trials, place: Place) -> None:
    """Two requests per watched resource, however long it takes, and what mends a broken watch.

    A watch that was cut off goes on where it was; one that is too old is listed anew.
    """
    wanted = [(case, family) for case in _CASES for family in CORE_FAMILIES if family.watches]
    differing: dict[str, object] = {}
    # A busy server may break a watch that nobody wanted broken; seldom, and not the same each time.
    for attempt in range(TRIES):
        waits = [family(place, f"{case}-{attempt}-{i}") for i, (case, family) in enumerate(wanted)]
        ends = mended(trials, waits)
        differing = {
            title(trial): (outcome.verdict, asked(outcome))
            for trial, outcome in ends.items()
            if outcome.verdict != "met" or asked(outcome) != needed(trial)
        }
        wanted = [
            pair for pair, trial in zip(wanted, ends, strict=True) if title(trial) in differing
        ]
        if not wanted:
            break
    assert not differing


_CASES = {"undisturbed": None, "cut": RESET, "old": TOO_OLD}
_MENDING = {"undisturbed": [], "cut": ["watch"], "old": ["list", "watch"]}


def mended(trials: Trials, waits: list[Family]) -> dict[Trial, Outcome]:
    """How waits end whose watches are broken, each by what its name says."""
    with trials.of(*waits) as tried:
        for trial in tried:
            trial.begin(TIMEOUT)
        for trial in tried:
            trial.wait_until_under_way()
        SYSTEM_CLOCK.sleep(QUIET)
        for trial in tried:
            if (fault := _CASES[case_of(trial)]) is not None:
                trial.proxy.strike(fault, 0)
                trial.wait_until_under_way_again()
        for trial in tried:
            trial.family.bring_about()
        return {trial: trial.outcome(TIMEOUT + 10) for trial in tried}


def needed(trial: Trial) -> Counter[str]:
    """The requests of a wait that is broken as its name says, and goes on."""
    return once(trial, "list", "watch") + once(trial, *_MENDING[case_of(trial)])


def test_poll_mode_lists_once_per_interval(trials: Trials, place: Place) -> None:
    """The job and its pods, each time."""
    with trials.of(PolledJobWait(place, "polled")) as (trial,):
        trial.begin(TIMEOUT)
        SYSTEM_CLOCK.sleep(QUIET)
        trial.family.bring_about()
        outcome = trial.outcome(TIMEOUT)

    looks = outcome.labels.count("list jobs")
    assert outcome.labels == ["list jobs", "list pods"] * looks
    assert 2 <= looks <= outcome.seconds / POLL + 1


def case_of(trial: Trial) -> str:
    return trial.family.name.partition("-")[0]


def title(trial: Trial) -> str:
    return f"{trial.family.title}, {case_of(trial)}"


def asked(outcome: Outcome) -> Counter[str]:
    """Count requests, but for those of a slow cluster: what kubelets know, why pods are missing."""
    return Counter(label for label in outcome.labels if label not in OF_A_SLOW_CLUSTER)


def once(trial: Trial, *verbs: str) -> Counter[str]:
    watched = WATCHED[trial.family.title]
    return Counter(f"{verb} {plural}" for plural in watched for verb in verbs)
