"""A Deployment that is updated without ever leaving the bounds of its strategy.

Source: kubernetes/test/utils/deployment.go checkRollingUpdateStatus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.engine.verdicts import Failed
from pytest_kwait.framework.deployment.conditions import DeploymentComplete
from pytest_kwait.framework.workload.fields import (
    Bounds,
    count_of,
    desired_replicas_annotation_of,
    replicas_of,
    rolling_bounds,
)

if TYPE_CHECKING:
    from pytest_kwait.engine.verdicts import Verdict

__all__ = ["RollingUpdate"]


class RollingUpdate(DeploymentComplete):
    """A Deployment becomes complete, and at no step has too many pods or too few available.

    Each bound counts from the moment that it first holds under the present replicas and strategy:
    a Deployment that was just made, or scaled, has not broken what it has not reached yet.

    Args:
        namespace: where it is.
        deployment: its name.

    Raises:
        InvalidArgument: a name that cannot be one.
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
        """Judge by the bounds, then as one that becomes complete."""
        # There is an event for every pod's change, and few for what is held against the bounds.
        seen = (self.workload.changes, 0 if self.sets is None else self.sets.changes)
        if self._broken is None and seen != self._held_of and self.stale_status_verdict() is None:
            self._held_of = seen
            self._broken = self._step()
        return self.workload.missing_verdict() or self._broken or super().verdict()

    def _step(self) -> Failed | None:
        """Hold what is there now against the bounds; return the verdict where one is broken."""
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
        """Judge by what the ReplicaSets are to have, as upstream: a pod takes a while to go.

        The Deployment and its ReplicaSets come over connections of their own, so one of them may
        be seen late: what counts is the most that one of them was scaled for.
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
