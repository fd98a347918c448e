"""Validation of volume sources that pods and persistent volumes share, and of paths in volumes.

A validator of a source takes the source, its path `at`, and the `Findings` that it adds to. The
sources of persistent volumes also give the namespaces of their secrets.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, validateVolumeSource,
ValidatePersistentVolumeSpec, validateLocalDescendingPath, ValidateLocalNonReservedPath,
validatePathNoBacksteps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    range_texts,
)
from pytest_kwait.simulator.validation.field_errors import ErrorList

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

__all__ = [
    "FILE_MODE_MESSAGE",
    "MORE_THAN_ONE_SOURCE",
    "SHARED_SOURCES",
    "SOURCE_DISPLAY_NAMES",
    "require_fields",
    "validate_cinder",
    "validate_csi_driver_name",
    "validate_file_mode",
    "validate_iscsi",
    "validate_iscsi_portal_length",
    "validate_local_descending_path",
    "validate_local_non_reserved_path",
    "validate_path_no_backsteps",
    "validate_storage_os",
]

FILE_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_FILE_MODE = 0o777


def validate_path_no_backsteps(path: str, at: str) -> ErrorList:
    """Validate that the path has no `..`."""
    errors = ErrorList()
    if ".." in path.split("/"):
        errors.invalid(at, path, "must not contain '..'")
    return errors


def validate_local_descending_path(path: str, at: str) -> ErrorList:
    """Validate that the path is relative and has no `..`."""
    errors = ErrorList()
    if path.startswith("/"):
        errors.invalid(at, path, "must be a relative path")
    errors += validate_path_no_backsteps(path, at)
    return errors


def validate_local_non_reserved_path(path: str, at: str) -> ErrorList:
    """Validate a descending path that does not begin with `..`."""
    errors = validate_local_descending_path(path, at)
    if path.startswith("..") and not path.startswith("../"):
        errors.invalid(at, path, "must not start with '..'")
    return errors


def validate_file_mode(mode: int | None, at: str) -> ErrorList:
    """Validate that a file mode has permission bits only."""
    errors = ErrorList()
    if mode is not None and not 0 <= mode <= _MAX_FILE_MODE:
        errors.invalid(at, mode, FILE_MODE_MESSAGE)
    return errors


MORE_THAN_ONE_SOURCE = "may not specify more than 1 volume type"
"""The message about a second source."""
SOURCE_DISPLAY_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources whose name differs in the error about a second source."""

_PARTITION = "must be between 1 and 255, inclusive"
_PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)
_HOST_PORT_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_HOST_PORT_PAIR = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*", re.DOTALL)
_TENANT = "must be a UUID and may not exceed a length of 64 characters"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_QUALIFIED_NAMES = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9\-.]+)(:[^,;*&$|\s]+)\Z", re.ASCII),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}\Z"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}\Z"),
}
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_URI = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_BYTE, _LONGEST_DRIVER, _LONGEST = 255, 63, 64


def require_fields(*fields: str) -> Callable[[Obj, str], ErrorList]:
    """Return a validator that requires these fields."""

    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        for field in fields:
            if not source.get(field):
                errors.required(f"{at}.{field}")
        return errors

    return check


def _validate_host_path(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if not source.get("path"):
        errors.required(f"{at}.path")
        return errors
    errors += validate_path_no_backsteps(source["path"], f"{at}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.not_supported(f"{at}.type", kind, _HOST_PATH_TYPES)
    return errors


def _make_partition_validator(field: str) -> Callable[[Obj, str], ErrorList]:
    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        if not source.get(field):
            errors.required(f"{at}.{field}")
        partition = source.get("partition", 0)
        if not 0 <= partition <= _BYTE:
            errors.invalid(f"{at}.partition", partition, _PARTITION)
        return errors

    return check


def _validate_nfs(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if not source.get("server"):
        errors.required(f"{at}.server")
    path = source.get("path", "")
    if not path:
        errors.required(f"{at}.path")
    if not path.startswith("/"):
        errors.invalid(f"{at}.path", path, "must be an absolute path")
    return errors


def validate_iscsi(source: Obj, at: str, volume: str | None = None) -> ErrorList:
    """Validate an iSCSI source; `volume` is the persistent volume's name, if any."""
    errors = ErrorList()
    portal = source.get("targetPortal", "")
    if not portal:
        errors.required(f"{at}.targetPortal")
    named = "initiatorName" in source
    if named and volume is not None and len(f"{volume}:{portal}".encode()) > _LONGEST:
        errors.invalid(f"{at}.targetportal", portal, _PORTAL)
    if not source.get("iqn"):
        errors.required(f"{at}.iqn")
    else:
        errors += _validate_iscsi_name(source["iqn"], f"{at}.iqn", pod=volume is None)
    lun = source.get("lun", 0)
    errors.invalid_each(f"{at}.lun", lun, range_texts(lun, 0, _BYTE))
    authenticated = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if authenticated and "secretRef" not in source:
        errors.required(f"{at}.secretRef")
    if volume is not None:
        errors += _validate_secret_reference(source, at, "name")
    if named:
        at = f"{at}.initiatorname"
        errors += _validate_iscsi_name(source["initiatorName"], at, pod=volume is None)
    return errors


def validate_iscsi_portal_length(source: Obj, name: str, at: str) -> ErrorList:
    """Validate that volume name and iSCSI portal together fit into one name."""
    errors = ErrorList()
    pair = f"{name}:{source.get('targetPortal', '')}"
    if "initiatorName" in source and len(pair.encode()) > _LONGEST:
        errors.invalid(at, name, _PORTAL)
    return errors


def _validate_iscsi_name(name: str, at: str, *, pod: bool) -> ErrorList:
    errors = ErrorList()
    form = _QUALIFIED_NAMES.get(name[:3])
    if form is None and pod:
        errors.invalid(at, name, "must be valid format starting with iqn, eui, or naa")
    elif form is None or not form.search(name):
        errors.invalid(at, name, "must be valid format")
    return errors


def _validate_flocker(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        errors.required(at, "one of datasetName and datasetUUID is required")
    if name and uid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.invalid(at, "resource", text)
    if "/" in name:
        errors.invalid(f"{at}.datasetName", name, "must not contain '/'")
    return errors


def _validate_secret_reference(source: Obj, at: str, *fields: str) -> ErrorList:
    """Validate that a secret reference, if set, has these fields."""
    errors = ErrorList()
    if (secret := source.get("secretRef")) is not None:
        errors += require_fields(*fields)(secret, f"{at}.secretRef")
    return errors


def validate_cinder(source: Obj, at: str, *secret: str) -> ErrorList:
    """Validate a Cinder source; `secret` lists the required fields of its secret reference."""
    errors = ErrorList()
    if not source.get("volumeID"):
        errors.required(f"{at}.volumeID")
    errors += _validate_secret_reference(source, at, *(secret or ("name",)))
    return errors


def _validate_quobyte(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    registry = source.get("registry", "")
    if not registry:
        errors.required(f"{at}.registry", _HOST_PORT_PAIRS)
    elif len(source.get("tenant", "").encode()) > _LONGEST:
        errors.required(f"{at}.tenant", _TENANT)
    else:
        for pair in registry.split(","):
            if not _HOST_PORT_PAIR.fullmatch(pair):
                errors.invalid(f"{at}.registry", registry, _HOST_PORT_PAIRS)
    if not source.get("volume"):
        errors.required(f"{at}.volume")
    return errors


def _validate_fibre_channel(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    targets, wwids = source.get("targetWWNs", []), source.get("wwids", [])
    at_targets = f"{at}.targetWWNs"
    if not targets and not wwids:
        errors.required(at_targets, "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.invalid(at_targets, targets, text)
    if targets:
        lun = source.get("lun")
        if lun is None:
            errors.required(f"{at}.lun", "lun is required if targetWWNs is specified")
        else:
            errors.invalid_each(f"{at}.lun", lun, range_texts(lun, 0, _BYTE))
    return errors


def _validate_flex_volume(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if not source.get("driver"):
        errors.required(f"{at}.driver")
    for key in sorted(source.get("options", {})):
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.invalid(f"{at}.options[{key}]", key, text)
    return errors


def _validate_azure_disk(source: Obj, at: str) -> ErrorList:
    errors = require_fields("diskName", "diskURI")(source, at)
    uri = source.get("diskURI", "")
    caching, kind = source.get("cachingMode"), source.get("kind")
    if caching is not None and caching not in _CACHING:
        errors.not_supported(f"{at}.cachingMode", caching, _CACHING)
    if kind is not None and kind not in _DISK_KINDS:
        errors.not_supported(f"{at}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.not_supported(f"{at}.diskURI", uri, [_MANAGED_URI])
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.not_supported(f"{at}.diskURI", uri, [_BLOB_URI])
    return errors


def validate_storage_os(source: Obj, at: str, *secret: str) -> ErrorList:
    """Validate a StorageOS source; `secret` lists the required fields of its secret reference."""
    errors = ErrorList()
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if not name:
        errors.required(f"{at}.volumeName")
    else:
        errors.invalid_each(f"{at}.volumeName", name, dns_label_texts(name))
    if namespace:
        errors.invalid_each(f"{at}.volumeNamespace", namespace, dns_label_texts(namespace))
    errors += _validate_secret_reference(source, at, *(secret or ("name",)))
    return errors


def validate_csi_driver_name(name: str, at: str) -> ErrorList:
    """Validate the name of a CSI driver."""
    errors = ErrorList()
    if not name:
        errors.required(at)
        return errors
    if len(name.encode()) > _LONGEST_DRIVER:
        errors.too_long(at, _LONGEST_DRIVER)
    errors.invalid_each(at, name, dns_subdomain_texts(name.lower()))
    return errors


SHARED_SOURCES: dict[str, Callable[[Obj, str], ErrorList]] = {
    "awsElasticBlockStore": _make_partition_validator("volumeID"),
    "azureDisk": _validate_azure_disk,
    "azureFile": require_fields("secretName", "shareName"),
    "cephfs": require_fields("monitors"),
    "cinder": validate_cinder,
    "fc": _validate_fibre_channel,
    "flexVolume": _validate_flex_volume,
    "flocker": _validate_flocker,
    "gcePersistentDisk": _make_partition_validator("pdName"),
    "glusterfs": require_fields("endpoints", "path"),
    "hostPath": _validate_host_path,
    "iscsi": validate_iscsi,
    "nfs": _validate_nfs,
    "photonPersistentDisk": require_fields("pdID"),
    "portworxVolume": require_fields("volumeID"),
    "quobyte": _validate_quobyte,
    "rbd": require_fields("monitors", "image"),
    "scaleIO": require_fields("gateway", "system", "volumeName"),
    "storageos": validate_storage_os,
    "vsphereVolume": require_fields("volumePath"),
}
"""Validators of the sources that pods and persistent volumes share, in the form of pods."""
