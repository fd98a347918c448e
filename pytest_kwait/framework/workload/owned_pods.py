"""The pods that a selector matches, each counted with those of the same owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.framework.pod.fields import (
    controller_uid,
    is_finished,
    is_ready,
    is_terminating,
    phase_label,
    phase_of,
)
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["ALIVE", "OwnedPods"]

ALIVE = "alive"
"""What pods count as that have not ended and are not being deleted."""


class OwnedPods:
    """The book of pods by owner.

    A selector is no ownership: it may match what an earlier workload of the same name has left,
    and matches the pods of all ReplicaSets of a Deployment.

    Args:
        owner: what a pod is counted with; by default the UID of its controller.
    """

    def __init__(self, owner: Callable[[dict[str, Any]], str] = controller_uid) -> None:
        self._owner = owner
        self._tallies: dict[str, ObjectCounter] = {}
        self._owner_of: dict[str, str] = {}

    def of(self, owner: str) -> ObjectCounter:
        """Return the tally of that owner's pods."""
        tally = self._tallies.get(owner)
        if tally is None:
            tally = self._tallies[owner] = ObjectCounter(_state)
        return tally

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod with those of its owner; it may have been adopted, or released."""
        uid = obj["metadata"].get("uid") or obj["metadata"]["name"]
        owner, before = self._owner(obj), self._owner_of.get(uid)
        if before is not None and before != owner:
            self.of(before).drop(uid)
        self._owner_of[uid] = owner
        self.of(owner).put(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Count a pod no more; nothing where it was not counted."""
        owner = self._owner_of.pop(uid, None)
        if owner is not None:
            self.of(owner).drop(uid)

    def uids(self) -> Collection[str]:
        """Return the UIDs of the pods that are there, whosever they are."""
        return self._owner_of.keys()


def _state(pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
    if is_terminating(pod):
        return ObjectState("being deleted")
    if is_finished(pod):
        # Its controller makes another one in its place.
        return ObjectState(phase_label(pod))
    if phase_of(pod) == "Running" and is_ready(pod):
        return ObjectState("ready", (ALIVE,))
    label = phase_label(pod)
    label = "Running, not ready" if label == "Running" else label
    return ObjectState(label, (ALIVE,), doom=detect_owned_pod_failure(pod, before))
