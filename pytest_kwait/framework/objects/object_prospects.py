"""What one object says itself of whether it can still come to satisfy a test of the general wait.

The general wait looks at no other object: what an object's pods or events say is for the waits that
know its kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
)
from pytest_kwait.engine.verdicts import Failed, Met, Patience
from pytest_kwait.framework.held_tests import HeldPredicate
from pytest_kwait.framework.pod.conditions import READY, RUNNING, SCHEDULED, SUCCESS
from pytest_kwait.framework.pod.fields import is_finished, phase_of
from pytest_kwait.framework.predicates import AllOf, AnyOf, ConditionStatus, JsonPathValue
from pytest_kwait.framework.terminal_states.claims import detect_claim_failure
from pytest_kwait.framework.terminal_states.crds import detect_names_conflict
from pytest_kwait.framework.terminal_states.replica_failures import detect_replica_failure
from pytest_kwait.framework.terminal_states.workloads import (
    detect_progress_deadline_exceeded,
    detect_replica_set_refusal,
)
from pytest_kwait.framework.workload.fields import count_of, rolling_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.object_counter import TerminalState
    from pytest_kwait.framework.pod.conditions import PodGoal
    from pytest_kwait.framework.predicates import ObjectPredicate

__all__ = ["READ_WHOLE", "detect_terminal_failure"]

Obj: TypeAlias = "dict[str, Any]"

READ_WHOLE = frozenset({CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS})
"""The kinds of which more than conditions is looked at."""

_STATUS_FIELD = re.compile(r"\$\['status'\]\['(\w+)'\]")


def detect_terminal_failure(
    resource: Resource, test: ObjectPredicate, obj: Obj, before: TerminalState | None
) -> Failed | None:
    """Return the verdict on an object that will not satisfy a test; None where it may.

    Args:
        resource: its kind.
        test: the test, which is pending.
        obj: the object.
        before: what it was doomed by before.
    """
    if isinstance(test, AllOf | AnyOf):
        open_parts = [part for part in test.parts if not isinstance(part.judge(obj), Met)]
        lost = [detect_terminal_failure(resource, part, obj, before) for part in open_parts]
        first = next(filter(None, lost), None)
        return first if isinstance(test, AllOf) or all(lost) else None
    if isinstance(test, HeldPredicate):
        met = isinstance(test.test.judge(obj), Met)
        return None if met else detect_terminal_failure(resource, test.test, obj, before)
    if isinstance(test, ConditionStatus) and test.value.lower() == "true":
        judge = _CONDITIONS.get(resource)
        return judge(obj, test.kind.lower(), before) if judge else None
    if isinstance(test, JsonPathValue) and test.value is not None:
        found, values = _STATUS_FIELD.fullmatch(test.path.standard), _VALUES.get(resource)
        return values(obj, found[1], test.value.strip(), before) if found and values else None
    return None


def _failed(doom: TerminalState | None) -> Failed | None:
    return None if doom is None else Failed(doom.reason, doom.patience)


_POD_CONDITIONS = {
    "ready": READY,
    "containersready": READY,
    "initialized": RUNNING,
    "podscheduled": SCHEDULED,
}
_POD_PHASES = {"Running": RUNNING, "Succeeded": SUCCESS}


def _pod(pod: Obj, goal: PodGoal | None, before: TerminalState | None) -> Failed | None:
    if goal is None:
        return None
    if is_finished(pod):
        return Failed(f"the pod has ended: {phase_of(pod)}")
    verdict = goal.judge(pod)
    if isinstance(verdict, Failed) or goal.doom is None:
        return verdict if isinstance(verdict, Failed) else None
    return _failed(goal.doom(pod, before))


def _pod_condition(pod: Obj, kind: str, before: TerminalState | None) -> Failed | None:
    return _pod(pod, _POD_CONDITIONS.get(kind), before)


def _pod_value(pod: Obj, path: str, value: str, before: TerminalState | None) -> Failed | None:
    if path != "phase":
        return None
    if value == "Failed" and is_finished(pod):
        return Failed(f"the pod has ended: {phase_of(pod)}")
    return _pod(pod, _POD_PHASES.get(value), before)


_ENDS = ("Complete", "Failed")


def _end_of(job: Obj) -> str:
    """Return which end a Job has come to, in lower case; empty for none."""
    return next((end.lower() for end in _ENDS if _is_condition_true(job, end)), "")


def _is_condition_true(obj: Obj, kind: str) -> bool:
    return isinstance(ConditionStatus(kind).judge(obj), Met)


def _job_condition(job: Obj, kind: str, _: TerminalState | None) -> Failed | None:
    end = _end_of(job)
    return Failed(f"the job is {end}") if end and kind in ("complete", "failed") else None


def _job_value(job: Obj, path: str, value: str, _: TerminalState | None) -> Failed | None:
    end = _end_of(job)
    if not end or path not in ("succeeded", "failed", "active", "ready"):
        return None
    # Servers before 1.31 tell of the end while pods are still on their way out.
    return Failed(f"the job is {end}", Patience.SHORT)


def _is_observed(controller: Obj) -> bool:
    generation = controller["metadata"].get("generation") or 0
    return count_of(controller, "observedGeneration") >= generation


def _deployment_condition(deployment: Obj, kind: str, _: TerminalState | None) -> Failed | None:
    if kind not in ("available", "progressing"):
        return None
    refused = detect_replica_set_refusal(deployment)
    if refused is not None or not _is_observed(deployment):
        return _failed(refused)
    missed = detect_progress_deadline_exceeded(deployment)
    if missed is not None:
        return _failed(missed)
    enough = count_of(deployment, "replicas") >= rolling_bounds(deployment).least
    return None if enough else _failed(detect_replica_failure(deployment))


_REPLICAS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


def _replicas(controller: Obj, path: str, value: str, _: TerminalState | None) -> Failed | None:
    """Judge by whether pods are refused that would be needed for so many replicas."""
    if path not in _REPLICAS or not value.isdecimal() or not _is_observed(controller):
        return None
    missing = int(value) > count_of(controller, "replicas")
    return _failed(detect_replica_failure(controller)) if missing else None


def _definition_condition(definition: Obj, kind: str, _: TerminalState | None) -> Failed | None:
    return (
        _failed(detect_names_conflict(definition))
        if kind in ("established", "namesaccepted")
        else None
    )


def _claim_value(claim: Obj, path: str, value: str, _: TerminalState | None) -> Failed | None:
    return (
        _failed(detect_claim_failure(claim, None)) if (path, value) == ("phase", "Bound") else None
    )


def _namespace_value(
    namespace: Obj, path: str, value: str, _: TerminalState | None
) -> Failed | None:
    if (path, value) != ("phase", "Active") or not namespace["metadata"].get("deletionTimestamp"):
        return None
    return Failed("the namespace is being deleted")


_CONDITIONS: dict[Resource, Callable[[Obj, str, TerminalState | None], Failed | None]] = {
    PODS: _pod_condition,
    JOBS: _job_condition,
    DEPLOYMENTS: _deployment_condition,
    CUSTOM_RESOURCE_DEFINITIONS: _definition_condition,
}
_VALUES: dict[Resource, Callable[[Obj, str, str, TerminalState | None], Failed | None]] = {
    PODS: _pod_value,
    JOBS: _job_value,
    DEPLOYMENTS: _replicas,
    REPLICA_SETS: _replicas,
    REPLICATION_CONTROLLERS: _replicas,
    PERSISTENT_VOLUME_CLAIMS: _claim_value,
    NAMESPACES: _namespace_value,
}
