"""Builders of Kubernetes objects, one for each kind.

Further fields stand where Kubernetes has them: in the metadata, the spec or the status; `metadata`
and `status` hold those that stand there too.
"""

from __future__ import annotations

import base64
from typing import Any

Obj = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"
_METADATA = frozenset(
    (
        "annotations", "creationTimestamp", "deletionTimestamp", "finalizers", "generateName",
        "generation", "labels", "namespace", "ownerReferences", "resourceVersion", "uid",
    )
)  # fmt: skip
_STATUS = frozenset(
    (
        "addresses", "allocatable", "availableReplicas", "conditions", "containerStatuses",
        "currentNumberScheduled", "currentReplicas", "currentRevision",
        "currentVolumeAttributesClassName", "desiredNumberScheduled", "hostIP", "images",
        "initContainerStatuses", "message", "modifyVolumeStatus", "numberAvailable", "numberReady",
        "observedGeneration", "phase", "podIP", "podIPs", "readyReplicas", "reason",
        "updatedNumberScheduled", "updatedReplicas", "updateRevision",
    )
)  # fmt: skip


def condition(kind: str, status: str = "True", **more: Any) -> Obj:
    """Return one status condition."""
    return {"type": kind, "status": status, **more}


# Pods


def pod(name: str = "p", phase: str = "", *, cpu: str = "", memory: str = "", **fields: Any) -> Obj:
    """Return a pod of one container; with a phase it is on `node-1`.

    Args:
        name: its name.
        phase: its phase; none for a pod that is yet to be created.
        cpu: what its container requests.
        memory: the same of memory.
        fields: of the pod; `container` has those of its container, `waiting` the reason and the
            message why that waits.
    """
    container = _container(**fields.pop("container", {}))
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if requests:
        container.setdefault("resources", {"requests": requests})
    defaults: Obj = {"uid": f"uid-{name}", "containers": [container]}
    if phase:
        defaults |= {"nodeName": "node-1", "phase": phase}
    if waiting := fields.pop("waiting", None):
        state = {"waiting": dict(zip(("reason", "message"), waiting, strict=True))}
        statuses = [{"name": "main", "state": state, "restartCount": 0}]
        defaults["containerStatuses"] = statuses
    return _object("v1", "Pod", name, defaults | fields)


def job_pod(
    name: str, phase: str = "Running", *, owner: str = "uid-sleepers", **fields: Any
) -> Obj:
    """Return a pod of a Job."""
    labels = {"batch.kubernetes.io/controller-uid": owner}
    return pod(name, phase, **{"labels": labels, **fields})


def owned_pod(
    owner: str, name: str, phase: str = "Running", *, ready: bool = False, **fields: Any
) -> Obj:
    """Return a pod labelled `app=web` that an object of this name controls."""
    owners = [{"uid": f"uid-{owner}", "controller": True}]
    defaults: Obj = {"labels": {"app": "web"}, "ownerReferences": owners}
    if ready:
        defaults["conditions"] = [condition("Ready")]
    return pod(name, phase, **defaults | fields)


def _container(**fields: Any) -> Obj:
    return {"name": "main", "image": "busybox:1", **fields}


# Workloads


def workload(
    kind: str = "Deployment", name: str = "web", *, observed: int | None = 1, **fields: Any
) -> Obj:
    """Return a controller of the pods labelled with its name.

    Args:
        kind: its kind.
        name: its name.
        observed: the generation that its status is of.
        fields: of the object; its generation is 1, the number of its replicas 2.
    """
    labels = {"app": name}
    is_flat = kind == "ReplicationController"
    defaults: Obj = {
        "uid": f"uid-{name}",
        "generation": 1,
        "replicas": 2,
        "selector": labels if is_flat else {"matchLabels": labels},
    }
    if kind == "DaemonSet":
        del defaults["replicas"]
    defaults["observedGeneration"] = observed
    return _object("v1" if is_flat else "apps/v1", kind, name, defaults | fields)


def deployment(*counts: int, image: str = "web:1", revision: str = "1", **fields: Any) -> Obj:
    """Return a Deployment with counts of pods there, updated and available."""
    names = ("replicas", "updatedReplicas", "availableReplicas")
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    defaults: Obj = {
        "annotations": {REVISION: revision},
        "template": template,
        "status": dict(zip(names, counts, strict=False)),
    }
    return workload("Deployment", **defaults | fields)


def replica_set(
    name: str = "web-1", revision: str = "1", *, owner: str = "uid-web", **fields: Any
) -> Obj:
    """Return a ReplicaSet of a Deployment."""
    annotations = {REVISION: revision, **fields.pop("annotations", {})}
    template = {"spec": {"containers": [_container(image=fields.pop("image", "web:1"))]}}
    labels = {"app": "web"}
    defaults: Obj = {
        "annotations": annotations,
        "labels": {**labels, "pod-template-hash": name},
        "ownerReferences": [{"uid": owner, "controller": True}],
        "selector": {"matchLabels": labels},
        "template": template,
    }
    return workload("ReplicaSet", name, **defaults | fields)


def job(name: str = "j", **fields: Any) -> Obj:
    """Return a Job to create, of one container."""
    template = {"spec": {"containers": [_container()], "restartPolicy": "Never"}}
    return _object("batch/v1", "Job", name, {"template": template, **fields})


def created_job(name: str = "sleepers", **fields: Any) -> Obj:
    """Return a Job of three pods, as a server shows it: with a UID and its selector."""
    uid = fields.setdefault("uid", f"uid-{name}")
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    defaults = {"parallelism": 3, "completions": 3, "selector": selector}
    return job(name, **defaults | fields.pop("spec", {}) | fields)


# Nodes and volumes


def node(
    name: str = "n1",
    *conditions: Obj,
    cpu: str = "2",
    memory: str = "4Gi",
    pods: str = "3",
    **fields: Any,
) -> Obj:
    """Return a node with conditions and room for so much."""
    defaults = {
        "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
        "conditions": [*conditions],
    }
    return _object("v1", "Node", name, defaults | fields)


def claim(phase: str | None = None, name: str = "data", **fields: Any) -> Obj:
    """Return a PersistentVolumeClaim; without a phase one to create."""
    requests = {"requests": {"storage": "1Mi"}}
    defaults: Obj = {"accessModes": ["ReadWriteOnce"], "resources": requests}
    if phase is not None:
        defaults["phase"] = phase
    return _object("v1", "PersistentVolumeClaim", name, defaults | fields)


def volume(phase: str | None = None, name: str = "pv-1", **fields: Any) -> Obj:
    """Return a PersistentVolume; without a phase one to create."""
    defaults: Obj = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}}
    if phase is not None:
        defaults["phase"] = phase
    return _object("v1", "PersistentVolume", name, defaults | fields)


# Configuration, events and definitions


def config_map(name: str = "a", **fields: Any) -> Obj:
    """Return a ConfigMap; what is no field of its metadata is its data."""
    metadata = {key: fields.pop(key) for key in _METADATA & fields.keys()}
    data = fields.pop("data", {}) | fields
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return {**made, "data": data} if data else made


def secret(**data: str) -> Obj:
    """Return a Secret without metadata."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"kind": "Secret", "type": "Opaque", "data": encoded}


def event(
    reason: str | None, message: str | None = "", about: str = "Pod/web", **fields: Any
) -> Obj:
    """Return an Event.

    Args:
        reason: its reason.
        message: its message.
        about: what it is about, as `Kind/name`.
        fields: of the event; its name is made of its subject's and the reason.
    """
    kind, _, subject = about.partition("/")
    return {
        "metadata": {"name": fields.pop("name", f"{subject}.{reason}")},
        "involvedObject": {"kind": kind, "name": subject, "uid": f"uid-{subject}"},
        "reason": reason,
        "message": message,
        **fields,
    }


def definition(
    plural: str = "widgets", kind: str = "Widget", group: str = "example.com", **fields: Any
) -> Obj:
    """Return a CustomResourceDefinition of a namespaced kind; `names` has its further names."""
    defaults: Obj = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind, **fields.pop("names", {})},
        "versions": [served_version()],
    }
    name = f"{plural}.{group}"
    api_version, of_kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    return _object(api_version, of_kind, name, defaults | fields)


def served_version(name: str = "v1", **fields: Any) -> Obj:
    """Return one version of a CustomResourceDefinition, whose objects may have any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    defaults = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"name": name, **defaults, **fields}


def _object(api_version: str, kind: str, name: str, fields: Obj) -> Obj:
    """Return an object of which each field is in its part."""
    parts: dict[str, Obj] = {"metadata": {"name": name}, "spec": {}, "status": {}}
    own = {part: fields.pop(part, {}) for part in ("metadata", "spec", "status")}
    for field, value in fields.items():
        part = "metadata" if field in _METADATA else "status" if field in _STATUS else "spec"
        parts[part][field] = value
    for part, values in own.items():
        parts[part] |= values
    return {"apiVersion": api_version, "kind": kind, **parts}
