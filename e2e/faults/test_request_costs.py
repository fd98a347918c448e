"""Requests that waits send, counted at a proxy: a list and a watch per resource."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from e2e.faults.core_families import (
    CORE_FAMILIES,
    CacheWait,
    ConditionWait,
    DeletionWait,
    Family,
    MinionsWait,
)
from e2e.faults.workload_families import PodGoneWait
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from e2e.faults.core_families import Place
    from e2e.faults.trial import Trials

TIMEOUT = 20.0
WATCHING = [family for family in CORE_FAMILIES if family.watches]


@pytest.mark.parametrize("family", WATCHING, ids=[family.title for family in WATCHING])
def test_a_wait_costs_a_list_and_a_watch_of_each_resource(
    family: type[Family], trials: Trials, place: Place
) -> None:
    """However long it lasts and however much happens: nothing is fetched again at the end."""
    with trials.of(family(place, "counted")) as [trial]:
        trial.begin(TIMEOUT)
        trial.wait_until_under_way()
        SYSTEM_CLOCK.sleep(0.3)
        trial.family.bring_about()
        outcome = trial.outcome(TIMEOUT)

    assert outcome.verdict == "met"
    asked = sorted(label for label in outcome.labels if label.split()[0] in ("list", "watch"))
    resources = {label.split()[1] for label in asked}
    assert len(resources) == family.watches
    assert asked == sorted(f"{verb} {each}" for verb in ("list", "watch") for each in resources)
    others = [label for label in outcome.labels if label not in asked]
    if family is MinionsWait:
        # Where its controller is said to be, and what kubelets are asked.
        assert {label.split()[0] for label in others} <= {"get"}
    elif family is not CacheWait:
        assert others == []


@pytest.mark.parametrize(
    "family", [DeletionWait, PodGoneWait], ids=[DeletionWait.title, PodGoneWait.title]
)
def test_a_deletion_wait_requests_only_metadata(
    family: type[Family], trials: Trials, place: Place
) -> None:
    """Whatever the object holds is not sent for it."""
    with trials.of(family(place, "large")) as [trial]:
        trial.begin(TIMEOUT)
        trial.wait_until_under_way()
        trial.family.bring_about()
        outcome = trial.outcome(TIMEOUT)

    assert outcome.verdict == "met"
    assert [request.headers["accept"].partition(";g=")[0] for request in outcome.requests] == [
        "application/json;as=PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadata",
    ]


def test_twenty_concurrent_waits_share_one_watch(trials: Trials, place: Place) -> None:
    """Who comes while a list is on its way has the next one, as it may be older than his call."""
    family = ConditionWait(place, "popular")
    with trials.of(family) as [trial], ThreadPoolExecutor(20) as pool:
        waits = [pool.submit(family.wait, trial.client, TIMEOUT) for _ in range(20)]
        trial.proxy.wait_until_watched(1)
        # On a busy machine some start late, and have the list and the watch made anew.
        while not all(wait.running() for wait in waits):
            SYSTEM_CLOCK.sleep(0.05)
        SYSTEM_CLOCK.sleep(0.5)
        before = [request.label for request in trial.proxy.requests]
        open_now = trial.proxy.watches
        family.bring_about()
        assert all(family.is_right(wait.result(TIMEOUT)) for wait in waits)
        after = [request.label for request in trial.proxy.requests]

    assert open_now == 1
    assert after == before
    assert set(before) == {"list pods", "watch pods"}
    assert len(before) < 20
