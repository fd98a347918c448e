"""Placement of pods: which have a node, and which their kubelets know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_kwait.client.resource import PODS
from pytest_kwait.engine.condition import (
    EvidenceScope,
    Failed,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.pod_fields import is_finished, node_of, phase_label
from pytest_kwait.framework.named_objects import ProbeCondition, join_names, parse_named_uids
from pytest_kwait.framework.terminal_states.pods import detect_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Answers: TypeAlias = "list[tuple[str, str | None]]"
"""The UIDs of the requested pods, each with the reason that it is not known; None if it is."""


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
        names: the UIDs of the only pods that count, by name, empty where not known; None for all.
        classify: returns a pod's classification; None if only the placement matters.
    """

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        classify: Callable[[dict[str, Any], TerminalState | None], ObjectState] | None = None,
    ) -> None:
        super().__init__(classify or _state)
        self._names = names
        self._unknown: dict[str, PlacedPod] = {}
        self._known: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._homeless: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self.dropped: set[str] = set()
        """The names of pods that existed and are gone."""
        self.news = False
        """True if a pod was placed since the last requests to the agents."""
        self.follows_names = False

    def follow_names(self) -> None:
        """Let the identity of named pods be their names."""
        self.follows_names = True

    def lost_noun(self) -> str:
        """Return the kind if a named pod was deleted, also where another one has its name."""
        return "pod" if self._names is not None and any(map(self.is_lost, self._names)) else ""

    def is_lost(self, name: str) -> bool:
        """Return whether a named pod was deleted, and no other of its name replaces it."""
        uid, there = (self._names or {}).get(name) or "", self._uids.get(name)
        if self.follows_names:
            return False
        return bool(uid or name in self.dropped) if there is None else bool(uid) and there != uid

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


class PlacedPodsCondition(ProbeCondition):
    """Base of the conditions on pods that have a node and are then requested.

    Args:
        selector: their labels; None if they are given by name.
        named_pods: their UIDs by name, empty where not known; None if they are selected.
        classify: returns a pod's classification; None if only the placement matters.
    """

    namespace: str

    def __init__(
        self,
        namespace: str,
        selector: str | None,
        named_pods: Mapping[str, str] | None,
        classify: Callable[[dict[str, Any], TerminalState | None], ObjectState] | None = None,
    ) -> None:
        self.namespace = namespace
        self._selector = selector
        self._wanted = named_pods
        self._pods = PlacedPods(named_pods, classify)

    def _pod_source(self, fields: type[Any]) -> Source:
        only_name = next(iter(self._wanted)) if self._wanted and len(self._wanted) == 1 else None
        return Source(
            PODS, self.namespace, self._pods, only_name, selector=self._selector, fields=fields
        )

    @property
    def is_trivial(self) -> bool:
        """True if an empty list of pods is awaited."""
        return self._wanted is not None and not self._wanted

    @property
    def subject(self) -> str:
        """The pods."""
        if self._wanted is None:
            return f"pods with {self._selector} in {self.namespace}"
        noun = "pod" if len(self._wanted) == 1 else "pods"
        return f"{noun} {join_names(list(self._wanted))} in {self.namespace}"

    def _missing(self) -> Verdict | None:
        """Return the verdict on the first missing pod; None if all exist."""
        there = self._pods.by_name()
        if self._wanted is None:
            return None if there else Pending("no pod matches yet", absent=True)
        for name, uid in self._wanted.items():
            if self._pods.is_lost(name):
                anew = "was deleted and created anew under another UID"
                return Failed(f"pod {name} {anew if name in there else 'is gone'}")
            if name not in there:
                count = f"{len(there)} of {len(self._wanted)} pods there"
                if uid or name in self._pods.dropped:
                    return Pending(f"{count}: {name} was deleted, not found again yet")
                return Pending(f"{count}: no {name}")
        return None

    def is_urgent(self) -> bool:
        """Return whether a pod was placed since the last requests."""
        return self._pods.news

    def record_answers(self, answers: Answers) -> None:
        """Record the pods that are known."""
        for uid, reason in answers:
            self._pods.record_answers(uid, reason)

    def result(self) -> list[dict[str, Any]]:
        """Return the pods, sorted by name."""
        return self._pods.objects(PODS)

    def scope(self) -> EvidenceScope:
        """Return the pods."""
        return EvidenceScope(
            self.namespace,
            pods=self._selector,
            pod_names=tuple(self._wanted or ()),
            suspects=self._pods.suspects(),
        )


def _state(pod: dict[str, Any], _: TerminalState | None) -> ObjectState:
    placed = bool(node_of(pod))
    terminal = None if placed or is_finished(pod) else detect_unschedulable(pod)
    return ObjectState(phase_label(pod), keep=True, terminal_state=terminal)


def parse_pod_uids(pods: object, namespace: str) -> dict[str, str]:
    """Return the UIDs of pods by their names; empty if only the name is given.

    Raises:
        InvalidArgument: neither pods nor names, or a pod of another namespace.
    """
    return parse_named_uids("pods", pods, PODS.kind, empty=True, namespace=namespace)
