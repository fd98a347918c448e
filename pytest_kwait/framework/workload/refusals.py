"""Pods that the server refuses to a controller whose status does not say so: its events do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.client.resource import EVENTS
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.verdicts import Failed
from pytest_kwait.framework.object_events import EventFields, last_timestamp_of
from pytest_kwait.framework.terminal_states.replica_failures import detect_creation_failure

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["RefusedPods"]


@dataclass(eq=False, slots=True)
class _ObjectEventSource(Source):
    """The events about one object, by its UID."""

    uid: str = ""

    @property
    def field_selector(self) -> str | None:
        """The field selector that leaves these events."""
        return f"involvedObject.uid={self.uid}"

    def __str__(self) -> str:
        return f"events of {self.uid} in {self.namespace}"


class RefusedPods:
    """What became of the pods that a controller has tried to make.

    A refusal counts while it is the last thing that is known: nothing was made after it, and no pod
    is younger. Whoever sends many events has some of them left out, so both are looked at.

    Args:
        namespace: where the controller is.
        uid: its UID.
    """

    def __init__(self, namespace: str, uid: str) -> None:
        self._attempts: dict[str, dict[str, Any]] = {}
        self.source = _ObjectEventSource(EVENTS, namespace, self, fields=EventFields, uid=uid)
        self._youngest = ""

    def made(self, pod: dict[str, Any]) -> None:
        """Note that there is a pod, which was not refused."""
        self._youngest = max(self._youngest, pod["metadata"].get("creationTimestamp") or "")

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note an event, if it tells of a pod that was to be made."""
        if obj.get("reason") in ("FailedCreate", "SuccessfulCreate"):
            uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
            self._attempts.pop(uid, None)
            self._attempts[uid] = obj

    def drop(self, uid: str) -> None:
        """Note that an event is forgotten, which happens after an hour."""
        self._attempts.pop(uid, None)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the events that tell of pods."""
        return self._attempts.keys()

    def deferred_verdict(self) -> Failed | None:
        """Return the verdict if the last pod was refused; else None."""
        # Of one second the one that was listed last, which is the one that was made last.
        last = max(reversed(self._attempts.values()), key=last_timestamp_of, default=None)
        if last is None or last.get("reason") != "FailedCreate":
            return None
        if last_timestamp_of(last) < self._youngest:
            return None
        doom = detect_creation_failure(last.get("message") or "")
        return Failed(doom.reason, doom.patience)
