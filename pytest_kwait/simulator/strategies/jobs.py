"""Jobs and cron jobs.

Source: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/strategy.go,
pkg/apis/batch/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.status_error import invalid_value, not_supported, required
from pytest_kwait.simulator.strategies.generic import Strategy
from pytest_kwait.simulator.strategies.pods import default_pod_spec, validate_template

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["CONTROLLER_UID", "JOB_NAME", "CronJobStrategy", "JobStrategy", "default_job_spec"]

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_LEGACY_UID = "controller-uid"
_LEGACY_NAME = "job-name"
_NO_LIMIT = 2**31 - 1
_IMMUTABLE = "field is immutable"


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
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def validate_job_spec(spec: Obj, path: str) -> list[FieldError]:
    """What is wrong with a job's spec, its selector aside."""
    errors = [
        invalid_value(f"{path}.{field}", spec[field], "must be greater than or equal to 0")
        for field in (
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
        )
        if spec.get(field, 0) < 0
    ]
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed" and "completions" not in spec:
        errors.append(required(f"{path}.completions", f"when completion mode is {mode}"))
    template = spec.get("template", {})
    policies: tuple[str, ...] = ("OnFailure", "Never")
    if template.get("spec", {}).get("restartPolicy") == "Always":
        errors.append(
            required(f"{path}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        )
        policies = ("Always", "OnFailure", "Never")
    return errors + validate_template(template, f"{path}.template", restart_policies=policies)


class JobStrategy(Strategy):
    """Jobs: each one's pods are found by a label that carries its UID."""

    default_propagation = "Orphan"

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
        if not spec.get("manualSelector"):
            metadata = obj["metadata"]
            labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
            inherited = metadata.get("labels", {}) == labels
            ours = {
                _LEGACY_UID: metadata["uid"],
                _LEGACY_NAME: metadata["name"],
                CONTROLLER_UID: metadata["uid"],
                JOB_NAME: metadata["name"],
            }
            for key, value in ours.items():
                labels.setdefault(key, value)
            if inherited:
                metadata["labels"] = clone(labels)
            spec.setdefault("selector", {})
            spec["selector"].setdefault("matchLabels", {}).setdefault(
                CONTROLLER_UID, metadata["uid"]
            )

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """Spec, and a selector that finds the template."""
        spec = obj["spec"]
        errors = validate_job_spec(spec, "spec")
        selector = spec.get("selector")
        labels = spec["template"].get("metadata", {}).get("labels", {})
        if selector is None:
            errors.append(required("spec.selector"))
        elif not matches(selector, labels):
            errors.append(
                invalid_value(
                    "spec.template.metadata.labels",
                    labels,
                    "`selector` does not match template `labels`",
                )
            )
        return errors

    def validate_update(self, new: Obj, old: Obj) -> list[FieldError]:
        """Most of a job's spec never changes; a template does while the job has not started."""
        spec, before = new["spec"], old["spec"]
        errors = validate_job_spec(spec, "spec")
        fixed = [
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
        ]
        if before.get("completionMode") != "Indexed":
            fixed.insert(0, "completions")
        elif spec.get("completions") != before.get("completions") and (
            spec.get("completions") != spec.get("parallelism")
        ):
            text = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid_value("spec.completions", spec.get("completions"), text))
        if not (before.get("suspend") and not old.get("status", {}).get("startTime")):
            fixed.insert(2, "template")
        for field in fixed:
            if spec.get(field) != before.get(field):
                errors.append(invalid_value(f"spec.{field}", spec.get(field), _IMMUTABLE))
        return errors


class CronJobStrategy(Strategy):
    """Cron jobs."""

    def default(self, obj: Obj) -> None:
        """The job template's spec."""
        super().default(obj)
        template = obj.setdefault("spec", {}).setdefault("jobTemplate", {})
        job = template.setdefault("spec", {})
        pod = job.setdefault("template", {}).setdefault("spec", {})
        default_pod_spec(pod)

    def validate_create(self, obj: Obj) -> list[FieldError]:
        """A schedule, and a job that could run."""
        spec = obj["spec"]
        errors = []
        if not spec.get("schedule"):
            errors.append(required("spec.schedule"))
        if len(obj["metadata"].get("name", "")) > 52:
            errors.append(
                invalid_value(
                    "metadata.name",
                    obj["metadata"]["name"],
                    "must be no more than 52 characters",
                )
            )
        return errors + validate_job_spec(
            spec.get("jobTemplate", {}).get("spec", {}), "spec.jobTemplate.spec"
        )
