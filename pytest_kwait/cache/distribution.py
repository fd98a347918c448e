"""What a reflector brings, on its way into a store and to handlers: whole, and transformed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import msgspec

from pytest_kwait.cache.keys import DeletedFinalStateUnknown, meta_namespace_key_func
from pytest_kwait.cache.transform import TransformError, apply_transform

if TYPE_CHECKING:
    from pytest_kwait.cache.store import Delta, Indexer, Listed
    from pytest_kwait.cache.transform import TransformFunc
    from pytest_kwait.client.resource import Resource

__all__ = ["ApplyChange", "DeltaProcessor", "ObjectMetadata"]

_logger = logging.getLogger("pytest_kwait.cache")


class _ObjectMetadataFields(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class ObjectMetadata(TypedDict, total=False):
    """The fields by which a store knows an object: all that is decoded of what nobody looks at."""

    kind: str
    metadata: _ObjectMetadataFields


class ApplyChange(Protocol):
    """Changes a store and tells of it in one step."""

    def __call__(self, apply: Callable[[Indexer], Sequence[Delta]], listed: bool) -> None:
        """Call `apply` with the store and tell of what it returns; `listed` after a list."""
        ...


@dataclass(frozen=True, slots=True)
class _TransformedObject:
    """A listed object as it is to be stored."""

    object: Mapping[str, Any]
    raw: bytes


class DeltaProcessor:
    """The reflector's side of an informer.

    Args:
        resource: what is listed.
        store: where objects are kept.
        change: how the store is changed.
        transform: what is made of each object before; None for nothing.
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
        # The items of a list of a built-in kind do not say their type: the list says it for all.
        type_meta = {"apiVersion": resource.api_version, "kind": resource.kind}
        self._type = msgspec.json.encode(type_meta)[:-1] + b","

    def replace(self, items: Iterable[Listed], resource_version: str) -> None:
        """Take in a list; where it is a `list`, what comes of its items takes their places.

        Raises:
            TransformError: an object cannot be transformed; the store stays as it was.
        """
        whole = items if isinstance(items, list) else list(items)
        whole[:] = [item for item in whole if _has_name(item.object)]
        for place, item in enumerate(whole):
            # Each goes as its successor comes: both lists at once would be twice the memory, and
            # the process keeps what it has had.
            whole[place] = self._whole(item)
        self._change(lambda store: store.replace(whole, resource_version), listed=True)

    def add(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Take in an object that has come."""
        self.update(obj, raw)

    def update(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Take in an object that has changed."""
        if not _has_name(obj):
            return
        try:
            kept = self._kept(obj, raw)
        except TransformError:
            # As upstream: the watch goes on, and the store with the state before.
            _logger.exception("Unable to take a watched change into the store")
        else:
            self._change(lambda store: store.update(obj, kept), listed=False)

    def delete(self, obj: Mapping[str, Any], raw: bytes) -> None:
        """Let go of an object."""
        if not _has_name(obj):
            return
        try:
            kept = self._kept(obj, raw)
        except TransformError:
            # It is gone whatever it looked like; handlers are told the last state that was kept.
            _logger.exception("Unable to tell the final state of what was deleted")
            key = meta_namespace_key_func(obj)
            last = DeletedFinalStateUnknown(key, self._store.get_by_key(key) or {})
            self._change(lambda store: store.delete(last), listed=False)
        else:
            self._change(lambda store: store.delete(obj, kept), listed=False)

    def bookmark(self, resource_version: str) -> None:
        """Note that nothing else has changed."""
        self._store.bookmark(resource_version)

    def _whole(self, item: Listed) -> Listed:
        raw = item.raw
        if not item.object.get("kind"):
            raw = self._type + raw.lstrip()[1:]
        elif self.transform is None:
            return item
        return _TransformedObject(item.object, self._kept(item.object, raw))

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
