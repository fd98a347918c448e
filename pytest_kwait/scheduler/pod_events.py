"""The recorder of the scheduler's pod events; repeated events become one series.

Source: client-go, tools/events/event_broadcaster.go.
"""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

from pytest_kwait.apimachinery.times import format_micro_time
from pytest_kwait.client.resource import Resource
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import ApiError, KwaitError
from pytest_kwait.scheduler.api_dispatcher import APICall
from pytest_kwait.scheduler.scheduling_queue import Pod, scheduler_of

if TYPE_CHECKING:
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.scheduler.api_dispatcher import APIDispatcher

SCHEDULER_EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)

_log = logging.getLogger(__name__)

_NOTE_LIMIT: Final = 1024
_SERIES_TIMEOUT: Final = 360.0
_REFRESH_PERIOD: Final = 1800.0
_MAX_TRIES: Final = 12
_RETRY_AFTER: Final = 10.0
_MAX_NAME_LENGTH: Final = 253

_Key: TypeAlias = Hashable


@dataclass(slots=True)
class _Recorded:
    """An event that was written, with its series."""

    event: dict[str, Any]
    at: float
    written_at: float
    count: int = 1
    last: float = 0.0

    def written(self) -> dict[str, Any]:
        """Return the event to write, with its series if any."""
        return self.event if self.count < 2 else {**self.event, "series": self.series()}

    def series(self) -> dict[str, Any]:
        return {"count": self.count, "lastObservedTime": format_micro_time(self.last)}


class EventRecorder:
    """Writes events about pods in another thread; repeated events become a series with a count.

    As upstream, a series is written when it begins, every half hour, and six minutes after its last
    event; events are equal only while the pod has not changed.

    Source: client-go, tools/events (event_recorder.go, event_broadcaster.go).
    """

    def __init__(
        self, session: ApiSession, dispatcher: APIDispatcher, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._session = session
        self._dispatcher = dispatcher
        self._clock = clock
        self._lock = threading.Lock()
        self._recorded: dict[_Key, _Recorded] = {}
        self._retries: list[tuple[float, str, _Recorded, int]] = []
        self._newest = 0

    def event(
        self, pod: Pod, type: Literal["Normal", "Warning"], reason: str, action: str, note: str
    ) -> None:
        """Record an event of a pod; returns at once.

        Args:
            pod: the current state of the pod.
            type: `Normal` or `Warning`.
            reason: one word.
            action: one word.
            note: the message; cut off after 1024 bytes.
        """
        metadata = pod["metadata"]
        regarding = {
            "apiVersion": "v1",
            "kind": "Pod",
            **{
                name: metadata.get(name, "")
                for name in ("name", "namespace", "uid", "resourceVersion")
            },
        }
        controller = scheduler_of(pod)
        key = (type, reason, action, controller, *regarding.values())
        with self._lock:
            now = self._clock.time()
            known = self._recorded.get(key)
            if known is not None:
                known.count += 1
                known.last = now
                if known.count > 2:
                    return
            else:
                event = {
                    "apiVersion": SCHEDULER_EVENTS.api_version,
                    "kind": SCHEDULER_EVENTS.kind,
                    "metadata": {
                        "name": self._name(metadata["name"], now),
                        "namespace": metadata.get("namespace") or "default",
                    },
                    "eventTime": format_micro_time(now),
                    "reportingController": controller,
                    "reportingInstance": f"{controller}-{platform.node()}",
                    "action": action,
                    "reason": reason,
                    "regarding": regarding,
                    "note": _truncate_note(note),
                    "type": type,
                }
                at = self._clock.monotonic()
                known = self._recorded[key] = _Recorded(event, at, at, last=now)
        self._write(str(key), known)

    def flush_series(self) -> None:
        """Write retries and the series that have ended or are due; called every second."""
        now = self._clock.monotonic()
        with self._lock:
            due = [retry for retry in self._retries if retry[0] <= now]
            self._retries = [retry for retry in self._retries if retry[0] > now]
            series: list[tuple[str, _Recorded]] = []
            for key, known in list(self._recorded.items()):
                silent = self._clock.time() - known.last >= _SERIES_TIMEOUT
                if silent:
                    del self._recorded[key]
                if known.count > 2 and (silent or now - known.written_at >= _REFRESH_PERIOD):
                    known.written_at = now
                    series.append((str(key), known))
        for key, known in series:
            self._write(key, known)
        for _, key, known, tries in due:
            self._write(key, known, tries)

    def _name(self, pod: str, now: float) -> str:
        self._newest = max(self._newest + 1, int(now * 1_000_000_000))
        name = f"{pod}.{self._newest:x}"
        return name if len(name) <= _MAX_NAME_LENGTH else str(uuid4())

    def _write(self, key: str, known: _Recorded, tries: int = 0) -> None:
        self._dispatcher.submit(
            key, APICall(lambda deadline: self._send(key, known, tries, deadline))
        )

    def _send(self, key: str, known: _Recorded, tries: int, deadline: Deadline) -> None:
        with self._lock:
            event, is_series = known.written(), known.count > 1
        metadata = event["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            if is_series:
                patch = {"series": event["series"]}
                try:
                    self._session.patch(SCHEDULER_EVENTS, name, patch, namespace, deadline=deadline)
                    return
                except ApiError as error:
                    if error.status != 404:
                        raise
            self._session.create(SCHEDULER_EVENTS, event, namespace, deadline=deadline)
        except KwaitError as error:
            answered = isinstance(error, ApiError) and error.status > 0
            if answered and not (is_series and isinstance(error, ApiError) and error.status == 409):
                _log.error("event %s/%s was refused: %s", namespace, name, error)
            elif tries + 1 >= _MAX_TRIES:
                _log.error("event %s/%s could not be written: %s", namespace, name, error)
            else:
                at = self._clock.monotonic() + _RETRY_AFTER
                with self._lock:
                    self._retries.append((at, key, known, tries + 1))


def _truncate_note(note: str) -> str:
    raw = note.encode()
    if len(raw) <= _NOTE_LIMIT:
        return note
    suffix = " ..."
    return raw[: _NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix
