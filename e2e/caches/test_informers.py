"""Informers of a test: a local copy of the server's objects, and a history of changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from e2e.objects import replica_set
from pytest_kwait import cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import InformersFactory, Kwait


def config(name: str, app: str = "web", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_informer_history(kwait: Kwait, kwait_informers: InformersFactory) -> None:
    """The history has each replica's creation and deletion."""
    informers = kwait_informers("replicasets", "pods", label_selector="app=web")
    web = replica_set("web", 2)
    web["metadata"]["labels"] = {"app": "web"}
    kwait.create(web)

    pods = informers.wait_for_events(
        "pods", lambda events: sum(event.what == "added" for event in events) == 2
    )
    assert all(event.name.startswith("web-") for event in pods)
    informers.wait_for_events(
        "replicasets",
        lambda events: events and events[-1].object.get("status", {}).get("replicas") == 2,
        name="web",
    )

    kwait.delete("replicaset/web")
    informers.wait_for_events("replicasets", lambda events: events[-1].what == "deleted")
    informers.wait_for_events(
        "pods", lambda events: sum(event.what == "deleted" for event in events) == 2, timeout="4m"
    )
    assert informers["pods"].store.list() == []


def test_informer_lister(kwait: Kwait, kwait_informers: InformersFactory) -> None:
    """Reads of the local copy send no request and return copies."""
    kwait.create(config("a", a="1"), config("b", app="db"))
    configs = kwait_informers("configmaps", all_namespaces=True)["configmaps"].lister()

    mine = configs.by_namespace(kwait.namespace)
    assert [c["metadata"]["name"] for c in mine.list("app in (web)")] == ["a"]
    assert mine.get("a")["data"] == {"a": "1"}
    assert configs.get(f"{kwait.namespace}/b")["metadata"]["labels"] == {"app": "db"}


def test_informer_indexes_transforms_and_handlers(
    kwait: Kwait, wait_for_cache_sync: Callable[..., bool]
) -> None:
    """Options as for client-go's factory: indexers, a transform, a resync, synced handlers."""
    kwait.create(config("a", secret="x"), config("b", app="db"))

    def without_data(obj: dict[str, Any]) -> dict[str, Any]:
        obj.pop("data", None)
        return obj

    def labelled(options: cache.ListOptions) -> None:
        options.label_selector = "app"

    factory = cache.SharedInformerFactory(
        kwait.client, kwait.namespace, transform=without_data, tweak_list_options=labelled
    )
    configs = factory.informer_for("configmaps.v1.")
    deployments = factory.informer_for("deployments.v1.apps")
    configs.add_indexers({"app": lambda obj: [obj["metadata"]["labels"]["app"]]})
    again = threading.Event()
    quick = configs.add_event_handler(
        update=lambda old, new: again.set() if old == new else None, resync="1s"
    )
    release = threading.Event()
    slow = configs.add_event_handler(add=lambda obj: release.wait(30))
    waiting = threading.Timer(0.1, factory.start)
    waiting.start()
    try:
        # Called before the other thread has started an informer.
        assert factory.wait_for_cache_sync(timeout="4m") == {
            configs.resource: True,
            deployments.resource: True,
        }
        assert wait_for_cache_sync(quick, timeout="4m")
        assert not slow.has_synced()
        release.set()
        assert [c["metadata"]["name"] for c in configs.store.by_index("app", "db")] == ["b"]
        assert all("data" not in c for c in configs.store.list())
        assert again.wait(30)
        assert wait_for_cache_sync(slow, timeout="4m")
    finally:
        assert factory.shutdown()
