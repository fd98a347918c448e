"""Conditions on one object of any kind, and on the objects that a selector matches.

Only the object itself shows terminal states here; pods and events are left to the waits of its
kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from pytest_kwait.apimachinery.conditions import get_phase
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
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import ObjectState, TerminalState
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.objects.lists import describe_selection, type_meta_of
from pytest_kwait.framework.pod.conditions import READY, RUNNING, SCHEDULED, SUCCESS
from pytest_kwait.framework.pod.fields import PodFields, is_finished
from pytest_kwait.framework.predicates import (
    AllOf,
    AnyOf,
    ConditionStatus,
    Existence,
    HeldPredicate,
    JsonPathValue,
    runs_user_code,
)
from pytest_kwait.framework.terminal_states.claims import detect_claim_failure
from pytest_kwait.framework.terminal_states.crds import detect_names_conflict
from pytest_kwait.framework.terminal_states.workloads import (
    detect_progress_deadline_exceeded,
    detect_replica_failure,
    detect_replica_set_refusal,
)
from pytest_kwait.framework.timers import TimedTally, Timers
from pytest_kwait.framework.workload.fields import (
    CONTROLLERS,
    count_of,
    rolling_bounds,
    selector_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.objects.lists import Count
    from pytest_kwait.framework.pod.conditions import PodGoal
    from pytest_kwait.framework.predicates import ObjectPredicate

__all__ = ["READ_WHOLE", "ManyObjects", "OneObject", "detect_terminal_failure"]

Obj: TypeAlias = "dict[str, Any]"

READ_WHOLE = frozenset({CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS})
"""The kinds of which more than conditions is read."""

_STATUS_FIELD = re.compile(r"\$\['status'\]\['(\w+)'\]")


def detect_terminal_failure(
    resource: Resource, test: ObjectPredicate, obj: Obj, before: TerminalState | None
) -> Failed | None:
    """Return the failure of an object that cannot satisfy a test; None while it may.

    Args:
        resource: its kind.
        test: the test, which is pending.
        obj: the object.
        before: its terminal state so far.
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
        return Failed(f"the pod has ended: {get_phase(pod)}")
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
        return Failed(f"the pod has ended: {get_phase(pod)}")
    return _pod(pod, _POD_PHASES.get(value), before)


_ENDS = ("Complete", "Failed")


def _end_of(job: Obj) -> str:
    """Return the type of a Job's end condition in lower case; empty for none."""
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
    # Servers before 1.31 report the end while pods are still terminating.
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
    """Decide by whether pods are refused that this number of replicas requires."""
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


class _Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None
    observedGeneration: int | None


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    conditions: list[_Condition] | None


class _Spec(TypedDict, total=False):
    selector: Any


class _Fields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def _fields(resource: Resource, test: ObjectPredicate) -> type[Any] | None:
    if not isinstance(test, ConditionStatus | Existence):
        return None
    if isinstance(test, ConditionStatus) and resource in READ_WHOLE:
        return None
    if isinstance(test, Existence) and not test.wanted and resource not in CONTROLLERS:
        # Metadata shows the finalizers; the object is not returned. Controllers show their pods.
        return PartialObjectMetadata
    return PodFields if resource == PODS else _Fields


class OneObject:
    """One named object satisfies a test.

    Args:
        resource: its kind.
        namespace: its namespace; None for a cluster-scoped kind.
        name: its name.
        test: the test.
        timers: the timers of the test; None for none.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        test: ObjectPredicate,
        timers: Timers | None = None,
    ) -> None:
        self._timers = timers or Timers()
        self._sighting = SingleObject(resource, name)
        self._test = test
        self._namespace = namespace
        source = Source(resource, namespace, self._sighting, name, fields=_fields(resource, test))
        self._sources = (source,)

    @property
    def subject(self) -> str:
        """The object."""
        where = f"{self._namespace}/" if self._namespace else ""
        return f"{self._sighting.noun} {where}{self._sighting.name}"

    @property
    def goal(self) -> str:
        """The goal of the test."""
        return self._test.goal

    @property
    def runs_user_code(self) -> bool:
        """Return whether the test runs user code."""
        return runs_user_code(self._test)

    @property
    def due(self) -> float:
        """The time at which the first timer ends; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        self._timers.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return the object."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the test, once the object exists."""
        sighting, test = self._sighting, self._test
        absent = sighting.missing_verdict()
        if absent is not None:
            return test.judge_absent(absent)
        current = {**type_meta_of(sighting.resource), **(sighting.current or {})}
        verdict = test.judge(current)
        if isinstance(verdict, Pending):
            return detect_terminal_failure(sighting.resource, test, current, None) or verdict
        return verdict

    def seen(self) -> str:
        """Return a note that the object exists; empty if it does not."""
        return "" if self._sighting.current is None else "it is there"

    def result(self) -> Any:
        """Return the object; None once it is deleted."""
        gone = isinstance(self._test, Existence) and not self._test.wanted
        return None if gone or self._sighting.current is None else self._sighting.object()

    def scope(self) -> EvidenceScope:
        """Return the object, and the pods of a controller."""
        sighting = self._sighting
        is_pod = sighting.resource == PODS
        return EvidenceScope(
            self._namespace,
            objects=(sighting.reference(),),
            pods=selector_of(sighting.resource, sighting.spec),
            pod_names=(sighting.name,) if is_pod and sighting.current is not None else (),
        )


class ManyObjects:
    """Objects that a selector matches satisfy a test.

    Args:
        resource: their kind.
        namespace: their namespace; None for a cluster-scoped kind.
        selector: the label selector.
        test: the test of each object.
        count: how many must satisfy it; None for all, and at least one.
        timers: the timers of the test; None for none.
    """

    runs_user_code = False

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        selector: str | None,
        test: ObjectPredicate,
        count: Count | None,
        timers: Timers | None = None,
    ) -> None:
        self._timers = timers or Timers()
        self._resource = resource
        self._namespace = namespace
        self._selector = selector
        self._test = test
        self._count = count
        self._tally = TimedTally(self._state, self._timers)
        self._sources = (
            Source(
                resource,
                namespace,
                self._tally,
                selector=selector,
                fields=_fields(resource, test),
            ),
        )

    @property
    def subject(self) -> str:
        """The selection."""
        return describe_selection(self._resource, self._namespace, self._selector)

    @property
    def goal(self) -> str:
        """The goal of the test and the number of objects that must satisfy it."""
        which = "all" if self._count is None else str(self._count)
        return f"{self._test.goal} ({which})"

    @property
    def due(self) -> float:
        """The time at which the first timer of an object ends; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict; evaluate objects whose timers have ended."""
        self._timers.set_time(now, fresh=fresh)
        if fresh:
            self._tally.reevaluate()

    def sources(self) -> Sequence[Source]:
        """Return the selection."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the number of objects that satisfy the test."""
        total, met = len(self._tally), self._tally.count("met")
        if isinstance(self._test, Existence) and not self._test.wanted:
            enough = self._count.admits(total) if self._count else not total
            return Met() if enough else Pending(f"{total} still there")
        if self._count is not None:
            if self._count.admits(met):
                return Met()
            text = f"{met} of {total} satisfy it, {self._count} are awaited"
            return Pending(text, absent=not total)
        if total and met == total:
            return Met()
        stuck = self._tally.nth_terminal(1)
        if stuck is not None and stuck[0].state.doom is not None:
            entry, patience, since = stuck
            return Failed(f"{entry.name}: {stuck[0].state.doom.reason}", patience, since)
        if not total:
            return Pending("none is there yet", absent=True)
        return Pending(f"{met} of {total} satisfy it")

    def _state(self, obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if isinstance(self._test, Existence):
            return ObjectState("there", ("met",), keep=True)
        verdict = self._test.judge(obj)
        if isinstance(verdict, Met):
            return ObjectState("satisfied", ("met",), keep=True)
        lost = detect_terminal_failure(self._resource, self._test, obj, before)
        if isinstance(verdict, Failed):
            lost = verdict
        doom = None
        if lost is not None:
            # One of several objects may be replaced, so nothing is final at once.
            patience = lost.patience
            doom = TerminalState(
                lost.reason, Patience.SHORT if patience is Patience.NONE else patience
            )
        return ObjectState("not satisfied", doom=doom)

    def seen(self) -> str:
        """Return a summary of the selection."""
        return self._tally.summary()

    def result(self) -> list[dict[str, Any]] | None:
        """Return the objects that satisfy the test, sorted by name; None once they are deleted."""
        if isinstance(self._test, Existence) and not self._test.wanted:
            return None
        return self._tally.objects(self._resource)

    def scope(self) -> EvidenceScope:
        """Return the selected pods, if they are pods."""
        pods = self._selector if self._resource == PODS else None
        return EvidenceScope(self._namespace, pods=pods, suspects=self._tally.suspects())
