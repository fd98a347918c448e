"""Shared informers: one list and watch of a resource for any number of handlers.

Ported from client-go `tools/cache/shared_informer.go`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict

import msgspec

from pytest_kwait.apimachinery.arguments import check_function, check_instance, check_text
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.cache.handlers import (
    HandlerRegistration,
    ResourceEventHandlerFuncs,
    Resyncer,
    check_handler,
    parse_resync_period,
)
from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.reflector import Reflector, is_permanent
from pytest_kwait.cache.store import (
    DeletedFinalStateUnknown,
    Indexer,
    Lister,
    meta_namespace_key_func,
)
from pytest_kwait.cache.sync import Signal
from pytest_kwait.cache.transform import TransformError, apply_transform
from pytest_kwait.client.responses import Item
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from pytest_kwait.cache.handlers import ResourceEventHandler
    from pytest_kwait.cache.store import Delta, Indexers, Object
    from pytest_kwait.cache.transform import TransformFunc
    from pytest_kwait.client.resource import Resource

_logger = logging.getLogger("pytest_kwait.cache")


class _ObjectMetadataFields(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class ObjectMetadata(TypedDict, total=False):
    """The fields that identify an object in a store; no others are decoded eagerly."""

    kind: str
    metadata: _ObjectMetadataFields


class ApplyChange(Protocol):
    """Updates a store and notifies its handlers atomically."""

    def __call__(self, apply: Callable[[Indexer], Sequence[Delta]], listed: bool) -> None:
        """Call `apply` with the store and distribute its changes; `listed` after a list."""
        ...


class DeltaProcessor:
    """The reflector's side of an informer.

    Args:
        resource: the listed resource.
        store: stores the objects.
        change: updates the store.
        transform: changes each object before it is stored; None for none.
    """

    def __init__(
        self,
        resource: Resource,
        store: Indexer,
        change: ApplyChange,
        transform: TransformFunc | None,
    ) -> None:
        self.transform = transform
        self._store = store
        self._change = change
        # Items of a list of a built-in kind lack their type, which the list states once.
        type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
        self._type = msgspec.json.encode(type_meta)[:-1] + b","

    def replace(self, items: Iterable[Item], resource_version: str) -> None:
        """Replace the store's objects; a `list` is converted in place.

        Raises:
            TransformError: an object cannot be transformed; the store stays as it was.
        """
        whole = items if isinstance(items, list) else list(items)
        whole[:] = [item for item in whole if _has_name(item.object)]
        for place, item in enumerate(whole):
            # Converted in place: two lists would double the process's memory for good.
            whole[place] = self._whole(item)
        self._change(lambda store: store.replace(whole, resource_version), listed=True)

    def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Add an object."""
        self.update(obj, raw)

    def update(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Update an object."""
        if not _has_name(obj):
            return
        try:
            stored_raw = self._kept(obj, raw)
        except TransformError:
            # As upstream: the watch continues, and the store keeps the former state.
            _logger.exception("Unable to transform a changed object")
        else:
            self._change(lambda store: store.update(obj, stored_raw), listed=False)

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Remove an object."""
        if not _has_name(obj):
            return
        try:
            stored_raw = self._kept(obj, raw)
        except TransformError:
            # Deleted regardless of its state; handlers get the last stored one.
            _logger.exception("Unable to transform the final state of a deleted object")
            key = meta_namespace_key_func(obj)
            last = DeletedFinalStateUnknown(key, self._store.get_by_key(key) or {})
            self._change(lambda store: store.delete(last), listed=False)
        else:
            self._change(lambda store: store.delete(obj, stored_raw), listed=False)

    def bookmark(self, resource_version: str) -> None:
        """Record that nothing else has changed."""
        self._store.bookmark(resource_version)

    def _whole(self, item: Item) -> Item:
        raw = item.raw
        if not item.object.get("kind"):
            raw = self._type + raw.lstrip()[1:]
        elif self.transform is None:
            return item
        return Item(item.object, self._kept(item.object, raw))

    def _kept(self, obj: Mapping[str, Any], raw: bytes) -> bytes:
        if self.transform is None:
            return raw
        return apply_transform(self.transform, meta_namespace_key_func(obj), raw)


def _has_name(obj: Mapping[str, Any]) -> bool:
    metadata = obj.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("name"):
        return True
    _logger.error("An object without metadata.name was left out: %.200r", obj)
    return False


class SharedInformer:
    """Mirrors a collection in a store and notifies handlers of changes; a `DoneChecker`.

    The store is updated before handlers are called. Each handler runs in its own thread, so that
    none delays another or the watch. A stopped informer cannot be restarted.

    Args:
        lister_watcher: the collection.
        indexers: index functions of the store, by name.
        relist_interval: the time after which the collection is listed again despite a working
            watch; None for never.
        on_error: called in the informer's thread with the error of a list or watch; None to log.
        name: its name in messages; None for the collection's.
        transform: see `set_transform`.
        resync: the period at which handlers without their own get all objects again, as
            updates; None for never.
    """

    def __init__(
        self,
        lister_watcher: ListWatch,
        *,
        indexers: Indexers | None = None,
        relist_interval: Duration | None = None,
        on_error: Callable[[Exception], object] | None = None,
        name: str | None = None,
        transform: TransformFunc | None = None,
        resync: Duration | None = None,
    ) -> None:
        check_instance("lister_watcher", lister_watcher, ListWatch, "use a cache.ListWatch")
        if name is not None:
            check_text("name", name)
        if transform is not None:
            check_function("transform", transform)
        self.name = name or lister_watcher.name
        self.resource = lister_watcher.resource
        self.clock = lister_watcher.clock
        self.store = Indexer(indexers=indexers)
        """The objects, readable from any thread."""
        self.done = Signal()
        """Set once the initial list is in the store."""
        self._distribution = DeltaProcessor(self.resource, self.store, self._change, transform)
        self._reflector = Reflector(
            lister_watcher.with_type(ObjectMetadata),
            self._distribution,
            name=self.name,
            relist_interval=relist_interval,
            on_error=on_error,
        )
        self._lock = threading.RLock()
        self._handlers: list[HandlerRegistration] = []
        self._default_resync = parse_resync_period(resync, self.name)
        self._resync = Resyncer(self.name, self.clock, self._resync_handler)
        self._listed = False
        self._stopped = False
        self._worker = Worker(
            f"kwait informer of {self.name}", self._reflector.run, on_error=self._log_end
        )

    def has_synced(self) -> bool:
        """True once the initial list is stored; handlers may not have been called yet."""
        return self.done.is_set()

    @property
    def last_error(self) -> Exception | None:
        """The error of the latest list or watch; None while both succeed."""
        return self._worker.error or self._reflector.last_error

    @property
    def permanent_error(self) -> Exception | None:
        """The last error if retrying is pointless, as with 403 or an unknown kind."""
        error = self.last_error
        if error is self._reflector.excused:
            return None
        lasting = is_permanent(error, in_row=self._reflector.failures_in_row)
        return error if lasting else None

    @property
    def last_sync_resource_version(self) -> str:
        """The resourceVersion up to which the store is current; empty at first."""
        return self.store.resource_version

    @property
    def started(self) -> bool:
        """True once `start` was called."""
        return self._worker.is_started

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._stopped

    def start(self) -> None:
        """Start to list and watch, in a daemon thread; no-op if already started.

        Raises:
            RuntimeError: the informer was stopped.
        """
        with self._lock:
            if self._stopped:
                raise RuntimeError(f"the informer of {self.name} was stopped, make a new one")
            if self.started:
                return
            self._worker.start()
            self._resync.start()
            for registration in self._handlers:
                registration.start()

    def stop(self) -> None:
        """End the watch and stop calling handlers.

        Returns at once, even from a handler. A running call of a handler continues; the answer of a
        pending list is dropped.
        """
        with self._lock:
            self._stopped = True
            for registration in self._handlers:
                registration.stop()
        self._resync.stop()
        self._reflector.stop()

    def join(self, timeout: Duration) -> bool:
        """Wait for the informer's thread to end after `stop`.

        Args:
            timeout: the limit, in real time.

        Returns:
            True if it has ended.
        """
        return self._worker.join(to_seconds(timeout, what="timeout"))

    def add_event_handler(
        self,
        handler: ResourceEventHandler | None = None,
        *,
        add: Callable[[Object], object] | None = None,
        update: Callable[[Object, Object], object] | None = None,
        delete: Callable[[Object], object] | None = None,
        name: str | None = None,
        resync: Duration | None = None,
    ) -> HandlerRegistration:
        """Register a handler for all changes, and for present objects as added.

        Exceptions of the handler are logged and kept in the registration's `last_error`; they stop
        neither this handler nor others.

        Args:
            handler: the handler; alternatively give the three functions.
            add: called with an object that is new.
            update: called with the old and the new state.
            delete: called with the last known state.
            name: the handler's name in messages.
            resync: the period at which this handler gets all objects again, as updates from and to
                the same state; 0 for never, None for the informer's own period. At least a second.

        Raises:
            RuntimeError: the informer was stopped.
            InvalidArgument: `resync` is not a duration, no handler, or both forms of one.
        """
        functions = ResourceEventHandlerFuncs(add, update, delete)
        if handler is None:
            handler = functions
        elif functions != ResourceEventHandlerFuncs():
            raise InvalidArgument("handler", handler, "None where functions are given")
        check_handler(handler)
        if name is not None:
            check_text("name", name)
        period = self._default_resync
        if resync is not None:
            period = parse_resync_period(resync, f"{name or 'a handler'} of {self.name}")
        with self._lock:
            if self._stopped:
                raise RuntimeError(f"the informer of {self.name} was stopped, it calls no handlers")
            place = f"{name or f'handler {len(self._handlers) + 1}'} of {self.name}"
            registration = HandlerRegistration(handler, place, self)
            for delta in self.store.snapshot():
                registration.notify(delta, initial=True)
            if self._listed:
                registration.end_initial_list()
            self._handlers.append(registration)
            self._resync.add(registration, period)
            if self.started:
                registration.start()
        return registration

    def remove_event_handler(self, registration: HandlerRegistration) -> None:
        """Stop calling a handler; no-op if it is not registered here."""
        valid = "use what add_event_handler returned"
        check_instance("registration", registration, HandlerRegistration, valid)
        with self._lock:
            if registration in self._handlers:
                self._handlers.remove(registration)
                self._resync.remove(registration)
                registration.stop()

    def add_indexers(self, indexers: Indexers) -> None:
        """Add index functions to the store.

        Raises:
            InvalidArgument: a name is taken.
        """
        self.store.add_indexers(indexers)

    def set_transform(self, transform: TransformFunc) -> None:
        """Set a transform of every object, applied before storing and handling.

        It receives each object as sent by the server and returns the object to store, without
        unused or secret fields; name and UID must not change. If it fails on a list, the whole list
        fails and is retried, with the reason in `last_error`. If it fails on a watch event, the
        store keeps the former state, which is logged.

        Raises:
            RuntimeError: the informer was started.
        """
        check_function("transform", transform)
        with self._lock:
            if self.started or self._stopped:
                raise RuntimeError(f"the informer of {self.name} was started, it is too late")
            self._distribution.transform = transform

    def lister(self) -> Lister:
        """Return a lister of the store: by label selector, name and namespace."""
        return Lister(self.store, self.resource)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def __repr__(self) -> str:
        return f"<informer of {self.name}>"

    def _log_end(self, error: Exception) -> None:
        _logger.error("The informer of %s ended", self.name, exc_info=error)

    def _resync_handler(self, registration: HandlerRegistration) -> None:
        """Queue all objects for one handler, in one step for the store."""
        with self._lock:
            if self._listed and not self._stopped:
                for delta in self.store.resync():
                    registration.notify(delta)

    def _change(self, apply: Callable[[Indexer], Sequence[Delta]], listed: bool) -> None:
        """Update the store and notify the handlers, atomically for new registrations."""
        with self._lock:
            deltas = apply(self.store)
            initial = listed and not self._listed
            self._listed = self._listed or listed
            for registration in () if self._stopped else self._handlers:
                for delta in deltas:
                    registration.notify(delta, initial=initial)
                if initial:
                    registration.end_initial_list()
        if initial:
            self.done.set()
