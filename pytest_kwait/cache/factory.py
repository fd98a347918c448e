"""The informer factory: starts, syncs and stops one informer per collection.

Ported from client-go `informers/factory.go` and `dynamic/dynamicinformer`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import check_function, check_instance
from pytest_kwait.apimachinery.selectors import normalize_field_selector, normalize_label_selector
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.cache.handlers import parse_resync_period
from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.reflector import parse_interval
from pytest_kwait.cache.shared_informer import SharedInformer
from pytest_kwait.cache.store import NAMESPACE_INDEX, meta_namespace_index_func
from pytest_kwait.cache.sync import CACHE_SYNC_TIMEOUT, SYNCED_POLL_PERIOD, make_stop_context
from pytest_kwait.client.resource import Resource
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.cache.transform import TransformFunc
    from pytest_kwait.wait.context import Stop

_RESOLVE_TIMEOUT = 30.0
_VALID_RESYNC = "use a mapping of resources to periods"
_VALID_RESOURCE = "use a resource, or its name as in kubectl: 'pods', 'jobs.batch'"
_VALID_NAMESPACE = "use the name of a namespace, or None for all"


@dataclass(slots=True)
class ListOptions:
    """The list options of an informer.

    Args:
        resource: the kind of objects.
        namespace: the namespace; None for all.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
    """

    resource: Resource
    namespace: str | None = None
    label_selector: Selector | None = None
    field_selector: Selector | None = None

    @property
    def collection(self) -> tuple[Resource, str | None, str | None, str | None]:
        """The options in normalized form."""
        return (
            self.resource,
            self.namespace,
            normalize_label_selector(self.label_selector, what="label_selector"),
            normalize_field_selector(self.field_selector),
        )


TweakListOptions: TypeAlias = Callable[[ListOptions], object]
"""Changes the options of an informer that is being created."""


class SharedInformerFactory:
    """Creates informers, one per collection, for built-in and custom kinds.

    Informers of namespaced kinds have the index `NAMESPACE_INDEX`.

    Args:
        client: the official client, or a session over it.
        namespace: the namespace of its informers; None for all.
        label_selector: only objects with these labels.
        field_selector: only objects with these fields.
        relist_interval: see `SharedInformer`.
        resync: the resync period of handlers; None for never.
        custom_resync: other periods for some resources, by resource or by name.
        transform: changes each object before it is stored; see `SharedInformer`.
        tweak_list_options: called with the options of each new informer, which it may change,
            for example by resource.

    Raises:
        InvalidArgument: an invalid selector or period.
    """

    def __init__(
        self,
        client: ApiClient | ApiSession,
        namespace: str | None = None,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        relist_interval: Duration | None = None,
        resync: Duration | None = None,
        custom_resync: Mapping[Resource | str, Duration] | None = None,
        transform: TransformFunc | None = None,
        tweak_list_options: TweakListOptions | None = None,
    ) -> None:
        normalize_label_selector(label_selector, what="label_selector")
        normalize_field_selector(field_selector)
        parse_interval("relist_interval", relist_interval)
        check_instance("custom_resync", custom_resync or {}, Mapping, _VALID_RESYNC)
        for what, function in (
            ("transform", transform),
            ("tweak_list_options", tweak_list_options),
        ):
            if function is not None:
                check_function(what, function)
        _check_namespace(namespace)
        self.namespace = namespace
        self._session = client if isinstance(client, ApiSession) else ApiSession.of(client)
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._relist_interval = relist_interval
        self._resync = parse_resync_period(resync, "the factory's informers")
        for resource in custom_resync or ():
            _check_resource(resource)
        self._custom_resync = {
            resource: parse_resync_period(period, f"informers of {resource}")
            for resource, period in (custom_resync or {}).items()
        }
        self._transform = transform
        self._tweak = tweak_list_options
        self._lock = threading.RLock()
        self._informers: dict[object, SharedInformer] = {}
        self._has_started = False
        self._stopped = False

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The requested informers, started or not."""
        with self._lock:
            return tuple(self._informers.values())

    def informer_for(
        self,
        resource: Resource | str,
        *,
        label_selector: Selector | None = None,
        field_selector: Selector | None = None,
        tweak_list_options: TweakListOptions | None = None,
        transform: TransformFunc | None = None,
        resync: Duration | None = None,
    ) -> SharedInformer:
        """Return the one informer of a collection; `start` starts it.

        Transform and resync period are those of the first call.

        Args:
            resource: a resource, or its kind, plural, singular or short name, also with its group
                (`jobs.batch`), or with version and group (`deployments.v1.apps`). Other kinds than
                built-in ones are looked up on the server.
            label_selector: overrides the factory's.
            field_selector: overrides the factory's.
            tweak_list_options: changes the options after the factory's own has.
            transform: overrides the factory's.
            resync: overrides the factory's period; 0 for never.

        Raises:
            InvalidArgument: an unknown resource, or an invalid selector or period.
            ApiError: looking up the resource failed.
            RuntimeError: the factory was stopped.
        """
        for what, function in (
            ("transform", transform),
            ("tweak_list_options", tweak_list_options),
        ):
            if function is not None:
                check_function(what, function)
        resource = self._resolve(resource)
        options = ListOptions(
            resource,
            self.namespace if resource.namespaced else None,
            self._label_selector if label_selector is None else label_selector,
            self._field_selector if field_selector is None else field_selector,
        )
        for tweak in (self._tweak, tweak_list_options):
            if tweak is not None:
                tweak(options)
        _check_namespace(options.namespace)
        period = self._period(resource) if resync is None else resync
        collection = options.collection
        with self._lock:
            if self._stopped:
                raise RuntimeError("the informer factory was stopped, make a new one")
            if collection not in self._informers:
                self._informers[collection] = self._make(
                    options, transform or self._transform, period
                )
            return self._informers[collection]

    def start(self) -> None:
        """Start the informers that are not started yet; no-op once stopped."""
        with self._lock:
            self._has_started = True
            if not self._stopped:
                for informer in self._informers.values():
                    informer.start()

    def stop(self) -> None:
        """Stop all informers; returns at once."""
        with self._lock:
            self._stopped = True
            for informer in self._informers.values():
                informer.stop()

    def shutdown(self, timeout: Duration = 10.0) -> bool:
        """Stop all informers and wait for their threads; return whether all have ended.

        Args:
            timeout: the limit, in real time.
        """
        self.stop()
        limit = Deadline.after(to_seconds(timeout, what="timeout"), SYSTEM_CLOCK)
        ended = [informer.join(limit.remaining) for informer in self.informers]
        return all(ended)

    def wait_for_cache_sync(
        self, *, timeout: Duration | None = None, stop: Stop | None = None
    ) -> Mapping[Resource, bool]:
        """Wait for the started informers; return whether each has synced.

        Returns once all have synced or can no longer sync, at the timeout, or when `stop` is set.
        Informers that are not started are left out, as upstream, unless another thread starts them
        meanwhile. Deliberately different: if no informer is started yet, this waits for the first
        `start`. Upstream returns success, and the caller reads empty caches. For an exception that
        names the cause, pass the factory to `cache.wait_for_cache_sync`.

        Args:
            timeout: None for five minutes.
            stop: ends the wait.
        """
        limit = CACHE_SYNC_TIMEOUT if timeout is None else to_seconds(timeout, what="timeout")
        context = make_stop_context(stop, self._session.clock).limited(limit)

        def decided(_context: wait.Context) -> bool:
            awaited = self._awaited()
            return awaited is not None and all(
                informer.has_synced() or informer.stopped or informer.permanent_error is not None
                for informer in awaited
            )

        with contextlib.suppress(wait.ErrWaitTimeout):
            wait.poll_immediate_until_with_context(context, SYNCED_POLL_PERIOD, decided)
        synced: dict[Resource, bool] = {}
        for informer in self._awaited() or self.informers:
            resource = informer.resource
            synced[resource] = informer.has_synced() and synced.get(resource, True)
        return synced

    def _awaited(self) -> Sequence[SharedInformer] | None:
        """Return the running informers; None before the first start."""
        with self._lock:
            if self._informers and not self._has_started and not self._stopped:
                started = [informer for informer in self._informers.values() if informer.started]
                return started if len(started) == len(self._informers) else None
            return [informer for informer in self._informers.values() if informer.started]

    def __enter__(self) -> Self:
        """Start the requested informers."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all informers."""
        self.stop()

    def _resolve(self, resource: Resource | str) -> Resource:
        _check_resource(resource)
        if isinstance(resource, Resource):
            return resource
        deadline = Deadline.after(_RESOLVE_TIMEOUT, self._session.clock)
        return self._session.resolve(resource, deadline=deadline)

    def _period(self, resource: Resource) -> float:
        """Return the resync period of a resource's informers."""
        for name, period in self._custom_resync.items():
            if self._resolve(name) == resource:
                return period
        return self._resync

    def _make(
        self, options: ListOptions, transform: TransformFunc | None, resync: Duration
    ) -> SharedInformer:
        collection = ListWatch(
            self._session,
            options.resource,
            options.namespace,
            options.label_selector,
            options.field_selector,
        )
        by_namespace = {NAMESPACE_INDEX: meta_namespace_index_func}
        return SharedInformer(
            collection,
            indexers=by_namespace if options.resource.namespaced else None,
            relist_interval=self._relist_interval,
            transform=transform,
            resync=resync,
        )


def _check_namespace(namespace: object) -> None:
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise InvalidArgument("namespace", namespace, _VALID_NAMESPACE)


def _check_resource(resource: object) -> None:
    if not isinstance(resource, Resource | str) or not resource:
        raise InvalidArgument("resource", resource, _VALID_RESOURCE)
