"""Conditions and waits on nodes: conditions, taints, heartbeat, the health of all nodes.

A node that does not exist yet may still appear; one that was seen and is deleted ends the wait.

Source: kubernetes/test/e2e/framework/node/wait.go and resource.go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.conditions import get_condition, get_phase
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.resource import NODES, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Condition,
    EvidenceScope,
    Met,
    ObjectReference,
    ObjectSink,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_bool, check_count, check_text
from pytest_kwait.engine.pod_fields import PodFields, node_of
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import ObjectCondition
from pytest_kwait.framework.registry import condition_func, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf
    from pytest_kwait.wait.loop import ConditionFunc

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""The taint of nodes that are not meant for test pods."""

_BY_CONTROLLER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_KEEPING_OUT = ("NoSchedule", "NoExecute")


class _Taint(TypedDict, total=False):
    key: str
    effect: str


class _Spec(TypedDict, total=False):
    unschedulable: bool | None
    taints: list[_Taint] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None
    lastHeartbeatTime: str | None


class _Status(TypedDict, total=False):
    conditions: list[_Condition] | None


class NodeFields(TypedDict, total=False):
    """The fields of a node that waits read."""

    metadata: ObjectMeta
    spec: _Spec | None
    status: _Status | None


def condition_is(node: dict[str, Any], kind: str, expected_value: bool) -> bool:
    """Return whether a condition is True, or exists and is not True.

    Ready counts as True only once the node controller has removed its taints. A missing condition
    is neither.
    """
    condition = get_condition(node, kind)
    if condition is None:
        return False
    true = condition.get("status") == "True"
    if kind == "Ready" and expected_value and _tainted_by_controller(node):
        return False
    return true == expected_value


def is_cordoned(node: dict[str, Any]) -> bool:
    """Return whether it is cordoned, so that it takes no new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_ready(node: dict[str, Any]) -> bool:
    """Return whether its kubelet is ready, and its network not reported unavailable."""
    network = get_condition(node, "NetworkUnavailable")
    return condition_is(node, "Ready", True) and (
        network is None or network.get("status") != "True"
    )


def is_schedulable(node: dict[str, Any]) -> bool:
    """Return whether it is ready and not cordoned."""
    return is_ready(node) and not is_cordoned(node)


def is_untainted(node: dict[str, Any], non_blocking: Collection[str] = ()) -> bool:
    """Return whether it has no blocking taints other than those with these keys."""
    return not any(
        taint.get("effect") in _KEEPING_OUT and taint.get("key") not in non_blocking
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


def is_fit_for_tests(node: dict[str, Any], non_blocking: Collection[str]) -> bool:
    """Return whether test pods could run on it, but for expected taints."""
    return is_ready(node) and is_untainted(node, non_blocking)


def describe_node(node: dict[str, Any]) -> str:
    """Return a node's state in a few words: `Ready, cordoned`."""
    condition = get_condition(node, "Ready")
    if condition is None:
        label = "without a Ready condition"
    elif condition.get("status") == "True":
        label = "Ready"
    else:
        label = f"NotReady ({condition.get('reason') or condition.get('status')})"
    network = get_condition(node, "NetworkUnavailable") or {}
    if network.get("status") == "True":
        label += ", without network"
    if is_cordoned(node):
        label += ", cordoned"
    taints = (node.get("spec") or {}).get("taints") or ()
    keys = [
        str(taint.get("key"))
        for taint in taints
        if taint.get("effect") in _KEEPING_OUT
        and taint.get("key") != "node.kubernetes.io/unschedulable"
    ]
    return f"{label}, tainted {', '.join(keys)}" if keys else label


def _tainted_by_controller(node: dict[str, Any]) -> bool:
    return any(
        taint.get("key") in _BY_CONTROLLER and taint.get("effect") == "NoExecute"
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


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


class OneNode(ObjectCondition):
    """One node reaches the state of a goal.

    Args:
        goal: the awaited state.
    """

    goal: str

    def __init__(self, node: str, goal: NodeGoal) -> None:
        super().__init__(NODES, None, check_name("node", node), NodeFields)
        self.goal = goal.text
        self._goal = goal

    def verdict(self) -> Verdict:
        """Decide by the goal, while the node exists."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        current = self.object.current or {}
        return Met() if self._goal.holds(current) else Pending(self._goal.missing(current))

    def summarize(self) -> str:
        """Return its state in a few words."""
        return "" if self.object.current is None else describe_node(self.object.current)


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


class NodeSet(Condition):
    """All relevant nodes but a few are in the awaited state, or an exact number is.

    Args:
        goal: the awaited state, as a verb phrase.
        matters: returns whether a node is relevant.
        fit: returns whether it is in the awaited state.
        allowed: the number of relevant nodes that may not be in it.
        count: the exact number of relevant nodes; None for any number.
        least: the minimum number of relevant nodes, if `count` is None.
    """

    subject = "nodes"

    goal: str

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
        return Met(settled=self._count is None)

    def _rest(self) -> str:
        rest = self.nodes.summary()
        return f": {rest}" if rest else ""

    def summarize(self) -> str:
        """Return a summary of the nodes."""
        return self.nodes.summary() or "no nodes"

    def result(self) -> list[dict[str, Any]]:
        """Return the nodes in the awaited state, sorted by name."""
        return self.nodes.objects(NODES)

    def scope(self) -> EvidenceScope:
        """Return the first few nodes that are not in the awaited state."""
        return EvidenceScope(None, objects=tuple(self.nodes.unfit.values())[:3])


class _SystemPods(ObjectSink):
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


@wait(limit="restart_node_ready_again", kind=NODES, summary="a node that is ready")
def wait_for_node_ready(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once it is Ready and the node controller's taints are gone.

    The taints are `node.kubernetes.io/not-ready` and `node.kubernetes.io/unreachable`, with effect
    NoExecute. Upstream returns False at the limit; this raises.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeToBeReady.
    """
    return OneNode(name, _node_condition_goal("Ready", True))


@wait(limit="node_not_ready", kind=NODES, summary="a node that is not ready")
def wait_for_node_not_ready(
    client: ApiClient, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once its Ready condition is anything but True.

    A node without that condition is neither ready nor not ready. Upstream returns False at the
    limit; this raises.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeToBeNotReady.
    """
    return OneNode(name, _node_condition_goal("Ready", False))


@wait(limit="node_not_ready", kind=NODES, summary="a node with a condition that is True, or is not")
def wait_for_node_condition(
    client: ApiClient,
    name: str,
    condition: str,
    status: bool = True,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a node once one of its conditions is True, or is not.

    For Ready the node controller's taints count as in `wait_for_node_ready`. A missing condition
    satisfies neither. Upstream returns False at the limit; this raises.

    Args:
        condition: its type, for example `DiskPressure`.
        status: True to wait until it is True, False until it is anything else.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitConditionToBe.
    """
    kind = check_text("condition", condition)
    return OneNode(name, _node_condition_goal(kind, check_bool("status", status)))


@wait(limit="node_schedulable", kind=NODES, summary="a node that takes pods, or takes none")
def wait_for_node_schedulable(
    client: ApiClient, name: str, schedulable: bool = True, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once it is schedulable, or once it is not.

    Schedulable means ready and not cordoned; an unavailable network counts as not ready. Upstream
    returns False at the limit; this raises.

    Args:
        schedulable: False to wait until it is not schedulable.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeSchedulable.
    """
    expected_value = check_bool("schedulable", schedulable)
    text = f"become {'' if expected_value else 'un'}schedulable"
    goal = NodeGoal(text, lambda obj: is_schedulable(obj) == expected_value)
    return OneNode(name, goal)


@wait(limit="nodes_ready", kind=NODES, summary="a node whose last heartbeat is later")
def wait_for_node_heartbeat_after(
    client: ApiClient, name: str, after: datetime | str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a node once its Ready condition has a heartbeat later than `after`.

    An unchanged kubelet writes a heartbeat every five minutes.

    Args:
        after: a time with a time zone; a text as in RFC 3339.

    Raises:
        WaitFailed: the node was deleted.

    Source: node/wait.go WaitForNodeHeartbeatAfter.
    """
    moment = _parse_time(after)
    text = f"have a heartbeat after {moment.isoformat()}"
    goal = NodeGoal(text, lambda obj: _is_later(obj, moment), _last_heartbeat)
    return OneNode(name, goal)


def _node_condition_goal(kind: str, expected_value: bool) -> NodeGoal:
    text = f"have condition {kind} {'True' if expected_value else 'other than True'}"
    if kind == "Ready":
        text = "become ready" if expected_value else "become not ready"

    def missing(node: dict[str, Any]) -> str:
        condition = get_condition(node, kind)
        if condition is None:
            return f"no condition {kind} yet"
        parts = (condition.get("reason"), condition.get("message"))
        why = ": ".join(" ".join(part.split()) for part in parts if part)
        if kind == "Ready" and condition.get("status") == "True" and expected_value:
            return describe_node(node)
        return f"{kind} is {condition.get('status')}{f': {why}' if why else ''}"

    return NodeGoal(text, lambda node: condition_is(node, kind, expected_value), missing)


def _parse_time(value: object) -> datetime:
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidArgument(
            "after", value, "use a datetime with a time zone, or a text as '2030-01-31T12:00:00Z'"
        )
    return moment


def _heartbeat(node: dict[str, Any]) -> str:
    return str((get_condition(node, "Ready") or {}).get("lastHeartbeatTime") or "")


def _is_later(node: dict[str, Any], moment: datetime) -> bool:
    try:
        return datetime.fromisoformat(_heartbeat(node)) > moment
    except (TypeError, ValueError):  # no time, or one without its zone
        return False


def _last_heartbeat(node: dict[str, Any]) -> str:
    return f"the last heartbeat was at {_heartbeat(node)}" if _heartbeat(node) else "no heartbeat"


def schedulable_nodes(
    allowed_not_ready: int, non_blocking_taints: Sequence[str], *, least: int
) -> NodeSet:
    """Return the same condition for `least` nodes or more."""
    allowed = check_count("allowed_not_ready", allowed_not_ready)
    keys = _texts("non_blocking_taints", non_blocking_taints)
    goal = f"become schedulable, all but {allowed}" if allowed else "all become schedulable"
    fit = partial(is_fit_for_tests, non_blocking=keys)
    return NodeSet(goal, _takes_pods_of_tests, fit, allowed=allowed, least=least)


@wait(limit="node_schedulable", summary="nodes that take pods, all but a few")
def wait_for_all_nodes_schedulable(
    client: ApiClient,
    allowed_not_ready: int = 0,
    non_blocking_taints: Sequence[str] = (CONTROL_PLANE,),
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the nodes fit for test pods once all but a few uncordoned ones are.

    Fit nodes are ready, with network not reported unavailable, and without blocking taints. At
    least one node must exist and be uncordoned; upstream's condition holds for none. Upstream gives
    up at the third failing list, and returns at once for a count of -1, which is refused here.

    Args:
        allowed_not_ready: the number of nodes that may be unfit; 0 or more.
        non_blocking_taints: keys of taints to ignore.

    Source: node/wait.go WaitForAllNodesSchedulable, CheckReadyForTests.
    """
    return schedulable_nodes(allowed_not_ready, non_blocking_taints, least=1)


def check_ready_for_tests(
    client: ApiClient,
    allowed_not_ready: int = 0,
    non_blocking_taints: Sequence[str] = (CONTROL_PLANE,),
) -> ConditionFunc:
    """Return the condition of `wait_for_all_nodes_schedulable`, to be polled.

    Its arguments are those of the wait. Calls raise what the wait raises, but no WaitTimeout.

    Source: node/wait.go CheckReadyForTests.
    """
    return condition_func(
        wait_for_all_nodes_schedulable, client, allowed_not_ready, non_blocking_taints
    )


@wait(limit="nodes_ready", summary="an exact number of uncordoned nodes, all ready")
def wait_for_nodes_ready(
    client: ApiClient, count: int, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the uncordoned nodes once there are exactly `count`, all ready.

    Ready as in `wait_for_node_ready`, with network not reported unavailable.

    Args:
        count: the exact number; 0 or more.

    Source: node/wait.go WaitForReadyNodes, CheckReady.
    """
    number = check_count("count", count)
    goal = f"become {number}, all of them ready"
    return NodeSet(goal, _takes_pods_of_tests, is_ready, count=number)


@wait(limit="nodes_ready", summary="nodes that are all ready and run what they must")
def wait_for_total_healthy(
    client: ApiClient,
    required_pods: Sequence[str] = (),
    system_namespace: str = "kube-system",
    **options: Unpack[WaitOptions],
) -> ConditionOf[list[dict[str, Any]]]:
    """Return all nodes once all are ready and run the required pods.

    At least one node must exist. Upstream requires kube-proxy, fluentd-elasticsearch and
    node-problem-detector, which few clusters run; here the caller names the required pods. Upstream
    treats a limit without any answer as success; this raises.

    Args:
        required_pods: regular expressions, one per kind of pod, that the pods' names must contain.
        system_namespace: the namespace of those pods.

    Source: node/wait.go WaitForTotalHealthy.
    """
    patterns = [_pattern(text) for text in _texts("required_pods", required_pods)]
    return HealthyCluster(patterns, check_namespace(system_namespace, "system_namespace"))


def _takes_pods_of_tests(node: dict[str, Any]) -> bool:
    return not is_cordoned(node)


def _texts(what: str, values: object) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgument(what, values, "use a list of texts")
    return [check_text(what, value) for value in values]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidArgument("required_pods", text, f"use a regular expression: {error}") from None
