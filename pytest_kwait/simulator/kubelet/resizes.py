"""Resources of running containers that are changed: what is told of it, and who starts again.

Source: kubelet.go, `SyncPod`; kuberuntime_manager.go, `computePodResizeAction`; events/resize.go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_kwait.simulator.event_recorder import NORMAL, WARNING

if TYPE_CHECKING:
    from pytest_kwait.simulator.kubelet.pod_worker import PodWorker
    from pytest_kwait.simulator.objects import Obj

__all__ = ["needs_restart", "record_pending_resize", "record_resize"]

_RESOURCE_ORDER = ("limits", "requests")


def needs_restart(container: Obj, before: Obj) -> bool:
    """Whether a container starts again for its new resources.

    Args:
        container: as it is to be.
        before: as it was when it was made or last resized.
    """
    policies = {
        one["resourceName"]: one["restartPolicy"] for one in container.get("resizePolicy") or ()
    }
    new, old = container.get("resources") or {}, before.get("resources") or {}
    return any(
        policy == "RestartContainer"
        and any(
            (new.get(kind) or {}).get(name) != (old.get(kind) or {}).get(name)
            for kind in _RESOURCE_ORDER
        )
        for name, policy in policies.items()
    )


def record_resize(worker: PodWorker, *, over: bool) -> None:
    """Tell that a resize has begun, or is over."""
    word, reason = ("completed", "ResizeCompleted") if over else ("started", "ResizeStarted")
    worker.event(NORMAL, reason, f"Pod resize {word}: {_resize_summary(worker.pod)}")


def record_pending_resize(worker: PodWorker, wanted: Obj, why: str, message: str) -> None:
    """Tell that a resize waits for room.

    Args:
        worker: the pod.
        wanted: the pod as it is to be.
        why: the reason for which it is refused.
        message: the same for people.
    """
    told = f"Pod resize {why}: {_resize_summary(wanted, error=message)}"
    worker.event(WARNING, "ResizeDeferred", told)


def _resize_summary(pod: Obj, **more: str) -> str:
    spec = pod["spec"]
    summary: Obj = {
        field: [_format_resources(one) for one in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    summary |= {"generation": pod["metadata"].get("generation", 1), **more}
    return json.dumps(summary, separators=(",", ":"), ensure_ascii=False)


def _format_resources(container: Obj) -> Obj:
    resources = container.get("resources") or {}
    shown = {
        kind: dict(sorted(resources[kind].items()))
        for kind in _RESOURCE_ORDER
        if resources.get(kind)
    }
    return {"name": container["name"], "resources": shown}
