"""Conditions on one object of any kind, on those that a selector matches, on their list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.api.objects import ObjectMeta
from pytest_kwait.api.resource import JOBS, PODS
from pytest_kwait.engine.condition import Scope, Source
from pytest_kwait.engine.sighting import Sighting
from pytest_kwait.engine.tally import Doom, State, Tally
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.resources.controllers import selector_of
from pytest_kwait.resources.doom.pods import stay_doom
from pytest_kwait.resources.object_tests import ConditionStatus, Existence, UserTest
from pytest_kwait.resources.pods import PodFields, is_finished, phase_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.resources.object_tests import ObjectTest

__all__ = ["ListCondition", "ManyObjects", "OneObject"]


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


def _fields(resource: Resource, test: ObjectTest) -> type[Any] | None:
    if isinstance(test, UserTest):
        return None
    return PodFields if resource == PODS else _Fields


class OneObject:
    """One named object satisfies a test.

    Args:
        resource: its kind.
        namespace: where it is; None for a cluster-scoped kind.
        name: its name.
        test: what it is tested for.
    """

    def __init__(
        self, resource: Resource, namespace: str | None, name: str, test: ObjectTest
    ) -> None:
        self._sighting = Sighting(resource, name)
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
    def in_caller(self) -> bool:
        """Whether the test is code of the user."""
        return isinstance(self._test, UserTest)

    def sources(self) -> Sequence[Source]:
        """Return the object."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the test, once the object is there."""
        sighting, test = self._sighting, self._test
        absent = sighting.absence()
        if isinstance(test, Existence) and not test.wanted:
            return Met() if absent is not None else Pending(self._still_there())
        if absent is not None:
            return absent
        if isinstance(test, Existence):
            return Met()
        current = sighting.current or {}
        if isinstance(test, UserTest):
            return test.judge({**_type_of(sighting.resource), **current})
        verdict = test.judge(current)
        if isinstance(verdict, Pending):
            return _hopeless(sighting.resource, test, current, None) or verdict
        return verdict

    def _still_there(self) -> str:
        metadata = (self._sighting.current or {})["metadata"]
        if not metadata.get("deletionTimestamp"):
            return "still there, nobody is deleting it"
        finalizers = ", ".join(metadata.get("finalizers") or ())
        return f"being deleted{f', held by {finalizers}' if finalizers else ''}"

    def seen(self) -> str:
        """Say whether it is there."""
        return "" if self._sighting.current is None else "it is there"

    def result(self) -> dict[str, Any] | None:
        """Return the object; None once it is deleted."""
        gone = isinstance(self._test, Existence) and not self._test.wanted
        return None if gone else self._sighting.object()

    def scope(self) -> Scope:
        """Return the object, and the pods of a controller."""
        sighting = self._sighting
        is_pod = sighting.resource == PODS
        return Scope(
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
        count: how many must satisfy it, exactly; None for all, and at least one.
    """

    in_caller = False

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        selector: str | None,
        test: Existence | ConditionStatus,
        count: int | None,
    ) -> None:
        self._resource = resource
        self._namespace = namespace
        self._selector = selector
        self._test = test
        self._count = count
        self._tally = Tally(self._state)
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
        return _selection(self._resource, self._namespace, self._selector)

    @property
    def goal(self) -> str:
        """What each is tested for, and how many must satisfy it."""
        which = "all" if self._count is None else f"exactly {self._count}"
        return f"{self._test.goal} ({which})"

    def sources(self) -> Sequence[Source]:
        """Return the selection."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by how many satisfy the test."""
        total, met = len(self._tally), self._tally.count("met")
        if isinstance(self._test, Existence) and not self._test.wanted:
            left = self._count or 0
            return Met() if total == left else Pending(f"{total} still there")
        if self._count is not None:
            if met == self._count:
                return Met()
            return Pending(f"{met} of {total} satisfy it, {self._count} are awaited")
        if total and met == total:
            return Met()
        stuck = self._tally.nth_doomed(1)
        if stuck is not None and stuck[0].state.doom is not None:
            entry, patience, since = stuck
            return Failed(f"{entry.name}: {stuck[0].state.doom.reason}", patience, since)
        return Pending(f"{met} of {total} satisfy it" if total else "none is there yet")

    def _state(self, obj: dict[str, Any], before: Doom | None) -> State:
        if isinstance(self._test, Existence):
            return State("there", ("met",), keep=True)
        verdict = self._test.judge(obj)
        if isinstance(verdict, Met):
            return State("satisfied", ("met",), keep=True)
        hopeless = _hopeless(self._resource, self._test, obj, before)
        doom = None
        if hopeless is not None:
            # One object of many may be replaced by another: nothing is final at once.
            patience = hopeless.patience
            doom = Doom(hopeless.reason, Patience.SHORT if patience is Patience.NONE else patience)
        return State("not satisfied", doom=doom)

    def seen(self) -> str:
        """Sum up the selection."""
        return self._tally.summary()

    def result(self) -> list[dict[str, Any]] | None:
        """Return the objects that satisfy the test, sorted by name; None once they are deleted."""
        if isinstance(self._test, Existence) and not self._test.wanted:
            return None
        return self._tally.objects(self._resource)

    def scope(self) -> Scope:
        """Return the selected pods, if they are pods."""
        pods = self._selector if self._resource == PODS else None
        return Scope(self._namespace, pods=pods, suspects=self._tally.suspects())


class _Shelf:
    """The book of whole objects, for code of the user."""

    def __init__(self, resource: Resource) -> None:
        self._type = _type_of(resource)
        self._objects: dict[str, dict[str, Any]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        self._objects[obj["metadata"].get("uid") or obj["metadata"]["name"]] = obj

    def drop(self, uid: str) -> None:
        self._objects.pop(uid, None)

    def uids(self) -> Collection[str]:
        return self._objects.keys()

    def objects(self) -> list[dict[str, Any]]:
        objects = sorted(self._objects.values(), key=lambda obj: str(obj["metadata"]["name"]))
        return [{**self._type, **obj} for obj in objects]


class ListCondition:
    """The list of objects that a selector matches satisfies code of the user.

    Args:
        resource: their kind.
        namespace: where they are; None for a cluster-scoped kind.
        selector: which.
        test: what the list is tested for.
    """

    in_caller = True

    def __init__(
        self, resource: Resource, namespace: str | None, selector: str | None, test: UserTest
    ) -> None:
        self._resource = resource
        self._namespace = namespace
        self._selector = selector
        self._test = test
        self._shelf = _Shelf(resource)
        self._sources = (Source(resource, namespace, self._shelf, selector=selector),)
        self._met: Sequence[dict[str, Any]] = ()

    @property
    def subject(self) -> str:
        """The selection."""
        return _selection(self._resource, self._namespace, self._selector)

    @property
    def goal(self) -> str:
        """What the list is tested for."""
        return self._test.goal

    def sources(self) -> Sequence[Source]:
        """Return the selection."""
        return self._sources

    def verdict(self) -> Verdict:
        """Return what the user's code says of the list, sorted by name."""
        objects = self._shelf.objects()
        verdict = self._test.judge(objects)
        if isinstance(verdict, Met):
            self._met = verdict.objects or objects
        return verdict

    def seen(self) -> str:
        """Say how many objects are there."""
        return f"{len(self._shelf.uids())} {self._resource.plural}"

    def result(self) -> list[dict[str, Any]]:
        """Return the objects that the verdict named, or all of the list."""
        return list(self._met)

    def scope(self) -> Scope:
        """Return the selected pods, if they are pods."""
        return Scope(self._namespace, pods=self._selector if self._resource == PODS else None)


def _selection(resource: Resource, namespace: str | None, selector: str | None) -> str:
    where = f" in {namespace}" if namespace else ""
    return f"{resource.plural}{f' with {selector}' if selector else ''}{where}"


def _type_of(resource: Resource) -> dict[str, str]:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


_POD_READINESS = frozenset({"ready", "containersready"})
_JOB_ENDS = {"complete": "Failed", "failed": "Complete"}


def _hopeless(
    resource: Resource, test: ConditionStatus, obj: dict[str, Any], before: Doom | None
) -> Failed | None:
    """Return the verdict on an object whose condition will not come; None where it may."""
    wanted = test.kind.lower()
    if test.value.lower() != "true":
        return None
    if resource == PODS and wanted in _POD_READINESS:
        if is_finished(obj):
            return Failed(f"the pod has ended: {phase_of(obj)}")
        doom = stay_doom(obj, before)
        return None if doom is None else Failed(doom.reason, doom.patience)
    if resource == JOBS and wanted in _JOB_ENDS:
        against = ConditionStatus(_JOB_ENDS[wanted])
        if isinstance(against.judge(obj), Met):
            return Failed(f"the job is {against.kind.lower()}")
    return None
