"""Conditions on one object of any kind, and on the objects that a selector matches.

The object itself shows terminal states. Once a wait is stuck the events of claims are read too, and
of controllers what the waits of their kinds read.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from pytest_kwait.apimachinery.conditions import StatusCondition, get_condition, get_phase
from pytest_kwait.apimachinery.selectors import compile_label_selector
from pytest_kwait.client.resource import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
)
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Failed,
    Grace,
    Met,
    ObjectReference,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectState
from pytest_kwait.engine.pod_fields import PodFields, is_finished
from pytest_kwait.framework.events import EventFields, EventSource, LastEventStore
from pytest_kwait.framework.named_objects import ObjectCondition, describe_deletion, join_names
from pytest_kwait.framework.objects.lists import describe_selection, type_meta_of, uid_of
from pytest_kwait.framework.pod.controllers import PodControllers
from pytest_kwait.framework.pod.wait import READY, RUNNING, SCHEDULED, SUCCESS
from pytest_kwait.framework.predicates import (
    AllOf,
    AnyOf,
    ConditionStatus,
    Existence,
    HeldPredicate,
    JsonPathValue,
    ObjectMatch,
    list_differences,
    runs_user_code,
)
from pytest_kwait.framework.terminal_states.claims import detect_claim_failure
from pytest_kwait.framework.terminal_states.workloads import (
    detect_progress_deadline_exceeded,
    detect_replica_failure,
    detect_replica_set_refusal,
)
from pytest_kwait.framework.timers import TimedTally, Timers
from pytest_kwait.framework.workload.fields import (
    CONTROLLERS,
    count_of,
    least_available,
    selector_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.apimachinery.matching import Difference
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.objects.kind_conditions import KindConditions
    from pytest_kwait.framework.objects.lists import Count
    from pytest_kwait.framework.pod.wait import PodGoal
    from pytest_kwait.framework.predicates import ObjectPredicate

Obj: TypeAlias = "dict[str, Any]"

READ_WHOLE = frozenset({CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS})
"""The kinds of which more than conditions is read."""

_POD_CONDITIONS = {
    "ready": READY,
    "containersready": READY,
    "initialized": RUNNING,
    "podscheduled": SCHEDULED,
}
_POD_PHASES = {"Running": RUNNING, "Succeeded": SUCCESS}

_ENDS = ("Complete", "Failed")

_REPLICAS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")

_EVALUATED = 10
"""Maximum number of controllers of which the pods are read."""

_NAMED = 3
"""Maximum number of objects that are named while the deletion of all is awaited."""


def detect_terminal_failure(
    resource: Resource, test: ObjectPredicate, obj: Obj, before: TerminalState | None
) -> Failed | None:
    """Return the failure of an object that cannot satisfy a test; None while it may.

    Args:
        test: the test, which is pending.
        before: its terminal state so far.
    """
    if isinstance(test, ObjectMatch):
        test = AllOf(test.status_tests)
    if isinstance(test, AllOf | AnyOf):
        open_parts = [
            part
            for part in test.parts
            if runs_user_code(part) or not isinstance(part.evaluate(obj), Met)
        ]
        lost = [detect_terminal_failure(resource, part, obj, before) for part in open_parts]
        first = next(filter(None, lost), None)
        return first if isinstance(test, AllOf) or all(lost) else None
    if isinstance(test, HeldPredicate):
        met = isinstance(test.test.evaluate(obj), Met)
        return None if met else detect_terminal_failure(resource, test.test, obj, before)
    if isinstance(test, ConditionStatus) and test.value.lower() == "true":
        detect = _CONDITIONS.get(resource)
        return detect(obj, test.kind.lower(), before) if detect else None
    if isinstance(test, JsonPathValue) and test.value is not None:
        field, values = test.status_field, _VALUES.get(resource)
        return values(obj, field, test.value.strip(), before) if field and values else None
    return None


def awaits_containers(test: ObjectPredicate) -> bool:
    """Return whether a pod can satisfy a test only once its containers are created."""
    if isinstance(test, ObjectMatch):
        return any(map(awaits_containers, test.status_tests))
    if isinstance(test, AllOf):
        return any(map(awaits_containers, test.parts))
    if isinstance(test, AnyOf):
        return all(map(awaits_containers, test.parts))
    if isinstance(test, HeldPredicate):
        return awaits_containers(test.test)
    if isinstance(test, ConditionStatus):
        started = test.kind.lower() in ("ready", "containersready", "initialized")
        return started and test.value.lower() == "true"
    if isinstance(test, JsonPathValue) and test.value is not None:
        return test.status_field == "phase" and test.value.strip() in _POD_PHASES
    return False


def awaits_bound(test: ObjectPredicate) -> bool:
    """Return whether a claim can satisfy a test only once it is Bound."""
    if isinstance(test, ObjectMatch):
        return any(map(awaits_bound, test.status_tests))
    if isinstance(test, AllOf):
        return any(map(awaits_bound, test.parts))
    if isinstance(test, AnyOf):
        return all(map(awaits_bound, test.parts))
    if isinstance(test, HeldPredicate):
        return awaits_bound(test.test)
    if isinstance(test, JsonPathValue) and test.value is not None:
        return test.status_field == "phase" and test.value.strip() == "Bound"
    return False


def awaits_match(test: ObjectPredicate) -> bool:
    """Return whether a test awaits fields of an assertion tree."""
    if isinstance(test, AllOf | AnyOf):
        return any(map(awaits_match, test.parts))
    if isinstance(test, HeldPredicate):
        return awaits_match(test.test)
    return isinstance(test, ObjectMatch)


def awaits_deletion(test: ObjectPredicate) -> bool:
    """Return whether the absence of an object is what a test awaits, or a part of that."""
    if isinstance(test, AllOf | AnyOf):
        return any(map(awaits_deletion, test.parts))
    if isinstance(test, HeldPredicate):
        return awaits_deletion(test.test)
    return isinstance(test, Existence) and not test.wanted


def _failed(terminal: TerminalState | None) -> Failed | None:
    if terminal is None:
        return None
    return Failed(terminal.reason, terminal.grace, repeats=terminal.repeats)


def _pod(pod: Obj, goal: PodGoal | None, before: TerminalState | None) -> Failed | None:
    if goal is None:
        return None
    if is_finished(pod):
        return Failed(f"the pod has ended: {get_phase(pod)}")
    verdict = goal.evaluate(pod)
    if isinstance(verdict, Failed) or goal.detect is None:
        return verdict if isinstance(verdict, Failed) else None
    return _failed(goal.detect(pod, before))


def _pod_condition(pod: Obj, kind: str, before: TerminalState | None) -> Failed | None:
    return _pod(pod, _POD_CONDITIONS.get(kind), before)


def _pod_value(pod: Obj, path: str, value: str, before: TerminalState | None) -> Failed | None:
    if path != "phase":
        return None
    if value == "Failed" and is_finished(pod):
        return Failed(f"the pod has ended: {get_phase(pod)}")
    return _pod(pod, _POD_PHASES.get(value), before)


def _end_of(job: Obj) -> str:
    """Return the type of a Job's end condition in lower case; empty for none."""
    return next((end.lower() for end in _ENDS if _is_condition_true(job, end)), "")


def _is_condition_true(obj: Obj, kind: str) -> bool:
    return isinstance(ConditionStatus(kind).evaluate(obj), Met)


def _job_condition(job: Obj, kind: str, _: TerminalState | None) -> Failed | None:
    end = _end_of(job)
    return Failed(f"the job is {end}") if end and kind in ("complete", "failed") else None


def _job_value(job: Obj, path: str, value: str, _: TerminalState | None) -> Failed | None:
    end = _end_of(job)
    if not end or path not in ("succeeded", "failed", "active", "ready"):
        return None
    # Servers before 1.31 report the end while pods are still terminating.
    return Failed(f"the job is {end}", Grace.SHORT)


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
    enough = count_of(deployment, "replicas") >= least_available(deployment)
    return None if enough else _failed(detect_replica_failure(deployment))


def _replicas(controller: Obj, path: str, value: str, _: TerminalState | None) -> Failed | None:
    """Decide by whether pods are refused that this number of replicas requires."""
    if path not in _REPLICAS or not value.isdecimal() or not _is_observed(controller):
        return None
    missing = int(value) > count_of(controller, "replicas")
    return _failed(detect_replica_failure(controller)) if missing else None


def detect_names_conflict(definition: Obj) -> TerminalState | None:
    """Return the terminal state of a definition whose names another one has.

    It may pass: the other definition may be deleted.

    Source: apiextensions-apiserver pkg/controller/status/naming_controller.go.
    """
    condition = get_condition(definition, "NamesAccepted") or {}
    if condition.get("status") != "False":
        return None
    parts = (condition.get("reason"), condition.get("message"))
    why = ": ".join(" ".join(part.split()) for part in parts if part)
    return TerminalState(f"its names are not accepted: {why or 'no reason is given'}", Grace.LONG)


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


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    conditions: list[StatusCondition] | None


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


def make_kind_conditions(
    resource: Resource, namespace: str | None, test: ObjectPredicate
) -> KindConditions | None:
    """Return the conditions of the waits of a controller's kind; None for other kinds."""
    if resource not in CONTROLLERS or namespace is None:
        return None
    # Most waits name no controller, and its kinds' modules take time to load.
    from pytest_kwait.framework.objects.kind_conditions import KindConditions

    return KindConditions(resource, namespace, test)


class OneObject(ObjectCondition):
    """One named object satisfies a test.

    Args:
        namespace: its namespace; None for a cluster-scoped kind.
        timers: the timers of the test; None for none.
        uid: its UID, which counts if its deletion is awaited; empty for the first one seen.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        test: ObjectPredicate,
        timers: Timers | None = None,
        uid: str = "",
    ) -> None:
        self._timers = timers or Timers()
        fields, uid = _fields(resource, test), uid if awaits_deletion(test) else ""
        super().__init__(resource, namespace, name, fields, uid)
        self.runs_user_code = runs_user_code(test)
        self._test = test
        self._events = LastEventStore()
        self._event_source = EventSource(
            EVENTS,
            namespace,
            self._events,
            fields=EventFields,
            kind=resource.kind,
            about=name,
        )
        self.awaits_absence = isinstance(test, Existence) and not test.wanted
        self._awaits_bound = resource == PERSISTENT_VOLUME_CLAIMS and awaits_bound(test)
        self._kinds = make_kind_conditions(resource, namespace, test)

    @property
    def goal(self) -> str:
        """The goal of the test."""
        return self._test.goal

    @property
    def due(self) -> float:
        """The time at which the first timer ends; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        self._timers.set_time(now, fresh=fresh)

    def verdict(self) -> Verdict:
        """Decide by the test, once the object exists."""
        sighting, test = self.object, self._test
        absent = sighting.missing_verdict()
        if absent is not None:
            return test.evaluate_absent(absent)
        current = {**type_meta_of(sighting.resource), **(sighting.current or {})}
        verdict = test.evaluate(current)
        if isinstance(verdict, Pending):
            lost = detect_terminal_failure(sighting.resource, test, current, None)
            if lost is None and awaits_containers(test):
                lost = _failed(sighting.marked)
            return sighting.date_failure(lost) if lost else verdict
        return verdict

    def deferred_source(self) -> Source | None:
        """Return the events of a claim that does not get Bound: they name a missing class."""
        current = self.object.current
        is_pending = current is not None and get_phase(current) == "Pending"
        return self._event_source if is_pending and self._awaits_bound else None

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if no volume can be provisioned, by the last event."""
        current = self.object.current or {}
        return _failed(detect_claim_failure(current, self._events.last(self.object.uid)))

    def deferred_conditions(self) -> Sequence[Condition]:
        """Return the condition of a controller's own kind that reads its pods."""
        if self._kinds is None or self.object.current is None:
            return ()
        condition = self._kinds.of(self.object.current)
        return () if condition is None else (condition,)

    def deferred_failures_needed(self) -> int:
        """Return 1: there is one object."""
        return 1

    def differences(self) -> list[Difference]:
        """Return the fields of the object that are not as awaited."""
        sighting = self.object
        if sighting.current is None or sighting.missing_verdict() is not None:
            return []
        current = {**type_meta_of(sighting.resource), **sighting.current}
        return list_differences(self._test, current)

    def result(self) -> Any:
        """Return the object; None once it is deleted."""
        is_gone = self.awaits_absence or self.object.missing_verdict() is not None
        return None if is_gone else self.object.object()

    def scope(self) -> EvidenceScope:
        """Return the object, and the pods of a controller."""
        sighting = self.object
        is_pod = sighting.resource == PODS
        return EvidenceScope(
            self.namespace,
            objects=(sighting.reference(),),
            pods=selector_of(sighting.resource, sighting.spec),
            pod_names=(sighting.name,) if is_pod and sighting.current is not None else (),
        )


class ManyObjects(Condition):
    """Objects that a selector matches satisfy a test.

    Args:
        resource: their kind.
        namespace: their namespace; None for a cluster-scoped kind.
        test: the test of each object.
        count: how many must satisfy it; None for all, and at least one.
        timers: the timers of the test; None for none.
    """

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
        self.namespace = namespace
        self._selector = selector
        self._test = test
        self._count = count
        # Other kinds have no controllers that are known to want a number of them.
        self._controllers: PodControllers | None = None
        if resource == PODS:
            self._controllers = PodControllers(namespace, compile_label_selector(selector))
        self._tally = TimedTally(self._state, self._timers)
        self._tally.takes_marks = resource == PODS and awaits_containers(test)
        self._kinds = make_kind_conditions(resource, namespace, test)
        self._awaits_bound = resource == PERSISTENT_VOLUME_CLAIMS and awaits_bound(test)
        self._shows_differences = awaits_match(test)
        self._keeps_unmet = self._awaits_bound or self._kinds is not None or self._shows_differences
        self._unmet: dict[str, Obj] = {}
        self._awaits_deletion = isinstance(test, Existence) and not test.wanted
        self._remaining: dict[str, Obj] = {}
        self._events = LastEventStore()
        self._event_source = EventSource(
            EVENTS, namespace, self._events, fields=EventFields, kind=resource.kind
        )
        self._sources: tuple[Source, ...] = (
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
        return describe_selection(self._resource, self.namespace, self._selector)

    @property
    def goal(self) -> str:
        """The goal of the test and the number of objects that must satisfy it."""
        quantifier = "all" if self._count is None else str(self._count)
        return f"{self._test.goal} ({quantifier})"

    @property
    def due(self) -> float:
        """The time at which the first timer of an object ends; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict; evaluate objects whose timers have ended."""
        self._timers.set_time(now, fresh=fresh)
        if fresh:
            self._tally.reevaluate()

    def verdict(self) -> Verdict:
        """Decide by the number of objects that satisfy the test."""
        total, met = len(self._tally), self._tally.count("met")
        if self._awaits_deletion:
            enough = self._count.admits(total) if self._count else not total
            if enough:
                return Met(settled=self._is_settled())
            named = [_describe_remaining(obj) for obj in self._list_remaining()]
            return Pending(f"{total} still there: {join_names(named, _NAMED, total)}")
        if self._count is not None:
            if self._count.admits(met):
                return Met(settled=self._is_settled())
            text = f"{met} of {total} satisfy it, {self._count} are awaited"
            return self._stuck() or Pending(text, absent=not total)
        if total and met == total:
            return Met()
        if (stuck := self._stuck()) is not None:
            return stuck
        if not total:
            return Pending("none is there yet", absent=True)
        return Pending(f"{met} of {total} satisfy it")

    def deferred_failures_needed(self) -> int:
        """Return how many objects must be stuck to fail the wait; 0 if no number does."""
        total = len(self._tally)
        if self._count is None:
            return 1
        if self._count.bound == "at most" or self._tally.count("met") > self._count.number:
            return 0
        return max(total - self._count.number + 1, 0)

    def _stuck(self) -> Failed | None:
        needed = self.deferred_failures_needed()
        return self._tally.terminal_verdict(needed, "", count_others=False)

    def _list_remaining(self) -> list[Obj]:
        """Return the first objects whose deletion is awaited."""
        there = self._tally.uids()
        first: list[tuple[str, Obj]] = []
        gone: list[tuple[str, Obj]] = []
        for uid, obj in self._remaining.items():
            if len(first) == _NAMED:
                break
            (first if uid in there else gone).append((uid, obj))
        # Each that is gone is looked at once.
        for uid, _ in gone:
            del self._remaining[uid]
        return [obj for _, obj in first]

    def _iterate_unmet(self) -> Iterator[Obj]:
        there = self._tally.uids()
        self._unmet = {uid: obj for uid, obj in self._unmet.items() if uid in there}
        yield from self._unmet.values()

    def deferred_source(self) -> Source | None:
        """Return the events of claims that do not get Bound: they name a missing class."""
        if not self._awaits_bound or not self.deferred_failures_needed():
            return None
        return self._event_source if any(self._iterate_unmet()) else None

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if no volume can be provisioned for too many claims."""
        lost = [
            Failed(f"{claim['metadata']['name']}: {terminal.reason}", terminal.grace)
            for claim in self._iterate_unmet()
            if (terminal := detect_claim_failure(claim, self._events.last(uid_of(claim))))
        ]
        return lost[0] if len(lost) >= self.deferred_failures_needed() else None

    def deferred_conditions(self) -> Sequence[Condition]:
        """Return the conditions of the controllers' own kind that read their pods."""
        if self._kinds is None or not 0 < self.deferred_failures_needed() <= _EVALUATED:
            return ()
        conditions = (self._kinds.of(obj) for obj in self._iterate_unmet())
        return tuple(islice(filter(None, conditions), _EVALUATED))

    def sources(self) -> Sequence[Source]:
        """Return the objects, and controllers of pods once their exact number is reached."""
        count, met = self._count, self._tally.count("met")
        if count is not None and count.is_exact and count.admits(met) and self._controllers:
            added = self._controllers.sources()
            if len(added) + 1 != len(self._sources):
                self._sources = (self._sources[0], *added)
        return self._sources

    def _is_settled(self) -> bool:
        """Return whether the number of objects is not on its way to another one."""
        if self._count is None or not self._count.is_exact:
            return True
        return self._controllers is not None and self._controllers.is_settled(self._tally)

    def _state(self, obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        state = self._evaluate_object(obj, before)
        if self._awaits_deletion:
            self._remaining[uid_of(obj)] = obj
        if self._keeps_unmet:
            self._unmet.pop(uid_of(obj), None)
            if not state.keep:
                self._unmet[uid_of(obj)] = obj
        if self._controllers is None:
            return state
        names = self._controllers.classify(obj, met=state.keep)
        return replace(state, counts=(*state.counts, *names))

    def _evaluate_object(self, obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if isinstance(self._test, Existence):
            return ObjectState("there", ("met",), keep=True)
        if self._shows_differences:
            obj = {**type_meta_of(self._resource), **obj}
        verdict = self._test.evaluate(obj)
        if isinstance(verdict, Met):
            return ObjectState("satisfied", ("met",), keep=True)
        lost = detect_terminal_failure(self._resource, self._test, obj, before)
        if isinstance(verdict, Failed):
            lost = verdict
        terminal = None
        if lost is not None:
            # One of several objects may be replaced, so nothing is final at once.
            grace = lost.grace
            grace = Grace.SHORT if grace is Grace.NONE else grace
            terminal = TerminalState(lost.reason, grace, lost.repeats)
        return ObjectState("not satisfied", terminal_state=terminal)

    def summarize(self) -> str:
        """Return a summary of the selection."""
        return self._tally.summary()

    def differences(self) -> list[Difference]:
        """Return the fields of the first object that are not as awaited, after its name."""
        unmet = self._iterate_unmet() if self._shows_differences else ()
        for obj in sorted(unmet, key=lambda obj: str(obj["metadata"]["name"])):
            name = obj["metadata"]["name"]
            current = {**type_meta_of(self._resource), **obj}
            found = list_differences(self._test, current)
            return [replace(each, path=f"{name}: {each.path}") for each in found]
        return []

    def result(self) -> list[dict[str, Any]] | None:
        """Return the objects that satisfy the test, sorted by name; None once they are deleted."""
        return None if self._awaits_deletion else self._tally.objects(self._resource)

    def scope(self) -> EvidenceScope:
        """Return the selected pods, or the first stuck controller and its pods.

        Of objects whose deletion is awaited, it has the first ones.
        """
        for condition in self.deferred_conditions():
            return condition.scope()
        pods = self._selector if self._resource == PODS else None
        kind, qualified = self._resource.kind, self._resource.qualified
        remaining = [
            ObjectReference(kind, obj["metadata"]["name"], uid_of(obj), qualified)
            for obj in (self._list_remaining() if self._awaits_deletion else ())
        ]
        suspects = self._tally.suspects()
        return EvidenceScope(self.namespace, remaining, pods=pods, suspects=suspects)


def _describe_remaining(obj: Obj) -> str:
    metadata = obj["metadata"]
    state = describe_deletion(obj).removeprefix("still there, ")
    if deleted_at := metadata.get("deletionTimestamp"):
        state += f", deletionTimestamp {deleted_at}"
    return f"{metadata['name']} ({state})"
