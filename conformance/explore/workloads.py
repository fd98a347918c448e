"""Objects of these suites, and a cache with a connection of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kubernetes

from pytest_kwait import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

BUSY = {"command": ["sleep", "300"]}
"""A container that runs until it is deleted."""

PROBED = {
    "command": ["sh", "-c", "sleep 0.05; touch /tmp/ready; sleep 300"],
    "ports": [{"containerPort": 8080}],
    "readinessProbe": {"exec": {"command": ["ls", "/tmp/ready"]}, "periodSeconds": 1},
}
"""A container that is ready a moment after it runs, as its second probe finds."""

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}
"""The service of the pods labelled `app: web`."""


def _template(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "busybox:1.36", **container}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [main], **spec},
    }


def pod(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod of one container, labelled by its name, with further fields of its spec."""
    template = _template(name, container, restartPolicy="Never", **spec)
    template["metadata"]["name"] = name
    return {"apiVersion": "v1", "kind": "Pod", **template}


def job(name: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a Job."""
    template = _template(name, container, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def deployment(name: str, replicas: int, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    """Return a Deployment of pods that run until they are deleted."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, BUSY),
            **spec,
        },
    }


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


def connect(kubeconfig: Path) -> Any:
    """Return a client of its own."""
    read: Any = kubernetes.config.new_client_from_config
    return read(str(kubeconfig))


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
