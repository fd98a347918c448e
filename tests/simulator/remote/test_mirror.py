from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.remote.mirror import MirrorReflector, MirrorStore, collection_path
from pytest_kwait.simulator.scheme import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.remote.connection import Connection
    from pytest_kwait.simulator.store import Change
    from tests.simulator.apiserver.conftest import Served

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
        self.store = MirrorStore()
        self.changes: list[tuple[str, str, int]] = []
        self.store.watch(_MAPS, self._note)

    def _note(self, change: Change) -> None:
        self.changes.append((change.type, change.new.obj["metadata"]["name"], change.revision))


@pytest.fixture
def mirrored() -> Mirrored:
    return Mirrored()


def test_paths_of_kinds() -> None:
    kinds = Scheme()
    assert collection_path(kinds["pods"], "default") == "/api/v1/namespaces/default/pods"
    assert collection_path(kinds["jobs.batch"]) == "/apis/batch/v1/jobs"
    assert collection_path(kinds["nodes"], "ignored") == "/api/v1/nodes"


def test_only_newer_objects_are_changes(mirrored: Mirrored) -> None:
    store = mirrored.store
    newest = _map(7)
    assert store.set(_MAPS, _map(5)) == _map(5)
    assert store.set(_MAPS, newest) is newest
    assert store.set(_MAPS, _map(6)) is newest
    assert store.set(_MAPS, _map(7)) is newest
    assert mirrored.changes == [("ADDED", "a", 5), ("MODIFIED", "a", 7)]
    assert store.revision == 7


def test_an_answered_deletion_is_final(mirrored: Mirrored) -> None:
    store = mirrored.store
    store.set(_MAPS, _map(5))
    store.discard_deleted(_MAPS, _map(5))
    store.set(_MAPS, _map(6))  # a watch is behind
    store.discard_watched(_MAPS, _map(7))
    store.discard_deleted(_MAPS, _map(7))
    assert mirrored.changes == [("ADDED", "a", 5), ("DELETED", "a", 5)]
    store.set(_MAPS, _map(9, uid="2"))
    assert mirrored.changes[2:] == [("ADDED", "a", 9)]
    assert store.entries(_MAPS, "default")[0].revision == 9


def test_an_object_of_the_same_name_replaces_a_deleted_one(mirrored: Mirrored) -> None:
    store = mirrored.store
    store.set(_MAPS, _map(5))
    store.set(_MAPS, _map(8, uid="2"))
    store.discard_watched(_MAPS, _map(7))  # the deletion of the first one
    assert mirrored.changes == [("ADDED", "a", 5), ("DELETED", "a", 8), ("ADDED", "a", 8)]
    assert store.count(_MAPS) == 1


def test_a_list_replaces_what_is_there(mirrored: Mirrored) -> None:
    store = mirrored.store
    for name in ("a", "b", "c"):
        store.set(_MAPS, _map(5, name, uid=name))
    store.discard_deleted(_MAPS, _map(5, "c", uid="c"))
    del mirrored.changes[:]
    store.replace(_MAPS, [_map(5, "a", uid="a"), _map(9, "d", uid="d")])
    assert mirrored.changes == [("DELETED", "b", 5), ("ADDED", "d", 9)]


def _follow(
    connection: Connection, mirrored: Mirrored, act: Callable[[MirrorReflector], int], wanted: int
) -> None:
    """Let a reflector run until there are so many changes."""

    async def run() -> None:
        enough = asyncio.Event()

        def note(_: Change) -> None:
            if len(mirrored.changes) >= wanted:
                enough.set()

        mirrored.store.watch(_MAPS, note)
        reflector = MirrorReflector(connection, mirrored.store, Scheme()[_MAPS])
        act(reflector)
        reflector.start()
        try:
            await asyncio.wait_for(enough.wait(), 10)
        finally:
            reflector.stop()
            await connection.close()

    asyncio.run(run())


def test_a_reflector_lists_and_follows(
    connection: Connection, served: Served, mirrored: Mirrored
) -> None:
    def create(name: str) -> int:
        made = served.run(lambda: served.api.create(_MAPS, {"metadata": {"name": name}}, "default"))
        return int(made["metadata"]["resourceVersion"])

    def act(reflector: MirrorReflector) -> int:
        reflector.list()
        create("b")
        served.run(lambda: served.api.delete(_MAPS, "a", "default"))
        return 0

    create("a")
    _follow(connection, mirrored, act, 3)
    assert [change[:2] for change in mirrored.changes] == [
        ("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"),
    ]  # fmt: skip
    (entry,) = mirrored.store.entries(_MAPS)
    assert (entry.obj["apiVersion"], entry.obj["kind"]) == ("v1", "ConfigMap")


def test_a_reflector_lists_again_when_its_revision_is_too_old(
    connection: Connection, served: Served, mirrored: Mirrored
) -> None:
    def act(reflector: MirrorReflector) -> int:
        reflector.list()

        def change() -> None:
            served.api.create(_MAPS, {"metadata": {"name": "b"}}, "default")
            served.api.store.forget_history()

        served.run(change)
        return 0

    _follow(connection, mirrored, act, 1)
    assert [change[:2] for change in mirrored.changes] == [("ADDED", "b")]


def test_a_reflector_without_a_list_begins_with_one(
    connection: Connection, served: Served, mirrored: Mirrored
) -> None:
    served.run(lambda: served.api.create(_MAPS, {"metadata": {"name": "a"}}, "default"))
    _follow(connection, mirrored, lambda _: 0, 1)
    assert [change[:2] for change in mirrored.changes] == [("ADDED", "a")]
