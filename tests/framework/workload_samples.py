"""Sample workloads as JSON, and helpers that feed them to conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.client.resource import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.engine.fake_session import condition, pod

if TYPE_CHECKING:
    from pytest_kwait.engine.condition import Condition
    from tests.engine.fake_session import FakeSession

Obj = dict[str, Any]

LABELS = {"app": "web"}
REVISION = "deployment.kubernetes.io/revision"


def deployment(
    *counts: int, replicas: int = 2, generation: int = 1, observed: int = 1, **parts: Any
) -> Obj:
    """Return a Deployment with counts of pods there, updated and available."""
    names = ("replicas", "updatedReplicas", "availableReplicas")
    status = {"observedGeneration": observed, **dict(zip(names, counts, strict=False))}
    status["conditions"] = parts.pop("conditions", None)
    revision = parts.pop("revision", "1")
    containers = [{"name": "main", "image": parts.pop("image", "web:1")}]
    metadata = {
        "name": "web",
        "uid": "uid-web",
        "generation": generation,
        "annotations": {REVISION: revision},
        **parts.pop("metadata", {}),
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"spec": {"containers": containers}},
        **parts,
    }
    return {"metadata": metadata, "spec": spec, "status": status}


def replica_set(name: str = "web-1", revision: str = "1", **parts: Any) -> Obj:
    """Return a ReplicaSet of the Deployment, or of `owner`."""
    owner = parts.pop("owner", "uid-web")
    notes = {REVISION: revision, **parts.pop("annotations", {})}
    hashed = {"pod-template-hash": name} if parts.pop("hashed", True) else {}
    replicas = parts.pop("replicas", 2)
    containers = [{"name": "main", "image": parts.pop("image", "web:1")}]
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": parts.pop("generation", 1),
        "labels": LABELS | hashed,
        "annotations": notes,
        "ownerReferences": [{"uid": owner, "controller": True}],
        **parts.pop("metadata", {}),
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": {"spec": {"containers": containers}},
    }
    status = {"observedGeneration": 1, **parts}
    return {"metadata": metadata, "spec": spec, "status": status}


def of(owner: str, name: str, phase: str = "Running", **parts: Any) -> Obj:
    """Return a pod that an object controls; ready with `ready=True`."""
    if parts.pop("ready", False):
        parts["conditions"] = [condition("Ready")]
    metadata = {
        "ownerReferences": [{"uid": f"uid-{owner}", "controller": True}],
        **parts.pop("metadata", {}),
    }
    labels = parts.pop("labels", LABELS)
    return pod(name, phase, metadata=metadata, labels=labels, **parts)


def stuck(owner: str, name: str, reason: str = "InvalidImageName") -> Obj:
    """Return a pod of which the only container waits for a reason."""
    return of(owner, name, "Pending", waiting=(reason, "nope"))


def enter(awaited: Condition, *objects: Obj, position: int = 0) -> None:
    """Show objects to the book of one of the condition's sources."""
    for obj in objects:
        uid = f"uid-{obj['metadata']['name']}"
        whole = {**obj, "metadata": {"uid": uid, **obj["metadata"]}}
        book = awaited.sources()[position].sink
        book.put(whole, msgspec.json.encode(whole), 0.0)


def show(session: FakeSession, made: Obj, sets: list[Obj], pods: list[Obj]) -> None:
    """Put a Deployment with what it owns on a server."""
    session.put(DEPLOYMENTS, made)
    for each in sets:
        session.put(REPLICA_SETS, each)
    for each in pods:
        session.put(PODS, each)
