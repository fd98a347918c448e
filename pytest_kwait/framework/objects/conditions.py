"""Conditions on one object of any kind, and on those that a selector matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.client.resource import PODS
from pytest_kwait.client.responses import ObjectMeta, PartialObjectMetadata
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import ObjectState, TerminalState
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.nested_tests import runs_user_code
from pytest_kwait.framework.objects.lists import describe_selection, type_meta_of
from pytest_kwait.framework.objects.object_prospects import READ_WHOLE, detect_terminal_failure
from pytest_kwait.framework.pod.fields import PodFields
from pytest_kwait.framework.predicates import ConditionStatus, Existence
from pytest_kwait.framework.timed_tallies import TimedTally
from pytest_kwait.framework.timers import Timers
from pytest_kwait.framework.workload.controllers import CONTROLLERS, selector_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.objects.object_counts import Count
    from pytest_kwait.framework.predicates import ObjectPredicate

__all__ = ["ManyObjects", "OneObject"]


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
        # Nothing is returned, and what holds it is in there; of a controller the pods are shown.
        return PartialObjectMetadata
    return PodFields if resource == PODS else _Fields


class OneObject:
    """One named object satisfies a test.

    Args:
        resource: its kind.
        namespace: where it is; None for a cluster-scoped kind.
        name: its name.
        test: what it is tested for.
        timers: the times in the test; None for none.
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
        """What it is tested for."""
        return self._test.goal

    @property
    def runs_user_code(self) -> bool:
        """Whether the test is code of the user."""
        return runs_user_code(self._test)

    @property
    def due(self) -> float:
        """When the first time in the test is over; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of."""
        self._timers.set_time(now, fresh=fresh)

    def sources(self) -> Sequence[Source]:
        """Return the object."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the test, once the object is there."""
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
        """Say whether it is there."""
        return "" if self._sighting.current is None else "it is there"

    def result(self) -> dict[str, Any] | None:
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
        namespace: where they are; None for a cluster-scoped kind.
        selector: which.
        test: what each is tested for.
        count: how many must satisfy it; None for all, and at least one.
        timers: the times in the test; None for none.
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
        """What each is tested for, and how many must satisfy it."""
        which = "all" if self._count is None else str(self._count)
        return f"{self._test.goal} ({which})"

    @property
    def due(self) -> float:
        """When the first time of an object is over; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of; judge those anew whose time is over."""
        self._timers.set_time(now, fresh=fresh)
        if fresh:
            self._tally.reevaluate()

    def sources(self) -> Sequence[Source]:
        """Return the selection."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by how many satisfy the test."""
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
            # One object of many may be replaced by another: nothing is final at once.
            patience = lost.patience
            doom = TerminalState(
                lost.reason, Patience.SHORT if patience is Patience.NONE else patience
            )
        return ObjectState("not satisfied", doom=doom)

    def seen(self) -> str:
        """Sum up the selection."""
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
