"""Where volumes and devices are seen in containers.

Source: pkg/apis/core/validation/validation.go, ValidateVolumeMounts, ValidateVolumeDevices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.volumes.paths import validate_local_descending_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_volume_devices", "validate_volume_mounts"]

_MOUNT_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY_MODES = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(
    container: Obj, volumes: Mapping[str, Obj], at: str, found: ErrorList
) -> None:
    """The mounts of a container; what is wrong with sub paths stands at the list itself."""
    devices = {one.get("name", ""): one for one in container.get("volumeDevices", ())}
    device_paths = {one.get("devicePath", "") for one in devices.values()}
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            found.required(f"{at}[{index}].name")
        if name not in volumes:
            found.unknown(f"{at}[{index}].name", name)
        if not path:
            found.required(f"{at}[{index}].mountPath")
        if path in paths:
            found.invalid(f"{at}[{index}].mountPath", path, "must be unique")
        paths.add(path)
        if name in devices:
            found.invalid(f"{at}[{index}].name", name, "must not already exist in volumeDevices")
        if path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            found.invalid(f"{at}[{index}].mountPath", path, text)
        _validate_mount_options(container, mount, index, at, found)


def _validate_mount_options(
    container: Obj, mount: Obj, index: int, at: str, found: ErrorList
) -> None:
    if mount.get("subPath"):
        validate_local_descending_path(mount["subPath"], f"{at}.subPath", found)
    expression = mount.get("subPathExpr")
    if expression:
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            found.invalid(f"{at}[{index}].subPathExpr", expression, text)
        validate_local_descending_path(expression, f"{at}.subPathExpr", found)
    propagation, here = mount.get("mountPropagation"), f"{at}.mountPropagation"
    if propagation is not None:
        if propagation not in _MOUNT_PROPAGATIONS:
            found.unsupported(here, propagation, _MOUNT_PROPAGATIONS)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            found.forbidden(
                here, "Bidirectional mount propagation is available only to privileged containers"
            )
    recursive, here = mount.get("recursiveReadOnly"), f"{at}.recursiveReadOnly"
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in _RECURSIVE_READ_ONLY_MODES:
        found.unsupported(here, recursive, _RECURSIVE_READ_ONLY_MODES)
        return
    if not mount.get("readOnly"):
        found.forbidden(here, "may only be specified when readOnly is true")
    if propagation not in (None, "None"):
        text = "may only be specified when mountPropagation is None or not specified"
        found.forbidden(here, text)


def validate_volume_devices(
    container: Obj, volumes: Mapping[str, Obj], at: str, found: ErrorList
) -> None:
    """The block devices of a container."""
    mounts = {
        one.get("name", ""): one.get("mountPath", "") for one in container.get("volumeMounts", ())
    }
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", ())):
        name, path = device.get("name", ""), device.get("devicePath", "")
        at_name, at_path = f"{at}[{index}].name", f"{at}[{index}].devicePath"
        volume = volumes.get(name)
        if not name:
            found.required(at_name)
        if name in names:
            found.invalid(at_name, name, "must be unique")
        if volume is not None and not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            found.invalid(
                at_name,
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode",
            )
        if volume is None:
            found.unknown(at_name, name)
        if not path:
            found.required(at_path)
        if path in paths:
            found.invalid(at_path, path, "must be unique")
        if ".." in path.split("/"):
            found.invalid(at_path, path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        if name in mounts:
            found.invalid(at_name, name, "must not already exist in volumeMounts")
        if path in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            found.invalid(at_path, path, text)
        if name:
            names.add(name)
