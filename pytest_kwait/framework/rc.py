"""Conditions and waits on ReplicationControllers, and on the pods of any controller.

Source: kubernetes/test/utils/runners.go, kubernetes/test/e2e/kubectl/kubectl.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pytest_kwait.apimachinery.conditions import get_phase
from pytest_kwait.client.resource import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
)
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Failed,
    Grace,
    Met,
    Pending,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectCounter, ObjectState
from pytest_kwait.engine.options import WaitOptions, check_count
from pytest_kwait.engine.pod_fields import is_finished, is_terminating, phase_label
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.pod.list_conditions import SetPodFields
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import detect_not_running
from pytest_kwait.framework.terminal_states.workloads import detect_replica_failure
from pytest_kwait.framework.workload.conditions import ALIVE, WorkloadCondition, detect_stuck_pods
from pytest_kwait.framework.workload.fields import (
    count_of,
    desired_pods,
    parse_controller,
    replicas_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.framework.registry import ConditionOf

_RUNNING = "running"
_REFUSABLE = (REPLICATION_CONTROLLERS, REPLICA_SETS)
"""The kinds whose status reports refused pods."""


class _ControllerFields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None
    status: dict[str, Any] | None


class _Controlled(WorkloadCondition):
    """Base of the conditions on a controller and its pods.

    Args:
        goal: the awaited state, as a verb phrase.
        what: the argument that held the name, for messages.
    """

    def __init__(self, resource: Resource, namespace: str, name: str, goal: str, what: str) -> None:
        super().__init__(resource, namespace, name, goal, _ControllerFields, pods=None, what=what)
        self._counted = ObjectCounter(self._state)

    def owned(self, selector: str) -> Sequence[Source]:
        self._counted = ObjectCounter(self._state)
        return (
            Source(PODS, self.namespace, self._counted, selector=selector, fields=SetPodFields),
        )

    @property
    def tally(self) -> ObjectCounter:
        return self._counted

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        # The pods of a Deployment are controlled by its ReplicaSets.
        if self.object.resource != DEPLOYMENTS and controller_uid(pod) != self.object.uid:
            return ObjectState("of another owner")
        if is_terminating(pod):
            return ObjectState("being deleted")
        if is_finished(pod):
            return ObjectState(phase_label(pod))
        if get_phase(pod) == "Running":
            return ObjectState("Running", (ALIVE, _RUNNING), keep=True)
        return ObjectState(
            phase_label(pod), (ALIVE,), terminal_state=detect_not_running(pod, before), keep=True
        )

    def _lag(self) -> Pending | Failed | None:
        """Return the verdict while its status is of an older generation; else None."""
        # Jobs do not report an observed generation.
        if self.object.resource == JOBS:
            return self.object.missing_verdict()
        return self.stale_status_verdict()

    def _refused(self, pod_count: int) -> Failed | None:
        if self.object.resource not in _REFUSABLE or self._counted.count(ALIVE) >= pod_count:
            return None
        terminal = detect_replica_failure(self.current)
        return None if terminal is None else Failed(terminal.reason, terminal.grace)

    def result(self) -> Any:
        """Return the pods, sorted by name."""
        return self._counted.objects(PODS)


class AnyPod(_Controlled):
    """A controller has at least one pod."""

    def __init__(self, resource: Resource, namespace: str, name: str) -> None:
        super().__init__(resource, namespace, name, "have pods", "controller")

    def verdict(self) -> Verdict:
        """Decide by the pods; the controller reports why the first is not created."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        if self._counted.count(ALIVE):
            return Met()
        failed = self._lag() or self.object.ending() or self._refused(1)
        return failed or Pending(f"pods: {self._counted.summary() or 'none'}")


class RunningPods(_Controlled):
    """An exact number of a controller's pods are in phase Running.

    Args:
        count: the exact number; None for the desired number or more, at least one.
        what: the argument that held the name, for messages.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        count: int | None = None,
        what: str = "controller",
    ) -> None:
        goal = "have all pods Running"
        if count is not None:
            noun = "pod" if check_count("count", count) == 1 else "pods"
            goal = f"have exactly {count} {noun} Running"
        super().__init__(resource, namespace, name, goal, what)
        self._exactly = count

    def verdict(self) -> Verdict:
        """Decide by the pods; its spec and its stuck pods limit the reachable number."""
        absent = self.object.missing_verdict()
        if absent is not None:
            return absent
        running, desired = self._counted.count(_RUNNING), 0
        if self._exactly is not None and running == self._exactly:
            final = self._lag() is None and self.object.ending() is None
            return Met(settled=final and desired_pods(self.object) == running)
        if (lag := self._lag() or self.object.ending()) is not None:
            return lag
        desired = desired_pods(self.object)
        if self._exactly is None and running >= desired > 0:
            return Met()
        pod_count = desired if self._exactly is None else self._exactly
        if desired < max(pod_count, 0 if self._exactly == 0 else 1):
            return Failed(f"it is to have {count_noun(desired, 'pod')}", Grace.LONG)
        if running < pod_count:
            failed = self._refused(pod_count) or detect_stuck_pods(self._counted, pod_count)
            if failed is not None:
                return failed
        return Pending(f"{running} of {pod_count} Running: {self._counted.summary() or 'no pods'}")

    def result(self) -> Any:
        """Return the pods in phase Running, sorted by name."""
        return [pod for pod in super().result() if get_phase(pod) == "Running"]


class StableController(_Controlled):
    """A controller has observed its spec, and counts as many pods as desired.

    Args:
        what: the argument that held the name, for messages.
    """

    def __init__(self, resource: Resource, namespace: str, name: str, what: str) -> None:
        super().__init__(resource, namespace, name, "stabilize", what)

    def owned(self, selector: str) -> Sequence[Source]:
        """Return no sources: its own count decides."""
        return ()

    def verdict(self) -> Verdict:
        """Decide by the status of the present generation."""
        lag = self._lag()
        if lag is not None:
            return lag
        replicas, there = replicas_of(self.current), count_of(self.current, "replicas")
        if there == replicas:
            return Met()
        if (ending := self.object.ending()) is not None:
            return ending
        terminal = detect_replica_failure(self.current)
        if terminal is not None and there < replicas:
            return Failed(terminal.reason, terminal.grace)
        return Pending(f"{there} of {replicas} replicas")

    def summarize(self) -> str:
        """Return that it exists."""
        return "" if self.object.current is None else "it is there"

    def result(self) -> Any:
        """Return the last controller seen."""
        return self.object.object()


@wait(limit="controlled_pods", kinds={"target": None}, summary="a pod of any controller")
def wait_for_controlled_pods(
    client: ApiClient, namespace: str, target: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the pods of a controller once there is one.

    Pods that have ended, or are being deleted, do not count.

    Args:
        target: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
            `job/web`.

    Raises:
        WaitFailed: its pods are refused, or it is deleted.

    Source: kubernetes/test/e2e/framework/resource/resources.go WaitForControlledPods.
    """
    resource, name = parse_controller("target", target)
    return AnyPod(resource, namespace, name)


@wait(
    limit="controlled_pods",
    kinds={"target": None},
    summary="all pods of any controller in phase Running",
)
def wait_for_controlled_pods_running(
    client: ApiClient, namespace: str, target: str, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return the Running pods of a controller once it has the desired number or more.

    They need not be ready. As upstream, a controller without desired pods does not satisfy this.

    Args:
        target: `rc/web`, `rs/web`, `deployment/web`, `statefulset/web`, `daemonset/web` or
            `job/web`.

    Raises:
        WaitFailed: its pods are stuck or refused, it is to have none, or it is deleted.

    Source: kubernetes/test/e2e/framework/resource/resources.go WaitForControlledPodsRunning.
    """
    resource, name = parse_controller("target", target)
    return RunningPods(resource, namespace, name)


@wait(
    limit="controlled_pods",
    kind=REPLICATION_CONTROLLERS,
    summary="a replication controller's exact number of pods in phase Running",
)
def wait_for_rc_pods_running(
    client: ApiClient, namespace: str, name: str, count: int, **options: Unpack[WaitOptions]
) -> ConditionOf[list[dict[str, Any]]]:
    """Return a ReplicationController's Running pods once there are exactly `count`.

    They need not be ready. Upstream measures its limit from the last progress, and gives up at the
    first failed containers; here the limit is absolute, and stuck pods end the wait.

    Args:
        count: the exact number; 0 or more.

    Raises:
        WaitFailed: pods are stuck or refused, it is to have fewer, or it is deleted.

    Source: kubernetes/test/utils/runners.go RCConfig.start.
    """
    return RunningPods(REPLICATION_CONTROLLERS, namespace, name, count, "rc")


@wait(
    limit="controlled_pods",
    kind=REPLICATION_CONTROLLERS,
    summary="a replication controller whose status has its desired number of pods",
)
def wait_for_rc_to_stabilize(
    client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
) -> ConditionOf[dict[str, Any]]:
    """Return a ReplicationController once it has observed its spec and has its pods.

    The pods exist, in any state.

    Raises:
        WaitFailed: pods are refused, or it is deleted.

    Source: kubernetes/test/e2e/kubectl/kubectl.go waitForRCToStabilize.
    """
    return StableController(REPLICATION_CONTROLLERS, namespace, name, "rc")
