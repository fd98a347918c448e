"""The informers of one namespace, by the names of their resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_kwait.cache.factory import SharedInformerFactory

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.cache.shared_informer import SharedInformer

__all__ = ["Informers"]


class Informers(Mapping[str, "SharedInformer"]):
    """Informers that were started, by their resources' names: `kwait.informers["pods"]`.

    Can be given to `wait_for_cache_sync` as a whole.

    Args:
        client: the client they list and watch with.
        namespace: where they look.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._factory: SharedInformerFactory | None = None
        self._by_name: dict[str, SharedInformer] = {}

    def start(self, *resources: str) -> list[SharedInformer]:
        """Start the informers of resources, those that run already excepted, and return them all.

        Args:
            *resources: any name that kubectl knows a resource by.

        Raises:
            InvalidArgument: the server has no such resource.
            ApiError: the server could not be asked.
        """
        if self._factory is None:
            self._factory = SharedInformerFactory(self._client, self._namespace)
        started = []
        for name in resources:
            informer = self._factory.informer_for(name)
            self._by_name[name] = self._by_name[informer.resource.qualified] = informer
            started.append(informer)
        self._factory.start()
        return started

    def stop(self) -> None:
        """Stop all informers; returns at once."""
        if self._factory is not None:
            self._factory.stop()
            self._factory = None

    @property
    def informers(self) -> Sequence[SharedInformer]:
        """The informers, each once."""
        return tuple(dict.fromkeys(self._by_name.values()))

    def __getitem__(self, resource: str) -> SharedInformer:
        try:
            return self._by_name[resource]
        except KeyError:
            there = ", ".join(self) or "none"
            raise KeyError(f"no informer of {resource!r} was started; there is {there}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(each.resource.qualified for each in self._by_name.values()))

    def __len__(self) -> int:
        return len(set(self._by_name.values()))
