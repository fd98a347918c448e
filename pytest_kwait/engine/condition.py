"""Conditions: sources to watch, an incremental state, and a verdict.

A condition is used for one wait: it keeps what it has counted. The waiter feeds its sinks from the
sources and asks for the verdict after each change, so both must cost the same however many objects
there are.
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
    """Where what is seen of a source is counted."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Note that an object is there and looks like this.

        Args:
            obj: the fields that the source names.
            raw: the whole object as it came.
            now: the clock's monotonic seconds.
        """
        ...

    def drop(self, uid: str) -> None:
        """Note that the object of this UID is gone."""
        ...

    def uids(self) -> Collection[str]:
        """Return the UIDs of the objects that are there."""
        ...


@dataclass(eq=False, slots=True)
class Source:
    """What is looked at: one collection, or one object of it.

    Args:
        resource: the kind.
        namespace: where; None for all namespaces and for cluster-scoped kinds.
        book: what its objects are entered into.
        name: one object by its name; None for all that the selector matches.
        selector: a label selector.
        fields: a TypedDict of the fields that the verdict reads; None for whole objects.
        optional: whether it only explains: where it may not be read, the wait goes on without it.
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
        """The field selector that leaves one object of the collection."""
        return None if self.name is None else name_selector(self.name)

    def __str__(self) -> str:
        which = self.name or (f"with {self.selector}" if self.selector else "")
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.qualified}{' ' if which else ''}{which}{where}"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """One object as evidence and hints name it.

    Args:
        kind: as in the object, for example `Job`.
        name: its name.
        uid: its UID; empty where it has not been seen.
        resource: the name that kubectl knows the kind by.
        exists: whether it is there.
    """

    kind: str
    name: str
    uid: str
    resource: str
    exists: bool = True


@dataclass(frozen=True, slots=True)
class EvidenceScope:
    """Where the evidence of a failure is to be found.

    Args:
        namespace: where events and pods are; None for a cluster-scoped subject.
        objects: what the wait was about; may be empty.
        pods: a label selector of the pods it owns; None where it has none.
        pod_names: pods by name, where they are not selected by label.
        suspects: names of pods whose state decided, to be shown first.
    """

    namespace: str | None
    objects: Sequence[ObjectReference] = ()
    pods: str | None = None
    pod_names: Sequence[str] = ()
    suspects: Sequence[str] = field(default=())


class Condition(Protocol):
    """What can be awaited."""

    @property
    def subject(self) -> str:
        """What the wait is about: `job ci-1/sleepers`."""
        ...

    @property
    def goal(self) -> str:
        """What is awaited of it, as a verb: `have 3 pods Running`."""
        ...

    @property
    def runs_user_code(self) -> bool:
        """Whether the verdict runs code of the user, which belongs to the calling thread."""
        ...

    def sources(self) -> Sequence[Source]:
        """Return what is to be looked at now; may change with what has been seen."""
        ...

    def verdict(self) -> Verdict:
        """Judge what has been seen; asked only when every source has been listed."""
        ...

    def seen(self) -> str:
        """Sum up what is there, in one line; empty before anything was seen."""
        ...

    def result(self) -> Any:
        """Return what the wait returns once its verdict is Met."""
        ...

    def scope(self) -> EvidenceScope:
        """Return where the evidence of a failure is to be found."""
        ...


class Timed(Protocol):
    """A condition whose verdict changes with time too."""

    @property
    def due(self) -> float:
        """When to ask again though nothing changed, in monotonic seconds; infinite for never."""
        ...

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Note what time the next verdict is of.

        Args:
            now: the clock's monotonic seconds.
            fresh: whether everything has been listed since the moment that was due.
        """
        ...


class HasDeferredSource(Protocol):
    """A condition whose objects do not say themselves why something is wanting.

    What does say it is not watched: it is listed once the want has lasted for the short grace.
    """

    def deferred_source(self) -> Source | None:
        """Return what to list if this lasts; None while nothing is wanting."""
        ...

    def deferred_verdict(self) -> Failed | None:
        """Judge what that list has entered into its book; None while it may still come."""
        ...


class Probe(Protocol):
    """A condition with a part that cannot be watched: it is asked for every `poll`.

    `questions`, `urgent` and `learn` are never called at the same time as anything else of the
    condition; `ask` is, since it takes time, and so must not touch what has been counted.
    """

    def questions(self) -> Sequence[Any]:
        """Return what to ask now; empty while asking is not worth its requests."""
        ...

    def is_urgent(self) -> bool:
        """Whether the questions are new, and need not wait for the end of the pause."""
        ...

    def ask(self, questions: Sequence[Any], deadline: Deadline) -> Any:
        """Return the answers; runs in the caller's thread.

        Raises:
            ApiError: what was asked is refused, or not understood; passing troubles are answers.
        """
        ...

    def record_answers(self, answers: Any) -> None:
        """Note the answers."""
        ...
