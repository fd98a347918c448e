from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait import cache
from pytest_kwait.cache.shared_informer import DeltaProcessor
from pytest_kwait.client.resource import PODS
from tests.cache.fakes import item, pod_at, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def test_a_list_is_taken_in_without_a_second_copy_of_its_objects() -> None:
    """What the list held of an object is let go when the object as it is stored has come."""
    store = cache.Indexer()

    def change(apply: Callable[[cache.Indexer], Sequence[cache.Delta]], listed: bool) -> None:
        apply(store)

    bare: list[dict[str, Any]] = [pod_at(name) for name in ("a", "b")]
    for obj in bare:
        del obj["kind"], obj["apiVersion"]
    items: list[Any] = [item(obj) for obj in (*bare, {"metadata": {}})]
    DeltaProcessor(PODS, store, change, None).replace(items, "10")

    stored = [content for _, content in store.raws()]
    assert stored == [raw({"apiVersion": "v1", "kind": "Pod"} | obj) for obj in bare]
    assert all(one.raw is content for one, content in zip(items, stored, strict=True))
