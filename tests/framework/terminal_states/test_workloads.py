"""Terminal states reported by a controller's own status."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.engine.condition import Grace, TerminalState
from pytest_kwait.framework.terminal_states.workloads import (
    detect_paused,
    detect_progress_deadline_exceeded,
    detect_replica_failure,
    detect_replica_set_refusal,
)

SHORT, LONG = Grace.SHORT, Grace.LONG
PSA = (
    'pods "web-65f6d67c75-m47v2" is forbidden: violates PodSecurity "restricted:latest": '
    'allowPrivilegeEscalation != false (container "main" must set ...)'
)


def with_condition(
    kind: str, status: str, reason: str | None, message: str | None
) -> dict[str, Any]:
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return {"status": {"conditions": [{"type": "Other"}, condition]}}


@pytest.mark.parametrize(
    ("message", "grace"),
    [
        (PSA, SHORT),
        ('Pod "web-1" is invalid: spec.containers[0].resources: Invalid value', SHORT),
        ('pods "web-1" is forbidden: failed quota: q: must specify cpu for: main', SHORT),
        ('pods "web-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1', LONG),
        ('pods "web-1" is forbidden: maximum cpu usage per Container is 1, but limit is 2', LONG),
        ('pods "web-" is forbidden: error looking up service account a/b: not found', LONG),
        ('pods "web-1" is forbidden: no PriorityClass with name high was found', LONG),
        ('admission webhook "w" denied the request: not today', LONG),
        ('Internal error occurred: failed calling webhook "w": connection refused', LONG),
    ],
)
def test_refused_pods(message: str, grace: Grace) -> None:
    controller = with_condition("ReplicaFailure", "True", "FailedCreate", message)

    assert detect_replica_failure(controller) == TerminalState(f"FailedCreate: {message}", grace)


@pytest.mark.parametrize(
    ("controller", "terminal"),
    [
        ({}, None),
        ({"status": None}, None),
        ({"status": {"conditions": None}}, None),
        (with_condition("ReplicaFailure", "False", "FailedCreate", PSA), None),
        (
            with_condition("ReplicaFailure", "True", None, None),
            TerminalState("ReplicaFailure", LONG),
        ),
        (
            with_condition("ReplicaFailure", "True", "FailedDelete", "no  \n way"),
            TerminalState("FailedDelete: no way", LONG),
        ),
    ],
)
def test_other_refusals(controller: dict[str, Any], terminal: TerminalState | None) -> None:
    assert detect_replica_failure(controller) == terminal


def test_progress_deadline() -> None:
    late = with_condition(
        "Progressing", "False", "ProgressDeadlineExceeded", "it has timed out progressing."
    )

    assert detect_progress_deadline_exceeded(late) == TerminalState(
        "ProgressDeadlineExceeded: it has timed out progressing.", SHORT
    )
    # What is left of the time before it was paused.
    assert detect_progress_deadline_exceeded({**late, "spec": {"paused": True}}) is None
    assert (
        detect_progress_deadline_exceeded(
            with_condition("Progressing", "True", "ReplicaSetUpdated", "")
        )
        is None
    )
    assert detect_progress_deadline_exceeded({"status": None}) is None


@pytest.mark.parametrize(
    ("paused", "wanted", "updated", "there", "fails_early"),
    [
        (True, 2, 0, 0, True),
        (True, None, 0, 0, True),
        (True, 2, 1, 3, True),
        (True, 2, 2, 3, True),
        (True, 2, 2, 2, False),
        (True, 0, 0, 0, False),
        (False, 2, 0, 2, False),
    ],
)
def test_paused(
    paused: bool, wanted: int | None, updated: int, there: int, fails_early: bool
) -> None:
    spec = {"paused": paused, "replicas": wanted}
    status = {"updatedReplicas": updated, "replicas": there}

    terminal = detect_paused({"spec": spec, "status": status})

    assert terminal == (TerminalState("the deployment is paused", LONG) if fails_early else None)


def test_replica_set_that_is_refused() -> None:
    text = 'replicasets.apps "web-1" is forbidden: exceeded quota: q'

    terminal = detect_replica_set_refusal(
        with_condition("Progressing", "False", "ReplicaSetCreateError", text)
    )

    assert terminal == TerminalState(f"ReplicaSetCreateError: {text}", LONG)
    assert (
        detect_replica_set_refusal(
            with_condition("Progressing", "True", "NewReplicaSetCreated", "")
        )
        is None
    )
