"""Waits on ReplicationControllers, and on the pods of any controller.

Source: kubernetes/test/utils/runners.go, kubernetes/test/e2e/kubectl/kubectl.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.client.resource import REPLICATION_CONTROLLERS
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.framework.rc import AnyPod, RunningPods, StableController
from pytest_kwait.framework.workload.controllers import parse_controller

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "controlled_pods",
    "controlled_pods_running",
    "rc_pods_running",
    "rc_to_stabilize",
    "wait_for_controlled_pods",
    "wait_for_controlled_pods_running",
    "wait_for_rc_pods_running",
    "wait_for_rc_to_stabilize",
]


def controlled_pods(namespace: str, controller: str) -> AnyPod:
    """Return the condition of `wait_for_controlled_pods`."""
    resource, name = parse_controller("controller", controller)
    return AnyPod(resource, namespace, name)


def wait_for_controlled_pods(
    client: ApiClient, namespace: str, controller: str, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return the pods of a controller once there is one.

    Pods that have ended, or are being deleted, do not count.

    Args:
        client: the official client.
        namespace: where the controller is.
        controller: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
            `job/web`.
        **options: `timeout` (default: `controlled_pods`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: its pods are refused, or it is deleted.
        WaitTimeout: it did not come within the limit.

    Source: kubernetes/test/e2e/framework/resource/resources.go WaitForControlledPods.
    """
    condition = controlled_pods(namespace, controller)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def controlled_pods_running(namespace: str, controller: str) -> RunningPods:
    """Return the condition of `wait_for_controlled_pods_running`."""
    resource, name = parse_controller("controller", controller)
    return RunningPods(resource, namespace, name)


def wait_for_controlled_pods_running(
    client: ApiClient, namespace: str, controller: str, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return the Running pods of a controller once they are as many as it is to have, or more.

    They need not be ready. One that is to have no pods does not satisfy this, as upstream.

    Args:
        client: the official client.
        namespace: where the controller is.
        controller: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
            `job/web`.
        **options: `timeout` (default: `controlled_pods`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: its pods are stuck or refused, it is to have none, or it
            is deleted.
        WaitTimeout: it did not come within the limit.

    Source: kubernetes/test/e2e/framework/resource/resources.go WaitForControlledPodsRunning.
    """
    condition = controlled_pods_running(namespace, controller)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def rc_pods_running(namespace: str, rc: str, count: int) -> RunningPods:
    """Return the condition of `wait_for_rc_pods_running`."""
    return RunningPods(REPLICATION_CONTROLLERS, namespace, rc, count, "rc")


def wait_for_rc_pods_running(
    client: ApiClient, namespace: str, rc: str, count: int, **options: Unpack[WaitOptions]
) -> list[dict[str, Any]]:
    """Return the Running pods of a ReplicationController once they are exactly `count`.

    They need not be ready. Upstream measures its limit from the last progress, and gives up at the
    first failed containers; here the limit is one, and pods that are stuck end the wait.

    Args:
        client: the official client.
        namespace: where the controller is.
        rc: its name.
        count: how many pods, exactly; 0 or more.
        **options: `timeout` (default: `controlled_pods`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: pods are stuck or refused, it is to have fewer, or it is
            deleted.
        WaitTimeout: it did not come within the limit.

    Source: kubernetes/test/utils/runners.go RCConfig.start.
    """
    condition = rc_pods_running(namespace, rc, count)
    return cast("list[dict[str, Any]]", _wait(client, condition, options))


def rc_to_stabilize(namespace: str, rc: str) -> StableController:
    """Return the condition of `wait_for_rc_to_stabilize`."""
    return StableController(REPLICATION_CONTROLLERS, namespace, rc, "rc")


def wait_for_rc_to_stabilize(
    client: ApiClient, namespace: str, rc: str, **options: Unpack[WaitOptions]
) -> dict[str, Any]:
    """Return a ReplicationController once it has observed its spec and has as many pods as that.

    The pods are there; in what state does not matter.

    Args:
        client: the official client.
        namespace: where it is.
        rc: its name.
        **options: `timeout` (default: `controlled_pods`, 10 minutes) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: pods are refused, or it is deleted.
        WaitTimeout: it did not come within the limit.

    Source: kubernetes/test/e2e/kubectl/kubectl.go waitForRCToStabilize.
    """
    condition = rc_to_stabilize(namespace, rc)
    return cast("dict[str, Any]", _wait(client, condition, options))


def _wait(client: ApiClient, condition: Condition, options: WaitOptions) -> Any:
    settings = resolve_options(options, timeout="controlled_pods")
    return wait_for_condition(Session.of(client), condition, settings)
