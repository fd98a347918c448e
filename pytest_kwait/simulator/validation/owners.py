"""Owner references: whole, of kinds that can own, with one controller, each once.

Source: k8s.io/apimachinery pkg/api/validation/objectmeta.go, ValidateOwnerReferences;
k8s.io/apiserver pkg/endpoints/handlers/rest.go, dedupOwnerReferencesAndAddWarning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.api_errors import invalid_value, render_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["dedup_owner_references", "validate_owner_references"]

_OWNER_REFERENCES_PATH = "metadata.ownerReferences"
_OWNER_REFERENCE_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_BANNED_OWNERS = {("v1", "Event"): "/v1, Kind=Event"}


def validate_owner_references(references: Sequence[Obj]) -> list[FieldError]:
    """What is wrong with the owners that an object names."""
    errors: list[FieldError] = []
    controller = ""
    for reference in references:
        version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
        if not version or version.count("/") > 1 or version.endswith("/"):
            text = "version must not be empty"
            errors.append(invalid_value(f"{_OWNER_REFERENCES_PATH}.apiVersion", version, text))
        errors += [
            invalid_value(f"{_OWNER_REFERENCES_PATH}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if (version, kind) in _BANNED_OWNERS:
            text = f"{_BANNED_OWNERS[version, kind]} is disallowed from being an owner"
            errors.append(
                invalid_value(_OWNER_REFERENCES_PATH, render_json(_order_fields(reference)), text)
            )
        if reference.get("controller"):
            this = f"{kind}/{reference.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. Found "
                    f'"true" in references for {controller} and {this}'
                )
                shown = render_json([_order_fields(one) for one in references])
                errors.append(invalid_value(_OWNER_REFERENCES_PATH, shown, text))
            controller = controller or this
    return errors


def _order_fields(reference: Obj) -> Obj:
    return {
        field: reference.get(field, "")
        for field in _OWNER_REFERENCE_FIELDS
        if field in reference or field in _OWNER_REFERENCE_FIELDS[:4]
    }


def dedup_owner_references(metadata: Obj) -> str:
    """Keep each owner once, in place; what is said of those that stood there again."""
    references = metadata.get("ownerReferences") or []
    kept: list[Obj] = []
    repeated: list[str] = []
    for reference in references:
        if reference in kept:
            repeated.append(reference.get("uid", ""))
        else:
            kept.append(reference)
    if not repeated:
        return ""
    metadata["ownerReferences"] = kept
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references "
        "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(dict.fromkeys(repeated))}"
    )
