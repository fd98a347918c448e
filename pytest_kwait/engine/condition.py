"""Conditions: sources to watch, an incremental state, and a verdict.

A condition belongs to one wait and keeps its state. The waiter feeds its sinks from the sources
and evaluates the verdict after each change, so the cost of both must not depend on the number of
objects. A verdict is `Met`, `Pending` or `Failed`, never a bare bool.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.apimachinery.selectors import name_selector
from pytest_kwait.cache.listwatch import ListWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pytest_kwait.apimachinery.matching import Difference
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import Item, WatchEvent
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline


class ObjectSink(ABC):
    """Receives the objects of a source."""

    @abstractmethod
    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Add or replace an object.

        Args:
            obj: the fields that the source names.
            raw: the whole object as received.
            now: the clock's monotonic seconds.
        """

    @abstractmethod
    def drop(self, uid: str) -> None:
        """Remove the object with this UID."""

    @abstractmethod
    def uids(self) -> Collection[str]:
        """Return the UIDs of the present objects."""

    def follow_names(self) -> None:
        """Let the identity of an object be its name, not its UID, from now on."""
        return

    def lost_noun(self) -> str:
        """Return the kind of a deleted object that another of its name does not replace."""
        return ""

    def has_creating(self) -> bool:
        """Return whether the containers of an awaited pod are being created."""
        return False

    def creating(self) -> Collection[str]:
        """Return the UIDs of these pods, which may fail because that is not possible."""
        return ()

    def mark_creating(
        self, terminal: Mapping[str, TerminalState], since: Mapping[str, float]
    ) -> None:
        """Set the terminal states of these pods for the next verdict; none for the others.

        Args:
            terminal: the states by UID.
            since: when they began, in monotonic seconds.
        """
        return


@dataclass(eq=False, slots=True)
class Source:
    """One collection to watch, or one object of it.

    Args:
        namespace: the namespace; None for all namespaces and for cluster-scoped kinds.
        sink: receives its objects.
        name: one object by its name; None for all that the selector matches.
        selector: a label selector.
        fields: a TypedDict of the fields that the verdict reads; None for whole objects.
        optional: whether the wait continues without it when reading is forbidden.
    """

    resource: Resource
    namespace: str | None
    sink: ObjectSink
    name: str | None = None
    selector: str | None = None
    fields: type[Any] | None = None
    optional: bool = False

    @property
    def field_selector(self) -> str | None:
        """The field selector of the one object; None for the whole collection."""
        return None if self.name is None else name_selector(self.name)

    def list_watch(self, session: ApiSession) -> ListWatch:
        """Return the collection, ready to be listed and watched."""
        return ListWatch(
            session, self.resource, self.namespace, self.selector, self.field_selector, self.fields
        )

    def replace(self, items: Sequence[Item], now: float) -> None:
        """Replace the sink's objects by those of a list; drop objects missing from it.

        Args:
            items: the fields and the bytes of each object.
            now: the clock's monotonic seconds.
        """
        present = {_get_uid(item.object) for item in items}
        for uid in [uid for uid in self.sink.uids() if uid not in present]:
            self.sink.drop(uid)
        for item in items:
            self.sink.put(item.object, item.raw, now)

    def apply(self, event: WatchEvent, now: float) -> None:
        """Update the sink by an event: `ADDED`, `MODIFIED` or `DELETED`."""
        if event.type == "DELETED":
            self.sink.drop(_get_uid(event.object))
        else:
            self.sink.put(event.object, event.raw, now)

    def __str__(self) -> str:
        objects = self.name or (f"with {self.selector}" if self.selector else "")
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.qualified}{' ' if objects else ''}{objects}{where}"


def _get_uid(obj: dict[str, Any]) -> str:
    metadata: dict[str, str] = obj["metadata"]
    return metadata.get("uid") or metadata["name"]


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """One object, named for evidence and hints.

    Args:
        kind: as in the object, for example `Job`.
        uid: its UID; empty before the object is first seen.
        resource: the kind's name for kubectl.
        exists: whether the object is present.
    """

    kind: str
    name: str
    uid: str
    resource: str
    exists: bool = True


@dataclass(frozen=True, slots=True)
class ReadLog:
    """The last lines that a wait has read of a container's log.

    Args:
        pod: the pod's name.
        container: the container's name.
        lines: the lines, the newest last; empty if the run has printed nothing.
    """

    pod: str
    container: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidenceScope:
    """The scope in which to gather evidence of a failure.

    Args:
        namespace: the namespace of events and pods; None for a cluster-scoped subject.
        objects: the objects of the wait; may be empty.
        pods: the label selector of owned pods; None without any.
        pod_names: pods by name, if not selected by label.
        suspects: names of the pods that decided the verdict, shown first.
        logs: logs that the wait has read, shown after those that tell why a pod is not ready.
    """

    namespace: str | None
    objects: Sequence[ObjectReference] = ()
    pods: str | None = None
    pod_names: Sequence[str] = ()
    suspects: Sequence[str] = field(default=())
    logs: Sequence[ReadLog] = ()


class Condition(ABC):
    """Base of the conditions that a wait can wait for; optional parts have defaults."""

    namespace: str | None = None
    """The namespace of its objects; None for cluster-scoped ones."""
    session: ApiSession | None = None
    """The client for requests of its own; set by the wait."""
    runs_user_code = False
    """True if the verdict runs user code, which belongs to the caller's thread."""
    awaits_absence = False
    """True if a deleted object meets the condition; its identity is then its UID always."""
    parts: Sequence[Condition] = ()
    """The conditions that it combines; empty if it combines none."""
    _sources: tuple[Source, ...] = ()

    if TYPE_CHECKING:
        # Attributes of some conditions, properties of others.
        @property
        def subject(self) -> str:
            """The object of the wait: `job ci-1/sleepers`."""

        @property
        def goal(self) -> str:
            """The awaited state, as a verb: `have 3 pods Running`."""

    @property
    def is_trivial(self) -> bool:
        """True if it is met without any request."""
        return False

    @property
    def retries(self) -> int:
        """The number of requests of a write that it has sent again."""
        return 0

    @property
    def probe(self) -> Probe | None:
        """Its part that cannot be watched; None without one."""
        return None

    @property
    def due(self) -> float:
        """The next evaluation without a change, in monotonic seconds; infinite for none."""
        return math.inf

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict, if that changes with time.

        Args:
            now: the clock's monotonic seconds.
            fresh: whether all sources have been listed since the due time.
        """
        return

    def sources(self) -> Sequence[Source]:
        """Return the sources to watch now; they may change with the objects seen."""
        return self._sources

    def follow_names(self) -> None:
        """Let the identity of its objects be their names, not their UIDs."""
        for part in self.parts:
            part.follow_names()
        for source in () if self.parts else self.sources():
            source.sink.follow_names()

    @abstractmethod
    def verdict(self) -> Verdict:
        """Return the verdict on the objects seen; called only once every source is listed."""

    def summarize(self) -> str:
        """Return a one-line summary of the present objects; empty unless overridden."""
        return ""

    def differences(self) -> Sequence[Difference]:
        """Return the fields of an object that are not as awaited; empty unless overridden."""
        return ()

    @abstractmethod
    def result(self) -> Any:
        """Return the result of the wait once its verdict is Met."""

    def scope(self) -> EvidenceScope:
        """Return the scope in which to gather evidence of a failure: the namespace."""
        return EvidenceScope(self.namespace)

    def deferred_source(self) -> Source | None:
        """Return the source to list if this state lasts; None while there is progress.

        Its objects explain the lack of progress. It is not watched, but listed after the short
        grace.
        """
        return None

    def deferred_verdict(self) -> Failed | None:
        """Return the failure that the objects of the deferred source show; None without one."""
        return None

    def deferred_conditions(self) -> Sequence[Condition]:
        """Return the conditions to evaluate if this state lasts; empty while there is progress.

        They are those of the waits of its objects' own kinds, which read more than it does, and
        are evaluated on lists, not on watches. An object's condition stays the same one as long
        as the object does.
        """
        return ()

    def deferred_failures_needed(self) -> int:
        """Return how many deferred conditions must have failed to fail this one; at least 1."""
        return 1


class Probe(Protocol):
    """The part of a condition that cannot be watched and is requested every `poll`.

    `send_requests` may be called concurrently with other methods of the condition, and must not
    touch its state; the others are not.
    """

    def probe_targets(self) -> Sequence[Any]:
        """Return the targets to send requests to now; empty for none."""

    def is_urgent(self) -> bool:
        """Return whether new requests should be sent before the end of the pause."""

    def send_requests(self, targets: Sequence[Any], deadline: Deadline) -> Any:
        """Send the requests and return the answers; called in the caller's thread.

        Raises:
            ApiError: a request was refused or not understood; transient errors are answers.
        """

    def record_answers(self, answers: Any) -> None:
        """Record the answers."""


def iterate_leaves(condition: Condition) -> Iterator[Condition]:
    """Yield the conditions that a combined one consists of; itself if it is none."""
    for part in condition.parts:
        yield from iterate_leaves(part)
    if not condition.parts:
        yield condition


class Grace(Enum):
    """The grace period of a failed state: how long it must hold before it ends the wait."""

    NONE = "none"
    """No time: the state is final (a Job's Failed condition, another UID)."""

    SHORT = "short"
    """A few seconds: the state does not recover by itself (a missing image)."""

    LONG = "long"
    """Long enough for one more try: the state may recover (a registry's timeout)."""

    OUTSIDE = "outside"
    """As long on every cluster: only a user or another program can end the state."""


@dataclass(frozen=True, slots=True)
class TerminalState:
    """A state in which an object cannot reach the awaited one.

    Args:
        reason: the cause in a few words, without the object's name.
        grace: how long the state must hold before it ends the wait; not `NONE`.
        repeats: whether it is a crash loop, whose grace begins with its first crash.
    """

    reason: str
    grace: Grace
    repeats: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Met:
    """The condition is met.

    Args:
        objects: the objects that satisfied the wait, as the API's JSON.
        settled: whether the state is the final one of its controllers; False for a number that
            objects may pass on the way to another. It must then hold for `settle_time`.
    """

    objects: Sequence[dict[str, Any]] = ()
    settled: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Pending:
    """The condition is not met yet.

    Args:
        reason: the missing part, in a few words.
        absent: whether the object does not exist yet.
    """

    reason: str
    absent: bool = field(default=False, compare=False)


class LazyPending(Pending):
    """A pending verdict whose reason is formatted only when it is read.

    Formatting the reason after each of thousands of events costs more than counting them.

    Args:
        format_reason: returns the reason; valid until the next event.
    """

    __slots__ = ("_format_reason",)
    _format_reason: Callable[[], str]

    def __init__(self, format_reason: Callable[[], str]) -> None:
        object.__setattr__(self, "_format_reason", format_reason)
        object.__setattr__(self, "absent", False)

    @property
    def reason(self) -> str:
        """The missing part, in a few words."""
        return self._format_reason()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pending) and other.reason == self.reason

    def __hash__(self) -> int:
        return hash((self.reason,))


@dataclass(frozen=True, slots=True)
class Failed:
    """The condition can no longer be met.

    Args:
        reason: the cause, in a few words.
        grace: how long the verdict must hold without a break before it ends the wait.
        since: when the state began, in monotonic seconds; None for the first such verdict.
        repeats: whether it is a crash loop, whose grace begins with its first crash.
    """

    reason: str
    grace: Grace = Grace.NONE
    since: float | None = None
    repeats: bool = field(default=False, compare=False)


Verdict = Met | Pending | Failed
