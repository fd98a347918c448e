from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.store import Change, Store, key_of


def obj(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def names(entries: list[Any]) -> list[str]:
    return [entry.obj["metadata"]["name"] for entry in entries]


def test_each_write_has_the_next_revision_of_one_counter() -> None:
    store = Store()
    first = store.put("pods", "n/a", obj("a"))
    second = store.put("jobs.batch", "n/b", obj("b"))
    assert second.revision == first.revision + 1
    assert second.obj["metadata"]["resourceVersion"] == str(second.revision)


def test_lists_are_ordered_by_namespace_and_name_and_cut_at_the_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "c")):
        store.put("pods", key_of(name, namespace), obj(name))
    assert names(store.entries("pods")) == ["y", "c", "z", "x"]
    assert names(store.entries("pods", "a")) == ["c", "z"]
    assert names(store.entries("pods", "zz")) == []


def test_an_object_is_encoded_once() -> None:
    entry = Store().put("pods", "n/a", obj("a"))
    assert entry.raw is entry.raw
    assert entry.raw == b'{"metadata":{"name":"a","resourceVersion":"2"}}'


def test_earlier_states_are_rebuilt_from_the_changes_since() -> None:
    store = Store()
    store.put("pods", "n/a", obj("a", spec=1))
    store.put("pods", "n/b", obj("b"))
    then = store.revision
    store.put("pods", "n/a", obj("a", spec=2))
    store.remove("pods", "n/b")
    store.put("pods", "n/c", obj("c"))
    before = store.entries_at("pods", then)
    assert names(before) == ["a", "b"]
    assert before[0].obj["spec"] == 1
    assert names(store.entries("pods")) == ["a", "c"]


def test_a_deletion_carries_the_last_state_under_its_own_revision() -> None:
    store = Store()
    store.put("pods", "n/a", obj("a", spec=1))
    removed = store.remove("pods", "n/a")
    assert removed.obj == obj("a", spec=1) | {
        "metadata": {"name": "a", "resourceVersion": str(store.revision)}
    }


def test_changes_after_a_revision_come_oldest_first() -> None:
    store = Store()
    store.put("pods", "n/a", obj("a"))
    start = store.revision
    store.put("pods", "n/a", obj("a"))
    store.remove("pods", "n/a")
    store.put("pods", "n/b", obj("b"))
    assert [change.type for change in store.since("pods", start)] == [
        "MODIFIED",
        "DELETED",
        "ADDED",
    ]


def test_watch_from_a_dropped_revision_is_refused() -> None:
    store = Store(history=2)
    for number in range(4):
        store.put("pods", f"n/{number}", obj(str(number)))
    assert len(list(store.since("pods", 3))) == 2
    with pytest.raises(StatusError) as refused:
        store.since("pods", 2)
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert refused.value.message == "too old resource version: 2 (3)"
    with pytest.raises(StatusError, match="provided list is too old"):
        store.entries_at("pods", 2)


def test_the_start_of_the_server_is_no_history() -> None:
    store = Store()
    store.put("pods", "n/a", obj("a"))
    store.forget_history()
    with pytest.raises(StatusError, match=r"too old resource version: 1 \(2\)"):
        store.since("nodes", 1)
    assert list(store.since("pods", 2)) == []


def test_everyone_sees_changes_in_their_order_even_those_made_meanwhile() -> None:
    store = Store()
    seen: dict[str, list[int]] = {"first": [], "second": []}

    def first(change: Change) -> None:
        seen["first"].append(change.revision)
        if change.new.key == "n/a":
            store.put("pods", "n/b", obj("b"))

    store.watch("pods", first)
    store.watch("pods", lambda change: seen["second"].append(change.revision))
    store.put("pods", "n/a", obj("a"))
    assert seen == {"first": [2, 3], "second": [2, 3]}


def test_a_watcher_that_stopped_is_not_called() -> None:
    store = Store()
    seen: list[Change] = []
    stop = store.watch("pods", seen.append)
    stop()
    stop()
    store.put("pods", "n/a", obj("a"))
    assert seen == []


def test_a_watcher_of_a_namespace_sees_its_changes_alone() -> None:
    store = Store()
    seen: list[str] = []
    stop = store.watch("pods", lambda change: seen.append(change.new.key), "n")
    assert store.watchers("pods") == 1
    for key in ("n/a", "m/a", "nn/a"):
        store.put("pods", key, obj("a"))
    store.remove("pods", "n/a")
    stop()
    store.put("pods", "n/b", obj("b"))
    assert seen == ["n/a", "n/a"]
    assert store.watchers("pods") == 0


def test_objects_are_read_again_from_what_was_written() -> None:
    store = Store()
    written = obj("a", spec={})
    first = store.put("things.example.com", "a", {**written, "spec": {"b": 1}}, written)
    assert first.raw == b'{"metadata":{"name":"a","resourceVersion":"2"},"spec":{"b":1}}'
    store.put("things.example.com", "a", obj("a", spec={"c": 1}))
    seen: list[Change] = []
    store.watch("things.example.com", seen.append)

    store.read_again("things.example.com", lambda one: {**one, "spec": {**one["spec"], "d": 2}})

    latest = store.get("things.example.com", "a")
    assert latest is not None
    assert latest.obj["spec"] == {"c": 1, "d": 2}
    assert first.obj["spec"] == {"d": 2}
    assert first.raw == b'{"metadata":{"name":"a","resourceVersion":"2"},"spec":{"d":2}}'
    assert store.revision == 3
    assert seen == []
