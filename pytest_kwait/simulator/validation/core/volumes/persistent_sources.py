"""What is behind a persistent volume.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.volumes.paths import validate_path_no_backsteps
from pytest_kwait.simulator.validation.core.volumes.sources import (
    MORE_THAN_ONE_SOURCE,
    SHARED_SOURCES,
    SOURCE_DISPLAY_NAMES,
    validate_cinder,
    validate_csi_driver_name,
    validate_iscsi,
    validate_storage_os,
)
from pytest_kwait.simulator.validation.formats import dns_label_texts, dns_subdomain_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["PERSISTENT_VOLUME_SOURCES", "validate_persistent_volume_source"]

_INVALID_ENDPOINT_NAMESPACE = "if the endpointnamespace is set, it must be a valid namespace name"
_CSI_SECRET_USES = ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand")


def validate_persistent_volume_source(spec: Obj, name: str, at: str, found: ErrorList) -> None:
    """Exactly one source, and what it needs.

    Args:
        spec: the volume's.
        name: the volume's; empty within an attachment.
        at: the path of the spec.
        found: what is added to.
    """
    taken = False
    for source in PERSISTENT_VOLUME_SOURCES:
        value = spec.get(source)
        if value is None:
            continue
        # Of a flex volume the server says everything but that it is one too many.
        if taken and source != "flexVolume":
            found.forbidden(
                f"{at}.{SOURCE_DISPLAY_NAMES.get(source, source)}", MORE_THAN_ONE_SOURCE
            )
            continue
        taken = True
        here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
        if source == "iscsi":
            validate_iscsi(value, here, found, name)
        else:
            PERSISTENT_VOLUME_SOURCES[source](value, here, found)
        if source == "local" and spec.get("nodeAffinity") is None:
            found.required(f"{at}.nodeAffinity", "Local volume requires node affinity")
    if not taken:
        found.required(at, "must specify a volume type")


def _validate_local_volume(source: Obj, at: str, found: ErrorList) -> None:
    path = source.get("path", "")
    if not path:
        found.required(f"{at}.path")
    else:
        validate_path_no_backsteps(path, f"{at}.path", found)


def _validate_glusterfs(source: Obj, at: str, found: ErrorList) -> None:
    SHARED_SOURCES["glusterfs"](source, at, found)
    namespace = source.get("endpointsNamespace")
    if namespace is not None:
        texts = dns_label_texts(namespace) if namespace else [_INVALID_ENDPOINT_NAMESPACE]
        found.texts(f"{at}.endpointsNamespace", namespace, texts)


def _validate_persistent_azure_file(source: Obj, at: str, found: ErrorList) -> None:
    SHARED_SOURCES["azureFile"](source, at, found)
    if source.get("secretNamespace") == "":
        found.required(f"{at}.secretNamespace")


def _validate_persistent_cinder(source: Obj, at: str, found: ErrorList) -> None:
    validate_cinder(source, at, found, "name", "namespace")


def _validate_persistent_storage_os(source: Obj, at: str, found: ErrorList) -> None:
    validate_storage_os(source, at, found, "name", "namespace")


def _validate_csi_persistent_volume(source: Obj, at: str, found: ErrorList) -> None:
    validate_csi_driver_name(source.get("driver", ""), f"{at}.driver", found)
    if not source.get("volumeHandle"):
        found.required(f"{at}.volumeHandle")
    for use in _CSI_SECRET_USES:
        secret, here = source.get(f"{use}SecretRef"), f"{at}.{use}SecretRef"
        if secret is None:
            continue
        for field, texts in (("name", dns_subdomain_texts), ("namespace", dns_label_texts)):
            value = secret.get(field, "")
            if value:
                found.texts(f"{here}.{field}", value, texts(value))
            else:
                found.required(f"{here}.{field}")


PERSISTENT_VOLUME_SOURCES: dict[str, Callable[[Obj, str, ErrorList], None]] = {
    # In the order in which the server looks at them.
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
"""The fields of a volume that say what is behind it, with their rules."""
