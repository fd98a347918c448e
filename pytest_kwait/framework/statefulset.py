"""Conditions and waits on StatefulSets and their pods, by ordinal.

A pod belongs to a set by its controller's UID and by the ordinal in its name; other pods that the
selector matches do not count. With the management policy OrderedReady the controller processes
the ordinals in ascending order, and stops at a pod that is not Running and ready: missing pods
above it are not created, and none is removed or updated. With Parallel no pod waits for another.

Source: kubernetes/test/e2e/framework/statefulset/wait.go and
kubernetes/pkg/controller/statefulset/stateful_set_control.go updateStatefulSet, processReplica.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_name
from pytest_kwait.client.resource import PODS, STATEFUL_SETS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.pod_fields import is_finished, is_terminating, readiness_label
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import (
    detect_not_running,
    detect_owned_pod_failure,
    detect_unschedulable,
)
from pytest_kwait.framework.workload.conditions import WorkloadCondition
from pytest_kwait.framework.workload.fields import count_of, replicas_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.registry import ConditionOf

_UNBOUND = "persistentvolumeclaim"

_MET = "met"


class _Ordinals(TypedDict, total=False):
    start: int | None


class _Template(TypedDict, total=False):
    metadata: ObjectMeta


class _Spec(TypedDict, total=False):
    replicas: int | None
    selector: dict[str, Any] | None
    podManagementPolicy: str | None
    ordinals: _Ordinals | None
    volumeClaimTemplates: list[_Template] | None


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    replicas: int | None
    readyReplicas: int | None
    availableReplicas: int | None
    currentRevision: str | None
    updateRevision: str | None


class StatefulSetFields(TypedDict, total=False):
    """The fields of a StatefulSet that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def parse_ordinal(stateful_set: str, pod: str) -> int | None:
    """Return the ordinal in a pod's name; None for a name of no pod of the set.

    Source: kubernetes/pkg/controller/statefulset/stateful_set_utils.go getParentNameAndOrdinal.
    """
    lead, _, digits = pod.rpartition("-")
    if lead != stateful_set or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits) if digits == str(int(digits)) else None


def first_ordinal(stateful_set: dict[str, Any]) -> int:
    """Return the ordinal of the set's first pod; 0 by default."""
    start = ((stateful_set.get("spec") or {}).get("ordinals") or {}).get("start")
    return start if isinstance(start, int) else 0


def describe_ordinals(stateful_set: dict[str, Any], replicas: int) -> str:
    """Return the desired pods as text: `web-0 to web-2`, `web-0` or `no pods`."""
    name, first = stateful_set["metadata"].get("name"), first_ordinal(stateful_set)
    if replicas < 1:
        return "no pods"
    last = f" to {name}-{first + replicas - 1}" if replicas > 1 else ""
    return f"{name}-{first}{last}"


def is_parallel(stateful_set: dict[str, Any]) -> bool:
    """Return whether its pod management policy is Parallel."""
    return (stateful_set.get("spec") or {}).get("podManagementPolicy") == "Parallel"


def claim_names_of(stateful_set: dict[str, Any], pod: str) -> list[str]:
    """Return the names of the claims that a set makes for one of its pods.

    Source: kubernetes/pkg/controller/statefulset/stateful_set_utils.go
    getPersistentVolumeClaimName.
    """
    templates = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ()
    names = [(template.get("metadata") or {}).get("name") for template in templates]
    return [f"{name}-{pod}" for name in names if name]


class StatefulPods(ObjectCounter):
    """Store of the pods of one StatefulSet; other pods are ignored.

    Args:
        stateful_set: the set, as it is when the store is created.
        classify: classifies a pod, given the pod, its position from 0 and its failure so far.
    """

    def __init__(
        self,
        stateful_set: dict[str, Any],
        classify: Callable[[dict[str, Any], int, TerminalState | None], ObjectState],
    ) -> None:
        super().__init__(self._evaluate_pod)
        self._classify_pod = classify
        self._name = stateful_set["metadata"].get("name") or ""
        self._uid = stateful_set["metadata"].get("uid") or ""
        self._first = first_ordinal(stateful_set)
        self._places: dict[str, int] = {}
        self._order: list[int] = []
        self._foreign: set[str] = set()

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod, if it belongs to the set."""
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        ordinal = parse_ordinal(self._name, metadata["name"])
        if ordinal is None or controller_uid(obj) != self._uid:
            # A set can release a pod, which then no longer belongs to it.
            self.drop(uid)
            self._foreign.add(uid)
            return
        self._foreign.discard(uid)
        if uid not in self._places:
            self._places[uid] = ordinal - self._first
            insort(self._order, ordinal - self._first)
        super().put(obj, raw, now)

    def drop(self, uid: str) -> None:
        """Stop counting a pod; no-op if not counted."""
        super().drop(uid)
        self._foreign.discard(uid)
        place = self._places.pop(uid, None)
        if place is not None:
            del self._order[bisect_left(self._order, place)]

    def uids(self) -> set[str]:
        """Return the UIDs of all stored pods that the selector matches."""
        return {*super().uids(), *self._foreign}

    @property
    def is_contiguous(self) -> bool:
        """True if no ordinal is missing among the existing pods."""
        return not self._order or (self._order[0] == 0 and self._order[-1] == len(self._order) - 1)

    def _evaluate_pod(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if is_terminating(pod):
            return ObjectState("being deleted")
        metadata = pod["metadata"]
        place = self._places[metadata.get("uid") or metadata["name"]]
        return self._classify_pod(pod, place, before)


def detect_stateful_pod_failure(
    stateful_set: dict[str, Any],
    pod: dict[str, Any],
    before: TerminalState | None,
    rule: Callable[[dict[str, Any], TerminalState | None], TerminalState | None],
) -> TerminalState | None:
    """Return the reason that a pod of a set cannot get there; None while it may.

    If its volumes keep it from every node, the reason names the claims created by the set.

    Args:
        before: its earlier failure.
        rule: returns the reason that applies to any pod.
    """
    terminal = rule(pod, before)
    if (
        terminal is None
        or _UNBOUND not in terminal.reason.lower()
        or detect_unschedulable(pod) is None
    ):
        return terminal
    claims = claim_names_of(stateful_set, pod["metadata"]["name"])
    if not claims:
        return terminal
    noun = "claim" if len(claims) == 1 else "claims"
    return TerminalState(f"{terminal.reason} ({noun} {', '.join(claims)})", terminal.grace)


def is_updating(stateful_set: dict[str, Any]) -> bool:
    """Return whether its status is of two revisions, so that pods are being replaced."""
    status = stateful_set.get("status") or {}
    update = status.get("updateRevision")
    return bool(update) and update != status.get("currentRevision")


def detect_blocked_set(
    stateful_set: dict[str, Any], pods: StatefulPods, target_count: int, replicas: int
) -> Failed | None:
    """Return the verdict if stuck pods keep `target_count` out of reach; else None.

    One stuck pod of an ordered set blocks all missing pods above it. While pods below are missing
    too, they come first, and there is no verdict. A Parallel set replaces stuck pods of another
    revision, so there is no verdict while it is updated.

    Args:
        stateful_set: the set, its status being of its present generation.
        target_count: the number of its pods that must reach the awaited state.
        replicas: its desired number of pods.
    """
    missing = max(replicas - len(pods), 0)
    if is_parallel(stateful_set):
        if is_updating(stateful_set):
            return None
        blocked = False
    else:
        blocked = pods.is_contiguous
    comes = len(pods) + (0 if blocked else missing)
    stuck = pods.nth_terminal(max(comes - target_count + 1, 1))
    if stuck is None or stuck[0].state.terminal_state is None or target_count < 1:
        return None
    entry, grace, since = stuck
    other_count = pods.terminal_count - 1
    notes = (
        [f"and {other_count} more {'pod' if other_count == 1 else 'pods'}"] if other_count else []
    )
    if blocked and missing:
        notes.append("the set makes none after it")
    note = f" ({'; '.join(notes)})" if notes else ""
    return Failed(f"pod {entry.name}{note}: {stuck[0].state.terminal_state.reason}", grace, since)


class _StatefulSetCondition(WorkloadCondition):
    """Base of the conditions on a StatefulSet and its pods by position.

    Args:
        goal: the awaited state, as a verb phrase.
    """

    def __init__(self, namespace: str, stateful_set: str, goal: str) -> None:
        super().__init__(
            STATEFUL_SETS,
            namespace,
            stateful_set,
            goal,
            StatefulSetFields,
            pods=None,
            what="stateful_set",
        )
        self._counted: StatefulPods | None = None
        self._counted_from = 0

    def sources(self) -> Sequence[Source]:
        """Return the set and its pods; recount them if the first ordinal changed."""
        current = self.object.current
        if current is not None and first_ordinal(current) != self._counted_from:
            self._selected_for = ""
        return super().sources()

    def owned(self, selector: str) -> Sequence[Source]:
        self._counted_from = first_ordinal(self.current)
        self._counted = StatefulPods(self.current, self._classify)
        return (
            Source(PODS, self.namespace, self._counted, selector=selector, fields=SetPodFields),
        )

    @property
    def tally(self) -> StatefulPods | None:
        """Its pods; None before it was seen."""
        return self._counted

    def _classify(
        self, pod: dict[str, Any], place: int, before: TerminalState | None
    ) -> ObjectState:
        """Classify a pod: ready, or the reason that it will not be."""
        self.refusals.made(pod)
        if is_running_and_ready(pod):
            return ObjectState("ready", (_MET,))
        terminal = detect_stateful_pod_failure(self.current, pod, before, detect_owned_pod_failure)
        return ObjectState(readiness_label(pod), terminal_state=terminal)

    def _lacks(self, target_count: int) -> bool:
        there = count_of(self.current, "replicas")
        return there < min(target_count, replicas_of(self.current))

    def _too_few(self, target_count: int) -> Failed | None:
        """Return the verdict if the set's desired number of pods is below `target_count`."""
        replicas = replicas_of(self.current)
        if target_count <= replicas:
            return None
        return Failed(f"the set is to have {_replicas(self.current)}", Grace.LONG)


class StatefulSetPods(_StatefulSetCondition):
    """Exactly `count` pods run; the first ones are ready, the others not.

    Args:
        count: the number of pods.
        ready_count: the number of ready pods, counted from the lowest ordinal.
    """

    def __init__(self, namespace: str, stateful_set: str, count: int, ready_count: int) -> None:
        self._wanted = check_count("count", count)
        self._ready = check_count("ready_count", ready_count)
        if ready_count > count:
            raise InvalidArgument(
                "ready_count", ready_count, f"use no more than count, which is {count}"
            )
        self._what = "Running and ready"
        if ready_count < count:
            first = f"the first {ready_count} ready and the others not"
            self._what = f"Running, {first if ready_count else 'none of them ready'}"
        super().__init__(
            namespace, stateful_set, f"have exactly {count_noun(count, 'pod')}, {self._what}"
        )

    def _classify(
        self, pod: dict[str, Any], place: int, before: TerminalState | None
    ) -> ObjectState:
        self.refusals.made(pod)
        ready = place < self._ready
        if get_phase(pod) == "Running" and is_running_and_ready(pod) == ready:
            return ObjectState("ready" if ready else "Running, not ready", (_MET,), keep=True)
        label = "ready" if is_running_and_ready(pod) else readiness_label(pod)
        terminal = None
        if not is_finished(pod):
            # The controller replaces a pod that has ended.
            rule = detect_owned_pod_failure if ready else detect_not_running
            terminal = detect_stateful_pod_failure(self.current, pod, before, rule)
        return ObjectState(label, terminal_state=terminal)

    def has_missing_pods(self) -> bool:
        """Return whether the set has fewer pods than awaited, and is to have more."""
        return self._lacks(self._wanted)

    def verdict(self) -> Verdict:
        """Decide by the pods; the set's spec and its stuck pods limit the reachable number."""
        absent = self.object.missing_verdict()
        pods = self.tally
        if absent is not None or pods is None:
            return absent or Pending("its pods are not known yet")
        met, there, target_count = pods.count(_MET), len(pods), self._wanted
        if there == met == target_count:
            final = self.stale_status_verdict() is None and self.object.ending() is None
            final = final and replicas_of(self.current) == target_count == self._ready
            return Met(settled=final)
        if (undecided := self.stale_status_verdict() or self.object.ending()) is not None:
            return undecided
        failed = self._too_few(target_count) or self._too_many(there)
        if failed is None and there <= target_count:
            failed = detect_blocked_set(self.current, pods, target_count, replicas_of(self.current))
        if failed is not None:
            return failed
        rest = pods.summary()
        rest = f": {rest}" if rest else ""
        if there > target_count:
            return Pending(f"{there} pods, {there - target_count} more than awaited{rest}")
        return Pending(f"{met} of {count_noun(target_count, 'pod')} {self._what}{rest}")

    def _too_many(self, there: int) -> Failed | None:
        if there <= self._wanted or replicas_of(self.current) <= self._wanted:
            return None
        return Failed(f"the set is to have {_replicas(self.current)}", Grace.LONG)

    def result(self) -> Any:
        """Return the pods, sorted by ordinal."""
        pods = [] if self.tally is None else self.tally.objects(PODS)
        name = self.object.name
        return sorted(pods, key=lambda pod: parse_ordinal(name, pod["metadata"]["name"]) or 0)


class StatefulSetPod(_StatefulSetCondition):
    """One pod of a StatefulSet becomes ready.

    Raises:
        InvalidArgument: an invalid name, or not the name of a pod of that set.
    """

    def __init__(self, namespace: str, stateful_set: str, pod: str) -> None:
        super().__init__(namespace, stateful_set, f"have pod {pod} ready")
        ordinal = parse_ordinal(stateful_set, check_name("pod", pod))
        if ordinal is None:
            raise InvalidArgument(
                "pod", pod, f"use the name of a pod of that set, for example '{stateful_set}-0'"
            )
        self._pod = pod
        self._ordinal = ordinal
        self._uid = ""

    def _classify(
        self, pod: dict[str, Any], place: int, before: TerminalState | None
    ) -> ObjectState:
        state = super()._classify(pod, place, before)
        if pod["metadata"]["name"] != self._pod:
            return ObjectState(state.label, terminal_state=state.terminal_state)
        self._uid = pod["metadata"].get("uid") or self._pod
        return ObjectState(
            state.label,
            state.counts,
            keep=_MET in state.counts,
            terminal_state=state.terminal_state,
        )

    def has_missing_pods(self) -> bool:
        """Return whether the set has not reached the pod's ordinal yet."""
        return self._lacks(self._ordinal - first_ordinal(self.current) + 1)

    def verdict(self) -> Verdict:
        """Decide by the pod; while it is missing, by the pods before it."""
        absent = self.object.missing_verdict()
        pods = self.tally
        if absent is not None or pods is None:
            return absent or Pending("its pods are not known yet")
        if pods.count(_MET):
            return Met()
        if (undecided := self.stale_status_verdict() or self.object.ending()) is not None:
            return undecided
        replicas = replicas_of(self.current)
        place = self._ordinal - first_ordinal(self.current)
        if not 0 <= place < replicas:
            return Failed(f"the set is to have {_replicas(self.current)}", Grace.LONG)
        own = pods.entry(self._uid)
        rest = f"; all pods: {pods.summary() or 'none'}"
        if own is None:
            # Pods before it must be ready first.
            blocked = None
            if not is_parallel(self.current) and len(pods) <= place:
                blocked = detect_blocked_set(self.current, pods, place + 1, replicas)
            return blocked or Pending(f"pod {self._pod} is not there yet{rest}")
        terminal = own.state.terminal_state
        if terminal is None:
            return Pending(f"pod {self._pod} is {own.state.label}{rest}")
        since = own.permanent_since if terminal.grace is Grace.SHORT else own.terminal_since
        return Failed(f"pod {self._pod}: {terminal.reason}", terminal.grace, since)

    def result(self) -> Any:
        """Return the pod."""
        return self.tally.objects(PODS)[0] if self.tally is not None else None


class StatefulSetStatus(_StatefulSetCondition):
    """A number in the status of a StatefulSet becomes exactly `count`.

    Args:
        field: the field of the status.
        count: the awaited number.
    """

    def __init__(self, namespace: str, stateful_set: str, field: str, count: int) -> None:
        self._field = field
        self._wanted = check_count("count", count)
        super().__init__(namespace, stateful_set, f"have status.{field} {count}")

    def has_missing_pods(self) -> bool:
        """Return whether the set has fewer pods than `count`, and is to have more."""
        return self._lacks(self._wanted)

    def verdict(self) -> Verdict:
        """Decide by the status of the present generation, and by stuck pods."""
        undecided = self.stale_status_verdict()
        if undecided is not None:
            return undecided
        pods, target_count = self.tally, self._wanted
        number = count_of(self.current, self._field)
        if number == target_count:
            final = replicas_of(self.current) == target_count and self.object.ending() is None
            return Met(settled=final)
        if (ending := self.object.ending()) is not None:
            return ending
        if number < target_count and pods is not None:
            failed = self._too_few(target_count)
            # A stuck pod exists all the same, but blocks the creation of others.
            if failed is None and (
                self._field != "replicas"
                or (target_count > len(pods) and not is_parallel(self.current))
            ):
                failed = detect_blocked_set(
                    self.current, pods, target_count, replicas_of(self.current)
                )
            if failed is not None:
                return failed
        return Pending(f"status.{self._field} is {number}")


def _replicas(stateful_set: dict[str, Any]) -> str:
    replicas = replicas_of(stateful_set)
    return f"{count_noun(replicas, 'replica')}: {describe_ordinals(stateful_set, replicas)}"


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    summary="a stateful set with an exact number of running pods, the first of them ready",
)
def wait_for_stateful_set_running(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    ready_count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once exactly `count` run, the first of them ready.

    The pods are sorted by ordinal. This follows an ordered start step by step: exactly
    `count` pods are in phase Running, the `ready_count` lowest ordinals are ready, and the
    rest are not. Upstream gives up as soon as there are too many pods; here the set may be scaling
    down. Positions count from the set's first ordinal; upstream always counts from 0.

    Args:
        count: the exact number of pods; 0 or more.
        ready_count: the number of ready ones; `count` at most.

    Raises:
        WaitFailed: a pod is stuck, or blocks those after it, the set is to have another number of
            pods, or is deleted.

    Source: statefulset/wait.go WaitForRunning.
    """
    return StatefulSetPods(namespace, name, count, ready_count)


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    summary="a stateful set's exact number of pods, all Running and ready",
)
def wait_for_stateful_set_running_and_ready(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once there are exactly `count`, all Running and ready.

    The pods are sorted by ordinal.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: a pod is stuck, or blocks those after it, the set is to have another number of
            pods, or is deleted.

    Source: statefulset/wait.go WaitForRunningAndReady.
    """
    return StatefulSetPods(namespace, name, count, count)


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    kinds={"pod": PODS},
    summary="one pod of a stateful set that is Running and ready",
)
def wait_for_stateful_set_pod_ready(
    client: ApiClient,
    namespace: str,
    name: str,
    pod: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return one pod of a set once it is Running and ready.

    A pod that is deleted meanwhile is recreated by its set, and awaited again.

    Args:
        pod: the pod's name, `<set>-<ordinal>`.

    Raises:
        WaitFailed: the pod is stuck, an earlier one blocks it, the set has no such ordinal, or is
            deleted.

    Source: statefulset/wait.go WaitForPodReady.
    """
    return StatefulSetPod(namespace, name, pod)


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    summary="a stateful set whose status has an exact number of pods",
)
def wait_for_stateful_set_status_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` pods.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: a stuck pod blocks those after it, the set is to have fewer, or is deleted.

    Source: statefulset/wait.go WaitForStatusReplicas.
    """
    return StatefulSetStatus(namespace, name, "replicas", count)


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    summary="a stateful set whose status has an exact number of ready pods",
)
def wait_for_stateful_set_status_ready_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` ready pods.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one blocks those after it, the set is to have fewer,
            or is deleted.

    Source: statefulset/wait.go WaitForStatusReadyReplicas.
    """
    return StatefulSetStatus(namespace, name, "readyReplicas", count)


@wait(
    limit="stateful_set",
    kind=STATEFUL_SETS,
    summary="a stateful set whose status has an exact number of available pods",
)
def wait_for_stateful_set_status_available_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its current status counts exactly `count` available pods.

    A pod is available once it has been ready for the set's `minReadySeconds`.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: too many pods are stuck, or one blocks those after it, the set is to have fewer,
            or is deleted.

    Source: statefulset/wait.go WaitForStatusAvailableReplicas.
    """
    return StatefulSetStatus(namespace, name, "availableReplicas", count)
