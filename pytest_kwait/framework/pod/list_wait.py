"""Waits on lists of pods: by number, by label selector, or all of a namespace.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.selectors import Selector, normalize_label_selector
from pytest_kwait.engine.options import WaitOptions, check_count, check_text
from pytest_kwait.engine.pod_fields import is_finished
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid
from pytest_kwait.framework.pod.list_conditions import (
    AllPods,
    AlmostAllPods,
    PodCount,
    RunningReadyPods,
    detect_unplaced,
    has_gates,
    is_gated,
    is_present,
    is_running,
    is_running_and_ready,
    is_scheduled,
)
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import (
    detect_not_running,
    detect_owned_pod_failure,
    detect_pod_end,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.framework.registry import ConditionOf

_READY = " Running and ready"


@wait(limit="pod_scheduled_before", summary="an exact number of pods")
def wait_for_number_of_pods(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods of a namespace once there are exactly `count`, in any phase.

    Pods that are being deleted count until they are gone. Upstream ignores its limit argument, and
    treats a count of 0 as any number.

    Args:
        count: the exact number; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.

    Source: pod/wait.go WaitForNumberOfPods.
    """
    number = check_count("count", count)
    return PodCount(namespace, normalize_label_selector(selector), number, "", is_present)


@wait(limit="pod", summary="an exact number of pods that are Running and ready")
def wait_for_pods_running(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods that are Running and ready once there are exactly `count`.

    As upstream, Running alone is not enough, and pods that are neither do not matter. Upstream
    takes a count of 0 for any number.

    Args:
        count: how many, exactly; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.

    Raises:
        WaitFailed: pods are stuck, or have ended and are not replaced.

    Source: pod/wait.go WaitForPodsRunning.
    """
    number = check_count("count", count)
    return PodCount(
        namespace,
        normalize_label_selector(selector),
        number,
        _READY,
        is_running_and_ready,
        detect_owned_pod_failure,
    )


@wait(limit="pod", summary="an exact number of pods behind scheduling gates")
def wait_for_pods_scheduling_gated(
    client: ApiClient,
    namespace: str,
    count: int,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods held by a scheduling gate once there are exactly `count`.

    The scheduler reports it in their PodScheduled condition. Upstream treats a count of 0 as any
    number.

    Args:
        count: the exact number; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.

    Source: pod/wait.go WaitForPodsSchedulingGated.
    """
    number = check_count("count", count)
    return PodCount(
        namespace, normalize_label_selector(selector), number, " behind a scheduling gate", is_gated
    )


@wait(limit="pod", summary="an exact number of pods with exactly these gates")
def wait_for_pods_with_scheduling_gates(
    client: ApiClient,
    namespace: str,
    count: int,
    gates: Sequence[str],
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods with exactly these scheduling gates once there are `count`.

    Upstream treats a count of 0 as any number.

    Args:
        count: the exact number; 0 or more.
        gates: the names of all their gates, in order; empty for pods without any.
        selector: a label selector, text or mapping; all pods of the namespace if not given.

    Source: pod/wait.go WaitForPodsWithSchedulingGates.
    """
    number = check_count("count", count)
    names = _gates(gates)
    gates_text = (
        f" with scheduling gates {', '.join(names)}" if names else " without scheduling gates"
    )
    return PodCount(
        namespace, normalize_label_selector(selector), number, gates_text, has_gates(names)
    )


def _gates(gates: object) -> list[str]:
    if isinstance(gates, str) or not isinstance(gates, Sequence):
        raise InvalidArgument("gates", gates, "use a list of the gates' names")
    return [check_text("gates", gate) for gate in gates]


@wait(limit="pods_list", summary="a pod with a label")
def wait_for_pods_with_label(
    client: ApiClient, namespace: str, selector: Selector, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods with a label once there is at least one, in whatever phase.

    Args:
        selector: a label selector, text or mapping.

    Source: pod/wait.go WaitForPodsWithLabel.
    """
    return AllPods(namespace, _check_labels(selector), 1, "", is_present)


@wait(limit="pod_scheduled_before", summary="pods with a label, all with a node")
def wait_for_pods_with_label_scheduled(
    client: ApiClient, namespace: str, selector: Selector, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods with a label once at least one exists and all have a node.

    Args:
        selector: a label selector, text or mapping.

    Raises:
        WaitFailed: the scheduler finds no node for a pod.

    Source: pod/wait.go WaitForPodsWithLabelScheduled.
    """
    return AllPods(
        namespace, _check_labels(selector), 1, " scheduled", is_scheduled, detect_unplaced
    )


@wait(limit="pod", summary="enough pods with a label, all in phase Running")
def wait_for_pods_with_label_running(
    client: ApiClient,
    namespace: str,
    selector: Selector,
    count: int = 1,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return at least `count` pods with a label once all are in phase Running.

    They need not be ready.

    Args:
        selector: a label selector, text or mapping.
        count: the minimum number; 1 or more.

    Raises:
        WaitFailed: pods are stuck, or have ended and are not replaced.

    Source: pod/wait.go WaitForPodsWithLabelRunningReady, without its second half.
    """
    number = check_count("count", count, least=1)
    return AllPods(
        namespace, _check_labels(selector), number, " Running", is_running, _detect_not_running
    )


@wait(limit="pod", summary="enough pods with a label, all Running and ready")
def wait_for_pods_with_label_running_ready(
    client: ApiClient,
    namespace: str,
    selector: Selector,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return at least `count` pods with a label once all are Running and ready.

    Upstream documents an exact number but checks for a minimum; so does this.

    Args:
        selector: a label selector, text or mapping.
        count: the minimum number; 1 or more.

    Raises:
        WaitFailed: pods are stuck, or have ended and are not replaced.

    Source: pod/wait.go WaitForPodsWithLabelRunningReady.
    """
    number = check_count("count", count, least=1)
    return AllPods(
        namespace,
        _check_labels(selector),
        number,
        _READY,
        is_running_and_ready,
        detect_owned_pod_failure,
    )


@wait(limit="pod", summary="enough pods Running and ready, and few that are not")
def wait_for_pods_running_ready(
    client: ApiClient,
    namespace: str,
    min_count: int,
    allowed_not_ready: int = 0,
    *,
    selector: Selector | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the Running and ready pods once they suffice and few others remain.

    Succeeded pods are ignored, and failed ones that have a controller. Where some pods may be not
    ready, upstream's older form waits for them until its limit anyway; this returns as soon as few
    enough remain.

    Args:
        min_count: the minimum number of Running and ready pods; 0 or more.
        allowed_not_ready: the maximum number of others; 0 or more.
        selector: a label selector, text or mapping; all pods of the namespace if not given.

    Raises:
        WaitFailed: pods are stuck, or have ended and are not replaced.

    Source: pod/wait.go WaitForPodsRunningReady.
    """
    least = check_count("min_count", min_count)
    allowed = check_count("allowed_not_ready", allowed_not_ready)
    return RunningReadyPods(namespace, least, allowed, normalize_label_selector(selector))


@wait(
    limit="system_pods_startup", summary="enough pods Running and ready, and few replicas missing"
)
def wait_for_almost_all_pods_ready(
    client: ApiClient,
    namespace: str,
    min_count: int,
    allowed_not_ready: int = 0,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the ready pods once they suffice and controllers have their replicas.

    Beyond `wait_for_pods_running_ready`, ReplicationControllers and ReplicaSets must have their
    desired number of ready replicas, less `allowed_not_ready`. Upstream treats any error, list
    errors included, as success if the last pods seen sufficed, and returns at once for a count of
    -1; here errors are raised and -1 is refused.

    Args:
        min_count: the minimum number of Running and ready pods; 0 or more.
        allowed_not_ready: the maximum number of other pods, and of missing replicas; 0 or more.

    Raises:
        WaitFailed: pods are stuck, or have ended and are not replaced.

    Source: pod/wait.go WaitForAlmostAllPodsReady.
    """
    least = check_count("min_count", min_count)
    allowed = check_count("allowed_not_ready", allowed_not_ready)
    return AlmostAllPods(namespace, least, allowed)


def _check_labels(selector: Selector) -> str:
    text = normalize_label_selector(selector)
    if text is None:
        raise InvalidArgument("selector", selector, "use labels that select something")
    return text


def _detect_not_running(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    ended = detect_pod_end(pod, replaced=bool(controller_uid(pod)))
    return ended if is_finished(pod) else detect_not_running(pod, before)
