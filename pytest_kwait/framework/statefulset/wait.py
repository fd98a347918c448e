"""Waits on StatefulSets and their pods.

A pod belongs to a set by its controller's UID and by the ordinal in its name; other pods that the
selector matches do not count. With the management policy OrderedReady a stuck pod blocks all pods
after it; such waits fail with that pod's reason.

Source: kubernetes/test/e2e/framework/statefulset/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.statefulset.conditions import (
    StatefulSetPod,
    StatefulSetPods,
    StatefulSetStatus,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

__all__ = [
    "wait_for_stateful_set_pod_ready",
    "wait_for_stateful_set_running",
    "wait_for_stateful_set_running_and_ready",
    "wait_for_stateful_set_status_available_replicas",
    "wait_for_stateful_set_status_ready_replicas",
    "wait_for_stateful_set_status_replicas",
]


@wait(
    limit="stateful_set",
    summary="a stateful set of which so many pods run, the first of them ready",
)
def wait_for_stateful_set_running(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    pods_running: int,
    pods_ready: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once exactly `pods_running` run, the first of them ready.

    The pods are sorted by ordinal. This follows an ordered start step by step: exactly
    `pods_running` pods are in phase Running, the `pods_ready` lowest ordinals are ready, and the
    rest are not. Upstream gives up as soon as there are too many pods; here the set may be scaling
    down. Positions count from the set's first ordinal; upstream always counts from 0.

    Args:
        pods_running: the exact number of pods; 0 or more.
        pods_ready: the number of ready ones; `pods_running` at most.

    Raises:
        WaitFailed: a pod is stuck, or blocks those after it, the set is to have another number of
            pods, or is deleted.

    Source: statefulset/wait.go WaitForRunning.
    """
    return StatefulSetPods(namespace, stateful_set, pods_running, pods_ready)


@wait(limit="stateful_set", summary="a stateful set's exact number of pods, all Running and ready")
def wait_for_stateful_set_running_and_ready(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once there are exactly `count`, all Running and ready.

    The pods are sorted by ordinal.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: a pod is stuck, or blocks those after it, the set is to have another number of
            pods, or is deleted.

    Source: statefulset/wait.go WaitForRunningAndReady.
    """
    return StatefulSetPods(namespace, stateful_set, count, count)


@wait(limit="stateful_set", summary="one pod of a stateful set that is Running and ready")
def wait_for_stateful_set_pod_ready(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    pod: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return one pod of a set once it is Running and ready.

    A pod that is deleted meanwhile is recreated by its set, and awaited again.

    Args:
        pod: the pod's name, `<set>-<ordinal>`.

    Raises:
        WaitFailed: the pod is stuck, an earlier one blocks it, the set has no such ordinal, or is
            deleted.

    Source: statefulset/wait.go WaitForPodReady.
    """
    return StatefulSetPod(namespace, stateful_set, pod)


@wait(limit="stateful_set", summary="a stateful set that counts so many pods")
def wait_for_stateful_set_status_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` pods.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: a stuck pod blocks those after it, the set is to have fewer, or is deleted.

    Source: statefulset/wait.go WaitForStatusReplicas.
    """
    return StatefulSetStatus(namespace, stateful_set, "replicas", count)


@wait(limit="stateful_set", summary="a stateful set that counts so many ready pods")
def wait_for_stateful_set_status_ready_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` ready pods.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one blocks those after it, the set is to have fewer,
            or is deleted.

    Source: statefulset/wait.go WaitForStatusReadyReplicas.
    """
    return StatefulSetStatus(namespace, stateful_set, "readyReplicas", count)


@wait(limit="stateful_set", summary="a stateful set that counts so many available pods")
def wait_for_stateful_set_status_available_replicas(
    client: ApiClient,
    namespace: str,
    stateful_set: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` available pods.

    A pod is available once it has been ready for the set's `minReadySeconds`.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one blocks those after it, the set is to have fewer,
            or is deleted.

    Source: statefulset/wait.go WaitForStatusAvailableReplicas.
    """
    return StatefulSetStatus(namespace, stateful_set, "availableReplicas", count)
