"""Jobs: how many pods, how often, and what their failures mean.

Source: pkg/apis/batch/validation/validation.go, validateJobSpec, ValidateJob,
validateGeneratedSelector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.pod_rules.pod_spec import check_template
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.validation import selector_errors
from pytest_kwait.simulator.workload_rules.failure_policies import check_failure_policy
from pytest_kwait.simulator.workload_rules.selectors import MISMATCH, shown_selector
from pytest_kwait.simulator.workload_rules.success_policies import check_success_policy

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["CONTROLLER_UID", "JOB_NAME", "check_job", "check_job_body", "check_job_spec"]

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MANY = 100_000
_MOST_BESIDE_MANY = 10_000
_MOST_MANAGER = 63
_MODES = ("NonIndexed", "Indexed")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_PATH_FORM = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH_SIGNS = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~%!$&'()*+,;=:"
)


def check_job(job: Obj, found: Findings) -> None:
    """A job as a whole: its spec, and what is made of its name and UID."""
    metadata, spec = job["metadata"], job["spec"]
    if not spec.get("manualSelector") and "selector" in spec:
        _check_generated(metadata, spec, found)
    check_job_spec(spec, "spec", found)
    completions = spec.get("completions", 0)
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = metadata.get("name", "")
        last = f"{name}-{completions - 1}"
        if dns_label_texts(last):
            text = f"will not able to create pod with invalid DNS label: {last}"
            found.invalid("metadata.name", name, text)


def _check_generated(metadata: Obj, spec: Obj, found: Findings) -> None:
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {"controller-uid": uid, "job-name": name, CONTROLLER_UID: uid, JOB_NAME: name}
    labels = spec["template"].get("metadata", {}).get("labels", {})
    for key, value in expected.items():
        at = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            found.required(at, f"must be '{value}'")
        elif labels[key] != value:
            found.invalid(at, labels, f"must be '{value}'")
    selector = spec["selector"]
    if not selector_errors(selector, "") and not matches(selector, expected):
        found.invalid("spec.selector", shown_selector(selector), "`selector` not auto-generated")


def check_job_spec(spec: Obj, at: str, found: Findings) -> None:
    """The spec, and a selector that finds its template."""
    check_job_body(spec, at, found)
    selector = spec.get("selector")
    wrong = [] if selector is None else selector_errors(selector, f"{at}.selector")
    if selector is None:
        found.required(f"{at}.selector")
    found += wrong
    labels = spec["template"].get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches(selector, labels or {}):
        found.invalid(f"{at}.template.metadata.labels", labels, MISMATCH)


def check_job_body(spec: Obj, at: str, found: Findings) -> None:
    """The spec without its selector, as in templates of jobs."""
    found.not_negative(spec, at, *_NUMBERS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        text = "when maxFailedIndexes is specified"
        found.required(f"{at}.backoffLimitPerIndex", text)
    if "managedBy" in spec:
        _check_manager(spec["managedBy"], f"{at}.managedBy", found)
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        found.unsupported(f"{at}.completionMode", mode, _MODES)
    if mode == "Indexed":
        _check_indexed(spec, at, found)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                found.invalid(f"{at}.{field}", spec[field], "requires indexed completion mode")
    if "podFailurePolicy" in spec:
        check_failure_policy(spec, f"{at}.podFailurePolicy", found)
    if "successPolicy" in spec:
        if mode != "Indexed":
            shown = internal_json("batch.SuccessPolicy", spec["successPolicy"])
            found.invalid(f"{at}.successPolicy", shown, "requires indexed completion mode")
        else:
            check_success_policy(spec, f"{at}.successPolicy", found)
    replacement = spec.get("podReplacementPolicy")
    valid = _REPLACEMENTS[:1] if "podFailurePolicy" in spec else _REPLACEMENTS
    if replacement is not None and replacement not in valid:
        found.unsupported(f"{at}.podReplacementPolicy", replacement, valid)
    check_template(spec.get("template", {}), f"{at}.template", found)
    _check_restarts(spec, f"{at}.template.spec.restartPolicy", found)


def _check_restarts(spec: Obj, at: str, found: Findings) -> None:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        found.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        found.unsupported(at, policy, ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in spec:
        found.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_manager(manager: str, at: str, found: Findings) -> None:
    host, slash, path = manager.partition("/")
    if not manager:
        found.required(at)
    elif not slash or not host or not path:
        found.invalid(at, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        found.texts(at, host, dns_subdomain_texts(host))
        if not _PATH_SIGNS.issuperset(path):
            text = f"Invalid path (regex used for validation is '{_PATH_FORM}')"
            found.invalid(at, path, text)
    if len(manager) > _MOST_MANAGER:
        found.too_long(at, _MOST_MANAGER)


def _check_indexed(spec: Obj, at: str, found: Findings) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        found.required(f"{at}.completions", "when completion mode is Indexed")
    if parallelism > _MANY:
        text = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        found.invalid(f"{at}.parallelism", parallelism, text)
    if failed is not None:
        if completions is not None and failed > completions:
            text = "must be less than or equal to completions"
            found.invalid(f"{at}.maxFailedIndexes", failed, text)
        if failed > _MANY:
            text = f"must be less than or equal to {_MANY}"
            found.invalid(f"{at}.maxFailedIndexes", failed, text)
    if (completions or 0) <= _MANY or "backoffLimitPerIndex" not in spec:
        return
    if failed is None:
        text = f"must be specified when completions is above {_MANY}"
        found.required(f"{at}.maxFailedIndexes", text)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MOST_BESIDE_MANY:
            text = (
                f"must be less than or equal to {_MOST_BESIDE_MANY} when completions are above "
                f"{_MANY} and used with backoff limit per index"
            )
            found.invalid(f"{at}.{field}", value, text)
