"""Builders of volumes, claims and attachments for these suites."""

from __future__ import annotations

from typing import Any

from e2e.pods.manifest import container, pod


def volume(name: str, storage_class: str, **spec: Any) -> dict[str, Any]:
    """Return a volume on the node's disk."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},
            **spec,
        },
    }


def claim(name: str, storage_class: str | None, **spec: Any) -> dict[str, Any]:
    """Return a claim of a megabyte."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Mi"}},
            **spec,
        },
    }


def kept_for(made: dict[str, Any]) -> dict[str, Any]:
    """Return the reference that reserves a volume for a claim, which binds it at once."""
    metadata = made["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **{field: metadata[field] for field in ("namespace", "name", "uid")},
    }


def storage_class(name: str, **more: Any) -> dict[str, Any]:
    """Return a class without a provisioner."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        **more,
    }


def attachment(name: str, volume_name: str, node: str) -> dict[str, Any]:
    """Return an attachment without an attacher."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {
            "attacher": "csi.kwait.example",
            "nodeName": node,
            "source": {"persistentVolumeName": volume_name},
        },
    }


def user(name: str, claim_name: str) -> dict[str, Any]:
    """Return a pod that uses a claim."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    return pod(name, container(volumeMounts=mounts), volumes=volumes)


def worker(name: str, claim_name: str, script: str, **spec: Any) -> dict[str, Any]:
    """Return a pod that runs a script once with a claim's volume at `/data`."""
    made = user(name, claim_name)
    made["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    made["spec"] |= spec
    return made
