"""Upstream's tests of stores and indexers, and what the identity by UID adds."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache
from pytest_kwait.errors import InvalidArgument
from tests.cache.fakes import item, pod_at, raw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.cache import Delta


def test_key_is_namespace_and_name() -> None:
    assert cache.meta_namespace_key_func(pod_at("a", namespace="ci")) == "ci/a"


def test_key_without_namespace_is_the_name() -> None:
    assert cache.meta_namespace_key_func({"metadata": {"name": "node-1"}}) == "node-1"


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"namespace": "ci"}}])
def test_object_without_name_has_no_key(obj: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.meta_namespace_key_func(obj)
    assert str(caught.value) == f"object={obj!r} is not valid: an object with metadata.name"


@pytest.mark.parametrize(
    ("key", "parts"), [("ci/a", ("ci", "a")), ("node-1", ("", "node-1")), ("/a", ("", "a"))]
)
def test_key_splits_into_namespace_and_name(key: str, parts: tuple[str, str]) -> None:
    assert cache.split_meta_namespace_key(key) == parts


def test_key_with_two_slashes_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.split_meta_namespace_key("a/b/c")
    assert str(caught.value) == "key='a/b/c' is not valid: namespace/name, or name alone"


def test_tombstone_reads_like_its_object_and_keeps_its_key() -> None:
    gone = cache.DeletedFinalStateUnknown("ci/a", pod_at("a", 3, namespace="ci"))

    assert gone["metadata"]["resourceVersion"] == "3"
    assert cache.deletion_handling_meta_namespace_key_func(gone) == "ci/a"
    assert cache.deletion_handling_meta_namespace_key_func(pod_at("b")) == "default/b"


def test_namespace_index_has_one_value() -> None:
    assert list(cache.meta_namespace_index_func(pod_at("a", namespace="ci"))) == ["ci"]
    assert list(cache.meta_namespace_index_func({"metadata": {"name": "node-1"}})) == [""]


def told(deltas: Sequence[Delta]) -> list[tuple[str, str]]:
    return [(delta.type, delta.key) for delta in deltas]


def test_store_gives_back_what_it_was_given() -> None:
    store = cache.Store()

    store.add(pod_at("a", 1))
    store.add(pod_at("b", 2, namespace="ci"))

    assert store.get_by_key("default/a") == pod_at("a", 1)
    assert store.get(pod_at("b", namespace="ci")) == pod_at("b", 2, namespace="ci")
    assert store.list() == [pod_at("a", 1), pod_at("b", 2, namespace="ci")]
    assert store.list("ci") == [pod_at("b", 2, namespace="ci")]
    assert store.list_keys() == ("default/a", "ci/b")
    assert len(store) == 2
    assert "ci/b" in store


def test_unknown_key_gives_none() -> None:
    store = cache.Store()

    assert store.get_by_key("default/a") is None
    assert store.get(pod_at("a")) is None
    assert "default/a" not in store


def test_store_tells_what_changed() -> None:
    store = cache.Store()

    added = store.add(pod_at("a", 1))
    updated = store.update(pod_at("a", 2))
    deleted = store.delete(pod_at("a", 3))

    assert told([*added, *updated, *deleted]) == [
        ("ADDED", "default/a"),
        ("MODIFIED", "default/a"),
        ("DELETED", "default/a"),
    ]
    assert (updated[0].old_object(), updated[0].object()) == (pod_at("a", 1), pod_at("a", 2))
    assert (deleted[0].old_object(), deleted[0].object()) == (pod_at("a", 2), pod_at("a", 3))
    assert added[0].old_object() is None
    assert len(store) == 0


def test_same_version_again_is_no_change() -> None:
    store = cache.Store()
    store.add(pod_at("a", 1))

    assert store.add(pod_at("a", 1)) == ()
    assert store.update(pod_at("a", 1)) == ()


def test_object_without_version_changes_with_its_content() -> None:
    store = cache.Store()
    store.add({"metadata": {"name": "cpu"}, "usage": 1})

    assert store.update({"metadata": {"name": "cpu"}, "usage": 1}) == ()
    assert told(store.update({"metadata": {"name": "cpu"}, "usage": 2})) == [("MODIFIED", "cpu")]


def test_another_uid_is_another_object() -> None:
    store = cache.Store()
    store.add(pod_at("a", 1, uid="first"))

    deltas = store.update(pod_at("a", 5, uid="second"))

    assert told(deltas) == [("DELETED", "default/a"), ("ADDED", "default/a")]
    gone = deltas[0].object()
    assert isinstance(gone, cache.DeletedFinalStateUnknown)
    assert gone == pod_at("a", 1, uid="first")
    assert store.list() == [pod_at("a", 5, uid="second")]


def test_late_deletion_of_a_predecessor_leaves_the_successor() -> None:
    store = cache.Store()
    store.add(pod_at("a", 5, uid="second"))

    assert store.delete(pod_at("a", 2, uid="first")) == ()
    assert store.list() == [pod_at("a", 5, uid="second")]


def test_deleting_what_is_unknown_is_no_change() -> None:
    assert cache.Store().delete(pod_at("a")) == ()


def test_tombstone_deletes_by_its_key() -> None:
    store = cache.Store()
    store.add(pod_at("a", 1))

    deltas = store.delete(cache.DeletedFinalStateUnknown("default/a", pod_at("a", 1)))

    assert told(deltas) == [("DELETED", "default/a")]
    assert isinstance(deltas[0].object(), cache.DeletedFinalStateUnknown)


def test_replace_tells_only_what_differs_deletions_first() -> None:
    store = cache.Store()
    for obj in (
        pod_at("same", 1),
        pod_at("changed", 2),
        pod_at("gone", 3),
        pod_at("anew", 4, uid="first"),
    ):
        store.add(obj)

    deltas = store.replace(
        [
            item(pod_at("new", 7)),
            item(pod_at("same", 1)),
            item(pod_at("changed", 5)),
            item(pod_at("anew", 6, uid="second")),
        ],
        "8",
    )

    assert told(deltas) == [
        ("DELETED", "default/gone"),
        ("DELETED", "default/anew"),
        ("ADDED", "default/new"),
        ("MODIFIED", "default/changed"),
        ("ADDED", "default/anew"),
    ]
    assert isinstance(deltas[0].object(), cache.DeletedFinalStateUnknown)
    assert sorted(store.list_keys()) == [
        "default/anew",
        "default/changed",
        "default/new",
        "default/same",
    ]


def test_resource_version_follows_objects_lists_and_bookmarks() -> None:
    store = cache.Store()
    seen = [store.resource_version]
    store.replace([item(pod_at("a", 3))], "10")
    seen.append(store.resource_version)
    store.update(pod_at("a", 11))
    seen.append(store.resource_version)
    store.bookmark("15")
    seen.append(store.resource_version)
    store.delete(pod_at("a", 16))
    seen.append(store.resource_version)

    assert seen == ["", "10", "11", "15", "16"]


def test_nobody_can_change_what_others_see() -> None:
    store = cache.Store()
    given = pod_at("a", 1, status={"phase": "Pending"})
    [delta] = store.add(given)

    given["status"]["phase"] = "Failed"
    store.list()[0]["status"]["phase"] = "Running"
    delta.object()["status"]["phase"] = "Unknown"

    assert store.get(given) == pod_at("a", 1, status={"phase": "Pending"})


def test_raw_json_is_kept_as_it_came_though_less_was_decoded() -> None:
    store = cache.Store()
    whole = pod_at("a", 1, spec={"nodeName": "n"})

    store.add({"metadata": whole["metadata"]}, raw(whole))

    assert store.list() == [whole]
    assert store.raws() == (("default/a", raw(whole)),)


def by_label(obj: dict[str, Any]) -> Iterable[str]:
    return tuple(obj["labels"])


def labelled(name: str, *labels: str, version: int = 1) -> dict[str, Any]:
    return pod_at(name, version, labels=list(labels))


def test_index_finds_objects_by_every_value() -> None:
    store = cache.Indexer(indexers={"label": by_label})
    store.add(labelled("a", "x", "y"))
    store.add(labelled("b", "y"))

    assert store.by_index("label", "x") == [labelled("a", "x", "y")]
    assert store.index_keys("label", "y") == ("default/a", "default/b")
    assert store.index_keys("label", "z") == ()
    assert store.list_index_func_values("label") == ("x", "y")
    assert store.index("label", labelled("c", "y", "x")) == [
        labelled("a", "x", "y"),
        labelled("b", "y"),
    ]


def test_index_follows_updates_and_drops_empty_values() -> None:
    store = cache.Indexer(indexers={"label": by_label})
    store.add(labelled("a", "x"))
    store.add(labelled("b", "x"))

    store.update(labelled("a", "y", version=2))
    assert store.index_keys("label", "x") == ("default/b",)
    store.delete(labelled("b", "x"))
    assert store.list_index_func_values("label") == ("y",)
    store.replace([], "9")
    assert store.list_index_func_values("label") == ()


def test_added_index_covers_what_is_there() -> None:
    store = cache.Indexer()
    store.add(labelled("a", "x"))

    store.add_indexers({cache.NAMESPACE_INDEX: cache.meta_namespace_index_func, "label": by_label})

    assert store.index_keys("namespace", "default") == ("default/a",)
    assert store.index_keys("label", "x") == ("default/a",)
    assert set(store.get_indexers()) == {"namespace", "label"}


def test_taken_index_name_is_refused() -> None:
    store = cache.Indexer(indexers={"label": by_label})

    with pytest.raises(InvalidArgument) as caught:
        store.add_indexers({"other": by_label, "label": by_label})

    assert str(caught.value) == "index='label' is not valid: a name that is not taken yet"
    assert set(store.get_indexers()) == {"label"}


@pytest.mark.parametrize(
    ("indexers", "valid"),
    [
        ({}, "one of: none, as this store has no index"),
        ({"label": by_label, "kind": by_label}, "one of: kind, label"),
    ],
)
def test_unknown_index_names_the_known_ones(indexers: dict[str, Any], valid: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cache.Indexer(indexers=indexers).by_index("colour", "red")
    assert str(caught.value) == f"index='colour' is not valid: {valid}"


def test_index_function_that_raises_is_logged_and_leaves_the_object_in_the_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = cache.Indexer(indexers={"label": by_label})

    with caplog.at_level(logging.ERROR, "pytest_kwait.cache"):
        store.add(pod_at("a"))

    assert store.list_keys() == ("default/a",)
    assert store.list_index_func_values("label") == ()
    assert caplog.messages == ["Index function 'label' failed for default/a"]
    assert caplog.records[0].exc_info is not None
    traceback = caplog.records[0].exc_text or ""
    assert traceback.startswith("Traceback (most recent call last):\n  File ")
    # Marks take a parser, which threads cannot use at the same time.
    assert not set(traceback) & {"~", "^"}


def test_index_function_cannot_change_the_object() -> None:
    def spoil(obj: dict[str, Any]) -> Iterable[str]:
        obj.clear()
        return ("spoilt",)

    store = cache.Indexer(indexers={"spoil": spoil})
    store.add(pod_at("a"))

    assert store.by_index("spoil", "spoilt") == [pod_at("a")]


def calls_of_an_update(size: int) -> int:
    store = cache.Indexer(
        indexers={"label": by_label, cache.NAMESPACE_INDEX: cache.meta_namespace_index_func}
    )
    store.replace([item(labelled(f"p{number}", "x")) for number in range(size)], "10")
    changed = labelled("p1", "x", version=11)
    encoded = raw(changed)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        store.update(changed, encoded)
    finally:
        sys.setprofile(None)
    return calls


def test_work_per_event_does_not_grow_with_the_collection() -> None:
    assert calls_of_an_update(10) == calls_of_an_update(2000)
