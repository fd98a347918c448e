"""The registry of predicates and priorities: upstream's plugins and custom ones."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.scheduler.framework.cycle_state import (
    CycleState,
    NodeCheck,
    PerPod,
    PredicatePerPod,
    PriorityPerPod,
    Rejection,
)
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
    from collections.abc import Sequence

    from pytest_kwait.scheduler.framework.node_info import NodeInfo

__all__ = [
    "DEFAULT_PREDICATES",
    "DEFAULT_PRIORITIES",
    "Predicate",
    "Priority",
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
Predicate = Callable[[dict[str, Any], "NodeInfo"], Rejection | str | None] | PerPod[PredicatePerPod]
# `(pod, node)`: 0 to 100.
Priority = Callable[[dict[str, Any], "NodeInfo"], int] | PerPod[PriorityPerPod]

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
    _PREDICATES[_validate_name(name)] = _wrap_predicate(function)


def register_priority(name: str, function: Priority) -> None:
    """Register a priority by name, replacing one of the same name.

    Args:
        name: its name in algorithms and scheduler configurations.
        function: called with the pod (a dict) and a `NodeInfo`; returns its score from 0 to 100.
            Wrapped in `PerPod`, it is called once per pod.

    Raises:
        InvalidArgument: an empty name, or no callable.
    """
    _PRIORITIES[_validate_name(name)] = _wrap_priority(function)


def resolve_predicate(given: str | Predicate) -> tuple[str, PredicatePerPod]:
    """Return the name and the function of a predicate given by either.

    Raises:
        InvalidArgument: an unknown name.
    """
    if isinstance(given, str):
        return given, _find(_PREDICATES, "predicate", given)
    return _name_of(given), _wrap_predicate(given)


def resolve_priority(given: str | Priority) -> tuple[str, PriorityPerPod]:
    """Return the name and the function of a priority given by either.

    Raises:
        InvalidArgument: an unknown name.
    """
    if isinstance(given, str):
        return given, _find(_PRIORITIES, "priority", given)
    return _name_of(given), _wrap_priority(given)


def _find(known: Mapping[str, _Function], what: str, name: str) -> _Function:
    found = known.get(name)
    if found is None:
        near = difflib.get_close_matches(name, known, n=3)
        valid = f"near it: {', '.join(near)}" if near else f"use one of {', '.join(sorted(known))}"
        raise InvalidArgument(what, name, valid)
    return found


def _validate_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument("name", name, "use a string that is not empty")
    return name


def _name_of(given: object) -> str:
    function = given.function if isinstance(given, PerPod) else given
    return str(getattr(function, "__name__", function))


def _wrap_predicate(given: Predicate) -> PredicatePerPod:
    if isinstance(given, PerPod):
        return given.function
    if not callable(given):
        raise InvalidArgument("predicate", given, "use a name or a function")
    function = given

    def prepare(cycle: CycleState) -> NodeCheck:
        pod = cycle.pod.pod

        def check(info: NodeInfo) -> Rejection | None:
            answer = function(pod, info)
            if answer is None or isinstance(answer, Rejection):
                return answer
            return Rejection((str(answer),), resolvable=True)

        return check

    return prepare


def _wrap_priority(given: Priority) -> PriorityPerPod:
    if isinstance(given, PerPod):
        return given.function
    if not callable(given):
        raise InvalidArgument("priority", given, "use a name or a function")
    function = given

    def prepare(cycle: CycleState, fitting: Sequence[NodeInfo]) -> Sequence[int]:
        return [function(cycle.pod.pod, info) for info in fitting]

    return prepare
