"""Samples of pods and jobs in terminal states, as a Kubernetes 1.36 cluster reported them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest_kwait as kw
from pytest_kwait.client.resource import EVENTS, JOBS, PODS
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from tests.objects import condition, created_job, event, job_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from tests.engine.fake_session import FakeSession

    Wait = Callable[[ApiClient], Any]

PULL = 'failed to pull and unpack image "docker.io/team/app:1": failed to resolve reference'
NO_HOST = (
    f'{PULL} "docker.io/team/app:1": failed to do request: Head '
    '"https://registry.invalid/v2/team/app/manifests/1": dial tcp: lookup registry.invalid on '
    "10.0.0.10:53: no such host"
)
NO_MANIFEST = f'{PULL} "docker.io/team/app:1": docker.io/team/app:1: not found'


@dataclass(frozen=True)
class FailingWait:
    """A state that ends a wait, or the nearest to it that does not.

    Args:
        wait: waits for what will not come, over a client.
        pods: the pods that are there.
        job: the job that is there; None for none.
        events: Warning events: what they are about, reason, message, count.
        logs: what containers wrote, by `pod/container`.
        then: what happens after 3 s; None for nothing.
        error: how the wait ends.
    """

    wait: Wait
    pods: tuple[dict[str, Any], ...] = ()
    job: dict[str, Any] | None = None
    events: tuple[tuple[str, str, str, int], ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    then: Callable[[FakeSession], None] | None = None
    error: type[Exception] = WaitFailed

    def enter(self, session: FakeSession) -> None:
        """Let a session show it."""
        if self.job is not None:
            session.put(JOBS, self.job)
        for each in self.pods:
            session.put(PODS, each)
        for number, (about, reason, message, count) in enumerate(self.events):
            facts = {"name": f"e{number}", "type": "Warning", "count": count}
            session.put(EVENTS, event(reason, message, about, **facts))
        session.log_texts = dict(self.logs)
        session.kubectl_args = ("--kubeconfig", "/home/me/.kube/config", "--context", "ci")
        if self.then is not None:
            session.at(3, self.then, session)


def _status(name: str = "main", restarts: int = 0, **state: Any) -> dict[str, Any]:
    last = state.pop("last", None)
    found: dict[str, Any] = {"name": name, "restartCount": restarts, "state": state}
    found["ready"] = "running" in state
    return {**found, "lastState": {"terminated": last}} if last else found


def _waiting(reason: str, message: str, **more: Any) -> dict[str, Any]:
    return _status(waiting={"reason": reason, "message": message}, **more)


def _ended(code: int, reason: str = "Error", name: str = "main", **more: Any) -> dict[str, Any]:
    return _status(name, terminated={"exitCode": code, "reason": reason, **more})


def _web_pod(
    phase: str, *containers: dict[str, Any], name: str = "web", **more: Any
) -> dict[str, Any]:
    made = job_pod(name, phase, containerStatuses=list(containers), **more)
    made["spec"] |= {"restartPolicy": "Never", "containers": [{"name": "main"}]}
    return made


def _of_job(name: str, phase: str, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    owners = [{"controller": True, "kind": "Job", "uid": "uid-sleepers", "name": "sleepers"}]
    return _web_pod(phase, *containers, name=name, metadata={"ownerReferences": owners}, **more)


def _failed_job(reason: str, message: str, kind: str = "Failed") -> dict[str, Any]:
    ended = condition(kind, reason=reason, message=message)
    return created_job(status={"conditions": [ended], "failed": 1})


def _ready(client: ApiClient) -> Any:
    return kw.wait_for_pod_ready(client, "ci-1", "web")


def _running(client: ApiClient) -> Any:
    return kw.wait_for_pod_running(client, "ci-1", "web")


def _success(client: ApiClient) -> Any:
    return kw.wait_for_pod_success(client, "ci-1", "web")


def _complete(client: ApiClient) -> Any:
    return kw.wait_for_job_complete(client, "ci-1", "sleepers")


def _three(client: ApiClient) -> Any:
    return kw.wait_for_job_pods_running(client, "ci-1", "sleepers", 3)


def _recreate(session: FakeSession) -> None:
    def unseen() -> None:
        session.drop(JOBS, "sleepers")
        session.put(JOBS, created_job(uid="uid-another"))

    session.silently(unseen)
    session.send(JOBS, ApiError("too old resource version", status=410, reason="Expired"))


_MISSING = 'configmap "settings" not found'
_UNFIT = (
    "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
    "2 No preemption victims found for incoming pod."
)
_FAILED_POD = _of_job("sleepers-x7k2p", "Failed", _ended(3))
_LOG = {"sleepers-x7k2p/main": "connecting to db:5432\ncannot reach the database\n"}

FAILING_WAITS = {
    "image-name-invalid": FailingWait(
        _ready,
        (
            _web_pod(
                "Pending",
                _waiting(
                    "InvalidImageName",
                    'Failed to apply default image tag "Team/app:1": couldn\'t parse image name '
                    '"Team/app:1": invalid reference format: repository name must be lowercase',
                ),
            ),
        ),
        events=(("Pod/web", "InspectFailed", "Failed to apply default image tag", 2),),
    ),
    "image-not-in-registry": FailingWait(
        _running,
        (_web_pod("Pending", _waiting("ErrImagePull", NO_MANIFEST)),),
        events=(
            ("Pod/web", "Failed", f'Failed to pull image "team/app:1": {NO_MANIFEST}', 2),
            ("Pod/web", "Failed", "Error: ErrImagePull", 2),
        ),
    ),
    "image-registry-away": FailingWait(
        _running,
        (
            _web_pod(
                "Pending",
                _waiting(
                    "ImagePullBackOff",
                    f'Back-off pulling image "team/app:1": ErrImagePull: {NO_HOST}',
                ),
            ),
        ),
        events=(("Pod/web", "Failed", "Error: ImagePullBackOff", 7),),
    ),
    "image-never-pulled": FailingWait(
        _ready,
        (
            _web_pod(
                "Pending",
                _waiting(
                    "ErrImageNeverPull",
                    'Container image "team/app:1" is not present with pull policy of Never',
                ),
            ),
        ),
    ),
    "container-config": FailingWait(
        _three,
        tuple(
            _of_job(f"sleepers-{name}", "Pending", _waiting("CreateContainerConfigError", _MISSING))
            for name in ("4mzq8", "c9d2t", "x7k2p")
        ),
        job=created_job(),
        events=tuple(
            (f"Pod/sleepers-{name}", "Failed", f"Error: {_MISSING}", 4)
            for name in ("4mzq8", "c9d2t", "x7k2p")
        ),
    ),
    "container-created": FailingWait(
        _ready, (_web_pod("Pending", _waiting("CreateContainerError", "no command specified")),)
    ),
    "container-run": FailingWait(
        _ready,
        (
            _web_pod(
                "Pending",
                _waiting(
                    "RunContainerError",
                    "failed to create containerd task: failed to create shim task: OCI runtime "
                    'create failed: exec: "/app": stat /app: no such file or directory',
                ),
            ),
        ),
    ),
    "crash-loop": FailingWait(
        _ready,
        (
            _web_pod(
                "Running",
                _waiting(
                    "CrashLoopBackOff",
                    "back-off 1m20s restarting failed container=main pod=web",
                    restarts=4,
                    last={"exitCode": 1, "reason": "Error"},
                ),
            ),
        ),
        events=(("Pod/web", "BackOff", "Back-off restarting failed container main in pod web", 9),),
        logs={"web/main": "".join(f"line {n}\n" for n in range(1, 16))},
    ),
    "container-finished": FailingWait(
        _ready,
        (
            _web_pod(
                "Running",
                _status(running={"startedAt": "2026-01-01T00:00:00Z"}),
                _ended(0, "Completed", "migrate"),
            ),
        ),
    ),
    "init-container-failed": FailingWait(
        _ready,
        (
            _web_pod(
                "Pending",
                _waiting("PodInitializing", ""),
                initContainerStatuses=[_ended(4, name="schema")],
            ),
        ),
        logs={"web/schema": "no such table: users"},
    ),
    "pod-failed": FailingWait(
        _success,
        (_web_pod("Failed", _ended(2)),),
        logs={"web/main": "usage: app [--port PORT]"},
    ),
    "pod-evicted": FailingWait(
        _success,
        (
            _web_pod(
                "Failed",
                reason="Evicted",
                message="The node was low on resource: memory. Threshold quantity: 100Mi, "
                "available: 81Mi.",
            ),
        ),
        events=(("Pod/web", "Evicted", "The node was low on resource: memory.", 1),),
    ),
    "pod-out-of-memory": FailingWait(
        _success,
        (_web_pod("Failed", _ended(137, "OOMKilled")),),
        logs={"web/main": "reading the whole file"},
    ),
    "pod-unschedulable": FailingWait(
        _ready,
        (
            _web_pod(
                "Pending",
                nodeName=None,
                conditions=[
                    condition("PodScheduled", "False", reason="Unschedulable", message=_UNFIT)
                ],
            ),
        ),
        events=(("Pod/web", "FailedScheduling", _UNFIT, 1),),
    ),
    "pod-gated": FailingWait(
        lambda client: kw.wait_for_pod_ready(client, "ci-1", "web", timeout="2m"),
        (
            {
                **job_pod(
                    "web",
                    "Pending",
                    conditions=[
                        condition(
                            "PodScheduled",
                            "False",
                            reason="SchedulingGated",
                            message="Scheduling is blocked due to non-empty scheduling gates",
                        )
                    ],
                ),
                "spec": {"schedulingGates": [{"name": "example.com/quota"}]},
            },
        ),
        error=WaitTimeout,
    ),
    "pod-deleted": FailingWait(
        _ready,
        (_web_pod("Running", _status(running={})),),
        then=lambda session: session.drop(PODS, "web"),
    ),
    "pod-never-created": FailingWait(
        lambda client: kw.wait_for_pod_ready(client, "ci-1", "wbe", timeout="5m"),
        (
            _web_pod("Running", _status(running={})),
            _web_pod("Running", _status(running={}), name="db-0"),
        ),
        error=WaitTimeout,
    ),
    "set-out-of-reach": FailingWait(
        lambda client: kw.wait_for_pods_with_label_running_ready(client, "ci-1", "app=web", 2),
        (
            _web_pod(
                "Running",
                _status(running={}),
                name="web-0",
                labels={"app": "web"},
                conditions=[condition("Ready")],
            ),
            _web_pod(
                "Pending",
                _waiting("CreateContainerConfigError", _MISSING),
                name="web-1",
                labels={"app": "web"},
            ),
        ),
        events=(("Pod/web-1", "Failed", f"Error: {_MISSING}", 12),),
    ),
    "job-backoff-limit": FailingWait(
        _complete,
        (_FAILED_POD,),
        job=_failed_job("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        events=(
            (
                "Job/sleepers",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
                1,
            ),
        ),
        logs=_LOG,
    ),
    "job-failure-target": FailingWait(
        _complete,
        (_FAILED_POD,),
        job=_failed_job(
            "BackoffLimitExceeded", "Job has reached the specified backoff limit", "FailureTarget"
        ),
        logs=_LOG,
    ),
    "job-deadline": FailingWait(
        _three,
        (),
        job=_failed_job("DeadlineExceeded", "Job was active longer than specified deadline"),
        events=(
            (
                "Job/sleepers",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
                1,
            ),
        ),
    ),
    "job-pod-failure-policy": FailingWait(
        _complete,
        (_of_job("sleepers-x7k2p", "Failed", _ended(42)),),
        job=_failed_job(
            "PodFailurePolicy",
            "Container main for pod ci-1/sleepers-x7k2p failed with exit code 42 matching FailJob "
            "rule at index 0",
        ),
        logs={"sleepers-x7k2p/main": "bad input"},
    ),
    "job-suspended": FailingWait(_three, job=created_job(spec={"suspend": True})),
    "job-pods-refused": FailingWait(
        _three,
        job=created_job(),
        events=tuple(
            (
                "Job/sleepers",
                "FailedCreate",
                f'Error creating: pods "sleepers-{name}" is forbidden: violates PodSecurity '
                '"restricted:latest": allowPrivilegeEscalation != false (container "main" must set '
                "securityContext.allowPrivilegeEscalation=false)",
                1,
            )
            for name in ("gctqb", "prj4h", "5vgmn")
        ),
    ),
    "job-over-quota": FailingWait(
        _complete,
        (_of_job("sleepers-x7k2p", "Running", _status(running={})),),
        job=created_job(),
        events=(
            (
                "Job/sleepers",
                "FailedCreate",
                'Error creating: pods "sleepers-mgxgt" is forbidden: exceeded quota: few, '
                "requested: pods=1, used: pods=1, limited: pods=1",
                1,
            ),
        ),
    ),
    "job-too-small": FailingWait(
        _three,
        (_of_job("sleepers-x7k2p", "Running", _status(running={})),),
        job=created_job(spec={"parallelism": 2, "completions": 2}),
    ),
    "job-deleted": FailingWait(
        _complete,
        (_of_job("sleepers-x7k2p", "Running", _status(running={})),),
        job=created_job(),
        then=lambda session: session.drop(JOBS, "sleepers"),
    ),
    "job-made-anew": FailingWait(
        _complete,
        (_of_job("sleepers-x7k2p", "Running", _status(running={})),),
        job=created_job(),
        then=_recreate,
    ),
}
"""By the name of the file that has its message."""
