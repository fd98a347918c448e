"""Templates of persistent volume claims in volumes.

Source: pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimTemplate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.volumes.claim_specs import (
    validate_persistent_volume_claim_spec,
)
from pytest_kwait.simulator.validation.objectmeta import annotation_errors, label_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_persistent_volume_claim_template"]

_FORBIDDEN_METADATA = (
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
_METADATA_DISPLAY_NAMES = {"uid": "uID"}


def validate_persistent_volume_claim_template(template: Obj, at: str, found: ErrorList) -> None:
    """A template's metadata, which has labels and annotations only, and its spec."""
    metadata = template.get("metadata") or {}
    found += annotation_errors(metadata.get("annotations", {}), f"{at}.metadata.annotations")
    found += label_errors(metadata.get("labels", {}), f"{at}.metadata.labels")
    for field in _FORBIDDEN_METADATA:
        if metadata.get(field):
            found.forbidden(
                f"{at}.metadata.{_METADATA_DISPLAY_NAMES.get(field, field)}", "cannot be set"
            )
    validate_persistent_volume_claim_spec(template.get("spec") or {}, f"{at}.spec", found)
