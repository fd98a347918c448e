"""Placement of pods: which have a node, and which their kubelets know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.pod.fields import is_finished, node_of, phase_label
from pytest_kwait.framework.terminal_states.pods import detect_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = [
    "PlacedPod",
    "PlacedPods",
    "parse_pod_uids",
]


class PlacedPod(NamedTuple):
    """A pod and its host.

    Args:
        host: the node's name.
        pod: the pod, with the requested fields.
    """

    host: str
    pod: dict[str, Any]


class PlacedPods(ObjectCounter):
    """Store of the selected pods: scheduled ones and ones known to their kubelet.

    Args:
        names: the only pods that count; None for all.
        judge: returns a pod's classification; None if only the placement matters.
    """

    def __init__(
        self,
        names: Collection[str] | None = None,
        judge: Callable[[dict[str, Any], TerminalState | None], ObjectState] | None = None,
    ) -> None:
        super().__init__(judge or _state)
        self._names = names
        self._unknown: dict[str, PlacedPod] = {}
        self._known: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._homeless: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self.dropped: set[str] = set()
        """The names of pods that existed and are gone."""
        self.news = False
        """True if a pod was placed since the last questions to the agents."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Store a pod and its host."""
        metadata = obj["metadata"]
        if self._names is not None and metadata["name"] not in self._names:
            return
        super().put(obj, raw, now)
        uid = metadata.get("uid") or metadata["name"]
        self._uids[metadata["name"]] = uid
        host = node_of(obj)
        if not host:
            self._homeless[uid] = metadata["name"]
        elif uid not in self._known:
            self._homeless.pop(uid, None)
            self.news = self.news or uid not in self._unknown
            self._unknown[uid] = PlacedPod(host, obj)

    def drop(self, uid: str) -> None:
        """Remove a pod that is gone."""
        entry = self.entry(uid)
        super().drop(uid)
        if entry is not None and self._uids.get(entry.name) == uid:
            del self._uids[entry.name]
            self.dropped.add(entry.name)
        self._known.discard(uid)
        for group in (self._unknown, self._reasons, self._homeless):
            group.pop(uid, None)

    def by_name(self) -> Mapping[str, str]:
        """Return the UIDs of the existing pods by their names."""
        return self._uids

    @property
    def unscheduled(self) -> int:
        """The number of pods without a host."""
        return len(self._homeless)

    @property
    def known(self) -> int:
        """The number of pods known to their hosts' agents."""
        return len(self._known)

    def unknown(self) -> list[tuple[str, PlacedPod]]:
        """Return the pods, with their UIDs, that have a host that does not know them yet."""
        return list(self._unknown.items())

    def record_answers(self, uid: str, reason: str | None) -> None:
        """Record an agent's answer about a pod; no-op if the pod is gone.

        Args:
            reason: the reason that the pod is not known; None if it is.
        """
        if uid not in self._unknown:
            return
        if reason is not None:
            self._reasons[uid] = reason
            return
        del self._unknown[uid]
        self._reasons.pop(uid, None)
        self._known.add(uid)

    def first_unknown_reason(self) -> str:
        """Return the reason that a pod is not known; empty before any answer."""
        return next(iter(self._reasons.values()), "")

    def first_unscheduled(self) -> str:
        """Return the name of a pod without a host."""
        return next(iter(self._homeless.values()), "")


def _state(pod: dict[str, Any], _: TerminalState | None) -> ObjectState:
    placed = bool(node_of(pod))
    doom = None if placed or is_finished(pod) else detect_unschedulable(pod)
    return ObjectState(phase_label(pod), keep=True, doom=doom)


def parse_pod_uids(pods: Sequence[dict[str, Any] | str]) -> dict[str, str]:
    """Return the UIDs of pods by their names; empty if only the name is given.

    Raises:
        InvalidArgument: neither a pod as the API returns it nor a name.
    """
    named: dict[str, str] = {}
    for pod in pods:
        metadata = pod.get("metadata") if isinstance(pod, Mapping) else {"name": pod}
        if not isinstance(metadata, Mapping):
            raise InvalidArgument("pods", pod, "use pods as the API has them, or their names")
        named[check_name("pods", metadata.get("name"))] = metadata.get("uid") or ""
    return named
