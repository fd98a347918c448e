"""What may be written of a pod through a subresource: debug containers, resources.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.findings import Findings
from pytest_kwait.simulator.objects import clone

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.status_error import FieldError

__all__ = ["keep_the_rest", "part_errors"]

_DEBUG = "ephemeralContainers"
_LISTS = ("containers", "initContainers")


def keep_the_rest(subresource: str, new: Obj, old: Obj) -> None:
    """Undo in `new` what the subresource does not write."""
    if subresource == "resize":
        if any(len(_listed(new, field)) != len(_listed(old, field)) for field in _LISTS):
            return  # which is refused
        _keep_all_but_resources(new, old)
    else:
        spec = clone(old["spec"])
        debug = new.get("spec", {}).get(_DEBUG)
        if debug:
            spec[_DEBUG] = debug
        else:
            spec.pop(_DEBUG, None)
        new["spec"] = spec
    before, metadata = old["metadata"], new["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)
    new["status"] = old["status"]


def _listed(pod: Obj, field: str) -> list[Obj]:
    found: list[Obj] = (pod.get("spec") or {}).get(field) or []
    return found


def _keep_all_but_resources(new: Obj, old: Obj) -> None:
    spec = clone(old["spec"])
    for field in _LISTS:
        sent, kept = _listed(new, field), _listed({"spec": spec}, field)
        if any(one.get("name") != was.get("name") for one, was in zip(sent, kept, strict=True)):
            spec[field] = sent  # which is refused
            continue
        for container, wanted in zip(kept, sent, strict=True):
            _take(container, wanted, "resources", "resizePolicy")
    _take(spec, new.get("spec") or {}, "resources")
    new["spec"] = spec


def _take(kept: Obj, sent: Obj, *fields: str) -> None:
    """Let these fields be as they were sent."""
    for field in fields:
        if field in sent:
            kept[field] = sent[field]
        else:
            kept.pop(field, None)


def part_errors(subresource: str, new: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a part that was written."""
    # Not at import: a cluster starts without anybody who writes parts of pods.
    from pytest_kwait.simulator.pod_rules.resizing import check_debug_containers, check_pod_resize

    found = Findings()
    check = check_pod_resize if subresource == "resize" else check_debug_containers
    check(new, old, found)
    return found
