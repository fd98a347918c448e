"""The state of one pod's scheduling cycle, and the types of predicates and priorities.

Source: kube-scheduler, framework/interface.go, framework/cycle_state.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pytest_kwait.apimachinery.arguments import check_flag, check_function, check_text
from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.scheduler.framework.node_info import NodeInfo
    from pytest_kwait.scheduler.framework.pod_info import PodInfo

_Function = TypeVar("_Function")
_NAME_LABEL = "kubernetes.io/metadata.name"
_NO_SELECTORS: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reasons why a pod does not fit a node.

    Args:
        reasons: the reasons in kube-scheduler's words.
        resolvable: whether removing pods from the node could change it.
    """

    reasons: tuple[str, ...]
    resolvable: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.reasons, tuple | list):
            raise InvalidArgument("reasons", self.reasons, "use a tuple of texts: ('busy',)")
        for reason in self.reasons:
            check_text("reasons", reason)
        check_flag("resolvable", self.resolvable)


NodeCheck = Callable[["NodeInfo"], Rejection | None]
"""Returns why a pod does not fit a node; None if it does."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """A predicate's result that limits a pod to some nodes.

    Args:
        names: the nodes; the others are rejected.
        check: the check to run on them; None for none.
    """

    names: frozenset[str]
    check: NodeCheck | None = None

    def __post_init__(self) -> None:
        names: object = self.names
        if isinstance(names, str) or not isinstance(names, Collection):
            raise InvalidArgument("names", names, "use a set of node names")
        if self.check is not None:
            check_function("check", self.check, "use a function of a node, or None")


class NoNodeError(Exception):
    """A predicate's error for a pod that cannot fit any node.

    Args:
        reason: the reason in kube-scheduler's words.
    """

    def __init__(self, reason: str) -> None:
        check_text("reason", reason)
        super().__init__(reason)
        self.reason = reason


class NodeLister(Protocol):
    """Lists the nodes for an algorithm.

    It may have two more methods. Without them a namespace has only the label of its own name, and
    pods are spread by their own constraints only:

    - `namespace_labels(name) -> Mapping[str, str] | None`: the labels of a namespace, None if it
      does not exist; matched by `namespaceSelector`.
    - `spread_selectors(pod) -> Sequence[Mapping]`: the label selectors of the pod's services and
      controller (see `pod_topology_spread.collect_spread_selectors`); counted by default spreading.
    """

    def list(self) -> Sequence[NodeInfo]:
        """Return all nodes with their pods, including assumed ones."""
        ...


class CycleState:
    """The state of one pod's scheduling cycle.

    Args:
        nodes: all nodes.
        lister: their lister.
    """

    __slots__ = ("_known", "_lister", "nodes", "pod")

    def __init__(self, pod: PodInfo, nodes: Sequence[NodeInfo], lister: object = None) -> None:
        self.pod = pod
        self.nodes = nodes
        self._lister = lister
        self._known: dict[str, Mapping[str, str] | None] = {}

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the namespace `name`; None if it does not exist."""
        if name not in self._known:
            get = getattr(self._lister, "namespace_labels", None)
            self._known[name] = {_NAME_LABEL: name} if get is None else get(name)
        return self._known[name]

    def spread_selectors(self) -> Sequence[Mapping[str, Any]]:
        """Return the label selectors of the pod's services and controller."""
        get = getattr(self._lister, "spread_selectors", None)
        selectors: Sequence[Mapping[str, Any]] = _NO_SELECTORS if get is None else get(self.pod.pod)
        return selectors


PredicatePerPod = Callable[[CycleState], NodeCheck | PreFilterResult | None]
PriorityPerPod = Callable[[CycleState, Sequence["NodeInfo"]], Sequence[int] | None]


@dataclass(frozen=True, slots=True)
class PerPod(Generic[_Function]):
    """Marks a predicate or priority that is called once per pod, not per node.

    A predicate `(cycle)` returns the check to run on each node, or None if no check is needed; it
    may return `PreFilterResult` and raise `NoNodeError`. A priority `(cycle, fitting)` returns the
    scores of the nodes `fitting` in their order, or None if all scores are equal.

    Args:
        function: the predicate or priority.
    """

    function: _Function

    def __post_init__(self) -> None:
        check_function("function", self.function)
