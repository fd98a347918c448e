"""What one container of a pod can be awaited to be: pure functions from the pod's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.pod.conditions import PodGoal, to_pending
from pytest_kwait.framework.terminal_states.endings import describe_exit, describe_pod_end
from pytest_kwait.framework.terminal_states.finished_containers import will_restart
from pytest_kwait.framework.terminal_states.pods import detect_not_running, detect_not_staying_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.engine.object_counter import TerminalState

__all__ = ["failing", "running", "started", "terminated"]

_KINDS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


def started(name: str) -> PodGoal:
    """Return the goal of a container that runs and has passed its startup probe."""

    def judge(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if status.get("started"):
            return Met()
        return _end_verdict(pod, status) or Pending(
            f"container {name} is not started{_describe_state(status)}"
        )

    return _goal(name, "started", judge, stay=True)


def running(name: str) -> PodGoal:
    """Return the goal of a container in state running."""

    def judge(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if get_current_state(status)[0] == "running":
            return Met()
        return _end_verdict(pod, status) or Pending(
            f"container {name} is not running{_describe_state(status)}"
        )

    return _goal(name, "running", judge)


def terminated(name: str) -> PodGoal:
    """Return the goal of a container in state terminated."""

    def judge(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        if get_current_state(status)[0] == "terminated":
            return Met()
        return Pending(f"container {name} is not terminated{_describe_state(status)}")

    return _goal(name, "terminated", judge, alive=False)


def failing(name: str, reason: str) -> PodGoal:
    """Return the goal of a container that waits for this reason."""

    def judge(pod: dict[str, Any], status: dict[str, Any]) -> Verdict:
        state, facts = get_current_state(status)
        if state == "waiting" and facts.get("reason") == reason:
            return Met()
        ended = describe_pod_end(pod)
        return Failed(ended) if ended else Pending(f"container {name}{_describe_state(status)}")

    return _goal(name, f"fail with reason {reason}", judge, doomed=False)


def _goal(
    name: str,
    text: str,
    judge: Callable[[dict[str, Any], dict[str, Any]], Verdict],
    *,
    doomed: bool = True,
    stay: bool = False,
    alive: bool = True,
) -> PodGoal:
    def find(pod: dict[str, Any]) -> Verdict:
        there, status = _status(pod, name)
        if status is not None:
            return judge(pod, status)
        ended = describe_pod_end(pod)
        if ended:
            return Failed(ended)
        if not there:
            # One to look into a running pod with may yet be added.
            has = ", ".join(_names(pod))
            return Failed(f"the pod has no container {name}, it has {has}", Patience.LONG)
        return to_pending(pod)

    def doom(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
        pod = _keep_blocking_containers(pod, name)
        return detect_not_running(pod, before) or (
            detect_not_staying_up(pod, before) if stay else None
        )

    return PodGoal(f"have container {name} {text}", find, doom if doomed else None, alive)


def _keep_blocking_containers(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """Leave out the containers that do not keep this one from anything."""
    status = dict(pod.get("status") or {})
    its_own = [c for c in status.get("containerStatuses") or () if c.get("name") == name]
    return {**pod, "status": {**status, "containerStatuses": its_own}}


def _status(pod: dict[str, Any], name: str) -> tuple[bool, dict[str, Any] | None]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for kind, statuses in _KINDS:
        for container in status.get(statuses) or ():
            if container.get("name") == name:
                return True, container
        if any(container.get("name") == name for container in spec.get(kind) or ()):
            return True, None
    return False, None


def _names(pod: dict[str, Any]) -> list[str]:
    spec = pod.get("spec") or {}
    return [str(each.get("name")) for kind, _ in _KINDS for each in spec.get(kind) or ()]


def _end_verdict(pod: dict[str, Any], status: dict[str, Any]) -> Failed | None:
    """Return the verdict on a container that has ended for good; else None."""
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
