"""DefaultStorageClass and PersistentVolumeClaimResize: the class of a claim, and its expansion.

Source: k8s.io/kubernetes plugin/pkg/admission/storage/storageclass/setdefault/admission.go,
plugin/pkg/admission/storage/persistentvolume/resize/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.admission.attributes import AdmissionPlugin, Attributes
from pytest_kwait.simulator.objects import BETA_STORAGE_CLASS, name_of, storage_class_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.objects import Obj

_CLAIMS = "persistentvolumeclaims"
_CLASSES = "storageclasses.storage.k8s.io"
_DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class"

STANDARD_CLASS: Obj = {
    "metadata": {"name": "standard", "annotations": {_DEFAULT_ANNOTATION: "true"}},
    "provisioner": "kwait.dev/host-path",
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""The initial storage class, named and configured as kind's."""


def has_no_class(claim: Obj) -> bool:
    """Return whether the claim gets the default class; an empty name means no class."""
    annotations = claim["metadata"].get("annotations") or {}
    return BETA_STORAGE_CLASS not in annotations and claim["spec"].get("storageClassName") is None


def find_default_class(cluster: Cluster) -> str | None:
    """Return the default class: the newest, or the first by name.

    Source: k8s.io/kubernetes pkg/volume/util/storageclass.go, `GetDefaultClass`.
    """
    defaults = [
        storage_class
        for storage_class in cluster.list(_CLASSES)
        if (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT_ANNOTATION) == "true"
    ]
    if not defaults:
        return None
    latest = max(default["metadata"]["creationTimestamp"] for default in defaults)
    return min(
        name_of(default)
        for default in defaults
        if default["metadata"]["creationTimestamp"] == latest
    )


class DefaultStorageClass(AdmissionPlugin):
    """Sets the default class of new claims without a class."""

    buckets = frozenset({_CLAIMS})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def admit(self, attributes: Attributes) -> None:
        """Set the class."""
        claim = attributes.obj
        if (
            attributes.kind.bucket != _CLAIMS
            or attributes.operation != "CREATE"
            or attributes.subresource
            or claim is None
            or not has_no_class(claim)
        ):
            return
        name = find_default_class(self._cluster)
        if name is not None:
            claim["spec"]["storageClassName"] = name


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Allows claims to grow if their class does."""

    buckets = frozenset({_CLAIMS})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def validate(self, attributes: Attributes) -> None:
        """Check claims that request more storage.

        Raises:
            StatusError: 403, the claim is unbound or its class forbids expansion.
        """
        new, old = attributes.obj, attributes.old
        if attributes.kind.bucket != _CLAIMS or attributes.subresource or not new or not old:
            return
        if _requested_storage(new) <= _requested_storage(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise attributes.forbidden("Only bound persistent volume claims can be expanded")
        if not self._allows(new, old):
            raise attributes.forbidden(
                "only dynamically provisioned pvc can be resized and the storageclass that "
                "provisions the pvc must support resize"
            )

    def _allows(self, new: Obj, old: Obj) -> bool:
        names = {storage_class_of(new), storage_class_of(old)}
        name = names.pop()
        if names or not name:
            return False
        storage_class = self._cluster.find(_CLASSES, name)
        return storage_class is not None and bool(storage_class.get("allowVolumeExpansion"))


def _requested_storage(claim: Obj) -> int:
    from pytest_kwait.apimachinery.quantities import parse_value

    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_value(requests.get("storage", 0))
