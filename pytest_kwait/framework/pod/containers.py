"""Conditions and waits on one container of a pod, by its name.

Source: kubernetes/test/e2e/framework/pod/wait.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import check_text
from pytest_kwait.engine.pod_fields import get_current_state
from pytest_kwait.framework.pod.wait import PodGoal, PodGoalCondition, to_pending
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import (
    describe_exit,
    describe_pod_end,
    detect_not_running,
    detect_not_staying_up,
    will_restart,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.condition import TerminalState
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

_KINDS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


def started(name: str) -> PodGoal:
    """Return the goal of a container that runs and has passed its startup probe."""

    def evaluate(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if status.get("started"):
            return Met()
        return _end_verdict(pod, status) or Pending(
            f"container {name} is not started{_describe_state(status)}"
        )

    return _goal(name, "started", evaluate, stay=True)


def running(name: str) -> PodGoal:
    """Return the goal of a container in state running."""

    def evaluate(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if get_current_state(status)[0] == "running":
            return Met()
        return _end_verdict(pod, status) or Pending(
            f"container {name} is not running{_describe_state(status)}"
        )

    return _goal(name, "running", evaluate)


def begun(name: str) -> PodGoal:
    """Return the goal of a container that runs or has ended, as kubectl debug awaits it.

    Source: kubectl/pkg/cmd/debug/debug.go waitForContainer.
    """

    def evaluate(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if get_current_state(status)[0] in ("running", "terminated"):
            return Met()
        ended = describe_pod_end(pod)
        if ended:
            return Failed(ended)
        return Pending(f"container {name} is not running{_describe_state(status)}")

    return _goal(name, "running", evaluate)


def terminated(name: str) -> PodGoal:
    """Return the goal of a container in state terminated."""

    def evaluate(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if get_current_state(status)[0] == "terminated":
            return Met()
        return Pending(f"container {name} is not terminated{_describe_state(status)}")

    return _goal(name, "terminated", evaluate, alive=False)


def failing(name: str, reason: str) -> PodGoal:
    """Return the goal of a container that is waiting with this reason."""

    def evaluate(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        state, facts = get_current_state(status)
        if state == "waiting" and facts.get("reason") == reason:
            return Met()
        ended = describe_pod_end(pod)
        return Failed(ended) if ended else Pending(f"container {name}{_describe_state(status)}")

    return _goal(name, f"fail with reason {reason}", evaluate, may_fail=False)


def _goal(
    name: str,
    text: str,
    evaluate: Callable[[dict[str, Any], dict[str, Any]], Verdict],
    *,
    may_fail: bool = True,
    stay: bool = False,
    alive: bool = True,
) -> PodGoal:
    def find(pod: dict[str, Any]) -> Verdict:
        there, status = find_container_status(pod, name)
        if status is not None:
            return evaluate(pod, status)
        ended = describe_pod_end(pod)
        if ended:
            return Failed(ended)
        if not there:
            # An ephemeral container may still be added to a running pod.
            has = ", ".join(list_container_names(pod))
            return Failed(f"the pod has no container {name}, it has {has}", Grace.LONG)
        return to_pending(pod)

    def detect(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
        pod = keep_blocking_containers(pod, name)
        return detect_not_running(pod, before) or (
            detect_not_staying_up(pod, before) if stay else None
        )

    return PodGoal(f"have container {name} {text}", find, detect if may_fail else None, alive)


def keep_blocking_containers(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """Drop the containers that do not block this one; an ephemeral one counts as another."""
    status = dict(pod.get("status") or {})
    its_own = [
        container
        for statuses in ("containerStatuses", "ephemeralContainerStatuses")
        for container in status.get(statuses) or ()
        if container.get("name") == name
    ]
    return {**pod, "status": {**status, "containerStatuses": its_own}}


def find_container_status(pod: dict[str, Any], name: str) -> tuple[bool, dict[str, Any] | None]:
    """Return whether a pod has a container of this name, and its status; None without one."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for kind, statuses in _KINDS:
        for container in status.get(statuses) or ():
            if container.get("name") == name:
                return True, container
        if any(container.get("name") == name for container in spec.get(kind) or ()):
            return True, None
    return False, None


def list_container_names(pod: dict[str, Any]) -> list[str]:
    """Return the names of a pod's containers, init and ephemeral ones included."""
    spec = pod.get("spec") or {}
    return [str(container.get("name")) for kind, _ in _KINDS for container in spec.get(kind) or ()]


def _end_verdict(pod: dict[str, Any], status: dict[str, Any]) -> Failed | None:
    """Return the verdict on a container that has ended for good; None for others."""
    ended = describe_pod_end(pod)
    if ended:
        return Failed(ended)
    state, facts = get_current_state(status)
    name = status.get("name") or ""
    if state == "terminated" and will_restart(pod, name, facts) is False:
        return Failed(f"container {name} ended with {describe_exit(facts)}, to stay so")
    return None


def _describe_state(status: dict[str, Any]) -> str:
    state, facts = get_current_state(status)
    if state == "terminated":
        return f", terminated with {describe_exit(facts)}"
    return f", {state}{': ' + facts['reason'] if facts.get('reason') else ''}"


@wait(limit="pod", kind=PODS, summary="a container that has passed its startup probe")
def wait_for_container_started(
    client: ApiClient, namespace: str, name: str, container: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once one of its containers runs and has started.

    Started means that its startup probe has passed. Upstream finds the container by its index in
    the list of statuses, which is ordered differently from the spec, and dereferences nil before
    the kubelet has reported.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForPodContainerStarted, WaitForPodInitContainerStarted.
    """
    return _container_condition(namespace, name, started, container)


@wait(limit="pod", kind=PODS, summary="a container that runs")
def wait_for_container_running(
    client: ApiClient, namespace: str, name: str, container: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once one of its containers is in state running.

    Init and ephemeral containers count as well.

    Raises:
        WaitFailed: the pod has ended, is being deleted or was, or cannot get there.

    Source: pod/wait.go WaitForContainerRunning.
    """
    return _container_condition(namespace, name, running, container)


@wait(limit="pod", kind=PODS, summary="a container that has ended")
def wait_for_container_terminated(
    client: ApiClient, namespace: str, name: str, container: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once one of its containers is in state terminated.

    A container that restarts at once may be missed, above all in `poll` mode. Init and ephemeral
    containers count as well.

    Raises:
        WaitFailed: the pod was deleted, or the container cannot start.

    Source: pod/wait.go WaitForContainerTerminated.
    """
    return _container_condition(namespace, name, terminated, container)


@wait(limit="pod", kind=PODS, summary="a container that waits for a reason")
def wait_for_container_to_fail(
    client: ApiClient,
    namespace: str,
    name: str,
    container: str,
    reason: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a pod once one of its containers is waiting with a reason.

    Upstream finds the container by its index in the list of statuses, and checks only while the pod
    is Pending; here a container of a running pod may fail as well.

    Args:
        reason: the waiting reason, for example `CreateContainerConfigError`.

    Raises:
        WaitFailed: the pod has ended, or is being deleted.

    Source: pod/wait.go WaitForPodContainerToFail.
    """
    text = check_text("reason", reason)
    return _container_condition(
        namespace, name, lambda container_status: failing(container_status, text), container
    )


def _container_condition(
    namespace: str, pod: str, goal: Callable[[str], PodGoal], container: str
) -> PodGoalCondition:
    return PodGoalCondition(namespace, pod, goal(check_namespace(container, "container")))
