"""What a blocking rolling update waits for: as many pods again, or each one's ready successor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from pytest_kwait.client.resource import DEPLOYMENTS, PODS
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import Source
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.engine.verdicts import Failed, Met, Pending, Verdict
from pytest_kwait.framework.pod.fields import (
    PodFields,
    controller_uid,
    is_finished,
    is_terminating,
    phase_label,
)
from pytest_kwait.framework.pod.list_conditions import SetPodFields, is_running_and_ready
from pytest_kwait.framework.terminal_states.pods import detect_owned_pod_failure
from pytest_kwait.framework.terminal_states.replica_failures import detect_replica_failure
from pytest_kwait.framework.workload.conditions import WorkloadCondition, judge_stuck_pods
from pytest_kwait.framework.workload.owned_pods import ALIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_kwait.client.resource import Resource

__all__ = ["PodsRestored", "ReplacementsReady", "is_owned_or_orphan"]

_BACK, _READY = "back", "ready"


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None


def is_owned_or_orphan(pod: dict[str, Any], resource: Resource, uid: str) -> bool:
    """Whether a selected pod is the controller's, or nobody's; upstream knew no owners."""
    # The pods of a Deployment are controlled by its ReplicaSets.
    return resource == DEPLOYMENTS or controller_uid(pod) in ("", uid)


class PodsRestored(WorkloadCondition):
    """A controller has as many pods again as it had, without those that were deleted.

    Args:
        resource: its kind.
        namespace: where it is.
        controller: its name.
        uid: its UID.
        count: how many pods it had.
        deleted: the UIDs of those that were deleted.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        controller: str,
        uid: str,
        count: int,
        deleted: Collection[str],
    ) -> None:
        noun = "pod" if count == 1 else "pods"
        super().__init__(
            resource,
            namespace,
            controller,
            f"have {count} {noun} again after its rolling update",
            _ControllerFields,
            pods=None,
            what="target",
        )
        self.workload.uid = uid
        self._count = count
        self._deleted = frozenset(deleted)
        self._new = ObjectCounter(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the source of its pods."""
        return (Source(PODS, self.namespace, self._new, selector=selector, fields=PodFields),)

    @property
    def tally(self) -> ObjectCounter:
        """Its pods."""
        return self._new

    def _state(self, pod: dict[str, Any], _: TerminalState | None) -> ObjectState:
        if not is_owned_or_orphan(pod, self.workload.resource, self.workload.uid):
            return ObjectState("of another owner")
        if is_terminating(pod) or pod["metadata"].get("uid") in self._deleted:
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        return ObjectState(phase_label(pod), (_BACK,), keep=True)

    def verdict(self) -> Verdict:
        """Judge by the count alone, as upstream: what state the pods are in does not matter."""
        absent = self.workload.missing_verdict() or self.workload.ending()
        if absent is not None:
            return absent
        back = self._new.count(_BACK)
        if back == self._count:
            return Met()
        noun = "pod" if self._count == 1 else "pods"
        return Pending(f"{back} of {self._count} {noun}: {self._new.summary() or 'none'}")

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return self._new.objects(PODS)


class ReplacementsReady(WorkloadCondition):
    """A controller has a ready new pod for each one that was deleted so far.

    New is what has a UID that was not there at the beginning.

    Args:
        resource: its kind.
        namespace: where it is.
        controller: its name.
        uid: its UID.
        old: the UIDs of all pods that it had, deleted or still to be.
        deleted: the names of those that were deleted, the last one last.

    Raises:
        InvalidArgument: a name that cannot be one.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        controller: str,
        uid: str,
        old: Collection[str],
        deleted: Sequence[str],
    ) -> None:
        super().__init__(
            resource,
            namespace,
            controller,
            f"have a ready pod in the place of {deleted[-1]}",
            None,
            pods=None,
            what="target",
        )
        self.workload.uid = uid
        self._old = frozenset(old)
        self._deleted = len(deleted)
        self._pods = ObjectCounter(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return the source of its pods."""
        return (Source(PODS, self.namespace, self._pods, selector=selector, fields=SetPodFields),)

    @property
    def tally(self) -> ObjectCounter:
        """Its pods."""
        return self._pods

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if not is_owned_or_orphan(pod, self.workload.resource, self.workload.uid):
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        if pod["metadata"].get("uid") in self._old:
            return ObjectState("old", (ALIVE,))
        if is_running_and_ready(pod):
            return ObjectState("ready", (ALIVE, _READY), keep=True)
        label = phase_label(pod)
        label = "Running, not ready" if label == "Running" else label
        return ObjectState(label, (ALIVE,), doom=detect_owned_pod_failure(pod, before))

    def verdict(self) -> Verdict:
        """Judge by the new pods; those that are stuck, or refused, end it."""
        absent = self.workload.missing_verdict() or self.workload.ending()
        if absent is not None:
            return absent
        ready = self._pods.count(_READY)
        if ready >= self._deleted:
            return Met()
        hindrance: Failed | None = None
        if self._pods.count(ALIVE) < len(self._old):
            doom = detect_replica_failure(self.current)
            hindrance = None if doom is None else Failed(doom.reason, doom.patience)
        noun = "replacement" if self._deleted == 1 else "replacements"
        return (
            hindrance
            or judge_stuck_pods(self._pods, len(self._old))
            or Pending(
                f"{ready} of {self._deleted} {noun} ready: {self._pods.summary() or 'no pods'}"
            )
        )

    def result(self) -> Any:
        """Return the new pods that are ready, sorted by name."""
        return self._pods.objects(PODS)
