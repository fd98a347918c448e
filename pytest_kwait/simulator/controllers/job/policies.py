"""The rules that end a Job: completion indexes, failure and success policy, limits, retries.

Source: kube-controller-manager,
job/{indexed_job_utils,pod_failure_policy,success_policy,backoff_utils}.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.apimachinery.times import parse_time
from pytest_kwait.simulator.objects import is_being_deleted, name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_kwait.simulator.objects import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
# Seconds; source: kube-controller-manager, job_controller.go, `DefaultJobPodFailureBackOff`.
BASE_BACKOFF = 10.0
MAX_BACKOFF = 600.0

# Two neighbours are written as a list, three or more as a range.
_MIN_RANGE_LENGTH = 3


def _annotation(pod: Obj, name: str) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isdecimal() else None


def get_completion_index(pod: Obj) -> int | None:
    """Return the pod's completion index; None if it has none."""
    return _annotation(pod, INDEX)


def get_valid_index(pod: Obj, completions: int) -> int | None:
    """Return the pod's completion index; None if it has no valid one."""
    index = get_completion_index(pod)
    return index if index is not None and index < completions else None


def get_index_failure_count(pod: Obj, *, include_ignored: bool = False) -> int:
    """Return the number of failed pods of the same index before this one."""
    counted = _annotation(pod, FAILURE_COUNT) or 0
    return counted + ((_annotation(pod, IGNORED_FAILURE_COUNT) or 0) if include_ignored else 0)


def parse_indexes(text: str, completions: int) -> set[int]:
    """Parse indexes such as `1,3-5,7`, dropping those from `completions` on."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Collection[int]) -> str:
    """Format `{1, 3, 4, 5, 7}` as `1,3-5,7`; empty for none."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if run and (index is None or index > run[-1] + 1):
            parts.extend(
                [f"{run[0]}-{run[-1]}"]
                if len(run) >= _MIN_RANGE_LENGTH
                else [str(index) for index in run]
            )
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def first_pending_indexes(count: int, completions: int, taken: Collection[int]) -> list[int]:
    """Return the `count` lowest free indexes; fewer if there are no more."""
    indexes: list[int] = []
    for index in range(completions):
        if len(indexes) >= count:
            break
        if index not in taken:
            indexes.append(index)
    return indexes


def split_duplicates(pods: Iterable[Obj], completions: int) -> tuple[list[Obj], list[Obj]]:
    """Return the pods with a duplicate or missing index, and the others."""
    remove: list[Obj] = []
    keep: dict[int, Obj] = {}
    for pod in pods:
        index = get_valid_index(pod, completions)
        if index is None or index in keep:
            remove.append(pod)
        else:
            keep[index] = pod
    return remove, list(keep.values())


def calculate_backoff(failures: int) -> float:
    """Return the seconds from last failure to next try: 10, doubling up to 600."""
    if failures <= 0:
        return 0.0
    return float(min(BASE_BACKOFF * 2 ** min(failures - 1, 16), MAX_BACKOFF))


@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """The number of failures since the last success, and the time of the last one."""

    failures: int = 0
    last: float = 0.0

    def counting(self, succeeded: Sequence[float], failed: Sequence[float]) -> BackoffRecord:
        """Return the record updated by pods that ended at these times.

        Source: kube-controller-manager, backoff_utils.go, `newBackoffRecord`.
        """
        if not succeeded:
            return (
                BackoffRecord(self.failures + len(failed), max(failed)) if failed else replace(self)
            )
        later = [moment_ for moment_ in failed if moment_ > max(succeeded)]
        return BackoffRecord(len(later), max(later, default=0.0))


def get_finish_time(pod: Obj) -> float:
    """Return when the pod finished, in seconds since the epoch, by its status.

    Source: kube-controller-manager, backoff_utils.go, `getFinishedTime`.
    """
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [
        ((status.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for status in statuses
    ]
    if ends and all(ends):
        return max(parse_time(str(end)) for end in ends)
    ready = get_condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        return parse_time(metadata["deletionTimestamp"]) - float(
            metadata.get("deletionGracePeriodSeconds") or 0
        )
    return parse_time(metadata["creationTimestamp"])


def has_failed_replacement_policy(job: Obj) -> bool:
    """Return whether terminating pods are replaced only once they have failed."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_failed(pod: Obj, job: Obj) -> bool:
    """Return whether the pod failed; terminating pods count unless the Job waits for them."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Failed":
        return True
    return not has_failed_replacement_policy(job) and is_being_deleted(pod) and phase != "Succeeded"


@dataclass(frozen=True, slots=True)
class FailurePolicyMatch:
    """The result of a Job's failure policy for a failed pod.

    Args:
        counts: whether it counts towards the back-off limit.
        action: the matching rule's action; empty if none matched.
        message: the reason if the Job fails at once; empty otherwise.
    """

    counts: bool
    action: str = ""
    message: str = ""


def match_failure_policy(policy: Obj | None, pod: Obj) -> FailurePolicyMatch:
    """Apply the first matching rule.

    Source: kube-controller-manager, pod_failure_policy.go, `matchPodFailurePolicy`.
    """
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        cause = (
            _match_exit_codes(rule, pod)
            if rule.get("onExitCodes")
            else _match_conditions(rule, pod)
        )
        if not cause:
            continue
        action = rule["action"]
        if action == "Ignore":
            return FailurePolicyMatch(False, action)
        message = f"{cause} matching FailJob rule at index {number}" if action == "FailJob" else ""
        return FailurePolicyMatch(True, action, message)
    return FailurePolicyMatch(True)


def _match_exit_codes(rule: Obj, pod: Obj) -> str:
    on_exit_codes = rule["onExitCodes"]
    status = pod.get("status") or {}
    for container_status in [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]:
        terminated = (container_status.get("state") or {}).get("terminated")
        if not terminated or not terminated.get("exitCode"):
            continue
        if on_exit_codes.get("containerName") not in (None, container_status["name"]):
            continue
        if (terminated["exitCode"] in on_exit_codes["values"]) == (
            on_exit_codes["operator"] == "In"
        ):
            where = f"{namespace_of(pod)}/{name_of(pod)}"
            code = terminated["exitCode"]
            return (
                f"Container {container_status['name']} for pod {where} failed with exit code {code}"
            )
    return ""


def _match_conditions(rule: Obj, pod: Obj) -> str:
    for pattern in rule.get("onPodConditions") or ():
        condition = get_condition(pod, pattern["type"])
        if condition is not None and condition["status"] == pattern.get("status", "True"):
            return f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {pattern['type']}"
    return ""


def find_failed_job_message(job: Obj, pods: Iterable[Obj]) -> str:
    """Return why the failure policy fails the Job; empty if it does not."""
    policy = job["spec"].get("podFailurePolicy")
    if policy is None:
        return ""
    for pod in pods:
        if is_failed(pod, job):
            message = match_failure_policy(policy, pod).message
            if message:
                return message
    return ""


def match_success_policy(job: Obj, succeeded: Collection[int]) -> str:
    """Return the message of the success policy's first met rule; empty if none is met.

    Source: kube-controller-manager, success_policy.go, `matchSuccessPolicy`.
    """
    rules = (job["spec"].get("successPolicy") or {}).get("rules") or ()
    if not succeeded:
        return ""
    for number, rule in enumerate(rules):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            indexes = parse_indexes(rule["succeededIndexes"], job["spec"].get("completions") or 0)
            have = len(indexes & set(succeeded))
            met = bool(indexes) and (have == len(indexes) or (count is not None and have >= count))
        else:
            met = count is not None and len(succeeded) >= count
        if met:
            return f"Matched rules at index {number}"
    return ""


def has_exceeded_restart_limit(job: Obj, pods: Iterable[Obj]) -> bool:
    """Return whether the restarts in place exceed the limit (`restartPolicy: OnFailure`)."""
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
            restarts += sum(container.get("restartCount", 0) for container in containers)
    limit: int = job["spec"].get("backoffLimit", 6)
    return restarts > 0 if limit == 0 else restarts >= limit


def seconds_until_deadline(job: Obj, now: float) -> float | None:
    """Return the seconds until the active deadline: at most 0 if exceeded, None without one.

    The start is a timestamp in whole seconds, so a deadline may be up to a second early, as
    upstream.
    """
    limit = job["spec"].get("activeDeadlineSeconds")
    start = (job.get("status") or {}).get("startTime")
    if limit is None or start is None or job["spec"].get("suspend"):
        return None
    return parse_time(start) + float(limit) - now
