"""The `scale` subresource: an object's number of replicas under one shape for all kinds.

Source: k8s.io/kubernetes pkg/registry/apps/deployment/storage/storage.go,
k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.api_errors import bad_request, conflict, invalid, invalid_value
from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.selectors import format_selector

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.scheme import Kind

__all__ = ["read_scale", "replicas_path", "write_scale"]

_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def _scale_paths(kind: Kind) -> tuple[str, str, str]:
    if kind.structure is not None and kind.structure.scale:
        scale = kind.structure.scale
        return (
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath", ""),
        )
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def _value_at(obj: Obj, path: str) -> Any:
    value: Any = obj
    for name in path.strip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def read_scale(kind: Kind, obj: Obj) -> Obj:
    """The object's Scale."""
    wanted, present, chosen = _scale_paths(kind)
    spec: Obj = {}
    replicas = _value_at(obj, wanted)
    if replicas:
        spec["replicas"] = replicas
    status: Obj = {"replicas": _value_at(obj, present) or 0}
    selector = _value_at(obj, chosen) if chosen else None
    if isinstance(selector, str):
        status["selector"] = selector
    elif isinstance(selector, dict):
        if kind.bucket == "replicationcontrollers":
            selector = {"matchLabels": selector}
        status["selector"] = format_selector(selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: obj["metadata"][key] for key in _SCALE_METADATA if key in obj["metadata"]
        },
        "spec": spec,
        "status": status,
    }


def replicas_path(kind: Kind) -> list[str]:
    """Where the object has the number that it is to have."""
    return _scale_paths(kind)[0].strip(".").split(".")


def write_scale(kind: Kind, obj: Obj, scale: Obj) -> Obj:
    """A copy of the object with the Scale's replicas, and with its resourceVersion if it has one.

    Args:
        kind: of the object.
        obj: the object.
        scale: the Scale, which is decoded.

    Raises:
        StatusError: 400, 409 or 422, it is none of the object.
    """
    metadata, name = scale["metadata"], obj["metadata"]["name"]
    if not metadata.get("name"):
        raise bad_request("name must be provided")
    if metadata["name"] != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0 and not kind.custom:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", name, [error])
    if metadata.get("uid") and metadata["uid"] != obj["metadata"]["uid"]:
        raise conflict(
            kind.group,
            f"{kind.plural}/scale",
            name,
            f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
            f"{obj['metadata']['uid']}",
        )
    changed: Obj = clone(obj)
    parent = changed
    *steps, last = replicas_path(kind)
    for step in steps:
        parent = parent.setdefault(step, {})
    parent[last] = replicas
    if metadata.get("resourceVersion"):
        changed["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    return changed
