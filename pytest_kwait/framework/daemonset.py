"""Conditions and waits on DaemonSets and their pods, counted by node.

The DaemonSet controller selects the nodes by taints, selectors and affinity; its status counts
them, and is used once it is of the present generation. Upstream's e2e tests compute the nodes
again with the controller's code.

Source: kubernetes/test/e2e/framework/daemonset/fixtures.go and kubernetes/test/e2e/e2e.go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.apimachinery.validation import check_namespace
from pytest_kwait.client.resource import DAEMON_SETS, NODES, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Condition,
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_count
from pytest_kwait.engine.pod_fields import (
    is_finished,
    is_terminating,
    node_of,
    phase_label,
    readiness_label,
)
from pytest_kwait.framework.named_objects import (
    controller_uid,
    count_noun,
    join_names,
    parse_named_uids,
)
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.registry import condition_func, wait
from pytest_kwait.framework.terminal_states.pods import detect_not_running, detect_owned_pod_failure
from pytest_kwait.framework.workload.conditions import WorkloadCondition
from pytest_kwait.framework.workload.fields import count_of, describe_generation_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.framework.named_objects import KubernetesObjects
    from pytest_kwait.framework.registry import ConditionOf
    from pytest_kwait.wait.loop import ConditionFunc

_MET = "met"


class DaemonPods(ObjectCounter):
    """Store of the pods of one DaemonSet, by node.

    Args:
        owner: the UID of the set.
        trait: predicate; pods that satisfy it count.
        detect: returns the reason that a pod cannot get there.
        nodes: the only nodes that must have a pod; None if the set decides.
    """

    def __init__(
        self,
        owner: str,
        trait: Callable[[dict[str, Any]], bool],
        detect: Callable[[dict[str, Any], TerminalState | None], TerminalState | None],
        nodes: Collection[str] | None = None,
    ) -> None:
        super().__init__(self._state)
        self._owner = owner
        self._trait = trait
        self._detect = detect
        self._nodes = None if nodes is None else frozenset(nodes)
        self._node_of: dict[str, str] = {}
        self._on_node: Counter[str] = Counter()
        self.single = 0
        """The number of required nodes with exactly one counted pod."""
        self.occupied = 0
        """The number of nodes with at least one."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Count a pod on its node."""
        super().put(obj, raw, now)
        metadata = obj["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        entry = self.entry(uid)
        counts = entry is not None and _MET in entry.state.counts
        self._move(uid, node_of(obj) if counts else "")

    def drop(self, uid: str) -> None:
        """Stop counting a pod; no-op if not counted."""
        super().drop(uid)
        self._move(uid, "")

    @property
    def met(self) -> int:
        """The number of counted pods."""
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
        label = readiness_label(pod)
        # An ended pod is replaced; a pod on another node is not needed.
        needed = self._nodes is None or node_of(pod) in self._nodes
        terminal = self._detect(pod, before) if needed and not is_finished(pod) else None
        return ObjectState(label, terminal_state=terminal)


class _Spec(TypedDict, total=False):
    selector: dict[str, Any] | None


class _Status(TypedDict, total=False):
    observedGeneration: int | None
    desiredNumberScheduled: int | None
    currentNumberScheduled: int | None
    numberReady: int | None
    numberAvailable: int | None


class _DaemonSetFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def is_started(pod: dict[str, Any]) -> bool:
    """Return whether it has left phase Pending."""
    return get_phase(pod) != "Pending"


class _DaemonSetCondition(WorkloadCondition):
    """Base of the conditions on one DaemonSet and its pods by node.

    Args:
        goal: the awaited state, as a verb phrase.
        trait: predicate; pods that satisfy it count.
        nodes: the only nodes that must have a pod; None if the set decides.
    """

    def __init__(
        self,
        namespace: str,
        daemon_set: str,
        goal: str,
        trait: Callable[[dict[str, Any]], bool] = is_running_and_ready,
        nodes: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            DAEMON_SETS,
            namespace,
            daemon_set,
            goal,
            _DaemonSetFields,
            pods=None,
            what="daemon_set",
        )
        self._trait = trait
        self._nodes = nodes
        self._counted: DaemonPods | None = None

    def owned(self, selector: str) -> Sequence[Source]:
        detect = detect_not_running if self._trait is is_started else detect_owned_pod_failure
        uid = next(iter(self.object.uids()), "")
        self._counted = DaemonPods(uid, self._noted, detect, self._nodes)
        return (
            Source(PODS, self.namespace, self._counted, selector=selector, fields=SetPodFields),
        )

    def _noted(self, pod: dict[str, Any]) -> bool:
        self.refusals.made(pod)
        return self._trait(pod)

    def has_missing_pods(self) -> bool:
        """Return whether required nodes have no pod, by the set's own count."""
        there = count_of(self.current, "currentNumberScheduled")
        return there < count_of(self.current, "desiredNumberScheduled")

    @property
    def tally(self) -> DaemonPods | None:
        """Its pods; None before it was seen."""
        return self._counted

    def _stuck(self) -> Failed | None:
        """Return the verdict if a pod is stuck: every required node needs its own."""
        return None if self._counted is None else self._counted.terminal_verdict(1)


class DaemonSetPods(_DaemonSetCondition):
    """Exactly one pod is on each required node, and none on any other.

    Args:
        goal: the awaited state, as a verb phrase.
        trait: predicate; pods that satisfy it count.
        nodes: the nodes by name; None for all that the set selects.
        least: the minimum number of nodes that the set must select.
    """

    def __init__(
        self,
        namespace: str,
        daemon_set: str,
        goal: str,
        trait: Callable[[dict[str, Any]], bool],
        *,
        nodes: Sequence[str] | None = None,
        least: int = 0,
    ) -> None:
        super().__init__(namespace, daemon_set, goal, trait, nodes)
        self._least = least

    def verdict(self) -> Verdict:
        """Decide by the status of the present generation, and by the pods on each node."""
        undecided = self.stale_status_verdict() or self.object.ending()
        pods = self.tally
        if undecided is not None or pods is None:
            return undecided or Pending("its pods are not known yet")
        desired = count_of(self.current, "desiredNumberScheduled")
        pod_count = desired if self._nodes is None else len(self._nodes)
        if desired < self._least or desired != pod_count:
            return Failed(f"the set is to run on {count_noun(desired, 'node')}", Grace.LONG)
        if pods.single == pods.occupied == pods.met == pod_count:
            available = count_of(self.current, "numberAvailable")
            if self._trait is is_started or available == pod_count:
                return Met()
            return Pending(f"{available} of {pod_count} pods available")
        rest = pods.summary() or "no pods"
        text = f"{pods.single} of {count_noun(pod_count, 'node')} with one pod: {rest}"
        if (elsewhere := pods.occupied - pods.single) > 0:
            text = f"{text}; {elsewhere} with more than one, or none awaited"
        return self._stuck() or Pending(text)

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return [] if self.tally is None else self.tally.objects(PODS)


class DaemonSetStatus(_DaemonSetCondition):
    """The status of a DaemonSet counts all desired pods as scheduled and ready."""

    def __init__(self, namespace: str, daemon_set: str) -> None:
        super().__init__(namespace, daemon_set, "have all pods scheduled and ready")

    def verdict(self) -> Verdict:
        """Decide by the status of the present generation, and by stuck pods."""
        undecided = self.stale_status_verdict()
        if undecided is not None:
            return undecided
        desired = count_of(self.current, "desiredNumberScheduled")
        there = count_of(self.current, "currentNumberScheduled")
        ready = count_of(self.current, "numberReady")
        if desired == there == ready:
            return Met()
        text = f"{there} of {desired} pods scheduled, {ready} ready"
        return self.object.ending() or self._stuck() or Pending(text)


class DaemonSets(Condition):
    """All DaemonSets of a namespace have all but a few of their pods ready.

    Args:
        allowed: the number of pods of each that may be missing or not ready.
    """

    def __init__(self, namespace: str, allowed: int) -> None:
        self.namespace = check_namespace(namespace)
        self._allowed = check_count("allowed_not_ready", allowed)
        self._sets = ObjectCounter(self._state)
        source = Source(DAEMON_SETS, namespace, self._sets, fields=_DaemonSetFields)
        self._sources = (source,)

    @property
    def subject(self) -> str:
        """The namespace's sets."""
        return f"daemon sets in {self.namespace}"

    @property
    def goal(self) -> str:
        """Their pods are ready."""
        but = f", all but {self._allowed} of each" if self._allowed else ""
        return f"have all pods ready{but}"

    def verdict(self) -> Verdict:
        """Decide by the counts of each set's present generation."""
        met, total = self._sets.count("met"), len(self._sets)
        if met == total:
            return Met()
        return Pending(f"{met} of {total} ready: {self._sets.summary()}")

    def _state(self, daemon_set: dict[str, Any], _: TerminalState | None) -> ObjectState:
        name = daemon_set["metadata"].get("name")
        if describe_generation_lag(daemon_set):
            return ObjectState(f"{name} not observed yet", keep=True)
        desired = count_of(daemon_set, "desiredNumberScheduled")
        ready = count_of(daemon_set, "numberReady")
        counts = ("met",) if desired - ready <= self._allowed else ()
        return ObjectState(f"{name} with {ready} of {desired} pods", counts, keep=True)

    def summarize(self) -> str:
        """Return a summary of the sets."""
        return self._sets.summary() or "no daemon sets"

    def result(self) -> list[dict[str, Any]]:
        """Return the sets, sorted by name."""
        return self._sets.objects(DAEMON_SETS)


@wait(
    limit="pod_start",
    kind=DAEMON_SETS,
    summary="a daemon set's one available pod on each eligible node",
)
def wait_for_daemon_set_running_on_all_nodes(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once exactly one is available on each eligible node.

    The set's controller counts those nodes by taints, selectors and affinity; at least one must be
    eligible. Upstream computes them itself, and its condition holds for none. Pods that are being
    deleted do not count.

    Raises:
        WaitFailed: a pod is stuck, no node is eligible, or the set is deleted.

    Source: daemonset/fixtures.go CheckRunningOnAllNodes.
    """
    goal = "have one available pod on each node that it is to run on"
    return DaemonSetPods(namespace, name, goal, is_running_and_ready, least=1)


@wait(
    limit="pod_start",
    kind=DAEMON_SETS,
    kinds={"nodes": NODES},
    summary="a daemon set's one available pod on each of these nodes alone",
)
def wait_for_daemon_set_pods_on_nodes(
    client: ApiClient,
    namespace: str,
    name: str,
    nodes: KubernetesObjects,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once exactly one is available on each given node.

    No other node may have one. Pods that are being deleted do not count.

    Args:
        nodes: the names of all nodes that must have a pod; empty for none.

    Raises:
        WaitFailed: a pod there is stuck, the set is to run on another number of nodes, or is
            deleted.

    Source: daemonset/fixtures.go CheckDaemonPodOnNodes.
    """
    names = list(parse_named_uids("nodes", nodes, NODES.kind, empty=True))
    suffix = " each" if len(names) > 1 else ""
    goal = f"have one available pod on {join_names(names)}{suffix}, and nowhere else"
    if not names:
        goal = "have no available pod"
    return DaemonSetPods(namespace, name, goal, is_running_and_ready, nodes=names)


@wait(
    limit="pod_start",
    kind=DAEMON_SETS,
    summary="a daemon set's one started pod on each of an exact number of nodes",
)
def wait_for_daemon_set_present_on_nodes(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a set's pods once each of at least `count` nodes has a started one.

    A started pod is no longer Pending; it need not be ready. Pods that are being deleted do not
    count.

    Args:
        count: the minimum number of nodes; 0 or more.

    Raises:
        WaitFailed: a pod is stuck, the set is to run on fewer nodes, or is deleted.

    Source: daemonset/fixtures.go CheckPresentOnNodes.
    """
    number = check_count("count", count)
    least = f"{count_noun(number, 'node')} or more"
    goal = f"have one pod that has started on each node that it is to run on, {least}"
    return DaemonSetPods(namespace, name, goal, is_started, least=number)


def check_running_on_all_nodes(client: ApiClient, namespace: str, name: str) -> ConditionFunc:
    """Return the condition of `wait_for_daemon_set_running_on_all_nodes`, to be polled.

    Its arguments are those of the wait. Calls raise what the wait raises, but no WaitTimeout.

    Source: daemonset/fixtures.go CheckRunningOnAllNodes.
    """
    return condition_func(wait_for_daemon_set_running_on_all_nodes, client, namespace, name)


def check_daemon_pod_on_nodes(
    client: ApiClient, namespace: str, name: str, nodes: KubernetesObjects
) -> ConditionFunc:
    """Return the condition of `wait_for_daemon_set_pods_on_nodes`, to be polled.

    Its arguments are those of the wait. Calls raise what the wait raises, but no WaitTimeout.

    Source: daemonset/fixtures.go CheckDaemonPodOnNodes.
    """
    return condition_func(wait_for_daemon_set_pods_on_nodes, client, namespace, name, nodes)


def check_present_on_nodes(
    client: ApiClient, namespace: str, name: str, count: int
) -> ConditionFunc:
    """Return the condition of `wait_for_daemon_set_present_on_nodes`, to be polled.

    Its arguments are those of the wait. Calls raise what the wait raises, but no WaitTimeout.

    Source: daemonset/fixtures.go CheckPresentOnNodes.
    """
    return condition_func(wait_for_daemon_set_present_on_nodes, client, namespace, name, count)


@wait(
    limit="pod_start",
    kind=DAEMON_SETS,
    summary="a daemon set whose status has all pods scheduled and ready",
)
def wait_for_daemon_set_status(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a set once its status counts all desired pods as scheduled and ready.

    The status must be of the present generation: upstream accepts an unwritten one for a set of no
    pods. A set with no desired pods satisfies this.

    Raises:
        WaitFailed: a pod is stuck, or the set is deleted.

    Source: daemonset/fixtures.go CheckDaemonStatus.
    """
    return DaemonSetStatus(namespace, name)


@wait(
    limit="system_daemonset_startup",
    summary="all daemon sets of a namespace, except a few pods of each",
)
def wait_for_daemon_sets(
    client: ApiClient,
    namespace: str,
    allowed_not_ready: int = 0,
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return all sets of a namespace once each has all but a few pods ready.

    A namespace without sets satisfies this. Upstream only warns at the limit.

    Args:
        allowed_not_ready: the number of pods of each set that may be missing or not ready.

    Source: e2e.go waitForDaemonSets.
    """
    return DaemonSets(namespace, allowed_not_ready)
