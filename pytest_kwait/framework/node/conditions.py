"""Conditions on one node, on all nodes, and on the health of the cluster's nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.engine.condition import EvidenceScope, ObjectReference, Source
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.single_object import SingleObject
from pytest_kwait.engine.verdicts import Met, Pending, Verdict
from pytest_kwait.framework.node.fields import (
    NodeFields,
    condition_is,
    describe_node,
    is_schedulable,
    is_untainted,
)
from pytest_kwait.framework.pod.fields import PodFields, node_of

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Collection, Sequence

__all__ = ["HealthyCluster", "NodeGoal", "NodeSet", "OneNode"]


@dataclass(frozen=True, slots=True)
class NodeGoal:
    """The awaited state of a node.

    Args:
        text: as a verb phrase: `become ready`.
        holds: returns whether the node is in that state.
        missing: returns the node's present state, in a few words.
    """

    text: str
    holds: Callable[[dict[str, Any]], bool]
    missing: Callable[[dict[str, Any]], str] = describe_node


class OneNode:
    """One node reaches the state of a goal.

    Args:
        goal: the awaited state.
    """

    runs_user_code = False

    def __init__(self, node: str, goal: NodeGoal) -> None:
        self.node = SingleObject(NODES, check_name("node", node))
        self.goal = goal.text
        self._goal = goal
        self._sources = (Source(NODES, None, self.node, node, fields=NodeFields),)

    @property
    def subject(self) -> str:
        """The node."""
        return f"node {self.node.name}"

    def sources(self) -> Sequence[Source]:
        """Return the node."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the goal, while the node exists."""
        absent = self.node.missing_verdict()
        if absent is not None:
            return absent
        current = self.node.current or {}
        return Met() if self._goal.holds(current) else Pending(self._goal.missing(current))

    def seen(self) -> str:
        """Return its state in a few words."""
        return "" if self.node.current is None else describe_node(self.node.current)

    def result(self) -> dict[str, Any]:
        """Return the last node seen."""
        return self.node.object()

    def scope(self) -> EvidenceScope:
        """Return the node."""
        return EvidenceScope(None, objects=(self.node.reference(),))


class _Nodes(ObjectCounter):
    """Store of nodes that tracks relevant ones not in the awaited state.

    Args:
        matters: returns whether a node is relevant.
        fit: returns whether it is in the awaited state.
    """

    def __init__(
        self, matters: Callable[[dict[str, Any]], bool], fit: Callable[[dict[str, Any]], bool]
    ) -> None:
        super().__init__(self._state)
        self._matters = matters
        self._fit = fit
        self.unfit: dict[str, ObjectReference] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a node, replacing its earlier state."""
        super().put(obj, raw, now)
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        if self._matters(obj) and not self._fit(obj):
            self.unfit[uid] = ObjectReference("Node", metadata["name"], uid, NODES.qualified)
        else:
            self.unfit.pop(uid, None)

    def drop(self, uid: str) -> None:
        """Stop counting a node."""
        super().drop(uid)
        self.unfit.pop(uid, None)

    def _state(self, node: dict[str, Any], _: TerminalState | None) -> ObjectState:
        if not self._matters(node):
            return ObjectState(describe_node(node))
        fit = self._fit(node)
        return ObjectState(
            describe_node(node), ("matters", "fit") if fit else ("matters",), keep=fit
        )


class NodeSet:
    """All relevant nodes but a few are in the awaited state, or an exact number is.

    Args:
        goal: the awaited state, as a verb phrase.
        matters: returns whether a node is relevant.
        fit: returns whether it is in the awaited state.
        allowed: the number of relevant nodes that may not be in it.
        count: the exact number of relevant nodes; None for any number.
        least: the minimum number of relevant nodes, if `count` is None.
    """

    runs_user_code = False
    subject = "nodes"

    def __init__(
        self,
        goal: str,
        matters: Callable[[dict[str, Any]], bool],
        fit: Callable[[dict[str, Any]], bool],
        *,
        allowed: int = 0,
        count: int | None = None,
        least: int = 1,
    ) -> None:
        self.goal = goal
        self.nodes = _Nodes(matters, fit)
        self._allowed = allowed
        self._count = count
        self._least = least
        self._sources: tuple[Source, ...] = (Source(NODES, None, self.nodes, fields=NodeFields),)

    def sources(self) -> Sequence[Source]:
        """Return all nodes."""
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the relevant nodes and those not in the awaited state."""
        matter, unfit = self.nodes.count("matters"), len(self.nodes.unfit)
        if self._count is not None and matter != self._count:
            return Pending(f"{matter} nodes to count, {self._count} awaited{self._rest()}")
        if self._count is None and matter < self._least:
            return Pending(f"no node to count{self._rest()}")
        if unfit > self._allowed:
            name = next(iter(self.nodes.unfit.values())).name
            allowed = f", {self._allowed} allowed" if self._allowed else ""
            return Pending(
                f"{unfit} of {matter} nodes are not, {name} among them{allowed}{self._rest()}"
            )
        return Met()

    def _rest(self) -> str:
        rest = self.nodes.summary()
        return f": {rest}" if rest else ""

    def seen(self) -> str:
        """Return a summary of the nodes."""
        return self.nodes.summary() or "no nodes"

    def result(self) -> list[dict[str, Any]]:
        """Return the nodes in the awaited state, sorted by name."""
        return self.nodes.objects(NODES)

    def scope(self) -> EvidenceScope:
        """Return the first few nodes that are not in the awaited state."""
        return EvidenceScope(None, objects=tuple(self.nodes.unfit.values())[:3])


class _SystemPods:
    """Store of a system's running pods: the number of each kind per node.

    Args:
        patterns: patterns of the pods' names, one per kind.
    """

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = patterns
        self._kinds: dict[str, tuple[tuple[str, str], ...]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod, replacing its earlier state."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.drop(uid)
        kinds: tuple[tuple[str, str], ...] = ()
        if get_phase(obj) == "Running" and node_of(obj):
            kinds = tuple(
                (node_of(obj), pattern.pattern)
                for pattern in self._patterns
                if pattern.search(metadata["name"])
            )
        self._kinds[uid] = kinds
        self._counts.update(kinds)

    def drop(self, uid: str) -> None:
        """Stop counting a pod; no-op if not counted."""
        self._counts.subtract(self._kinds.pop(uid, ()))

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored pods."""
        return self._kinds.keys()

    def missing(self, node: str) -> str:
        """Return the first kind that a node lacks; empty if it has all."""
        for pattern in self._patterns:
            if self._counts[node, pattern.pattern] <= 0:
                return pattern.pattern
        return ""


class _Workers(_Nodes):
    """Store of nodes that tracks those that must run the system's pods."""

    def __init__(self) -> None:
        super().__init__(lambda node: True, lambda node: condition_is(node, "Ready", True))
        self.names: dict[str, str] = {}

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a node, replacing its earlier state."""
        super().put(obj, raw, now)
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.names.pop(uid, None)
        if is_schedulable(obj) and is_untainted(obj):
            self.names[uid] = metadata["name"]

    def drop(self, uid: str) -> None:
        """Stop counting a node."""
        super().drop(uid)
        self.names.pop(uid, None)


class HealthyCluster(NodeSet):
    """All nodes are ready, and schedulable ones run the required system pods.

    Args:
        required: patterns of those pods' names, one per kind.
        namespace: the namespace of those pods.
    """

    def __init__(self, required: Sequence[re.Pattern[str]], namespace: str) -> None:
        goal = "all become ready"
        if required:
            kinds = ", ".join(pattern.pattern for pattern in required)
            goal += f" and run {kinds} from {namespace}"
        super().__init__(goal, lambda node: True, lambda node: True)
        self._workers = _Workers()
        self.nodes = self._workers
        self._pods = _SystemPods(required)
        self._sources = (Source(NODES, None, self.nodes, fields=NodeFields),)
        if required:
            pods = Source(PODS, namespace, self._pods, fields=PodFields)
            self._sources = (*self._sources, pods)

    def verdict(self) -> Verdict:
        """Decide by the nodes, then by the pods on them, up to the first that lacks one."""
        verdict = super().verdict()
        if isinstance(verdict, Met) and len(self._sources) > 1:
            for name in self._workers.names.values():
                if missing := self._pods.missing(name):
                    return Pending(f"node {name} runs no pod {missing}")
        return verdict
