from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.remote.mirror import Mirror
from pytest_kwait.simulator.store import Store

if TYPE_CHECKING:
    from pytest_kwait.simulator.store import Change

Obj = dict[str, Any]
_MAPS = "configmaps"


def _map(revision: int, name: str = "a", uid: str = "1") -> Obj:
    return {
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": str(revision),
        }
    }  # fmt: skip


class Mirrored:
    """A store and the changes that its followers see."""

    def __init__(self) -> None:
        self.store = Store()
        self.mirror = Mirror(self.store)
        self.changes: list[tuple[str, str, int]] = []
        self.store.watch(_MAPS, self._note)

    def _note(self, change: Change) -> None:
        self.changes.append((change.type, change.new.obj["metadata"]["name"], change.revision))


@pytest.fixture
def mirrored() -> Mirrored:
    return Mirrored()


def test_only_newer_objects_are_changes(mirrored: Mirrored) -> None:
    store, mirror = mirrored.store, mirrored.mirror
    newest = _map(7)
    assert mirror.set(_MAPS, _map(5)) == _map(5)
    assert mirror.set(_MAPS, newest) is newest
    assert mirror.set(_MAPS, _map(6)) is newest
    assert mirror.set(_MAPS, _map(7)) is newest
    assert mirrored.changes == [("ADDED", "a", 5), ("MODIFIED", "a", 7)]
    assert store.revision == 7


def test_an_answered_deletion_is_final(mirrored: Mirrored) -> None:
    store, mirror = mirrored.store, mirrored.mirror
    mirror.set(_MAPS, _map(5))
    mirror.discard_deleted(_MAPS, _map(5))
    mirror.set(_MAPS, _map(6))  # a watch is behind
    mirror.discard_watched(_MAPS, _map(7))
    mirror.discard_deleted(_MAPS, _map(7))
    assert mirrored.changes == [("ADDED", "a", 5), ("DELETED", "a", 5)]
    mirror.set(_MAPS, _map(9, uid="2"))
    assert mirrored.changes[2:] == [("ADDED", "a", 9)]
    assert store.entries(_MAPS, "default")[0].revision == 9


def test_an_object_of_the_same_name_replaces_a_deleted_one(mirrored: Mirrored) -> None:
    store, mirror = mirrored.store, mirrored.mirror
    mirror.set(_MAPS, _map(5))
    mirror.set(_MAPS, _map(8, uid="2"))
    mirror.discard_watched(_MAPS, _map(7))  # the deletion of the first one
    assert mirrored.changes == [("ADDED", "a", 5), ("DELETED", "a", 8), ("ADDED", "a", 8)]
    assert store.count(_MAPS) == 1


def test_a_list_replaces_what_is_there(mirrored: Mirrored) -> None:
    mirror = mirrored.mirror
    for name in ("a", "b", "c"):
        mirror.set(_MAPS, _map(5, name, uid=name))
    mirror.discard_deleted(_MAPS, _map(5, "c", uid="c"))
    del mirrored.changes[:]
    mirror.replace(_MAPS, [_map(5, "a", uid="a"), _map(9, "d", uid="d")], "9", mirror.deletions)
    assert mirrored.changes == [("DELETED", "b", 5), ("ADDED", "d", 9)]


def test_a_list_knows_nothing_of_writes_after_its_request(mirrored: Mirrored) -> None:
    store, mirror = mirrored.store, mirrored.mirror
    for name in ("a", "b"):
        mirror.set(_MAPS, _map(5, name, uid=name))
    deletions = mirror.deletions
    mirror.discard_deleted(_MAPS, _map(8, "a", uid="a"))
    mirror.set(_MAPS, _map(9, "new", uid="new"))
    del mirrored.changes[:]
    mirror.replace(_MAPS, [_map(5, "a", uid="a"), _map(5, "b", uid="b")], "7", deletions)
    assert mirrored.changes == []
    assert [entry.key for entry in store.entries(_MAPS)] == ["default/b", "default/new"]
    # The next one knows them.
    mirror.replace(_MAPS, [_map(10, "a", uid="a")], "10", mirror.deletions)
    assert mirrored.changes == [("DELETED", "b", 5), ("DELETED", "new", 9), ("ADDED", "a", 10)]


def test_what_is_no_longer_served_leaves_nothing(mirrored: Mirrored) -> None:
    store, mirror = mirrored.store, mirrored.mirror
    for name in ("a", "b"):
        mirror.set(_MAPS, _map(5, name, uid=name))
    mirror.set("secrets", _map(6, "kept", uid="kept"))
    mirror.discard_deleted(_MAPS, _map(5, "a", uid="a"))
    mirror.discard_deleted("secrets", _map(6, "kept", uid="kept"))
    mirror.clear(_MAPS)
    assert store.count(_MAPS) == 0
    mirror.set(_MAPS, _map(7, "a", uid="a"))  # it is served again, with the objects it had
    mirror.set("secrets", _map(7, "kept", uid="kept"))  # a watch is behind
    assert (store.count(_MAPS), store.count("secrets")) == (1, 0)
