"""Validation of jobs and cron jobs: specs, updates and status.

A suspended job whose pods do not run may change more of its template than a running one. A status
must have numbers that fit each other, and conclusions that do not change.

Source: k8s.io/kubernetes pkg/apis/batch/validation/validation.go, validateJobSpec, ValidateJob,
validateGeneratedSelector, validatePodFailurePolicy, validateSuccessPolicy, validateIndexesFormat,
ValidateJobSpecUpdate, validatePodTemplateUpdate, validateJobStatus, ValidateJobStatusUpdate,
ValidateCronJobCreate, validateCronJobSpec; pkg/registry/batch/job/strategy.go,
validationOptionsForJob, getStatusValidationOptions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.conditions import is_condition_true
from pytest_kwait.apimachinery.field_errors import ErrorList, Rendered
from pytest_kwait.apimachinery.selectors import matches_label_selector
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
)
from pytest_kwait.simulator.cron import find_schedule_problem, find_time_zone_problem
from pytest_kwait.simulator.objects import clone, copy_fields
from pytest_kwait.simulator.validation.apps import SELECTOR_MISMATCH, render_selector
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.internal_types import format_internal
from pytest_kwait.simulator.validation.objectmeta import validate_label_selector

if TYPE_CHECKING:
    from typing import Any

    from pytest_kwait.simulator.objects import Obj

CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_CODES, _MAX_CONDITIONS = 20, 255, 20
_MAX_SUCCESS_RULES = 20
_MAX_INDEXES_LENGTH = 64 * 1024
_RANGE_PARTS = 2
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

_IMMUTABLE_FIELDS = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_STRUCTS = {"podFailurePolicy": "batch.PodFailurePolicy", "successPolicy": "batch.SuccessPolicy"}
_IMMUTABLE = "field is immutable"
_SCHEDULING_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")

_CONDITIONS_PATH = "status.conditions"
_TERMINAL_CONDITIONS = ("Failed", "Complete", "FailureTarget")

_CONCURRENCY = ("Allow", "Forbid", "Replace")
_MAX_NAME_LENGTH = 52


def _render_list(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def validate_pod_failure_policy(spec: Obj, at: str) -> ErrorList:
    """Validate the pod failure policy of a job's spec."""
    errors = ErrorList()
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MAX_RULES:
        errors.too_many(f"{at}.rules", len(rules), _MAX_RULES)
    pod = spec.get("template", {}).get("spec", {})
    names = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in pod.get(field) or ()
    }
    for index, rule in enumerate(rules):
        here = f"{at}.rules[{index}]"
        action = rule.get("action", "")
        if not action:
            errors.required(f"{here}.action", _render_list(_ACTIONS))
        elif action not in _ACTIONS:
            errors.not_supported(f"{here}.action", action, _ACTIONS)
        elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            text = "requires the backoffLimitPerIndex to be set"
            errors.invalid(f"{here}.action", action, text)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions", [])
        if codes is not None:
            errors += _validate_on_exit_codes(codes, names, f"{here}.onExitCodes")
        if conditions:
            errors += _validate_on_pod_conditions(conditions, f"{here}.onPodConditions")
        if codes is not None and conditions:
            text = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.invalid_without_value(here, text)
        if codes is None and not conditions:
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.invalid_without_value(here, text)
    return errors


def _validate_on_exit_codes(codes: Obj, names: set[str], at: str) -> ErrorList:
    errors = ErrorList()
    operator, values = codes.get("operator", ""), codes.get("values") or []
    container = codes.get("containerName")
    if not operator:
        errors.required(f"{at}.operator", _render_list(_OPERATORS))
    elif operator not in _OPERATORS:
        errors.not_supported(f"{at}.operator", operator, _OPERATORS)
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        errors.invalid(f"{at}.containerName", container, text)
    if not values:
        values_text = Rendered("null") if codes.get("values") is None else values
        errors.invalid(f"{at}.values", values_text, "at least one value is required")
    elif len(values) > _MAX_CODES:
        errors.too_many(f"{at}.values", len(values), _MAX_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.invalid(f"{at}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            errors.duplicate(f"{at}.values[{index}]", value)
    if values != sorted(values):
        errors.invalid(f"{at}.values", values, "must be ordered")
    return errors


def _validate_on_pod_conditions(conditions: list[Obj], at: str) -> ErrorList:
    errors = ErrorList()
    if len(conditions) > _MAX_CONDITIONS:
        errors.too_many(at, len(conditions), _MAX_CONDITIONS)
    for index, pattern in enumerate(conditions):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        errors.invalid_each(f"{at}[{index}].type", kind, label_key_texts(kind))
        if not status:
            errors.required(f"{at}[{index}].status", _render_list(_STATUSES))
        elif status not in _STATUSES:
            errors.not_supported(f"{at}[{index}].status", status, _STATUSES)
    return errors


def validate_success_policy(spec: Obj, at: str) -> ErrorList:
    """Validate the success policy of an indexed job."""
    errors = ErrorList()
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions")
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.required(f"{at}.rules", text)
    if len(rules) > _MAX_SUCCESS_RULES:
        errors.too_many(f"{at}.rules", len(rules), _MAX_SUCCESS_RULES)
    for index, rule in enumerate(rules):
        errors += _validate_success_policy_rule(rule, completions or 0, f"{at}.rules[{index}]")
    return errors


def _validate_success_policy_rule(rule: Obj, completions: int, at: str) -> ErrorList:
    errors = ErrorList()
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    total = 0
    if indexes is None and count is None:
        errors.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        here = f"{at}.succeededIndexes"
        if len(indexes) > _MAX_INDEXES_LENGTH:
            errors.too_long(here, _MAX_INDEXES_LENGTH)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            errors.invalid(here, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return errors
    errors.require_not_negative(rule, at, "succeededCount")
    if count > completions:
        text = f"{completions} (the number of specified completions)"
        errors.invalid(f"{at}.succeededCount", count, f"must be less than or equal to {text}")
    if indexes is not None and count > total:
        text = f"{total} (the number of indexes in the specified succeededIndexes field)"
        errors.invalid(f"{at}.succeededCount", count, f"must be less than or equal to {text}")
    return errors


def count_indexes(text: str, completions: int) -> int:
    """Return how many indexes `text`, such as `0,2-4`, lists.

    Raises:
        ValueError: the text is malformed; the message is kube-apiserver's.
    """
    total, last = 0, None
    for part in text.split(",") if text else ():
        start, end = _parse_interval(part, completions)
        if last is not None and last >= start:
            raise ValueError(f"non-increasing order, previous: {last}, current: {start}")
        total += end - start + 1
        last = end
    return total


def find_common_index(first_text: str, second_text: str, completions: int) -> int | None:
    """Return the first index in both lists, or None; malformed parts are skipped."""
    lists: list[list[tuple[int, int]]] = [[], []]
    for text, intervals in zip((first_text, second_text), lists, strict=True):
        for part in text.split(",") if text else ():
            try:
                intervals.append(_parse_interval(part, completions))
            except ValueError:
                continue
    done, failed = lists
    while done and failed:
        (start, end), (first, last) = done[0], failed[0]
        if start <= last and first <= end:
            return max(start, first)
        (done if start <= first else failed).pop(0)
    return None


def _parse_interval(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > _RANGE_PARTS:
        raise ValueError(
            f'the fragment "{part}" violates the requirement that an index interval can have at '
            "most two parts separated by '-'"
        )
    numbers = []
    for end in ends:
        if not re.fullmatch(r"\+?[0-9]+", end):
            raise ValueError(f'cannot convert string to integer for index: "{end}"')
        if int(end) >= completions:
            raise ValueError(f'too large index: "{end}"')
        numbers.append(int(end))
    if len(numbers) == _RANGE_PARTS and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def validate_job(job: Obj) -> ErrorList:
    """Validate a job: its spec, and the labels generated from its name and UID."""
    errors = ErrorList()
    metadata, spec = job["metadata"], job["spec"]
    if not spec.get("manualSelector") and "selector" in spec:
        errors += _validate_generated_selector(metadata, spec)
    errors += validate_job_spec(spec, "spec")
    completions = spec.get("completions", 0)
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = metadata.get("name", "")
        last = f"{name}-{completions - 1}"
        if dns_label_texts(last):
            text = f"will not able to create pod with invalid DNS label: {last}"
            errors.invalid("metadata.name", name, text)
    return errors


def _validate_generated_selector(metadata: Obj, spec: Obj) -> ErrorList:
    errors = ErrorList()
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
            errors.required(at, f"must be '{value}'")
        elif labels[key] != value:
            errors.invalid(at, labels, f"must be '{value}'")
    selector = spec["selector"]
    if not validate_label_selector(selector, "") and not matches_label_selector(selector, expected):
        errors.invalid("spec.selector", render_selector(selector), "`selector` not auto-generated")
    return errors


def validate_job_spec(spec: Obj, at: str) -> ErrorList:
    """Validate a job's spec; its selector must match its template."""
    errors = validate_job_spec_without_selector(spec, at)
    selector = spec.get("selector")
    wrong = [] if selector is None else validate_label_selector(selector, f"{at}.selector")
    if selector is None:
        errors.required(f"{at}.selector")
    errors += wrong
    labels = spec["template"].get("metadata", {}).get("labels")
    if not wrong and selector != {} and not matches_label_selector(selector, labels or {}):
        errors.invalid(f"{at}.template.metadata.labels", labels, SELECTOR_MISMATCH)
    return errors


def validate_job_spec_without_selector(spec: Obj, at: str) -> ErrorList:
    """Validate a job's spec without its selector, as in a job template."""
    errors = ErrorList()
    errors.require_not_negative(spec, at, *_NUMBERS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        text = "when maxFailedIndexes is specified"
        errors.required(f"{at}.backoffLimitPerIndex", text)
    if "managedBy" in spec:
        errors += _validate_managed_by(spec["managedBy"], f"{at}.managedBy")
    mode = spec.get("completionMode")
    errors.require_supported(f"{at}.completionMode", mode, _MODES)
    if mode == "Indexed":
        errors += _validate_indexed_job(spec, at)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if field in spec:
                errors.invalid(f"{at}.{field}", spec[field], "requires indexed completion mode")
    if "podFailurePolicy" in spec:
        errors += validate_pod_failure_policy(spec, f"{at}.podFailurePolicy")
    if "successPolicy" in spec:
        if mode != "Indexed":
            internal_policy = format_internal("batch.SuccessPolicy", spec["successPolicy"])
            errors.invalid(
                f"{at}.successPolicy", internal_policy, "requires indexed completion mode"
            )
        else:
            errors += validate_success_policy(spec, f"{at}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    valid = _REPLACEMENTS[:1] if "podFailurePolicy" in spec else _REPLACEMENTS
    errors.require_supported(f"{at}.podReplacementPolicy", replacement, valid)
    errors += validate_pod_template_spec(spec.get("template", {}), f"{at}.template")
    errors += _validate_restart_policy(spec, f"{at}.template.spec.restartPolicy")
    return errors


def _validate_restart_policy(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        errors.required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errors.not_supported(at, policy, ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in spec:
        errors.invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')
    return errors


def _validate_managed_by(manager: str, at: str) -> ErrorList:
    errors = ErrorList()
    host, slash, path = manager.partition("/")
    if not manager:
        errors.required(at)
    elif not slash or not host or not path:
        errors.invalid(at, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        errors.invalid_each(at, host, dns_subdomain_texts(host))
        if not _PATH_CHARACTERS.issuperset(path):
            text = f"Invalid path (regex used for validation is '{_PATH_FORM}')"
            errors.invalid(at, path, text)
    if len(manager) > _MAX_MANAGED_BY_LENGTH:
        errors.too_long(at, _MAX_MANAGED_BY_LENGTH)
    return errors


def _validate_indexed_job(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 0)
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errors.required(f"{at}.completions", "when completion mode is Indexed")
    if parallelism > _LARGE_JOB_COMPLETIONS:
        text = f"must be less than or equal to {_LARGE_JOB_COMPLETIONS}"
        text += " when completion mode is Indexed"
        errors.invalid(f"{at}.parallelism", parallelism, text)
    if failed is not None:
        if completions is not None and failed > completions:
            text = "must be less than or equal to completions"
            errors.invalid(f"{at}.maxFailedIndexes", failed, text)
        if failed > _LARGE_JOB_COMPLETIONS:
            text = f"must be less than or equal to {_LARGE_JOB_COMPLETIONS}"
            errors.invalid(f"{at}.maxFailedIndexes", failed, text)
    if (completions or 0) <= _LARGE_JOB_COMPLETIONS or "backoffLimitPerIndex" not in spec:
        return errors
    if failed is None:
        text = f"must be specified when completions is above {_LARGE_JOB_COMPLETIONS}"
        errors.required(f"{at}.maxFailedIndexes", text)
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
        if value > _MAX_PARALLELISM_OF_LARGE_JOB:
            text = (
                f"must be less than or equal to {_MAX_PARALLELISM_OF_LARGE_JOB} when completions"
                f" are above {_LARGE_JOB_COMPLETIONS} and used with backoff limit per index"
            )
            errors.invalid(f"{at}.{field}", value, text)
    return errors


def validate_job_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a job.

    Errors of the new spec by itself are reported twice, as upstream does.
    """
    errors = ErrorList()
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return errors
    errors += validate_job(new)
    errors += validate_job_spec(spec, "spec")
    errors += _validate_completions_update(spec, before)
    if spec.get("selector") != before.get("selector"):
        errors.invalid("spec.selector", render_selector(spec.get("selector")), _IMMUTABLE)
    errors += _validate_pod_template_update(spec, before, _is_suspended_without_pods(old))
    for field in _IMMUTABLE_FIELDS:
        value = spec.get(field)
        if value != before.get(field):
            errors.invalid(f"spec.{field}", _render_field(field, value), _IMMUTABLE)
    return errors


def _render_field(field: str, value: Any) -> Any:
    if value is None:
        return Rendered("null")
    return format_internal(_STRUCTS[field], value) if field in _STRUCTS else value


def _validate_completions_update(spec: Obj, before: Obj) -> ErrorList:
    errors = ErrorList()
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return errors
    if spec.get("completionMode") != "Indexed":
        completions_text = Rendered("null") if completions is None else completions
        errors.invalid("spec.completions", completions_text, _IMMUTABLE)
    elif completions is not None and completions != spec.get("parallelism"):
        text = "can only be modified in tandem with spec.parallelism"
        errors.invalid("spec.completions", completions, text)
    return errors


def _is_suspended_without_pods(job: Obj) -> bool:
    """Return whether the job is suspended and has no active pods."""
    status = job.get("status", {})
    started = "startTime" in status and not is_condition_true(job, "Suspended")
    return bool(job["spec"].get("suspend")) and not started and not status.get("active")


def _validate_pod_template_update(spec: Obj, before: Obj, waiting: bool) -> ErrorList:
    errors = ErrorList()
    template, earlier = spec["template"], before["template"]
    if template == earlier:
        return errors
    if waiting:
        earlier = _copy_scheduling_directives(template, earlier)
    if not waiting:
        if template != earlier:
            internal_template = format_internal("core.PodTemplateSpec", template)
            errors.invalid("spec.template", internal_template, _IMMUTABLE)
        return errors
    pod, was = template.get("spec", {}), earlier.get("spec", {})
    for field in ("containers", "initContainers"):
        if len(pod.get(field, ())) != len(was.get(field, ())):
            continue
        for container, old_container in zip(pod.get(field, ()), was.get(field, ()), strict=True):
            if container.get("name") == old_container.get("name"):
                old_container["resources"] = container.get("resources", {})
    if pod != was:
        errors.invalid("spec.template.spec", format_internal("core.PodSpec", pod), _IMMUTABLE)
    return errors


def _copy_scheduling_directives(template: Obj, earlier: Obj) -> Obj:
    """Return the old template with the new one's scheduling directives."""
    merged: Obj = clone(earlier)
    spec, was = template.get("spec", {}), merged.setdefault("spec", {})
    copy_fields(was, spec, *_SCHEDULING_FIELDS)
    affinity: Obj = dict(was.get("affinity", {}))
    copy_fields(affinity, spec.get("affinity", {}), "nodeAffinity")
    if affinity or "affinity" in spec:
        was["affinity"] = affinity
    else:
        was.pop("affinity", None)
    return merged


def _get_true_conditions(status: Obj) -> set[str]:
    """Return the types of the conditions that are True."""
    return {
        condition.get("type", "")
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }


def validate_job_status_update(new: Obj, old: Obj) -> ErrorList:
    """Validate a change of a job's status."""
    errors = ErrorList()
    spec, status, before = new["spec"], new.get("status") or {}, old.get("status") or {}
    if status == before:
        return errors
    errors.require_not_negative(
        status, "status", "active", "succeeded", "failed", "ready", "terminating"
    )
    errors += _validate_uncounted_pods(status.get("uncountedTerminatedPods") or {})
    holds, held = _get_true_conditions(status), _get_true_conditions(before)
    changed = {
        field for field in status.keys() | before.keys() if status.get(field) != before.get(field)
    }
    errors += _validate_conclusions(status, holds, held, changed)
    errors += _validate_terminal_conditions(spec, status, holds, held, changed)
    errors += _validate_status_indexes(spec, status, changed)
    ended = _is_finished(holds) and ("terminating" in changed or not _is_finished(held))
    if ended and status.get("terminating", 0) > 0:
        text = "terminating>0 is invalid for finished job"
        errors.invalid("status.terminating", status["terminating"], text)
    ready = status.get("ready") if {"ready", "active"} & changed else None
    if ready is not None and ready > status.get("active", 0):
        text = "cannot set more ready pods than active"
        errors.invalid("status.ready", ready, text)
    if "SuccessCriteriaMet" in holds:
        for condition_type, condition_text in (
            ("Failed", "Failed"),
            ("FailureTarget", "FailureTarget"),
        ):
            if condition_type in holds:
                text = f"cannot set SuccessCriteriaMet=True and {condition_text}=true conditions"
                errors.invalid_without_value(_CONDITIONS_PATH, text)
    elif "successPolicy" in spec and "Complete" in holds:
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.invalid_without_value(_CONDITIONS_PATH, text)
    errors += _validate_status_transition(new, status, before)
    return errors


def _validate_uncounted_pods(pods: Obj) -> ErrorList:
    errors = ErrorList()
    checked_uids: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(field) or ()):
            here = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.invalid(here, uid, "must not be empty")
            elif uid in checked_uids:
                errors.duplicate(here, uid)
            checked_uids.add(uid)
    return errors


def _is_finished(holds: set[str]) -> bool:
    return bool({"Complete", "Failed"} & holds)


def _validate_conclusions(
    status: Obj, holds: set[str], held: set[str], changed: set[str]
) -> ErrorList:
    errors = ErrorList()
    complete = "Complete" in holds
    moved = holds ^ held
    if {"Complete", "Failed"} & moved and complete and "Failed" in holds:
        errors.invalid_without_value(
            _CONDITIONS_PATH, "cannot set Complete=True and Failed=true conditions"
        )
    if {"Complete", "FailureTarget"} & moved and complete and "FailureTarget" in holds:
        errors.invalid_without_value(
            _CONDITIONS_PATH, "cannot set Complete=True and FailureTarget=true conditions"
        )
    start, end = status.get("startTime"), status.get("completionTime")
    if "Complete" in moved or "completionTime" in changed:
        if end is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.invalid("status.completionTime", end, text)
        if end is None and complete:
            text = "completionTime is required for Complete jobs"
            errors.required("status.completionTime", text)
    if {"startTime", "completionTime"} & changed and start and end and end < start:
        errors.invalid("status.completionTime", end, "must be equal to or after `startTime`")
    failed = "Failed" in holds and ("Failed" in moved or "failedIndexes" in changed)
    if failed and "FailureTarget" not in holds:
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.invalid_without_value(_CONDITIONS_PATH, text)
    concluded = complete and bool({"Complete", "SuccessCriteriaMet"} & moved)
    if concluded and "SuccessCriteriaMet" not in holds:
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.invalid_without_value(_CONDITIONS_PATH, text)
    return errors


def _validate_terminal_conditions(
    spec: Obj, status: Obj, holds: set[str], held: set[str], changed: set[str]
) -> ErrorList:
    errors = ErrorList()
    finished = _is_finished(holds)
    if not finished:
        return errors
    ended = not _is_finished(held)
    if (ended or "active" in changed) and status.get("active", 0) > 0:
        errors.invalid("status.active", status["active"], "active>0 is invalid for finished job")
    none = spec.get("suspend") is True and spec.get("completions") == 0
    if (ended or "startTime" in changed) and not none and "startTime" not in status:
        errors.required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (ended or "uncountedTerminatedPods" in changed) and any(uncounted.values()):
        uncounted_pods = {
            "Succeeded": uncounted.get("succeeded"),
            "Failed": uncounted.get("failed"),
        }
        errors.invalid(
            "status.uncountedTerminatedPods", uncounted_pods, "must be empty for finished job"
        )
    return errors


def _validate_status_indexes(spec: Obj, status: Obj, changed: set[str]) -> ErrorList:
    errors = ErrorList()
    completions = spec.get("completions")
    complete, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    for field, text in (("completedIndexes", complete), ("failedIndexes", failed)):
        known = field == "completedIndexes" or "backoffLimitPerIndex" in spec
        if field in changed and completions is not None and text and known:
            try:
                count_indexes(text, completions)
            except ValueError as error:
                errors.invalid(f"status.{field}", text, f"error parsing {field}: {error}")
    if "completedIndexes" in changed and complete and spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.invalid("status.completedIndexes", complete, text)
    if "failedIndexes" in changed and failed is not None and "backoffLimitPerIndex" not in spec:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.invalid("status.failedIndexes", failed, text)
    if {"completedIndexes", "failedIndexes"} & changed and completions is not None and failed:
        both = find_common_index(complete, failed, completions)
        if both is not None:
            text = f"failedIndexes and completedIndexes overlap at index: {both}"
            errors.invalid("status.failedIndexes", failed, text)
    return errors


def _validate_status_transition(new: Obj, status: Obj, before: Obj) -> ErrorList:
    errors = ErrorList()
    spec, holds, held = new["spec"], _get_true_conditions(status), _get_true_conditions(before)
    for kind in _TERMINAL_CONDITIONS:
        if kind in held and kind not in holds:
            errors.invalid_without_value(
                _CONDITIONS_PATH, f"cannot disable the terminal {kind}=True condition"
            )
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    for field in ("failed", "succeeded"):
        if field == "succeeded" and elastic:
            continue
        if status.get(field, 0) < before.get(field, 0):
            errors.invalid(
                f"status.{field}", status.get(field, 0), f"cannot decrease the {field} counter"
            )
    for field, text in (
        ("completionTime", _IMMUTABLE),
        ("startTime", "field is immutable for unsuspended job once set"),
    ):
        earlier, value = before.get(field), status.get(field)
        if earlier is None or earlier == value:
            continue
        if field == "startTime" and (spec.get("suspend") or _is_resumed(status, before)):
            continue
        if value is not None or field == "startTime":
            errors.invalid(f"status.{field}", Rendered("null") if value is None else value, text)
    if "SuccessCriteriaMet" in held and "SuccessCriteriaMet" not in holds:
        errors.invalid_without_value(
            _CONDITIONS_PATH, "cannot disable the SuccessCriteriaMet=True condition"
        )
    if "Complete" in held and "SuccessCriteriaMet" not in held and "SuccessCriteriaMet" in holds:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.invalid_without_value(_CONDITIONS_PATH, text)
    return errors


def _is_resumed(status: Obj, before: Obj) -> bool:
    off = any(
        condition.get("type") == "Suspended" and condition.get("status") == "False"
        for condition in status.get("conditions") or ()
    )
    return off and "Suspended" in _get_true_conditions(before)


def validate_cron_job_spec(spec: Obj, before: Obj | None) -> ErrorList:
    """Validate a cron job's spec; the stored one, if any, relaxes the checks."""
    errors = ErrorList()
    schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
    if not schedule:
        errors.required("spec.schedule")
    else:
        errors += _validate_schedule(schedule, zone, before)
    errors.require_not_negative(spec, "spec", "startingDeadlineSeconds")
    if zone is not None and (before is None or zone != before.get("timeZone")):
        errors.invalid_each("spec.timeZone", zone, find_time_zone_problem(zone))
    policy = spec.get("concurrencyPolicy", "")
    errors.require_one_of("spec.concurrencyPolicy", policy, _CONCURRENCY)
    at, job = "spec.jobTemplate.spec", spec.get("jobTemplate", {}).get("spec", {})
    errors += validate_job_spec_without_selector(job, at)
    if "selector" in job:
        selector_text = render_selector(job["selector"])
        errors.invalid(f"{at}.selector", selector_text, "`selector` will be auto-generated")
    if job.get("manualSelector"):
        errors.not_supported(f"{at}.manualSelector", True, ("nil", "false"))
    errors.require_not_negative(
        spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    return errors


def _validate_schedule(schedule: str, zone: str | None, before: Obj | None) -> ErrorList:
    errors = ErrorList()
    problem = find_schedule_problem(schedule)
    if problem:
        errors.invalid("spec.schedule", schedule, problem)
    if "TZ" not in schedule:
        return errors
    if before is None or "TZ" not in before.get("schedule", ""):
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.invalid("spec.schedule", schedule, text)
    elif zone is not None:
        text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.invalid("spec.schedule", schedule, text)
    return errors


def validate_cron_job_name(metadata: Obj) -> ErrorList:
    """Validate that the name leaves room for the suffix of its jobs' names."""
    errors = ErrorList()
    name = metadata.get("name", "")
    if len(name) > _MAX_NAME_LENGTH:
        errors.invalid("metadata.name", name, f"must be no more than {_MAX_NAME_LENGTH} characters")
    return errors
