"""Container statuses of a pod, summarized for messages: pure functions on the API's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ContainerReport", "ContainerStatuses", "get_current_state", "report_containers"]


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


_STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


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
