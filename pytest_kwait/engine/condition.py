"""Conditions: sources to watch, an incremental state, and a verdict.

A condition belongs to one wait and keeps its state. The waiter feeds its sinks from the sources
and evaluates the verdict after each change, so the cost of both must not depend on the number of
objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_kwait.apimachinery.fields import name_selector

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.verdicts import Failed, Verdict

__all__ = [
    "Condition",
    "EvidenceScope",
    "HasDeferredSource",
    "ObjectReference",
    "ObjectSink",
    "Probe",
    "Source",
    "Timed",
]


class ObjectSink(Protocol):
    """Receives the objects of a source."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Add or replace an object.

        Args:
            obj: the fields that the source names.
            raw: the whole object as received.
            now: the clock's monotonic seconds.
        """
        ...

    def drop(self, uid: str) -> None:
        """Remove the object with this UID."""
        ...

    def uids(self) -> Collection[str]:
        """Return the UIDs of the present objects."""
        ...


@dataclass(eq=False, slots=True)
class Source:
    """One collection to watch, or one object of it.

    Args:
        resource: the kind.
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

    def replace(self, items: list[tuple[dict[str, Any], bytes]], now: float) -> None:
        """Replace the sink's objects by those of a list; drop objects missing from it.

        Args:
            items: the fields and the bytes of each object.
            now: the clock's monotonic seconds.
        """
        present = {obj["metadata"].get("uid") or obj["metadata"]["name"] for obj, _ in items}
        for uid in [uid for uid in self.sink.uids() if uid not in present]:
            self.sink.drop(uid)
        for obj, raw in items:
            self.sink.put(obj, raw, now)

    def __str__(self) -> str:
        which = self.name or (f"with {self.selector}" if self.selector else "")
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.qualified}{' ' if which else ''}{which}{where}"


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
class EvidenceScope:
    """The scope in which to gather evidence of a failure.

    Args:
        namespace: the namespace of events and pods; None for a cluster-scoped subject.
        objects: the objects of the wait; may be empty.
        pods: the label selector of owned pods; None without any.
        pod_names: pods by name, if not selected by label.
        suspects: names of the pods that decided the verdict, shown first.
    """

    namespace: str | None
    objects: Sequence[ObjectReference] = ()
    pods: str | None = None
    pod_names: Sequence[str] = ()
    suspects: Sequence[str] = field(default=())


class Condition(Protocol):
    """A condition that a wait can wait for."""

    @property
    def subject(self) -> str:
        """The object of the wait: `job ci-1/sleepers`."""
        ...

    @property
    def goal(self) -> str:
        """The awaited state, as a verb: `have 3 pods Running`."""
        ...

    @property
    def runs_user_code(self) -> bool:
        """True if the verdict runs user code, which must run in the calling thread."""
        ...

    def sources(self) -> Sequence[Source]:
        """Return the sources to watch now; they may change with the objects seen."""
        ...

    def verdict(self) -> Verdict:
        """Return the verdict on the objects seen; called only once every source is listed."""
        ...

    def seen(self) -> str:
        """Return a one-line summary of the present objects; empty before the first one."""
        ...

    def result(self) -> Any:
        """Return the result of the wait once its verdict is Met."""
        ...

    def scope(self) -> EvidenceScope:
        """Return the scope in which to gather evidence of a failure."""
        ...


class Timed(Protocol):
    """A condition whose verdict also changes with time."""

    @property
    def due(self) -> float:
        """The next evaluation without a change, in monotonic seconds; infinite for none."""
        ...

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Set the time of the next verdict.

        Args:
            now: the clock's monotonic seconds.
            fresh: whether all sources have been listed since the due time.
        """
        ...


class HasDeferredSource(Protocol):
    """A condition with a source that is listed only once the wait is stuck.

    Its objects explain the lack of progress. It is not watched, but listed after the short grace.
    """

    def deferred_source(self) -> Source | None:
        """Return the source to list if this state lasts; None while there is progress."""
        ...

    def deferred_verdict(self) -> Failed | None:
        """Return the failure that the listed objects show; None without one."""
        ...


class Probe(Protocol):
    """A condition with a part that cannot be watched and is requested every `poll`.

    `questions`, `is_urgent` and `record_answers` are never called concurrently with other methods
    of the condition. `ask` is, and must not touch the condition's state.
    """

    def questions(self) -> Sequence[Any]:
        """Return the requests to send now; empty if none is needed."""
        ...

    def is_urgent(self) -> bool:
        """Return whether new requests should be sent before the end of the pause."""
        ...

    def ask(self, questions: Sequence[Any], deadline: Deadline) -> Any:
        """Send the requests and return the answers; called in the caller's thread.

        Raises:
            ApiError: a request was refused or not understood; transient errors are answers.
        """
        ...

    def record_answers(self, answers: Any) -> None:
        """Record the answers."""
        ...
