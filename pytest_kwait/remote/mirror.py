"""A mirror of the objects of a real API server in a store, under the server's revisions.

The same object arrives by the answers to our writes, by lists and by watches, in any order: only
what is newer is a change. A deletion that was answered is final, whatever a list or watch that was
requested before it still reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import name_of, namespace_of, uid_of
from pytest_kwait.simulator.store import key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.store import Store


class Mirror:
    """The mirrored objects; one thread may use it, apart from `deletions`.

    Args:
        store: the store to keep up to date.
    """

    def __init__(self, store: Store) -> None:
        self.deletions = 0
        """The number of answered deletions so far; any thread may read it."""
        self._store = store
        self._deleted: dict[str, tuple[str, int]] = {}
        """The resources and numbers of answered deletions that no watch has reported, by UID."""

    def set(self, resource: str, obj: Obj) -> Obj:
        """Store an object if it is newer than the present one; return the present one."""
        uid, key, revision = uid_of(obj), _key(obj), _revision(obj)
        if uid in self._deleted:
            return obj
        old = self._store.get(resource, key)
        if old is not None and old.revision >= revision:
            return old.obj
        if old is not None and uid_of(old.obj) != uid:
            self._store.remove_copy(resource, key, old.obj, revision)
        self._store.put_copy(resource, key, obj, revision)
        return obj

    def discard_deleted(self, resource: str, obj: Obj) -> None:
        """Remove an object whose deletion was answered, with its last state."""
        if uid_of(obj) not in self._deleted and self._remove(resource, obj):
            self.deletions += 1
            self._deleted[uid_of(obj)] = resource, self.deletions

    def discard_watched(self, resource: str, obj: Obj) -> None:
        """Remove an object whose deletion a watch has reported, with its last state."""
        self._deleted.pop(uid_of(obj), None)
        self._remove(resource, obj)

    def replace(
        self, resource: str, objects: Sequence[Obj], resource_version: str, deletions: int
    ) -> None:
        """Store the objects of a list, and remove all others of the resource that are older.

        Args:
            resource_version: the version of the list.
            deletions: `deletions` when the list was requested; it has seen those.
        """
        for uid, (place, number) in [*self._deleted.items()]:
            if place == resource and number <= deletions:
                del self._deleted[uid]
        listed = {_key(obj) for obj in objects}
        for entry in self._store.entries(resource):
            if entry.key not in listed and entry.revision <= int(resource_version):
                self._remove(resource, entry.obj)
        for obj in objects:
            self.set(resource, obj)

    def clear(self, resource: str) -> None:
        """Remove all objects of a resource that is no longer served."""
        for uid, (place, _) in [*self._deleted.items()]:
            if place == resource:
                del self._deleted[uid]
        for entry in self._store.entries(resource):
            self._remove(resource, entry.obj)

    def _remove(self, resource: str, obj: Obj) -> bool:
        """Remove an object; return whether it was there."""
        stored_entry = self._store.get(resource, _key(obj))
        if stored_entry is None or uid_of(stored_entry.obj) != uid_of(obj):
            return False
        revision = max(stored_entry.revision, _revision(obj))
        self._store.remove_copy(resource, stored_entry.key, obj, revision)
        return True


def _key(obj: Obj) -> str:
    return key_of(name_of(obj), namespace_of(obj))


def _revision(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])
