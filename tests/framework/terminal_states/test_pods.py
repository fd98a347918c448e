from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.engine.condition import Grace, TerminalState
from pytest_kwait.framework.terminal_states.pods import (
    describe_pod_end,
    detect_image_failure,
    detect_not_starting,
    detect_not_staying_up,
)
from tests.objects import pod

SHORT, LONG = Grace.SHORT, Grace.LONG


@pytest.mark.parametrize(
    ("reason", "message", "grace"),
    [
        ("InvalidImageName", 'couldn\'t parse image name "UP": invalid reference format', SHORT),
        ("ErrImagePull", 'failed to resolve reference "x:1": x:1: not found', SHORT),
        ("ErrImagePull", "rpc error: code = NotFound desc = no such manifest", SHORT),
        ("ErrImagePull", "manifest for x:1 not found: manifest unknown", SHORT),
        ("ErrImagePull", "pull access denied for x, repository does not exist", SHORT),
        ("ErrImagePull", "unexpected status from HEAD request: 403 Forbidden", SHORT),
        ("ErrImagePull", "failed to authorize: 401 Unauthorized", SHORT),
        ("ErrImagePull", "no match for platform in manifest: not found", SHORT),
        ("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: x: not found', SHORT),
        ("ErrImagePull", "dial tcp: lookup x.invalid on 10.0.0.10:53: no such host", LONG),
        ("ErrImagePull", "lookup x.example on 127.0.0.11:53: server misbehaving", LONG),
        ("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout", LONG),
        ("ErrImagePull", "net/http: TLS handshake timeout", LONG),
        ("ErrImagePull", "context deadline exceeded", LONG),
        ("ErrImagePull", "connect: connection refused", LONG),
        (
            "ErrImagePull",
            "429 Too Many Requests - toomanyrequests: rate limit; access denied",
            LONG,
        ),
        ("ErrImagePull", "unexpected status code: 503 Service Unavailable", LONG),
        ("ErrImagePull", "something nobody has heard of", LONG),
        ("ErrImageNeverPull", 'Container image "x" is not present with pull policy of Never', LONG),
        ("ImageInspectError", "failed to inspect image", LONG),
        ("RegistryUnavailable", "", LONG),
        ("ImagePullBackOff", 'Back-off pulling image "x"', LONG),
        ("CreateContainerConfigError", 'configmap "x" not found', LONG),
        ("CreateContainerConfigError", "couldn't find key k in Secret ci-1/x", LONG),
        (
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root (pod: x)",
            SHORT,
        ),
        ("CreateContainerError", "context deadline exceeded", LONG),
        ("CreateContainerError", "no command specified", SHORT),
        (
            "CreateContainerError",
            'Volume "v" is not at /v: without namespaces mounts are links below $A; read it there',
            SHORT,
        ),
        ("CreateContainerError", 'Port 80 of pod "t/p" is in use by pod "t/first"', LONG),
        ("RunContainerError", 'exec: "nope": executable file not found in $PATH', SHORT),
        ("RunContainerError", "failed to mount volume", LONG),
    ],
)
def test_waiting_containers(reason: str, message: str, grace: Grace) -> None:
    waiting = pod("a", "Pending", waiting=(reason, message))

    terminal = detect_not_starting(waiting, None)

    assert terminal == TerminalState(f"{reason}: {message}" if message else reason, grace)


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "", None])
def test_starting_containers_have_no_terminal_state(reason: str | None) -> None:
    assert detect_not_starting(pod("a", "Pending", waiting=(reason, None)), None) is None


def test_a_back_off_without_message_keeps_the_last_message() -> None:
    previous = TerminalState("ErrImagePull: x: not found", SHORT)
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}

    assert detect_image_failure({"state": {"waiting": waiting}}, previous) is previous
    other = TerminalState("Unschedulable: 0/2", LONG)
    assert detect_image_failure({"state": {"waiting": waiting}}, other) == TerminalState(
        'ImagePullBackOff: Back-off pulling image "x"', LONG
    )


def scheduled(status: str, reason: str, message: str | None) -> dict[str, Any]:
    facts = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
    return pod("a", "Pending", nodeName=None, conditions=[facts])


def test_scheduling() -> None:
    message = "0/2 nodes are available:\n 2 Insufficient cpu."

    assert detect_not_starting(scheduled("False", "Unschedulable", message), None) == TerminalState(
        "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.", LONG
    )
    assert detect_not_starting(scheduled("False", "Unschedulable", None), None) == TerminalState(
        "Unschedulable", LONG
    )
    assert detect_not_starting(scheduled("False", "SchedulingGated", "gated"), None) is None
    assert detect_not_starting(scheduled("True", "", None), None) is None


def test_init_containers_count() -> None:
    waiting = {"reason": "CreateContainerError", "message": "no command specified"}
    stuck = pod(
        "a", "Pending", initContainerStatuses=[{"name": "i", "state": {"waiting": waiting}}]
    )

    assert detect_not_starting(stuck, None) == TerminalState(
        "CreateContainerError: no command specified", SHORT
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_have_no_terminal_state(phase: str) -> None:
    ended = pod("a", phase, waiting=("ErrImagePull", "manifest unknown"))

    assert detect_not_starting(ended, None) is None
    assert detect_not_staying_up(ended, None) is None


def looping(restarts: int, **last: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": last or None},
    }
    return pod("a", "Running", containerStatuses=[container])


def test_crash_loops() -> None:
    assert detect_not_staying_up(looping(1, exitCode=1), None) is None
    assert detect_not_staying_up(looping(2, exitCode=1), None) == TerminalState(
        "CrashLoopBackOff: container main was restarted 2 times, exit code 1", LONG
    )
    assert detect_not_staying_up(looping(3, exitCode=1, reason="Error"), None) == TerminalState(
        "CrashLoopBackOff: container main was restarted 3 times, exit code 1", LONG
    )
    assert detect_not_staying_up(
        looping(9, exitCode=137, reason="OOMKilled"), None
    ) == TerminalState(
        "CrashLoopBackOff: container main was restarted 9 times, exit code 137 (OOMKilled)", LONG
    )
    assert detect_not_staying_up(looping(3), None) == TerminalState(
        "CrashLoopBackOff: container main was restarted 3 times, ended", LONG
    )
    assert detect_not_starting(looping(9, exitCode=1), None) is None


def test_a_pause_that_the_kubelet_does_not_name_yet() -> None:
    ended = looping(3)
    container = ended["status"]["containerStatuses"][0]
    container["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}

    assert detect_not_staying_up(ended, None) == TerminalState(
        "CrashLoopBackOff: container main was restarted 3 times, exit code 1", LONG
    )
    container["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    assert detect_not_staying_up(ended, None) is None
    spec = {"containers": [{"name": "main"}]}
    finished = {**ended, "spec": {**spec, "restartPolicy": "OnFailure"}}
    assert detect_not_staying_up(finished, None) is None
    restarted = {**ended, "spec": {**spec, "restartPolicy": "Always"}}
    assert detect_not_staying_up(restarted, None) == TerminalState(
        "CrashLoopBackOff: container main was restarted 3 times, exit code 0", LONG
    )
    container["state"] = {"running": {}}
    assert detect_not_staying_up(ended, None) is None


def test_a_failed_start_quotes_the_runtime() -> None:
    message = 'exec: "/nope":\n no such file or directory'
    state = {"terminated": {"exitCode": 128, "reason": "StartError", "message": message}}
    failed = pod("a", "Failed", containerStatuses=[{"name": "main", "state": state}])

    assert describe_pod_end(failed) == (
        "the pod has failed: container main ended with exit code 128 (StartError): "
        'exec: "/nope": no such file or directory'
    )


def test_a_back_off_after_a_start_that_cannot_succeed() -> None:
    message = 'exec: "/nope": stat /nope: no such file or directory'

    assert detect_not_starting(
        looping(1, exitCode=128, reason="StartError", message=message), None
    ) == TerminalState(f"StartError: {message}", SHORT)
    assert (
        detect_not_starting(looping(1, exitCode=128, reason="StartError", message="busy"), None)
        is None
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a"}, "status": None},
        {"metadata": {"name": "a"}, "status": {"conditions": None, "containerStatuses": None}},
        {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"state": None}]}},
        {"metadata": {"name": "a"}, "status": {"containerStatuses": [{"state": {"waiting": {}}}]}},
    ],
)
def test_missing_fields_give_no_terminal_state_and_no_error(broken: dict[str, Any]) -> None:
    assert detect_not_staying_up(broken, None) is None
