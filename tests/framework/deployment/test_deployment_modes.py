"""Watching and polling agree over any history of a Deployment and what it owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitSettings
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import WaitFailed, WaitTimeout
from pytest_kwait.framework.deployment import (
    wait_for_deployment_complete,
    wait_for_deployment_complete_and_check_rolling,
    wait_for_deployment_revision_and_image,
    wait_for_deployment_updated_replicas_gte,
    wait_for_deployment_with_condition,
)
from pytest_kwait.framework.operations.rollout import wait_for_rollout_status
from pytest_kwait.framework.registry import condition_of
from tests.engine.fake_session import FakeSession
from tests.examples import scaled
from tests.framework.workload_samples import stuck
from tests.objects import condition, deployment, owned_pod, replica_set

if TYPE_CHECKING:
    from collections.abc import Callable

ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
LATE = condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="late")
REFUSED = condition("ReplicaFailure", reason="FailedCreate", message="exceeded quota: q")

CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "new": (DEPLOYMENTS, deployment(observed=0, strategy=ROLLING)),
    "old": (DEPLOYMENTS, deployment(2, 0, 2, revision="2", strategy=ROLLING)),
    "rolling": (DEPLOYMENTS, deployment(3, 1, 2, revision="2", strategy=ROLLING)),
    "few": (DEPLOYMENTS, deployment(2, 1, 1, revision="2", strategy=ROLLING)),
    "late": (DEPLOYMENTS, deployment(2, 1, 2, revision="2", conditions=[LATE])),
    "paused": (DEPLOYMENTS, deployment(2, 0, 2, paused=True)),
    "complete": (DEPLOYMENTS, deployment(2, 2, 2, revision="2", strategy=ROLLING)),
    "scaled": (DEPLOYMENTS, deployment(2, 2, 2, replicas=3, generation=2, strategy=ROLLING)),
    "first set": (REPLICA_SETS, replica_set("web-1", "1")),
    "second set": (REPLICA_SETS, replica_set("web-2", "2", replicas=1)),
    "too many": (REPLICA_SETS, replica_set("web-2", "2", replicas=2)),
    "refused": (REPLICA_SETS, replica_set("web-2", "2", replicas=1, conditions=[REFUSED])),
    "stuck": (PODS, stuck("web-2", "a")),
    "ready": (PODS, owned_pod("web-2", "a", ready=True)),
    "stuck old": (PODS, stuck("web-1", "b")),
}
GONE = {
    "no deployment": (DEPLOYMENTS, "web"),
    "no set": (REPLICA_SETS, "web-2"),
    "no pod": (PODS, "a"),
}

HISTORIES = st.lists(st.sampled_from([*CHANGES, *GONE]), max_size=9)
MAKERS: list[Callable[[], Any]] = [
    lambda: condition_of(wait_for_deployment_complete)("ci-1", "web"),
    lambda: condition_of(wait_for_deployment_complete_and_check_rolling)("ci-1", "web"),
    lambda: condition_of(wait_for_deployment_revision_and_image)("ci-1", "web", 2, "web:1"),
    lambda: condition_of(wait_for_deployment_updated_replicas_gte)("ci-1", "web", 2),
    lambda: condition_of(wait_for_deployment_with_condition)(
        "ci-1", "web", "MinimumReplicasAvailable", "Available"
    ),
    lambda: condition_of(wait_for_rollout_status)("ci-1", "deployment/web"),
]
LIMIT = 60.0


def change(session: FakeSession, what: str) -> None:
    if what in CHANGES:
        session.put(*CHANGES[what])
        return
    resource, name = GONE[what]
    if name in session._objects.get(resource.plural, {}):
        session.drop(resource, name)


def outcome(mode: Any, history: list[str], make: Callable[[], Any]) -> tuple[str, Any]:
    session = FakeSession()
    # Each state lasts for longer than the pause between two looks: both modes can see it.
    for number, what in enumerate(history):
        session.at(2.5 * number + 0.25, change, session, what)
    options = WaitSettings(timeout=LIMIT, poll=1.0, mode=mode, grace=20.0)
    try:
        found = wait_for_condition(
            session, make(), options, Deadline.after(LIMIT, session.script_clock)
        )
    except (WaitFailed, WaitTimeout) as error:
        return type(error).__name__, error.evidence["reason"]
    return "met", found


@settings(max_examples=scaled(40), deadline=None)
@given(HISTORIES, st.sampled_from(MAKERS))
def test_both_modes_come_to_the_same(history: list[str], make: Callable[[], Any]) -> None:
    assert outcome("watch", history, make) == outcome("poll", history, make)
