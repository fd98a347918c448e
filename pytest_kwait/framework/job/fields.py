"""Job fields: selector, required completions, end and suspension. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.apimachinery.labels import format_label_selector
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.verdicts import Failed, Patience

if TYPE_CHECKING:
    from pytest_kwait.engine.single_object import SingleObject

__all__ = [
    "JobFields",
    "find_end",
    "find_halt",
    "is_missing_pods_for_end",
    "max_active_pods",
    "pod_selector",
    "required_completions",
    "succeeded_count",
]


class _Requirement(TypedDict, total=False):
    key: str
    operator: str
    values: list[str] | None


class _LabelSelector(TypedDict, total=False):
    matchLabels: dict[str, str] | None
    matchExpressions: list[_Requirement] | None


class _JobSpec(TypedDict, total=False):
    parallelism: int | None
    completions: int | None
    suspend: bool | None
    selector: _LabelSelector | None
    activeDeadlineSeconds: int | None
    ttlSecondsAfterFinished: int | None
    manualSelector: bool | None
    successPolicy: dict[str, Any] | None


class _JobCondition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None


class _JobStatus(TypedDict, total=False):
    conditions: list[_JobCondition] | None
    succeeded: int | None
    ready: int | None


class JobFields(TypedDict, total=False):
    """The fields of a Job that waits read."""

    metadata: ObjectMeta
    spec: _JobSpec | None
    status: _JobStatus | None


def pod_selector(job: dict[str, Any]) -> str:
    """Return the text of the Job's own selector, which by default names its UID.

    Source: kubernetes/pkg/registry/batch/job/strategy.go, generateSelector.
    """
    selector = format_label_selector((job.get("spec") or {}).get("selector")) or None
    return selector or f"batch.kubernetes.io/controller-uid={job['metadata'].get('uid')}"


def succeeded_count(job: SingleObject) -> int:
    """Return the number of succeeded pods, as counted by the Job controller."""
    count = job.status.get("succeeded")
    return count if isinstance(count, int) else 0


def required_completions(job: SingleObject) -> int | None:
    """Return the number of pods that must succeed; None if the first success ends the Job."""
    count = job.spec.get("completions")
    return count if isinstance(count, int) else None


def max_active_pods(job: SingleObject) -> int | None:
    """Return the maximum number of pods that the Job controller keeps active.

    None if it starts no more: a Job without completions of which a pod has succeeded.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    parallelism = job.spec.get("parallelism")
    parallelism = parallelism if isinstance(parallelism, int) else 1
    wanted = required_completions(job)
    if wanted is not None:
        return max(0, min(parallelism, wanted - succeeded_count(job)))
    return None if succeeded_count(job) else parallelism


def is_missing_pods_for_end(job: SingleObject, alive: int, *, success: bool) -> bool:
    """Return whether a Job cannot end with the existing pods.

    Any one of them may still fail it; success needs a pod for every completion. A Job with a
    deadline ends at that deadline, unless success is awaited.

    Args:
        alive: the number of its pods that have not ended.
        success: whether success is awaited.
    """
    if not success:
        return not alive and not job.spec.get("activeDeadlineSeconds")
    wanted = required_completions(job)
    if wanted is None or job.spec.get("successPolicy"):
        return not alive
    return succeeded_count(job) + alive < wanted


_ENDS = {
    "Complete": "is complete",
    "Failed": "failed",
    "FailureTarget": "is about to fail",
    "SuccessCriteriaMet": "has met its success criteria",
}


def find_end(job: SingleObject, *kinds: str) -> Failed | None:
    """Return the verdict if one of these conditions ends the Job; else None.

    Args:
        *kinds: of `Complete`, `SuccessCriteriaMet`, `Failed` and `FailureTarget`.
    """
    for kind in kinds:
        condition = job.holds(kind)
        if condition is not None:
            return Failed(f"the job {_ENDS[kind]}{_describe_condition(condition)}")
    return None


def find_halt(job: SingleObject) -> Failed | None:
    """Return the verdict if a Job starts no pods for now, or none any more; else None."""
    if job.spec.get("suspend"):
        return Failed("the job is suspended", Patience.LONG)
    return job.ending()


def _describe_condition(condition: dict[str, Any]) -> str:
    parts = (condition.get("reason"), condition.get("message"))
    text = ": ".join(" ".join(part.split()) for part in parts if part)
    return f": {text}" if text else ""
