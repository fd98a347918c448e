"""Init containers that have failed for good, so that the pod's own containers never start."""

from __future__ import annotations

from typing import Any

from pytest_kwait.engine.container_states import current_state
from pytest_kwait.engine.tally import Doom
from pytest_kwait.engine.verdicts import Patience
from pytest_kwait.resources.doom.crash_loops import crash_loop_doom
from pytest_kwait.resources.doom.endings import how_it_ended
from pytest_kwait.resources.doom.finished_containers import restarted

__all__ = ["init_container_doom"]


def init_container_doom(pod: dict[str, Any]) -> Doom | None:
    """Return the doom of a pod by its init containers; None while they may get through.

    One that failed and is not started again holds for sure; one that crashes again and again may
    yet get through, so its doom may pass.
    """
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        state, facts = current_state(container)
        name = container.get("name") or ""
        failed = state == "terminated" and facts.get("exitCode") not in (None, 0)
        if failed and restarted(pod, name, facts) is False:
            text = f"init container {name} ended with {how_it_ended(facts)}, to stay so"
            return Doom(text, Patience.SHORT)
        if (doom := crash_loop_doom(container)) is not None:
            return Doom(doom.reason.replace("container", "init container", 1), doom.patience)
    return None
