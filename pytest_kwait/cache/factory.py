"""One informer per resource, started, awaited and stopped together.

Ported from client-go `informers/factory.go` and `dynamic/dynamicinformer`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Self

from pytest_kwait import wait
from pytest_kwait.api.session import Session
from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.shared_informer import SharedInformer
from pytest_kwait.cache.sync import CACHE_SYNC_TIMEOUT, SYNCED_POLL_PERIOD, stop_context
from pytest_kwait.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from kubernetes.client import ApiClient

    from pytest_kwait.api.resource import Resource
    from pytest_kwait.api.selectors import Selector
    from pytest_kwait.cache.listwatch import ListsAndWatches
    from pytest_kwait.cache.sync import Stop

__all__ = ["SharedInformerFactory"]

_RESOLVE_TIMEOUT = 30.0


class SharedInformerFactory:
    """Makes informers, one per resource however often it is asked for, built-in or custom.

    Args:
        client: the official client, or a session over it.
        namespace: where its informers look; None for everywhere.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
        relist_interval: see `SharedInformer`.
    """

    def __init__(
        self,
        client: ApiClient | Session,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        relist_interval: float | None = None,
    ) -> None:
        self.namespace = namespace
        self._session = client if isinstance(client, Session) else Session.of(client)
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._relist_interval = relist_interval
        self._lock = threading.RLock()
        self._informers: dict[Resource, SharedInformer] = {}
        self._stopped = False

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The informers that were asked for, started or not."""
        with self._lock:
            return tuple(self._informers.values())

    def informer_for(self, resource: Resource | str) -> SharedInformer:
        """Return the informer of a resource, one for all who ask; `start` starts it.

        Args:
            resource: a resource, or its kind, plural, singular or short name, also with its group
                (`jobs.batch`). What is not built in is looked up on the server.

        Raises:
            InvalidArgument: the server has no such resource.
            ApiError: the server could not be asked.
            RuntimeError: the factory was stopped.
        """
        if isinstance(resource, str):
            deadline = Deadline.after(_RESOLVE_TIMEOUT, self._session.clock)
            resource = self._session.resolve(resource, deadline=deadline)
        with self._lock:
            if self._stopped:
                raise RuntimeError("the informer factory was stopped, make a new one")
            if resource not in self._informers:
                self._informers[resource] = self._make(resource)
            return self._informers[resource]

    def start(self) -> None:
        """Start the informers that are not started yet; does nothing once stopped."""
        with self._lock:
            if not self._stopped:
                for informer in self._informers.values():
                    informer.start()

    def stop(self) -> None:
        """Stop all informers; returns at once."""
        with self._lock:
            self._stopped = True
            for informer in self._informers.values():
                informer.stop()

    def wait_for_cache_sync(
        self, *, timeout: wait.Duration | None = None, stop: Stop | None = None
    ) -> Mapping[Resource, bool]:
        """Wait for the started informers and say of each whether it has synced.

        Returns once all have, or can no longer, or at the end of the time or when `stop` is set.
        Informers that are not started are left out, as upstream leaves them out. To have an
        exception that says what went wrong, pass the factory to `cache.wait_for_cache_sync`.

        Args:
            timeout: None for five minutes.
            stop: ends the wait.
        """
        started = {
            resource: informer
            for resource, informer in list(self._informers.items())
            if informer.started
        }
        limit = CACHE_SYNC_TIMEOUT if timeout is None else wait.to_seconds(timeout, what="timeout")
        context = stop_context(stop, self._session.clock).limited(limit)

        def decided(_context: wait.Context) -> bool:
            return all(
                informer.has_synced() or informer.permanent_error is not None
                for informer in started.values()
            )

        with contextlib.suppress(wait.ErrWaitTimeout):
            wait.poll_immediate_until_with_context(context, SYNCED_POLL_PERIOD, decided)
        return {resource: informer.has_synced() for resource, informer in started.items()}

    def __enter__(self) -> Self:
        """Start the informers that were asked for."""
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop all informers."""
        self.stop()

    def _make(self, resource: Resource) -> SharedInformer:
        session: ListsAndWatches = self._session
        collection = ListWatch(
            session,
            resource,
            self.namespace if resource.namespaced else None,
            self._label_selector,
            self._field_selector,
        )
        return SharedInformer(collection, relist_interval=self._relist_interval)
