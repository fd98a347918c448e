"""Builders of pods for these suites."""

from __future__ import annotations

from typing import Any


def container(name: str = "main", script: str = "sleep 300", **more: Any) -> dict[str, Any]:
    """Return a container that runs a shell script; `image` and the rest as given."""
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **more}


def pod(
    name: str,
    *containers: dict[str, Any],
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod that ends at once when it is deleted; the rest of its spec as given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": list(containers or (container(),)),
            **spec,
        },
    }


def job(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a job; the rest of its spec as given."""
    template = pod(name, *containers)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": template}, **spec},
    }
