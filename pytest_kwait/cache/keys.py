"""Keys: how a store tells objects apart, and how it groups them by namespace.

Ported from client-go `tools/cache` (store.go, index.go, delta_fifo.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pytest_kwait.errors import InvalidArgument

__all__ = [
    "NAMESPACE_INDEX",
    "DeletedFinalStateUnknown",
    "KeyFunc",
    "deletion_handling_meta_namespace_key_func",
    "meta_namespace_index_func",
    "meta_namespace_key_func",
    "split_meta_namespace_key",
]

KeyFunc: TypeAlias = Callable[[Mapping[str, Any]], str]

NAMESPACE_INDEX = "namespace"
"""The name under which an index by namespace is usually kept (see `meta_namespace_index_func`)."""


class DeletedFinalStateUnknown(dict[str, Any]):
    """The last state known of an object whose deletion was seen only because a list lacked it.

    It reads like the object itself; a handler that must know the difference asks `isinstance`.

    Args:
        key: the object's key.
        last_known: the state in which it was last seen, perhaps an old one.
    """

    def __init__(self, key: str, last_known: Mapping[str, Any]) -> None:
        super().__init__(last_known)
        self.key = key


def meta_namespace_key_func(obj: Mapping[str, Any]) -> str:
    """Return `namespace/name` of an object, or `name` alone where it has no namespace.

    Raises:
        InvalidArgument: the object has no `metadata.name`.
    """
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not name:
        raise InvalidArgument("object", dict(obj), "an object with metadata.name")
    namespace = metadata.get("namespace")
    return f"{namespace}/{name}" if namespace else str(name)


def deletion_handling_meta_namespace_key_func(obj: Mapping[str, Any]) -> str:
    """Return the key of an object, also of one that is only known to be gone."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    return meta_namespace_key_func(obj)


def split_meta_namespace_key(key: str) -> tuple[str, str]:
    """Return namespace and name of a key; the namespace is empty where the key has none.

    Raises:
        InvalidArgument: the key has more than one slash.
    """
    parts = key.split("/")
    if len(parts) == 1:
        return "", parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InvalidArgument("key", key, "namespace/name, or name alone")


def meta_namespace_index_func(obj: Mapping[str, Any]) -> Iterable[str]:
    """Index by namespace: one value, empty for what has no namespace."""
    return (obj.get("metadata", {}).get("namespace") or "",)
