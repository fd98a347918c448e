"""What is behind a persistent volume.

The types that no cluster of this version serves any more are only counted.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.status_error import (
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["SOURCES", "driver_errors", "source_errors"]

SOURCES = (
    # In the order in which the server looks for them.
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""The fields of a volume that say what is behind it."""
_HOST_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_QUALIFIED_NAMES = re.compile(
    r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9-.]+)(:[^,;*&$|\s]+)|eui\.[A-Fa-f0-9]{16}|naa\.[A-Fa-f0-9]{32}"
)
_LONGEST_DRIVER = 63


def source_errors(spec: Obj) -> list[FieldError]:
    """What is wrong with what is behind a volume."""
    errors: list[FieldError] = []
    given = [name for name in SOURCES if spec.get(name) is not None]
    for index, name in enumerate(given):
        if index and name != "flexVolume":
            shown = "cephFS" if name == "cephfs" else name
            text = "may not specify more than 1 volume type"
            errors.append(forbidden_field(f"spec.{shown}", text))
            continue
        check = _CHECKS.get(name)
        errors += check(spec[name], f"spec.{name}") if check is not None else []
        if name == "local" and spec.get("nodeAffinity") is None:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors if given else [*errors, required("spec", "must specify a volume type")]


def _without_backsteps(path: str, at: str) -> list[FieldError]:
    inside = ".." in path.split("/")
    return [invalid_value(at, path, "must not contain '..'")] if inside else []


def _host_path(source: Obj, at: str) -> list[FieldError]:
    path, kind = source.get("path", ""), source.get("type")
    if not path:
        return [required(f"{at}.path")]
    errors = _without_backsteps(path, f"{at}.path")
    if kind is not None and kind not in _HOST_TYPES:
        errors.append(not_supported(f"{at}.type", kind, _HOST_TYPES))
    return errors


def _local(source: Obj, at: str) -> list[FieldError]:
    path = source.get("path", "")
    return _without_backsteps(path, f"{at}.path") if path else [required(f"{at}.path")]


def _nfs(source: Obj, at: str) -> list[FieldError]:
    path = source.get("path", "")
    errors = [required(f"{at}.{field}") for field in ("server", "path") if not source.get(field)]
    if not path.startswith("/"):
        errors.append(invalid_value(f"{at}.path", path, "must be an absolute path"))
    return errors


def _iscsi(source: Obj, at: str) -> list[FieldError]:
    errors = [] if source.get("targetPortal") else [required(f"{at}.targetPortal")]
    name = source.get("iqn", "")
    if not name:
        errors.append(required(f"{at}.iqn"))
    elif not _QUALIFIED_NAMES.match(name):
        errors.append(invalid_value(f"{at}.iqn", name, "must be valid format"))
    number = source.get("lun", 0)
    if not 0 <= number <= 255:
        text = "must be between 0 and 255, inclusive"
        errors.append(invalid_value(f"{at}.lun", number, text))
    secret = source.get("secretRef")
    if secret is None and (source.get("chapAuthDiscovery") or source.get("chapAuthSession")):
        errors.append(required(f"{at}.secretRef"))
    if secret is not None and not secret.get("name"):
        errors.append(required(f"{at}.secretRef.name"))
    return errors


def _csi(source: Obj, at: str) -> list[FieldError]:
    errors = driver_errors(source.get("driver", ""), f"{at}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{at}.volumeHandle"))
    for use in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret, place = source.get(f"{use}SecretRef"), f"{at}.{use}SecretRef"
        if secret is None:
            continue
        for field, texts in (("name", dns_subdomain_texts), ("namespace", dns_label_texts)):
            value = secret.get(field, "")
            found = texts(value) if value else []
            errors += [invalid_value(f"{place}.{field}", value, text) for text in found]
            if not value:
                errors.append(required(f"{place}.{field}"))
    return errors


def driver_errors(name: str, at: str) -> list[FieldError]:
    """Why `name` is no CSI driver's."""
    if not name:
        return [required(at)]
    errors = [too_long(at, _LONGEST_DRIVER)] if len(name) > _LONGEST_DRIVER else []
    return errors + [invalid_value(at, name, text) for text in dns_subdomain_texts(name.lower())]


_CHECKS: dict[str, Callable[[Obj, str], list[FieldError]]] = {
    "csi": _csi,
    "hostPath": _host_path,
    "iscsi": _iscsi,
    "local": _local,
    "nfs": _nfs,
}
