"""The pods of a DaemonSet, counted along with the nodes that they are on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.framework.pod.fields import (
    controller_uid,
    is_finished,
    is_terminating,
    node_of,
    phase_label,
)
from pytest_kwait.framework.pod.list_conditions import is_running_and_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["DaemonPods"]

_MET = "met"


class DaemonPods(ObjectCounter):
    """The book of the pods of one DaemonSet, by node.

    Args:
        owner: the UID of the set.
        trait: what a pod must be to be counted.
        doom: why a pod will not become that.
        nodes: the only nodes that are to have a pod; None where that is for the set to know.
    """

    def __init__(
        self,
        owner: str,
        trait: Callable[[dict[str, Any]], bool],
        doom: Callable[[dict[str, Any], TerminalState | None], TerminalState | None],
        nodes: Collection[str] | None = None,
    ) -> None:
        super().__init__(self._state)
        self._owner = owner
        self._trait = trait
        self._doom = doom
        self._nodes = None if nodes is None else frozenset(nodes)
        self._node_of: dict[str, str] = {}
        self._on_node: Counter[str] = Counter()
        self.single = 0
        """How many nodes have exactly one pod that counts, of those that are to have one."""
        self.occupied = 0
        """How many nodes have one or more."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod, on the node that it is on."""
        super().put(obj, raw, now)
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        entry = self.entry(uid)
        counts = entry is not None and _MET in entry.state.counts
        self._move(uid, node_of(obj) if counts else "")

    def drop(self, uid: str) -> None:
        """Count a pod no more; nothing where it was not counted."""
        super().drop(uid)
        self._move(uid, "")

    @property
    def met(self) -> int:
        """How many pods count."""
        return self.count(_MET)

    def _move(self, uid: str, node: str) -> None:
        before = self._node_of.pop(uid, "")
        if node:
            self._node_of[uid] = node
        if before != node:
            self._add(before, -1)
            self._add(node, 1)

    def _add(self, node: str, number: int) -> None:
        if not node:
            return
        before = self._on_node[node]
        after = self._on_node[node] = before + number
        if not after:
            del self._on_node[node]
        self.occupied += (after > 0) - (before > 0)
        if self._nodes is None or node in self._nodes:
            self.single += (after == 1) - (before == 1)

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if controller_uid(pod) != self._owner:
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted")
        if self._trait(pod):
            label = "ready" if is_running_and_ready(pod) else phase_label(pod)
            return ObjectState(label, (_MET,), keep=True)
        label = phase_label(pod)
        label = "Running, not ready" if label == "Running" else label
        # One that has ended is replaced; one elsewhere is not needed, so nothing hangs on it.
        needed = self._nodes is None or node_of(pod) in self._nodes
        doom = self._doom(pod, before) if needed and not is_finished(pod) else None
        return ObjectState(label, doom=doom)
