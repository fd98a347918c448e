"""Events: the last one about each object, and the wait for an event.

The server returns the events of both APIs, core and `events.k8s.io`, in one list of core events.

Source: kubernetes/test/e2e/framework/events/events.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, EVENTS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectReference,
    ObjectSink,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_text, parse_target
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.registry import wait

if TYPE_CHECKING:
    from collections.abc import Collection

    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf

_MATCH = "match"


class _InvolvedObjectKey(TypedDict, total=False):
    name: str | None
    uid: str | None


class _Series(TypedDict, total=False):
    lastObservedTime: str | None


class EventFields(TypedDict, total=False):
    """The fields of an event that waits read."""

    metadata: ObjectMeta
    involvedObject: _InvolvedObjectKey | None
    reason: str | None
    message: str | None
    type: str | None
    firstTimestamp: str | None
    lastTimestamp: str | None
    eventTime: str | None
    series: _Series | None


@dataclass(eq=False, slots=True)
class EventSource(Source):
    """The events about objects of one kind in a namespace.

    Args:
        kind: for example `PersistentVolumeClaim`.
        about: the name of the only object; empty for all of the kind.
    """

    kind: str = ""
    about: str = ""

    @property
    def field_selector(self) -> str | None:
        """The field selector of these events."""
        name_selector = f",involvedObject.name={self.about}" if self.about else ""
        return f"involvedObject.kind={self.kind}{name_selector}"

    def __str__(self) -> str:
        return f"events of {self.kind} {self.about or '(all)'} in {self.namespace}"


class LastEventStore(ObjectSink):
    """The sink that keeps the last event about each object, by the object's UID."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Any]] = {}
        self._about: dict[str, dict[str, str]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Record an event or its repetition."""
        uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
        about = (obj.get("involvedObject") or {}).get("uid") or ""
        self._events[uid] = obj
        moments = self._about.setdefault(about, {})
        moments.pop(uid, None)
        moments[uid] = last_timestamp_of(obj)

    def drop(self, uid: str) -> None:
        """Remove an expired event; the server keeps events for an hour."""
        event = self._events.pop(uid, None)
        if event is not None:
            about = (event.get("involvedObject") or {}).get("uid") or ""
            self._about.get(about, {}).pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present events."""
        return self._events.keys()

    def last(self, uid: str) -> dict[str, Any] | None:
        """Return the last event about an object; None if there was none.

        Args:
            uid: the object's UID.
        """
        moments = self._about.get(uid)
        if not moments:
            return None
        # Within one second, the event created or repeated last; there are only a few about one
        # object.
        return self._events[max(reversed(moments), key=lambda key: moments[key])]


def last_timestamp_of(event: dict[str, Any]) -> str:
    """Return the last time of an event, as the API writes it; empty if unknown."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or ""
    )


class _InvolvedObject(TypedDict, total=False):
    kind: str | None
    name: str | None
    uid: str | None


class _Fields(TypedDict, total=False):
    metadata: ObjectMeta
    type: str | None
    reason: str | None
    message: str | None
    involvedObject: _InvolvedObject | None


class AwaitedEvent(Condition, ObjectSink):
    """An event with a reason or a message exists.

    It is the sink of its own source: events about other objects are ignored.

    Args:
        namespace: the namespace of the event.
        reason: its reason; None for any.
        message: a part of its message; None for any.
        about: kind in lower case and name of the object it is about; None for any, an empty name
            for any of the kind.
        kind: `Normal` or `Warning`; None for both.
    """

    def __init__(
        self,
        namespace: str,
        *,
        reason: str | None,
        message: str | None,
        about: tuple[str, str] | None,
        kind: str | None,
    ) -> None:
        self.namespace = namespace
        self._reason = reason
        self._message = message
        self._about = about
        self._kind = kind
        self._uid = ""
        self._near = ""
        self._events = ObjectCounter(self._state)
        self._sources = (Source(EVENTS, namespace, self, fields=_Fields),)

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Record an event; no-op for events about other objects."""
        about = obj.get("involvedObject") or {}
        if self._about is not None:
            kind, name = self._about
            if str(about.get("kind") or "").lower() != kind or name not in ("", about.get("name")):
                return
            if name:
                self._uid = about.get("uid") or self._uid
        self._events.put(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Remove an expired event."""
        self._events.drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present events."""
        return self._events.uids()

    def _state(self, obj: dict[str, Any], before: TerminalState | None) -> ObjectState:
        text = obj.get("message") or ""
        alike = self._reason in (None, obj.get("reason")) and self._kind in (None, obj.get("type"))
        met = alike and (self._message is None or self._message in text)
        if alike and not met and self._reason is not None:
            self._near = " ".join(text.split())
        label = obj.get("reason") or "without a reason"
        if self._about is None or not self._about[1]:
            about = obj.get("involvedObject") or {}
            label = f"{label} ({str(about.get('kind') or 'object').lower()})"
        return ObjectState(label, (_MATCH,) if met else (), keep=met)

    @property
    def subject(self) -> str:
        """The object that the event is about, or the namespace."""
        kind, name = self._about or ("namespace", self.namespace)
        if self._about is None:
            return f"namespace {name}"
        return f"{kind} {self.namespace}/{name}" if name else f"a {kind} in {self.namespace}"

    @property
    def goal(self) -> str:
        """The awaited event."""
        noun = f"a {self._kind} event" if self._kind else "an event"
        parts = [f"reason {self._reason}"] if self._reason is not None else []
        if self._message is not None:
            parts.append(f"{self._message!r} in its message")
        return f"have {noun}{' with ' if parts else ''}{' and '.join(parts)}"

    def verdict(self) -> Verdict:
        """Decide by whether an event matches."""
        if self._events.count(_MATCH):
            return Met()
        other_count = len(self._events)
        if not other_count:
            return Pending("no event yet", absent=True)
        if self._near:
            return Pending(f"{self._reason} came with another message: {self._near}")
        return Pending(
            f"{other_count} {'other event' if other_count == 1 else 'other events'} so far"
        )

    def summarize(self) -> str:
        """Return a summary of the recorded events."""
        return self._events.summary()

    def result(self) -> dict[str, Any]:
        """Return the latest event that matches."""
        return max(self._events.objects(EVENTS), key=_timestamp_of)

    def scope(self) -> EvidenceScope:
        """Return the object, and the pod if it is one."""
        if self._about is None or not self._about[1]:
            return EvidenceScope(self.namespace)
        kind, name = self._about
        known = match_resource(BUILT_IN.values(), kind)
        resource = kind if known is None else known.qualified
        reference = ObjectReference(
            known.kind if known else kind, name, self._uid, resource, exists=bool(self._uid)
        )
        return EvidenceScope(
            self.namespace, (reference,), pod_names=(name,) if kind == "pod" else ()
        )


def _timestamp_of(obj: dict[str, Any]) -> str:
    series = obj.get("series") or {}
    metadata = obj["metadata"]
    times = (series.get("lastObservedTime"), obj.get("lastTimestamp"), obj.get("eventTime"))
    # All timestamps are in UTC and have the same format up to the second.
    return next(filter(None, times), metadata.get("creationTimestamp") or "")


@wait(
    limit="pod_event",
    kinds={"about": None},
    summary="an event with a reason, with words in its message, about an object",
)
def wait_for_event(
    client: ApiClient,
    namespace: str,
    reason: str | None = None,
    message: str | None = None,
    *,
    about: str | None = None,
    type: str | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return the latest event that matches, once there is one; earlier ones count.

    Events are best effort: components may omit some, and the server deletes them after an hour. The
    message of a failed wait lists the other events. Upstream takes a field selector; here the
    object is named.

    Args:
        namespace: the namespace of the event; `default` for events about cluster-scoped objects.
        reason: its reason, exactly.
        message: a part of its message.
        about: the object it is about, `pod/web-0`, or the kind, `pod`; custom kinds by the kind in
            lower case.
        type: `Normal` or `Warning`.

    Returns:
        The event in its core form, even if it was created through `events.k8s.io`.

    Raises:
        InvalidArgument: none of reason, message and about is given, or an argument is invalid.

    Source: events/events.go WaitTimeoutForEvent.
    """
    check_namespace(namespace)
    if reason is None and message is None and about is None:
        raise InvalidArgument("arguments", [], "give a reason, a message or what it is about")
    if type not in (None, "Normal", "Warning"):
        raise InvalidArgument("type", type, "use 'Normal' or 'Warning', or None for both")
    target = None
    if about is not None:
        parsed = parse_target("about", about)
        known = match_resource(BUILT_IN.values(), parsed.kind)
        target = ((known.kind if known else parsed.kind.partition(".")[0]).lower(), parsed.name)
    return AwaitedEvent(
        namespace,
        reason=None if reason is None else check_text("reason", reason),
        message=None if message is None else check_text("message", message),
        about=target,
        kind=type,
    )
