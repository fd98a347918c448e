"""Counts of objects, and conditions on the list of objects that a selector matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Failed,
    Grace,
    Met,
    ObjectSink,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.engine.options import check_count
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.predicates import ListPredicate, ObjectPredicate


@dataclass(frozen=True, slots=True)
class Count:
    """A bound on the number of objects.

    Args:
        bound: the kind of bound.
        number: the number of objects.
    """

    bound: Literal["exactly", "at least", "at most"]
    number: int

    @property
    def is_exact(self) -> bool:
        """True for an exact number, which may not be exceeded."""
        return self.bound == "exactly"

    def __str__(self) -> str:
        return f"{self.bound} {self.number}"

    def admits(self, number: int) -> bool:
        """Return whether the number of objects is within the bound."""
        if self.is_exact:
            return number == self.number
        return number >= self.number if self.bound == "at least" else number <= self.number


def exactly(number: int) -> Count:
    """Return the count of a bare number: no more and no fewer.

    Raises:
        InvalidArgument: it is negative or not a whole number.
    """
    return Count("exactly", check_count("count", number))


def at_least(number: int) -> Count:
    """Return the count for this number of objects or more.

    Raises:
        InvalidArgument: it is less than 1 or not a whole number; a minimum of 0 always holds.
    """
    return Count("at least", check_count("count", number, least=1))


def at_most(number: int) -> Count:
    """Return the count for this number of objects or fewer, including none.

    Raises:
        InvalidArgument: it is negative or not a whole number.
    """
    return Count("at most", check_count("count", number))


def parse_count(value: object) -> Count | None:
    """Return the count that the argument `count=` specifies; None for all.

    Raises:
        InvalidArgument: it is neither a count nor a whole number of 0 or more.
    """
    if value is None or isinstance(value, Count):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(
            "count", value, "use a whole number, 0 or more, at_least(n) or at_most(n)"
        )
    return exactly(value)


class _ListStore(ObjectSink):
    """The sink that keeps whole objects for user code."""

    def __init__(self, resource: Resource) -> None:
        self._type = type_meta_of(resource)
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


class ListCondition(Condition):
    """The list of objects that a selector matches satisfies user code.

    Args:
        resource: their kind.
        namespace: their namespace; None for a cluster-scoped kind.
        timers: the timers of the test; None for none.
    """

    runs_user_code = True

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        selector: str | None,
        test: ListPredicate,
        timers: Timers | None = None,
    ) -> None:
        self._timers = timers or Timers()
        self._resource = resource
        self.namespace = namespace
        self._selector = selector
        self._test = test
        self._shelf = _ListStore(resource)
        self._sources = (Source(resource, namespace, self._shelf, selector=selector),)
        self._met: Sequence[dict[str, Any]] = ()

    @property
    def subject(self) -> str:
        """The selection."""
        return describe_selection(self._resource, self.namespace, self._selector)

    @property
    def goal(self) -> str:
        """The goal of the test."""
        return self._test.goal

    @property
    def due(self) -> float:
        """The time at which the first timer of an object ends; infinite while none runs."""
        return self._timers.due

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict."""
        self._timers.set_time(now, fresh=fresh)

    def verdict(self) -> Verdict:
        """Return the user code's verdict on the list, sorted by name."""
        objects = self._shelf.objects()
        verdict = self._test.evaluate(objects)
        if isinstance(verdict, Met):
            self._met = verdict.objects or objects
        if isinstance(verdict, Pending) and not objects:
            return Pending(verdict.reason, absent=True)
        return verdict

    def summarize(self) -> str:
        """Return the number of objects as text."""
        return f"{len(self._shelf.uids())} {self._resource.plural}"

    def result(self) -> list[dict[str, Any]]:
        """Return the objects that the verdict named, or the whole list."""
        return list(self._met)

    def scope(self) -> EvidenceScope:
        """Return the selected pods, if they are pods."""
        return EvidenceScope(
            self.namespace, pods=self._selector if self._resource == PODS else None
        )


def describe_selection(resource: Resource, namespace: str | None, selector: str | None) -> str:
    """Return the description of a selection for use in sentences."""
    where = f" in {namespace}" if namespace else ""
    return f"{resource.plural}{f' with {selector}' if selector else ''}{where}"


def type_meta_of(resource: Resource) -> dict[str, str]:
    """Return `apiVersion` and `kind`, which items of a list lack."""
    return {"apiVersion": resource.api_version, "kind": resource.kind}


class EachObjectPredicate:
    """A test of a list by the number of objects that satisfy a test.

    Args:
        test: the test of each object.
        count: how many must satisfy it; None for all, and at least one.
        timers: the timers of the test; None for none.
        detect: returns the failure of an object that cannot satisfy the test; None for no check.
    """

    def __init__(
        self,
        test: ObjectPredicate,
        count: Count | None,
        timers: Timers | None = None,
        detect: Callable[[dict[str, Any]], Failed | None] = lambda obj: None,
    ) -> None:
        self._test = test
        self._count = count
        self._detect = detect
        self._timers = timers or Timers()
        self._known: set[str] = set()

    @property
    def goal(self) -> str:
        """The goal of the test and the number of objects that must satisfy it."""
        return f"{self._test.goal} ({'all' if self._count is None else self._count})"

    def evaluate(self, subject: list[dict[str, Any]]) -> Verdict:
        """Decide by the number of objects that satisfy the test, or cannot."""
        met: list[dict[str, Any]] = []
        unmet: list[dict[str, Any]] = []
        for obj in subject:
            (met if self._is_met(obj) else unmet).append(obj)
        there = {uid_of(obj) for obj in subject}
        for gone in self._known - there:
            self._timers.forget(gone)
        self._known = there
        if self._count is not None:
            if self._count.admits(len(met)):
                return Met(met, settled=not self._count.is_exact)
            text = f"{len(met)} of {len(subject)} satisfy it, {self._count} are awaited"
            reachable = self._count.bound != "at most" and len(met) < self._count.number
            needed = len(subject) - self._count.number + 1
            return (self._stuck(unmet, needed) if reachable else None) or Pending(text)
        if subject and len(met) == len(subject):
            return Met(met)
        text = f"{len(met)} of {len(subject)} satisfy it" if subject else "none is there yet"
        return self._stuck(unmet, 1) or Pending(text)

    def _stuck(self, unmet: list[dict[str, Any]], needed: int) -> Failed | None:
        """Return the first failure once `needed` objects cannot satisfy the test; else None."""
        lost = []
        for obj in unmet:
            self._timers.key = uid_of(obj)
            if (failure := self._detect(obj)) is not None:
                lost.append((obj, failure))
        if needed < 1 or len(lost) < needed:
            return None
        obj, failed = lost[0]
        # One of several objects may be replaced, so nothing is final at once.
        grace = Grace.SHORT if failed.grace is Grace.NONE else failed.grace
        return Failed(f"{obj['metadata']['name']}: {failed.reason}", grace)

    def _is_met(self, obj: dict[str, Any]) -> bool:
        self._timers.key = uid_of(obj)
        return isinstance(self._test.evaluate(obj), Met)


def uid_of(obj: dict[str, Any]) -> str:
    """Return an object's UID; its name if it has none."""
    return str(obj["metadata"].get("uid") or obj["metadata"]["name"])
