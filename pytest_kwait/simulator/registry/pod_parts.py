"""What may be written of a pod through a subresource: debug containers, resources.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.objects import clone
from pytest_kwait.simulator.validation.findings import ErrorList

if TYPE_CHECKING:
    from pytest_kwait.simulator.api_errors import FieldError
    from pytest_kwait.simulator.objects import Obj

__all__ = ["restore_other_fields", "validate_pod_subresource"]

_EPHEMERAL_CONTAINERS = "ephemeralContainers"
_CONTAINER_LISTS = ("containers", "initContainers")


def restore_other_fields(subresource: str, new: Obj, old: Obj) -> None:
    """Undo in `new` what the subresource does not write."""
    if subresource == "resize":
        if any(
            len(_containers_in(new, field)) != len(_containers_in(old, field))
            for field in _CONTAINER_LISTS
        ):
            return  # which is refused
        _restore_all_but_resources(new, old)
    else:
        spec = clone(old["spec"])
        debug = new.get("spec", {}).get(_EPHEMERAL_CONTAINERS)
        if debug:
            spec[_EPHEMERAL_CONTAINERS] = debug
        else:
            spec.pop(_EPHEMERAL_CONTAINERS, None)
        new["spec"] = spec
    before, metadata = old["metadata"], new["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    new["status"] = old["status"]


def _containers_in(pod: Obj, field: str) -> list[Obj]:
    found: list[Obj] = (pod.get("spec") or {}).get(field) or []
    return found


def _restore_all_but_resources(new: Obj, old: Obj) -> None:
    spec = clone(old["spec"])
    for field in _CONTAINER_LISTS:
        sent, kept = _containers_in(new, field), _containers_in({"spec": spec}, field)
        if any(one.get("name") != was.get("name") for one, was in zip(sent, kept, strict=True)):
            spec[field] = sent  # which is refused
            continue
        for container, wanted in zip(kept, sent, strict=True):
            _copy_fields(container, wanted, "resources", "resizePolicy")
    _copy_fields(spec, new.get("spec") or {}, "resources")
    new["spec"] = spec


def _copy_fields(kept: Obj, sent: Obj, *fields: str) -> None:
    """Let these fields be as they were sent."""
    for field in fields:
        if field in sent:
            kept[field] = sent[field]
        else:
            kept.pop(field, None)


def validate_pod_subresource(subresource: str, new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a part that was written."""
    # Not at import: a cluster starts without anybody who writes parts of pods.
    from pytest_kwait.simulator.validation.core.pods.resizing import (
        validate_ephemeral_containers_update,
        validate_pod_resize,
    )

    found = ErrorList()
    check = validate_pod_resize if subresource == "resize" else validate_ephemeral_containers_update
    check(new, old, found)
    return found
