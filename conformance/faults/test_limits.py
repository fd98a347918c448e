"""Costs of waits, counted at the proxy, and their end under lasting faults.

Two requests per watched resource, a few more for what breaks, and no storm ever.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from conformance.faults.cases import TIMEOUT, Case, tried
from conformance.faults.core_families import CORE_FAMILIES, CacheWait, PolledJobWait
from conformance.faults.family import POLL, Family
from conformance.faults.trial import TRIES, ProcessStalls, ends_at_its_limit
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.fault_proxy.faults import FAULTS, RESET, STALLS, TOO_BUSY, TOO_OLD

if TYPE_CHECKING:
    from conformance.faults.family import Place
    from conformance.faults.trial import Outcome, Trial, Trials

LIMIT = 1.0
"""The timeout of a wait that cannot be met, in seconds."""

OF_A_SLOW_CLUSTER = frozenset({"get nodes/proxy/pods", "list events"})
QUIET = 1.1
"""Seconds after which a broken watch resumes without a backoff."""

RATE = 8.0
"""The most requests per second for each watched resource while everything fails."""

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
@pytest.mark.usefixtures("short_evidence_limit")
def test_timeout_is_kept_without_a_request_storm(
    pair: tuple[type[Family], ...], trials: Trials, place: Place
) -> None:
    """Under lasting faults, all at the same time."""
    faults = (*FAULTS, *STALLS, TOO_BUSY)
    cases = [Case(kind, fault) for kind in pair for fault in faults]
    with ProcessStalls() as stalls, tried(cases, trials, place) as waits:
        for case, trial in waits:
            trial.proxy.inject(case.fault, None)
            trial.begin(LIMIT if expected(case)[1] else TIMEOUT)
        ends = [(case, trial, trial.outcome(TIMEOUT + 10)) for case, trial in waits]

        for case, trial, outcome in ends:
            verdict, comes_at_the_limit = expected(case)
            assert outcome.verdict == verdict, str(case)
            if not comes_at_the_limit:
                continue
            assert ends_at_its_limit(trial, outcome, LIMIT, stalls), (str(case), outcome)
            cost = len(outcome.requests_until(outcome.begun + LIMIT))
            watches = case.kind.watches
            assert cost <= (LIMIT * RATE * watches or 2 * (LIMIT / POLL + 1)), str(case)
            assert cost <= max(watches, 1) or case.fault is not TOO_BUSY, str(case)


def expected(case: Case) -> tuple[str, bool]:
    """Return the verdict of a wait under a lasting fault, and whether it ends at its limit."""
    # Repeated malformed responses are final, except for a cache, which retries while it runs.
    if case.fault.title == "HTML instead of JSON" and case.kind is not CacheWait:
        return "ApiError", False
    return "WaitTimeout", True


def test_requests_of_a_wait_under_fault(trials: Trials, place: Place) -> None:
    """Two requests for each watched resource, and those that restore a broken watch.

    A watch that was cut off resumes; one that is too old is listed again.
    """
    wanted = [(case, family) for case in _CASES for family in CORE_FAMILIES if family.watches]
    differing: dict[str, object] = {}
    # A busy server may rarely break another watch, but not the same one each time.
    for attempt in range(TRIES):
        waits = [family(place, f"{case}-{attempt}-{i}") for i, (case, family) in enumerate(wanted)]
        ends = mended(trials, waits)
        differing = {
            title(trial): (outcome.verdict, asked(outcome))
            for trial, outcome in ends.items()
            if outcome.verdict != "met" or not needed(trial) <= asked(outcome) <= allowed(trial)
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
    """Return the outcomes of waits with broken watches."""
    with trials.of(*waits) as tried:
        for trial in tried:
            trial.begin(TIMEOUT)
        for trial in tried:
            trial.wait_until_under_way()
        SYSTEM_CLOCK.sleep(QUIET)
        for trial in tried:
            if (fault := _CASES[case_of(trial)]) is not None:
                trial.proxy.inject(fault, 0)
                trial.wait_until_under_way_again()
        for trial in tried:
            trial.family.fulfill()
        return {trial: trial.outcome(TIMEOUT + 10) for trial in tried}


def needed(trial: Trial) -> Counter[str]:
    """Return the requests of a wait with a broken watch."""
    lists = ["list"] * (1 + trial.family.confirms)
    return once(trial, *lists, "watch") + once(trial, *_MENDING[case_of(trial)])


def allowed(trial: Trial) -> Counter[str]:
    """Return the requests of such a wait, with the watches after the lists that confirm it."""
    return needed(trial) + once(trial, *["watch"] * trial.family.confirms)


def test_poll_mode_lists_once_per_interval(trials: Trials, place: Place) -> None:
    """The job and its pods."""
    with trials.of(PolledJobWait(place, "polled")) as (trial,):
        trial.begin(TIMEOUT)
        SYSTEM_CLOCK.sleep(QUIET)
        trial.family.fulfill()
        outcome = trial.outcome(TIMEOUT)

    looks = outcome.labels.count("list jobs")
    labels = [label for label in outcome.labels if label != "list secrets"]
    assert labels == ["list jobs", "list pods"] * looks
    assert 2 <= looks <= outcome.seconds / POLL + 1


def case_of(trial: Trial) -> str:
    return trial.family.name.partition("-")[0]


def title(trial: Trial) -> str:
    return f"{trial.family.title}, {case_of(trial)}"


def asked(outcome: Outcome) -> Counter[str]:
    """Return the requests, without those that depend on the cluster's speed."""
    return Counter(label for label in outcome.labels if label not in OF_A_SLOW_CLUSTER)


def once(trial: Trial, *verbs: str) -> Counter[str]:
    watched = WATCHED[trial.family.title]
    return Counter(f"{verb} {plural}" for plural in watched for verb in verbs)
