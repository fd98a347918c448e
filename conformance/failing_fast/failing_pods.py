"""Pods and jobs that cannot succeed: one for each state that fails a wait early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.failing_fast.waits import (
    LIMIT,
    job_complete,
    job_pods_running,
    labelled_pods_ready,
    pod_ready,
    pod_running,
    pod_success,
)
from e2e.objects import container, job, pod
from pytest_kwait import (
    wait_for_container_started,
    wait_for_job_failed,
    wait_for_job_pods_succeeded,
)

if TYPE_CHECKING:
    from conformance.failing_fast.waits import Wait

AT_ONCE, SHORT, LONG = 0.0, 5.0, 45.0


@dataclass(frozen=True)
class FailingPod:
    """A pod or job that never reaches the awaited state.

    Args:
        title: the state.
        objects: what is created.
        wait: waits for it, given client and namespace.
        reason: what the message must name.
        grace: how long the state must hold, in the cluster's own seconds.
    """

    title: str
    objects: list[dict[str, Any]]
    wait: Wait
    reason: str
    grace: float


_MISSING = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a"}}}]
_KEYLESS = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "a"}}}]

_NO = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1000}


def _with_init(made: dict[str, Any]) -> dict[str, Any]:
    """Let the pods of a job fail before they are Running."""
    made["spec"]["template"]["spec"]["initContainers"] = [container("first", "exit 7")]
    return made


def _of_account(made: dict[str, Any], name: str) -> dict[str, Any]:
    """Let the pods of a job run as a service account."""
    made["spec"]["template"]["spec"]["serviceAccountName"] = name
    return made


FAILING = (
    FailingPod(
        "InvalidImageName",
        [job("typo", container(image="Busybox:not a tag"))],
        job_pods_running("typo"),
        "InvalidImageName",
        SHORT,
    ),
    FailingPod(
        "a program that is not in the image",
        [pod("nowhere", {"name": "main", "image": "busybox:1.36", "command": ["/no/such"]})],
        pod_running("nowhere"),
        "no such file or directory",
        SHORT,
    ),
    FailingPod(
        "a program that is not in the image, again and again",
        [
            pod(
                "nowhere-again",
                {"name": "main", "image": "busybox:1.36", "command": ["/no/such"]},
                restartPolicy="Always",
            )
        ],
        pod_ready("nowhere-again"),
        "no such file or directory",
        SHORT,
    ),
    FailingPod(
        "runs as root, and must not",
        [pod("root", container(securityContext={"runAsNonRoot": True}))],
        pod_ready("root"),
        "runAsNonRoot and image will run as root",
        SHORT,
    ),
    FailingPod(
        "a container that is done where a ready pod is awaited",
        [
            pod(
                "half",
                container("main", readinessProbe=_NO),
                container("done", "echo that was all"),
            )
        ],
        pod_ready("half"),
        "container done ended with exit code 0, to stay so",
        SHORT,
    ),
    FailingPod(
        "a container that has ended and is not started again",
        [pod("ended", container("main"), container("side", "sleep 1; exit 3", startupProbe=_NO))],
        lambda client, namespace: wait_for_container_started(
            client, namespace, "ended", "side", timeout=LIMIT
        ),
        "exit code 3",
        SHORT,
    ),
    FailingPod(
        "an init container that failed for good",
        [pod("init", initContainers=[container("first", "echo no schema; exit 4")])],
        pod_ready("init"),
        "exit code 4",
        SHORT,
    ),
    FailingPod(
        "a pod that failed",
        [pod("failed", container(script="exit 5"))],
        pod_success("failed"),
        "container main ended with exit code 5",
        AT_ONCE,
    ),
    FailingPod(
        "a pod over its deadline",
        [pod("overdue", container(readinessProbe=_NO), activeDeadlineSeconds=2)],
        pod_ready("overdue"),
        "DeadlineExceeded",
        AT_ONCE,
    ),
    FailingPod(
        "a pod that was killed for its memory",
        [
            pod(
                "hungry",
                container(
                    script="tail /dev/zero",
                    resources={"limits": {"memory": "16Mi"}},
                ),
            )
        ],
        pod_success("hungry"),
        "OOMKilled",
        AT_ONCE,
    ),
    FailingPod(
        "a pod of a set that nobody replaces",
        [
            pod("set-0", labels={"app": "set"}),
            pod("set-1", container(script="exit 6", readinessProbe=_NO), labels={"app": "set"}),
        ],
        labelled_pods_ready("set", 2),
        "exit code 6",
        SHORT,
    ),
    FailingPod(
        "a job past its retries",
        [job("broken", container(script="exit 7"), backoffLimit=0)],
        job_complete("broken"),
        "BackoffLimitExceeded",
        AT_ONCE,
    ),
    FailingPod(
        "a job past its retries, of which pods are awaited",
        [_with_init(job("gone", backoffLimit=0))],
        job_pods_running("gone", 1),
        "BackoffLimitExceeded",
        SHORT,
    ),
    FailingPod(
        "a job over its deadline",
        [job("late", activeDeadlineSeconds=2)],
        job_complete("late"),
        "DeadlineExceeded",
        AT_ONCE,
    ),
    FailingPod(
        "a job whose pod failure policy gives up",
        [
            job(
                "policy",
                container(script="exit 42"),
                backoffLimit=6,
                podFailurePolicy={
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {"operator": "In", "values": [42]},
                        }
                    ]
                },
            )
        ],
        job_complete("policy"),
        "PodFailurePolicy",
        AT_ONCE,
    ),
    FailingPod(
        "a job that is complete where failure is awaited",
        [job("fine", container(script="true"))],
        lambda client, namespace: wait_for_job_failed(client, namespace, "fine", timeout=LIMIT),
        "CompletionsReached",
        AT_ONCE,
    ),
)
"""States that are permanent."""

LASTING = (
    FailingPod(
        "an image that cannot be pulled",
        [job("unpulled", container(image="registry.invalid/app:1"))],
        job_pods_running("unpulled"),
        "Err",
        LONG,
    ),
    FailingPod(
        "ErrImageNeverPull",
        [pod("absent", container(image="example.com/absent:1", imagePullPolicy="Never"))],
        pod_ready("absent"),
        "ErrImageNeverPull",
        LONG,
    ),
    FailingPod(
        "CreateContainerConfigError",
        [job("config", container(env=_MISSING), parallelism=2, completions=2)],
        job_pods_running("config", 2),
        'CreateContainerConfigError: configmap "missing" not found',
        LONG,
    ),
    FailingPod(
        "CreateContainerError",
        [
            pod(
                "created",
                container(
                    securityContext={
                        "seccompProfile": {"type": "Localhost", "localhostProfile": "no/such.json"}
                    }
                ),
            )
        ],
        pod_ready("created"),
        "CreateContainerError: failed to create containerd container",
        LONG,
    ),
    FailingPod(
        "CreateContainerConfigError of an init container",
        [pod("secret", initContainers=[container("first", env=_KEYLESS)])],
        pod_running("secret"),
        'CreateContainerConfigError: secret "missing" not found',
        LONG,
    ),
    FailingPod(
        "Unschedulable",
        [pod("huge", container(resources={"requests": {"cpu": "1000"}}))],
        pod_ready("huge"),
        "Insufficient cpu",
        LONG,
    ),
    FailingPod(
        "Unschedulable pods of a job",
        [
            job(
                "nowhere-job",
                container(resources={"requests": {"cpu": "1000"}}),
            )
        ],
        job_complete("nowhere-job"),
        "Insufficient cpu",
        LONG,
    ),
    FailingPod(
        "a job whose pods are refused",
        [_of_account(job("refused"), "nobody")],
        job_complete("refused"),
        "service account",
        LONG,
    ),
    FailingPod(
        "a suspended job of which pods are awaited",
        [job("suspended", suspend=True)],
        job_pods_running("suspended"),
        "the job is suspended",
        LONG,
    ),
    FailingPod(
        "one pod too many is stuck",
        [
            pod("stuck-0", labels={"app": "stuck"}),
            pod("stuck-1", container(env=_MISSING), labels={"app": "stuck"}),
        ],
        labelled_pods_ready("stuck", 2),
        "CreateContainerConfigError",
        LONG,
    ),
    FailingPod(
        "more pods than the job makes",
        [job("small", parallelism=2, completions=2)],
        lambda client, namespace: wait_for_job_pods_succeeded(
            client, namespace, "small", 3, timeout=LIMIT
        ),
        "the job comes to 2 pods Succeeded at most",
        LONG,
    ),
)
"""States that may be temporary, but last here."""

LOOPING = (
    FailingPod(
        "a crash loop",
        [
            pod(
                "loop",
                container(script="echo no database; exit 8", readinessProbe=_NO),
                restartPolicy="Always",
            )
        ],
        pod_ready("loop"),
        "CrashLoopBackOff: container main was restarted",
        LONG,
    ),
    FailingPod(
        "a program that crashes after seconds",
        [
            pod(
                "late-loop",
                container(script="sleep 8; exit 7", readinessProbe=_NO),
                restartPolicy="Always",
            )
        ],
        pod_ready("late-loop"),
        "CrashLoopBackOff: container main was restarted 2 times, exit code 7",
        LONG,
    ),
    FailingPod(
        "a crash loop of an init container",
        [
            pod(
                "init-loop",
                restartPolicy="Always",
                initContainers=[container("first", "exit 9")],
            )
        ],
        pod_running("init-loop"),
        "CrashLoopBackOff: init container first was restarted",
        LONG,
    ),
    FailingPod(
        "a container that must run and ends with exit code 0",
        [pod("done-loop", container(script="exit 0", readinessProbe=_NO), restartPolicy="Always")],
        pod_ready("done-loop"),
        "CrashLoopBackOff: container main was restarted",
        LONG,
    ),
)
"""States that the kubelet reports after more than a minute."""
