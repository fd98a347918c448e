"""Listers: read a cache by selector, namespace and name.

Ported from client-go `tools/cache/listers.go` and its generated listers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.labels import LabeledObject, compile_label_selector, get_labels
from pytest_kwait.client.responses import decode_object
from pytest_kwait.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.apimachinery.labels import Selector
    from pytest_kwait.cache.store import Indexer, Object
    from pytest_kwait.client.resource import Resource

__all__ = ["Lister", "NamespaceLister"]


class NamespaceLister:
    """Reads the objects of one namespace from a cache.

    Args:
        indexer: the cache.
        resource: its resource, for errors.
    """

    def __init__(self, indexer: Indexer, resource: Resource, namespace: str) -> None:
        self._indexer = indexer
        self._resource = resource
        self._namespace = namespace

    def list(self, selector: Selector | None = None) -> list[Object]:
        """Return the namespace's objects that a label selector matches; all for None.

        With an index by namespace, as factories create it, only these objects are read.

        Raises:
            InvalidArgument: an invalid label selector.
        """
        return _select(self._indexer.raws(self._namespace), selector)

    def get(self, name: str) -> Object:
        """Return one object.

        Raises:
            ApiError: 404, it is not in the cache; no request is sent.
        """
        return _get(self._indexer, self._resource, f"{self._namespace}/{name}", name)


class Lister:
    """Reads the objects of a cache; each result is a copy.

    Args:
        indexer: the cache.
    """

    def __init__(self, indexer: Indexer, resource: Resource) -> None:
        self._indexer = indexer
        self._resource = resource

    def list(self, selector: Selector | None = None) -> list[Object]:
        """Return the objects of all namespaces that a label selector matches; all for None.

        Raises:
            InvalidArgument: an invalid label selector.
        """
        return _select(self._indexer.raws(), selector)

    def get(self, name: str) -> Object:
        """Return one object by `namespace/name`, or by `name` if cluster-scoped.

        Raises:
            ApiError: 404, it is not in the cache; no request is sent.
        """
        return _get(self._indexer, self._resource, name, name)

    def by_namespace(self, namespace: str) -> NamespaceLister:
        """Return the lister of one namespace."""
        return NamespaceLister(self._indexer, self._resource, namespace)

    def pods(self, namespace: str) -> NamespaceLister:
        """Return the lister of one namespace; upstream's name for pods."""
        return self.by_namespace(namespace)


def _select(raws: Sequence[tuple[str, bytes]], selector: Selector | None) -> list[Object]:
    matches = compile_label_selector(selector)
    if not selector:
        return [decode_object(raw) for _, raw in raws]
    # Decoding only the labels costs a tenth of decoding a pod.
    return [
        decode_object(raw)
        for _, raw in raws
        if matches(get_labels(decode_object(raw, LabeledObject)))
    ]


def _get(indexer: Indexer, resource: Resource, key: str, name: str) -> Object:
    obj = indexer.get_by_key(key)
    if obj is None:
        # Source: apimachinery/pkg/api/errors, NewNotFound.
        raise ApiError(
            f'{resource.qualified} "{name}" not found in the cache', status=404, reason="NotFound"
        )
    return obj
