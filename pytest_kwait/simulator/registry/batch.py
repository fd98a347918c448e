"""Strategies of jobs and cron jobs.

Source: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/strategy.go,
pkg/registry/batch/cronjob/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.registry.pod_defaults import default_pod_spec, drop_disabled_fields
from pytest_kwait.simulator.registry.strategy import Strategy
from pytest_kwait.simulator.validation.batch import (
    CONTROLLER_UID_LABEL,
    JOB_NAME_LABEL,
    validate_cron_job_name,
    validate_cron_job_spec,
    validate_job,
    validate_job_status_update,
    validate_job_update,
)
from pytest_kwait.simulator.validation.core.pods.warnings import get_name_warnings, get_pod_warnings

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

__all__ = [
    "CONTROLLER_UID_LABEL",
    "JOB_NAME_LABEL",
    "CronJobStrategy",
    "JobStrategy",
    "default_job_spec",
]

_LEGACY_UID = "controller-uid"
_LEGACY_NAME = "job-name"
_NO_LIMIT = 2**31 - 1
_MANY_COMPLETIONS, _MANY_AT_ONCE = 100_000, 10_000
_UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
    "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


def default_job_spec(spec: Obj) -> None:
    """Defaults that depend on other fields."""
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    if "podReplacementPolicy" not in spec:
        spec["podReplacementPolicy"] = (
            "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        )
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _job_warnings(spec: Obj, at: str, caller: Caller) -> None:
    if (
        spec.get("completionMode") == "Indexed"
        and spec.get("completions", 0) > _MANY_COMPLETIONS
        and spec.get("parallelism", 0) > _MANY_AT_ONCE
    ):
        caller.warn(f"{at}: {_UNTRACKED}")
    template = spec.get("template", {})
    metadata = template.get("metadata", {})
    for text in get_pod_warnings(template.get("spec", {}), metadata, f"{at}.template"):
        caller.warn(text)


class JobStrategy(Strategy):
    """Jobs: each one's pods are found by a label that carries its UID."""

    default_propagation = "Orphan"
    validates_metadata_on_update = True

    def default(self, obj: Obj) -> None:
        """The spec, and the template's labels where the job has none."""
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        super().default(obj)
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = clone(labels)

    def prepare_create(self, obj: Obj) -> None:
        """Make selector and labels from the UID, unless the user makes them."""
        super().prepare_create(obj)
        spec = obj["spec"]
        drop_disabled_fields(spec["template"]["spec"])
        if not spec.get("manualSelector"):
            metadata = obj["metadata"]
            labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
            inherited = bool(labels) and metadata.get("labels", {}) == labels
            ours = {
                _LEGACY_UID: metadata["uid"],
                _LEGACY_NAME: metadata["name"],
                CONTROLLER_UID_LABEL: metadata["uid"],
                JOB_NAME_LABEL: metadata["name"],
            }
            for key, value in ours.items():
                labels.setdefault(key, value)
            if inherited:
                metadata["labels"] = clone(labels)
            spec.setdefault("selector", {})
            spec["selector"].setdefault("matchLabels", {}).setdefault(
                CONTROLLER_UID_LABEL, metadata["uid"]
            )

    def prepare_update(self, new: Obj, old: Obj) -> None:
        """Drop disabled fields of the template."""
        drop_disabled_fields(new["spec"]["template"]["spec"])
        super().prepare_update(new, old)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Spec, and a selector that finds the template."""
        return validate_job(obj)

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Most of a job's spec never changes; a template does while the job has not started."""
        return validate_job_update(new, old)

    def validate_status(self, new: Obj, old: Obj) -> list[FieldError]:
        """What is counted and concluded can be true."""
        return validate_job_status_update(new, old)

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Of the name, of numbers, of the template."""
        self.default(obj)  # nobody looks at labels that come from a template without any
        for text in get_name_warnings(obj, "Pod names and hostnames"):
            caller.warn(text)
        _job_warnings(obj["spec"], "spec", caller)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Of the spec, where it changed."""
        if new["spec"] != old["spec"]:
            _job_warnings(new["spec"], "spec", caller)


class CronJobStrategy(Strategy):
    """Cron jobs."""

    def default(self, obj: Obj) -> None:
        """The job template's spec."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("jobTemplate", {})
        job = template.setdefault("spec", {})
        default_pod_spec(job.setdefault("template", {}).setdefault("spec", {}))

    def prepare_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_create(obj)
        drop_disabled_fields(obj["spec"]["jobTemplate"]["spec"]["template"]["spec"])

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A schedule, and a job that could run."""
        found = validate_cron_job_spec(obj["spec"], None)
        found += validate_cron_job_name(obj["metadata"])
        return found

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """The same, but for the name."""
        if new["spec"] == old["spec"]:
            return []
        return validate_cron_job_spec(new["spec"], old["spec"])

    def warn_create(self, obj: Obj, caller: Caller) -> None:
        """Of the name, and of the jobs to come."""
        for text in get_name_warnings(obj, "Pod names and hostnames"):
            caller.warn(text)
        _job_warnings(obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", caller)

    def warn_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Of the jobs to come, and of time zones in the wrong place."""
        if new["spec"] != old["spec"]:
            _job_warnings(new["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", caller)
        if "TZ" in new["spec"].get("schedule", ""):
            caller.warn(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
                "details"
            )
