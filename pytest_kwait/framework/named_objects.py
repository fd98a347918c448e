"""Objects known by name: conditions, UIDs, and `kind/name` targets of verbs."""

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
    """What an object is awaited to be.

    Args:
        text: as a verb: `have a load balancer`.
        judge: whether it is that, what is missing, or why it can no longer be.
        alive: whether an object that is being deleted does not get there any more.
        gone: whether an object that is not there, or is another one, is what is awaited as well.
    """

    text: str
    judge: Callable[[Obj], Verdict]
    alive: bool = False
    gone: bool = False


class NamedObject:
    """One object becomes what a goal says.

    Args:
        resource: its kind.
        namespace: where it is; None for a cluster-scoped kind.
        name: its name.
        goal: what is awaited.
        label: what it is in a few words, for what was seen.
        fields: the fields that the goal reads; None for all.
        uid: its UID; empty to take the first one seen for the one that is meant.

    Raises:
        InvalidArgument: a name that cannot be one.
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
        """Judge by the goal, while the object is there."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return Met() if self._goal.gone else absent
        verdict = self._goal.judge(self.object.current or {})
        if self._goal.alive and isinstance(verdict, Pending):
            return self.object.ending() or verdict
        return verdict

    def seen(self) -> str:
        """Say what it is."""
        return "" if self.object.current is None else self._label(self.object.current)

    def result(self) -> Any:
        """Return the object as it came last; None once it is gone."""
        return self.object.object() if self.object.missing_verdict() is None else None

    def scope(self) -> EvidenceScope:
        """Return the object."""
        return EvidenceScope(self.namespace, objects=(self.object.reference(),))


class AbsentObject(NamedObject):
    """One object is gone, whatever of the same name came after it.

    Args:
        resource: its kind.
        namespace: where it is; None for a cluster-scoped kind.
        name: its name.
        uid: its UID; None to take the first one seen for the one that is meant.
        label: what it is in a few words.
        holder: what a finalizer waits for, given the object and the finalizer; empty for unknown.
        undeleted: what is to be said of an object that nobody is deleting.
        fields: the fields that these read; None for all.

    Raises:
        InvalidArgument: a name or a UID that cannot be one.
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
        """Return nothing: there is none."""


def finalizer_goal(finalizer: str, present: bool) -> ObjectGoal:
    """Return the goal of an object that has a finalizer, or has it no more.

    An object that is not there has none.
    """

    def judge(obj: Obj) -> Verdict:
        there = obj["metadata"].get("finalizers") or ()
        if (finalizer in there) == present:
            return Met()
        others = f", it has {', '.join(there)}" if there and present else ""
        return Pending(f"{finalizer} is {'not there' if present else 'still there'}{others}")

    text = f"have finalizer {finalizer}" if present else f"lose finalizer {finalizer}"
    # What is being deleted is given no finalizer any more.
    return ObjectGoal(text, judge, alive=present, gone=not present)


class NamedObjectStore:
    """The book of a source of named objects; others of the same source are passed over.

    Args:
        resource: their kind.
        uids: their UIDs by name; an empty one to take the first one seen for the one that is meant.
    """

    def __init__(self, resource: Resource, uids: Mapping[str, str]) -> None:
        self._named = {name: SingleObject(resource, name, uid) for name, uid in uids.items()}
        self._there: dict[str, SingleObject] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note what one of them looks like."""
        sighting = self._named.get(obj["metadata"]["name"])
        if sighting is not None:
            sighting.put(obj, raw, now)
            self._there[obj["metadata"].get("uid") or obj["metadata"]["name"]] = sighting

    def drop(self, uid: str) -> None:
        """Note that one of them is gone."""
        sighting = self._there.pop(uid, None)
        if sighting is not None:
            sighting.drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of those that are there."""
        return self._there.keys()

    @property
    def sightings(self) -> Collection[SingleObject]:
        """All of them, in the order in which they were named."""
        return self._named.values()


def parse_named_uids(what: str, given: object) -> dict[str, str]:
    """Return the UIDs of objects by their names; empty where only the name is given.

    Args:
        what: the argument that they were given for.
        given: a list, at least one long, of objects as the API has them, or of their names.

    Raises:
        InvalidArgument: anything else.
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
    """One object.

    Args:
        resource: its kind.
        name: its name.
    """

    resource: Resource
    name: str


def resolve_target(session: Session, target: object, deadline: Deadline) -> NamedTarget:
    """Return the object that `kind/name` means; only kinds that are not built in cost a request.

    Raises:
        ApiError: the server does not say what kinds it has.
        InvalidArgument: no `kind/name`, or an unknown kind; names near ones.
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
