"""Validation of volumes: sources, projections, paths, and references to fields of the pod.

A validator of a source takes the source and its path `at`. Persistent volumes share many sources.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidateVolumes,
validateVolumeSource, validateLocalDescendingPath, ValidateLocalNonReservedPath,
validatePathNoBacksteps, validateKeyToPath, validateDownwardAPIVolumeFile,
validateProjectionSources, validateObjectFieldSelector, validateContainerResourceFieldSelector;
pkg/apis/core/pods/helpers.go, ConvertDownwardAPIFieldLabel; pkg/fieldpath/fieldpath.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.field_errors import ErrorList
from pytest_kwait.apimachinery.quantities import parse_quantity
from pytest_kwait.apimachinery.validation import (
    dns_label_texts,
    dns_subdomain_texts,
    label_key_texts,
    range_texts,
)
from pytest_kwait.simulator.validation.core.persistent_volume_claims import (
    validate_persistent_volume_claim_template,
)
from pytest_kwait.simulator.validation.core.scheduling import RecentlyValid

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj

MORE_THAN_ONE_SOURCE = "may not specify more than 1 volume type"
"""The message about a second source."""
SOURCE_DISPLAY_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources whose name differs in the error about a second source."""

_FILE_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_FILE_MODE = 0o777
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

_FIELD_LABELS = frozenset(
    [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ]
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_MEMORY_DIVISORS = (
    "1",
    "1k",
    "1M",
    "1G",
    "1T",
    "1P",
    "1E",
    "1Ki",
    "1Mi",
    "1Gi",
    "1Ti",
    "1Pi",
    "1Ei",
)
_CPU_DIVISORS = ("1m", "1")

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

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")

_FIRST_EXCESS_SOURCE = 2


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


def _validate_local_non_reserved_path(path: str, at: str) -> ErrorList:
    """Validate a descending path that does not begin with `..`."""
    errors = validate_local_descending_path(path, at)
    if path.startswith("..") and not path.startswith("../"):
        errors.invalid(at, path, "must not start with '..'")
    return errors


def _validate_file_mode(mode: int | None, at: str) -> ErrorList:
    """Validate that a file mode has permission bits only."""
    errors = ErrorList()
    if mode is not None and not 0 <= mode <= _MAX_FILE_MODE:
        errors.invalid(at, mode, _FILE_MODE_MESSAGE)
    return errors


def _require_fields(*fields: str) -> Callable[[Obj, str], ErrorList]:
    """Return a validator that requires these fields."""

    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        errors.require_fields(source, at, *fields)
        return errors

    return check


def _validate_host_path(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    if not source.get("path"):
        errors.required(f"{at}.path")
        return errors
    errors += validate_path_no_backsteps(source["path"], f"{at}.path")
    kind = source.get("type")
    errors.require_supported(f"{at}.type", kind, _HOST_PATH_TYPES)
    return errors


def _make_partition_validator(field: str) -> Callable[[Obj, str], ErrorList]:
    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        errors.require_fields(source, at, field)
        partition = source.get("partition", 0)
        if not 0 <= partition <= _BYTE:
            errors.invalid(f"{at}.partition", partition, _PARTITION)
        return errors

    return check


def _validate_nfs(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    errors.require_fields(source, at, "server")
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


def _validate_iscsi_portal_length(source: Obj, name: str, at: str) -> ErrorList:
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
        errors += _require_fields(*fields)(secret, f"{at}.secretRef")
    return errors


def validate_cinder(source: Obj, at: str, *secret: str) -> ErrorList:
    """Validate a Cinder source; `secret` lists the required fields of its secret reference."""
    errors = ErrorList()
    errors.require_fields(source, at, "volumeID")
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
    errors.require_fields(source, at, "volume")
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
    errors.require_fields(source, at, "driver")
    for key in sorted(source.get("options", {})):
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            errors.invalid(f"{at}.options[{key}]", key, text)
    return errors


def _validate_azure_disk(source: Obj, at: str) -> ErrorList:
    errors = _require_fields("diskName", "diskURI")(source, at)
    uri = source.get("diskURI", "")
    caching, kind = source.get("cachingMode"), source.get("kind")
    errors.require_supported(f"{at}.cachingMode", caching, _CACHING)
    errors.require_supported(f"{at}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.not_supported(f"{at}.diskURI", uri, [_MANAGED_URI])
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.not_supported(f"{at}.diskURI", uri, [_BLOB_URI])
    return errors


def validate_storage_os(source: Obj, at: str, *secret: str) -> ErrorList:
    """Validate a StorageOS source; `secret` lists the required fields of its secret reference."""
    errors = ErrorList()
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    errors.require_valid(f"{at}.volumeName", name, dns_label_texts)
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
    "azureFile": _require_fields("secretName", "shareName"),
    "cephfs": _require_fields("monitors"),
    "cinder": validate_cinder,
    "fc": _validate_fibre_channel,
    "flexVolume": _validate_flex_volume,
    "flocker": _validate_flocker,
    "gcePersistentDisk": _make_partition_validator("pdName"),
    "glusterfs": _require_fields("endpoints", "path"),
    "hostPath": _validate_host_path,
    "iscsi": validate_iscsi,
    "nfs": _validate_nfs,
    "photonPersistentDisk": _require_fields("pdID"),
    "portworxVolume": _require_fields("volumeID"),
    "quobyte": _validate_quobyte,
    "rbd": _require_fields("monitors", "image"),
    "scaleIO": _require_fields("gateway", "system", "volumeName"),
    "storageos": validate_storage_os,
    "vsphereVolume": _require_fields("volumePath"),
}
"""Validators of the sources that pods and persistent volumes share, in the form of pods."""


def validate_object_field_selector(ref: Obj, fields: tuple[str, ...], at: str) -> ErrorList:
    """Validate a pod field: one of `fields`, or a label or annotation by key."""
    errors = ErrorList()
    version, path = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version or not path:
        errors.required(f"{at}.{'fieldPath' if version else 'apiVersion'}")
        return errors
    name, key = path, None
    if path.endswith("']") and path.find("['") > 0:
        name, _, rest = path.partition("['")
        key = rest[:-2]
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif key is not None and name not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {path}"
    elif key is None and path == "spec.host":
        name = "spec.nodeName"
    elif key is None and path not in _FIELD_LABELS:
        problem = f"field label not supported: {path}"
    if problem:
        errors.invalid(f"{at}.fieldPath", path, f"error converting fieldPath: {problem}")
    elif key is not None:
        lowered = key.lower() if name == "metadata.annotations" else key
        errors.invalid_each(at, lowered, label_key_texts(lowered))
    elif name not in fields:
        errors.not_supported(f"{at}.fieldPath", name, fields)
    return errors


def validate_resource_field_selector(ref: Obj, at: str, *, of_volume: bool) -> ErrorList:
    """Validate a reference to a container's request or limit, with its divisor."""
    errors = ErrorList()
    resource = ref.get("resource", "")
    if of_volume and not ref.get("containerName"):
        errors.required(f"{at}.containerName")
    elif not resource:
        errors.required(f"{at}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.not_supported(f"{at}.resource", resource, _RESOURCES)
    errors += _validate_divisor(resource, ref.get("divisor", "0"), f"{at}.divisor")
    return errors


def _validate_divisor(resource: str, divisor: str, at: str) -> ErrorList:
    errors = ErrorList()
    if parse_quantity(divisor).amount == 0:
        return errors
    kind = resource.partition(".")[2]
    if kind == "cpu":
        if divisor not in _CPU_DIVISORS:
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.invalid(at, resource, text)
        return errors
    called = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind)
    if resource.startswith(_HUGE_PAGES):
        called = "hugepages"
    if called is not None and divisor not in _MEMORY_DIVISORS:
        units = ", ".join(_MEMORY_DIVISORS)
        text = f"only divisor's values {units} are supported with the {called} resource"
        errors.invalid(at, resource, text)
    return errors


def _validate_key_to_paths(source: Obj, at: str) -> ErrorList:
    """Validate the files of a secret or config map volume."""
    errors = ErrorList()
    for index, item in enumerate(source.get("items", ())):
        here = f"{at}.items[{index}]"
        errors += _validate_key_to_path(item, here)
    return errors


def _validate_key_to_path(item: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    path = item.get("path", "")
    errors.require_fields(item, at, "key")
    if not path:
        errors.required(f"{at}.path")
    errors += _validate_local_non_reserved_path(path, f"{at}.path")
    errors += _validate_file_mode(item.get("mode"), f"{at}.mode")
    return errors


def _validate_downward_api_files(source: Obj, at: str) -> ErrorList:
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
    errors += _validate_local_non_reserved_path(path, f"{at}.path")
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
    errors += _validate_file_mode(item.get("mode"), f"{at}.mode")
    return errors


def _validate_projected_volume(volume: Obj, at: str) -> ErrorList:
    """Validate a projected volume, whose files must not share a path."""
    errors = ErrorList()
    if volume in _RECENTLY_VALID:
        return errors
    errors += _validate_file_mode(volume.get("defaultMode"), f"{at}.defaultMode")
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


def _reserve_path(path: str, path_text: str, at: str, paths: set[str]) -> ErrorList:
    errors = ErrorList()
    if path in paths:
        errors.invalid(at, path_text, _CONFLICT)
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
        errors += _validate_local_non_reserved_path(path, f"{volume}.path")
    return errors


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
        f"{owner}-{volume.get('name', '')}" for volume in volumes if owner and "ephemeral" in volume
    }
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        name = volume.get("name", "")
        volume_errors = _validate_volume_source(volume, name, owner, here, pod=pod)
        volume_errors.require_valid(f"{here}.name", name, dns_label_texts)
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
            errors += _validate_iscsi_portal_length(value, name, f"{at}.name")
        elif source == "ephemeral" and owner and name:
            claim = f"{owner}-{name}"
            texts = dns_subdomain_texts(claim)
            errors.invalid_each(
                f"{at}.name", name, [f'PVC name "{claim}": {text}' for text in texts]
            )
    if not taken:
        errors.required(at, "must specify a volume type")
    return errors


def _validate_empty_dir(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).amount < 0:
        errors.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    return errors


def _validate_git_repo(source: Obj, at: str) -> ErrorList:
    errors = ErrorList()
    errors.require_fields(source, at, "repository")
    errors += validate_local_descending_path(source.get("directory", ""), f"{at}.directory")
    return errors


def _make_keyed_source_validator(name: str) -> Callable[[Obj, str], ErrorList]:
    """Return a validator of a secret or config map source, whose name is in field `name`."""

    def check(source: Obj, at: str) -> ErrorList:
        errors = ErrorList()
        if not source.get(name):
            errors.required(f"{at}.{name}")
        errors += _validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode")
        errors += _validate_key_to_paths(source, at)
        return errors

    return check


def _validate_downward_api_volume(source: Obj, at: str) -> ErrorList:
    errors = _validate_file_mode(source.get("defaultMode"), f"{at}.defaultMode")
    errors += _validate_downward_api_files(source, at)
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
    "persistentVolumeClaim": _require_fields("claimName"),
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
    "projected": _validate_projected_volume,
    "scaleIO": SHARED_SOURCES["scaleIO"],
    "csi": _validate_csi_volume,
    "ephemeral": _validate_ephemeral_volume,
    "image": _validate_image_volume,
}
