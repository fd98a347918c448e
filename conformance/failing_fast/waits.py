"""The waits of the tables of pods and jobs, each given a client and a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait import (
    wait_for_job_complete,
    wait_for_job_pods_running,
    wait_for_pod_ready,
    wait_for_pod_running,
    wait_for_pod_success,
    wait_for_pods_with_label_running_ready,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    Wait = Callable[[ApiClient, str], Any]

LIMIT = "3m"


def pod_ready(name: str) -> Wait:
    """Wait until a pod is ready."""
    return lambda client, namespace: wait_for_pod_ready(client, namespace, name, timeout=LIMIT)


def pod_running(name: str) -> Wait:
    """Wait until a pod runs."""
    return lambda client, namespace: wait_for_pod_running(client, namespace, name, timeout=LIMIT)


def pod_success(name: str) -> Wait:
    """Wait until a pod has succeeded."""
    return lambda client, namespace: wait_for_pod_success(client, namespace, name, timeout=LIMIT)


def job_pods_running(name: str, count: int = 1) -> Wait:
    """Wait until so many pods of a job run."""
    return lambda client, namespace: wait_for_job_pods_running(
        client, namespace, name, count, timeout=LIMIT
    )


def job_complete(name: str) -> Wait:
    """Wait until a job is complete."""
    return lambda client, namespace: wait_for_job_complete(client, namespace, name, timeout=LIMIT)


def labelled_pods_ready(app: str, count: int) -> Wait:
    """Wait until so many pods of an app are Running and ready."""
    return lambda client, namespace: wait_for_pods_with_label_running_ready(
        client, namespace, f"app={app}", count, timeout=LIMIT
    )
