"""What a claim asks for: how much, of what, and with what in it.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.simulator.api_errors import Rendered
from pytest_kwait.simulator.validation.core.volumes.persistent_volumes import (
    VOLUME_MODES,
    validate_access_modes,
)
from pytest_kwait.simulator.validation.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.validation.objectmeta import selector_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_persistent_volume_claim_spec"]


def validate_persistent_volume_claim_spec(spec: Obj, at: str, found: ErrorList) -> None:
    """The spec of a claim."""
    modes = spec.get("accessModes", [])
    if not modes:
        found.required(f"{at}.accessModes", "at least 1 access mode is required")
    if "selector" in spec:
        found += selector_errors(spec["selector"], f"{at}.selector")
    validate_access_modes(modes, f"{at}.accessModes", found)
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    if storage is None:
        found.required(f"{at}.resources[storage]")
    elif parse_quantity(storage).amount <= 0:
        found.invalid(f"{at}.resources[storage]", storage, "must be greater than zero")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if field == "volumeAttributesClassName":
            _validate_data_sources(spec, at, found)
        if spec.get(field):
            found.texts(f"{at}.{field}", spec[field], dns_subdomain_texts(spec[field]))
        if field == "storageClassName" and spec.get("volumeMode") not in (None, *VOLUME_MODES):
            found.unsupported(f"{at}.volumeMode", spec["volumeMode"], VOLUME_MODES)


def _validate_data_sources(spec: Obj, at: str, found: ErrorList) -> None:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    for field, value in (("dataSource", source), ("dataSourceRef", ref)):
        if value is not None:
            _validate_data_source(value, f"{at}.{field}", found)
    if source is None or ref is None:
        return
    whole = Rendered("{}")
    if ref.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
        found.invalid(at, whole, text)
    elif any(source.get(field) != ref.get(field) for field in ("apiGroup", "kind", "name")):
        found.invalid(at, whole, "must match dataSourceRef")


def _validate_data_source(source: Obj, at: str, found: ErrorList) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            found.required(f"{at}.{field}")
    group, kind = source.get("apiGroup", ""), source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.invalid(at, kind, text)
    if group:
        found.texts(f"{at}.apiGroup", group, dns_subdomain_texts(group))
    if source.get("namespace"):
        found.texts(f"{at}.namespace", source["namespace"], dns_label_texts(source["namespace"]))
