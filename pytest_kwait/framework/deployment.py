"""Conditions and waits on Deployments: complete, updated replicas, revision, rolling bounds.

The status counts only once it is of the present generation; then its revision names the
ReplicaSet of the present pods. Pods of earlier ReplicaSets are removed anyway, so their problems
fail no wait. Upstream's functions compare with an object read by the caller, and end at the first
error of the API; these use the present spec on the server.

Source: kubernetes/test/e2e/framework/deployment/wait.go and kubernetes/test/utils/deployment.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.client.resource import DEPLOYMENTS, REPLICA_SETS
from pytest_kwait.engine.condition import (
    Failed,
    Grace,
    Met,
    ObjectReference,
    ObjectSink,
    Pending,
    Source,
    Verdict,
)
from pytest_kwait.engine.options import WaitOptions, check_count, check_text
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.workloads import (
    detect_paused,
    detect_progress_deadline_exceeded,
    detect_replica_failure,
    detect_replica_set_refusal,
)
from pytest_kwait.framework.workload.conditions import (
    ALIVE,
    OwnedPods,
    WorkloadCondition,
    detect_stuck_pods,
)
from pytest_kwait.framework.workload.fields import (
    Bounds,
    DeploymentFields,
    ReplicaSetFields,
    count_of,
    describe_generation_lag,
    desired_replicas_annotation_of,
    images_of,
    least_available,
    replicas_of,
    revision_of,
    rolling_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.engine.object_sinks import ObjectCounter
    from pytest_kwait.framework.registry import ConditionOf

_CONDITIONS = ("Available", "Progressing", "ReplicaFailure")


class ReplicaSetStore(ObjectSink):
    """Store of ReplicaSets of any owner."""

    def __init__(self) -> None:
        self._sets: dict[str, dict[str, Any]] = {}
        self.changes = 0
        """The number of changes seen."""

    def put(self, obj: dict[str, Any], raw: bytes, now: float) -> None:
        """Store a ReplicaSet."""
        self._sets[obj["metadata"].get("uid") or obj["metadata"]["name"]] = obj
        self.changes += 1

    def drop(self, uid: str) -> None:
        """Forget a ReplicaSet; no-op if not known."""
        self._sets.pop(uid, None)
        self.changes += 1

    def uids(self) -> Collection[str]:
        """Return the UIDs of the stored ReplicaSets."""
        return self._sets.keys()

    def of(self, owner: str) -> list[dict[str, Any]]:
        """Return the ReplicaSets controlled by the object of this UID."""
        return [obj for obj in self._sets.values() if controller_uid(obj) == owner]


class _OwnedReplicaSets(NamedTuple):
    """The ReplicaSets of a Deployment.

    Args:
        current: the one of its revision; None while there is none.
        others: those of other revisions.
    """

    current: dict[str, Any] | None
    others: Sequence[dict[str, Any]]


class DeploymentCondition(WorkloadCondition):
    """Base of the conditions on a Deployment, its ReplicaSets and pods.

    Args:
        goal: the awaited state, as a verb phrase.
        sets: whether its ReplicaSets are watched.
        pods: whether its pods are watched; requires `sets`.
        what: the argument that held the name, for messages.
    """

    def __init__(
        self,
        namespace: str,
        deployment: str,
        goal: str,
        *,
        sets: bool = True,
        pods: bool = True,
        what: str = "deployment",
    ) -> None:
        book = OwnedPods() if pods else None
        super().__init__(DEPLOYMENTS, namespace, deployment, goal, DeploymentFields, book, what)
        self.sets = ReplicaSetStore() if sets else None
        self._family_of = (-1, -1)
        self._family = _OwnedReplicaSets(None, ())

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the sources of the ReplicaSets and pods, if watched."""
        if self.sets is None:
            return ()
        book = self.sets
        source = Source(
            REPLICA_SETS, self.namespace, book, selector=selector, fields=ReplicaSetFields
        )
        return (source, *super().owned(selector))

    @property
    def family(self) -> _OwnedReplicaSets:
        """Its ReplicaSets, computed once per change of it or of one of them."""
        if self.sets is None or self.object.current is None:
            return _OwnedReplicaSets(None, ())
        changes = (self.object.changes, self.sets.changes)
        if changes != self._family_of:
            self._family_of = changes
            revision, current, other_sets = revision_of(self.current), None, []
            for replica_set in self.sets.of(self.object.uid):
                if current is None and revision and revision_of(replica_set) == revision:
                    current = replica_set
                else:
                    other_sets.append(replica_set)
            self._family = _OwnedReplicaSets(current, other_sets)
        return self._family

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods of its present ReplicaSet; None while there is none."""
        current = self.family.current
        if self.pods is None or current is None:
            return None
        return self.pods.of(current["metadata"].get("uid") or "")

    def summarize(self) -> str:
        """Return a summary of its counts and the pods of its present ReplicaSet."""
        if self.object.current is None:
            return ""
        tally, current = self.tally, self.family.current
        if tally is None or current is None:
            return self.counts()
        pods = tally.summary() or "none"
        return f"{self.counts()}; pods of replicaset {current['metadata']['name']}: {pods}"

    def counts(self) -> str:
        """Return the counts of its status, with the desired ones."""
        return (
            f"{replicas_of(self.current)} wanted: {count_of(self.current, 'replicas')} there, "
            f"{count_of(self.current, 'updatedReplicas')} updated, "
            f"{count_of(self.current, 'availableReplicas')} available"
        )

    def intermediate_objects(self) -> tuple[ObjectReference, ...]:
        """Return its present ReplicaSet: refused pods are events of it."""
        current = self.family.current
        if current is None:
            return ()
        name, uid = current["metadata"]["name"], current["metadata"].get("uid") or ""
        return (ObjectReference(REPLICA_SETS.kind, name, uid, REPLICA_SETS.qualified),)

    def stale_status_verdict(self) -> Pending | Failed | None:
        """Return the verdict while its status is of an older generation; else None."""
        verdict = super().stale_status_verdict()
        if isinstance(verdict, Pending) and self.object.current is not None:
            refused = detect_replica_set_refusal(self.current)
            if refused is not None:
                return Failed(refused.reason, refused.grace)
        return verdict

    def terminal_verdict(self, stuck: Failed | None, late: Failed | None = None) -> Failed | None:
        """Return the verdict if its rollout cannot finish; None while it may.

        Args:
            stuck: the verdict by its pods.
            late: the verdict by its progress deadline, if the caller has its own.
        """
        ending = self.object.ending()
        paused = detect_paused(self.current)
        if ending is not None or paused is not None:
            # Pods stuck while it is paused may be of the earlier spec.
            return ending or (Failed(paused.reason, paused.grace) if paused else None)
        cause = stuck or self._refusal()
        missed = detect_progress_deadline_exceeded(self.current)
        if late is None and missed is not None:
            late = Failed(missed.reason, missed.grace)
        if late is None or (cause is not None and cause.grace is Grace.SHORT):
            return cause
        why = f" ({cause.reason})" if cause is not None else ""
        return Failed(f"{late.reason}{why}", late.grace)

    def stuck(self, spare: int = 0) -> Failed | None:
        """Return the verdict if too many pods of its present ReplicaSet are stuck.

        None while enough may still come.

        Args:
            spare: the number of pods that need not come.
        """
        tally = self.tally
        return None if tally is None else detect_stuck_pods(tally, replicas_of(self.current), spare)

    def stuck_below(self, least: int) -> Failed | None:
        """Return the verdict if fewer than `least` pods can be available; else None.

        Pods of earlier ReplicaSets may be available as well.
        """
        if self.pods is None:
            return None
        older = sum(
            self.pods.of(replica_set["metadata"].get("uid") or "").count(ALIVE)
            for replica_set in self.family.others
        )
        return self.stuck(replicas_of(self.current) - least + older)

    def _refusal(self) -> Failed | None:
        current = self.family.current
        if current is None or replicas_of(self.current) < 1:
            return None
        terminal = detect_replica_failure(current)
        if terminal is None:
            return None
        return Failed(
            f"replicaset {current['metadata']['name']}: {terminal.reason}", terminal.grace
        )


class DeploymentComplete(DeploymentCondition):
    """All pods of a Deployment are updated and available, and no others exist.

    Args:
        goal: the awaited state, as a verb phrase.
    """

    def __init__(self, namespace: str, deployment: str, goal: str = "become complete") -> None:
        super().__init__(namespace, deployment, goal)

    def verdict(self) -> Verdict:
        """Decide by the counts of its status, then by the failures that block them."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        replicas = replicas_of(self.current)
        names = ("replicas", "updatedReplicas", "availableReplicas")
        if all(count_of(self.current, name) == replicas for name in names):
            return Met()
        tally = self.tally
        pods = f": {tally.summary()}" if tally is not None and len(tally) else ""
        return self.terminal_verdict(self.stuck()) or Pending(f"{self.counts()}{pods}")


class AvailableDeployment(DeploymentCondition):
    """A number of pods in the status of a Deployment becomes exactly `count`.

    Args:
        field: `readyReplicas` or `availableReplicas`.
        count: the awaited number; 1 or more.
    """

    def __init__(self, namespace: str, deployment: str, field: str, count: int) -> None:
        super().__init__(namespace, deployment, f"have status.{field} {count}")
        self._field = field
        self._wanted = count

    def verdict(self) -> Verdict:
        """Decide by the status, then by the pods that cannot become available."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        number, replicas = count_of(self.current, self._field), replicas_of(self.current)
        if number == self._wanted:
            return Met()
        failed = self.object.ending()
        if failed is None and number < self._wanted <= replicas:
            failed = self.stuck_below(self._wanted)
        return failed or Pending(f"status.{self._field} is {number}")


class UpdatedReplicas(DeploymentCondition):
    """At least `least` pods of a Deployment are updated; they need not run.

    Args:
        least: the minimum number.
        generation: the minimum observed generation.
    """

    def __init__(self, namespace: str, deployment: str, least: int, generation: int) -> None:
        super().__init__(namespace, deployment, f"have {least} or more pods updated")
        self._least = least
        self._generation = generation

    def verdict(self) -> Verdict:
        """Decide by the count of its status, then by whether it can still grow."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        lag = describe_generation_lag(self.current, self._generation)
        if lag:
            return self.object.ending() or Pending(lag)
        updated, replicas = count_of(self.current, "updatedReplicas"), replicas_of(self.current)
        if updated >= self._least:
            return Met()
        if replicas < self._least:
            return Failed(f"the deployment is to have {count_noun(replicas, 'pod')}", Grace.LONG)
        return self.terminal_verdict(self._all_stuck()) or Pending(
            f"{updated} of {self._least} updated, {count_of(self.current, 'replicas')} there"
        )

    def _all_stuck(self) -> Failed | None:
        # As existing pods become available more are created: one that may is enough to go on.
        tally = self.tally
        alive = 0 if tally is None else tally.count(ALIVE)
        return None if tally is None else detect_stuck_pods(tally, alive, alive - 1)


class BoundedRollingUpdate(DeploymentComplete):
    """A Deployment becomes complete within the bounds of its rolling update.

    At no step may there be too many pods or too few available. Each bound applies once it has first
    held under the present replicas and strategy, so a Deployment that was just created or scaled
    does not break it.
    """

    def __init__(self, namespace: str, deployment: str) -> None:
        super().__init__(
            namespace, deployment, "become complete within the bounds of its rolling update"
        )
        self._bounds: tuple[int, Bounds] | None = None
        self._enough = self._few = False
        self._broken: Failed | None = None
        self._held_of = (-1, -1)

    def verdict(self) -> Verdict:
        """Decide by the bounds, then as `DeploymentComplete` does."""
        # Pods change often; the objects compared with the bounds change rarely.
        changes = (self.object.changes, 0 if self.sets is None else self.sets.changes)
        if (
            self._broken is None
            and changes != self._held_of
            and self.stale_status_verdict() is None
        ):
            self._held_of = changes
            self._broken = self._step()
        return self.object.missing_verdict() or self._broken or super().verdict()

    def _step(self) -> Failed | None:
        """Compare the present counts with the bounds; return the verdict if one is broken."""
        replicas, bounds = replicas_of(self.current), rolling_bounds(self.current)
        if self._bounds != (replicas, bounds):
            self._bounds = (replicas, bounds)
            self._enough = self._few = False
        available = count_of(self.current, "availableReplicas")
        if available >= bounds.least:
            self._enough = True
        elif self._enough:
            noun = "pod is" if available == 1 else "pods are"
            return Failed(f"{available} {noun} available, {bounds.least} must be at every step")
        return self._too_many(bounds.most)

    def _too_many(self, most: int) -> Failed | None:
        """Return the verdict by the desired counts of the ReplicaSets, as upstream.

        Pods take a while to go, so they are not counted. The Deployment and its ReplicaSets come
        over separate connections, so one of them may lag: the highest of their desired maximums
        applies.
        """
        made = 0
        for replica_set in (*self.family.others, self.family.current):
            share = 0 if replica_set is None else replicas_of(replica_set)
            if replica_set is None or not share:
                continue
            made += share
            most = max(most, desired_replicas_annotation_of(replica_set))
        if made <= most:
            self._few = True
        elif self._few:
            return Failed(f"{made} pods are made, {most} may be at every step")
        return None


class ObservedDeployment(DeploymentCondition):
    """The controller has observed a generation of a Deployment, and its present one."""

    def __init__(self, namespace: str, deployment: str, generation: int) -> None:
        self._generation = check_count("generation", generation, least=1)
        goal = f"have generation {generation} observed"
        super().__init__(namespace, deployment, goal, sets=False, pods=False)

    def verdict(self) -> Verdict:
        """Decide by the observed generation of its status."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        lag = describe_generation_lag(self.current, self._generation)
        return (self.object.ending() or Pending(lag)) if lag else Met()


class RevisionAndImage(DeploymentCondition):
    """A Deployment and the ReplicaSet of its revision have a revision and an image.

    Args:
        revision: the revision, a number from 1 on.
        image: the image that a container must have in both.
    """

    def __init__(self, namespace: str, deployment: str, revision: int | str, image: str) -> None:
        number: object = revision
        if isinstance(number, str) and number.isdecimal():
            number = int(number)
        self._revision = check_count("revision", number, least=1)
        self._image = check_text("image", image)
        goal = f"reach revision {self._revision} with image {image}"
        super().__init__(namespace, deployment, goal, pods=False)

    def verdict(self) -> Verdict:
        """Decide by the Deployment, then by its ReplicaSet."""
        before = self.stale_status_verdict()
        if before is not None:
            return before
        missing = self._missing()
        if missing is None:
            return Met()
        paused = detect_paused(self.current)
        if paused is not None and isinstance(missing, Pending):
            missing = Failed(paused.reason, paused.grace)
        return self.object.ending() or missing

    def _missing(self) -> Pending | Failed | None:
        images, revision = images_of(self.current), revision_of(self.current)
        if revision.isdecimal() and int(revision) > self._revision:
            # Revisions only grow, so a later one never becomes the awaited one.
            return Failed(f"the deployment is at revision {revision} already", Grace.SHORT)
        if revision != str(self._revision):
            return Pending(f"the deployment is at revision {revision or 'none'}")
        if self._image not in images:
            return Pending(f"the deployment has image {', '.join(images) or 'none'}")
        current = self.family.current
        if current is None:
            return Pending(f"no replicaset of revision {revision} yet")
        labels = current["metadata"].get("labels") or {}
        name, images = f"replicaset {current['metadata']['name']}", images_of(current)
        if "pod-template-hash" not in labels:
            return Pending(f"{name} has no label pod-template-hash")
        if self._image not in images:
            return Pending(f"{name} has image {', '.join(images) or 'none'}")
        return None

    def summarize(self) -> str:
        """Return its revision and its images."""
        if self.object.current is None:
            return ""
        current, images = self.family.current, ", ".join(images_of(self.current)) or "no image"
        replica_set_text = (
            f", made by {REPLICA_SETS.singular} {current['metadata']['name']}" if current else ""
        )
        return f"revision {revision_of(self.current) or 'none'} with {images}{replica_set_text}"


class ConditionReason(DeploymentCondition):
    """A condition of a Deployment has a reason, whatever its status.

    Args:
        condition: the type of the condition.
    """

    def __init__(self, namespace: str, deployment: str, reason: str, condition: str) -> None:
        self._reason = check_text("reason", reason)
        if condition not in _CONDITIONS:
            valid = " or ".join(map(repr, _CONDITIONS))
            raise InvalidArgument("condition", condition, f"use {valid}")
        self._condition = condition
        # Pods matter only for these reasons.
        self._rolled_out = (condition, reason) == ("Progressing", "NewReplicaSetAvailable")
        self._available = (condition, reason) == ("Available", "MinimumReplicasAvailable")
        looks = self._rolled_out or self._available
        goal = f"have condition {condition} with reason {reason}"
        super().__init__(namespace, deployment, goal, sets=looks, pods=looks)

    def verdict(self) -> Verdict:
        """Decide by the condition, then by the failures that block it."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        condition = get_condition(self.current, self._condition)
        reason = None if condition is None else condition.get("reason")
        # A refused ReplicaSet is reported before the generation counts as observed.
        if reason == self._reason == "ReplicaSetCreateError":
            return Met()
        before = self.stale_status_verdict()
        if before is not None:
            return before
        if condition is None:
            return self._hindered() or Pending(f"there is no condition {self._condition} yet")
        if reason == self._reason:
            return Met()
        why = f"with reason {reason}" if reason else "without reason"
        pending = Pending(f"{self._condition} is {condition.get('status')} {why}")
        return self._hindered() or pending

    def _hindered(self) -> Failed | None:
        if self._rolled_out:
            return self.terminal_verdict(self.stuck())
        ending = self.object.ending()
        if ending is not None:
            return ending
        if self._available:
            return self.stuck_below(least_available(self.current))
        if self._reason == "ProgressDeadlineExceeded" and not self._deadline:
            return Failed("the deployment has no progress deadline", Grace.LONG)
        return None

    @property
    def _deadline(self) -> bool:
        # The largest int32 means none. Source: deployment_util.go HasProgressDeadline.
        return self.object.spec.get("progressDeadlineSeconds") not in (None, 2**31 - 1)

    def summarize(self) -> str:
        """Return a summary of its conditions."""
        if self.object.current is None:
            return ""
        conditions = self.object.status.get("conditions") or ()
        parts = [
            f"{condition.get('type')} {condition.get('status')}"
            + (f" ({condition['reason']})" if condition.get("reason") else "")
            for condition in conditions
        ]
        text = ", ".join(parts) or "no conditions"
        return f"{text}; {count_of(self.current, 'availableReplicas')} available"


@wait(
    limit="deployment",
    kind=DEPLOYMENTS,
    summary="a deployment whose pods are all updated and available",
)
def wait_for_deployment_complete(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once exactly its replicas exist, all updated and available.

    With 0 replicas it holds once no pod is left. Upstream does not detect failures. A pod without a
    readiness probe is available as soon as its container runs, even if that is about to crash:
    `stable_for`, or `minReadySeconds` of the Deployment, tells them apart.

    Raises:
        WaitFailed: its progress deadline was missed, pods of its present ReplicaSet are stuck or
            refused, it stays paused, or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentComplete, and
    pkg/controller/deployment/util/deployment_util.go DeploymentComplete.
    """
    return DeploymentComplete(namespace, name)


@wait(
    limit="deployment",
    kind=DEPLOYMENTS,
    summary="a complete deployment, within the bounds of its rolling update at every step",
)
def wait_for_deployment_complete_and_check_rolling(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a complete Deployment that kept the bounds of its strategy throughout.

    At every step its ReplicaSets must be scaled to at most the replicas plus `maxSurge`, and at
    least the replicas minus `maxUnavailable` must be available. Upstream polls every 2 s, and fails
    on a Deployment that was just created or scaled; here a bound applies once it has first held
    under the present replicas and strategy.

    Raises:
        WaitFailed: there were too many pods, or too few available; or it can no longer become
            complete, as for `wait_for_deployment_complete`.

    Source: test/utils/deployment.go WaitForDeploymentCompleteAndCheckRolling.
    """
    return BoundedRollingUpdate(namespace, name)


@wait(
    limit="deployment",
    kind=DEPLOYMENTS,
    summary="a deployment and its replica set at a revision, with an image",
)
def wait_for_deployment_revision_and_image(
    client: ApiClient,
    namespace: str,
    name: str,
    revision: int | str,
    image: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once it and its present ReplicaSet have a revision and image.

    Pods are ignored. Upstream finds the present ReplicaSet by its template; here it is the one that
    the Deployment controls with the Deployment's revision.

    Args:
        revision: the number that both are annotated with; 1 or more.
        image: the image that one of the containers has in both, exactly as written there.

    Raises:
        WaitFailed: the Deployment is past the revision, stays paused, or was deleted.

    Source: test/utils/deployment.go WaitForDeploymentRevisionAndImage.
    """
    return RevisionAndImage(namespace, name, revision, image)


@wait(limit="deployment", kind=DEPLOYMENTS, summary="a deployment with enough updated pods")
def wait_for_deployment_updated_replicas_gte(
    client: ApiClient,
    namespace: str,
    name: str,
    min_count: int,
    generation: int | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once at least `min_count` of its pods are updated.

    They need not run. Upstream's message reads a Deployment that it may never have received.

    Args:
        min_count: the minimum number; 0 or more.
        generation: the minimum observed generation, 1 or more; None for the one on the server.

    Raises:
        WaitFailed: it is to have fewer pods, its progress deadline was missed, pods are refused,
            all existing pods are stuck, it stays paused, or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentUpdatedReplicasGTE.
    """
    least = check_count("min_count", min_count)
    observed = 1 if generation is None else check_count("generation", generation, least=1)
    return UpdatedReplicas(namespace, name, least, observed)


@wait(
    limit="deployment", kind=DEPLOYMENTS, summary="a deployment with a condition that has a reason"
)
def wait_for_deployment_with_condition(
    client: ApiClient,
    namespace: str,
    name: str,
    reason: str,
    condition: str,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once one of its conditions has a reason, whatever its status.

    As upstream the reason alone decides; `wait_for` takes `condition=Available` for the status.
    Unlike upstream, a status of an older generation does not count.

    Args:
        reason: the reason, for example `NewReplicaSetAvailable` or `ProgressDeadlineExceeded`.
        condition: `Available`, `Progressing` or `ReplicaFailure`.

    Raises:
        WaitFailed: it is to be available, or its new ReplicaSet, and pods are stuck; it has no
            progress deadline to be exceeded; or it was deleted.

    Source: test/utils/deployment.go WaitForDeploymentWithCondition.
    """
    return ConditionReason(namespace, name, reason, condition)


@wait(
    limit="deployment_short",
    kind=DEPLOYMENTS,
    summary="a deployment whose controller has observed a generation",
)
def wait_for_observed_deployment(
    client: ApiClient,
    namespace: str,
    name: str,
    generation: int,
    **options: Unpack[WaitOptions],
) -> ConditionOf[dict[str, Any]]:
    """Return a Deployment once its controller has observed its present generation.

    Args:
        generation: a minimum generation as well, for example from before an update; 1 or
            more.

    Raises:
        WaitFailed: the Deployment was deleted.

    Source: test/utils/deployment.go WaitForObservedDeployment.
    """
    return ObservedDeployment(namespace, name, generation)
