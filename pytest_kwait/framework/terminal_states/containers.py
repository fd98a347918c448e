"""Terminal states of containers: ended, not startable, crash looping, image not available.

Source: the reasons of failed starts are those of
kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, the reasons of image failures those
of kubernetes/pkg/kubelet/images/types.go. Messages of runtimes and registries are not listed
anywhere: only those that are known to be final count as final.
"""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience

__all__ = [
    "NEVER_STARTED",
    "describe_exit",
    "describe_pod_end",
    "detect_crash_loop",
    "detect_finished_container",
    "detect_image_failure",
    "detect_init_container_failure",
    "detect_pod_end",
    "detect_start_failure",
    "will_restart",
]

NEVER_STARTED = frozenset({"ContainerCannotRun", "StartError"})
"""How a run ended that never began, in the words of containerd and of others."""


def describe_pod_end(pod: dict[str, Any]) -> str:
    """Return how a pod has ended, with its reason; empty for one that has not.

    A phase of Succeeded or Failed is never left: who replaces the pod makes another one.
    """
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return "the pod has succeeded"
    if phase != "Failed":
        return ""
    parts = (status.get("reason"), status.get("message"))
    why = ": ".join(" ".join(part.split()) for part in parts if part)
    return f"the pod has failed: {why or _describe_failed_container(status)}"


def detect_pod_end(pod: dict[str, Any], *, replaced: bool) -> TerminalState | None:
    """Return the doom of a pod that has ended; None for one that has not.

    Args:
        pod: the pod.
        replaced: whether a controller makes another one in its place: then nothing is lost.
    """
    text = describe_pod_end(pod)
    return TerminalState(text, Patience.SHORT) if text and not replaced else None


def _describe_failed_container(status: dict[str, Any]) -> str:
    """Return how the first container ended that did not end well."""
    for statuses in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(statuses) or ():
            state, facts = get_current_state(container)
            code = facts.get("exitCode")
            if state == "terminated" and code != 0:
                text = f"container {container.get('name')} ended with {describe_exit(facts)}"
                message = " ".join((facts.get("message") or "").split())
                # What a container wrote of its own accord is in the log; this is the runtime's.
                told = message and facts.get("reason") in NEVER_STARTED
                return f"{text}: {message}" if told else text
    return "no reason is given"


def describe_exit(terminated: dict[str, Any]) -> str:
    """Return exit code and reason of a container's end, as they stand in a sentence."""
    code, reason = terminated.get("exitCode"), terminated.get("reason")
    text = "an unknown exit code" if code is None else f"exit code {code}"
    return text if reason in (None, "", "Error", "Completed") else f"{text} ({reason})"


# What is wrong with the pod itself, which cannot be changed any more; a config map, a secret or a
# volume that is missing may still come.
_FINAL_START_MESSAGES = {
    "CreateContainerConfigError": (
        "runasnonroot and image will run as root",
        "runasnonroot and image has non-numeric user",
        "cannot be run as root",
    ),
    "CreateContainerError": ("no command specified",),
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


def detect_start_failure(status: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a container that cannot be started; None for any other."""
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting":
        return None
    if reason in _FINAL_START_MESSAGES:
        message = " ".join((facts.get("message") or "").split())
        patience = Patience.SHORT if _is_final_start_message(reason, message) else Patience.LONG
        return TerminalState(f"{reason}: {message}" if message else reason, patience)
    last = (status.get("lastState") or {}).get("terminated") or {}
    if reason == "CrashLoopBackOff" and last.get("reason") in NEVER_STARTED:
        message = " ".join((last.get("message") or "").split())
        if _is_final_start_message("RunContainerError", message):
            return TerminalState(f"{last['reason']}: {message}", Patience.SHORT)
    return None


def _is_final_start_message(reason: str, message: str) -> bool:
    return any(phrase in message.lower() for phrase in _FINAL_START_MESSAGES[reason])


CRASH_LOOP_RESTARTS = 3
"""So many restarts are taken for a start that needs a few tries (a database not there yet)."""


def detect_crash_loop(status: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a container that the kubelet no longer starts at once; else None.

    With the kubelet's pauses of 10, 20, 40, 80 seconds the pause must outlast the grace as well,
    so that a container that crashes twice and then runs is never called doomed. Since Kubernetes
    1.33 a kubelet sleeps through the pause, and may say only at its end that there was one: until
    then the container has ended, badly.
    """
    state, facts = get_current_state(status)
    restarts = status.get("restartCount") or 0
    if restarts < CRASH_LOOP_RESTARTS:
        return None
    if state == "terminated" and facts.get("exitCode") not in (None, 0):
        last = facts
    elif state == "waiting" and facts.get("reason") == "CrashLoopBackOff":
        last = (status.get("lastState") or {}).get("terminated") or {}
    else:
        return None
    how = f"exit code {last['exitCode']}" if last.get("exitCode") is not None else "ended"
    why = f" ({last['reason']})" if last.get("reason") not in (None, "Error", "Completed") else ""
    text = f"CrashLoopBackOff: container {status.get('name')} was restarted {restarts} times, {how}"
    return TerminalState(text + why, Patience.LONG)


def will_restart(pod: dict[str, Any], name: str, terminated: dict[str, Any]) -> bool | None:
    """Say whether the kubelet starts a container again that has ended; None where nobody knows.

    The pod's policy decides, or the container's own. Rules of its own by exit code are taken for
    unknown, and so is a pod whose policy was not read.

    Args:
        pod: the pod.
        name: the container's name.
        terminated: how it has ended.

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
                # One that is done is done; only a sidecar has a policy of its own.
                policy = "OnFailure"
    if policy == "OnFailure":
        return failed
    return {"Always": True, "Never": False}.get(policy or "")


def detect_finished_container(pod: dict[str, Any], name: str = "") -> TerminalState | None:
    """Return the doom of a pod of which a container has ended for good; None while all may run.

    Args:
        pod: the pod; its spec must name its restart policy, or nothing is said.
        name: the only container that matters; empty for all of them, init containers apart.
    """
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state, facts = get_current_state(container)
        its_name = container.get("name") or ""
        if state != "terminated" or (name and its_name != name):
            continue
        if will_restart(pod, its_name, facts) is False:
            text = f"container {its_name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Patience.SHORT)
    return None


def detect_init_container_failure(pod: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a pod by its init containers; None while they may get through.

    One that failed and is not started again holds for sure; one that crashes again and again may
    yet get through, so its doom may pass.
    """
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state, facts = get_current_state(container)
        name = container.get("name") or ""
        failed = state == "terminated" and facts.get("exitCode") not in (None, 0)
        if failed and will_restart(pod, name, facts) is False:
            text = f"init container {name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Patience.SHORT)
        if (doom := detect_crash_loop(container)) is not None:
            return TerminalState(
                doom.reason.replace("container", "init container", 1), doom.patience
            )
    return None


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


def detect_image_failure(
    status: dict[str, Any], before: TerminalState | None
) -> TerminalState | None:
    """Return the doom of a container whose image cannot be had; None for any other.

    Args:
        status: the container's status.
        before: what its pod was doomed by before: while the kubelet pauses, its message may say
            no more than that it does, and what the last try said still holds.
    """
    state, facts = get_current_state(status)
    reason = facts.get("reason") or ""
    if state != "waiting" or reason not in _IMAGE_REASONS:
        return None
    message = " ".join((facts.get("message") or "").split())
    patience = _image_patience(reason, message)
    if patience is None:
        if before is not None and before.reason.split(":")[0] in _IMAGE_REASONS:
            return before
        patience = Patience.LONG
    return TerminalState(f"{reason}: {message}" if message else reason, patience)


def _image_patience(reason: str, message: str) -> Patience | None:
    """Return how sure a message is; None where it says nothing either way."""
    if reason == "InvalidImageName":
        return Patience.SHORT
    text = message.lower()
    if any(phrase in text for phrase in _TRANSIENT_IMAGE_MESSAGES):
        return Patience.LONG
    if any(phrase in text for phrase in _FINAL_IMAGE_MESSAGES):
        return Patience.SHORT
    return None
