"""The pods of a StatefulSet, counted along with their places in it."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.framework.pod.fields import controller_uid, is_terminating
from pytest_kwait.framework.statefulset.stateful_set_states import first_ordinal, parse_ordinal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StatefulPods"]


class StatefulPods(ObjectCounter):
    """The book of the pods of one StatefulSet; what its selector matches besides is passed over.

    Args:
        stateful_set: the set, as it is when the book is opened.
        judge: what a pod counts as, given the pod, its place counted from 0 and its doom so far.
    """

    def __init__(
        self,
        stateful_set: dict[str, Any],
        judge: Callable[[dict[str, Any], int, TerminalState | None], ObjectState],
    ) -> None:
        super().__init__(self._evaluate_pod)
        self._judge_pod = judge
        self._name = stateful_set["metadata"].get("name") or ""
        self._uid = stateful_set["metadata"].get("uid") or ""
        self._first = first_ordinal(stateful_set)
        self._places: dict[str, int] = {}
        self._order: list[int] = []
        self._foreign: set[str] = set()

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod, if it is one of the set."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        ordinal = parse_ordinal(self._name, metadata["name"])
        if ordinal is None or controller_uid(obj) != self._uid:
            # A pod can be released by its set, and is then none of it.
            self.drop(uid)
            self._foreign.add(uid)
            return
        self._foreign.discard(uid)
        if uid not in self._places:
            self._places[uid] = ordinal - self._first
            insort(self._order, ordinal - self._first)
        super().put(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Count a pod no more; nothing where it was not counted."""
        super().drop(uid)
        self._foreign.discard(uid)
        place = self._places.pop(uid, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]

    def uids(self) -> set[str]:
        """Return the UIDs of all that the selector matches and is there."""
        return {*super().uids(), *self._foreign}

    @property
    def is_contiguous(self) -> bool:
        """Whether the pods that are there are the lowest ones: none is missing among them."""
        return not self._order or (self._order[0] == 0 and self._order[-1] == len(self._order) - 1)

    def _evaluate_pod(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if is_terminating(pod):
            return ObjectState("being deleted")
        metadata = pod["metadata"]
        place = self._places[metadata.get("uid") or metadata["name"]]
        return self._judge_pod(pod, place, before)
