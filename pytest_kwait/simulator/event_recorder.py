"""Record Events as Kubernetes' own components do.

Repeated events are counted in one object, many similar events about one object are combined, and
an object that causes more than a burst of them is cut off: the owner of 1,000 pods writes a
handful.
Source: k8s.io/client-go tools/record/events_cache.go, tools/events/event_recorder.go.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.no_exploration import UnexploredEvents
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of
from pytest_kwait.simulator.request_info import (
    CONTROLLER_MANAGER,
    KUBELET_MANAGER,
    SCHEDULER_MANAGER,
    internal_caller,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.request_info import Caller

NORMAL = "Normal"
WARNING = "Warning"

# Source: client-go tools/record/events_cache.go, `NewEventCorrelator`.
_SCHEDULING_VERSION = "events.k8s.io/v1"
"""The API version in which the scheduler writes its events."""
_REMEMBERED = 4096
_MAX_SIMILAR = 10
_SIMILAR_WINDOW = 600.0
_BURST = 25
_REFILL_PER_SECOND = 1.0 / 300.0
# Source: client-go tools/events/event_broadcaster.go, `finishTime`.
_SERIES_WINDOW = 360.0
_Remembered = TypeVar("_Remembered")
_Key = TypeVar("_Key", bound=Hashable)

_sequence = itertools.count()


def _make_event(
    obj: Obj, api_version: str, kind: str, field_path: str | None, **fields: Any
) -> Obj:
    """Return an event in decoded form, without empty fields.

    Events are frequent, so that they skip decoding.
    """
    metadata = obj["metadata"]
    reference = {
        "kind": kind,
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "uid": uid_of(obj),
        "apiVersion": api_version,
        "resourceVersion": metadata.get("resourceVersion"),
        "fieldPath": field_path,
    }
    event: Obj = {"kind": "Event", "apiVersion": "v1", "metadata": {}}
    event["involvedObject"] = {name: text for name, text in reference.items() if text}
    event.update(fields)
    for name in ("reason", "message", "action"):
        if not event.get(name, True):
            del event[name]
    return event


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    at: float = 0.0


class _OutgoingEvents:
    """The events of a recorder on their way to the API; an exploration makes them late.

    Args:
        component: the component that records them.
    """

    def __init__(self, cluster: Cluster, component: str) -> None:
        self.component = component
        self.explored = UnexploredEvents()
        self._cluster = cluster

    def send(self, obj: Obj, reason: str, write: Callable[[str], object]) -> None:
        """Write an event, now or later.

        Args:
            obj: the object of the event.
            write: writes it, given the event by which an exploration decides, or nothing.
        """
        self._cluster.exploration.explore_events(self)
        self.explored.record(obj, reason, write)


class EventRecorder:
    """Events of one component (`core/v1` style: count, first and last time).

    Args:
        component: the `source.component`, for example `job-controller`.
        host: the `source.host`, a kubelet's node.
        remembered: the number of events kept for counting and combining.
    """

    def __init__(
        self, cluster: Cluster, component: str, host: str = "", remembered: int = _REMEMBERED
    ) -> None:
        self._cluster = cluster
        self._most = remembered
        self._source = {"component": component, **({"host": host} if host else {})}
        self._component = component
        self._host = host
        self._written: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Similar] = OrderedDict()
        self._spam: OrderedDict[str, _Bucket] = OrderedDict()
        self._outgoing = _OutgoingEvents(cluster, component)

    def event(
        self,
        obj: Obj,
        kind: tuple[str, str],
        severity: str,
        reason: str,
        message: str,
        *,
        field_path: str | None = None,
    ) -> None:
        """Record an event about `obj`; errors of the API are ignored.

        Args:
            kind: its apiVersion and kind.
            severity: `NORMAL` or `WARNING`.
            field_path: the part of `obj`, for example `spec.containers{c}`.
        """
        stamp = self._cluster.clock.stamp()
        similar_key = (uid_of(obj), field_path or "", severity, reason)

        def write(explored: str) -> None:
            text, key = self._combined(similar_key, message)
            if not self._allowed(similar_key[0]) or self._repeats(key, text, stamp, explored):
                return
            self._create(key, obj, kind, severity, reason, text, field_path, stamp)

        self._outgoing.send(obj, reason, write)

    def _combined(self, key: tuple[str, ...], message: str) -> tuple[str, tuple[str, ...]]:
        now = self._cluster.clock.time()
        similar = _get_or_remember(self._similar, key, _Similar, self._most)
        if now - similar.at > _SIMILAR_WINDOW:
            similar.messages.clear()
        similar.at = now
        similar.messages.add(message)
        if len(similar.messages) < _MAX_SIMILAR:
            return message, (*key, message)
        similar.messages.remove(message)
        return f"(combined from similar events): {message}", key

    def _allowed(self, uid: str) -> bool:
        now = self._cluster.clock.time()
        bucket = _get_or_remember(self._spam, uid, lambda: _Bucket(_BURST, now), self._most)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _REFILL_PER_SECOND)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _repeats(self, key: tuple[str, ...], message: str, stamp: str, explored: str) -> bool:
        """Count the repetition of an event; returns whether it was one.

        Args:
            key: what repetitions have in common.
            message: the latest message.
            stamp: the time of the repetition.
            explored: the event by which an exploration decides; empty without one.
        """
        written = self._written.get(key)
        if written is None:
            return False
        exploration = self._cluster.exploration
        if exploration.drops_repetition(explored):
            return True
        if exploration.recounts_repetition(explored):
            return False
        return self._count(key, written, message, stamp)

    def _count(
        self, key: tuple[str, ...], written: tuple[str, str], message: str, stamp: str
    ) -> bool:
        namespace, name = written

        def count(event: Obj) -> None:
            event["count"] = event.get("count", 1) + 1
            event["lastTimestamp"] = stamp
            event["message"] = message

        try:
            self._cluster.modify("events", name, namespace, count, caller=self._caller())
        except StatusError:
            # The event or its namespace was deleted: write a new one.
            self._written.pop(key, None)
            return False
        self._written.move_to_end(key)
        return True

    def _caller(self) -> Caller:
        return internal_caller(KUBELET_MANAGER if self._host else CONTROLLER_MANAGER)

    def _create(
        self,
        key: tuple[str, ...],
        obj: Obj,
        kind: tuple[str, str],
        severity: str,
        reason: str,
        message: str,
        field_path: str | None,
        now: str,
    ) -> None:
        event = _make_event(
            obj, *kind, field_path, reason=reason, message=message, source=self._source,
            firstTimestamp=now, lastTimestamp=now, count=1, type=severity,
            reportingComponent=self._component, reportingInstance=self._host, eventTime=None,
        )  # fmt: skip
        written = _create(self._cluster, event, obj, self._caller())
        if written is not None:
            self._written[key] = written
            _forget_oldest(self._written, self._most)


class SchedulingRecorder:
    """Events of the scheduler (`events.k8s.io` style: event time, action, series)."""

    def __init__(self, cluster: Cluster, component: str) -> None:
        self._cluster = cluster
        self._component = component
        self._written: OrderedDict[tuple[str, ...], tuple[str, str, float]] = OrderedDict()
        self._outgoing = _OutgoingEvents(cluster, component)

    def event(self, pod: Obj, severity: str, reason: str, action: str, message: str) -> None:
        """Record an event about `pod`; a repeated event about the same version is counted."""
        stamp = self._cluster.clock.micro_stamp()
        self._outgoing.send(
            pod, reason, lambda _: self._write(pod, severity, reason, action, message, stamp)
        )

    def _write(
        self, pod: Obj, severity: str, reason: str, action: str, message: str, stamp: str
    ) -> None:
        metadata = pod["metadata"]
        key = (metadata["uid"], metadata.get("resourceVersion", ""), severity, reason, message)
        now = self._cluster.clock.time()
        written = self._written.get(key)
        if (
            written is not None
            and now - written[2] < _SERIES_WINDOW
            and self._count(written, stamp)
        ):
            self._written[key] = (written[0], written[1], now)
            return
        event = _make_event(
            pod, "v1", "Pod", None, reason=reason, message=message, source={}, type=severity,
            eventTime=stamp, action=action,
            reportingComponent=self._component, reportingInstance=f"{self._component}-kwait",
            firstTimestamp=None, lastTimestamp=None,
        )  # fmt: skip
        caller = internal_caller(SCHEDULER_MANAGER, _SCHEDULING_VERSION)
        created = _create(self._cluster, event, pod, caller)
        if created is not None:
            self._written[key] = (*created, now)
            _forget_oldest(self._written, _REMEMBERED)

    def _count(self, written: tuple[str, str, float], stamp: str) -> bool:
        def count(event: Obj) -> None:
            series = event.get("series") or {"count": 1}
            event["series"] = {"count": series["count"] + 1, "lastObservedTime": stamp}

        try:
            caller = internal_caller(SCHEDULER_MANAGER, _SCHEDULING_VERSION)
            self._cluster.modify("events", written[1], written[0], count, caller=caller)
        except StatusError:
            return False
        return True


def _create(cluster: Cluster, event: Obj, about: Obj, caller: Caller) -> tuple[str, str] | None:
    """Store an event; returns its name and namespace, None if it was refused."""
    namespace, name = namespace_of(about) or "default", _event_name(cluster, about)
    event["metadata"] = {"name": name, "namespace": namespace}
    try:
        cluster.create("events", event, namespace, caller=caller, decoded=True)
    except StatusError:
        # The namespace is terminating or deleted.
        return None
    return namespace, name


def _get_or_remember(
    memory: OrderedDict[_Key, _Remembered], key: _Key, make: Callable[[], _Remembered], most: int
) -> _Remembered:
    entry = memory.get(key)
    if entry is None:
        entry = memory[key] = make()
        _forget_oldest(memory, most)
    return entry


def _forget_oldest(memory: OrderedDict[_Key, _Remembered], most: int) -> None:
    if len(memory) > most:
        memory.popitem(last=False)


def _event_name(cluster: Cluster, obj: Obj) -> str:
    """`web-1.18e9f2df4b1c7def`: the object and the nanoseconds of now, never twice the same."""
    # The clock has microseconds; a counter makes names unique below them.
    nanoseconds = int(cluster.clock.time() * 1e6) * 1000 + next(_sequence) % 1000
    return f"{name_of(obj)}.{nanoseconds:x}"
