"""What can be awaited of DaemonSets and of their pods.

Which nodes are to have a pod is the DaemonSet controller's to say, by taints, selectors and
affinity: its status counts them, and is believed once it is of the present generation. The end to
end tests of Kubernetes work it out anew with the controller's code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.client.resource import DAEMON_SETS, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import EvidenceScope, Source
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.options import check_count, check_namespace
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.framework.daemon_pods import DaemonPods
from pytest_kwait.framework.pod.fields import phase_of
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.terminal_states.pods import detect_not_running, detect_owned_pod_failure
from pytest_kwait.framework.workload.conditions import WorkloadCondition
from pytest_kwait.framework.workload.fields import count_of, describe_generation_lag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DaemonSetPods", "DaemonSetStatus", "DaemonSets", "is_started"]


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
    """Whether it has got beyond phase Pending."""
    return phase_of(pod) != "Pending"


class _DaemonSetCondition(WorkloadCondition):
    """What conditions on one DaemonSet share: its pods, by node.

    Args:
        namespace: where it is.
        daemon_set: its name.
        goal: what is awaited, as a verb.
        trait: what a pod must be to be counted.
        nodes: the only nodes that are to have a pod; None where that is for the set to know.

    Raises:
        InvalidArgument: a name that cannot be one.
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
        """Return the source of its pods."""
        doom = detect_not_running if self._trait is is_started else detect_owned_pod_failure
        uid = next(iter(self.workload.uids()), "")
        self._counted = DaemonPods(uid, self._noted, doom, self._nodes)
        return (
            Source(PODS, self.namespace, self._counted, selector=selector, fields=SetPodFields),
        )

    def _noted(self, pod: dict[str, Any]) -> bool:
        self.refusals.made(pod)
        return self._trait(pod)

    def has_missing_pods(self) -> bool:
        """Return whether nodes that are to have a pod have none, by the set's own count."""
        there = count_of(self.current, "currentNumberScheduled")
        return there < count_of(self.current, "desiredNumberScheduled")

    @property
    def tally(self) -> DaemonPods | None:
        """Its pods; None before it was seen."""
        return self._counted

    def _stuck(self) -> Failed | None:
        """Return the verdict where a pod is stuck: every node that is to have one needs its own."""
        stuck = self._counted.nth_terminal(1) if self._counted is not None else None
        if self._counted is None or stuck is None or stuck[0].state.doom is None:
            return None
        entry, patience, since = stuck
        others = self._counted.doomed - 1
        more = f" (and {others} more {'pod' if others == 1 else 'pods'})" if others else ""
        return Failed(f"pod {entry.name}{more}: {stuck[0].state.doom.reason}", patience, since)


class DaemonSetPods(_DaemonSetCondition):
    """Exactly one pod is on each of some nodes, and none on any other.

    Args:
        namespace: where the set is.
        daemon_set: its name.
        goal: what is awaited, as a verb.
        trait: what a pod must be to be counted.
        nodes: the nodes by name; None for all that the set is to run on.
        least: how many nodes the set is to run on at least.

    Raises:
        InvalidArgument: a name or a count that cannot be one.
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
        """Judge by the status of the present generation, and by the pods on each node."""
        unjudged = self.stale_status_verdict() or self.workload.ending()
        pods = self.tally
        if unjudged is not None or pods is None:
            return unjudged or Pending("its pods are not known yet")
        desired = count_of(self.current, "desiredNumberScheduled")
        wanted = desired if self._nodes is None else len(self._nodes)
        if desired < self._least or desired != wanted:
            noun = "node" if desired == 1 else "nodes"
            return Failed(f"the set is to run on {desired} {noun}", Patience.LONG)
        if pods.single == pods.occupied == pods.met == wanted:
            available = count_of(self.current, "numberAvailable")
            if self._trait is is_started or available == wanted:
                return Met()
            return Pending(f"{available} of {wanted} pods available")
        noun = "node" if wanted == 1 else "nodes"
        text = f"{pods.single} of {wanted} {noun} with one pod: {pods.summary() or 'no pods'}"
        if (elsewhere := pods.occupied - pods.single) > 0:
            text = f"{text}; {elsewhere} with more than one, or none awaited"
        return self._stuck() or Pending(text)

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return [] if self.tally is None else self.tally.objects(PODS)


class DaemonSetStatus(_DaemonSetCondition):
    """The status of a DaemonSet counts as many pods, and as many ready ones, as there are to be.

    Args:
        namespace: where it is.
        daemon_set: its name.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(self, namespace: str, daemon_set: str) -> None:
        super().__init__(namespace, daemon_set, "have all pods scheduled and ready")

    def verdict(self) -> Verdict:
        """Judge by the status of the present generation, and by the pods that are stuck."""
        unjudged = self.stale_status_verdict()
        if unjudged is not None:
            return unjudged
        desired = count_of(self.current, "desiredNumberScheduled")
        there = count_of(self.current, "currentNumberScheduled")
        ready = count_of(self.current, "numberReady")
        if desired == there == ready:
            return Met()
        text = f"{there} of {desired} pods scheduled, {ready} ready"
        return self.workload.ending() or self._stuck() or Pending(text)


class DaemonSets:
    """All DaemonSets of a namespace have all of their pods ready, but for a few of each.

    Args:
        namespace: which.
        allowed: how many pods of each may be missing or not ready.

    Raises:
        InvalidArgument: a namespace or a count that cannot be one.
    """

    runs_user_code = False

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
        """That their pods are ready."""
        but = f", all but {self._allowed} of each" if self._allowed else ""
        return f"have all pods ready{but}"

    def sources(self) -> Sequence[Source]:
        """Return the sets."""
        return self._sources

    def verdict(self) -> Verdict:
        """Judge by the counts of each set's present generation."""
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

    def seen(self) -> str:
        """Sum up the sets."""
        return self._sets.summary() or "no daemon sets"

    def result(self) -> list[dict[str, Any]]:
        """Return the sets, sorted by name."""
        return self._sets.objects(DAEMON_SETS)

    def scope(self) -> EvidenceScope:
        """Return the namespace."""
        return EvidenceScope(self.namespace)
