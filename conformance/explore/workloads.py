"""Objects of these suites, and a cache with a connection of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kubernetes

from e2e.objects import container, service
from pytest_kwait import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

BUSY = container(command=["sleep", "300"])
"""A container that runs until it is deleted."""

PROBED = container(
    script="sleep 0.05; touch /tmp/ready; sleep 300",
    ports=[{"containerPort": 8080}],
    readinessProbe={"exec": {"command": ["ls", "/tmp/ready"]}, "periodSeconds": 1},
)
"""A container that is ready a moment after it runs, as its second probe finds."""

SERVICE = service("web")
"""The service of the pods labelled `app: web`."""


def is_ready(found: dict[str, Any]) -> bool:
    """Return whether a pod has the condition Ready."""
    conditions = found["status"].get("conditions", [])
    return {"Ready": "True"} in [{each["type"]: each["status"]} for each in conditions]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a watch has seen so far."""

    changes: list[dict[str, Any]]
    """Each object as it was created and changed."""

    list: Callable[[], list[dict[str, Any]]]
    """Returns the objects that are there."""


def look_around(kwait: Kwait) -> None:
    """Read what has nothing to do with the test, ten times.

    This stands in for what tests do between two steps. It takes longer than a step of a controller
    in an unperturbed cluster, also on a busy machine, where a pause would be too short.
    """
    for _ in range(10):
        kwait.list("secrets")


def wait_until_served(kwait: Kwait, name: str) -> dict[str, Any]:
    """Return a Site once the operator has reported its present generation."""
    found: dict[str, Any] = kwait.wait_for(f"site/{name}", "condition=Ready")
    return found


def connect(kubeconfig: Path, program: str = "") -> Any:
    """Return a client of its own.

    Args:
        program: the user agent; empty for that of the official client.
    """
    read: Any = kubernetes.config.new_client_from_config
    client = read(str(kubeconfig))
    if program:
        client.user_agent = program
    return client


@contextmanager
def second_connection(kwait: Kwait, resource: str) -> Iterator[Seen]:
    """Watch the namespace over a connection of its own."""
    client = connect(kwait.cluster.kubeconfig)
    factory = cache.SharedInformerFactory(client, namespace=kwait.namespace)
    informer = factory.informer_for(resource)
    changes: list[dict[str, Any]] = []
    registered = informer.add_event_handler(
        add=changes.append, update=lambda _, new: changes.append(new)
    )
    try:
        with factory:
            cache.wait_for_cache_sync(factory, registered)
            yield Seen(changes, informer.store.list)
    finally:
        client.close()
