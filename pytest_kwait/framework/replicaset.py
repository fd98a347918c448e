"""Conditions and waits on ReplicaSets.

Upstream's waits end at the first error of the API; these retry. A status of an older generation
counts for none of them.

Source: kubernetes/test/e2e/framework/replicaset/wait.go and
kubernetes/test/e2e/apps/deployment.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from pytest_kwait.client.resource import REPLICA_SETS
from pytest_kwait.engine.condition import Failed, Grace, Met, Pending, Verdict
from pytest_kwait.engine.options import WaitOptions, check_count
from pytest_kwait.framework.named_objects import count_noun
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.workloads import detect_replica_failure
from pytest_kwait.framework.workload.conditions import (
    ALIVE,
    OwnedPods,
    WorkloadCondition,
    detect_stuck_pods,
)
from pytest_kwait.framework.workload.fields import (
    ReplicaSetFields,
    count_of,
    describe_generation_lag,
    replicas_of,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.framework.registry import ConditionOf


class _ReplicaSetCondition(WorkloadCondition):
    """Base of the conditions on a ReplicaSet.

    Args:
        goal: the awaited state, as a verb phrase.
        pods: whether its pods are watched.
    """

    def __init__(self, namespace: str, replica_set: str, goal: str, *, pods: bool) -> None:
        book = OwnedPods() if pods else None
        super().__init__(
            REPLICA_SETS, namespace, replica_set, goal, ReplicaSetFields, book, "replica_set"
        )

    def counts(self) -> str:
        """Return the counts of its status, with the desired ones."""
        names = {"replicas": "there", "readyReplicas": "ready", "availableReplicas": "available"}
        counts_text = ", ".join(
            f"{count_of(self.current, name)} {word}" for name, word in names.items()
        )
        return f"{replicas_of(self.current)} wanted: {counts_text}"

    def summarize(self) -> str:
        """Return a summary of its counts and its pods."""
        if self.object.current is None:
            return ""
        pods = f"; {super().summarize()}" if self.pods is not None else ""
        return f"{self.counts()}{pods}"

    def pending(self) -> Pending:
        """Return the pending verdict with its progress."""
        tally = self.tally
        pods = f": {tally.summary()}" if tally is not None and len(tally) else ""
        return Pending(f"{self.counts()}{pods}")

    def terminal_verdict(self, needed: int, spare: int = 0) -> Failed | None:
        """Return the verdict if it cannot have that many pods; None while it may.

        Args:
            needed: the number of pods that it must have.
            spare: the number of them that need not become ready.
        """
        ending = self.object.ending()
        if ending is not None:
            return ending
        tally = self.tally
        stuck = (
            None if tally is None else detect_stuck_pods(tally, replicas_of(self.current), spare)
        )
        if stuck is not None:
            return stuck
        there = count_of(self.current, "replicas") if tally is None else tally.count(ALIVE)
        refused = detect_replica_failure(self.current)
        if refused is None or there == needed:
            return None
        return Failed(refused.reason, refused.grace)


class ReadyReplicaSet(_ReplicaSetCondition):
    """A ReplicaSet has exactly its desired pods, all of them ready."""

    def __init__(self, namespace: str, replica_set: str) -> None:
        super().__init__(namespace, replica_set, "have all its pods ready", pods=True)

    def verdict(self) -> Verdict:
        """Decide by the counts of its status, then by its pods."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        replicas = replicas_of(self.current)
        if (
            count_of(self.current, "replicas")
            == count_of(self.current, "readyReplicas")
            == replicas
        ):
            return Met()
        return self.terminal_verdict(replicas) or self.pending()


class AvailableReplicas(_ReplicaSetCondition):
    """An exact number of pods of a ReplicaSet are available; others are ignored.

    Args:
        target: the number of pods.
    """

    def __init__(self, namespace: str, replica_set: str, target: int) -> None:
        goal = f"have exactly {count_noun(target, 'pod')} available"
        super().__init__(namespace, replica_set, goal, pods=True)
        self._target = target

    def verdict(self) -> Verdict:
        """Decide by the count of its status, then by the counts that are still reachable."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        available, replicas = count_of(self.current, "availableReplicas"), replicas_of(self.current)
        if available == self._target:
            return Met(settled=replicas == available and self.object.ending() is None)
        if available > self._target:
            return self.object.ending() or self.pending()
        if replicas < self._target:
            return Failed(f"the replicaset is to have {count_noun(replicas, 'pod')}", Grace.LONG)
        return self._out_of_reach(replicas) or self.pending()

    def _out_of_reach(self, replicas: int) -> Failed | None:
        tally = self.tally
        alive = 0 if tally is None else tally.count(ALIVE)
        # Refused pods do not matter while enough others exist.
        needed = alive if alive >= self._target else replicas
        return self.terminal_verdict(needed, replicas - self._target)


class DesiredReplicas(_ReplicaSetCondition):
    """A ReplicaSet has exactly its desired pods, in any state."""

    def __init__(self, namespace: str, replica_set: str) -> None:
        super().__init__(namespace, replica_set, "have the pods that it is to have", pods=False)

    def verdict(self) -> Verdict:
        """Decide by the count of its status."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        replicas = replicas_of(self.current)
        if count_of(self.current, "replicas") == replicas:
            return Met()
        return self.terminal_verdict(replicas) or self.pending()


class SpecReplicas(_ReplicaSetCondition):
    """A ReplicaSet's desired replicas are `target`, as observed by its controller.

    Args:
        target: the number of pods.
    """

    def __init__(self, namespace: str, replica_set: str, target: int) -> None:
        super().__init__(
            namespace, replica_set, f"get scaled to {count_noun(target, 'replica')}", pods=False
        )
        self._target = target

    def verdict(self) -> Verdict:
        """Decide by its spec; it may be scaled at any time, so this never fails early."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        if replicas_of(self.current) == self._target:
            return Met()
        return self.object.ending() or self.pending()


class ObservedReplicaSet(_ReplicaSetCondition):
    """The controller has observed a generation of a ReplicaSet, and its present one."""

    def __init__(self, namespace: str, replica_set: str, generation: int) -> None:
        goal = f"have generation {generation} observed"
        super().__init__(namespace, replica_set, goal, pods=False)
        self._generation = generation

    def verdict(self) -> Verdict:
        """Decide by the observed generation of its status."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        lag = describe_generation_lag(self.current, self._generation)
        return (self.object.ending() or Pending(lag)) if lag else Met()


@wait(limit="replica_set", kind=REPLICA_SETS, summary="a replica set whose pods are all ready")
def wait_for_ready_replica_set(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicaSet once it has exactly its desired pods, all of them ready.

    With 0 replicas it holds once no pod is left. Upstream does not check the generation of the
    status.

    Raises:
        WaitFailed: pods are stuck or refused, or it was deleted.

    Source: replicaset/wait.go WaitForReadyReplicaSet.
    """
    return ReadyReplicaSet(namespace, name)


@wait(
    limit="replica_set",
    kind=REPLICA_SETS,
    summary="a replica set with an exact number of available pods",
)
def wait_for_replica_set_target_available_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicaSet once exactly `count` of its pods are available.

    A pod is available once it has been ready for `minReadySeconds`. A surplus available pod is as
    wrong as a missing one; other pods may exist.

    Args:
        count: the number of pods; 0 or more.

    Raises:
        WaitFailed: it is to have fewer pods, too many of them are stuck or refused, or it was
            deleted.

    Source: replicaset/wait.go WaitForReplicaSetTargetAvailableReplicas.
    """
    target = check_count("count", count)
    return AvailableReplicas(namespace, name, target)


@wait(
    limit="poll_short",
    kind=REPLICA_SETS,
    summary="a replica set whose spec has an exact number of replicas",
)
def wait_for_replica_set_target_spec_replicas(
    client: ApiClient,
    namespace: str,
    name: str,
    count: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicaSet once its controller has observed the target replicas.

    Pods are ignored.

    Args:
        count: the number in its spec; 0 or more.

    Raises:
        WaitFailed: the ReplicaSet was deleted.

    Source: test/e2e/apps/deployment.go waitForReplicaSetTargetSpecReplicas.
    """
    target = check_count("count", count)
    return SpecReplicas(namespace, name, target)


@wait(
    limit="poll_short",
    kind=REPLICA_SETS,
    summary="a replica set with its desired number of pods",
)
def wait_for_replica_set_desired_replicas(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicaSet once it has exactly its desired pods, in any state.

    Raises:
        WaitFailed: pods are refused, or it was deleted.

    Source: test/e2e/apps/deployment.go waitForReplicaSetDesiredReplicas, and
    test/utils/replicaset.go WaitRSStable.
    """
    return DesiredReplicas(namespace, name)


@wait(
    limit="poll_short",
    kind=REPLICA_SETS,
    summary="a replica set whose controller has observed a generation",
)
def wait_for_observed_replica_set(
    client: ApiClient,
    namespace: str,
    name: str,
    generation: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicaSet once its controller has observed its present generation.

    Args:
        generation: a minimum generation as well, for example from before an update; 1 or
            more.

    Raises:
        WaitFailed: the ReplicaSet was deleted.

    Source: as test/utils/deployment.go WaitForObservedDeployment; upstream asks this of a
    ReplicaSet only beside other things.
    """
    generation = check_count("generation", generation, least=1)
    return ObservedReplicaSet(namespace, name, generation)
