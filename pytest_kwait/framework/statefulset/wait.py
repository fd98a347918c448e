"""Waits on StatefulSets and their pods.

A pod belongs to a set by its controller's UID and by the ordinal in its name: what else the
selector matches does not count. With the management policy OrderedReady a stuck pod keeps all
pods after it from being made; such waits fail with that pod's reason.

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
    """Return a set's pods, by ordinal, once so many run, the first of them ready and no other.

    This is how an ordered start is followed step by step: `pods_running` pods and no more are in
    phase Running, the `pods_ready` lowest ordinals of them ready, and the rest not. Upstream gives
    up as soon as there are too many pods; here that may be a set that is being scaled down. Places
    count from the set's first ordinal, where upstream always counts from 0.

    Args:
        pods_running: how many pods, exactly; 0 or more.
        pods_ready: how many of them are ready; `pods_running` at most.

    Raises:
        WaitFailed: a pod is stuck, or keeps those after it from being made, the set is to have
            another number of pods, or is deleted.

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
    """Return a set's pods, by ordinal, once there are exactly `count`, all Running and ready.

    Args:
        count: how many pods, exactly; 0 or more.

    Raises:
        WaitFailed: a pod is stuck, or keeps those after it from being made, the set is to have
            another number of pods, or is deleted.

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

    A pod that is deleted meanwhile is made anew by its set, and awaited again.

    Args:
        pod: the pod's name, `<set>-<ordinal>`.

    Raises:
        WaitFailed: the pod is stuck, one before it keeps it from being made, the set has no such
            ordinal, or is deleted.

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
    """Return a set once its status of the present generation counts exactly `count` pods.

    Args:
        count: how many, exactly; 0 or more.

    Raises:
        WaitFailed: a stuck pod keeps those after it from being made, the set is to have fewer, or
            is deleted.

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
    """Return a set once its status of the present generation counts exactly `count` ready pods.

    Args:
        count: how many, exactly; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one keeps those after it from being made, the set is
            to have fewer, or is deleted.

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
    """Return a set once its status of the present generation counts exactly `count` available pods.

    Available is a pod that has been ready for the set's `minReadySeconds`.

    Args:
        count: how many, exactly; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one keeps those after it from being made, the set is
            to have fewer, or is deleted.

    Source: statefulset/wait.go WaitForStatusAvailableReplicas.
    """
    return StatefulSetStatus(namespace, stateful_set, "availableReplicas", count)
