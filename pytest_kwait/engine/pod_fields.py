"""Pod fields and container statuses: pure functions on a pod's JSON, whole or trimmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

from pytest_kwait.apimachinery.conditions import StatusCondition, get_condition, get_phase
from pytest_kwait.client.responses import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATING = frozenset({"ContainerCreating", "PodInitializing"})
_STARTING = _CREATING | {""}
_STATUSES = ("initContainerStatuses", "containerStatuses")


class _Waiting(TypedDict, total=False):
    reason: str | None
    message: str | None


class _Running(TypedDict, total=False):
    # No start time: it would make the status text of every pod unique.
    pass


class _Terminated(TypedDict, total=False):
    exitCode: int | None
    signal: int | None
    reason: str | None
    message: str | None


class _State(TypedDict, total=False):
    waiting: _Waiting | None
    running: _Running | None
    terminated: _Terminated | None


class ContainerStatus(TypedDict, total=False):
    """The fields of a container's status that waits and messages read."""

    name: str
    ready: bool | None
    started: bool | None
    restartCount: int | None
    state: _State | None
    lastState: _State | None


ContainerStatuses: TypeAlias = list[ContainerStatus] | None


@dataclass(frozen=True, slots=True)
class ContainerReport:
    """One container in a failure message.

    Args:
        init: whether it is an init container.
        state: `waiting`, `running` or `terminated`.
        reason: the state's reason; may be empty.
        message: the state's message; may be empty.
        exit_code: of the current or previous run; None if no run has ended.
        restarts: the restart count.
        ready: whether it is ready.
        failing: whether it has an error, as opposed to not being ready yet.
    """

    name: str
    init: bool
    state: str
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    ready: bool
    failing: bool

    @property
    def has_run(self) -> bool:
        """True if a run has ended, and may have written a log."""
        return self.exit_code is not None


def is_creating(pod: dict[str, Any]) -> bool:
    """Return whether all containers of a pod wait for volumes, a network or an image."""
    status = pod.get("status") or {}
    states = [
        get_current_state(container) for kind in _STATUSES for container in status.get(kind) or ()
    ]
    return bool(states) and all(
        state == "waiting" and facts.get("reason") in _CREATING for state, facts in states
    )


def has_crashed(pod: dict[str, Any]) -> bool:
    """Return whether a container of a pod has ended badly, or was restarted."""
    status = pod.get("status") or {}
    return any(
        container.get("restartCount") or (get_current_state(container)[1].get("exitCode") or 0)
        for kind in _STATUSES
        for container in status.get(kind) or ()
    )


class _CrashLoop(NamedTuple):
    """The crashes of a container that are of one kind, without readiness in between.

    Args:
        kind: exit code and reason; None while the container is ready.
        since: when the first of them was seen, in monotonic seconds.
    """

    kind: tuple[int | None, str | None] | None
    since: float


class CrashHistory:
    """The crashes of a pod's containers, as they were seen."""

    def __init__(self) -> None:
        self._loops: dict[str, _CrashLoop] = {}

    @property
    def since(self) -> float | None:
        """When the last crashes of one kind began, in monotonic seconds; None without any.

        A container that was ready after a crash begins anew.
        """
        return max((loop.since for loop in self._loops.values() if loop.kind), default=None)

    def record(self, pod: dict[str, Any], now: float) -> None:
        """Record a version of the pod.

        Args:
            now: the clock's monotonic seconds.
        """
        status = pod.get("status") or {}
        for statuses in _STATUSES:
            for container in status.get(statuses) or ():
                state, facts = get_current_state(container)
                last = (container.get("lastState") or {}).get("terminated") or {}
                end = facts if state == "terminated" else last
                if not end:
                    continue
                kind = None
                if not container.get("ready"):
                    kind = end.get("exitCode"), end.get("reason")
                name = container.get("name") or ""
                loop = self._loops.get(name)
                if loop is None or loop.kind != kind:
                    self._loops[name] = _CrashLoop(kind, now)


def get_current_state(status: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the details of a container's state.

    A status without a state counts as waiting.
    """
    state = status.get("state") or {}
    for name in ("running", "terminated", "waiting"):
        if state.get(name) is not None:
            return name, state[name]
    return "waiting", {}


def report_containers(
    statuses: Sequence[dict[str, Any]] | None, *, init: bool = False
) -> tuple[ContainerReport, ...]:
    """Return one report per container status."""
    return tuple(_report_container(status, init) for status in statuses or ())


def _report_container(status: dict[str, Any], init: bool) -> ContainerReport:
    state, facts = get_current_state(status)
    last = (status.get("lastState") or {}).get("terminated") or {}
    exit_code = facts.get("exitCode") if state == "terminated" else last.get("exitCode")
    reason = facts.get("reason") or ""
    ended_badly = exit_code not in (None, 0)
    stuck = state == "waiting" and reason not in _STARTING
    return ContainerReport(
        name=status.get("name") or "",
        init=init,
        state=state,
        reason=reason,
        message=" ".join((facts.get("message") or "").split()),
        exit_code=exit_code,
        restarts=status.get("restartCount") or 0,
        ready=bool(status.get("ready")),
        failing=stuck or ended_badly,
    )


class _PodSpec(TypedDict, total=False):
    nodeName: str | None


class PodStatus(TypedDict, total=False):
    """The status of a pod that waits read."""

    phase: str | None
    reason: str | None
    message: str | None
    observedGeneration: int | None
    conditions: list[StatusCondition] | None
    initContainerStatuses: ContainerStatuses
    containerStatuses: ContainerStatuses


class PodFields(TypedDict, total=False):
    """The fields of a pod that waits read."""

    metadata: ObjectMeta
    spec: _PodSpec | None
    status: PodStatus | None


def is_finished(pod: dict[str, Any]) -> bool:
    """Return whether all its containers have ended for good."""
    return get_phase(pod) in ("Succeeded", "Failed")


def is_terminating(pod: dict[str, Any]) -> bool:
    """Return whether it is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def node_of(pod: dict[str, Any]) -> str:
    """Return the name of its node; empty before it is scheduled."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def is_ready(pod: dict[str, Any]) -> bool:
    """Return whether its Ready condition is True."""
    condition = get_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def readiness_label(pod: dict[str, Any]) -> str:
    """Return the label of a pod that is not ready: its phase, or `Running, not ready`."""
    label = phase_label(pod)
    return "Running, not ready" if label == "Running" else label


def phase_label(pod: dict[str, Any]) -> str:
    """Return the phase and the blocking reason: `Pending (ContainerCreating)`."""
    phase = get_phase(pod)
    status = pod.get("status") or {}
    if phase in ("Pending", "Running"):
        for container in (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        ):
            state, facts = get_current_state(container)
            if state == "waiting" and facts.get("reason"):
                return f"{phase} ({facts['reason']})"
        scheduled = get_condition(pod, "PodScheduled")
        if scheduled is not None and scheduled.get("status") == "False":
            return f"{phase} ({scheduled.get('reason') or 'not scheduled'})"
    elif status.get("reason"):
        return f"{phase} ({status['reason']})"
    return phase
