"""Builders of deployments and replica sets for these suites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_kwait import Kwait

NEVER_READY = {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
"""A readiness probe that always fails."""


def _workload(kind: str, name: str, replicas: int, container: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    main = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 300"]}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [main | container]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def deployment(
    name: str, replicas: int = 1, container: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a Deployment of pods with a grace period of 0.

    Args:
        name: its name, and its pods' label `app`.
        replicas: how many pods.
        container: fields of the container, beyond a shell that sleeps.
        **spec: further fields of its spec.
    """
    made = _workload("Deployment", name, replicas, container or {})
    made["spec"] |= spec
    return made


def replica_set(
    name: str, replicas: int = 1, container: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a ReplicaSet of the same pods."""
    return _workload("ReplicaSet", name, replicas, container or {})


def hold_to_quota(kwait: Kwait, **hard: str) -> None:
    """Create a quota, and return once the server enforces it."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    kwait.create({**quota, "spec": {"hard": hard}})
    kwait.wait_for("resourcequota/few", "jsonpath={.status.hard}", timeout="4m")
