"""Builders of stateful sets, daemon sets and replication controllers for these suites."""

from __future__ import annotations

from typing import Any

TYPO = "Busybox:not a tag"
"""An invalid image name."""


def _template(name: str, image: str, container: dict[str, Any]) -> dict[str, Any]:
    main = {"name": "main", "image": image, "command": ["sh", "-c", "sleep 300"]}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [main | container]}
    return {"metadata": {"labels": {"app": name}}, "spec": pod}


def stateful_set(
    name: str,
    replicas: int = 1,
    image: str = "busybox:1.36",
    container: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a StatefulSet of pods with a grace period of 0.

    Args:
        name: its name, and its pods' label `app`.
        replicas: how many pods.
        image: what they run.
        container: fields of the container, beyond a shell that sleeps.
        **spec: further fields of its spec.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": _template(name, image, container or {}),
            **spec,
        },
    }


def daemon_set(
    name: str,
    image: str = "busybox:1.36",
    node_selector: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a DaemonSet of the same pods, on the nodes with the labels of `node_selector`."""
    template = _template(name, image, {})
    template["spec"]["nodeSelector"] = node_selector or {}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def replication_controller(
    name: str, replicas: int = 1, image: str = "busybox:1.36"
) -> dict[str, Any]:
    """Return a ReplicationController of the same pods."""
    return {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"app": name},
            "template": _template(name, image, {}),
        },
    }
