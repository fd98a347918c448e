"""List and watch of one collection: a resource, a namespace, and selectors.

Ported from client-go `tools/cache/listwatch.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from pytest_kwait.apimachinery.fields import normalize_field_selector
from pytest_kwait.cache.shared_watch import ResourceCollection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from pytest_kwait.apimachinery.labels import Selector
    from pytest_kwait.cache.store import Listed
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.clock import Clock, Deadline

__all__ = ["EventStream", "ListWatch", "ListWatchClient", "ListedObjects", "WatchedEvent"]


class WatchedEvent(Protocol):
    """One event of a watch."""

    @property
    def type(self) -> str:
        """`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`."""
        ...

    @property
    def object(self) -> Mapping[str, Any]:
        """The decoded object, or the requested fields of it."""
        ...

    @property
    def raw(self) -> bytes:
        """The whole object's JSON."""
        ...

    @property
    def resource_version(self) -> str:
        """The version to resume from after this event."""
        ...


class ListedObjects(Protocol):
    """The answer to a list."""

    @property
    def items(self) -> Sequence[Listed]:
        """The objects."""
        ...

    @property
    def resource_version(self) -> str:
        """The resourceVersion to watch from."""
        ...


class EventStream(Protocol):
    """An open watch."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> object: ...

    def __iter__(self) -> Iterator[WatchedEvent]: ...

    def close(self) -> None:
        """End the watch at once, from any thread."""
        ...


class ListWatchClient(Protocol):
    """The methods of `client.Session` that a cache needs."""

    @property
    def clock(self) -> Clock:
        """The clock of deadlines."""
        ...

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        deadline: Deadline,
        type: Any = None,
    ) -> ListedObjects:
        """List all pages."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        resource_version: str,
        inactivity: float | None = None,
        timeout_seconds: int | None = None,
        deadline: Deadline,
        type: Any = None,
    ) -> EventStream:
        """Open a watch with bookmarks."""
        ...


@dataclass(frozen=True, slots=True)
class ListWatch:
    """One collection of objects, ready to be listed and watched.

    Args:
        session: the session of its requests.
        resource: the kind of objects.
        namespace: the namespace; None for all.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
        type: a TypedDict naming the fields to decode, `metadata` with name, namespace, uid and
            resourceVersion among them; None for whole objects.
    """

    session: ListWatchClient
    resource: Resource
    namespace: str | None = None
    label_selector: Selector | None = None
    field_selector: Selector | None = None
    type: Any = None

    @property
    def clock(self) -> Clock:
        """The clock of deadlines."""
        return self.session.clock

    @property
    def name(self) -> str:
        """The watched collection, for messages: `pods in namespace ci-1 with labels app=web`."""
        parts = [self.resource.qualified]
        if self.namespace is not None:
            parts.append(f"in namespace {self.namespace}")
        selectors = (("labels", self.label_selector), ("fields", self.field_selector))
        # For display only, where both forms are the same.
        chosen = [f"{what} {normalize_field_selector(value)}" for what, value in selectors if value]
        if chosen:
            parts.append("with " + " and ".join(chosen))
        return " ".join(parts)

    @property
    def collection(self) -> ResourceCollection:
        """The watched collection, in normalized form."""
        return ResourceCollection.of(
            self.resource, self.namespace, self.label_selector, self.field_selector
        )

    def with_type(self, type: Any) -> ListWatch:
        """Return the same collection, decoding only the fields of this TypedDict."""
        return replace(self, type=type)

    def list(self, *, deadline: Deadline) -> ListedObjects:
        """Return all objects, by a consistent read that includes the latest writes.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: the answer was not complete in time.
        """
        return self.session.list(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            deadline=deadline,
            type=self.type,
        )

    def watch(
        self,
        resource_version: str,
        *,
        timeout_seconds: int | None,
        inactivity: float | None,
        deadline: Deadline,
    ) -> EventStream:
        """Return the changes after `resource_version`, with bookmarks.

        Args:
            resource_version: the version to resume from.
            timeout_seconds: when the server ends the watch, in seconds.
            inactivity: seconds without a byte after which the connection counts as lost.
            deadline: when the watch ends on this side, regardless of the server.

        Raises:
            ApiError: the request failed.
            DeadlineExceeded: the watch was not open in time.
        """
        return self.session.watch(
            self.resource,
            self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            resource_version=resource_version,
            inactivity=inactivity,
            timeout_seconds=timeout_seconds,
            deadline=deadline,
            type=self.type,
        )
