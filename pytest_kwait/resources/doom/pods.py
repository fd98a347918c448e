"""Why a pod will not start: the first family that has something to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.resources.doom.container_starts import container_start_doom
from pytest_kwait.resources.doom.crash_loops import crash_loop_doom
from pytest_kwait.resources.doom.endings import ending_doom
from pytest_kwait.resources.doom.finished_containers import finished_container_doom
from pytest_kwait.resources.doom.images import image_doom
from pytest_kwait.resources.doom.init_containers import init_container_doom
from pytest_kwait.resources.doom.scheduling import scheduling_doom
from pytest_kwait.resources.pods import controller_uid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.engine.tally import Doom

__all__ = ["member_doom", "ready_doom", "run_doom", "start_doom", "stay_doom"]


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


def run_doom(pod: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return why a pod will not come to phase Running; None while it may.

    A crash loop of its own containers does not keep it from that phase, one of its init
    containers does.
    """
    return start_doom(pod, before) or init_container_doom(pod)


def ready_doom(pod: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return why a pod will not become ready; None while it may."""
    return run_doom(pod, before) or stay_doom(pod, before) or finished_container_doom(pod)


def member_doom(pod: dict[str, Any], before: Doom | None) -> Doom | None:
    """Return why a pod of a set will not become ready, nor another in its place; else None."""
    ended = ending_doom(pod, replaced=bool(controller_uid(pod)))
    phase = (pod.get("status") or {}).get("phase")
    return ended if phase in ("Succeeded", "Failed") else ready_doom(pod, before)


def _containers(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
