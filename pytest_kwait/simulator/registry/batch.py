"""Jobs: strategy and REST storage; the strategy of cron jobs.

Source: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/{strategy.go,storage/storage.go},
pkg/registry/batch/cronjob/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.registry.core_pods import default_pod_spec, drop_disabled_fields
from pytest_kwait.simulator.registry.generic_store import GenericStore
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
    from pytest_kwait.apimachinery.field_errors import FieldError
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.request_info import Caller

_LEGACY_UID = "controller-uid"
_LEGACY_NAME = "job-name"
_NO_LIMIT = 2**31 - 1
_MANY_COMPLETIONS, _MANY_AT_ONCE = 100_000, 10_000
_UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
    "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)
_DELETION_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background "
    "to remove them or set propagationPolicy=Orphan to suppress this warning"
)


def default_job_spec(spec: Obj) -> None:
    """Set the defaults that depend on other fields."""
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


def _separate_labels(job: Obj) -> None:
    """Copy the labels of a job that shares them with its template."""
    if "labels" in job["metadata"]:
        job["metadata"]["labels"] = clone(job["metadata"]["labels"])


class JobStrategy(Strategy):
    """The strategy of jobs: each one's pods are found by a label that carries its UID."""

    default_garbage_collection_policy = "Orphan"
    validates_metadata_on_update = True
    validate_create = staticmethod(validate_job)
    validate_update = staticmethod(validate_job_update)
    validate_status = staticmethod(validate_job_status_update)

    def default(self, obj: Obj) -> None:
        """Default the spec, and the labels to the template's."""
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        super().default(obj)
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if labels and not obj["metadata"].get("labels"):
            # One map until the UID is known: what is added to one belongs to the other.
            obj["metadata"]["labels"] = labels

    def prepare_for_create(self, obj: Obj) -> None:
        """Generate selector and labels from the UID, unless `manualSelector` is set."""
        super().prepare_for_create(obj)
        spec = obj["spec"]
        drop_disabled_fields(spec["template"]["spec"])
        if not spec.get("manualSelector"):
            metadata = obj["metadata"]
            labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
            name = metadata.get("name", "")
            job_labels = {
                _LEGACY_UID: metadata["uid"],
                _LEGACY_NAME: name,
                CONTROLLER_UID_LABEL: metadata["uid"],
                JOB_NAME_LABEL: name,
            }
            for key, value in job_labels.items():
                labels.setdefault(key, value)
            spec.setdefault("selector", {})
            spec["selector"].setdefault("matchLabels", {}).setdefault(
                CONTROLLER_UID_LABEL, metadata["uid"]
            )
        _separate_labels(obj)

    def prepare_for_update(self, new: Obj, old: Obj) -> None:
        """Drop disabled fields of the template."""
        drop_disabled_fields(new["spec"]["template"]["spec"])
        super().prepare_for_update(new, old)
        _separate_labels(new)

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the name, the numbers and the template."""
        self.default(obj)
        for text in get_name_warnings(obj, "Pod names and hostnames"):
            caller.warn(text)
        _job_warnings(obj["spec"], "spec", caller)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of a changed spec."""
        if new["spec"] != old["spec"]:
            _job_warnings(new["spec"], "spec", caller)


class JobREST(GenericStore):
    """The REST storage of jobs."""

    def delete(
        self,
        name: str,
        namespace: str,
        options: Obj,
        caller: Caller,
        *,
        admitted: bool = False,
        is_named: bool = True,
    ) -> Obj:
        """Delete a job; warn if the caller does not say what becomes of its pods.

        Raises:
            StatusError: 404 not found, 409 a precondition fails.
        """
        if is_named and not {"propagationPolicy", "orphanDependents"} & options.keys():
            caller.warn(_DELETION_WARNING)
        return super().delete(
            name, namespace, options, caller, admitted=admitted, is_named=is_named
        )


class CronJobStrategy(Strategy):
    """The strategy of cron jobs."""

    def default(self, obj: Obj) -> None:
        """Default the job template's spec."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("jobTemplate", {})
        job = template.setdefault("spec", {})
        default_pod_spec(job.setdefault("template", {}).setdefault("spec", {}))

    def prepare_for_create(self, obj: Obj) -> None:
        """Drop disabled fields of the template."""
        super().prepare_for_create(obj)
        drop_disabled_fields(obj["spec"]["jobTemplate"]["spec"]["template"]["spec"])

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Validate the schedule and the job template."""
        errors = validate_cron_job_spec(obj["spec"], None)
        errors += validate_cron_job_name(obj["metadata"])
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Validate a change; the name was validated at creation."""
        if new["spec"] == old["spec"]:
            return []
        return validate_cron_job_spec(new["spec"], old["spec"])

    def warn_on_create(self, obj: Obj, caller: Caller) -> None:
        """Warn of the name and of the job template."""
        for text in get_name_warnings(obj, "Pod names and hostnames"):
            caller.warn(text)
        _job_warnings(obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", caller)

    def warn_on_update(self, new: Obj, old: Obj, caller: Caller) -> None:
        """Warn of the job template, and of time zones in the schedule."""
        if new["spec"] != old["spec"]:
            _job_warnings(new["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", caller)
        if "TZ" in new["spec"].get("schedule", ""):
            caller.warn(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
                "details"
            )
