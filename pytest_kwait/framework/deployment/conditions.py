"""Conditions on a Deployment: complete, updated replicas, revision, rolling bounds.

Its status counts only once it is of the present generation; then its revision names the
ReplicaSet of the present pods. Pods of earlier ReplicaSets are removed anyway, so their problems
fail no wait. `RollingUpdate` checks at every step that the bounds of the strategy hold.

Source: kubernetes/test/utils/deployment.go checkRollingUpdateStatus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.conditions import get_condition
from pytest_kwait.client.resource import DEPLOYMENTS, REPLICA_SETS
from pytest_kwait.engine.condition import ObjectReference, Source
from pytest_kwait.engine.options import check_count, check_text
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid
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
    judge_stuck_pods,
)
from pytest_kwait.framework.workload.fields import (
    Bounds,
    DeploymentFields,
    ReplicaSetFields,
    count_of,
    describe_generation_lag,
    desired_replicas_annotation_of,
    images_of,
    replicas_of,
    revision_of,
    rolling_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kwait.engine.object_counter import ObjectCounter

__all__ = [
    "ConditionReason",
    "DeploymentComplete",
    "DeploymentCondition",
    "ObservedDeployment",
    "ReplicaSetStore",
    "RevisionAndImage",
    "RollingUpdate",
    "UpdatedReplicas",
]


class ReplicaSetStore:
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
        if self.sets is None or self.workload.current is None:
            return _OwnedReplicaSets(None, ())
        seen = (self.workload.changes, self.sets.changes)
        if seen != self._family_of:
            self._family_of = seen
            revision, current, others = revision_of(self.current), None, []
            for each in self.sets.of(self.workload.uid):
                if current is None and revision and revision_of(each) == revision:
                    current = each
                else:
                    others.append(each)
            self._family = _OwnedReplicaSets(current, others)
        return self._family

    @property
    def tally(self) -> ObjectCounter | None:
        """The pods of its present ReplicaSet; None while there is none."""
        current = self.family.current
        if self.pods is None or current is None:
            return None
        return self.pods.of(current["metadata"].get("uid") or "")

    def seen(self) -> str:
        """Return a summary of its counts and the pods of its present ReplicaSet."""
        if self.workload.current is None:
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
        if isinstance(verdict, Pending) and self.workload.current is not None:
            refused = detect_replica_set_refusal(self.current)
            if refused is not None:
                return Failed(refused.reason, refused.patience)
        return verdict

    def terminal_verdict(self, stuck: Failed | None, late: Failed | None = None) -> Failed | None:
        """Return the verdict if its rollout cannot finish; None while it may.

        Args:
            stuck: the verdict by its pods.
            late: the verdict by its progress deadline, if the caller has its own.
        """
        ending = self.workload.ending()
        paused = detect_paused(self.current)
        if ending is not None or paused is not None:
            # Pods stuck while it is paused may be of the earlier spec.
            return ending or (Failed(paused.reason, paused.patience) if paused else None)
        cause = stuck or self._refusal()
        missed = detect_progress_deadline_exceeded(self.current)
        if late is None and missed is not None:
            late = Failed(missed.reason, missed.patience)
        if late is None or (cause is not None and cause.patience is Patience.SHORT):
            return cause
        why = f" ({cause.reason})" if cause is not None else ""
        return Failed(f"{late.reason}{why}", late.patience)

    def stuck(self, spare: int = 0) -> Failed | None:
        """Return the verdict if too many pods of its present ReplicaSet are stuck.

        None while enough may still come.

        Args:
            spare: the number of pods that need not come.
        """
        tally = self.tally
        return None if tally is None else judge_stuck_pods(tally, replicas_of(self.current), spare)

    def _refusal(self) -> Failed | None:
        current = self.family.current
        if current is None or replicas_of(self.current) < 1:
            return None
        doom = detect_replica_failure(current)
        if doom is None:
            return None
        return Failed(f"replicaset {current['metadata']['name']}: {doom.reason}", doom.patience)


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
        wanted = replicas_of(self.current)
        names = ("replicas", "updatedReplicas", "availableReplicas")
        if all(count_of(self.current, name) == wanted for name in names):
            return Met()
        tally = self.tally
        pods = f": {tally.summary()}" if tally is not None and len(tally) else ""
        return self.terminal_verdict(self.stuck()) or Pending(f"{self.counts()}{pods}")


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
            return self.workload.ending() or Pending(lag)
        updated, wanted = count_of(self.current, "updatedReplicas"), replicas_of(self.current)
        if updated >= self._least:
            return Met()
        if wanted < self._least:
            noun = "pod" if wanted == 1 else "pods"
            return Failed(f"the deployment is to have {wanted} {noun}", Patience.LONG)
        return self.terminal_verdict(self._all_stuck()) or Pending(
            f"{updated} of {self._least} updated, {count_of(self.current, 'replicas')} there"
        )

    def _all_stuck(self) -> Failed | None:
        # As existing pods become available more are created: one that may is enough to go on.
        tally = self.tally
        alive = 0 if tally is None else tally.count(ALIVE)
        return None if tally is None else judge_stuck_pods(tally, alive, alive - 1)


class RollingUpdate(DeploymentComplete):
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
        seen = (self.workload.changes, 0 if self.sets is None else self.sets.changes)
        if self._broken is None and seen != self._held_of and self.stale_status_verdict() is None:
            self._held_of = seen
            self._broken = self._step()
        return self.workload.missing_verdict() or self._broken or super().verdict()

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


_CONDITIONS = ("Available", "Progressing", "ReplicaFailure")


class ObservedDeployment(DeploymentCondition):
    """The controller has observed a generation of a Deployment, and its present one."""

    def __init__(self, namespace: str, deployment: str, generation: int) -> None:
        self._generation = check_count("desired_generation", generation, least=1)
        goal = f"have generation {generation} observed"
        super().__init__(namespace, deployment, goal, sets=False, pods=False)

    def verdict(self) -> Verdict:
        """Decide by the observed generation of its status."""
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        lag = describe_generation_lag(self.current, self._generation)
        return (self.workload.ending() or Pending(lag)) if lag else Met()


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
            missing = Failed(paused.reason, paused.patience)
        return self.workload.ending() or missing

    def _missing(self) -> Pending | Failed | None:
        images, revision = images_of(self.current), revision_of(self.current)
        if revision.isdecimal() and int(revision) > self._revision:
            # Revisions only grow, so a later one never becomes the awaited one.
            return Failed(f"the deployment is at revision {revision} already", Patience.SHORT)
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

    def seen(self) -> str:
        """Return its revision and its images."""
        if self.workload.current is None:
            return ""
        current, images = self.family.current, ", ".join(images_of(self.current)) or "no image"
        kept = f", made by {REPLICA_SETS.singular} {current['metadata']['name']}" if current else ""
        return f"revision {revision_of(self.current) or 'none'} with {images}{kept}"


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
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        found = get_condition(self.current, self._condition)
        reason = None if found is None else found.get("reason")
        # A refused ReplicaSet is reported before the generation counts as observed.
        if reason == self._reason == "ReplicaSetCreateError":
            return Met()
        before = self.stale_status_verdict()
        if before is not None:
            return before
        if found is None:
            return self._hindered() or Pending(f"there is no condition {self._condition} yet")
        if reason == self._reason:
            return Met()
        why = f"with reason {reason}" if reason else "without reason"
        pending = Pending(f"{self._condition} is {found.get('status')} {why}")
        return self._hindered() or pending

    def _hindered(self) -> Failed | None:
        if self._rolled_out:
            return self.terminal_verdict(self.stuck())
        ending = self.workload.ending()
        if ending is not None:
            return ending
        if self._available:
            return self._unavailable()
        if self._reason == "ProgressDeadlineExceeded" and not self._deadline:
            return Failed("the deployment has no progress deadline", Patience.LONG)
        return None

    @property
    def _deadline(self) -> bool:
        # The largest int32 means none. Source: deployment_util.go HasProgressDeadline.
        return self.workload.spec.get("progressDeadlineSeconds") not in (None, 2**31 - 1)

    def _unavailable(self) -> Failed | None:
        """Return the verdict if too few pods can be available, earlier ReplicaSets included."""
        if self.pods is None:
            return None
        older = sum(
            self.pods.of(each["metadata"].get("uid") or "").count(ALIVE)
            for each in self.family.others
        )
        allowed = replicas_of(self.current) - rolling_bounds(self.current).least
        return self.stuck(allowed + older)

    def seen(self) -> str:
        """Return a summary of its conditions."""
        if self.workload.current is None:
            return ""
        told = self.workload.status.get("conditions") or ()
        parts = [
            f"{each.get('type')} {each.get('status')}"
            + (f" ({each['reason']})" if each.get("reason") else "")
            for each in told
        ]
        text = ", ".join(parts) or "no conditions"
        return f"{text}; {count_of(self.current, 'availableReplicas')} available"
