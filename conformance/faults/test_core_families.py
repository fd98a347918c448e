"""The core families of waits end with the right verdict under every fault."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

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

    from conformance.faults.family import Place
    from conformance.faults.trial import Outcome, Trial, Trials
    from tools.fault_proxy.exchange import Request

TIMEOUT = 200.0
OUTAGE = 0.4
SOON = 15.0
"""Seconds: far below the waits' timeouts, and enough on a busy machine."""


def named(faults: Sequence[Fault]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", faults, ids=[fault.title for fault in faults])


def strike_first(fault: Fault, tried: Sequence[Trial], requests: int | None) -> None:
    """Begin waits with a fault at their first request."""
    for trial in tried:
        trial.proxy.inject(fault, requests)
        trial.begin(TIMEOUT)


def strike_midway(fault: Fault, tried: Sequence[Trial], requests: int | None) -> None:
    """Begin waits with a fault of their open watches."""
    for trial in tried:
        trial.begin(TIMEOUT)
    for trial in tried:
        trial.wait_until_under_way()
    SYSTEM_CLOCK.sleep(fault.after)
    for trial in tried:
        trial.proxy.inject(fault, requests)


def outlive(fault: Fault, trials: Trials, place: Place) -> None:
    """Apply a temporary fault to every family, during which its condition becomes true."""
    first = [family(place, f"first-{i}") for i, family in enumerate(CORE_FAMILIES)]
    midway = [family(place, f"midway-{i}") for i, family in enumerate(CORE_FAMILIES)]
    with trials.of(*first, *midway) as tried:
        strike_first(fault, tried[: len(first)], requests=1)
        strike_midway(fault, tried[len(first) :], requests=1)
        for trial in tried:
            trial.family.fulfill()
        if fault.connections is not ConnectionBehavior.ACCEPT:
            SYSTEM_CLOCK.sleep(OUTAGE)
            for trial in tried:
                trial.proxy.end_fault()

        assert verdicts(tried) == {title(trial): "met" for trial in tried}


def verdicts(tried: Sequence[Trial]) -> dict[str, str]:
    return {title(trial): str(o.error or o.verdict) for trial, o in outcomes(tried)}


def outcomes(tried: Sequence[Trial]) -> list[tuple[Trial, Outcome]]:
    return [(trial, trial.outcome(TIMEOUT + 10)) for trial in tried]


def title(trial: Trial) -> str:
    return f"{trial.family.title}, {trial.family.name.partition('-')[0]}"


@pytest.mark.usefixtures("fast_cache_backoff")
@named(FAULTS)
def test_wait_survives_fault(fault: Fault, trials: Trials, place: Place) -> None:
    """At the first requests, and midway in a watch."""
    outlive(fault, trials, place)


@pytest.mark.usefixtures("short_timeouts")
@named(STALLS)
def test_wait_survives_silent_connection(fault: Fault, trials: Trials, place: Place) -> None:
    """A half-open connection is replaced."""
    outlive(fault, trials, place)


@named(REFUSALS)
def test_wait_fails_at_once_when_unauthorized(fault: Fault, trials: Trials, place: Place) -> None:
    """Without a retry."""
    first = [family(place, f"first-{i}") for i, family in enumerate(CORE_FAMILIES)]
    with ProcessStalls() as stalls, trials.of(*first) as tried:
        strike_first(fault, tried, requests=None)
        ends = outcomes(tried)

        assert {title(trial): outcome.verdict for trial, outcome in ends} == refused(tried)
        for trial, outcome in ends:
            assert ends_at_once(trial, outcome, TIMEOUT, stalls), (title(trial), outcome)


@pytest.mark.usefixtures("short_startup_grace")
@named(REFUSALS)
def test_wait_fails_soon_when_unauthorized_midway(
    fault: Fault, trials: Trials, place: Place
) -> None:
    """After a broken connection, 401 and 403 must last a while (5 s by default)."""
    # A synced cache has no wait left.
    lasting = [family for family in CORE_FAMILIES if family is not CacheWait]
    midway = [family(place, f"midway-{i}") for i, family in enumerate(lasting)]
    with ProcessStalls() as stalls, trials.of(*midway) as tried:
        strike_midway(fault, tried, requests=None)
        struck = SYSTEM_CLOCK.monotonic()
        ends = outcomes(tried)

        assert {title(trial): outcome.verdict for trial, outcome in ends} == refused(tried)
        last = max(outcome.ended for _, outcome in ends)
        assert last < struck + SOON + stalls.between(struck, last)


def refused(tried: Sequence[Trial]) -> dict[str, str]:
    return {
        title(trial): "WaitFailed" if isinstance(trial.family, CacheWait) else "ApiError"
        for trial in tried
    }


@pytest.mark.usefixtures("fast_cache_backoff", "short_startup_grace")
def test_wait_survives_a_starting_server(trials: Trials, place: Place) -> None:
    """After an outage, a starting server refuses requests until it has read the roles."""
    away, forbidden = RESET, REFUSALS[1]
    with trials.of(
        *(family(place, f"first-{i}") for i, family in enumerate(CORE_FAMILIES))
    ) as tried:
        strike_first(away, tried, requests=None)
        for trial in tried:
            # Lost on a kept connection, then on a new one: an outage.
            trial.proxy.wait_until_received(3)
            trial.proxy.inject(forbidden, 1)
            trial.family.fulfill()

        assert verdicts(tried) == {title(trial): "met" for trial in tried}


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
        strike_midway(RESET, tried, requests=None)
        for family in (gone, other):
            place.delete(JOBS, family.name)
            place.wait_until_deleted(JOBS, family.name)
        other.prepare()
        for trial in tried:
            if fault is None:
                trial.proxy.end_fault()
            else:
                trial.proxy.inject(fault, trial.family.watches)
        reasons = {
            trial.family.name: outcome.error.evidence["reason"]
            for trial, outcome in outcomes(tried)
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

        assert [outcome.verdict for _, outcome in outcomes(tried)] == ["met", "met", "ApiError"]
