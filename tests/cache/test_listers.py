from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait import cache
from pytest_kwait.cache import Lister
from pytest_kwait.cache.store import NAMESPACE_INDEX, meta_namespace_index_func
from pytest_kwait.client.resource import JOBS, NODES, PODS, Resource
from pytest_kwait.errors import ApiError, InvalidArgument
from tests.cache.fakes import pod_at


def labelled(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    made = pod_at(name, namespace=namespace)
    made["metadata"]["labels"] = labels
    return made


def lister(indexed: bool, *objects: dict[str, Any], of: Resource = PODS) -> Lister:
    index = {NAMESPACE_INDEX: meta_namespace_index_func} if indexed else None
    indexer = cache.Indexer(indexers=index)
    for obj in objects:
        indexer.add(obj)
    return Lister(indexer, of)


OBJECTS = (
    labelled("a", "one", app="web"),
    labelled("b", "one", app="db"),
    labelled("a", "two", app="web"),
    pod_at("bare", namespace="one"),
)


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in objects]


@pytest.mark.parametrize("indexed", [True, False])
def test_lists_by_selector_and_namespace(indexed: bool) -> None:
    pods = lister(indexed, *OBJECTS)

    assert names(pods.list()) == ["one/a", "one/b", "two/a", "one/bare"]
    assert names(pods.list("app=web")) == ["one/a", "two/a"]
    assert names(pods.list({"app": None})) == ["one/a", "one/b", "two/a"]
    assert names(pods.by_namespace("one").list()) == ["one/a", "one/b", "one/bare"]
    assert names(pods.pods("one").list("app!=web")) == ["one/b", "one/bare"]
    assert pods.by_namespace("three").list() == []


def test_gets_by_name() -> None:
    pods = lister(True, *OBJECTS)
    assert pods.by_namespace("two").get("a") == OBJECTS[2]
    assert pods.get("one/b") == OBJECTS[1]
    node = {"metadata": {"name": "n", "uid": "u"}}
    assert lister(False, node, of=NODES).get("n") == node


def test_missing_object_is_not_found() -> None:
    jobs = lister(True, of=JOBS)
    with pytest.raises(ApiError) as caught:
        jobs.by_namespace("one").get("gone")
    assert caught.value.status == 404
    assert str(caught.value) == '404 NotFound: jobs.batch "gone" not found in the cache'


def test_a_selector_that_is_none_is_refused_even_where_there_is_nothing() -> None:
    with pytest.raises(InvalidArgument):
        lister(True).list("app in web")


def test_listed_objects_are_copies() -> None:
    pods = lister(True, *OBJECTS)
    pods.list("app=db")[0]["metadata"]["labels"]["app"] = "changed"
    assert names(pods.list("app=db")) == ["one/b"]


def test_the_index_by_namespace_decodes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr(cache.store, "_decode", decoded.append)
    pods = lister(True, *OBJECTS)
    assert decoded == []
    assert [key for key, _ in pods._indexer.raws("one")] == ["one/a", "one/b", "one/bare"]


def test_an_update_keeps_the_order_and_a_deletion_leaves_the_index() -> None:
    indexer = cache.Indexer(indexers={NAMESPACE_INDEX: meta_namespace_index_func})
    for name in ("a", "b"):
        indexer.add(pod_at(name))
    indexer.update(pod_at("a", 2))
    assert indexer.index_keys(NAMESPACE_INDEX, "default") == ("default/a", "default/b")
    for name in ("a", "b"):
        indexer.delete(pod_at(name, 3))
    assert indexer.list_index_func_values(NAMESPACE_INDEX) == ()


def test_the_index_by_namespace_goes_along_with_others() -> None:
    indexer = cache.Indexer(
        indexers={
            NAMESPACE_INDEX: meta_namespace_index_func,
            "app": lambda obj: [obj["metadata"].get("labels", {}).get("app", "none")],
        }
    )
    for obj in OBJECTS:
        indexer.add(obj)
    assert indexer.index_keys("app", "web") == ("one/a", "two/a")
    assert indexer.index_keys(NAMESPACE_INDEX, "two") == ("two/a",)


def test_keys_of_another_kind_are_indexed_by_the_function() -> None:
    indexer = cache.Indexer(
        lambda obj: obj["metadata"]["uid"], {NAMESPACE_INDEX: meta_namespace_index_func}
    )
    indexer.add(pod_at("a", namespace="one"))
    assert indexer.index_keys(NAMESPACE_INDEX, "one") == ("uid-a",)
