"""The scheduling algorithm: filter nodes by predicates, then score them by priorities.

Predicates and priorities are upstream's plugins, by name, and custom ones.

Pure: no requests and no clock. The only state kept between calls is the sums in `NodeInfo` and the
node at which an `Algorithm` starts its next search. `FitError` has the text of the
FailedScheduling event and of the PodScheduled condition.

Everything that custom predicates and priorities need is importable from here.

Source: kube-scheduler, schedule_one.go (`schedulePod`), framework/types.go (`FitError`).
"""

from __future__ import annotations

import contextlib
import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.apimachinery.arguments import (
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_text,
)
from pytest_kwait.errors import InvalidArgument, KwaitError, describe_value
from pytest_kwait.scheduler.framework.cycle_state import (
    CycleState,
    NodeCheck,
    NodeLister,
    NoNodeError,
    PerPod,
    PredicatePerPod,
    PreFilterResult,
    PriorityPerPod,
    Rejection,
)
from pytest_kwait.scheduler.framework.node_info import NodeInfo
from pytest_kwait.scheduler.framework.object_fields import InvalidNode, InvalidObject, InvalidPod
from pytest_kwait.scheduler.framework.pod_info import PodInfo
from pytest_kwait.scheduler.plugins import predicates, priorities
from pytest_kwait.scheduler.plugins.inter_pod_affinity import (
    pod_affinity_holds,
    score_inter_pod_affinity,
)
from pytest_kwait.scheduler.plugins.pod_topology_spread import (
    pods_are_spread,
    score_pod_topology_spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "DEFAULT_PREDICATES",
    "DEFAULT_PRIORITIES",
    "NO_NODES",
    "Algorithm",
    "AlgorithmError",
    "CycleState",
    "FitError",
    "InvalidNode",
    "InvalidObject",
    "InvalidPod",
    "NoNodeError",
    "NodeInfo",
    "NodeLister",
    "PerPod",
    "PreFilterResult",
    "Predicate",
    "Priority",
    "Rejection",
    "format_fit_error",
    "predicate_names",
    "priority_names",
    "register_predicate",
    "register_priority",
    "resolve_predicate",
    "resolve_priority",
]

_Function = TypeVar("_Function")

# `(pod, node)`: None if the pod fits, else the reason; a string counts as resolvable by
# preemption.
Predicate = Callable[[dict[str, Any], NodeInfo], Rejection | str | None] | PerPod[PredicatePerPod]
# `(pod, node)`: 0 to 100.
Priority = Callable[[dict[str, Any], NodeInfo], int] | PerPod[PriorityPerPod]

_PREDICATES: dict[str, PredicatePerPod] = {
    "NodeUnschedulable": predicates.node_is_schedulable,
    "NodeName": predicates.node_has_requested_name,
    "TaintToleration": predicates.taints_are_tolerated,
    "NodeAffinity": predicates.node_is_selected,
    "NodePorts": predicates.host_ports_are_free,
    "NodeResourcesFit": predicates.resources_suffice,
    "PodTopologySpread": pods_are_spread,
    "InterPodAffinity": pod_affinity_holds,
}
_PRIORITIES: dict[str, PriorityPerPod] = {
    "TaintToleration": priorities.score_taint_toleration,
    "NodeAffinity": priorities.score_node_affinity,
    "NodeResourcesFit": priorities.score_least_allocated,
    "PodTopologySpread": score_pod_topology_spread,
    "InterPodAffinity": score_inter_pod_affinity,
    "NodeResourcesBalancedAllocation": priorities.score_balanced_allocation,
    "ImageLocality": priorities.score_image_locality,
}

DEFAULT_PREDICATES: tuple[str, ...] = tuple(_PREDICATES)
"""The predicates of kube-scheduler's default profile, in its order.

Those of volumes and resource claims are missing, as they need objects besides pods and nodes.

Source: kube-scheduler, apis/config/v1/default_plugins.go.
"""

DEFAULT_PRIORITIES: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""The priorities of kube-scheduler's default profile and their weights."""
NO_NODES = "no nodes available to schedule pods"

# Source: kube-scheduler, schedule_one.go, `minFeasibleNodesToFind`,
# `minFeasibleNodesPercentageToFind`.
_MIN_FEASIBLE_NODES = 100
_MIN_FEASIBLE_PERCENTAGE = 5


def predicate_names() -> list[str]:
    """Return the known names, sorted."""
    return sorted(_PREDICATES)


def priority_names() -> list[str]:
    """Return the known names, sorted."""
    return sorted(_PRIORITIES)


def register_predicate(name: str, function: Predicate) -> None:
    """Register a predicate by name, replacing one of the same name.

    Args:
        name: its name in algorithms and scheduler configurations.
        function: called with the pod (a dict) and a `NodeInfo`; returns None if the pod fits, else
            the reason as a string or a `Rejection`. Wrapped in `PerPod`, it is called once per pod.

    Raises:
        InvalidArgument: an empty name, or no callable.
    """
    check_text("name", name)
    _PREDICATES[name] = _wrap_predicate(name, function, "function")


def register_priority(name: str, function: Priority) -> None:
    """Register a priority by name, replacing one of the same name.

    Args:
        name: its name in algorithms and scheduler configurations.
        function: called with the pod (a dict) and a `NodeInfo`; returns its score from 0 to 100.
            Wrapped in `PerPod`, it is called once per pod.

    Raises:
        InvalidArgument: an empty name, or no callable.
    """
    check_text("name", name)
    _PRIORITIES[name] = _wrap_priority(name, function, "function")


def resolve_predicate(predicate: str | Predicate) -> tuple[str, PredicatePerPod]:
    """Return the name and the function of a predicate given by either.

    Raises:
        InvalidArgument: an unknown name.
    """
    if isinstance(predicate, str):
        return predicate, _find(_PREDICATES, "predicate", predicate)
    return _name_of(predicate), _wrap_predicate(_name_of(predicate), predicate)


def resolve_priority(priority: str | Priority) -> tuple[str, PriorityPerPod]:
    """Return the name and the function of a priority given by either.

    Raises:
        InvalidArgument: an unknown name.
    """
    if isinstance(priority, str):
        return priority, _find(_PRIORITIES, "priority", priority)
    return _name_of(priority), _wrap_priority(_name_of(priority), priority)


def _find(known: Mapping[str, _Function], what: str, name: str) -> _Function:
    function = known.get(name)
    if function is None:
        near = difflib.get_close_matches(name, known, n=3)
        valid = f"near it: {', '.join(near)}" if near else f"use one of {', '.join(sorted(known))}"
        raise InvalidArgument(what, name, valid)
    return function


def _name_of(definition: object) -> str:
    function = definition.function if isinstance(definition, PerPod) else definition
    return str(getattr(function, "__name__", function))


class AlgorithmError(KwaitError):
    """An error of a predicate, a priority or an algorithm of the user, or its invalid answer."""


def _wrap_predicate(name: str, predicate: Predicate, what: str = "predicate") -> PredicatePerPod:
    if not isinstance(predicate, PerPod):
        check_function(what, predicate, "use a name or a function")
    function = predicate

    def prepare(cycle: CycleState) -> NodeCheck | PreFilterResult | None:
        if not isinstance(function, PerPod):
            return _checked(name, cycle, lambda info: function(cycle.pod.pod, info))
        with _named_errors("predicate", name, cycle):
            result: Any = function.function(cycle)
        if result is None:
            return None
        if isinstance(result, PreFilterResult):
            check = None if result.check is None else _checked(name, cycle, result.check)
            return PreFilterResult(result.names, check)
        if not callable(result):
            valid = "a predicate per pod returns a function of a node, a PreFilterResult or None"
            raise _invalid_answer("predicate", name, cycle, result, valid)
        return _checked(name, cycle, result)

    return prepare


def _checked(name: str, cycle: CycleState, check: Callable[[NodeInfo], Any]) -> NodeCheck:
    """Return the check of a user's predicate, with a clear error for what is no answer."""

    def checked(info: NodeInfo) -> Rejection | None:
        with _named_errors("predicate", name, cycle, info):
            answer = check(info)
        if answer is None or isinstance(answer, Rejection):
            return answer
        if not isinstance(answer, str) or not answer:
            valid = "a predicate returns None if the pod fits, else the reason or a Rejection"
            raise _invalid_answer("predicate", name, cycle, answer, valid, info)
        return Rejection((answer,), resolvable=True)

    return checked


def _wrap_priority(name: str, priority: Priority, what: str = "priority") -> PriorityPerPod:
    if not isinstance(priority, PerPod):
        check_function(what, priority, "use a name or a function")
    function = priority

    def prepare(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int] | None:
        if not isinstance(function, PerPod):
            return [score(cycle, info) for info in fitting]
        with _named_errors("priority", name, cycle):
            scores: Any = function.function(cycle, fitting)
        if scores is None:
            return None
        if not isinstance(scores, Sequence) or len(scores) != len(fitting):
            valid = f"a priority per pod returns {len(fitting)} scores, one for each node, or None"
            raise _invalid_answer("priority", name, cycle, scores, valid)
        return [
            valid_score(cycle, *scored_node) for scored_node in zip(scores, fitting, strict=True)
        ]

    def score(cycle: CycleState, info: NodeInfo) -> int:
        plain: Any = function
        with _named_errors("priority", name, cycle, info):
            answer = plain(cycle.pod.pod, info)
        return valid_score(cycle, answer, info)

    def valid_score(cycle: CycleState, answer: object, info: NodeInfo) -> int:
        if (
            isinstance(answer, bool)
            or not isinstance(answer, int)
            or not 0 <= answer <= priorities.MAX_NODE_SCORE
        ):
            valid = f"a priority returns a whole number from 0 to {priorities.MAX_NODE_SCORE}"
            raise _invalid_answer("priority", name, cycle, answer, valid, info)
        return answer

    return prepare


@contextlib.contextmanager
def _named_errors(
    kind: str, name: str, cycle: CycleState, info: NodeInfo | None = None
) -> Iterator[None]:
    """Name the function, pod and node of an error in a user's predicate or priority."""
    try:
        yield
    except (KwaitError, NoNodeError):
        # Such as an invalid object, or the reason that no node is tried.
        raise
    except Exception as error:
        text = f"{kind} {name} raised {describe_value(error)} for {_describe(cycle, info)}"
        raise AlgorithmError(text) from error


def _invalid_answer(
    kind: str,
    name: str,
    cycle: CycleState,
    answer: object,
    valid: str,
    info: NodeInfo | None = None,
) -> AlgorithmError:
    answer_text = describe_value(answer)
    return AlgorithmError(
        f"{kind} {name} returned {answer_text} for {_describe(cycle, info)}; {valid}"
    )


def _describe(cycle: CycleState, info: NodeInfo | None) -> str:
    metadata = cycle.pod.pod.get("metadata") or {}
    pod = f"pod {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    return pod if info is None else f"{pod} on node {info.name}"


class FitError(KwaitError):
    """A pod fits no node; the text appears in its event and PodScheduled condition.

    Args:
        rejections: the reason of each node by its name, as a `Rejection` or a text that counts as
            resolvable by preemption; or one text, which is the whole message.
        predicates: the names of the predicates that rejected a node.
        reason: the reason if no node was tried; empty otherwise.
        may_preempt: False for pods whose `preemptionPolicy` is Never.

    Raises:
        InvalidArgument: reasons of another type.
    """

    def __init__(
        self,
        rejections: Mapping[str, Rejection | str] | str,
        predicates: frozenset[str] = frozenset(),
        *,
        reason: str = "",
        may_preempt: bool = True,
    ) -> None:
        super().__init__(rejections, predicates)
        check_instance("predicates", predicates, Collection, "use the names of predicates")
        check_instance("reason", reason, str, "use a text")
        check_flag("may_preempt", may_preempt)
        self.rejections, self._text = _parse_rejections(rejections)
        self.predicates = predicates
        self.reason = reason
        self.may_preempt = may_preempt

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.rejections)

    def __str__(self) -> str:
        return self._text or format_fit_error(
            list(self.rejections.values()), reason=self.reason, may_preempt=self.may_preempt
        )


def _parse_rejections(rejections: object) -> tuple[Mapping[str, Rejection], str]:
    """Return the reasons of nodes, and the whole message if it is given instead."""
    if isinstance(rejections, str) and rejections:
        return {}, rejections
    if not isinstance(rejections, Mapping):
        valid = 'use a text, or a mapping of nodes to reasons: {"node-1": "busy"}'
        raise InvalidArgument("rejections", rejections, valid)
    parsed: dict[str, Rejection] = {}
    for node, reason in rejections.items():
        if isinstance(reason, str) and reason:
            parsed[node] = Rejection((reason,), resolvable=True)
        elif isinstance(reason, Rejection):
            parsed[node] = reason
        else:
            raise InvalidArgument(f"the reason of {node}", reason, "use a text or a Rejection")
    return parsed, ""


def _histogram(reasons: Counter[str], nodes: int) -> str:
    # Sorted as text with the count: "10 x" comes before "2 y".
    text = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available:{f' {text}.' if text else ''}"


def format_fit_error(
    rejections: Sequence[Rejection],
    *,
    reason: str = "",
    may_preempt: bool = True,
    preemption: str | None = None,
    tried: Sequence[Rejection] | None = None,
) -> str:
    """Return the text of the PodScheduled condition and of the FailedScheduling event.

    Args:
        rejections: one per node; none if the cluster has no node.
        reason: the reason if no node was tried; empty otherwise.
        may_preempt: False for pods whose `preemptionPolicy` is Never.
        preemption: why no pod is preempted; empty if pods are; None if preemption was not tried.
        tried: why preemption does not help, one per node, if it was tried.

    Source: kube-scheduler, framework/types.go `FitError.Error`; framework/preemption/preemption.go.
    """
    valid = "use a list of Rejection"
    check_instance("rejections", rejections, Sequence, valid)
    check_instance("tried", tried or (), Sequence, valid)
    check_instance("reason", reason, str, "use a text")
    check_instance("preemption", preemption or "", str, "use a text, or None")
    check_flag("may_preempt", may_preempt)
    if not rejections:
        return NO_NODES
    nodes = len(rejections)
    if reason:
        # The dynamic resources plugin returns "not found", as it has no state of the pod either;
        # preemption is not tried after it.
        return f"0/{nodes} nodes are available: {reason}. not found"
    text = _histogram(Counter(why for rejection in rejections for why in rejection.reasons), nodes)
    if preemption == "":
        return text
    # The results of two PostFilter plugins: dynamic resources and preemption.
    text += " no new claims to deallocate,"
    if not may_preempt:
        return f"{text} preemption: not eligible due to preemptionPolicy=Never."
    if preemption is not None:
        return f"{text} preemption: {preemption}"
    useless: Counter[str] = Counter()
    if tried is not None:
        useless.update(why for rejection in tried for why in rejection.reasons)
        return f"{text} preemption: {_histogram(useless, nodes)}"
    for rejection in rejections:
        if rejection.resolvable:
            useless["No preemption victims found for incoming pod"] += 1
        else:
            useless["Preemption is not helpful for scheduling"] += 1
    return f"{text} preemption: {_histogram(useless, nodes)}"


class Algorithm:
    """kube-scheduler's decision on plain dicts: no requests, no clock.

    Of nodes with equal scores it selects the one with fewer pods, then the first by name; upstream
    selects one at random.

    Args:
        predicates: names (see `registry.predicate_names`) or functions, called in this order; the
            first that rejects a node gives the reason.
        priorities: names or functions and their weights.
        percentage_of_nodes_to_score: in clusters of more than 100 nodes, the percentage of feasible
            nodes after which the search ends; 0 for upstream's own share, which shrinks with the
            cluster.

    Raises:
        InvalidArgument: an unknown name, or a weight or percentage out of range.

    Source: kube-scheduler, schedule_one.go, `schedulePod`; apis/config/v1/default_plugins.go.
    """

    def __init__(
        self,
        predicates: Iterable[str | Predicate] = DEFAULT_PREDICATES,
        # Of `str | Priority` to int; mappings are invariant in their keys.
        priorities: Mapping[Any, int] = DEFAULT_PRIORITIES,
        *,
        percentage_of_nodes_to_score: int = 0,
    ) -> None:
        if isinstance(predicates, str) or not isinstance(predicates, Iterable):
            valid = "use a list of names or functions: ['NodeName']"
            raise InvalidArgument("predicates", predicates, valid)
        valid = "use a mapping of names or functions to weights: {'NodeAffinity': 2}"
        check_instance("priorities", priorities, Mapping, valid)
        self._predicates = [resolve_predicate(predicate) for predicate in predicates]
        self._priorities = [
            (*resolve_priority(priority), _validate_weight(priority, weight))
            for priority, weight in priorities.items()
        ]
        self._share = _validate_percentage(percentage_of_nodes_to_score)
        # The index at which the next search starts, so that all nodes of a large cluster are tried.
        self._start = 0

    @property
    def predicates(self) -> tuple[str, ...]:
        """The names of its predicates, in order."""
        return tuple(name for name, _ in self._predicates)

    @property
    def priorities(self) -> Mapping[str, int]:
        """The names of its priorities and their weights."""
        return {name: weight for name, _, weight in self._priorities}

    def schedule(self, pod: Mapping[str, Any], node_lister: NodeLister) -> str:
        """Return the name of the best node for `pod`.

        Args:
            pod: the Pod as the API has it.
            node_lister: the nodes with their pods.

        Raises:
            FitError: the pod fits no node.
            InvalidPod: the pod is invalid.
        """
        cycle = _make_cycle_state(pod, node_lister)
        fitting = self._find_fitting(cycle, self._num_feasible_nodes_to_find(len(cycle.nodes)))
        if len(fitting) == 1:
            return fitting[0].name
        totals = self._sum_scores(cycle, fitting)
        best = max(totals)
        equals = [info for info, total in zip(fitting, totals, strict=True) if total == best]
        fewest = min([info.pod_count for info in equals])
        return min([info.name for info in equals if info.pod_count == fewest])

    def feasible(self, pod: Mapping[str, Any], node_lister: NodeLister) -> list[str]:
        """Return the names of all nodes that `pod` fits, in the lister's order.

        Raises:
            InvalidPod: the pod is invalid.
        """
        cycle = _make_cycle_state(pod, node_lister)
        try:
            fitting = self._find_fitting(cycle, len(cycle.nodes))
        except FitError:
            return []
        names = {info.name for info in fitting}
        return [info.name for info in cycle.nodes if info.name in names]

    def scores(self, pod: Mapping[str, Any], node_lister: NodeLister) -> dict[str, int]:
        """Return the weighted sum of its scores for every node that `pod` fits, by name.

        Raises:
            InvalidPod: the pod is invalid.
        """
        cycle = _make_cycle_state(pod, node_lister)
        try:
            fitting = self._find_fitting(cycle, len(cycle.nodes))
        except FitError:
            return {}
        totals = self._sum_scores(cycle, fitting)
        return {info.name: total for info, total in zip(fitting, totals, strict=True)}

    def rejection(
        self, pod: Mapping[str, Any], node_lister: NodeLister, info: NodeInfo
    ) -> Rejection | None:
        """Return the reason why `pod` does not fit one node; None if it fits.

        Args:
            pod: the Pod as the API has it.
            node_lister: all nodes, including `info`.
            info: the node.

        Raises:
            InvalidPod: the pod is invalid.
        """
        check_instance("info", info, NodeInfo, "use a NodeInfo")
        cycle = _make_cycle_state(pod, node_lister)
        for name, predicate in self._predicates:
            try:
                check = predicate(cycle)
            except NoNodeError as error:
                return Rejection((error.reason,))
            if isinstance(check, PreFilterResult):
                if info.name not in check.names:
                    return _make_plugin_rejection(name)
                check = check.check
            rejection = None if check is None else check(info)
            if rejection is not None:
                return rejection
        return None

    def _num_feasible_nodes_to_find(self, nodes: int) -> int:
        """Return the number of feasible nodes after which the search ends.

        Source: kube-scheduler, schedule_one.go, `numFeasibleNodesToFind`.
        """
        if nodes < _MIN_FEASIBLE_NODES:
            return nodes
        share = self._share or max(50 - nodes // 125, _MIN_FEASIBLE_PERCENTAGE)
        return max(nodes * share // 100, _MIN_FEASIBLE_NODES)

    def _find_fitting(self, cycle: CycleState, enough: int) -> Sequence[NodeInfo]:
        nodes = cycle.nodes
        refused: dict[str, Rejection] = {}
        by: set[str] = set()
        checks: list[tuple[str, NodeCheck]] = []
        for name, predicate in self._predicates:
            try:
                check = predicate(cycle)
            except NoNodeError as error:
                why = Rejection((error.reason,))
                raise FitError(
                    {info.name: why for info in cycle.nodes},
                    frozenset((name,)),
                    reason=error.reason,
                    may_preempt=_may_preempt(cycle.pod),
                ) from None
            if isinstance(check, PreFilterResult):
                nodes = _filter_by_names(check.names, name, nodes, refused)
                by.add(name)
                check = check.check
            if check is not None:
                checks.append((name, check))
        if len(nodes) > enough:
            start = self._start % len(nodes)
            nodes = [*nodes[start:], *nodes[:start]]
        fitting: list[NodeInfo] = []
        looked = 0
        for info in nodes:
            looked += 1
            for name, check in checks:
                rejection = check(info)
                if rejection is not None:
                    refused[info.name] = rejection
                    by.add(name)
                    break
            else:
                fitting.append(info)
                if len(fitting) >= enough:
                    break
        if not fitting:
            raise FitError(refused, frozenset(by), may_preempt=_may_preempt(cycle.pod))
        self._start = (self._start + looked) % len(cycle.nodes)
        return fitting

    def _sum_scores(self, cycle: CycleState, fitting: Sequence[NodeInfo]) -> list[int]:
        totals = [0] * len(fitting)
        for _, priority, weight in self._priorities:
            scores = priority(cycle, fitting)
            if scores is not None:
                totals = [
                    total + weight * score for total, score in zip(totals, scores, strict=True)
                ]
        return totals


def _make_cycle_state(pod: Mapping[str, Any], node_lister: NodeLister) -> CycleState:
    check_methods("node_lister", node_lister, ("list",), "use an object with list()")
    return CycleState(PodInfo(pod), node_lister.list(), node_lister)


def _may_preempt(pod: PodInfo) -> bool:
    return bool((pod.pod.get("spec") or {}).get("preemptionPolicy") != "Never")


def _make_plugin_rejection(predicate: str) -> Rejection:
    return Rejection((f"node(s) didn't satisfy plugin(s) [{predicate}]",))


def _filter_by_names(
    names: frozenset[str], predicate: str, nodes: Sequence[NodeInfo], refused: dict[str, Rejection]
) -> Sequence[NodeInfo]:
    """Return the `nodes` with one of `names`; the others are rejected without a check."""
    why = _make_plugin_rejection(predicate)
    for info in nodes:
        if info.name not in names:
            refused[info.name] = why
    return [info for info in nodes if info.name in names]


def _validate_percentage(percentage: object) -> int:
    if (
        isinstance(percentage, bool)
        or not isinstance(percentage, int)
        or not 0 <= percentage <= 100
    ):
        raise InvalidArgument("percentage_of_nodes_to_score", percentage, "0 to 100")
    return percentage


def _validate_weight(priority: object, weight: object) -> int:
    if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
        raise InvalidArgument(f"weight of {priority}", weight, "a whole number of at least 1")
    return weight
