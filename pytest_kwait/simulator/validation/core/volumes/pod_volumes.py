"""Validation of the volumes of a pod spec, projected and downward API volumes included.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateVolumes,
validateVolumeSource, validateKeyToPath, validateDownwardAPIVolumeFile, validateProjectionSources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.validation.core.recently_valid import RecentlyValid
from pytest_kwait.simulator.validation.core.volumes.claims import (
    validate_persistent_volume_claim_template,
)
from pytest_kwait.simulator.validation.core.volumes.downward_api import (
    validate_object_field_selector,
    validate_resource_field_selector,
)
from pytest_kwait.simulator.validation.core.volumes.sources import (
    MORE_THAN_ONE_SOURCE,
    SHARED_SOURCES,
    SOURCE_DISPLAY_NAMES,
    require_fields,
    validate_csi_driver_name,
    validate_file_mode,
    validate_iscsi_portal_length,
    validate_local_descending_path,
    validate_local_non_reserved_path,
)
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "validate_downward_api_files",
    "validate_key_to_paths",
    "validate_projected_volume",
    "validate_volumes",
]

_DOWNWARD_API_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_CONFLICT = "conflicting duplicate paths"
_RECENTLY_VALID = RecentlyValid()
_MIN_TOKEN, _MAX_TOKEN = 600, 1 << 32


def validate_key_to_paths(source: Obj, at: str) -> ErrorList:
    """Validate the files of a secret or config map volume."""
    errors = ErrorList()
    for index, item in enumerate(source.get("items", ())):
        here = f"{at}.items[{index}]"
        errors += _validate_key_to_path(item, here)
    return errors


def _validate_key_to_path(item: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    path = item.get("path", "")
    if not item.get("key"):
        errors.required(f"{at}.key")
    if not path:
        errors.required(f"{at}.path")
    errors += validate_local_non_reserved_path(path, f"{at}.path")
    errors += validate_file_mode(item.get("mode"), f"{at}.mode")
    return errors


def validate_downward_api_files(source: Obj, at: str) -> ErrorList:
    """Validate the files of a downward API volume; errors name the path of the source."""
    errors = ErrorList()
    for item in source.get("items", ()):
        errors += _validate_downward_api_file(item, at)
    return errors


def _validate_downward_api_file(item: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    path = item.get("path", "")
    if not path:
        errors.required(f"{at}.path")
    errors += validate_local_non_reserved_path(path, f"{at}.path")
    if "fieldRef" in item:
        errors += validate_object_field_selector(
            item["fieldRef"], _DOWNWARD_API_FIELDS, f"{at}.fieldRef"
        )
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.invalid(at, "resource", text)
    elif "resourceFieldRef" in item:
        here = f"{at}.resourceFieldRef"
        errors += validate_resource_field_selector(item["resourceFieldRef"], here, of_volume=True)
    else:
        errors.required(at, "one of fieldRef and resourceFieldRef is required")
    errors += validate_file_mode(item.get("mode"), f"{at}.mode")
    return errors


def validate_projected_volume(volume: Obj, at: str) -> ErrorList:
    """Validate a projected volume, whose files must not share a path."""
    errors = ErrorList()
    if volume in _RECENTLY_VALID:
        return errors
    errors += validate_file_mode(volume.get("defaultMode"), f"{at}.defaultMode")
    paths: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        here = f"{at}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                errors += _validate_keyed_projection(source[kind], f"{here}.{kind}", at, paths)
        for item in source.get("downwardAPI", {}).get("items", ()):
            errors += _validate_downward_api_file(item, f"{here}.downwardAPI")
            path = item.get("path", "")
            if path:
                errors += _reserve_path(path, path, at, paths)
        if "serviceAccountToken" in source:
            errors += _validate_token_projection(
                source["serviceAccountToken"], f"{here}.serviceAccountToken", at
            )
        if len(source) > 1:
            errors.forbidden(here, "may not specify more than 1 volume type per source")
    if not errors:
        _RECENTLY_VALID.add(volume)
    return errors


def _validate_keyed_projection(source: Obj, at: str, volume: str, paths: set[str]) -> ErrorList:
    errors = ErrorList()
    name = source.get("name", "")
    if not name:
        errors.required(f"{at}.name")
    for index, item in enumerate(source.get("items", ())):
        errors += _validate_key_to_path(item, f"{at}.items[{index}]")
        if item.get("path"):
            errors += _reserve_path(item["path"], name, volume, paths)
    return errors


def _reserve_path(path: str, shown: str, at: str, paths: set[str]) -> ErrorList:
    errors = ErrorList()
    if path in paths:
        errors.invalid(at, shown, _CONFLICT)
    paths.add(path)
    return errors


def _validate_token_projection(source: Obj, at: str, volume: str) -> ErrorList:
    errors = ErrorList()
    seconds, path = source.get("expirationSeconds", 0), source.get("path", "")
    if seconds < _MIN_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        errors.invalid(f"{at}.expirationSeconds", seconds, text)
    if seconds > _MAX_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.invalid(f"{at}.expirationSeconds", seconds, text)
    if not path:
        errors.required(f"{volume}.path")
    else:
        errors += validate_local_non_reserved_path(path, f"{volume}.path")
    return errors


_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def validate_volumes(
    volumes: list[Obj] | tuple[()], owner: str, at: str, *, pod: bool
) -> tuple[dict[str, Obj], ErrorList]:
    """Return the valid volumes by name, and the errors of all.

    Args:
        volumes: the list of the spec.
        owner: the pod's name; empty for a template.
        at: the path of the list.
        pod: whether it is a pod and not a template.
    """
    valid: dict[str, Obj] = {}
    errors = ErrorList()
    generated_claims = {
        f"{owner}-{one.get('name', '')}" for one in volumes if owner and "ephemeral" in one
    }
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        name = volume.get("name", "")
        volume_errors = _validate_volume_source(volume, name, owner, here, pod=pod)
        if not name:
            volume_errors.required(f"{here}.name")
        else:
            volume_errors.invalid_each(f"{here}.name", name, dns_label_texts(name))
        if name in valid:
            volume_errors.duplicate(f"{here}.name", name)
        if not volume_errors:
            valid[name] = volume
        errors += volume_errors
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and claim in generated_claims:
            errors.invalid(
                f"{here}.persistentVolumeClaim.claimName",
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            )
    return valid, errors


def _validate_volume_source(volume: Obj, name: str, owner: str, at: str, *, pod: bool) -> ErrorList:
    errors = ErrorList()
    taken = False
    for source in volume.keys() - {"name"} if len(volume) <= _FIRST_EXCESS_SOURCE else _SOURCES:
        value = volume.get(source)
        if value is None:
            continue
        if taken:
            errors.forbidden(
                f"{at}.{SOURCE_DISPLAY_NAMES.get(source, source)}", MORE_THAN_ONE_SOURCE
            )
        else:
            taken = True
            here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
            if source == "image":
                errors += _validate_image_volume(value, here, pod=pod)
            else:
                errors += _SOURCES[source](value, here)
        if source == "iscsi":
            errors += validate_iscsi_portal_length(value, name, f"{at}.name")
        elif source == "ephemeral" and owner and name:
            claim = f"{owner}-{name}"
            texts = dns_subdomain_texts(claim)
            errors.invalid_each(
                f"{at}.name", name, [f'PVC name "{claim}": {text}' for text in texts]
            )
    if not taken:
        errors.required(at, "must specify a volume type")
    return errors


_FIRST_EXCESS_SOURCE = 2


def _validate_empty_dir(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).amount < 0:
        errors.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    return errors


def _validate_git_repo(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if not source.get("repository"):
        errors.required(f"{at}.repository")
    errors += validate_local_descending_path(source.get("directory", ""), f"{at}.directory")
    return errors


def _make_keyed_source_validator(name: str) -> Callable[[Obj, str], ErrorList]:
    """Return a validator of a secret or config map source, whose name is in field `name`."""

    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        if not source.get(name):
            errors.required(f"{at}.{name}")
        errors += validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode")
        errors += validate_key_to_paths(source, at)
        return errors

    return check


def _validate_downward_api_volume(source: Obj, at: str) -> ErrorList:
    errors = validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode")
    errors += validate_downward_api_files(source, at)
    return errors


def _validate_csi_volume(source: Obj, at: str) -> ErrorList:
    errors = validate_csi_driver_name(source.get("driver", ""), f"{at}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        errors.required(f"{at}.nodePublishSecretRef.name")
    elif secret is not None:
        errors.invalid_each(f"{at}.name", secret["name"], dns_subdomain_texts(secret["name"]))
    return errors


def _validate_ephemeral_volume(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if "volumeClaimTemplate" not in source:
        errors.required(f"{at}.volumeClaimTemplate")
    else:
        errors += validate_persistent_volume_claim_template(
            source["volumeClaimTemplate"], f"{at}.volumeClaimTemplate"
        )
    return errors


def _validate_image_volume(source: Obj, at: str, *, pod: bool = True) -> ErrorList:
    errors = ErrorList()
    if pod and not source.get("reference"):
        errors.required(f"{at}.reference")
    errors.require_one_of(f"{at}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)
    return errors


_SOURCES: dict[str, Callable[[Obj, str], ErrorList]] = {
    # In kube-apiserver's order.
    "emptyDir": _validate_empty_dir,
    "hostPath": SHARED_SOURCES["hostPath"],
    "gitRepo": _validate_git_repo,
    "gcePersistentDisk": SHARED_SOURCES["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED_SOURCES["awsElasticBlockStore"],
    "secret": _make_keyed_source_validator("secretName"),
    "nfs": SHARED_SOURCES["nfs"],
    "iscsi": SHARED_SOURCES["iscsi"],
    "glusterfs": SHARED_SOURCES["glusterfs"],
    "flocker": SHARED_SOURCES["flocker"],
    "persistentVolumeClaim": require_fields("claimName"),
    "rbd": SHARED_SOURCES["rbd"],
    "cinder": SHARED_SOURCES["cinder"],
    "cephfs": SHARED_SOURCES["cephfs"],
    "quobyte": SHARED_SOURCES["quobyte"],
    "downwardAPI": _validate_downward_api_volume,
    "fc": SHARED_SOURCES["fc"],
    "flexVolume": SHARED_SOURCES["flexVolume"],
    "configMap": _make_keyed_source_validator("name"),
    "azureFile": SHARED_SOURCES["azureFile"],
    "vsphereVolume": SHARED_SOURCES["vsphereVolume"],
    "photonPersistentDisk": SHARED_SOURCES["photonPersistentDisk"],
    "portworxVolume": SHARED_SOURCES["portworxVolume"],
    "azureDisk": SHARED_SOURCES["azureDisk"],
    "storageos": SHARED_SOURCES["storageos"],
    "projected": validate_projected_volume,
    "scaleIO": SHARED_SOURCES["scaleIO"],
    "csi": _validate_csi_volume,
    "ephemeral": _validate_ephemeral_volume,
    "image": _validate_image_volume,
}
