"""Validation of persistent volumes and their sources.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec;
pkg/api/persistentvolume/util.go.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.objects import BETA_STORAGE_CLASS, annotations_of
from pytest_kwait.simulator.validation.core.nodes import get_node_selector_term_warnings
from pytest_kwait.simulator.validation.core.persistent_volume_claims import (
    VOLUME_MODES,
    validate_access_modes,
)
from pytest_kwait.simulator.validation.core.scheduling import validate_node_selector
from pytest_kwait.simulator.validation.core.volumes import (
    MORE_THAN_ONE_SOURCE,
    SHARED_SOURCES,
    SOURCE_DISPLAY_NAMES,
    validate_cinder,
    validate_csi_driver_name,
    validate_iscsi,
    validate_path_no_backsteps,
    validate_storage_os,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

_INVALID_ENDPOINT_NAMESPACE = "if the endpointnamespace is set, it must be a valid namespace name"
_CSI_SECRET_USES = ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_DEPRECATED_PERSISTENT_SOURCES = {
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

_INLINE = "in the context of inline volumes"


def validate_persistent_volume_source(spec: Obj, name: str, at: str) -> ErrorList:
    """Validate that a persistent volume has exactly one valid source.

    Args:
        spec: the volume's spec.
        name: the volume's name; empty within an attachment.
        at: the path of the spec.
    """
    errors = ErrorList()
    taken = False
    for source in PERSISTENT_VOLUME_SOURCES:
        value = spec.get(source)
        if value is None:
            continue
        # For a flex volume, kube-apiserver reports all errors but that it is a second source.
        if taken and source != "flexVolume":
            errors.forbidden(
                f"{at}.{SOURCE_DISPLAY_NAMES.get(source, source)}", MORE_THAN_ONE_SOURCE
            )
            continue
        taken = True
        here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
        if source == "iscsi":
            errors += validate_iscsi(value, here, name)
        else:
            errors += PERSISTENT_VOLUME_SOURCES[source](value, here)
        if source == "local" and spec.get("nodeAffinity") is None:
            errors.required(f"{at}.nodeAffinity", "Local volume requires node affinity")
    if not taken:
        errors.required(at, "must specify a volume type")
    return errors


def _validate_local_volume(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    path = source.get("path", "")
    if not path:
        errors.required(f"{at}.path")
    else:
        errors += validate_path_no_backsteps(path, f"{at}.path")
    return errors


def _validate_glusterfs(source: Obj, at: str) -> ErrorList:
    errors = SHARED_SOURCES["glusterfs"](source, at)
    namespace = source.get("endpointsNamespace")
    if namespace is not None:
        texts = dns_label_texts(namespace) if namespace else [_INVALID_ENDPOINT_NAMESPACE]
        errors.invalid_each(f"{at}.endpointsNamespace", namespace, texts)
    return errors


def _validate_persistent_azure_file(source: Obj, at: str) -> ErrorList:
    errors = SHARED_SOURCES["azureFile"](source, at)
    if source.get("secretNamespace") == "":
        errors.required(f"{at}.secretNamespace")
    return errors


def _validate_persistent_cinder(source: Obj, at: str) -> ErrorList:
    return validate_cinder(source, at, "name", "namespace")


def _validate_persistent_storage_os(source: Obj, at: str) -> ErrorList:
    return validate_storage_os(source, at, "name", "namespace")


def _validate_csi_persistent_volume(source: Obj, at: str) -> ErrorList:
    errors = validate_csi_driver_name(source.get("driver", ""), f"{at}.driver")
    errors.require_fields(source, at, "volumeHandle")
    for use in _CSI_SECRET_USES:
        secret, here = source.get(f"{use}SecretRef"), f"{at}.{use}SecretRef"
        if secret is None:
            continue
        for field, texts in (("name", dns_subdomain_texts), ("namespace", dns_label_texts)):
            value = secret.get(field, "")
            if value:
                errors.invalid_each(f"{here}.{field}", value, texts(value))
            else:
                errors.required(f"{here}.{field}")
    return errors


PERSISTENT_VOLUME_SOURCES: dict[str, Callable[[Obj, str], ErrorList]] = {
    # In kube-apiserver's order.
    "hostPath": SHARED_SOURCES["hostPath"],
    "gcePersistentDisk": SHARED_SOURCES["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED_SOURCES["awsElasticBlockStore"],
    "glusterfs": _validate_glusterfs,
    "flocker": SHARED_SOURCES["flocker"],
    "nfs": SHARED_SOURCES["nfs"],
    "rbd": SHARED_SOURCES["rbd"],
    "quobyte": SHARED_SOURCES["quobyte"],
    "cephfs": SHARED_SOURCES["cephfs"],
    "iscsi": validate_iscsi,
    "cinder": _validate_persistent_cinder,
    "fc": SHARED_SOURCES["fc"],
    "flexVolume": SHARED_SOURCES["flexVolume"],
    "azureFile": _validate_persistent_azure_file,
    "vsphereVolume": SHARED_SOURCES["vsphereVolume"],
    "photonPersistentDisk": SHARED_SOURCES["photonPersistentDisk"],
    "portworxVolume": SHARED_SOURCES["portworxVolume"],
    "azureDisk": SHARED_SOURCES["azureDisk"],
    "scaleIO": SHARED_SOURCES["scaleIO"],
    "local": _validate_local_volume,
    "storageos": _validate_persistent_storage_os,
    "csi": _validate_csi_persistent_volume,
}
"""The source fields of a persistent volume, with their validators."""


def validate_persistent_volume_spec(
    spec: Obj, name: str, at: str, *, inline: bool = False
) -> ErrorList:
    """Validate the spec of a persistent volume.

    Args:
        spec: the volume's spec.
        name: the volume's name; empty for an inline one.
        at: the path of the spec.
        inline: whether the spec is part of a volume attachment.
    """
    errors = ErrorList()
    if inline:
        errors += _validate_inline_spec(spec, at)
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required(f"{at}.accessModes")
    errors += validate_access_modes(modes, f"{at}.accessModes")
    if not inline:
        errors += _validate_capacity(spec.get("capacity") or {}, f"{at}.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    at_policy = f"{at}.persistentVolumeReclaimPolicy"
    if policy and inline and policy != "Retain":
        errors.forbidden(at_policy, f"may only be Retain {_INLINE}")
    elif policy and not inline and policy not in _RECLAIM_POLICIES:
        errors.not_supported(at_policy, policy, _RECLAIM_POLICIES)
    if spec.get("nodeAffinity") is not None:
        if inline:
            errors.forbidden(f"{at}.nodeAffinity", f"may not be specified {_INLINE}")
        else:
            errors += _validate_node_affinity(spec["nodeAffinity"], f"{at}.nodeAffinity.required")
    errors += validate_persistent_volume_source(spec, name, at)
    host = (spec.get("hostPath") or {}).get("path")
    if policy == "Recycle" and host and posixpath.normpath(host) in ("/", "//"):
        errors.forbidden(at_policy, "may not be 'recycle' for a hostPath mount of '/'")
    errors += _validate_storage_classes(spec, at, inline=inline)
    return errors


def _validate_inline_spec(spec: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    for field in ("claimRef", "capacity"):
        if spec.get(field) or (field == "claimRef" and spec.get(field) is not None):
            errors.forbidden(f"{at}.{field}", f"may not be specified {_INLINE}")
    if spec.get("csi") is None:
        errors.required(f"{at}.csi", f"has to be specified {_INLINE}")
    return errors


def _validate_node_affinity(affinity: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if affinity.get("required") is None:
        errors.required(at, "must specify required node constraints")
    else:
        errors += validate_node_selector(affinity["required"], at)
    return errors


def _validate_storage_classes(spec: Obj, at: str, *, inline: bool) -> ErrorList:
    errors = ErrorList()
    if name := spec.get("storageClassName", ""):
        if inline:
            errors.forbidden(f"{at}.storageClassName", f"may not be specified {_INLINE}")
        else:
            errors.invalid_each(f"{at}.storageClassName", name, dns_subdomain_texts(name))
    mode = spec.get("volumeMode")
    if inline and mode not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.forbidden(f"{at}.volumeMode", text)
    elif not inline and mode is not None and mode not in VOLUME_MODES:
        errors.not_supported(f"{at}.volumeMode", mode, VOLUME_MODES)
    attributes = spec.get("volumeAttributesClassName")
    if attributes is None or inline:
        return errors
    at_attributes = f"{at}.volumeAttributesClassName"
    if attributes:
        errors.invalid_each(at_attributes, attributes, dns_subdomain_texts(attributes))
    else:
        errors.required(at_attributes, "an empty string is disallowed")
    if spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        errors.required(f"{at}.csi", text)
    return errors


def _validate_capacity(capacity: dict[str, str], at: str) -> ErrorList:
    errors = ErrorList()
    if not capacity:
        errors.required(at)
    if capacity.keys() != {"storage"}:
        errors.not_supported(at, capacity or None, ["storage"])
    for name, text in capacity.items():
        amount = parse_quantity(text).amount
        if amount < 0:
            errors.invalid(f"{at}[{name}]", int(amount), "must be a valid resource quantity")
        if amount <= 0:
            errors.invalid(f"{at}[{name}]", text, "must be greater than zero")
    return errors


def get_persistent_volume_warnings(volume: Obj) -> list[str]:
    """Return warnings about deprecated fields of a persistent volume."""
    spec, texts = volume.get("spec") or {}, []
    for key, text in (
        (
            BETA_STORAGE_CLASS,
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
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    at = "spec.nodeAffinity.required.nodeSelectorTerms"
    texts += get_node_selector_term_warnings(required.get("nodeSelectorTerms") or [], at)
    texts += [
        f"spec.{reported_field}: {text}"
        for name, (reported_field, text) in _DEPRECATED_PERSISTENT_SOURCES.items()
        if spec.get(name)
    ]
    return texts
