"""Waiting until local caches equal the server, for built-in and custom resources."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait import Kwait

CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"a": "1"},
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.kwait-e2e.example.com"},
    "spec": {
        "group": "kwait-e2e.example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
                        },
                    }
                },
            }
        ],
    },
}


@pytest.mark.wait_for_cache_sync("configmaps", "pods")
def test_cache_sync_marker(kwait: Kwait) -> None:
    """The marker syncs informers of the named resources in the test's namespace."""
    names = {c["metadata"]["name"] for c in kwait.informers["configmaps"].store.list()}

    assert "kube-root-ca.crt" in names


def test_factory_sync(kwait: Kwait, wait_for_cache_sync: Callable[..., bool]) -> None:
    """A factory starts one informer per resource; one wait covers them all."""
    kwait.create(CONFIG)
    factory = cache.SharedInformerFactory(kwait.client, namespace=kwait.namespace)
    configs = factory.informer_for("configmaps")
    seen = threading.Event()
    configs.add_event_handler(
        add=lambda config: seen.set() if config["metadata"]["name"] == "settings" else None
    )
    factory.start()
    try:
        assert wait_for_cache_sync(factory, timeout="4m")
        assert [c["data"] for c in configs.store.list() if c["metadata"]["name"] == "settings"] == [
            {"a": "1"}
        ]
        assert seen.wait(30)
    finally:
        factory.stop()


def test_named_sync_logs(
    kwait: Kwait, wait_for_cache_sync: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    """With a name, start and end of the wait are logged."""
    factory = cache.SharedInformerFactory(kwait.client, namespace=kwait.namespace)
    factory.informer_for("pods")
    factory.start()
    try:
        with caplog.at_level(logging.INFO, "pytest_kwait.cache"):
            assert wait_for_cache_sync(factory, name="e2e", timeout="4m")
    finally:
        factory.stop()
    messages = [
        record.getMessage() for record in caplog.records if record.name == "pytest_kwait.cache"
    ]

    assert any(message.startswith("Waiting for caches to sync") for message in messages)
    assert any(message.startswith("Caches are synced") for message in messages)


def test_a_set_stop_ends_the_wait(kwait: Kwait, wait_for_cache_sync: Callable[..., bool]) -> None:
    """The result is False, not an error."""
    stop = threading.Event()
    stop.set()

    assert wait_for_cache_sync(lambda: False, stop=stop) is False


def test_sync_of_custom_resources(kwait: Kwait, wait_for_cache_sync: Callable[..., bool]) -> None:
    """Custom resources are cached like built-in ones."""
    kwait.apply(WIDGETS)
    try:
        kwait.wait_for("crd/widgets.kwait-e2e.example.com", "condition=Established", timeout="4m")
        widget: dict[str, Any] = {
            "apiVersion": "kwait-e2e.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "small"},
            "spec": {"size": 1},
        }
        kwait.apply(widget)
        factory = cache.SharedInformerFactory(kwait.client, namespace=kwait.namespace)
        widgets = factory.informer_for("widgets.kwait-e2e.example.com")
        factory.start()
        try:
            assert wait_for_cache_sync(factory, timeout="4m")
            assert [w["spec"]["size"] for w in widgets.store.list()] == [1]
        finally:
            factory.stop()
    finally:
        kwait.delete("crd/widgets.kwait-e2e.example.com")
