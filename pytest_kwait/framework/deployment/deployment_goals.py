"""What else can be awaited of a Deployment: a generation observed, a revision, a condition."""

from __future__ import annotations

from pytest_kwait.client.resource import REPLICA_SETS
from pytest_kwait.engine.options import check_count
from pytest_kwait.engine.verdicts import Failed, Met, Patience, Pending, Verdict
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.framework.deployment.conditions import DeploymentCondition
from pytest_kwait.framework.pod.pod_conditions import check_text_argument
from pytest_kwait.framework.terminal_states.workloads import detect_paused
from pytest_kwait.framework.workload.fields import (
    condition_of,
    count_of,
    describe_generation_lag,
    images_of,
    replicas_of,
    revision_of,
    rolling_bounds,
)
from pytest_kwait.framework.workload.owned_pods import ALIVE

__all__ = ["ConditionReason", "ObservedDeployment", "RevisionAndImage"]

_CONDITIONS = ("Available", "Progressing", "ReplicaFailure")


class ObservedDeployment(DeploymentCondition):
    """A generation of a Deployment, and its present one, have been seen by its controller.

    Args:
        namespace: where it is.
        deployment: its name.
        generation: the generation.

    Raises:
        InvalidArgument: a name or a generation that cannot be one.
    """

    def __init__(self, namespace: str, deployment: str, generation: int) -> None:
        self._generation = check_count("desired_generation", generation, least=1)
        goal = f"have generation {generation} observed"
        super().__init__(namespace, deployment, goal, sets=False, pods=False)

    def verdict(self) -> Verdict:
        """Judge by the generation that its status is of."""
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        lag = describe_generation_lag(self.current, self._generation)
        return (self.workload.ending() or Pending(lag)) if lag else Met()


class RevisionAndImage(DeploymentCondition):
    """A Deployment and the ReplicaSet of its revision have a revision and an image.

    Args:
        namespace: where it is.
        deployment: its name.
        revision: the revision, a number from 1 on.
        image: the image that a container must have in both.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """

    def __init__(self, namespace: str, deployment: str, revision: int | str, image: str) -> None:
        number: object = revision
        if isinstance(number, str) and number.isdecimal():
            number = int(number)
        self._revision = check_count("revision", number, least=1)
        self._image = check_text_argument("image", image)
        goal = f"reach revision {self._revision} with image {image}"
        super().__init__(namespace, deployment, goal, pods=False)

    def verdict(self) -> Verdict:
        """Judge by the Deployment, then by its ReplicaSet."""
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
            # Revisions only grow; another one is not the awaited one.
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
        """Say at which revision it is, with which images."""
        if self.workload.current is None:
            return ""
        current, images = self.family.current, ", ".join(images_of(self.current)) or "no image"
        kept = f", made by {REPLICA_SETS.singular} {current['metadata']['name']}" if current else ""
        return f"revision {revision_of(self.current) or 'none'} with {images}{kept}"


class ConditionReason(DeploymentCondition):
    """A condition of a Deployment has a reason, whether it is True or not.

    Args:
        namespace: where it is.
        deployment: its name.
        reason: the reason.
        condition: the type of the condition.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """

    def __init__(self, namespace: str, deployment: str, reason: str, condition: str) -> None:
        self._reason = check_text_argument("reason", reason)
        if condition not in _CONDITIONS:
            valid = " or ".join(map(repr, _CONDITIONS))
            raise InvalidArgument("condition", condition, f"use {valid}")
        self._condition = condition
        # Only for these does it matter how its pods do.
        self._rolled_out = (condition, reason) == ("Progressing", "NewReplicaSetAvailable")
        self._available = (condition, reason) == ("Available", "MinimumReplicasAvailable")
        looks = self._rolled_out or self._available
        goal = f"have condition {condition} with reason {reason}"
        super().__init__(namespace, deployment, goal, sets=looks, pods=looks)

    def verdict(self) -> Verdict:
        """Judge by the condition, then by what keeps it from coming."""
        absent = self.workload.missing_verdict()
        if absent is not None:
            return absent
        found = condition_of(self.current, self._condition)
        reason = None if found is None else found.get("reason")
        # That no ReplicaSet can be made is said before the generation counts as observed.
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
        # The largest number there is means none. Source: deployment_util.go HasProgressDeadline.
        return self.workload.spec.get("progressDeadlineSeconds") not in (None, 2**31 - 1)

    def _unavailable(self) -> Failed | None:
        """Judge by whether pods enough can be available, those of earlier ReplicaSets included."""
        if self.pods is None:
            return None
        older = sum(
            self.pods.of(each["metadata"].get("uid") or "").count(ALIVE)
            for each in self.family.others
        )
        allowed = replicas_of(self.current) - rolling_bounds(self.current).least
        return self.stuck(allowed + older)

    def seen(self) -> str:
        """Sum up its conditions."""
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
