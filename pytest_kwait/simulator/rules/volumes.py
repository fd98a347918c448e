"""Persistent volumes: how much, of what, and where.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec;
pkg/api/persistentvolume/util.go.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.formats import dns_subdomain_texts
from pytest_kwait.simulator.objects import annotations_of
from pytest_kwait.simulator.pod_rules.placement import check_node_selector
from pytest_kwait.simulator.rules.node_labels import node_term_warnings
from pytest_kwait.simulator.rules.volume_sources import source_errors
from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["VOLUME_MODES", "access_errors", "volume_errors", "volume_warnings"]

VOLUME_MODES = ("Block", "Filesystem")
"""How a volume can be given to a container."""
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_POLICIES = ("Delete", "Recycle", "Retain")
_GONE = {
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}


def access_errors(modes: list[str], at: str) -> list[FieldError]:
    """What is wrong with the ways in which a volume is used."""
    errors = [not_supported(at, mode, _MODES) for mode in modes if mode not in _MODES]
    alone = "ReadWriteOncePod"
    if alone in modes and any(mode in _MODES and mode != alone for mode in modes):
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden_field(at, text))
    return errors


def volume_errors(volume: Obj) -> list[FieldError]:
    """What is wrong with a volume."""
    spec = volume.get("spec") or {}
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    errors = [] if modes else [required("spec.accessModes")]
    errors += access_errors(modes, "spec.accessModes") + _capacity_errors(capacity)
    policy, at = spec.get("persistentVolumeReclaimPolicy", ""), "spec.persistentVolumeReclaimPolicy"
    if policy and policy not in _POLICIES:
        errors.append(not_supported(at, policy, _POLICIES))
    errors += _affinity_errors(spec.get("nodeAffinity"))
    errors += source_errors(spec)
    host = (spec.get("hostPath") or {}).get("path")
    if policy == "Recycle" and host and posixpath.normpath(host) == "/":
        errors.append(forbidden_field(at, "may not be 'recycle' for a hostPath mount of '/'"))
    if name := spec.get("storageClassName", ""):
        place = "spec.storageClassName"
        errors += [invalid_value(place, name, text) for text in dns_subdomain_texts(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    return errors + _attribute_errors(spec)


def _affinity_errors(affinity: Obj | None) -> list[FieldError]:
    found, at = Findings(), "spec.nodeAffinity.required"
    if affinity is not None and affinity.get("required") is None:
        found.required(at, "must specify required node constraints")
    elif affinity is not None:
        check_node_selector(affinity["required"], at, found)
    return found


def _attribute_errors(spec: Obj) -> list[FieldError]:
    name, at = spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
    if name is None:
        return []
    errors = [invalid_value(at, name, text) for text in dns_subdomain_texts(name)] if name else []
    if not name:
        errors.append(required(at, "an empty string is disallowed"))
    if spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        errors.append(required("spec.csi", text))
    return errors


def _capacity_errors(capacity: dict[str, str]) -> list[FieldError]:
    at = "spec.capacity"
    errors = [] if capacity else [required(at)]
    if capacity.keys() != {"storage"}:
        errors.append(not_supported(at, capacity or None, ["storage"]))
    for name, text in capacity.items():
        amount = parse_quantity(text).amount
        if amount < 0:
            whole = int(amount)
            reason = "must be a valid resource quantity"
            errors.append(invalid_value(f"{at}[{name}]", whole, reason))
        if amount <= 0:
            errors.append(invalid_value(f"{at}[{name}]", text, "must be greater than zero"))
    return errors


def volume_warnings(volume: Obj) -> list[str]:
    """What is deprecated about a volume."""
    spec, texts = volume.get("spec") or {}, []
    for key, text in (
        (
            "volume.beta.kubernetes.io/storage-class",
            'deprecated since v1.8; use "storageClassName" attribute instead',
        ),
        (
            "volume.beta.kubernetes.io/mount-options",
            'deprecated since v1.31; use "mountOptions" attribute instead',
        ),
    ):
        if key in annotations_of(volume):
            texts.append(f"metadata.annotations[{key}]: {text}")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        texts.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
            "Instead, the recommended approach is to use dynamic provisioning."
        )
    wanted = (spec.get("nodeAffinity") or {}).get("required") or {}
    at = "spec.nodeAffinity.required.nodeSelectorTerms"
    texts += node_term_warnings(wanted.get("nodeSelectorTerms") or [], at)
    texts += [f"spec.{shown}: {text}" for name, (shown, text) in _GONE.items() if spec.get(name)]
    return texts
