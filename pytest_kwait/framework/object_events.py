"""What the events about objects of one kind say last, for waits whose objects do not say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import Source

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["EventFields", "EventSource", "LastEventStore", "last_timestamp_of"]


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
        """The field selector that leaves these events."""
        one = f",involvedObject.name={self.about}" if self.about else ""
        return f"involvedObject.kind={self.kind}{one}"

    def __str__(self) -> str:
        return f"events of {self.kind} {self.about or '(all)'} in {self.namespace}"


class LastEventStore:
    """The book of events that knows the last one about each object, by the object's UID."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Any]] = {}
        self._about: dict[str, dict[str, str]] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note an event, or that it has happened again."""
        uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
        about = (obj.get("involvedObject") or {}).get("uid") or ""
        self._events[uid] = obj
        moments = self._about.setdefault(about, {})
        moments.pop(uid, None)
        moments[uid] = last_timestamp_of(obj)

    def drop(self, uid: str) -> None:
        """Note that an event is forgotten, which happens after an hour."""
        event = self._events.pop(uid, None)
        if event is not None:
            about = (event.get("involvedObject") or {}).get("uid") or ""
            self._about.get(about, {}).pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the events that are there."""
        return self._events.keys()

    def last(self, uid: str) -> dict[str, Any] | None:
        """Return the last event about an object; None where there was none.

        Args:
            uid: the object's UID.
        """
        moments = self._about.get(uid)
        if not moments:
            return None
        # Of one second the one that was made or repeated last: there are but a few about one.
        return self._events[max(reversed(moments), key=lambda each: moments[each])]


def last_timestamp_of(event: dict[str, Any]) -> str:
    """Return when an event happened last, as the API writes it; empty where it does not say."""
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or ""
    )
