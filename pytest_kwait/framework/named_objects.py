"""Objects identified by name: conditions, UIDs, and `kind/name` targets of verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.options import check_text, parse_target
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline

__all__ = [
    "AbsentObject",
    "NamedObject",
    "NamedObjectStore",
    "NamedTarget",
    "ObjectGoal",
    "controller_uid",
    "finalizer_goal",
    "parse_named_uids",
    "resolve_target",
]

Obj: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class ObjectGoal:
    """An awaited state of an object.

    Args:
        text: as a verb: `have a load balancer`.
        judge: returns the verdict on an existing object.
        alive: whether an object that is being deleted can no longer reach the state.
        gone: whether a missing or replaced object counts as met.
    """

    text: str
    judge: Callable[[Obj], Verdict]
    alive: bool = False
    gone: bool = False


class NamedObject:
    """One object reaches the state of a goal.

    Args:
        resource: its kind.
        namespace: its namespace; None for a cluster-scoped kind.
        name: its name.
        goal: the awaited state.
        label: returns a short description of the object, for the summary.
        fields: the fields that the goal reads; None for all.
        uid: its UID; empty for the first one seen.

    Raises:
        InvalidArgument: the name is invalid.
    """

    runs_user_code = False

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        goal: ObjectGoal,
        label: Callable[[Obj], str],
        fields: type[Any] | None = None,
        uid: str = "",
    ) -> None:
        self.namespace = None if namespace is None else check_namespace(namespace)
        noun = resource.singular or resource.kind.lower()
        self.object = SingleObject(resource, check_name(noun, name), uid)
        self.goal = goal.text
        self._goal = goal
        self._label = label
        self._sources: tuple[Source, ...] = (
            Source(resource, namespace, self.object, name, fields=fields),
        )

    @property
    def subject(self) -> str:
        """The object."""
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.object.noun} {where}{self.object.name}"

    def sources(self) -> Sequence[Source]:
        """Return the object."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the goal, while the object exists."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return Met() if self._goal.gone else absent
        verdict = self._goal.judge(self.object.current or {})
        if self._goal.alive and isinstance(verdict, Pending):
            return self.object.ending() or verdict
        return verdict

    def seen(self) -> str:
        """Return a short description of the object."""
        return "" if self.object.current is None else self._label(self.object.current)

    def result(self) -> Any:
        """Return the last version of the object; None once it is gone."""
        return self.object.object() if self.object.missing_verdict() is None else None

    def scope(self) -> EvidenceScope:
        """Return the object."""
        return EvidenceScope(self.namespace, objects=(self.object.reference(),))


class AbsentObject(NamedObject):
    """One object is gone, even if a new one has the same name.

    Args:
        resource: its kind.
        namespace: its namespace; None for a cluster-scoped kind.
        name: its name.
        uid: its UID; None for the first one seen.
        label: returns a short description of the object.
        holder: returns the reason for a finalizer, from the object and the finalizer; empty if
            unknown.
        undeleted: returns the message for an object that is not being deleted.
        fields: the fields that these read; None for all.

    Raises:
        InvalidArgument: the name or UID is invalid.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        uid: str | None,
        label: Callable[[Obj], str],
        holder: Callable[[Obj, str], str] = lambda obj, finalizer: "",
        undeleted: Callable[[Obj], str] = lambda obj: "nobody is deleting it",
        fields: type[Any] | None = None,
    ) -> None:
        self._holder = holder
        self._undeleted = undeleted
        goal = ObjectGoal("go away", self._judge, gone=True)
        meant = "" if uid is None else check_text("uid", uid)
        super().__init__(resource, namespace, name, goal, label, fields, meant)

    def _judge(self, obj: Obj) -> Verdict:
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp"):
            return Pending(f"still there, {self._undeleted(obj)}")
        holders = []
        for finalizer in metadata.get("finalizers") or ():
            why = self._holder(obj, finalizer)
            holders.append(f"{finalizer} ({why})" if why else str(finalizer))
        return Pending(f"being deleted{', held by ' if holders else ''}{' and '.join(holders)}")

    def result(self) -> None:
        """Return None: the object is gone."""


def finalizer_goal(finalizer: str, present: bool) -> ObjectGoal:
    """Return the goal of an object that has, or no longer has, a finalizer.

    A missing object has none.
    """

    def judge(obj: Obj) -> Verdict:
        there = obj["metadata"].get("finalizers") or ()
        if (finalizer in there) == present:
            return Met()
        others = f", it has {', '.join(there)}" if there and present else ""
        return Pending(f"{finalizer} is {'not there' if present else 'still there'}{others}")

    text = f"have finalizer {finalizer}" if present else f"lose finalizer {finalizer}"
    # A terminating object gets no new finalizers.
    return ObjectGoal(text, judge, alive=present, gone=not present)


class NamedObjectStore:
    """The sink for named objects of a source; it ignores others.

    Args:
        resource: their kind.
        uids: their UIDs by name; an empty UID for the first one seen.
    """

    def __init__(self, resource: Resource, uids: Mapping[str, str]) -> None:
        self._named = {name: SingleObject(resource, name, uid) for name, uid in uids.items()}
        self._there: dict[str, SingleObject] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Add or replace one of them."""
        sighting = self._named.get(obj["metadata"]["name"])
        if sighting is not None:
            sighting.put(obj, raw, now)
            self._there[obj["metadata"].get("uid") or obj["metadata"]["name"]] = sighting

    def drop(self, uid: str) -> None:
        """Remove one of them."""
        sighting = self._there.pop(uid, None)
        if sighting is not None:
            sighting.drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present objects."""
        return self._there.keys()

    @property
    def sightings(self) -> Collection[SingleObject]:
        """All objects, in the order of the argument."""
        return self._named.values()


def parse_named_uids(what: str, given: object) -> dict[str, str]:
    """Return the UIDs of objects by their names; empty if only the name is given.

    Args:
        what: the name of the argument.
        given: a non-empty list of objects in their API form, or of their names.

    Raises:
        InvalidArgument: `given` has another form.
    """
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InvalidArgument(what, given, "use a list of objects or names, at least one")
    named: dict[str, str] = {}
    for each in given:
        metadata = each.get("metadata") if isinstance(each, Mapping) else {"name": each}
        if not isinstance(metadata, Mapping):
            raise InvalidArgument(what, each, "use objects as the API has them, or their names")
        named[check_name(what, metadata.get("name"))] = str(metadata.get("uid") or "")
    return named


class NamedTarget(NamedTuple):
    """The object that a target names.

    Args:
        resource: its kind.
        name: its name.
    """

    resource: Resource
    name: str


def resolve_target(session: Session, target: object, deadline: Deadline) -> NamedTarget:
    """Return the object that `kind/name` names; only custom kinds cost a request.

    Raises:
        ApiError: the server refuses to list its kinds.
        InvalidArgument: the target is no `kind/name`, or an unknown kind; suggests similar kinds.
    """
    kind, name = parse_target("target", target)
    if not name:
        raise InvalidArgument("target", target, "use kind/name, for example 'deployment/web'")
    check_name("target", name)
    known = match_resource(BUILT_IN.values(), kind, None)
    if known is not None:
        return NamedTarget(known, name)
    return NamedTarget(
        request_with_retry(lambda left: session.resolve(kind, deadline=left), deadline), name
    )


def controller_uid(obj: dict[str, Any]) -> str:
    """Return the UID of an object's controller; empty without one."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid") or "")
    return ""
