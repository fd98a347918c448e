"""Templates of persistent volume claims in volumes.

Source: pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimTemplate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.rules.claim_specs import check_claim_spec
from pytest_kwait.simulator.validation import annotation_errors, label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_claim_template"]

_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_SHOWN = {"uid": "uID"}


def check_claim_template(template: Obj, at: str, found: Findings) -> None:
    """A template's metadata, which has labels and annotations only, and its spec."""
    metadata = template.get("metadata") or {}
    found += annotation_errors(metadata.get("annotations", {}), f"{at}.metadata.annotations")
    found += label_errors(metadata.get("labels", {}), f"{at}.metadata.labels")
    for field in _FIELDS:
        if metadata.get(field):
            found.forbidden(f"{at}.metadata.{_SHOWN.get(field, field)}", "cannot be set")
    check_claim_spec(template.get("spec") or {}, f"{at}.spec", found)
