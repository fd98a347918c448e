"""What is behind a persistent volume.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeSpec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import dns_label_texts, dns_subdomain_texts
from pytest_kwait.simulator.pod_rules.paths import check_no_backsteps
from pytest_kwait.simulator.rules.volume_sources import (
    ONE_TOO_MANY,
    SHARED,
    SHOWN,
    check_cinder,
    check_driver,
    check_iscsi,
    check_storage_os,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["SOURCES", "check_persistent_sources"]

_NAMESPACE = "if the endpointnamespace is set, it must be a valid namespace name"
_USES = ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand")


def check_persistent_sources(spec: Obj, name: str, at: str, found: Findings) -> None:
    """Exactly one source, and what it needs.

    Args:
        spec: the volume's.
        name: the volume's; empty within an attachment.
        at: the path of the spec.
        found: what is added to.
    """
    taken = False
    for source in SOURCES:
        value = spec.get(source)
        if value is None:
            continue
        # Of a flex volume the server says everything but that it is one too many.
        if taken and source != "flexVolume":
            found.forbidden(f"{at}.{SHOWN.get(source, source)}", ONE_TOO_MANY)
            continue
        taken = True
        here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
        if source == "iscsi":
            check_iscsi(value, here, found, name)
        else:
            SOURCES[source](value, here, found)
        if source == "local" and spec.get("nodeAffinity") is None:
            found.required(f"{at}.nodeAffinity", "Local volume requires node affinity")
    if not taken:
        found.required(at, "must specify a volume type")


def _check_local(source: Obj, at: str, found: Findings) -> None:
    path = source.get("path", "")
    if not path:
        found.required(f"{at}.path")
    else:
        check_no_backsteps(path, f"{at}.path", found)


def _check_glusterfs(source: Obj, at: str, found: Findings) -> None:
    SHARED["glusterfs"](source, at, found)
    namespace = source.get("endpointsNamespace")
    if namespace is not None:
        texts = dns_label_texts(namespace) if namespace else [_NAMESPACE]
        found.texts(f"{at}.endpointsNamespace", namespace, texts)


def _check_azure_file(source: Obj, at: str, found: Findings) -> None:
    SHARED["azureFile"](source, at, found)
    if source.get("secretNamespace") == "":
        found.required(f"{at}.secretNamespace")


def _check_cinder(source: Obj, at: str, found: Findings) -> None:
    check_cinder(source, at, found, "name", "namespace")


def _check_storage_os(source: Obj, at: str, found: Findings) -> None:
    check_storage_os(source, at, found, "name", "namespace")


def _check_csi(source: Obj, at: str, found: Findings) -> None:
    check_driver(source.get("driver", ""), f"{at}.driver", found)
    if not source.get("volumeHandle"):
        found.required(f"{at}.volumeHandle")
    for use in _USES:
        secret, here = source.get(f"{use}SecretRef"), f"{at}.{use}SecretRef"
        if secret is None:
            continue
        for field, texts in (("name", dns_subdomain_texts), ("namespace", dns_label_texts)):
            value = secret.get(field, "")
            if value:
                found.texts(f"{here}.{field}", value, texts(value))
            else:
                found.required(f"{here}.{field}")


SOURCES: dict[str, Callable[[Obj, str, Findings], None]] = {
    # In the order in which the server looks at them.
    "hostPath": SHARED["hostPath"],
    "gcePersistentDisk": SHARED["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED["awsElasticBlockStore"],
    "glusterfs": _check_glusterfs,
    "flocker": SHARED["flocker"],
    "nfs": SHARED["nfs"],
    "rbd": SHARED["rbd"],
    "quobyte": SHARED["quobyte"],
    "cephfs": SHARED["cephfs"],
    "iscsi": check_iscsi,
    "cinder": _check_cinder,
    "fc": SHARED["fc"],
    "flexVolume": SHARED["flexVolume"],
    "azureFile": _check_azure_file,
    "vsphereVolume": SHARED["vsphereVolume"],
    "photonPersistentDisk": SHARED["photonPersistentDisk"],
    "portworxVolume": SHARED["portworxVolume"],
    "azureDisk": SHARED["azureDisk"],
    "scaleIO": SHARED["scaleIO"],
    "local": _check_local,
    "storageos": _check_storage_os,
    "csi": _check_csi,
}
"""The fields of a volume that say what is behind it, with their rules."""
