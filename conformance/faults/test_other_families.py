"""Every other family of waits survives every fault."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from conformance.faults.answer_families import ANSWER_FAMILIES
from conformance.faults.cases import OUTAGE, TIMEOUT, Case, ends, fulfill, tried
from conformance.faults.cluster_families import CLUSTER_FAMILIES
from conformance.faults.storage_families import STORAGE_FAMILIES
from conformance.faults.trial import ProcessStalls, ends_at_its_limit, ends_at_once
from conformance.faults.workload_families import WORKLOAD_FAMILIES
from pytest_kwait.clock import SYSTEM_CLOCK
from tools.fault_proxy.faults import FAULTS, REFUSALS, STALLS, TOO_BUSY, ConnectionBehavior

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _pytest.mark import ParameterSet

    from conformance.faults.family import Family, Place
    from conformance.faults.trial import Trial, Trials
    from tools.fault_proxy.faults import Fault

LIMIT = 1.0
FAMILIES = (*CLUSTER_FAMILIES, *STORAGE_FAMILIES, *WORKLOAD_FAMILIES, *ANSWER_FAMILIES)
AT_ONCE = 3
"""The number of families that wait in parallel in one test."""


def groups() -> Iterator[ParameterSet]:
    """Yield families in groups."""
    for start in range(0, len(FAMILIES), AT_ONCE):
        some = FAMILIES[start : start + AT_ONCE]
        yield pytest.param(list(some), id=", ".join(kind.title for kind in some))


GROUPS = list(groups())


@pytest.mark.parametrize("kinds", GROUPS)
def test_wait_survives_fault(kinds: list[type[Family]], trials: Trials, place: Place) -> None:
    """At the first request, and midway: in a watch, or at another request."""
    cases = [Case(kind, fault) for kind in kinds for fault in FAULTS]
    with tried(cases, trials, place) as waits:
        for case, trial in waits:
            trial.proxy.inject(case.fault, 1)
            trial.begin(TIMEOUT)
        pass_by(waits)
        lasting = [(case, trial) for case, trial in waits if case.kind.lasts]
        for _, trial in lasting:
            trial.wait_until_under_way()
        for case, trial in lasting:
            trial.proxy.inject(midway(case), 1)
        fulfill(waits)
        pass_by(lasting)

        assert ends(waits) == {str(case): "met" for case in cases}


@pytest.mark.usefixtures("short_timeouts")
@pytest.mark.parametrize("kinds", GROUPS)
def test_wait_survives_silent_connection(
    kinds: list[type[Family]], trials: Trials, place: Place
) -> None:
    """At the first request, and at the first request other than a watch."""
    cases = [Case(kind, fault) for kind in kinds for fault in STALLS]
    asking = [Case(case.kind, midway(case)) for case in cases if case.kind.asks]
    with tried([*cases, *asking], trials, place) as waits:
        for case, trial in waits:
            trial.proxy.inject(case.fault, 1)
            trial.begin(TIMEOUT)
        SYSTEM_CLOCK.sleep(OUTAGE)
        fulfill(waits)

        assert ends(waits) == {str(case): "met" for case in cases}


@pytest.mark.usefixtures("short_evidence_limit")
@pytest.mark.parametrize("kinds", GROUPS)
def test_wait_keeps_its_timeout_under_fault(
    kinds: list[type[Family]], trials: Trials, place: Place
) -> None:
    """Under lasting faults; refusals end waits at once."""
    # A condition that is already true needs no watch.
    cases = [
        Case(kind, fault)
        for kind in kinds
        for fault in (*FAULTS, *STALLS, TOO_BUSY, *REFUSALS)
        if kind.lasts or not fault.watches_only
    ]
    with ProcessStalls() as stalls, tried(cases, trials, place) as waits:
        for case, trial in waits:
            trial.proxy.inject(case.fault, None)
            trial.begin(LIMIT if expected(case.fault) == "WaitTimeout" else TIMEOUT)
        ends = [(case, trial, trial.outcome(TIMEOUT + 10)) for case, trial in waits]

        assert {str(case): outcome.verdict for case, _, outcome in ends} == {
            str(case): expected(case.fault) for case in cases
        }
        for case, trial, outcome in ends:
            if expected(case.fault) == "WaitTimeout":
                assert ends_at_its_limit(trial, outcome, LIMIT, stalls), (str(case), outcome)
            if case.fault in REFUSALS:
                assert ends_at_once(trial, outcome, TIMEOUT, stalls), (str(case), outcome)


def expected(fault: Fault) -> str:
    """Return the verdict of a wait under a lasting fault."""
    final = fault in REFUSALS or fault.title == "HTML instead of JSON"
    return "ApiError" if final else "WaitTimeout"


def pass_by(waits: Sequence[tuple[Case, Trial]]) -> None:
    """End the fault."""
    SYSTEM_CLOCK.sleep(OUTAGE)
    for case, trial in waits:
        if case.fault.connections is not ConnectionBehavior.ACCEPT:
            trial.proxy.end_fault()


def midway(case: Case) -> Fault:
    """Return the fault for requests other than a watch, if the wait sends any."""
    asks = case.kind.asks
    if not asks or case.fault.watches_only:
        return case.fault
    return replace(case.fault, applies_to=lambda request: request.label.startswith(asks))
