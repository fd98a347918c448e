"""Waits on StatefulSets and their pods.

A pod belongs to a set by its controller's UID and by the ordinal in its name: what else the
selector matches does not count. With the management policy OrderedReady a stuck pod keeps all
pods after it from being made; such waits fail with that pod's reason.

Source: kubernetes/test/e2e/framework/statefulset/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.statefulset.conditions import (
    StatefulSetPod,
    StatefulSetPods,
    StatefulSetStatus,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "stateful_set_pod_ready",
    "stateful_set_running",
    "stateful_set_running_and_ready",
    "stateful_set_status_available_replicas",
    "stateful_set_status_ready_replicas",
    "stateful_set_status_replicas",
    "wait_for_stateful_set_pod_ready",
    "wait_for_stateful_set_running",
    "wait_for_stateful_set_running_and_ready",
    "wait_for_stateful_set_status_available_replicas",
    "wait_for_stateful_set_status_ready_replicas",
    "wait_for_stateful_set_status_replicas",
]


def stateful_set_running(
    namespace: str, stateful_set: str, pods_running: int, pods_ready: int
) -> StatefulSetPods:
    """Return the condition of `wait_for_stateful_set_running`."""
    return StatefulSetPods(namespace, stateful_set, pods_running, pods_ready)


def wait_for_stateful_set_running(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    pods_running: int,
    pods_ready: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a set's pods, by ordinal, once so many run, the first of them ready and no other.

    This is how an ordered start is followed step by step: `pods_running` pods and no more are in
    phase Running, the `pods_ready` lowest ordinals of them ready, and the rest not. Upstream gives
    up as soon as there are too many pods; here that may be a set that is being scaled down. Places
    count from the set's first ordinal, where upstream always counts from 0.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        pods_running: how many pods, exactly; 0 or more.
        pods_ready: how many of them are ready; `pods_running` at most.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod is stuck, or keeps those after it from being made,
            the set is to have another number of pods, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForRunning.
    """
    condition = stateful_set_running(namespace, stateful_set, pods_running, pods_ready)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def stateful_set_running_and_ready(
    namespace: str, stateful_set: str, count: int
) -> StatefulSetPods:
    """Return the condition of `wait_for_stateful_set_running_and_ready`."""
    return StatefulSetPods(namespace, stateful_set, count, count)


def wait_for_stateful_set_running_and_ready(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return a set's pods, by ordinal, once they are exactly `count`, all Running and ready.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        count: how many pods, exactly; 0 or more.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a pod is stuck, or keeps those after it from being made,
            the set is to have another number of pods, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForRunningAndReady.
    """
    condition = stateful_set_running_and_ready(namespace, stateful_set, count)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def stateful_set_pod_ready(namespace: str, stateful_set: str, pod: str) -> StatefulSetPod:
    """Return the condition of `wait_for_stateful_set_pod_ready`."""
    return StatefulSetPod(namespace, stateful_set, pod)


def wait_for_stateful_set_pod_ready(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    pod: str,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return one pod of a set once it is Running and ready.

    A pod that is deleted meanwhile is made anew by its set, and awaited again.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        pod: the pod's name, `<set>-<ordinal>`.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: the pod is stuck, one before it keeps it from being made,
            the set has no such ordinal, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForPodReady.
    """
    condition = stateful_set_pod_ready(namespace, stateful_set, pod)
    return cast("dict[str, Any]", _wait(client, condition, options))


def stateful_set_status_replicas(
    namespace: str, stateful_set: str, count: int
) -> StatefulSetStatus:
    """Return the condition of `wait_for_stateful_set_status_replicas`."""
    return StatefulSetStatus(namespace, stateful_set, "replicas", count)


def wait_for_stateful_set_status_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a set once its status of the present generation counts exactly `count` pods.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        count: how many, exactly; 0 or more.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: a stuck pod keeps those after it from being made, the set
            is to have fewer, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForStatusReplicas.
    """
    condition = stateful_set_status_replicas(namespace, stateful_set, count)
    return cast("dict[str, Any]", _wait(client, condition, options))


def stateful_set_status_ready_replicas(
    namespace: str, stateful_set: str, count: int
) -> StatefulSetStatus:
    """Return the condition of `wait_for_stateful_set_status_ready_replicas`."""
    return StatefulSetStatus(namespace, stateful_set, "readyReplicas", count)


def wait_for_stateful_set_status_ready_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a set once its status of the present generation counts exactly `count` ready pods.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        count: how many, exactly; 0 or more.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: too many pods are stuck, or one keeps those after it from
            being made, the set is to have fewer, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForStatusReadyReplicas.
    """
    condition = stateful_set_status_ready_replicas(namespace, stateful_set, count)
    return cast("dict[str, Any]", _wait(client, condition, options))


def stateful_set_status_available_replicas(
    namespace: str, stateful_set: str, count: int
) -> StatefulSetStatus:
    """Return the condition of `wait_for_stateful_set_status_available_replicas`."""
    return StatefulSetStatus(namespace, stateful_set, "availableReplicas", count)


def wait_for_stateful_set_status_available_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Return a set once its status of the present generation counts exactly `count` available pods.

    Available is a pod that has been ready for the set's `minReadySeconds`.

    Args:
        client: the official client.
        namespace: where the set is.
        stateful_set: its name.
        count: how many, exactly; 0 or more.
        **options: `timeout` (default: `stateful_set`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: too many pods are stuck, or one keeps those after it from
            being made, the set is to have fewer, or is deleted.
        WaitTimeout: it did not come within the limit.

    Source: statefulset/wait.go WaitForStatusAvailableReplicas.
    """
    condition = stateful_set_status_available_replicas(namespace, stateful_set, count)
    return cast("dict[str, Any]", _wait(client, condition, options))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions) -> Any:
    settings = resolve_options(options, timeout="stateful_set")
    return wait_for_condition(Session.of(client), condition, settings)
