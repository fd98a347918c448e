"""The pods that a service selects, and what keeps them from being its endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.container_states import ContainerStatuses
from pytest_kwait.engine.object_counter import ObjectCounter, ObjectState, TerminalState
from pytest_kwait.framework.pod.fields import is_finished, is_ready, is_terminating, phase_label

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ServicePodFields", "ServicePods"]


class _ContainerPort(TypedDict, total=False):
    name: str | None


class _Container(TypedDict, total=False):
    name: str
    ports: list[_ContainerPort] | None
    restartPolicy: str | None


class _ServicePodSpec(TypedDict, total=False):
    nodeName: str | None
    restartPolicy: str | None
    initContainers: list[_Container] | None
    containers: list[_Container] | None


class _Condition(TypedDict, total=False):
    type: str
    status: str
    reason: str | None
    message: str | None


class _Status(TypedDict, total=False):
    phase: str | None
    reason: str | None
    message: str | None
    conditions: list[_Condition] | None
    initContainerStatuses: ContainerStatuses
    containerStatuses: ContainerStatuses


class ServicePodFields(TypedDict, total=False):
    """The fields of a service's pod that waits read."""

    metadata: ObjectMeta
    spec: _ServicePodSpec | None
    status: _Status | None


TerminalStateCheck: TypeAlias = (
    "Callable[[dict[str, Any], TerminalState | None], TerminalState | None]"
)


class ServicePods(ObjectCounter):
    """The book of a service's pods.

    Args:
        doomed: why a pod will not become what is awaited.
    """

    def __init__(self, doomed: TerminalStateCheck) -> None:
        super().__init__(self._state)
        self._doomed_by = doomed

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        if is_finished(pod):
            return ObjectState(phase_label(pod), ("finished",))
        label = phase_label(pod)
        if is_terminating(pod):
            label = "being deleted"
        elif label == "Running" and not is_ready(pod):
            label = "Running, not ready"
        counts = ("alive", *(f"port {name}" for name in sorted(_port_names(pod))))
        return ObjectState(label, counts, doom=self._doomed_by(pod, before))

    @property
    def alive(self) -> int:
        """How many have not ended for good."""
        return self.count("alive")

    def has_port(self, name: str) -> bool:
        """Whether one that has not ended has a port of that name."""
        return self.count(f"port {name}") > 0


def _port_names(pod: dict[str, Any]) -> set[str]:
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy")]
    return {
        port["name"]
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("name")
    }
