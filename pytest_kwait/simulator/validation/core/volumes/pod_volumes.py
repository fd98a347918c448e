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

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.field_errors import ErrorList

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


_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def validate_volumes(
    volumes: list[Obj] | tuple[()], owner: str, at: str, found: ErrorList, *, pod: bool
) -> dict[str, Obj]:
    """Add what is wrong with `volumes`, and return the sound ones by name.

    Args:
        volumes: the list of the spec.
        owner: the pod's name; empty for a template.
        at: the path of the list.
        found: what is added to.
        pod: whether it is a pod and not a template.
    """
    sound: dict[str, Obj] = {}
    made = {f"{owner}-{one.get('name', '')}" for one in volumes if owner and "ephemeral" in one}
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        before = len(found)
        name = volume.get("name", "")
        _validate_volume_source(volume, name, owner, here, found, pod=pod)
        if not name:
            found.required(f"{here}.name")
        else:
            found.texts(f"{here}.name", name, dns_label_texts(name))
        if name in sound:
            found.duplicate(f"{here}.name", name)
        if len(found) == before:
            sound[name] = volume
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and claim in made:
            found.invalid(
                f"{here}.persistentVolumeClaim.claimName",
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            )
    return sound


def _validate_volume_source(
    volume: Obj, name: str, owner: str, at: str, found: ErrorList, *, pod: bool
) -> None:
    taken = False
    for source in volume.keys() - {"name"} if len(volume) <= _FIRST_EXCESS_SOURCE else _SOURCES:
        value = volume.get(source)
        if value is None:
            continue
        if taken:
            found.forbidden(
                f"{at}.{SOURCE_DISPLAY_NAMES.get(source, source)}", MORE_THAN_ONE_SOURCE
            )
        else:
            taken = True
            here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
            if source == "image":
                _validate_image_volume(value, here, found, pod=pod)
            else:
                _SOURCES[source](value, here, found)
        if source == "iscsi":
            validate_iscsi_portal_length(value, name, f"{at}.name", found)
        elif source == "ephemeral" and owner and name:
            claim = f"{owner}-{name}"
            texts = dns_subdomain_texts(claim)
            found.texts(f"{at}.name", name, [f'PVC name "{claim}": {text}' for text in texts])
    if not taken:
        found.required(at, "must specify a volume type")


_FIRST_EXCESS_SOURCE = 2


def _validate_empty_dir(source: Obj, at: str, found: ErrorList) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).amount < 0:
        found.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_git_repo(source: Obj, at: str, found: ErrorList) -> None:
    if not source.get("repository"):
        found.required(f"{at}.repository")
    validate_local_descending_path(source.get("directory", ""), f"{at}.directory", found)


def _make_keyed_source_validator(name: str) -> Callable[[Obj, str, ErrorList], None]:
    """A source of files by keys: a secret or a config map, named by the field `name`."""

    def check(source: Obj, at: str, found: ErrorList) -> None:
        if not source.get(name):
            found.required(f"{at}.{name}")
        validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
        validate_key_to_paths(source, at, found)

    return check


def _validate_downward_api_volume(source: Obj, at: str, found: ErrorList) -> None:
    validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
    validate_downward_api_files(source, at, found)


def _validate_csi_volume(source: Obj, at: str, found: ErrorList) -> None:
    validate_csi_driver_name(source.get("driver", ""), f"{at}.driver", found)
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        found.required(f"{at}.nodePublishSecretRef.name")
    elif secret is not None:
        found.texts(f"{at}.name", secret["name"], dns_subdomain_texts(secret["name"]))


def _validate_ephemeral_volume(source: Obj, at: str, found: ErrorList) -> None:
    if "volumeClaimTemplate" not in source:
        found.required(f"{at}.volumeClaimTemplate")
    else:
        validate_persistent_volume_claim_template(
            source["volumeClaimTemplate"], f"{at}.volumeClaimTemplate", found
        )


def _validate_image_volume(source: Obj, at: str, found: ErrorList, *, pod: bool = True) -> None:
    if pod and not source.get("reference"):
        found.required(f"{at}.reference")
    found.one_of(f"{at}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)


_SOURCES: dict[str, Callable[[Obj, str, ErrorList], None]] = {
    # In the order in which the server looks at them.
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
