"""Init containers that have failed for good, so that the pod's own containers never start."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import get_current_state
from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.framework.terminal_states.crash_loops import detect_crash_loop
from pytest_kwait.framework.terminal_states.endings import describe_exit
from pytest_kwait.framework.terminal_states.finished_containers import will_restart

__all__ = ["detect_init_container_failure"]


def detect_init_container_failure(pod: dict[str, Any]) -> TerminalState | None:
    """Return the doom of a pod by its init containers; None while they may get through.

    One that failed and is not started again holds for sure; one that crashes again and again may
    yet get through, so its doom may pass.
    """
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state, facts = get_current_state(container)
        name = container.get("name") or ""
        failed = state == "terminated" and facts.get("exitCode") not in (None, 0)
        if failed and will_restart(pod, name, facts) is False:
            text = f"init container {name} ended with {describe_exit(facts)}, to stay so"
            return TerminalState(text, Patience.SHORT)
        if (doom := detect_crash_loop(container)) is not None:
            return TerminalState(
                doom.reason.replace("container", "init container", 1), doom.patience
            )
    return None
