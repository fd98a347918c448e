"""Requests that waits send, counted at a proxy: a list and a watch per resource."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from conformance.faults.core_families import (
    CORE_FAMILIES,
    CacheWait,
    ConditionWait,
    DeletionWait,
    MinionsWait,
)
from conformance.faults.workload_families import PodGoneWait
from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from conformance.faults.family import Family, Place
    from conformance.faults.trial import Trials

TIMEOUT = 20.0
WATCHING = [family for family in CORE_FAMILIES if family.watches]


@pytest.mark.parametrize("family", WATCHING, ids=[family.title for family in WATCHING])
def test_a_wait_costs_a_list_and_a_watch_of_each_resource(
    family: type[Family], trials: Trials, place: Place
) -> None:
    """For any duration and any number of changes: nothing is fetched again at the end."""
    with trials.of(family(place, "counted")) as [trial]:
        trial.begin(TIMEOUT)
        trial.wait_until_under_way()
        SYSTEM_CLOCK.sleep(0.3)
        trial.family.fulfill()
        outcome = trial.outcome(TIMEOUT)

    assert outcome.verdict == "met"
    asked = sorted(label for label in outcome.labels if label.split()[0] in ("list", "watch"))
    resources = {label.split()[1] for label in asked}
    assert len(resources) == family.watches
    lists, watches = 1 + family.confirms, range(1, 2 + family.confirms)
    for each in resources:
        assert asked.count(f"list {each}") == lists
        assert asked.count(f"watch {each}") in watches
    others = [label for label in outcome.labels if label not in asked]
    if family is MinionsWait:
        # The configuration of its controller, and requests to kubelets.
        assert {label.split()[0] for label in others} <= {"get"}
    elif family is not CacheWait:
        assert others == []


@pytest.mark.parametrize(
    "family", [DeletionWait, PodGoneWait], ids=[DeletionWait.title, PodGoneWait.title]
)
def test_a_deletion_wait_requests_only_metadata(
    family: type[Family], trials: Trials, place: Place
) -> None:
    """The contents of the object are not requested."""
    with trials.of(family(place, "large")) as [trial]:
        trial.begin(TIMEOUT)
        trial.wait_until_under_way()
        trial.family.fulfill()
        outcome = trial.outcome(TIMEOUT)

    assert outcome.verdict == "met"
    assert [request.headers["accept"].partition(";g=")[0] for request in outcome.requests] == [
        "application/json;as=PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadata",
    ]


def test_twenty_concurrent_waits_share_one_watch(trials: Trials, place: Place) -> None:
    """A wait that begins during a list takes part in the next one, which is newer."""
    family = ConditionWait(place, "popular")
    with trials.of(family) as [trial], ThreadPoolExecutor(20) as pool:
        waits = [pool.submit(family.wait, trial.client, TIMEOUT) for _ in range(20)]
        trial.proxy.wait_until_watched(1)
        # On a busy machine some start late, which takes another list and watch.
        while not all(wait.running() for wait in waits):
            SYSTEM_CLOCK.sleep(0.05)
        SYSTEM_CLOCK.sleep(0.5)
        before = [request.label for request in trial.proxy.requests]
        open_now = trial.proxy.watches
        family.fulfill()
        assert all(family.is_expected_result(wait.result(TIMEOUT)) for wait in waits)
        after = [request.label for request in trial.proxy.requests]

    assert open_now == 1
    assert after == before
    assert set(before) == {"list pods", "watch pods"}
    assert len(before) < 20
