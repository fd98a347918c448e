"""Files in volumes: keys of secrets and config maps, the downward API, projected volumes.

Source: pkg/apis/core/validation/validation.go, validateKeyToPath, validateDownwardAPIVolumeFile,
validateProjectionSources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.pod_rules.downward import check_field_ref, check_resource_ref
from pytest_kwait.simulator.pod_rules.paths import check_mode, check_unreserved
from pytest_kwait.simulator.pod_rules.recent import Recent

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_downward_files", "check_items", "check_projected"]

_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_CONFLICT = "conflicting duplicate paths"
_SOUND = Recent()
_LEAST_TOKEN, _MOST_TOKEN = 600, 1 << 32


def check_items(source: Obj, at: str, found: Findings) -> None:
    """The files that a secret or a config map makes."""
    for index, item in enumerate(source.get("items", ())):
        here = f"{at}.items[{index}]"
        _check_item(item, here, found)


def _check_item(item: Obj, at: str, found: Findings) -> None:
    path = item.get("path", "")
    if not item.get("key"):
        found.required(f"{at}.key")
    if not path:
        found.required(f"{at}.path")
    check_unreserved(path, f"{at}.path", found)
    check_mode(item.get("mode"), f"{at}.mode", found)


def check_downward_files(source: Obj, at: str, found: Findings) -> None:
    """The files that the downward API makes; all stand at the path of their source."""
    for item in source.get("items", ()):
        _check_downward_file(item, at, found)


def _check_downward_file(item: Obj, at: str, found: Findings) -> None:
    path = item.get("path", "")
    if not path:
        found.required(f"{at}.path")
    check_unreserved(path, f"{at}.path", found)
    if "fieldRef" in item:
        check_field_ref(item["fieldRef"], _FIELDS, f"{at}.fieldRef", found)
        if "resourceFieldRef" in item:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            found.invalid(at, "resource", text)
    elif "resourceFieldRef" in item:
        here = f"{at}.resourceFieldRef"
        check_resource_ref(item["resourceFieldRef"], here, found, of_volume=True)
    else:
        found.required(at, "one of fieldRef and resourceFieldRef is required")
    check_mode(item.get("mode"), f"{at}.mode", found)


def check_projected(volume: Obj, at: str, found: Findings) -> None:
    """A volume of several sources, whose files do not get in each other's way."""
    if volume in _SOUND:
        return
    before = len(found)
    check_mode(volume.get("defaultMode"), f"{at}.defaultMode", found)
    paths: set[str] = set()
    for index, source in enumerate(volume.get("sources") or ()):
        here = f"{at}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                _check_keyed(source[kind], f"{here}.{kind}", at, paths, found)
        for item in source.get("downwardAPI", {}).get("items", ()):
            _check_downward_file(item, f"{here}.downwardAPI", found)
            path = item.get("path", "")
            if path:
                _take(path, path, at, paths, found)
        if "serviceAccountToken" in source:
            _check_token(source["serviceAccountToken"], f"{here}.serviceAccountToken", at, found)
        if len(source) > 1:
            found.forbidden(here, "may not specify more than 1 volume type per source")
    if len(found) == before:
        _SOUND.add(volume)


def _check_keyed(source: Obj, at: str, volume: str, paths: set[str], found: Findings) -> None:
    name = source.get("name", "")
    if not name:
        found.required(f"{at}.name")
    for index, item in enumerate(source.get("items", ())):
        _check_item(item, f"{at}.items[{index}]", found)
        if item.get("path"):
            _take(item["path"], name, volume, paths, found)


def _take(path: str, shown: str, at: str, paths: set[str], found: Findings) -> None:
    if path in paths:
        found.invalid(at, shown, _CONFLICT)
    paths.add(path)


def _check_token(source: Obj, at: str, volume: str, found: Findings) -> None:
    seconds, path = source.get("expirationSeconds", 0), source.get("path", "")
    if seconds < _LEAST_TOKEN:
        text = "may not specify a duration less than 10 minutes"
        found.invalid(f"{at}.expirationSeconds", seconds, text)
    if seconds > _MOST_TOKEN:
        text = "may not specify a duration larger than 2^32 seconds"
        found.invalid(f"{at}.expirationSeconds", seconds, text)
    if not path:
        found.required(f"{volume}.path")
    else:
        check_unreserved(path, f"{volume}.path", found)
