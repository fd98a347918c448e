"""StatefulSets: what one pod that is stuck means for the others.

With the management policy OrderedReady the controller goes through the ordinals from the lowest on,
and at one that is not Running and ready it stops: pods above that are missing are not made, and
none is removed or updated. With Parallel no pod waits for another.

Source: kubernetes/pkg/controller/statefulset/stateful_set_control.go updateStatefulSet,
processReplica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.object_counter import TerminalState
from pytest_kwait.engine.verdicts import Failed
from pytest_kwait.framework.statefulset.stateful_set_states import claim_names_of, is_parallel
from pytest_kwait.framework.terminal_states.scheduling import detect_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.framework.statefulset.stateful_pods import StatefulPods

__all__ = ["detect_blocked_set", "detect_stateful_pod_failure", "is_updating"]

_UNBOUND = "persistentvolumeclaim"


def detect_stateful_pod_failure(
    stateful_set: dict[str, Any],
    pod: dict[str, Any],
    before: TerminalState | None,
    rule: Callable[[dict[str, Any], TerminalState | None], TerminalState | None],
) -> TerminalState | None:
    """Return why a pod of a set will not become what is awaited; None while it may.

    Where its volumes keep it from every node, the claims that the set has made for it are named.

    Args:
        stateful_set: whose pod it is.
        pod: the pod.
        before: what it was doomed by before.
        rule: why any pod would not become that.
    """
    doom = rule(pod, before)
    if doom is None or _UNBOUND not in doom.reason.lower() or detect_unschedulable(pod) is None:
        return doom
    claims = claim_names_of(stateful_set, pod["metadata"]["name"])
    if not claims:
        return doom
    noun = "claim" if len(claims) == 1 else "claims"
    return TerminalState(f"{doom.reason} ({noun} {', '.join(claims)})", doom.patience)


def is_updating(stateful_set: dict[str, Any]) -> bool:
    """Whether its status is of two revisions, so that some of its pods are to be replaced."""
    status = stateful_set.get("status") or {}
    update = status.get("updateRevision")
    return bool(update) and update != status.get("currentRevision")


def detect_blocked_set(
    stateful_set: dict[str, Any], pods: StatefulPods, wanted: int, replicas: int
) -> Failed | None:
    """Return the verdict where so many pods are stuck that `wanted` will not come; else None.

    One stuck pod of an ordered set keeps all that are missing above it from being made. While pods
    below are missing too they come first, and nothing is judged. A set without order replaces stuck
    pods of another revision, so that nothing is judged while it is updated.

    Args:
        stateful_set: the set, its status being of its present generation.
        pods: its pods.
        wanted: how many of its pods are to become what is awaited.
        replicas: how many it is to have.
    """
    missing = max(replicas - len(pods), 0)
    if is_parallel(stateful_set):
        if is_updating(stateful_set):
            return None
        blocked = False
    else:
        blocked = pods.is_contiguous
    comes = len(pods) + (0 if blocked else missing)
    stuck = pods.nth_terminal(max(comes - wanted + 1, 1))
    if stuck is None or stuck[0].state.doom is None or wanted < 1:
        return None
    entry, patience, since = stuck
    others = pods.doomed - 1
    notes = [f"and {others} more {'pod' if others == 1 else 'pods'}"] if others else []
    if blocked and missing:
        notes.append("the set makes none after it")
    note = f" ({'; '.join(notes)})" if notes else ""
    return Failed(f"pod {entry.name}{note}: {stuck[0].state.doom.reason}", patience, since)
