"""Builders of the objects that these suites create."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

NEVER_READY = {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
"""A readiness probe that always fails."""

TYPO = {"image": "Busybox:not a tag"}
"""An invalid image name."""


# Pods and jobs


def container(name: str = "main", script: str = "sleep 300", **more: Any) -> Obj:
    """Return a container that runs a shell script; `image` and the rest as given."""
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **more}


def pod(name: str, *containers: Obj, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """Return a pod that ends at once when it is deleted; the rest of its spec as given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": list(containers or (container(),)),
            **spec,
        },
    }


def job(name: str, *containers: Obj, **spec: Any) -> Obj:
    """Return a job; the rest of its spec as given."""
    template = {"spec": pod(name, *containers)["spec"]}
    return _object("batch/v1", "Job", name, {"template": template, **spec})


# Workloads: their pods are labelled `app`, with the name, and end at once when they are deleted


def deployment(name: str, replicas: int = 1, more: Obj | None = None, **spec: Any) -> Obj:
    """Return a Deployment.

    Args:
        name: its name.
        replicas: how many pods.
        more: fields of the container, beyond a shell that sleeps.
        **spec: further fields of its spec.
    """
    return _workload("Deployment", name, more, {"replicas": replicas, **spec})


def replica_set(name: str, replicas: int = 1, more: Obj | None = None) -> Obj:
    """Return a ReplicaSet."""
    return _workload("ReplicaSet", name, more, {"replicas": replicas})


def stateful_set(name: str, replicas: int = 1, more: Obj | None = None, **spec: Any) -> Obj:
    """Return a StatefulSet."""
    own = {"replicas": replicas, "serviceName": name}
    return _workload("StatefulSet", name, more, {**own, **spec})


def daemon_set(
    name: str,
    more: Obj | None = None,
    node_selector: dict[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """Return a DaemonSet, on the nodes with the labels of `node_selector`."""
    made = _workload("DaemonSet", name, more, spec)
    made["spec"]["template"]["spec"]["nodeSelector"] = node_selector or {}
    return made


def replication_controller(name: str, replicas: int = 1, more: Obj | None = None) -> Obj:
    """Return a ReplicationController."""
    own = {"replicas": replicas, "selector": {"app": name}, "template": _template(name, more)}
    return _object("v1", "ReplicationController", name, own)


def _workload(kind: str, name: str, more: Obj | None, spec: Obj) -> Obj:
    selector = {"matchLabels": {"app": name}}
    own = {"selector": selector, "template": _template(name, more), **spec}
    return _object("apps/v1", kind, name, own)


def _template(name: str, more: Obj | None) -> Obj:
    made = pod(name, container(**more or {}), restartPolicy="Always")
    return {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}


# Services, configuration and custom kinds


def service(name: str, **spec: Any) -> Obj:
    """Return a service of the pods labelled `app` with its name, from port 80 to 8080."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return _object("v1", "Service", name, {"selector": {"app": name}, "ports": ports, **spec})


def config_map(name: str, **data: str) -> Obj:
    """Return a config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Obj:
    """Return a secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def definition(group: str, plural: str, kind: str, *versions: Obj) -> Obj:
    """Return the definition of a namespaced kind; without versions it has a `v1`."""
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
        "versions": [*(versions or (version("v1"),))],
    }
    name = f"{plural}.{group}"
    return _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec)


def version(name: str, schema: Obj | None = None, **more: Any) -> Obj:
    """Return a version of a definition, served and stored; without a schema it has any fields."""
    fields = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    own = {"served": True, "storage": True, "schema": {"openAPIV3Schema": fields}}
    return {"name": name, **own, **more}


# Volumes


def volume(name: str, storage_class: str, **spec: Any) -> Obj:
    """Return a volume on the node's disk."""
    own = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},
    }
    return _object("v1", "PersistentVolume", name, {**own, **spec})


def claim(name: str, storage_class: str | None, **spec: Any) -> Obj:
    """Return a claim of a megabyte."""
    own = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    return _object("v1", "PersistentVolumeClaim", name, {**own, **spec})


def kept_for(made: Obj) -> Obj:
    """Return the reference that reserves a volume for a claim, which binds it at once."""
    metadata = made["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        **{field: metadata[field] for field in ("namespace", "name", "uid")},
    }


def storage_class(name: str, **more: Any) -> Obj:
    """Return a class without a provisioner."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        **more,
    }


def attachment(name: str, volume_name: str, node: str) -> Obj:
    """Return an attachment without an attacher."""
    source = {"persistentVolumeName": volume_name}
    spec = {"attacher": "csi.kwait.example", "nodeName": node, "source": source}
    return _object("storage.k8s.io/v1", "VolumeAttachment", name, spec)


def user(name: str, claim_name: str, script: str = "sleep 300", **spec: Any) -> Obj:
    """Return a pod that runs a script with a claim's volume at `/data`."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    return pod(name, container(script=script, volumeMounts=mounts), volumes=volumes, **spec)


def _object(api_version: str, kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
