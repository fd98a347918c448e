"""By which rules a Job ends: failure policy, success policy, limits, retries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kwait.simulator.conditions import condition_of, is_being_deleted, moment
from pytest_kwait.simulator.controllers.jobs.indexes import read_indexes
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "RETRY_FIRST",
    "RETRY_MOST",
    "Failure",
    "Retries",
    "failed_job_message",
    "finished_at",
    "is_failed",
    "match_failure",
    "met_success_policy",
    "past_deadline",
    "past_restart_limit",
    "replaces_only_failed",
    "retry_delay",
]

# Seconds; source: kube-controller-manager, job_controller.go, `DefaultJobPodFailureBackOff`.
RETRY_FIRST = 10.0
RETRY_MOST = 600.0


def retry_delay(failures: int) -> float:
    """Seconds from the last failure to the next try: 10, doubling up to 600."""
    if failures <= 0:
        return 0.0
    return float(min(RETRY_FIRST * 2 ** min(failures - 1, 16), RETRY_MOST))


@dataclass(frozen=True, slots=True)
class Retries:
    """Failures since the last success, and when the last one was."""

    failures: int = 0
    last: float = 0.0

    def counting(self, succeeded: Sequence[float], failed: Sequence[float]) -> Retries:
        """Return the same after pods that ended at these times.

        Source: kube-controller-manager, backoff_utils.go, `newBackoffRecord`.
        """
        if not succeeded:
            return Retries(self.failures + len(failed), max(failed)) if failed else replace(self)
        later = [moment_ for moment_ in failed if moment_ > max(succeeded)]
        return Retries(len(later), max(later, default=0.0))


def finished_at(pod: Obj) -> float:
    """When the pod ended, in seconds since the epoch, as well as its status tells.

    Source: kube-controller-manager, backoff_utils.go, `getFinishedTime`.
    """
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [
        ((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in statuses
    ]
    if ends and all(ends):
        return max(moment(str(end)) for end in ends)
    ready = condition_of(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return moment(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        return moment(metadata["deletionTimestamp"]) - float(
            metadata.get("deletionGracePeriodSeconds") or 0
        )
    return moment(metadata["creationTimestamp"])


def replaces_only_failed(job: Obj) -> bool:
    """Whether a pod that is going is replaced only once it has failed."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_failed(pod: Obj, job: Obj) -> bool:
    """Whether the pod counts as failed; one that goes does too, unless the Job waits for it."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Failed":
        return True
    return not replaces_only_failed(job) and is_being_deleted(pod) and phase != "Succeeded"


@dataclass(frozen=True, slots=True)
class Failure:
    """What a Job's failure policy says of a failed pod.

    Args:
        counts: whether it counts towards the back-off limit.
        action: the matching rule's action; empty where none matched.
        message: why the Job fails at once; empty where it does not.
    """

    counts: bool
    action: str = ""
    message: str = ""


def match_failure(policy: Obj | None, pod: Obj) -> Failure:
    """Return the first rule that matches, applied.

    Source: kube-controller-manager, pod_failure_policy.go, `matchPodFailurePolicy`.
    """
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        cause = (
            _exit_code_cause(rule, pod) if rule.get("onExitCodes") else _condition_cause(rule, pod)
        )
        if not cause:
            continue
        action = rule["action"]
        if action == "Ignore":
            return Failure(False, action)
        message = f"{cause} matching FailJob rule at index {number}" if action == "FailJob" else ""
        return Failure(True, action, message)
    return Failure(True)


def _exit_code_cause(rule: Obj, pod: Obj) -> str:
    wanted = rule["onExitCodes"]
    status = pod.get("status") or {}
    for one in [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]:
        terminated = (one.get("state") or {}).get("terminated")
        if not terminated or not terminated.get("exitCode"):
            continue
        if wanted.get("containerName") not in (None, one["name"]):
            continue
        if (terminated["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
            where = f"{namespace_of(pod)}/{name_of(pod)}"
            code = terminated["exitCode"]
            return f"Container {one['name']} for pod {where} failed with exit code {code}"
    return ""


def _condition_cause(rule: Obj, pod: Obj) -> str:
    for pattern in rule.get("onPodConditions") or ():
        condition = condition_of(pod, pattern["type"])
        if condition is not None and condition["status"] == pattern.get("status", "True"):
            return f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {pattern['type']}"
    return ""


def failed_job_message(job: Obj, pods: Iterable[Obj]) -> str:
    """Why the failure policy ends the Job; empty where it does not."""
    policy = job["spec"].get("podFailurePolicy")
    if policy is None:
        return ""
    for pod in pods:
        if is_failed(pod, job):
            message = match_failure(policy, pod).message
            if message:
                return message
    return ""


def met_success_policy(job: Obj, succeeded: Collection[int]) -> str:
    """Which rule of the success policy holds, as a message; empty where none does.

    Source: kube-controller-manager, success_policy.go, `matchSuccessPolicy`.
    """
    rules = (job["spec"].get("successPolicy") or {}).get("rules") or ()
    if not succeeded:
        return ""
    for number, rule in enumerate(rules):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = read_indexes(rule["succeededIndexes"], job["spec"].get("completions") or 0)
            have = len(wanted & set(succeeded))
            met = bool(wanted) and (have == len(wanted) or (count is not None and have >= count))
        else:
            met = count is not None and len(succeeded) >= count
        if met:
            return f"Matched rules at index {number}"
    return ""


def past_restart_limit(job: Obj, pods: Iterable[Obj]) -> bool:
    """Whether containers that restart in place did so too often (`restartPolicy: OnFailure`)."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        status = pod.get("status") or {}
        if status.get("phase") in ("Running", "Pending"):
            containers = [
                *(status.get("initContainerStatuses") or ()),
                *(status.get("containerStatuses") or ()),
            ]
            restarts += sum(one.get("restartCount", 0) for one in containers)
    limit: int = job["spec"].get("backoffLimit", 6)
    return restarts > 0 if limit == 0 else restarts >= limit


def past_deadline(job: Obj, now: float) -> float | None:
    """Seconds until the Job has been active for too long: at most 0 if it has; None for never.

    The start is a stamp cut to seconds, so a deadline comes up to a second early, as upstream.
    """
    limit = job["spec"].get("activeDeadlineSeconds")
    start = (job.get("status") or {}).get("startTime")
    if limit is None or start is None or job["spec"].get("suspend"):
        return None
    return moment(start) + float(limit) - now
