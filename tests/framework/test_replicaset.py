"""Verdicts on raw ReplicaSets and their pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.framework.registry import condition_of
from pytest_kwait.framework.replicaset import (
    wait_for_observed_replica_set,
    wait_for_ready_replica_set,
    wait_for_replica_set_desired_replicas,
    wait_for_replica_set_target_available_replicas,
    wait_for_replica_set_target_spec_replicas,
)
from tests.framework.sources import enter
from tests.framework.workload_samples import stuck
from tests.objects import condition, owned_pod, replica_set

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition

SHORT, LONG = Grace.SHORT, Grace.LONG
REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: q")
GONE: dict[str, Any] = {"metadata": {"deletionTimestamp": "now"}}
GOING = Failed("the replicaset is being deleted", SHORT)
OLD = Pending("generation 2 is not observed yet, its status is of generation 1")


@dataclass
class Row:
    awaited: Condition
    verdict: Verdict
    replica_set: Any
    pods: list[Any] = field(default_factory=list)


def ready() -> Any:
    return condition_of(wait_for_ready_replica_set)("ci-1", "web-1")


def available(target: int) -> Any:
    return condition_of(wait_for_replica_set_target_available_replicas)("ci-1", "web-1", target)


def spec(target: int) -> Any:
    return condition_of(wait_for_replica_set_target_spec_replicas)("ci-1", "web-1", target)


def desired() -> Any:
    return condition_of(wait_for_replica_set_desired_replicas)("ci-1", "web-1")


def observed(generation: int) -> Any:
    return condition_of(wait_for_observed_replica_set)("ci-1", "web-1", generation)


def rs(there: int = 0, ready: int = 0, available: int = 0, **more: Any) -> Any:
    counts = {"replicas": there, "readyReplicas": ready, "availableReplicas": available}
    made = replica_set(**more)
    made["status"] |= counts
    return made


def stuck_verdict(text: str) -> Failed:
    return Failed(f"{text}: InvalidImageName: nope", SHORT, 0.0)


ROWS = {
    "not there": Row(ready(), Pending("not found yet"), None),
    "ready": Row(ready(), Met(), rs(2, 2)),
    "ready with none": Row(ready(), Met(), rs(replicas=0)),
    "ready by an old status": Row(ready(), OLD, rs(2, 2, generation=2)),
    "too few there": Row(ready(), Pending("2 wanted: 1 there, 1 ready, 0 available"), rs(1, 1)),
    "too many there": Row(ready(), Pending("2 wanted: 3 there, 2 ready, 2 available"), rs(3, 2, 2)),
    "one not ready": Row(
        ready(),
        Pending("2 wanted: 2 there, 1 ready, 1 available: 1 Running, not ready"),
        rs(2, 1, 1),
        [owned_pod("web-1", "a")],
    ),
    "one stuck": Row(ready(), stuck_verdict("pod a"), rs(2, 1, 1), [stuck("web-1", "a")]),
    "a pod of another owner stuck": Row(
        ready(),
        Pending("2 wanted: 2 there, 1 ready, 1 available"),
        rs(2, 1, 1),
        [stuck("web-2", "a")],
    ),
    "being deleted": Row(ready(), GOING, rs(1, 1, **GONE)),
    "refused": Row(
        ready(), Failed("FailedCreate: exceeded quota: q", LONG), rs(1, 1, conditions=[REFUSED])
    ),
    "refused before, and all there": Row(
        ready(),
        Pending("2 wanted: 2 there, 1 ready, 1 available: 2 Running, not ready"),
        rs(2, 1, 1, conditions=[REFUSED]),
        [owned_pod("web-1", "a"), owned_pod("web-1", "b")],
    ),
    "as many available": Row(available(1), Met(), rs(2, 2, 1)),
    "none available, none awaited": Row(available(0), Met(), rs(2, 2)),
    "available by an old status": Row(available(1), OLD, rs(2, 2, 1, generation=2)),
    "more available": Row(
        available(1), Pending("2 wanted: 2 there, 2 ready, 2 available"), rs(2, 2, 2)
    ),
    "more available of one that goes": Row(available(1), GOING, rs(2, 2, 2, **GONE)),
    "fewer available": Row(
        available(2), Pending("2 wanted: 2 there, 2 ready, 1 available"), rs(2, 2, 1)
    ),
    "more awaited than there will be": Row(
        available(3), Failed("the replicaset is to have 2 pods", LONG), rs(2, 2, 2)
    ),
    "more awaited than one": Row(
        available(3), Failed("the replicaset is to have 1 pod", LONG), rs(1, 1, 1, replicas=1)
    ),
    "a stuck pod that can be spared": Row(
        available(1),
        Pending("2 wanted: 2 there, 0 ready, 0 available: 1 Pending (InvalidImageName), 1 Pending"),
        rs(2),
        [stuck("web-1", "a"), owned_pod("web-1", "b", "Pending")],
    ),
    "a stuck pod that cannot be spared": Row(
        available(2), stuck_verdict("pod a"), rs(2, 1, 1), [stuck("web-1", "a")]
    ),
    "refused, but enough there": Row(
        available(1),
        Pending("2 wanted: 1 there, 0 ready, 0 available: 1 Pending"),
        rs(1, conditions=[REFUSED]),
        [owned_pod("web-1", "a", "Pending")],
    ),
    "refused, and too few there": Row(
        available(2),
        Failed("FailedCreate: exceeded quota: q", LONG),
        rs(1, conditions=[REFUSED]),
        [owned_pod("web-1", "a", "Pending")],
    ),
    "scaled": Row(spec(2), Met(), rs()),
    "scaled, and not observed": Row(spec(2), OLD, rs(generation=2)),
    "scaled otherwise": Row(spec(3), Pending("2 wanted: 0 there, 0 ready, 0 available"), rs()),
    "scaled otherwise and going": Row(spec(3), GOING, rs(**GONE)),
    "desired pods there": Row(desired(), Met(), rs(2)),
    "desired pods by an old status": Row(desired(), OLD, rs(2, generation=2)),
    "desired pods missing": Row(
        desired(), Pending("2 wanted: 1 there, 0 ready, 0 available"), rs(1)
    ),
    "desired pods refused": Row(
        desired(), Failed("FailedCreate: exceeded quota: q", LONG), rs(1, conditions=[REFUSED])
    ),
    "observed": Row(observed(1), Met(), rs()),
    "not observed": Row(observed(2), OLD, rs()),
    "observed, and another change since": Row(observed(1), OLD, rs(generation=2)),
    "observation awaited of one that goes": Row(observed(2), GOING, rs(**GONE)),
    "null everywhere": Row(
        ready(),
        Pending("1 wanted: 0 there, 0 ready, 0 available"),
        {
            "metadata": {"name": "web-1", "ownerReferences": None, "annotations": None},
            "spec": {"replicas": None, "selector": None},
            "status": {"conditions": None, "observedGeneration": 1},
        },
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_verdict(name: str) -> None:
    row = ROWS[name]
    if row.replica_set is not None:
        enter(row.awaited, row.replica_set)
        if len(row.awaited.sources()) > 1:
            enter(row.awaited, *row.pods, position=1)

    assert row.awaited.verdict() == row.verdict


def test_summaries() -> None:
    awaited = ready()
    assert awaited.summarize() == ""
    enter(awaited, rs(2, 1, 1))
    assert awaited.summarize() == "2 wanted: 2 there, 1 ready, 1 available; pods: none"
    enter(awaited, owned_pod("web-1", "a", ready=True), position=1)
    assert awaited.summarize() == "2 wanted: 2 there, 1 ready, 1 available; pods: 1 ready"
