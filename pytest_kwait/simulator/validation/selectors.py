"""Selectors of workloads, the templates that they find, and numbers that may be percent.

Source: pkg/apis/apps/validation/validation.go, ValidatePodTemplateSpecForReplicaSet,
ValidatePositiveIntOrPercent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.selectors import matches_selector
from pytest_kwait.simulator.validation.core.pods.pod_spec import validate_pod_template_spec
from pytest_kwait.simulator.validation.field_errors import format_internal
from pytest_kwait.simulator.validation.formats import NEGATIVE, percent_texts
from pytest_kwait.simulator.validation.objectmeta import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import Rendered
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = [
    "SELECTOR_MISMATCH",
    "parse_int_or_percent",
    "render_selector",
    "validate_immutable_selector",
    "validate_non_negative_int_or_percent",
    "validate_not_more_than_100_percent",
    "validate_restart_policy_always",
    "validate_template_for_selector",
    "validate_workload_selector",
]

SELECTOR_MISMATCH = "`selector` does not match template `labels`"


def render_selector(selector: Obj | None) -> Rendered:
    """A label selector as refusals show it."""
    return format_internal("v1.LabelSelector", selector)


def validate_workload_selector(spec: Obj, noun: str, found: ErrorList) -> bool:
    """The selector is there, sound and not empty; whether it can be used."""
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
        return True
    wrong = selector_errors(selector, "spec.selector")
    found += wrong
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {noun}"
        found.invalid("spec.selector", render_selector(selector), text)
    return not wrong


def validate_template_for_selector(spec: Obj, found: ErrorList) -> None:
    """The selector finds what the template makes, and that is sound."""
    template, selector = spec["template"], spec.get("selector")
    labels = template.get("metadata", {}).get("labels")
    if selector != {} and not matches_selector(selector, labels or {}):
        found.invalid("spec.template.metadata.labels", labels, SELECTOR_MISMATCH)
    validate_pod_template_spec(template, "spec.template", found)


def validate_restart_policy_always(spec: Obj, noun: str, found: ErrorList) -> None:
    """Pods that are replaced when they end never end by themselves."""
    pod = spec["template"].get("spec", {})
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        found.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        found.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def validate_immutable_selector(spec: Obj, before: Obj, found: ErrorList) -> None:
    """What a workload selects stays what it was."""
    selector = spec.get("selector")
    if selector != before.get("selector"):
        found.invalid("spec.selector", render_selector(selector), "field is immutable")


def validate_non_negative_int_or_percent(value: int | str, at: str, found: ErrorList) -> None:
    """A number that is not negative, or percent."""
    if isinstance(value, str):
        found.texts(at, value, percent_texts(value))
    elif value < 0:
        found.invalid(at, value, NEGATIVE)


def parse_int_or_percent(value: int | str) -> int:
    """The number, of things or of percent; 0 for what is neither."""
    if isinstance(value, str):
        return 0 if percent_texts(value) else int(value[:-1].lstrip("0")[:_MAX_DIGITS] or 0)
    return value


def validate_not_more_than_100_percent(value: int | str, at: str, found: ErrorList) -> None:
    """No more than 100 percent."""
    if isinstance(value, str) and parse_int_or_percent(value) > _ALL_PERCENT:
        found.invalid(at, value, "must not be greater than 100%")


_ALL_PERCENT = 100
_MAX_DIGITS = 18
"""Of a number that is read: what has more is more than all, however it goes on."""
