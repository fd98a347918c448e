"""Selectors of workloads, the templates that they find, and numbers that may be percent.

Source: pkg/apis/apps/validation/validation.go, ValidatePodTemplateSpecForReplicaSet,
ValidatePositiveIntOrPercent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import NEGATIVE, percent_texts
from pytest_kwait.simulator.internal_values import internal_json
from pytest_kwait.simulator.pod_rules.pod_spec import check_template
from pytest_kwait.simulator.selectors import matches
from pytest_kwait.simulator.validation import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import Rendered

__all__ = [
    "MISMATCH",
    "check_immutable_selector",
    "check_kept_running",
    "check_not_more_than_all",
    "check_percent",
    "check_selected_template",
    "check_selector",
    "percent_of",
    "shown_selector",
]

MISMATCH = "`selector` does not match template `labels`"


def shown_selector(selector: Obj | None) -> Rendered:
    """A label selector as refusals show it."""
    return internal_json("v1.LabelSelector", selector)


def check_selector(spec: Obj, noun: str, found: Findings) -> bool:
    """The selector is there, sound and not empty; whether it can be used."""
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
        return True
    wrong = selector_errors(selector, "spec.selector")
    found += wrong
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {noun}"
        found.invalid("spec.selector", shown_selector(selector), text)
    return not wrong


def check_selected_template(spec: Obj, found: Findings) -> None:
    """The selector finds what the template makes, and that is sound."""
    template, selector = spec["template"], spec.get("selector")
    labels = template.get("metadata", {}).get("labels")
    if selector != {} and not matches(selector, labels or {}):
        found.invalid("spec.template.metadata.labels", labels, MISMATCH)
    check_template(template, "spec.template", found)


def check_kept_running(spec: Obj, noun: str, found: Findings) -> None:
    """Pods that are replaced when they end never end by themselves."""
    pod = spec["template"].get("spec", {})
    policy = pod.get("restartPolicy", "")
    if policy != "Always":
        found.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in pod:
        text = f"activeDeadlineSeconds in {noun} is not Supported"
        found.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def check_immutable_selector(spec: Obj, before: Obj, found: Findings) -> None:
    """What a workload selects stays what it was."""
    selector = spec.get("selector")
    if selector != before.get("selector"):
        found.invalid("spec.selector", shown_selector(selector), "field is immutable")


def check_percent(value: int | str, at: str, found: Findings) -> None:
    """A number that is not negative, or percent."""
    if isinstance(value, str):
        found.texts(at, value, percent_texts(value))
    elif value < 0:
        found.invalid(at, value, NEGATIVE)


def percent_of(value: int | str) -> int:
    """The number, of things or of percent; 0 for what is neither."""
    if isinstance(value, str):
        return 0 if percent_texts(value) else int(value[:-1].lstrip("0")[:_DIGITS] or 0)
    return value


def check_not_more_than_all(value: int | str, at: str, found: Findings) -> None:
    """No more than 100 percent."""
    if isinstance(value, str) and percent_of(value) > _ALL:
        found.invalid(at, value, "must not be greater than 100%")


_ALL = 100
_DIGITS = 18
"""Of a number that is read: what has more is more than all, however it goes on."""
