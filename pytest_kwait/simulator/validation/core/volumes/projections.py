"""Files in volumes: keys of secrets and config maps, the downward API, projected volumes.

Source: pkg/apis/core/validation/validation.go, validateKeyToPath, validateDownwardAPIVolumeFile,
validateProjectionSources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.recently_valid import RecentlyValid
from pytest_kwait.simulator.validation.core.volumes.downward_api import (
    validate_object_field_selector,
    validate_resource_field_selector,
)
from pytest_kwait.simulator.validation.core.volumes.paths import (
    validate_file_mode,
    validate_local_non_reserved_path,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_downward_api_files", "validate_key_to_paths", "validate_projected_volume"]

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


def validate_key_to_paths(source: Obj, at: str, found: ErrorList) -> None:
    """The files that a secret or a config map makes."""
    for index, item in enumerate(source.get("items", ())):
        here = f"{at}.items[{index}]"
        _validate_key_to_path(item, here, found)


def _validate_key_to_path(item: Obj, at: str, found: ErrorList) -> None:
    path = item.get("path", "")
    if not item.get("key"):
        found.required(f"{at}.key")
    if not path:
        found.required(f"{at}.path")
    validate_local_non_reserved_path(path, f"{at}.path", found)
    validate_file_mode(item.get("mode"), f"{at}.mode", found)


def validate_downward_api_files(source: Obj, at: str, found: ErrorList) -> None:
    """The files that the downward API makes; all stand at the path of their source."""
    for item in source.get("items", ()):
        _validate_downward_api_file(item, at, found)


def _validate_downward_api_file(item: Obj, at: str, found: ErrorList) -> None:
    path = item.get("path", "")
    if not path:
        found.required(f"{at}.path")
    validate_local_non_reserved_path(path, f"{at}.path", found)
    if "fieldRef" in item:
        validate_object_field_selector(
            item["fieldRef"], _DOWNWARD_API_FIELDS, f"{at}.fieldRef", found
        )
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.invalid(at, "resource", text)
    elif "resourceFieldRef" in item:
        here = f"{at}.resourceFieldRef"
        validate_resource_field_selector(item["resourceFieldRef"], here, found, of_volume=True)
    else:
        found.required(at, "one of fieldRef and resourceFieldRef is required")
    validate_file_mode(item.get("mode"), f"{at}.mode", found)


def validate_projected_volume(volume: Obj, at: str, found: ErrorList) -> None:
    """A volume of several sources, whose files do not get in each other's way."""
    if volume in _RECENTLY_VALID:
        return
    before = len(found)
    validate_file_mode(volume.get("defaultMode"), f"{at}.defaultMode", found)
    paths: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        here = f"{at}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                _validate_keyed_projection(source[kind], f"{here}.{kind}", at, paths, found)
        for item in source.get("downwardAPI", {}).get("items", ()):
            _validate_downward_api_file(item, f"{here}.downwardAPI", found)
            path = item.get("path", "")
            if path:
                _reserve_path(path, path, at, paths, found)
        if "serviceAccountToken" in source:
            _validate_token_projection(
                source["serviceAccountToken"], f"{here}.serviceAccountToken", at, found
            )
        if len(source) > 1:
            found.forbidden(here, "may not specify more than 1 volume type per source")
    if len(found) == before:
        _RECENTLY_VALID.add(volume)


def _validate_keyed_projection(
    source: Obj, at: str, volume: str, paths: set[str], found: ErrorList
) -> None:
    name = source.get("name", "")
    if not name:
        found.required(f"{at}.name")
    for index, item in enumerate(source.get("items", ())):
        _validate_key_to_path(item, f"{at}.items[{index}]", found)
        if item.get("path"):
            _reserve_path(item["path"], name, volume, paths, found)


def _reserve_path(path: str, shown: str, at: str, paths: set[str], found: ErrorList) -> None:
    if path in paths:
        found.invalid(at, shown, _CONFLICT)
    paths.add(path)


def _validate_token_projection(source: Obj, at: str, volume: str, found: ErrorList) -> None:
    seconds, path = source.get("expirationSeconds", 0), source.get("path", "")
    if seconds < _MIN_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        found.invalid(f"{at}.expirationSeconds", seconds, text)
    if seconds > _MAX_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        found.invalid(f"{at}.expirationSeconds", seconds, text)
    if not path:
        found.required(f"{volume}.path")
    else:
        validate_local_non_reserved_path(path, f"{volume}.path", found)
