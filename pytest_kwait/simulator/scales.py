"""The `scale` subresource: an object's number of replicas under one shape for all kinds.

Source: k8s.io/kubernetes pkg/registry/apps/deployment/storage/storage.go,
k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.selectors import selector_text
from pytest_kwait.simulator.status_error import bad_request, invalid, invalid_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry import Kind

__all__ = ["read_scale", "write_scale"]

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _paths(kind: Kind) -> tuple[str, str, str]:
    if kind.structure is not None and kind.structure.scale:
        scale = kind.structure.scale
        return (
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath", ""),
        )
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def _at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for name in path.strip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def read_scale(kind: Kind, obj: Obj) -> Obj:
    """The object's Scale."""
    wanted, present, chosen = _paths(kind)
    spec: Obj = {}
    replicas = _at(obj, wanted)
    if replicas:
        spec["replicas"] = replicas
    status: Obj = {"replicas": _at(obj, present) or 0}
    selector = _at(obj, chosen) if chosen else None
    if isinstance(selector, str):
        status["selector"] = selector
    elif isinstance(selector, dict):
        if kind.bucket == "replicationcontrollers":
            selector = {"matchLabels": selector}
        status["selector"] = selector_text(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]},
        "spec": spec,
        "status": status,
    }


def write_scale(kind: Kind, obj: Obj, scale: Obj) -> Obj:
    """A copy of the object with the Scale's replicas, and with its resourceVersion if it has one.

    Raises:
        StatusError: 400 or 422, the Scale is none.
    """
    metadata, spec = scale.get("metadata") or {}, scale.get("spec") or {}
    if metadata.get("name", obj["metadata"]["name"]) != obj["metadata"]["name"]:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({obj['metadata']['name']})"
        )
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal string '
            "into Go struct field ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", obj["metadata"]["name"], [error])
    changed: Obj = clone(obj)
    parent = changed
    *steps, last = _paths(kind)[0].strip(".").split(".")
    for step in steps:
        parent = parent.setdefault(step, {})
    parent[last] = replicas
    if metadata.get("resourceVersion"):
        changed["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    return changed
