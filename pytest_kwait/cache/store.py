"""Stores and indexers: objects by key, looked up by name or by index.

Objects are passed by value. The store keeps the bytes that the server sent and decodes them for
each reader, so readers cannot affect each other, and 5,000 pods cost the size of their JSON. A key
is `namespace/name`.

Ported from client-go `tools/cache` (store.go, index.go, thread_safe_store.go, delta_fifo.go), with
one addition: identity is the UID, so an object re-created under the same name is a different one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from pytest_kwait.apimachinery.arguments import check_function, check_instance, check_text
from pytest_kwait.apimachinery.selectors import LabeledObject, compile_label_selector, get_labels
from pytest_kwait.client.resource import Resource
from pytest_kwait.client.responses import decode_object
from pytest_kwait.errors import PLAIN_TRACEBACKS, ApiError, InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.apimachinery.selectors import Selector
    from pytest_kwait.client.responses import Item

KeyFunc: TypeAlias = Callable[[Mapping[str, Any]], str]

NAMESPACE_INDEX = "namespace"
"""The usual name of an index by namespace (see `meta_namespace_index_func`)."""
Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]
IndexFunc: TypeAlias = Callable[[Object], Iterable[str]]
Indexers: TypeAlias = Mapping[str, IndexFunc]

_logger = logging.getLogger("pytest_kwait.cache")

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
_NOT_INDEXED: Mapping[str, tuple[str, ...]] = {}


class DeletedFinalStateUnknown(dict[str, Any]):
    """The last known state of an object whose deletion was concluded from a list.

    It reads like the object itself; a handler can distinguish them by `isinstance`.

    Args:
        key: the object's key.
        last_known: the state in which it was last seen, which may be outdated.
    """

    def __init__(self, key: str, last_known: Mapping[str, Any]) -> None:
        super().__init__(last_known)
        self.key = key


def meta_namespace_key_func(obj: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object, or `name` if cluster-scoped.

    Raises:
        InvalidArgument: the object has no `metadata.name`.
    """
    given: object = obj
    metadata = given.get("metadata") if isinstance(given, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not name:
        value = dict(given) if isinstance(given, Mapping) else given
        raise InvalidArgument("object", value, "an object with metadata.name")
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else str(name)


def deletion_handling_meta_namespace_key_func(obj: Mapping[str, Any]) -> str:
    """Return the key of an object, or of a `DeletedFinalStateUnknown`."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    return meta_namespace_key_func(obj)


def split_meta_namespace_key(key: str) -> tuple[str, str]:
    """Return namespace and name of a key; the namespace may be empty.

    Raises:
        InvalidArgument: the key has more than one slash.
    """
    check_text("key", key)
    parts = key.split("/")
    if len(parts) == 1:
        return "", parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InvalidArgument("key", key, "namespace/name, or name alone")


def meta_namespace_index_func(obj: Mapping[str, Any]) -> Iterable[str]:
    """Index by namespace: one value, empty for cluster-scoped objects."""
    check_instance("object", obj, Mapping, "use an object as a mapping")
    return (obj.get("metadata", {}).get("namespace") or "",)


_logger.addFilter(PLAIN_TRACEBACKS)


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of a store.

    Args:
        type: the type of change; `SYNC` for a periodic resync without a change.
        key: the object's key.
        raw: the object after the change; for `DELETED` its final state, or the last known one.
        old: the object before the change; None for `ADDED`.
        final_state_unknown: whether a deletion was only concluded, from a list without the object
            or from a successor of the same name.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "SYNC"]
    key: str
    raw: bytes
    old: bytes | None = None
    final_state_unknown: bool = False

    def object(self) -> Object:
        """Return the object after the change, decoded for this caller alone."""
        decoded = _decode(self.raw)
        return DeletedFinalStateUnknown(self.key, decoded) if self.final_state_unknown else decoded

    def old_object(self) -> Object | None:
        """Return the object before the change, decoded for this caller alone; None if added."""
        return None if self.old is None else _decode(self.old)


@dataclass(frozen=True, slots=True)
class _Entry:
    uid: str
    resource_version: str
    raw: bytes
    indexed: Mapping[str, tuple[str, ...]]


class Store:
    """A thread-safe store of objects by key; every update returns its changes.

    Args:
        key_func: the key of an object.
    """

    def __init__(self, key_func: KeyFunc = meta_namespace_key_func) -> None:
        check_function("key_func", key_func)
        self._key_func = key_func
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._resource_version = ""

    @property
    def resource_version(self) -> str:
        """The newest resourceVersion that this store reflects; empty before the first."""
        return self._resource_version

    def add(self, obj: Mapping[str, Any], raw: bytes | None = None) -> Sequence[Delta]:
        """Add or replace an object.

        Args:
            obj: the object; with `raw` its `metadata` suffices.
            raw: the object's JSON; None to encode `obj`.

        Returns:
            The changes: none for a known version; a deletion and an addition if the former
            object has another UID.
        """
        key = self._key_func(obj)
        uid, version = _identity(obj)
        stored = bytes(raw) if raw is not None else _encode(obj)
        with self._lock:
            self._resource_version = version or self._resource_version
            return self._put(key, uid, version, stored)

    def update(self, obj: Mapping[str, Any], raw: bytes | None = None) -> Sequence[Delta]:
        """Add or replace an object; the same as `add`."""
        return self.add(obj, raw)

    def delete(self, obj: Mapping[str, Any], raw: bytes | None = None) -> Sequence[Delta]:
        """Remove an object; no-op if unknown, or if its key belongs to another UID.

        Args:
            obj: the object in its final state; with `raw` its `metadata` suffices.
            raw: the final state's JSON; None to encode `obj`.
        """
        tombstone = isinstance(obj, DeletedFinalStateUnknown)
        key = obj.key if isinstance(obj, DeletedFinalStateUnknown) else self._key_func(obj)
        uid, version = _identity(obj)
        with self._lock:
            if not tombstone:
                self._resource_version = version or self._resource_version
            entry = self._entries.get(key)
            if entry is None or (uid and entry.uid and uid != entry.uid):
                return ()
            self._drop(key)
        final = bytes(raw) if raw is not None else _encode(obj)
        return (Delta("DELETED", key, final, entry.raw, final_state_unknown=tombstone),)

    def replace(self, items: Iterable[Item], resource_version: str) -> Sequence[Delta]:
        """Replace all objects by `items`, atomically for readers.

        Args:
            items: the objects of a list.
            resource_version: the list's resourceVersion.

        Returns:
            The changes: first deletions, then additions and updates.
        """
        listed: dict[str, tuple[str, str, bytes]] = {}
        for item in items:
            listed[self._key_func(item.object)] = (*_identity(item.object), bytes(item.raw))
        deltas: list[Delta] = []
        with self._lock:
            for key in [key for key in self._entries if key not in listed]:
                last = self._drop(key).raw
                deltas.append(Delta("DELETED", key, last, last, final_state_unknown=True))
            for key, (uid, version, raw) in listed.items():
                deltas.extend(self._put(key, uid, version, raw))
            self._resource_version = resource_version
        return sorted(deltas, key=lambda delta: delta.type != "DELETED")

    def bookmark(self, resource_version: str) -> None:
        """Record that nothing has changed up to `resource_version`."""
        with self._lock:
            self._resource_version = resource_version

    def get(self, obj: Mapping[str, Any]) -> Object | None:
        """Return the stored object with the key of `obj`; None without one."""
        return self.get_by_key(deletion_handling_meta_namespace_key_func(obj))

    def get_by_key(self, key: str) -> Object | None:
        """Return the object with a key (`namespace/name`, or `name`); None without one."""
        check_instance("key", key, str, "use namespace/name, or name")
        entry = self._entries.get(key)
        return None if entry is None else _decode(entry.raw)

    def list(self, namespace: str | None = None) -> Objects:
        """Return all objects, or those of one namespace, in insertion order."""
        return [_decode(raw) for _, raw in self.raws(namespace)]

    def list_keys(self) -> Sequence[str]:
        """Return the keys of all objects."""
        with self._lock:
            return tuple(self._entries)

    def snapshot(self) -> Sequence[Delta]:
        """Return all objects as additions, for a late handler."""
        return [Delta("ADDED", key, raw) for key, raw in self.raws()]

    def resync(self) -> Sequence[Delta]:
        """Return all objects as resyncs, for a periodic resync."""
        return [Delta("SYNC", key, raw, raw) for key, raw in self.raws()]

    def raws(self, namespace: str | None = None) -> Sequence[tuple[str, bytes]]:
        """Return keys and JSON of all objects, or of one namespace's.

        Used to decode only some fields.
        """
        check_instance("namespace", namespace or "", str, "use a string, or None for all")
        prefix = f"{namespace}/" if namespace else ""
        with self._lock:
            return tuple(
                (key, entry.raw) for key, entry in self._entries.items() if key.startswith(prefix)
            )

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def _put(self, key: str, uid: str, version: str, raw: bytes) -> tuple[Delta, ...]:
        entry = self._entries.get(key)
        if entry is not None and entry.uid == uid:
            unchanged = version == entry.resource_version if version else raw == entry.raw
            if unchanged:
                return ()
            self._keep(key, uid, version, raw)
            return (Delta("MODIFIED", key, raw, entry.raw),)
        gone: tuple[Delta, ...] = ()
        if entry is not None:
            self._drop(key)
            gone = (Delta("DELETED", key, entry.raw, entry.raw, final_state_unknown=True),)
        self._keep(key, uid, version, raw)
        return (*gone, Delta("ADDED", key, raw))

    def _keep(self, key: str, uid: str, version: str, raw: bytes) -> None:
        self._entries[key] = _Entry(uid, version, raw, _NOT_INDEXED)

    def _drop(self, key: str) -> _Entry:
        return self._entries.pop(key)


class Indexer(Store):
    """A store that also finds objects by index functions.

    An index function that raises is logged with its traceback; its index then lacks the object,
    which is stored nevertheless. The index by namespace (`NAMESPACE_INDEX` with
    `meta_namespace_index_func`) is derived from the keys and needs no decoding.

    Args:
        key_func: the key of an object.
        indexers: index functions by name; each returns the values to find an object by.
    """

    def __init__(
        self, key_func: KeyFunc = meta_namespace_key_func, indexers: Indexers | None = None
    ) -> None:
        super().__init__(key_func)
        self._indexers: dict[str, IndexFunc] = _copy_indexers(indexers or {})
        self._indices: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._indexers}
        self._namespaces: dict[str, Mapping[str, tuple[str, ...]]] = {}

    def raws(self, namespace: str | None = None) -> Sequence[tuple[str, bytes]]:
        """Return keys and JSON of all objects, or of one namespace's by its index."""
        if not isinstance(namespace, str) or not namespace or not self._by_namespace():
            return super().raws(namespace)
        with self._lock:
            keys = self._indices[NAMESPACE_INDEX].get(namespace, ())
            return tuple((key, self._entries[key].raw) for key in keys)

    def add_indexers(self, indexers: Indexers) -> None:
        """Add index functions, also for existing objects.

        Raises:
            InvalidArgument: a name is taken; then none of them is added.
        """
        indexers = _copy_indexers(indexers)
        with self._lock:
            for name in indexers:
                if name in self._indexers:
                    raise InvalidArgument("index", name, "a name that is not taken yet")
            self._indexers.update(indexers)
            self._indices.update({name: {} for name in indexers})
            for key, entry in list(self._entries.items()):
                self._drop(key)
                self._keep(key, entry.uid, entry.resource_version, entry.raw)

    def get_indexers(self) -> Indexers:
        """Return the index functions by name."""
        with self._lock:
            return dict(self._indexers)

    def by_index(self, index_name: str, indexed_value: str) -> Objects:
        """Return the objects for which the index function returned this value."""
        with self._lock:
            keys = self._index(index_name).get(indexed_value, {})
            raws = [self._entries[key].raw for key in keys]
        return [_decode(raw) for raw in raws]

    def index(self, index_name: str, obj: Object) -> Objects:
        """Return the objects that share a value of the index with `obj`, each once."""
        check_instance("obj", obj, Mapping, "use an object as a mapping")
        with self._lock:
            index = self._index(index_name)
            values = tuple(self._indexers[index_name](obj))
            keys = dict.fromkeys(key for value in values for key in index.get(value, ()))
            raws = [self._entries[key].raw for key in keys]
        return [_decode(raw) for raw in raws]

    def index_keys(self, index_name: str, indexed_value: str) -> Sequence[str]:
        """Return the keys of the objects for which the index function returned this value."""
        with self._lock:
            return tuple(self._index(index_name).get(indexed_value, ()))

    def list_index_func_values(self, index_name: str) -> Sequence[str]:
        """Return the values of the index function for the present objects."""
        with self._lock:
            return tuple(self._index(index_name))

    def _index(self, name: str) -> dict[str, dict[str, None]]:
        if name not in self._indices:
            known = ", ".join(sorted(self._indices)) or "none, as this store has no index"
            raise InvalidArgument("index", name, f"one of: {known}")
        return self._indices[name]

    def _keep(self, key: str, uid: str, version: str, raw: bytes) -> None:
        indexed = self._indexed(key, raw)
        entry = self._entries.get(key)
        if entry is None or entry.indexed != indexed:
            if entry is not None:
                self._drop_from_indices(key)
            for name, values in indexed.items():
                for value in values:
                    self._indices[name].setdefault(value, {})[key] = None
        self._entries[key] = _Entry(uid, version, raw, indexed)

    def _drop(self, key: str) -> _Entry:
        self._drop_from_indices(key)
        return super()._drop(key)

    def _drop_from_indices(self, key: str) -> None:
        for name, values in self._entries[key].indexed.items():
            index = self._indices[name]
            for value in values:
                del index[value][key]
                if not index[value]:
                    del index[value]

    def _by_namespace(self) -> bool:
        return (
            self._indexers.get(NAMESPACE_INDEX) is meta_namespace_index_func
            and self._key_func is meta_namespace_key_func
        )

    def _indexed(self, key: str, raw: bytes) -> Mapping[str, tuple[str, ...]]:
        if not self._indexers:
            return _NOT_INDEXED
        if self._by_namespace():
            namespaced = self._namespaced(key.rpartition("/")[0])
            if len(self._indexers) == 1:
                return namespaced
            return {**self._index_values(key, raw), **namespaced}
        return self._index_values(key, raw)

    def _namespaced(self, namespace: str) -> Mapping[str, tuple[str, ...]]:
        """Return the entry of the index by namespace, one for all objects of the namespace."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = {NAMESPACE_INDEX: (namespace,)}
        return self._namespaces[namespace]

    def _index_values(self, key: str, raw: bytes) -> dict[str, tuple[str, ...]]:
        indexed = {}
        for name, function in self._indexers.items():
            if name == NAMESPACE_INDEX and self._by_namespace():
                continue
            try:
                indexed[name] = tuple(dict.fromkeys(function(_decode(raw))))
            except Exception:  # a user's function may raise anything; the cache must continue
                _logger.exception("Index function %r failed for %s", name, key)
                indexed[name] = ()
        return indexed


def _copy_indexers(indexers: Indexers) -> dict[str, IndexFunc]:
    check_instance("indexers", indexers, Mapping, "use a mapping of names to functions")
    for name, function in indexers.items():
        check_function(f"indexers[{name!r}]", function)
    return dict(indexers)


def _identity(obj: Mapping[str, Any]) -> tuple[str, str]:
    metadata = obj.get("metadata") or {}
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


class NamespaceLister:
    """Reads the objects of one namespace from a cache.

    Args:
        indexer: the cache.
        resource: its resource, for errors.
    """

    def __init__(self, indexer: Indexer, resource: Resource, namespace: str) -> None:
        _check_lister(indexer, resource)
        check_text("namespace", namespace)
        self._indexer = indexer
        self._resource = resource
        self._namespace = namespace

    def list(self, selector: Selector | None = None) -> list[Object]:
        """Return the namespace's objects that a label selector matches; all for None.

        With an index by namespace, as factories create it, only these objects are read.

        Raises:
            InvalidArgument: an invalid label selector.
        """
        return _select(self._indexer.raws(self._namespace), selector)

    def get(self, name: str) -> Object:
        """Return one object.

        Raises:
            ApiError: 404, it is not in the cache; no request is sent.
        """
        return _get(self._indexer, self._resource, f"{self._namespace}/{name}", name)


class Lister:
    """Reads the objects of a cache; each result is a copy.

    Args:
        indexer: the cache.
    """

    def __init__(self, indexer: Indexer, resource: Resource) -> None:
        _check_lister(indexer, resource)
        self._indexer = indexer
        self._resource = resource

    def list(self, selector: Selector | None = None) -> list[Object]:
        """Return the objects of all namespaces that a label selector matches; all for None.

        Raises:
            InvalidArgument: an invalid label selector.
        """
        return _select(self._indexer.raws(), selector)

    def get(self, name: str) -> Object:
        """Return one object by `namespace/name`, or by `name` if cluster-scoped.

        Raises:
            ApiError: 404, it is not in the cache; no request is sent.
        """
        return _get(self._indexer, self._resource, name, name)

    def by_namespace(self, namespace: str) -> NamespaceLister:
        """Return the lister of one namespace."""
        return NamespaceLister(self._indexer, self._resource, namespace)

    def pods(self, namespace: str) -> NamespaceLister:
        """Return the lister of one namespace; upstream's name for pods."""
        return self.by_namespace(namespace)


def _check_lister(indexer: object, resource: object) -> None:
    check_instance("indexer", indexer, Indexer, "use a cache.Indexer, as an informer's store")
    check_instance("resource", resource, Resource, "use a resource, as an informer's resource")


def _select(raws: Sequence[tuple[str, bytes]], selector: Selector | None) -> list[Object]:
    matches = compile_label_selector(selector)
    if not selector:
        return [decode_object(raw) for _, raw in raws]
    # Decoding only the labels costs a tenth of decoding a pod.
    return [
        decode_object(raw)
        for _, raw in raws
        if matches(get_labels(decode_object(raw, LabeledObject)))
    ]


def _get(indexer: Indexer, resource: Resource, key: str, name: str) -> Object:
    check_text("name", name)
    obj = indexer.get_by_key(key)
    if obj is None:
        # Source: apimachinery/pkg/api/errors, NewNotFound.
        raise ApiError(
            f'{resource.qualified} "{name}" not found in the cache', status=404, reason="NotFound"
        )
    return obj
