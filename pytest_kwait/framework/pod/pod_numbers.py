"""Waits on the number of a namespace's pods: that are there, ready, held back by gates.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.client.session import Session
from pytest_kwait.engine.options import WaitOptions, check_count, resolve_options
from pytest_kwait.engine.waiter import wait_for_condition
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.pod.list_conditions import (
    PodCount,
    has_gates,
    is_gated,
    is_present,
    is_running_and_ready,
)
from pytest_kwait.framework.pod.pod_conditions import check_text_argument
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import Condition

__all__ = [
    "number_of_pods",
    "pods_running",
    "pods_scheduling_gated",
    "pods_with_scheduling_gates",
    "wait_for_number_of_pods",
    "wait_for_pods_running",
    "wait_for_pods_scheduling_gated",
    "wait_for_pods_with_scheduling_gates",
]

_READY = " Running and ready"


def number_of_pods(namespace: str, count: int, *, selector: Selector | None = None) -> PodCount:
    """Return the condition of `wait_for_number_of_pods`."""
    number = check_count("count", count)
    return PodCount(namespace, normalize_label_selector(selector), number, "", is_present)


def wait_for_number_of_pods(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return the pods of a namespace once there are exactly `count`, in whatever phase.

    Pods that are being deleted count until they are gone. Upstream takes the limit as an argument
    and does not use it, and takes a count of 0 for any number.

    Args:
        client: the official client.
        namespace: where the pods are.
        count: how many, exactly; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.
        **options: `timeout` (default: `pod_scheduled_before`, 5m20s) and the other options of every
            wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForNumberOfPods.
    """
    awaited = number_of_pods(namespace, count, selector=selector)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "pod_scheduled_before"))


def pods_running(namespace: str, count: int, *, selector: Selector | None = None) -> PodCount:
    """Return the condition of `wait_for_pods_running`."""
    number = check_count("count", count)
    return PodCount(
        namespace,
        normalize_label_selector(selector),
        number,
        _READY,
        is_running_and_ready,
        detect_owned_pod_failure,
    )


def wait_for_pods_running(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return the pods that are Running and ready once they are exactly `count`.

    As upstream, Running alone is not enough, and pods that are neither do not matter. Upstream
    takes a count of 0 for any number.

    Args:
        client: the official client.
        namespace: where the pods are.
        count: how many, exactly; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitFailed: it can no longer come: pods that are there are stuck, or have ended and nobody
            replaces them.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodsRunning.
    """
    awaited = pods_running(namespace, count, selector=selector)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "pod"))


def pods_scheduling_gated(
    namespace: str, count: int, *, selector: Selector | None = None
) -> PodCount:
    """Return the condition of `wait_for_pods_scheduling_gated`."""
    number = check_count("count", count)
    return PodCount(
        namespace, normalize_label_selector(selector), number, " behind a scheduling gate", is_gated
    )


def wait_for_pods_scheduling_gated(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return the pods that wait behind a scheduling gate once they are exactly `count`.

    The scheduler says so in their PodScheduled condition. Upstream takes a count of 0 for any
    number.

    Args:
        client: the official client.
        namespace: where the pods are.
        count: how many, exactly; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodsSchedulingGated.
    """
    awaited = pods_scheduling_gated(namespace, count, selector=selector)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "pod"))


def pods_with_scheduling_gates(
    namespace: str, count: int, gates: Sequence[str], *, selector: Selector | None = None
) -> PodCount:
    """Return the condition of `wait_for_pods_with_scheduling_gates`."""
    number = check_count("count", count)
    names = _gates(gates)
    what = f" with scheduling gates {', '.join(names)}" if names else " without scheduling gates"
    return PodCount(namespace, normalize_label_selector(selector), number, what, has_gates(names))


def wait_for_pods_with_scheduling_gates(
    client: ApiClient,
    namespace: str,
    count: int,
    gates: Sequence[str],
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> list[dict[str, Any]]:
    """Return the pods that have exactly these scheduling gates once they are exactly `count`.

    Upstream takes a count of 0 for any number.

    Args:
        client: the official client.
        namespace: where the pods are.
        count: how many, exactly; 0 or more.
        gates: the names of all their gates, in order; empty for pods without any.
        selector: a label selector, text or mapping; all pods of the namespace if not given.
        **options: `timeout` (default: `pod`, 10 minutes) and the other options of every wait.

    Raises:
        ApiError: the server refuses.
        InvalidArgument: an argument that cannot be meant.
        WaitTimeout: it did not come within the limit.

    Source: pod/wait.go WaitForPodsWithSchedulingGates.
    """
    awaited = pods_with_scheduling_gates(namespace, count, gates, selector=selector)
    return cast("list[dict[str, Any]]", _wait(client, awaited, options, "pod"))


def _gates(gates: object) -> list[str]:
    if isinstance(gates, str) or not isinstance(gates, Sequence):
        raise InvalidArgument("gates", gates, "use a list of the gates' names")
    return [check_text_argument("gates", gate) for gate in gates]


def _wait(client: ApiClient, condition: Condition, options: WaitOptions, timeout: str) -> Any:
    settings = resolve_options(options, timeout=timeout)
    return wait_for_condition(Session.of(client), condition, settings)
