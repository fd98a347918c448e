"""Base classes of conditions; objects identified by name, their UIDs and `kind/name` targets."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, PODS, split_api_version
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectSink,
    Pending,
    Probe,
    Source,
    Verdict,
)
from pytest_kwait.engine.object_sinks import SingleObject
from pytest_kwait.engine.options import TargetText, check_text, parse_target
from pytest_kwait.engine.retry import request_with_retry
from pytest_kwait.errors import InvalidArgument, describe_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

Obj: TypeAlias = "dict[str, Any]"
KubernetesObject: TypeAlias = "Mapping[str, Any] | ObjectModel"
"""An object as the API returns it, or as a model of the official client."""

KubernetesObjects: TypeAlias = "str | KubernetesObject | Iterable[str | KubernetesObject]"
"""Objects or their names; one, several, or a list as the API returns it."""

_MODEL_VERSION = re.compile(r"^(?:Core)?V\d+(?:(?:alpha|beta)\d+)?")


class ObjectModel(Protocol):
    """A model of the official client, such as `V1Pod`."""

    openapi_types: ClassVar[Any]
    """The types of its fields."""


class ObjectListModel(ObjectModel, Protocol):
    """A model of a list of objects, such as `V1PodList`."""

    @property
    def items(self) -> Any:
        """The objects."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectGoal:
    """An awaited state of an object.

    Args:
        text: as a verb: `have a load balancer`.
        evaluate: returns the verdict on an existing object.
        alive: whether an object that is being deleted can no longer reach the state.
        gone: whether a missing or replaced object counts as met.
    """

    text: str
    evaluate: Callable[[Obj], Verdict]
    alive: bool = False
    gone: bool = False


class ObjectCondition(Condition):
    """Base of the conditions on one named object.

    Args:
        namespace: its namespace; None for a cluster-scoped kind.
        fields: the fields that the verdict reads; None for all.
        uid: its UID; empty for the first one seen.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        fields: type[Any] | None = None,
        uid: str = "",
    ) -> None:
        self.namespace = None if namespace is None else check_namespace(namespace)
        self.object = SingleObject(resource, name, uid)
        self._sources = (Source(resource, namespace, self.object, name, fields=fields),)

    @property
    def subject(self) -> str:
        """The object."""
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.object.noun} {where}{self.object.name}"

    def summarize(self) -> str:
        """Return a note that the object exists; empty if it does not."""
        return "" if self.object.current is None else "it is there"

    def result(self) -> Any:
        """Return the last version of the object."""
        return self.object.object()

    def scope(self) -> EvidenceScope:
        """Return the object."""
        is_pod = self.object.resource == PODS and self.object.current is not None
        return EvidenceScope(
            self.namespace,
            objects=(self.object.reference(),),
            pod_names=(self.object.name,) if is_pod else (),
        )


class ProbeCondition(Condition):
    """Base of the conditions with requests that are repeated every `poll`."""

    @property
    def probe(self) -> Probe:
        """The condition itself."""
        return self

    @property
    def client_session(self) -> ApiSession:
        """The client for requests.

        Raises:
            InvalidArgument: there is none.
        """
        if self.session is None:
            raise InvalidArgument("session", None, "give one to ask with")
        return self.session

    @abstractmethod
    def probe_targets(self) -> Sequence[Any]:
        """Return the targets to send requests to now; empty for none."""

    def is_urgent(self) -> bool:
        """Return whether to send requests before the end of the pause; False unless overridden."""
        return False

    @abstractmethod
    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> Any:
        """Send the requests and return the answers."""

    @abstractmethod
    def record_answers(self, answers: Any) -> None:
        """Record the answers."""


class NamedObject(ObjectCondition):
    """One object reaches the state of a goal.

    Args:
        namespace: its namespace; None for a cluster-scoped kind.
        goal: the awaited state.
        label: returns a short description of the object, for the summary.
        fields: the fields that the goal reads; None for all.
        uid: its UID; empty for the first one seen.
    """

    goal: str

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
        noun = resource.singular or resource.kind.lower()
        super().__init__(resource, namespace, check_name(noun, name), fields, uid)
        self.goal = goal.text
        self._goal = goal
        self.awaits_absence = goal.gone
        self._label = label

    def verdict(self) -> Verdict:
        """Decide by the goal, while the object exists."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return Met() if self._goal.gone else absent
        verdict = self._goal.evaluate(self.object.current or {})
        if self._goal.alive and isinstance(verdict, Pending):
            return self.object.ending() or verdict
        return verdict

    def summarize(self) -> str:
        """Return a short description of the object."""
        return "" if self.object.current is None else self._label(self.object.current)

    def result(self) -> Any:
        """Return the last version of the object; None once it is gone."""
        return self.object.object() if self.object.missing_verdict() is None else None


class AbsentObject(NamedObject):
    """One object is gone, even if a new one has the same name.

    Args:
        namespace: its namespace; None for a cluster-scoped kind.
        uid: its UID; None for the first one seen.
        label: returns a short description of the object.
        holder: returns the reason for a finalizer, from the object and the finalizer; empty if
            unknown.
        undeleted: returns the message for an object that is not being deleted.
        fields: the fields that these read; None for all.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        uid: str | None,
        label: Callable[[Obj], str],
        holder: Callable[[Obj, str], str] = lambda obj, finalizer: "",
        undeleted: Callable[[Obj], str] = lambda obj: "not being deleted",
        fields: type[Any] | None = None,
    ) -> None:
        self._holder = holder
        self._undeleted = undeleted
        goal = ObjectGoal("go away", self._evaluate, gone=True)
        meant = "" if uid is None else check_text("uid", uid)
        super().__init__(resource, namespace, name, goal, label, fields, meant)

    def _evaluate(self, obj: Obj) -> Verdict:
        return Pending(describe_deletion(obj, self._holder, self._undeleted))

    def result(self) -> None:
        """Return None: the object is gone."""


def describe_deletion(
    obj: Obj,
    holder: Callable[[Obj, str], str] = lambda obj, finalizer: "",
    undeleted: Callable[[Obj], str] = lambda obj: "not being deleted",
) -> str:
    """Return the reason that an object still exists, with its finalizers.

    Args:
        holder: returns the reason for a finalizer; empty if unknown.
        undeleted: returns the reason for an object that is not being deleted.
    """
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        return f"still there, {undeleted(obj)}"
    holders = []
    for finalizer in metadata.get("finalizers") or ():
        why = holder(obj, finalizer)
        holders.append(f"{finalizer} ({why})" if why else str(finalizer))
    return f"being deleted{', held by ' if holders else ''}{' and '.join(holders)}"


def count_noun(count: int, noun: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_names(names: Sequence[str], limit: int = 3, total: int = 0) -> str:
    """Return the first names and the number of the others: `a, b, c and 2 more`.

    Args:
        total: the number of objects, if not all of them are in `names`.
    """
    shown = names[:limit]
    others = max(total, len(names)) - len(shown)
    return f"{', '.join(shown)}{f' and {others} more' if others else ''}"


def finalizer_goal(finalizer: str, present: bool) -> ObjectGoal:
    """Return the goal of an object that has, or no longer has, a finalizer.

    A missing object has none.
    """

    def evaluate(obj: Obj) -> Verdict:
        there = obj["metadata"].get("finalizers") or ()
        if (finalizer in there) == present:
            return Met()
        other_text = f", it has {', '.join(there)}" if there and present else ""
        return Pending(f"{finalizer} is {'not there' if present else 'still there'}{other_text}")

    text = f"have finalizer {finalizer}" if present else f"lose finalizer {finalizer}"
    # A terminating object gets no new finalizers.
    return ObjectGoal(text, evaluate, alive=present, gone=not present)


class NamedObjectStore(ObjectSink):
    """The sink for named objects of a source; it ignores others.

    Args:
        resource: their kind.
        uids: their UIDs by name; an empty UID for the first one seen.
    """

    def __init__(self, resource: Resource, uids: Mapping[str, str]) -> None:
        self._named = {name: SingleObject(resource, name, uid) for name, uid in uids.items()}
        self._there: dict[str, SingleObject] = {}

    def follow_names(self) -> None:
        """Let their identity be their names."""
        for sighting in self._named.values():
            sighting.follow_names()

    def lost_noun(self) -> str:
        """Return their kind if one was deleted, also where another one has its name."""
        return next(filter(None, (sighting.lost_noun() for sighting in self.sightings)), "")

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


def parse_named_uids(
    what: str, value: object, kind: str, *, empty: bool = False, namespace: str | None = None
) -> dict[str, str]:
    """Return the UIDs of objects by their names; empty if only the name is given.

    Args:
        what: the name of the argument.
        value: objects as the API returns them or as models of the official client, or their names;
            a list of these, such as a PodList, or one of them.
        kind: the kind of the objects.
        empty: whether an empty list is valid.
        namespace: the namespace that the objects are of; None for cluster-scoped kinds.

    Raises:
        InvalidArgument: `value` has another form, or an object is of another namespace.
    """
    named: dict[str, str] = {}
    for item in _list_objects(what, value, kind):
        metadata = {"name": item} if isinstance(item, str) else _member(item, "metadata")
        name = None if metadata is None else _member(metadata, "name")
        if name is None or _member(item, "kind") not in (None, kind):
            raise InvalidArgument(what, _Short(item), _usage(kind))
        place = _member(metadata, "namespace")
        if namespace is not None and place not in (None, "", namespace):
            valid = f"it is of namespace {place}; use objects of {namespace}, or another namespace="
            raise InvalidArgument(what, _Short(item), valid)
        named[check_name(what, name)] = str(_member(metadata, "uid") or "")
    if not named and not empty:
        raise InvalidArgument(what, [], f"at least one {kind} is needed")
    return named


def _list_objects(what: str, value: object, kind: str) -> Iterable[object]:
    """Return the single objects or names of an argument."""
    if isinstance(value, str):
        return [value]
    items = _member(value, "items")
    if isinstance(items, list) and _member(value, "kind") in (None, "List", f"{kind}List"):
        return items
    if _member(value, "metadata") is not None:
        return [value]
    is_model = hasattr(type(value), "openapi_types")
    if is_model or isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument(what, _Short(value), _usage(kind))
    return value


def _member(value: object, name: str) -> Any:
    """Return a field of an object in its API form or of a model; None without it."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None) if hasattr(type(value), "openapi_types") else None


def _usage(kind: str) -> str:
    return f"use names or objects of kind {kind}, or a list of these, such as a {kind}List"


class _Short:
    """An object or model in a message: its kind and name instead of all of its fields."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        is_model = hasattr(type(self._value), "openapi_types")
        if not isinstance(self._value, Mapping) and not is_model:
            return describe_value(self._value, 80)
        name = _member(_member(self._value, "metadata"), "name")
        return f"<{_kind_of(self._value) or 'object'} {name or 'without a name'}>"


class NamedTarget(NamedTuple):
    """The object that a target names."""

    resource: Resource
    name: str


def resolve_target(session: ApiSession, target: object, deadline: Deadline) -> NamedTarget:
    """Return the object that `kind/name` names; only custom kinds cost a request.

    Raises:
        ApiError: the server refuses to list its kinds.
        InvalidArgument: the target is no `kind/name`, or an unknown kind; suggests similar kinds.
    """
    kind, name, _ = parse_target("target", target)
    if not name:
        raise InvalidArgument("target", target, "use kind/name, for example 'deployment/web'")
    check_name("target", name)
    known = match_resource(BUILT_IN.values(), kind, None)
    if known is not None:
        return NamedTarget(known, name)
    return NamedTarget(
        request_with_retry(
            lambda attempt_deadline: session.resolve(kind, deadline=attempt_deadline), deadline
        ),
        name,
    )


def strip_kind(value: Any, expected: Resource) -> Any:
    """Return the name in `kind/name`, or in each of a list of them.

    Any other value, and one with another kind, is returned unchanged.

    Args:
        value: the value of an argument.
        expected: the kind that the argument names.
    """
    if isinstance(value, list | tuple):
        return type(value)(strip_kind(item, expected) for item in value)
    kind, slash, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or "/" in name:
        return value
    return value if match_resource((expected,), kind) is None else name


class ObjectArgument(NamedTuple):
    """An argument that was given as an object, as the name that its function takes.

    Args:
        value: the name, or `kind/name`; a list of these for a list of objects.
        namespaces: the namespaces of the objects, by their names in messages.
        uid: the UID of a single object; empty if unknown.
    """

    value: Any
    namespaces: Mapping[str, str]
    uid: str


def parse_object_argument(
    argument: str, value: object, expected: Resource | None
) -> ObjectArgument | None:
    """Return the name in place of an object, or of each of a list; None for any other value.

    Args:
        argument: the name of the argument, for messages.
        value: an object as the API returns it or as a model of the official client; for any kind
            also a list of these and of names, such as a PodList.
        expected: the kind that the argument names; None if its value is `kind/name`.

    Raises:
        InvalidArgument: the object has no name, or another kind than the argument's.
    """
    items = _member(value, "items")
    if isinstance(items, list) and expected is None:
        listed = _kind_of(value).removesuffix("List")
        version = _member(value, "apiVersion") or _member(value, "api_version") or ""
        return _join_arguments(
            [_parse_object(argument, item, None, listed, version) for item in items]
        )
    if isinstance(value, list | tuple) and expected is None:
        parsed = [
            ObjectArgument(item, {}, "")
            if _member(item, "metadata") is None
            else _parse_object(argument, item, None)
            for item in value
        ]
        return _join_arguments(parsed)
    if _member(value, "metadata") is None:
        return None
    return _parse_object(argument, value, expected)


def _join_arguments(parsed: Sequence[ObjectArgument]) -> ObjectArgument:
    namespaces = {
        name: namespace for argument in parsed for name, namespace in argument.namespaces.items()
    }
    return ObjectArgument([argument.value for argument in parsed], namespaces, "")


def _parse_object(
    argument: str, value: object, expected: Resource | None, kind: str = "", version: str = ""
) -> ObjectArgument:
    metadata = _member(value, "metadata")
    name = _member(metadata, "name")
    kind = _kind_of(value) or kind
    version = _member(value, "apiVersion") or _member(value, "api_version") or version
    if expected is not None and kind not in ("", expected.kind):
        valid = f"use a {expected.kind}, or its name"
        raise InvalidArgument(argument, _Short(value), valid)
    if not isinstance(name, str) or not name or (expected is None and not kind):
        valid = "use an object with a name and a kind, or 'kind/name'"
        if expected is not None:
            valid = f"use a {expected.kind} with a name, or its name"
        raise InvalidArgument(argument, _Short(value), valid)
    result = name
    if expected is None:
        group, version = split_api_version(version) if version else ("", "")
        uid = str(_member(metadata, "uid") or "")
        result = TargetText(f"{kind.lower()}{f'.{version}.{group}' if group else ''}/{name}", uid)
    namespace = _member(metadata, "namespace")
    return ObjectArgument(
        result,
        {f"{kind or 'object'} {name}": str(namespace)} if namespace else {},
        str(_member(metadata, "uid") or ""),
    )


def _kind_of(value: object) -> str:
    """Return the kind of an object; of a model by its type, as those in lists name none."""
    if isinstance(value, Mapping):
        return str(value.get("kind") or "")
    named = str(_member(value, "kind") or "")
    return named or _MODEL_VERSION.sub("", type(value).__name__)


def controller_uid(obj: dict[str, Any]) -> str:
    """Return the UID of an object's controller; empty without one."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid") or "")
    return ""
