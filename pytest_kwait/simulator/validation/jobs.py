"""Jobs: how many pods, how often, and what their failures mean.

Source: pkg/apis/batch/validation/validation.go, validateJobSpec, ValidateJob,
validateGeneratedSelector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.selectors import matches_selector
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.failure_policies import validate_pod_failure_policy
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.validation.objectmeta import selector_errors
from pytest_kwait.simulator.validation.selectors import SELECTOR_MISMATCH, render_selector
from pytest_kwait.simulator.validation.success_policies import validate_success_policy

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = [
    "CONTROLLER_UID_LABEL",
    "JOB_NAME_LABEL",
    "validate_job",
    "validate_job_spec",
    "validate_job_spec_without_selector",
]

CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_LARGE_JOB_COMPLETIONS = 100_000
_MAX_PARALLELISM_OF_LARGE_JOB = 10_000
_MAX_MANAGED_BY_LENGTH = 63
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_PATH_FORM = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH_CHARACTERS = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~%!$&'()*+,;=:"
)


def validate_job(job: Obj, found: ErrorList) -> None:
    """A job as a whole: its spec, and what is made of its name and UID."""
    metadata, spec = job["metadata"], job["spec"]
    if not spec.get("manualSelector") and "selector" in spec:
        _validate_generated_selector(metadata, spec, found)
    validate_job_spec(spec, "spec", found)
    completions = spec.get("completions", 0)
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = metadata.get("name", "")
        last = f"{name}-{completions - 1}"
        if dns_label_texts(last):
            text = f"will not able to create pod with invalid DNS label: {last}"
            found.invalid("metadata.name", name, text)


def _validate_generated_selector(metadata: Obj, spec: Obj, found: ErrorList) -> None:
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        CONTROLLER_UID_LABEL: uid,
        JOB_NAME_LABEL: name,
    }
    labels = spec["template"].get("metadata", {}).get("labels", {})
    for key, value in expected.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            found.required(at, f"must be '{value}'")
        elif labels[key] != value:
            found.invalid(at, labels, f"must be '{value}'")
    selector = spec["selector"]
    if not selector_errors(selector, "") and not matches_selector(selector, expected):
        found.invalid("spec.selector", render_selector(selector), "`selector` not auto-generated")


def validate_job_spec(spec: Obj, at: str, found: ErrorList) -> None:
    """The spec, and a selector that finds its template."""
    validate_job_spec_without_selector(spec, at, found)
    selector = spec.get("selector")
    wrong = [] if selector is None else selector_errors(selector, f"{at}.selector")
    if selector is None:
        found.required(f"{at}.selector")
    found += wrong
    labels = spec["template"].get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches_selector(selector, labels or {}):
        found.invalid(f"{at}.template.metadata.labels", labels, SELECTOR_MISMATCH)


def validate_job_spec_without_selector(spec: Obj, at: str, found: ErrorList) -> None:
    """The spec without its selector, as in templates of jobs."""
    found.not_negative(spec, at, *_NUMBERS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        text = "when maxFailedIndexes is specified"
        found.required(f"{at}.backoffLimitPerIndex", text)
    if "managedBy" in spec:
        _validate_managed_by(spec["managedBy"], f"{at}.managedBy", found)
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        found.unsupported(f"{at}.completionMode", mode, _MODES)
    if mode == "Indexed":
        _validate_indexed_job(spec, at, found)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                found.invalid(f"{at}.{field}", spec[field], "requires indexed completion mode")
    if "podFailurePolicy" in spec:
        validate_pod_failure_policy(spec, f"{at}.podFailurePolicy", found)
    if "successPolicy" in spec:
        if mode != "Indexed":
            shown = format_internal("batch.SuccessPolicy", spec["successPolicy"])
            found.invalid(f"{at}.successPolicy", shown, "requires indexed completion mode")
        else:
            validate_success_policy(spec, f"{at}.successPolicy", found)
    replacement = spec.get("podReplacementPolicy")
    valid = _REPLACEMENTS[:1] if "podFailurePolicy" in spec else _REPLACEMENTS
    if replacement is not None and replacement not in valid:
        found.unsupported(f"{at}.podReplacementPolicy", replacement, valid)
    validate_pod_template_spec(spec.get("template", {}), f"{at}.template", found)
    _validate_restart_policy(spec, f"{at}.template.spec.restartPolicy", found)


def _validate_restart_policy(spec: Obj, at: str, found: ErrorList) -> None:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        found.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        found.unsupported(at, policy, ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in spec:
        found.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_managed_by(manager: str, at: str, found: ErrorList) -> None:
    host, slash, path = manager.partition("/")
    if not manager:
        found.required(at)
    elif not slash or not host or not path:
        found.invalid(at, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        found.texts(at, host, dns_subdomain_texts(host))
        if not _PATH_CHARACTERS.issuperset(path):
            text = f"Invalid path (regex used for validation is '{_PATH_FORM}')"
            found.invalid(at, path, text)
    if len(manager) > _MAX_MANAGED_BY_LENGTH:
        found.too_long(at, _MAX_MANAGED_BY_LENGTH)


def _validate_indexed_job(spec: Obj, at: str, found: ErrorList) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        found.required(f"{at}.completions", "when completion mode is Indexed")
    if parallelism > _LARGE_JOB_COMPLETIONS:
        text = f"must be less than or equal to {_LARGE_JOB_COMPLETIONS} when completion mode is Indexed"
        found.invalid(f"{at}.parallelism", parallelism, text)
    if failed is not None:
        if completions is not None and failed > completions:
            text = "must be less than or equal to completions"
            found.invalid(f"{at}.maxFailedIndexes", failed, text)
        if failed > _LARGE_JOB_COMPLETIONS:
            text = f"must be less than or equal to {_LARGE_JOB_COMPLETIONS}"
            found.invalid(f"{at}.maxFailedIndexes", failed, text)
    if (completions or 0) <= _LARGE_JOB_COMPLETIONS or "backoffLimitPerIndex" not in spec:
        return
    if failed is None:
        text = f"must be specified when completions is above {_LARGE_JOB_COMPLETIONS}"
        found.required(f"{at}.maxFailedIndexes", text)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MAX_PARALLELISM_OF_LARGE_JOB:
            text = (
                f"must be less than or equal to {_MAX_PARALLELISM_OF_LARGE_JOB} when completions are above "
                f"{_LARGE_JOB_COMPLETIONS} and used with backoff limit per index"
            )
            found.invalid(f"{at}.{field}", value, text)
