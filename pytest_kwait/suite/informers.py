"""The informers of a test, by resource name, and the history of their events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.cache.factory import SharedInformerFactory
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import WaitTimeout

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.cache.handlers import HandlerRegistration
    from pytest_kwait.cache.shared_informer import SharedInformer

_SHOWN_EVENTS = 10


class Informers(Mapping[str, "SharedInformer"]):
    """Started informers, by resource name: `kwait.informers["pods"]`.

    `wait_for_cache_sync` takes this object as a whole.

    Args:
        namespace: the namespace; None for all.
        **options: those of `SharedInformerFactory`.
    """

    def __init__(self, client: ApiClient, namespace: str | None, **options: Any) -> None:
        self._client = client
        self._namespace = namespace
        self._options = options
        self._factory: SharedInformerFactory | None = None
        self._by_name: dict[str, SharedInformer] = {}

    def start(self, *resources: str) -> list[SharedInformer]:
        """Start the informers of resources that do not run yet, and return them all.

        Args:
            *resources: resource names as in kubectl.

        Raises:
            InvalidArgument: the server has no such resource.
            ApiError: the server could not be asked.
        """
        if self._factory is None:
            self._factory = SharedInformerFactory(self._client, self._namespace, **self._options)
        started = []
        for name in resources:
            informer = self._factory.informer_for(name)
            self._add(informer)
            self._by_name[name] = self._by_name[informer.resource.qualified] = informer
            started.append(informer)
        self._factory.start()
        return started

    def stop(self) -> None:
        """Stop all informers; returns at once."""
        if self._factory is not None:
            self._factory.stop()
            self._factory = None

    def _add(self, informer: SharedInformer) -> None:
        """Add an informer, unless it exists."""

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The informers, each once."""
        return tuple(dict.fromkeys(self._by_name.values()))

    def __getitem__(self, resource: str) -> SharedInformer:
        try:
            return self._by_name[resource]
        except KeyError:
            there = ", ".join(self) or "none"
            raise KeyError(f"no informer of {resource!r} was started; there is {there}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(
            dict.fromkeys(informer.resource.qualified for informer in self._by_name.values())
        )

    def __len__(self) -> int:
        return len(set(self._by_name.values()))


@dataclass(frozen=True, slots=True)
class InformerEvent:
    """One event that an informer passed to its handlers.

    Args:
        what: the kind of event.
        object: the object after it; for `deleted` its final or last known state.
        old: the object before it, for `updated` only.
        initial: whether the object was in the first list.
    """

    what: Literal["added", "updated", "deleted"]
    object: dict[str, Any]
    old: dict[str, Any] | None = None
    initial: bool = False

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """The object's namespace; None for cluster-scoped kinds."""
        namespace: str | None = self.object["metadata"].get("namespace")
        return namespace

    def __str__(self) -> str:
        return f"{self.what} {self.name}"


class EventHistory:
    """A handler that records events.

    Args:
        of: the resource, for messages.
        clock: the clock of the waits.
    """

    def __init__(self, of: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._of = of
        self._clock = clock
        self._changed = threading.Condition()
        self._events: list[InformerEvent] = []

    def on_add(self, obj: dict[str, Any], is_in_initial_list: bool) -> None:
        """Record a new object."""
        self._write(InformerEvent("added", obj, initial=is_in_initial_list))

    def on_update(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Record a change."""
        self._write(InformerEvent("updated", new, old))

    def on_delete(self, obj: dict[str, Any]) -> None:
        """Record a deletion."""
        self._write(InformerEvent("deleted", obj))

    def events(self, name: str | None = None) -> list[InformerEvent]:
        """Return the recorded events, of one name if it is given, oldest first."""
        with self._changed:
            return [event for event in self._events if name is None or event.name == name]

    def until(
        self,
        condition: Callable[[list[InformerEvent]], object],
        timeout: Duration,
        name: str | None = None,
    ) -> list[InformerEvent]:
        """Return the events once a condition on them is true; checked after each event.

        Raises:
            WaitTimeout: it was not within the time; shows the latest events.
        """
        limit = to_seconds(timeout, what="timeout")
        deadline = Deadline.after(limit, self._clock)
        while True:
            with self._changed:
                size = len(self._events)
            events = self.events(name)
            if condition(events):
                return events
            with self._changed:
                grown = self._changed.wait_for(lambda: len(self._events) > size, deadline.remaining)  # noqa: B023 - called in this round only
            if not grown:
                raise WaitTimeout(self._timeout_message(limit, events, name))

    def _write(self, event: InformerEvent) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def _timeout_message(self, limit: float, events: list[InformerEvent], name: str | None) -> str:
        subject = f"{self._of} named {name}" if name is not None else self._of
        latest = ", ".join(map(str, events[-_SHOWN_EVENTS:])) or "none"
        count = (
            f"the last {_SHOWN_EVENTS} of {len(events)}" if len(events) > _SHOWN_EVENTS else "all"
        )
        return (
            f"the events of {subject} did not come to what was awaited within "
            f"{format_duration(limit)}; {count}: {latest}"
        )


class RecordedInformers(Informers):
    """Informers that record the history of their events.

    Args:
        namespace: the namespace; None for all.
        **options: those of `SharedInformerFactory`.
    """

    def __init__(self, client: ApiClient, namespace: str | None, **options: Any) -> None:
        super().__init__(client, namespace, **options)
        self._histories: dict[SharedInformer, EventHistory] = {}
        self.registrations: list[HandlerRegistration] = []
        """The handlers of the histories, to wait until they have received the first list."""

    def events(self, resource: str, name: str | None = None) -> list[InformerEvent]:
        """Return the events of a resource so far, oldest first.

        Args:
            resource: the name with which its informer was started.
            name: only events of this object.

        Raises:
            KeyError: no such informer was started.
        """
        return self._histories[self[resource]].events(name)

    def wait_for_events(
        self,
        resource: str,
        condition: Callable[[list[InformerEvent]], object],
        *,
        name: str | None = None,
        timeout: Duration = 30.0,
    ) -> list[InformerEvent]:
        """Return the events of a resource once a condition on them is true.

        A cache lags the server by milliseconds, so a test waits here for its own changes. Sends no
        request.

        Args:
            resource: the name with which its informer was started.
            condition: called with the events so far, at once and after each further one.
            name: only events of this object.
            timeout: the limit.

        Raises:
            WaitTimeout: the condition did not come true in time; shows the latest events.
            KeyError: no such informer was started.
            InvalidArgument: `timeout` is no duration.
        """
        return self._histories[self[resource]].until(condition, timeout, name)

    def _add(self, informer: SharedInformer) -> None:
        if informer not in self._histories:
            history = self._histories[informer] = EventHistory(informer.name, informer.clock)
            self.registrations.append(informer.add_event_handler(history, name="history"))
