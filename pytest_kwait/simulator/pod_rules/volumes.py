"""Volumes: one source each, and what every source needs.

Source: pkg/apis/core/validation/validation.go, ValidateVolumes, validateVolumeSource.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.formats import (
    dns_label_texts,
    dns_subdomain_texts,
    range_texts,
)
from pytest_kwait.simulator.pod_rules.claim_templates import check_claim_template
from pytest_kwait.simulator.pod_rules.paths import (
    check_descending,
    check_mode,
    check_no_backsteps,
)
from pytest_kwait.simulator.pod_rules.projections import (
    check_downward_files,
    check_items,
    check_projected,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_volumes"]

_MORE = "may not specify more than 1 volume type"
_PARTITION = "must be between 1 and 255, inclusive"
_PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
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
_IQN = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[a-zA-Z0-9]{16}$"),
    "naa": re.compile(r"^naa.[a-zA-Z0-9]{32}$"),
}
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED_URI = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_volumes(
    volumes: list[Obj] | tuple[()], owner: str, at: str, found: Findings, *, pod: bool
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
        _check_source(volume, name, owner, here, found, pod=pod)
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


def _check_source(
    volume: Obj, name: str, owner: str, at: str, found: Findings, *, pod: bool
) -> None:
    taken = False
    for source in volume.keys() - {"name"} if len(volume) <= _ONE else _SOURCES:
        value = volume.get(source)
        if value is None:
            continue
        if taken:
            found.forbidden(f"{at}.{_SHOWN.get(source, source)}", _MORE)
        else:
            taken = True
            here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
            if source == "image":
                _check_image(value, here, found, pod=pod)
            else:
                _SOURCES[source](value, here, found)
        if source == "iscsi" and "initiatorName" in value:
            if len(f"{name}:{value.get('targetPortal', '')}") > _PORTAL_MOST:
                found.invalid(f"{at}.name", name, _PORTAL)
        elif source == "ephemeral" and owner and name:
            claim = f"{owner}-{name}"
            texts = dns_subdomain_texts(claim)
            found.texts(f"{at}.name", name, [f'PVC name "{claim}": {text}' for text in texts])
    if not taken:
        found.required(at, "must specify a volume type")


_ONE = 2
_PORTAL_MOST = 64
_SHOWN = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that are called otherwise where they are one too many."""


def _needs(*fields: str) -> Callable[[Obj, str, Findings], None]:
    """The rule that these fields are there and that is all."""

    def check(source: Obj, at: str, found: Findings) -> None:
        for field in fields:
            if not source.get(field):
                found.required(f"{at}.{field}")

    return check


def _check_empty_dir(source: Obj, at: str, found: Findings) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).amount < 0:
        found.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_host_path(source: Obj, at: str, found: Findings) -> None:
    if not source.get("path"):
        found.required(f"{at}.path")
        return
    check_no_backsteps(source["path"], f"{at}.path", found)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        found.unsupported(f"{at}.type", kind, _HOST_PATH_TYPES)


def _check_git_repo(source: Obj, at: str, found: Findings) -> None:
    if not source.get("repository"):
        found.required(f"{at}.repository")
    check_descending(source.get("directory", ""), f"{at}.directory", found)


def _partitioned(field: str) -> Callable[[Obj, str, Findings], None]:
    def check(source: Obj, at: str, found: Findings) -> None:
        if not source.get(field):
            found.required(f"{at}.{field}")
        partition = source.get("partition", 0)
        if not 0 <= partition <= _BYTE:
            found.invalid(f"{at}.partition", partition, _PARTITION)

    return check


_BYTE = 255


def _keyed(name: str) -> Callable[[Obj, str, Findings], None]:
    """A source of files by keys: a secret or a config map, named by the field `name`."""

    def check(source: Obj, at: str, found: Findings) -> None:
        if not source.get(name):
            found.required(f"{at}.{name}")
        check_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
        check_items(source, at, found)

    return check


def _check_nfs(source: Obj, at: str, found: Findings) -> None:
    if not source.get("server"):
        found.required(f"{at}.server")
    path = source.get("path", "")
    if not path:
        found.required(f"{at}.path")
    if not path.startswith("/"):
        found.invalid(f"{at}.path", path, "must be an absolute path")


def _check_iscsi(source: Obj, at: str, found: Findings) -> None:
    if not source.get("targetPortal"):
        found.required(f"{at}.targetPortal")
    if not source.get("iqn"):
        found.required(f"{at}.iqn")
    else:
        _check_iqn(source["iqn"], f"{at}.iqn", found)
    lun = source.get("lun", 0)
    found.texts(f"{at}.lun", lun, range_texts(lun, 0, _BYTE))
    authenticated = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if authenticated and "secretRef" not in source:
        found.required(f"{at}.secretRef")
    if "initiatorName" in source:
        _check_iqn(source["initiatorName"], f"{at}.initiatorname", found)


def _check_iqn(name: str, at: str, found: Findings) -> None:
    form = _IQN.get(name[:3])
    if form is None:
        found.invalid(at, name, "must be valid format starting with iqn, eui, or naa")
    elif not form.search(name):
        found.invalid(at, name, "must be valid format")


def _check_flocker(source: Obj, at: str, found: Findings) -> None:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        found.required(at, "one of datasetName and datasetUUID is required")
    if name and uid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        found.invalid(at, "resource", text)
    if "/" in name:
        found.invalid(f"{at}.datasetName", name, "must not contain '/'")


def _check_secret_name(source: Obj, field: str, at: str, found: Findings) -> None:
    if field in source and not source[field].get("name"):
        found.required(f"{at}.{field}.name")


def _check_cinder(source: Obj, at: str, found: Findings) -> None:
    if not source.get("volumeID"):
        found.required(f"{at}.volumeID")
    _check_secret_name(source, "secretRef", at, found)


def _check_quobyte(source: Obj, at: str, found: Findings) -> None:
    registry = source.get("registry", "")
    if not registry:
        found.required(f"{at}.registry", _PAIRS)
    elif len(source.get("tenant", "")) > _PORTAL_MOST:
        found.required(
            f"{at}.tenant", "must be a UUID and may not exceed a length of 64 characters"
        )
    else:
        for pair in registry.split(","):
            if pair.count(":") != 1 and not re.fullmatch(r"\[[^\[\]]*\]:[^:]*", pair):
                found.invalid(f"{at}.registry", registry, _PAIRS)
    if not source.get("volume"):
        found.required(f"{at}.volume")


def _check_downward(source: Obj, at: str, found: Findings) -> None:
    check_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
    check_downward_files(source, at, found)


def _check_fibre(source: Obj, at: str, found: Findings) -> None:
    targets, wwids = source.get("targetWWNs", []), source.get("wwids", [])
    at_targets = f"{at}.targetWWNs"
    if not targets and not wwids:
        found.required(at_targets, "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        found.invalid(at_targets, targets, text)
    if targets:
        lun = source.get("lun")
        if lun is None:
            found.required(f"{at}.lun", "lun is required if targetWWNs is specified")
        else:
            found.texts(f"{at}.lun", lun, range_texts(lun, 0, _BYTE))


def _check_flex(source: Obj, at: str, found: Findings) -> None:
    if not source.get("driver"):
        found.required(f"{at}.driver")
    for key in sorted(source.get("options", {})):
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            found.invalid(f"{at}.options[{key}]", key, text)


def _check_azure_disk(source: Obj, at: str, found: Findings) -> None:
    _needs("diskName", "diskURI")(source, at, found)
    uri = source.get("diskURI", "")
    caching, kind = source.get("cachingMode"), source.get("kind")
    if caching is not None and caching not in _CACHING:
        found.unsupported(f"{at}.cachingMode", caching, _CACHING)
    if kind is not None and kind not in _DISK_KINDS:
        found.unsupported(f"{at}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        found.unsupported(f"{at}.diskURI", uri, [_MANAGED_URI])
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        found.unsupported(f"{at}.diskURI", uri, [_BLOB_URI])


def _check_storage_os(source: Obj, at: str, found: Findings) -> None:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if not name:
        found.required(f"{at}.volumeName")
    else:
        found.texts(f"{at}.volumeName", name, dns_label_texts(name))
    if namespace:
        found.texts(f"{at}.volumeNamespace", namespace, dns_label_texts(namespace))
    _check_secret_name(source, "secretRef", at, found)


def _check_csi(source: Obj, at: str, found: Findings) -> None:
    driver = source.get("driver", "")
    if not driver:
        found.required(f"{at}.driver")
    else:
        if len(driver) > _DRIVER_MOST:
            found.too_long(f"{at}.driver", _DRIVER_MOST)
        found.texts(f"{at}.driver", driver, dns_subdomain_texts(driver.lower()))
    _check_secret_name(source, "nodePublishSecretRef", at, found)
    secret = source.get("nodePublishSecretRef", {}).get("name")
    if secret:
        found.texts(f"{at}.name", secret, dns_subdomain_texts(secret))


_DRIVER_MOST = 63


def _check_ephemeral(source: Obj, at: str, found: Findings) -> None:
    if "volumeClaimTemplate" not in source:
        found.required(f"{at}.volumeClaimTemplate")
    else:
        check_claim_template(source["volumeClaimTemplate"], f"{at}.volumeClaimTemplate", found)


def _check_image(source: Obj, at: str, found: Findings, *, pod: bool = True) -> None:
    if pod and not source.get("reference"):
        found.required(f"{at}.reference")
    found.one_of(f"{at}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)


_SOURCES: dict[str, Callable[[Obj, str, Findings], None]] = {
    # In the order in which the server looks at them.
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "gitRepo": _check_git_repo,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "secret": _keyed("secretName"),
    "nfs": _check_nfs,
    "iscsi": _check_iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _check_flocker,
    "persistentVolumeClaim": _needs("claimName"),
    "rbd": _needs("monitors", "image"),
    "cinder": _check_cinder,
    "cephfs": _needs("monitors"),
    "quobyte": _check_quobyte,
    "downwardAPI": _check_downward,
    "fc": _check_fibre,
    "flexVolume": _check_flex,
    "configMap": _keyed("name"),
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _check_azure_disk,
    "storageos": _check_storage_os,
    "projected": check_projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _check_csi,
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}
