"""How many pods of a replica controller there are of each sort, counted as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.controllers.pod_control import is_active, is_ready, is_terminating
from pytest_kwait.simulator.objects import labels_of, uid_of
from pytest_kwait.simulator.selectors import matches_selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.simulator.controllers.controller_refs import ControllerRefManager
    from pytest_kwait.simulator.objects import Obj

__all__ = ["PodCounter", "PodCounters", "PodCounts"]


class PodCounts(NamedTuple):
    """Numbers of pods.

    Args:
        strangers: those that the selector does not mean.
        active: of the others, those that count as replicas.
        terminating: those that are on their way out.
        ready: of the active ones, those that are ready.
        labelled: of the active ones, those with all labels of the template.
    """

    strangers: int = 0
    active: int = 0
    terminating: int = 0
    ready: int = 0
    labelled: int = 0


class PodCounter:
    """The pods of one owner.

    Args:
        selector: what the owner selects.
        labels: those of its template.
        pods: what it has so far.
    """

    def __init__(self, selector: Obj, labels: Obj, pods: Iterable[Obj]) -> None:
        self.selector = selector
        self.labels = labels
        self._sums = [0] * len(PodCounts._fields)
        self._pods: dict[str, tuple[Obj, PodCounts]] = {}
        for pod in pods:
            self.note(pod)

    @property
    def counts(self) -> PodCounts:
        """How many there are now."""
        return PodCounts(*self._sums)

    def active(self) -> list[Obj]:
        """Return those that count as replicas, in order of creation."""
        return [pod for pod, counts in self._pods.values() if counts.active]

    def note(self, pod: Obj) -> None:
        """Count a pod as it is now."""
        known, counts = self._pods.get(uid_of(pod)), self._counts(pod)
        if known is None:
            self._add(counts, 1)
        elif known[1] != counts:
            self._add(known[1], -1)
            self._add(counts, 1)
        self._pods[uid_of(pod)] = pod, counts

    def drop(self, pod: Obj) -> None:
        """Count a pod no more."""
        known = self._pods.pop(uid_of(pod), None)
        if known is not None:
            self._add(known[1], -1)

    def _add(self, counts: PodCounts, sign: int) -> None:
        self._sums = [one + sign * more for one, more in zip(self._sums, counts, strict=True)]

    def _counts(self, pod: Obj) -> PodCounts:
        labels = labels_of(pod)
        if not matches_selector(self.selector, labels):
            return PodCounts(strangers=1)
        if not is_active(pod):
            return PodCounts(terminating=int(is_terminating(pod)))
        labelled = self.labels.items() <= labels.items()
        return PodCounts(active=1, ready=int(is_ready(pod)), labelled=int(labelled))


class PodCounters:
    """The tallies of a cluster's owners of one kind; a look at one costs the same for any number.

    Args:
        pods: the cluster's pods by owner.
    """

    def __init__(self, pods: ControllerRefManager) -> None:
        self._pods = pods
        self._tallies: dict[str, PodCounter] = {}
        pods.listen(self._pod_changed)

    def of(self, owner_uid: str, selector: Obj, labels: Obj) -> PodCounter:
        """Return the owner's tally, counted anew where selector or labels are others."""
        tally = self._tallies.get(owner_uid)
        if tally is None or tally.selector != selector or tally.labels != labels:
            tally = PodCounter(selector, labels, self._pods.of(owner_uid))
            self._tallies[owner_uid] = tally
        return tally

    def forget(self, owner_uid: str) -> None:
        """Count for an owner no more: it is gone."""
        self._tallies.pop(owner_uid, None)

    def _pod_changed(self, pod: Obj, owner_uid: str | None, previous_uid: str | None) -> None:
        if previous_uid is not None and previous_uid != owner_uid:
            left = self._tallies.get(previous_uid)
            if left is not None:
                left.drop(pod)
        tally = self._tallies.get(owner_uid or "")
        if tally is not None:
            tally.note(pod)
