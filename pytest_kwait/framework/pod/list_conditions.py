"""Conditions on lists of pods: a number of them, or all, with a property.

`AlmostAllPods` also counts missing replicas of controllers.

Source: kubernetes/test/e2e/framework/pod/wait.go WaitForAlmostAllPodsReady.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

from pytest_kwait.apimachinery.conditions import get_condition, get_phase
from pytest_kwait.apimachinery.selectors import compile_label_selector
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectSink,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.pod_fields import (
    PodStatus,
    is_ready,
    node_of,
    phase_label,
    readiness_label,
)
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.pod.controllers import PodControllers
from pytest_kwait.framework.terminal_states.pods import (
    detect_owned_pod_failure,
    detect_unschedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

PodPredicate: TypeAlias = "Callable[[dict[str, Any]], bool]"
TerminalStateCheck: TypeAlias = (
    "Callable[[dict[str, Any], TerminalState | None], TerminalState | None]"
)


class _Container(TypedDict, total=False):
    name: str
    restartPolicy: str | None
    restartPolicyRules: list[Any] | None


class _Gate(TypedDict, total=False):
    name: str


class _Spec(TypedDict, total=False):
    nodeName: str | None
    restartPolicy: str | None
    schedulingGates: list[_Gate] | None
    initContainers: list[_Container] | None
    containers: list[_Container] | None


class SetPodFields(TypedDict, total=False):
    """The fields of a pod that waits on lists of pods read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: PodStatus | None


def is_present(pod: dict[str, Any]) -> bool:
    """Return whether there is a pod: its fields are not empty."""
    return bool(pod)


def is_running(pod: dict[str, Any]) -> bool:
    """Return whether it is in phase Running."""
    return get_phase(pod) == "Running"


def is_running_and_ready(pod: dict[str, Any]) -> bool:
    """Return whether it is in phase Running and ready."""
    return get_phase(pod) == "Running" and is_ready(pod)


def is_scheduled(pod: dict[str, Any]) -> bool:
    """Return whether it has a node."""
    return bool(node_of(pod))


def is_gated(pod: dict[str, Any]) -> bool:
    """Return whether its scheduling gates keep it from being scheduled."""
    condition = get_condition(pod, "PodScheduled") or {}
    return condition.get("reason") == "SchedulingGated" and condition.get("status") == "False"


def has_gates(gates: Sequence[str]) -> PodPredicate:
    """Return whether a pod has exactly these gates, in this order."""
    gate_names = list(gates)

    def trait(pod: dict[str, Any]) -> bool:
        own = (pod.get("spec") or {}).get("schedulingGates") or ()
        return [gate.get("name") for gate in own] == gate_names

    return trait


def detect_unplaced(pod: dict[str, Any], before: TerminalState | None) -> TerminalState | None:
    """Return the reason that a pod gets no node; None while it may, or has one."""
    finished = get_phase(pod) in ("Succeeded", "Failed")
    return None if node_of(pod) or finished else detect_unschedulable(pod)


class PodSet(Condition):
    """Base of the conditions on many pods.

    Args:
        selector: their labels; None for all pods of the namespace.
        goal: the awaited state, as a verb phrase.
        trait: predicate; pods that satisfy it count.
        detect: returns the reason that a pod cannot get there; None for no such check.
    """

    goal: str

    def __init__(
        self,
        namespace: str,
        selector: str | None,
        goal: str,
        trait: PodPredicate,
        detect: TerminalStateCheck | None,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.goal = goal
        self.pods = ObjectCounter(self._state)
        self._selector = selector
        self._trait = trait
        self._detect = detect
        self._sources: tuple[Source, ...] = (
            Source(PODS, namespace, self.pods, selector=selector, fields=SetPodFields),
        )

    @property
    def subject(self) -> str:
        """The selection."""
        selection = f" with {self._selector}" if self._selector else ""
        return f"pods{selection} in {self.namespace}"

    def summarize(self) -> str:
        """Return a summary of the pods."""
        return self.pods.summary() or "no pods"

    def result(self) -> list[dict[str, Any]]:
        """Return the pods that count, sorted by name."""
        return self.pods.objects(PODS)

    def scope(self) -> EvidenceScope:
        """Return the pods, stuck ones first."""
        return EvidenceScope(
            self.namespace, pods=self._selector or "", suspects=self.pods.suspects()
        )

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if self._trait(pod):
            return ObjectState(phase_label(pod), ("met",), keep=True)
        label = readiness_label(pod)
        terminal = self._detect(pod, before) if self._detect is not None else None
        return ObjectState(label, terminal_state=terminal)

    def _rest(self) -> str:
        rest = self.pods.summary()
        return f": {rest}" if rest else ""


class PodCount(PodSet):
    """Exactly `count` pods are in the awaited state; other pods are ignored.

    Args:
        selector: their labels; None for all pods of the namespace.
        count: the exact number.
        what: their required state, as written after their number: `Running and ready`.
        trait: the same, as a predicate on one pod.
        detect: returns the reason that a pod cannot get there; None for no such check.
    """

    def __init__(
        self,
        namespace: str,
        selector: str | None,
        count: int,
        what: str,
        trait: PodPredicate,
        detect: TerminalStateCheck | None = None,
    ) -> None:
        super().__init__(
            namespace, selector, f"come to exactly {count_noun(count, 'pod')}{what}", trait, detect
        )
        self._count = count
        self._what = what
        self._controllers = PodControllers(namespace, compile_label_selector(selector))

    def sources(self) -> Sequence[Source]:
        """Return the pods, and their controllers once the count is reached."""
        if self.pods.count("met") == self._count:
            added = self._controllers.sources()
            if len(added) + 1 != len(self._sources):
                self._sources = (self._sources[0], *added)
        return self._sources

    def verdict(self) -> Verdict:
        """Decide by the count; fail once the remaining pods cannot reach it."""
        met = self.pods.count("met")
        if met == self._count:
            return Met(settled=self._controllers.is_settled(self.pods))
        if met < self._count <= len(self.pods):
            stuck = self.pods.terminal_verdict(len(self.pods) - self._count + 1)
            if stuck is not None:
                return stuck
        if met > self._count:
            return Pending(f"{met}{self._what}, {met - self._count} more than awaited")
        text = f"{met} of {count_noun(self._count, 'pod')}{self._what}{self._rest()}"
        return Pending(text, absent=not len(self.pods))

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        state = super()._state(pod, before)
        names = self._controllers.classify(pod, met=state.keep)
        return replace(state, counts=(*state.counts, *names))


class AllPods(PodSet):
    """At least `least` pods exist, and all of them are in the awaited state.

    Args:
        selector: their labels.
        least: the minimum number.
        what: their required state, as written after their number: `Running and ready`.
        trait: the same, as a predicate on one pod.
        detect: returns the reason that a pod cannot get there; None for no such check.
    """

    def __init__(
        self,
        namespace: str,
        selector: str | None,
        least: int,
        what: str,
        trait: PodPredicate,
        detect: TerminalStateCheck | None = None,
    ) -> None:
        goal = f"come to {least} or more, all of them{what}" if what else f"come to {least} or more"
        super().__init__(namespace, selector, goal, trait, detect)
        self._least = least
        self._what = what

    def verdict(self) -> Verdict:
        """Decide by the counts; one stuck pod fails the wait."""
        total, met = len(self.pods), self.pods.count("met")
        if met == total and total >= self._least:
            return Met()
        stuck = self.pods.terminal_verdict(1)
        if stuck is not None:
            return stuck
        if total < self._least:
            return Pending(f"{total} of {self._least} there{self._rest()}", absent=not total)
        return Pending(f"{met} of {total}{self._what}{self._rest()}")


class RunningReadyPods(PodSet):
    """At least `least` pods are Running and ready, and few others are not.

    Succeeded pods, and failed ones that a controller replaces, are ignored.

    Args:
        least: the minimum number of Running and ready pods.
        allowed: the maximum number of others.
        selector: their labels; None for all pods of the namespace.
    """

    def __init__(
        self, namespace: str, least: int, allowed: int, selector: str | None = None
    ) -> None:
        but = ", and all others"
        if allowed:
            but = f", all but {allowed} {'other' if allowed == 1 else 'others'}"
        goal = f"come to {least} or more Running and ready{but}"
        super().__init__(namespace, selector, goal, is_running_and_ready, detect_owned_pod_failure)
        self._least = least
        self._allowed = allowed

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        phase = get_phase(pod)
        if phase == "Succeeded" or (phase == "Failed" and controller_uid(pod)):
            return ObjectState(phase_label(pod))
        state = super()._state(pod, before)
        return (
            state
            if state.keep
            else ObjectState(state.label, ("other",), terminal_state=state.terminal_state)
        )

    def verdict(self) -> Verdict:
        """Decide by the number of ready pods and of others that are not ignored."""
        ready, other_count = self.pods.count("met"), self.pods.count("other")
        if ready >= self._least and other_count <= self._allowed:
            return Met()
        stuck = self.pods.terminal_verdict(self._allowed + 1)
        if stuck is not None:
            return stuck
        counts_text = f"{ready} Running and ready, {self._least} awaited"
        text = f"{counts_text}; {other_count} not, {self._allowed} allowed{self._rest()}"
        return Pending(text, absent=not len(self.pods))


class _ReplicaSpec(TypedDict, total=False):
    replicas: int | None


class _ReplicaStatus(TypedDict, total=False):
    readyReplicas: int | None
    observedGeneration: int | None


class _ReplicaFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _ReplicaSpec | None
    status: _ReplicaStatus | None


class _Counted(NamedTuple):
    off: int
    stale: bool


class ReplicaCountStore(ObjectSink):
    """Store of controllers: their missing or surplus ready replicas, and stale statuses."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        self.off = 0
        """Missing or surplus ready replicas, summed over all controllers."""
        self.stale = 0
        """Controllers whose status is of an older generation."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a controller, replacing its earlier state."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        self.drop(uid)
        status = obj.get("status") or {}
        replicas = (obj.get("spec") or {}).get("replicas")
        desired_replicas = 1 if replicas is None else replicas
        stale = (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0)
        counted = _Counted(abs(desired_replicas - (status.get("readyReplicas") or 0)), stale)
        self._counted[uid] = counted
        self.off += counted.off
        self.stale += counted.stale

    def drop(self, uid: str) -> None:
        """Stop counting a controller; no-op if not counted."""
        counted = self._counted.pop(uid, None)
        if counted is not None:
            self.off -= counted.off
            self.stale -= counted.stale

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored controllers."""
        return self._counted.keys()


class AlmostAllPods(RunningReadyPods):
    """Enough pods are ready, and controllers have their desired replicas.

    Args:
        least: the minimum number of Running and ready pods.
        allowed: the maximum number of other pods, and of missing replicas.
    """

    def __init__(self, namespace: str, least: int, allowed: int) -> None:
        super().__init__(namespace, least, allowed)
        # One store per kind: a list is of one kind, and drops objects that it does not contain.
        self._owners = (ReplicaCountStore(), ReplicaCountStore())
        kinds = (REPLICATION_CONTROLLERS, REPLICA_SETS)
        self._sources = (
            *self._sources,
            *(
                Source(kind, namespace, book, fields=_ReplicaFields)
                for kind, book in zip(kinds, self._owners, strict=True)
            ),
        )

    def verdict(self) -> Verdict:
        """Decide by the pods, then by the replicas."""
        verdict = super().verdict()
        if not isinstance(verdict, Met):
            return verdict
        if stale := sum(book.stale for book in self._owners):
            noun = "controller has" if stale == 1 else "controllers have"
            return Pending(f"{stale} {noun} a status of an older generation")
        if (off := sum(book.off for book in self._owners)) > self._allowed:
            return Pending(f"controllers lack {off} ready replicas, {self._allowed} allowed")
        return verdict
