"""What an exploration does to the pods of a kubelet: late syncs, sandboxes, pulls and statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.exploration.exploration import make_stable_name
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pytest_kwait.simulator.exploration.exploration import Exploration, Held
    from pytest_kwait.simulator.objects import Obj

_TERMINATION_BY_KUBELET = "TerminationByKubelet"
"""The reason of a `DisruptionTarget` that a kubelet has written, not an eviction."""


def hold_renewal(exploration: Exploration, node: str, renew: Callable[[], object]) -> bool:
    """Return whether the lease of a node is renewed later, by `renew`."""
    seconds = exploration.decide("heartbeat-delay", exploration.event(f"renew {node}"))
    if seconds is None:
        return False
    exploration.hold(seconds, renew)
    return True


def hold_sync(exploration: Exploration, pod: Obj, begin: Callable[[], object]) -> bool:
    """Return whether a sync of a pod begins later, by `begin`."""
    event = exploration.event(f"sync {make_stable_name(name_of(pod))}", namespace_of(pod))
    seconds = exploration.decide("sync-delay", event)
    if seconds is None:
        return False
    exploration.hold(seconds, begin)
    return True


def hold_status(exploration: Exploration, pod: Obj, write: Callable[[], object]) -> Held | None:
    """Return the held write of a pod's status, which `write` makes; None to write it now."""
    event = exploration.event(f"status {make_stable_name(name_of(pod))}", namespace_of(pod))
    seconds = exploration.decide("status-batch", event)
    return None if seconds is None else exploration.hold(seconds, write)


def delay_step(
    exploration: Exploration, name: str, step_name: str, pod: Obj, resume: Callable[[], object]
) -> Generator[None, None, None]:
    """Delay one step of a pod's sync, if the exploration decides so.

    Args:
        name: the perturbation.
        step_name: the step, as the event has it.
        resume: resumes the sync, which yields None meanwhile.
    """
    event = exploration.event(f"{step_name} {make_stable_name(name_of(pod))}", namespace_of(pod))
    seconds = exploration.decide(name, event)
    if seconds is None:
        return
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True
        resume()

    held = exploration.hold(seconds, end)
    try:
        while not is_over:
            yield None
    finally:
        held.cancel()


def merge_conditions(
    late: Sequence[Obj], current_conditions: Sequence[Obj], own: Sequence[str]
) -> list[Obj]:
    """Return the conditions of a late status, with what others have written meanwhile.

    Source: pkg/kubelet/status/status_manager.go, `mergePodStatus`.

    Args:
        late: the conditions of the late status.
        current_conditions: the conditions of the pod in the API.
        own: the types that the kubelet alone writes.
    """
    late_conditions = [
        condition
        for condition in late
        if condition["type"] in own or condition.get("reason") == _TERMINATION_BY_KUBELET
    ]
    types = {condition["type"] for condition in late_conditions}
    other_conditions = [
        condition
        for condition in current_conditions
        if condition["type"] not in own and condition["type"] not in types
    ]
    return [*other_conditions, *late_conditions]
