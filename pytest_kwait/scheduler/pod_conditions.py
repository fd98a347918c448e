"""The condition that says of a pod why it is not scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["make_unscheduled_patch"]


def make_unscheduled_patch(
    pod: Mapping[str, Any], reason: str, message: str, now: str
) -> dict[str, Any] | None:
    """Return the strategic merge patch of a pod's status; None where it says the same already.

    Args:
        pod: the pod as it is.
        reason: `Unschedulable` or `SchedulerError`.
        message: for people.
        now: the time as the API writes it.

    Source: kube-scheduler, schedule_one.go, `updatePod`; api/v1/pod/util.go, `UpdatePodCondition`.
    """
    metadata = pod["metadata"]
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    if metadata.get("generation"):
        condition["observedGeneration"] = metadata["generation"]
    for known in (pod.get("status") or {}).get("conditions") or ():
        if known.get("type") == "PodScheduled" and known.get("status") == "False":
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now)
            if all(known.get(name) == value for name, value in condition.items()):
                return None
    # The UID keeps it from a pod of the same name that came after.
    return {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
