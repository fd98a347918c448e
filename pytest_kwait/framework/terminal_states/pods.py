"""Terminal states of pods and containers: unschedulable, not startable, crash looping, ended.

Source: the reasons of failed starts are those of
kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, the reasons of image failures those
of kubernetes/pkg/kubelet/images/types.go. Messages of runtimes and registries are not listed
anywhere: only those that are known to be final count as final.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.condition import Grace, TerminalState
from pytest_kwait.engine.pod_fields import get_current_state
from pytest_kwait.framework.named_objects import controller_uid

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER_STARTED = frozenset({"ContainerCannotRun", "StartError"})
"""Termination reasons of containers that never started, of containerd and other runtimes."""
CRASH_LOOP_RESTARTS = 2
"""The minimum restarts of a crash loop; fewer are a slow start (a database not there yet)."""

# Errors of the pod itself, which cannot be changed any more. A missing config map, secret or
# volume may still be created.
_FINAL_START_MESSAGES = {
    "CreateContainerConfigError": (
        "runasnonroot and image will run as root",
        "runasnonroot and image has non-numeric user",
        "cannot be run as root",
    ),
    "CreateContainerError": (
        "no command specified",
        # Of the embedded cluster: paths that its programs cannot have on this machine.
        "without namespaces mounts are links",
    ),
    "RunContainerError": (
        "executable file not found",
        "no such file or directory",
        "permission denied",
        "exec format error",
    ),
    "PreCreateHookError": (),
    "PreStartHookError": (),
    "PostStartHookError": (),
}

_IMAGE_REASONS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)

_TRANSIENT_IMAGE_MESSAGES = (
    "no such host",
    "i/o timeout",
    "timed out",
    "timeout exceeded",
    "tls handshake timeout",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "server misbehaving",
    "temporary failure",
    "unexpected eof",
    "too many requests",
    "toomanyrequests",
    "rate limit",
    "status code 5",
    "500 internal server error",
    "502 bad gateway",
    "503 service",
    "504 gateway",
    "service unavailable",
    "pull qps exceeded",
)

_FINAL_IMAGE_MESSAGES = (
    "manifest unknown",
    "name unknown",
    "no match for platform",
    "pull access denied",
    "access denied",
    "authorization failed",
    "authentication required",
    "insufficient_scope",
    "unauthorized",
    "403 forbidden",
    "invalid reference format",
    ": not found",
    "code = notfound",
    "repository does not exist",
    "does not exist or no pull access",
)


def describe_pod_end(pod: dict[str, Any]) -> str:
    """Return how a pod has ended, with its reason; empty if it has not.

    The phases Succeeded and Failed are final: a replacement is another pod. The kubelet sets the
    phase Failed of a pod that is deleted before it has ended by itself; the deletion is the cause.
    """
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return "the pod has succeeded"
    if phase != "Failed":
        return ""
    parts = (status.get("reason"), status.get("message"))
    why = ": ".join(" ".join(part.split()) for part in parts if part)
    why = why or _describe_failed_container(status)
    if pod["metadata"].get("deletionTimestamp"):
        return f"the pod is being deleted, and has failed{f': {why}' if why else ''}"
    return f"the pod has failed: {why or 'no reason is given'}"


def detect_pod_end(pod: dict[str, Any], *, replaced: bool) -> TerminalState | None:
    """Return the terminal state of a pod that has ended; None for any other.

    Args:
        replaced: whether a controller replaces the pod; then the result is None.
    """
    text = describe_pod_end(pod)
    return TerminalState(text, Grace.SHORT) if text and not replaced else None


def _describe_failed_container(status: dict[str, Any]) -> str:
    """Return how the first failed container ended; empty if none has."""
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(statuses) or ():
            state, facts = get_current_state(container)
            code = facts.get("exitCode")
            if state == "terminated" and code != 0:
                text = f"container {container.get('name')} ended with {describe_exit(facts)}"
                message = " ".join((facts.get("message") or "").split())
                # A message that a container wrote itself is in the log; this one is the runtime's.
                has_message = message and facts.get("reason") in NEVER_STARTED
                return f"{text}: {message}" if has_message else text
    return ""


def describe_exit(terminated: dict[str, Any]) -> str:
    """Return exit code and reason of a container's end, as they appear in a sentence."""
    code, reason = terminated.get("exitCode"), terminated.get("reason")
    text = "an unknown exit code" if code is None else f"exit code {code}"
    return text if reason in (None, "", "Error", "Completed") else f"{text} ({reason})"


def detect_start_failure(status: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of a container that cannot be started; None for any other."""
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting":
        return None
    if reason in _FINAL_START_MESSAGES:
        message = " ".join((facts.get("message") or "").split())
        grace = Grace.SHORT if _is_final_start_message(reason, message) else Grace.LONG
        return TerminalState(f"{reason}: {message}" if message else reason, grace)
    last = (status.get("lastState") or {}).get("terminated") or {}
    if reason == "CrashLoopBackOff" and last.get("reason") in NEVER_STARTED:
        message = " ".join((last.get("message") or "").split())
        if _is_final_start_message("RunContainerError", message):
            return TerminalState(f"{last['reason']}: {message}", Grace.SHORT)
    return None


def _is_final_start_message(reason: str, message: str) -> bool:
    return any(phrase in message.lower() for phrase in _FINAL_START_MESSAGES[reason])


def detect_crash_loop(pod: dict[str, Any], status: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of a container in crash loop back-off; else None.

    It begins with the third crash, so a container that crashes twice and then runs never fails the
    wait. If all were of the same kind, and it was not ready in between, the grace begins with the
    first one, however long the container runs each time; else the pause must outlast the grace.
    The kubelet's pauses are 10, 20, 40 and 80 seconds, none after the first crash. Since Kubernetes
    1.33 a kubelet may report a pause only at its end; until then the container is terminated, with
    exit code 0 too if it is restarted all the same.

    Args:
        status: the container's status.
    """
    state, facts = get_current_state(status)
    restarts = status.get("restartCount") or 0
    if restarts < CRASH_LOOP_RESTARTS:
        return None
    failed = facts.get("exitCode") not in (None, 0)
    if state == "terminated" and (failed or will_restart(pod, status.get("name") or "", facts)):
        last = facts
    elif state == "waiting" and facts.get("reason") == "CrashLoopBackOff":
        last = (status.get("lastState") or {}).get("terminated") or {}
    else:
        return None
    how = f"exit code {last['exitCode']}" if last.get("exitCode") is not None else "ended"
    why = f" ({last['reason']})" if last.get("reason") not in (None, "Error", "Completed") else ""
    text = f"CrashLoopBackOff: container {status.get('name')} was restarted {restarts} times, {how}"
    return TerminalState(text + why, Grace.LONG, repeats=True)


def will_restart(pod: dict[str, Any], name: str, terminated: dict[str, Any]) -> bool | None:
    """Return whether the kubelet restarts a terminated container; None if unknown.

    The pod's restart policy decides, or the container's own. The result is None for a container
    with `restartPolicyRules`, and for a pod whose policy was not read.

    Args:
        name: the container's name.

    Source: kubernetes/pkg/kubelet/container/helpers.go, ShouldContainerBeRestarted.
    """
    spec = pod.get("spec") or {}
    policy, failed = spec.get("restartPolicy"), terminated.get("exitCode") != 0
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            if container.get("name") != name:
                continue
            if container.get("restartPolicyRules"):
                return None
            if container.get("restartPolicy"):
                policy = container["restartPolicy"]
            elif kind == "initContainers" and policy == "Always":
                # A succeeded init container is not restarted; only a sidecar has its own policy.
                policy = "OnFailure"
    if policy == "OnFailure":
        return failed
    return {"Always": True, "Never": False}.get(policy or "")


def detect_finished_container(pod: dict[str, Any], name: str = "") -> TerminalState | None:
    """Return the terminal state of a pod with a finished container; None for any other.

    Args:
        pod: the pod; without a restart policy in its spec the result is None.
        name: the only container to check; empty for all but init containers.
    """
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state, facts = get_current_state(container)
        its_name = container.get("name") or ""
        if state != "terminated" or (name and its_name != name):
            continue
        if will_restart(pod, its_name, facts) is False:
            text = f"container {its_name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Grace.SHORT)
    return None


def detect_init_container_failure(pod: dict[str, Any]) -> TerminalState | None:
    """Return a pod's terminal state by its init containers; None while they may succeed.

    A failed init container that is not restarted is final. One in a crash loop may still succeed,
    so its terminal state may pass.
    """
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state, facts = get_current_state(container)
        name = container.get("name") or ""
        failed = state == "terminated" and facts.get("exitCode") not in (None, 0)
        if failed and will_restart(pod, name, facts) is False:
            text = f"init container {name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Grace.SHORT)
        if (terminal := detect_crash_loop(pod, container)) is not None:
            reason = terminal.reason.replace("container", "init container", 1)
            return replace(terminal, reason=reason)
    return None


def detect_image_failure(
    status: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return the terminal state of a container without a usable image; None for any other.

    Args:
        status: the container's status.
        before: the pod's terminal state so far. It still holds during a back-off, whose message may
            not repeat the error of the last attempt.
    """
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting" or reason not in _IMAGE_REASONS:
        return None
    message = " ".join((facts.get("message") or "").split())
    grace = _image_grace(reason, message)
    if grace is None:
        if before is not None and before.reason.split(":")[0] in _IMAGE_REASONS:
            return before
        grace = Grace.LONG
    return TerminalState(f"{reason}: {message}" if message else reason, grace)


def _image_grace(reason: str, message: str) -> Grace | None:
    """Return how permanent a message is; None if it is inconclusive."""
    if reason == "InvalidImageName":
        return Grace.SHORT
    text = message.lower()
    if any(phrase in text for phrase in _TRANSIENT_IMAGE_MESSAGES):
        return Grace.LONG
    if any(phrase in text for phrase in _FINAL_IMAGE_MESSAGES):
        return Grace.SHORT
    return None


def detect_unschedulable(pod: dict[str, Any]) -> TerminalState | None:
    """Return the terminal state of an unschedulable pod by its PodScheduled condition; else None.

    It may pass: a node may be added, or room made on one. A scheduling gate is no terminal state.
    """
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
                message = " ".join((condition.get("message") or "").split())
                return TerminalState(
                    f"Unschedulable: {message}" if message else "Unschedulable", Grace.LONG
                )
            return None
    return None


def detect_not_starting(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod's containers will not start; None while they may.

    Args:
        before: its terminal state so far.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    if (terminal := detect_unschedulable(pod)) is not None:
        return terminal
    for container in _container_statuses(status):
        terminal = detect_image_failure(container, before) or detect_start_failure(container)
        if terminal is not None:
            return terminal
    return None


def detect_not_staying_up(
    pod: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return why a pod's containers will not start and stay up; None while they may."""
    terminal = detect_not_starting(pod, before)
    status = pod.get("status") or {}
    if terminal is not None or status.get("phase") in ("Succeeded", "Failed"):
        return terminal
    for container in _container_statuses(status):
        if (terminal := detect_crash_loop(pod, container)) is not None:
            return terminal
    return None


def detect_not_running(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod will not reach phase Running; None while it may.

    A crash loop of an init container prevents that phase; one of another container does not.
    """
    return detect_not_starting(pod, before) or detect_init_container_failure(pod)


def detect_not_ready(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return why a pod will not become ready; None while it may."""
    return (
        detect_not_running(pod, before)
        or detect_not_staying_up(pod, before)
        or detect_finished_container(pod)
    )


def detect_owned_pod_failure(
    pod: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return why neither an owned pod nor its replacement will become ready; else None."""
    ended = detect_pod_end(pod, replaced=bool(controller_uid(pod)))
    phase = (pod.get("status") or {}).get("phase")
    return ended if phase in ("Succeeded", "Failed") else detect_not_ready(pod, before)


def _container_statuses(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
