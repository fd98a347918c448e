"""The core families of waits end with the right verdict under every fault."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from conformance.faults.cases import OUTAGE, TIMEOUT, Case, ends, fulfill, tried
from conformance.faults.core_families import CORE_FAMILIES, CacheWait, JobWait, MinionsWait
from conformance.faults.trial import ProcessStalls, ends_at_once
from pytest_kwait import WaitFailed
from pytest_kwait.client.resource import JOBS
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.fault_proxy.faults import (
    FAULTS,
    REFUSALS,
    RESET,
    STALLS,
    TOO_OLD,
    ConnectionBehavior,
    Fault,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.faults.family import Family, Place
    from conformance.faults.trial import Outcome, Trial, Trials
    from tools.fault_proxy.exchange import Request

SOON = 15.0
"""Seconds: far below the waits' timeouts, and enough on a busy machine."""

FIRST, MIDWAY = "at first", "midway"
KINDS = [[kind] for kind in CORE_FAMILIES]
GROUPS = [list(CORE_FAMILIES[start : start + 3]) for start in range(0, len(CORE_FAMILIES), 3)]


def named(groups: list[list[type[Family]]]) -> pytest.MarkDecorator:
    ids = [", ".join(kind.title for kind in kinds) for kinds in groups]
    return pytest.mark.parametrize("kinds", groups, ids=ids)


def strike_first(waits: Sequence[tuple[Case, Trial]], requests: int | None) -> None:
    """Begin waits with their faults at the first request."""
    for case, trial in waits:
        trial.proxy.inject(case.fault, requests)
        trial.begin(TIMEOUT)


def strike_midway(waits: Sequence[tuple[Case, Trial]], requests: int | None) -> None:
    """Begin waits with their faults in open watches, of which each has run for the same time."""
    for _, trial in waits:
        trial.begin(TIMEOUT)
    for _, trial in waits:
        trial.wait_until_under_way()
    (after,) = {case.fault.after for case, _ in waits}
    SYSTEM_CLOCK.sleep(after)
    for case, trial in waits:
        trial.proxy.inject(case.fault, requests)


def outlive(
    kinds: Sequence[type[Family]], faults: Sequence[Fault], trials: Trials, place: Place
) -> None:
    """Apply temporary faults to waits for the same object, during which it changes."""
    cases = [
        Case(kind, fault, moment)
        for moment in (FIRST, MIDWAY)
        for kind in kinds
        for fault in faults
    ]
    with tried(cases, trials, place) as waits:
        half = len(waits) // 2
        strike_first(waits[:half], requests=1)
        strike_midway(waits[half:], requests=1)
        fulfill(waits)
        SYSTEM_CLOCK.sleep(OUTAGE)
        for case, trial in waits:
            if case.fault.connections is not ConnectionBehavior.ACCEPT:
                trial.proxy.end_fault()

        assert ends(waits) == {str(case): "met" for case in cases}


def outcomes(waits: Sequence[tuple[Case, Trial]]) -> list[tuple[Case, Trial, Outcome]]:
    return [(case, trial, trial.outcome(TIMEOUT + 10)) for case, trial in waits]


def verdicts(ended: Sequence[tuple[Case, Trial, Outcome]]) -> dict[str, str]:
    return {str(case): outcome.verdict for case, _, outcome in ended}


def refused(waits: Sequence[tuple[Case, Trial]]) -> dict[str, str]:
    """Return the verdicts of refused waits."""
    return {str(case): "WaitFailed" if case.kind is CacheWait else "ApiError" for case, _ in waits}


@pytest.mark.usefixtures("fast_cache_backoff")
@named(KINDS)
def test_wait_survives_fault(kinds: list[type[Family]], trials: Trials, place: Place) -> None:
    """At the first requests, and midway in a watch."""
    outlive(kinds, [fault for fault in FAULTS if not fault.after], trials, place)


@pytest.mark.usefixtures("fast_cache_backoff")
@named(GROUPS)
def test_wait_survives_the_end_of_a_watch(
    kinds: list[type[Family]], trials: Trials, place: Place
) -> None:
    """Of one that has run for a while."""
    outlive(kinds, [fault for fault in FAULTS if fault.after], trials, place)


@pytest.mark.usefixtures("short_timeouts")
@named(GROUPS)
def test_wait_survives_silent_connection(
    kinds: list[type[Family]], trials: Trials, place: Place
) -> None:
    """A half-open connection is replaced."""
    outlive(kinds, STALLS, trials, place)


def test_wait_fails_at_once_when_unauthorized(trials: Trials, place: Place) -> None:
    """Without a retry."""
    cases = [Case(kind, fault) for kind in CORE_FAMILIES for fault in REFUSALS]
    with ProcessStalls() as stalls, tried(cases, trials, place) as waits:
        strike_first(waits, requests=None)
        ended = outcomes(waits)

        assert verdicts(ended) == refused(waits)
        for case, trial, outcome in ended:
            assert ends_at_once(trial, outcome, TIMEOUT, stalls), (str(case), outcome)


@pytest.mark.usefixtures("short_startup_grace")
def test_wait_fails_soon_when_unauthorized_midway(trials: Trials, place: Place) -> None:
    """After a broken connection, 401 and 403 must last a while (5 s or more by default)."""
    # A synced cache has no wait left.
    lasting = [kind for kind in CORE_FAMILIES if kind is not CacheWait]
    cases = [Case(kind, fault) for kind in lasting for fault in REFUSALS]
    with ProcessStalls() as stalls, tried(cases, trials, place) as waits:
        strike_midway(waits, requests=None)
        struck = SYSTEM_CLOCK.monotonic()
        ended = outcomes(waits)

        assert verdicts(ended) == refused(waits)
        last = max(outcome.ended for *_, outcome in ended)
        assert last < struck + SOON + stalls.between(struck, last)


@pytest.mark.usefixtures("fast_cache_backoff", "short_startup_grace")
def test_wait_survives_a_starting_server(trials: Trials, place: Place) -> None:
    """After an outage, a starting server refuses requests until it has read the roles."""
    cases = [Case(kind, RESET) for kind in CORE_FAMILIES]
    with tried(cases, trials, place) as waits:
        strike_first(waits, requests=None)
        for _, trial in waits:
            # Lost on a kept connection, then on a new one: an outage.
            trial.proxy.wait_until_received(3)
            trial.proxy.inject(REFUSALS[1], 1)
            trial.family.fulfill()

        assert ends(waits) == {str(case): "met" for case in cases}


def is_watch_of_jobs(request: Request) -> bool:
    return request.label == "watch jobs"


@pytest.mark.usefixtures("short_evidence_limit")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(None, "the job was deleted", id="and the watch goes on"),
        pytest.param(
            TOO_OLD,
            "the job was deleted and created anew under another UID",
            id="and is listed anew",
        ),
    ],
)
def test_deletion_during_an_outage_is_noticed(
    fault: Fault | None, reason: str, trials: Trials, place: Place
) -> None:
    """A job that is deleted, or recreated, during an outage ends its waits."""
    gone, other = JobWait(place, "gone"), JobWait(place, "other")
    with trials.of(gone, other) as tried:
        waits = [(Case(JobWait, RESET), trial) for trial in tried]
        strike_midway(waits, requests=None)
        for family in (gone, other):
            place.delete(JOBS, family.name)
            place.wait_until_deleted(JOBS, family.name)
        other.prepare()
        for trial in tried:
            if fault is None:
                trial.proxy.end_fault()
            else:
                # The watch of pods may be resumed several times before that of Jobs.
                trial.proxy.inject(replace(fault, applies_to=is_watch_of_jobs), 1)
        reasons = {
            trial.family.name: outcome.error.evidence["reason"]
            for _, trial, outcome in outcomes(waits)
            if isinstance(outcome.error, WaitFailed)
        }

    assert reasons == {"gone": "the job was deleted", "other": reason}


def is_question(request: Request) -> bool:
    return request.label == "get nodes/proxy/pods"


@pytest.mark.usefixtures("short_timeouts")
def test_unreachable_kubelets(trials: Trials, place: Place) -> None:
    """Requests to a silent or broken kubelet are retried; forbidden ones are not."""
    faults = [STALLS[0], *(f for f in FAULTS if f.title == "503"), REFUSALS[1]]
    families = [MinionsWait(place, f"minions-{i}") for i in range(len(faults))]
    with trials.of(*families) as tried:
        for trial, fault in zip(tried, faults, strict=True):
            # Shortly after an outage, a refusal must last to be final.
            requests = None if fault in REFUSALS else 1
            trial.proxy.inject(replace(fault, applies_to=is_question), requests)
            trial.begin(TIMEOUT)
            trial.family.fulfill()
        verdicts = [trial.outcome(TIMEOUT + 10).verdict for trial in tried]

        assert verdicts == ["met", "met", "ApiError"]
