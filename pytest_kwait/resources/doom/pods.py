"""Why a pod will not start: the first family that has something to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.resources.doom.container_starts import container_start_doom
from pytest_kwait.resources.doom.crash_loops import crash_loop_doom
from pytest_kwait.resources.doom.images import image_doom
from pytest_kwait.resources.doom.scheduling import scheduling_doom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.engine.tally import Doom

__all__ = ["start_doom", "stay_doom"]


def start_doom(pod: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return why a pod's containers will not start; None while they may.

    Args:
        pod: the pod.
        before: what it was doomed by before.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    if (doom := scheduling_doom(pod)) is not None:
        return doom
    for container in _containers(status):
        doom = image_doom(container, before) or container_start_doom(container)
        if doom is not None:
            return doom
    return None


def stay_doom(pod: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return why a pod's containers will not start and stay up; None while they may."""
    doom = start_doom(pod, before)
    status = pod.get("status") or {}
    if doom is not None or status.get("phase") in ("Succeeded", "Failed"):
        return doom
    for container in _containers(status):
        if (doom := crash_loop_doom(container)) is not None:
            return doom
    return None


def _containers(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
