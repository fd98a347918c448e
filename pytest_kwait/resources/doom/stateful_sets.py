"""StatefulSets: what one pod that is stuck means for the others.

With the management policy OrderedReady the controller goes through the ordinals from the lowest on,
and at one that is not Running and ready it stops: pods above that are missing are not made, and
none is removed or updated. With Parallel no pod waits for another.

Source: kubernetes/pkg/controller/statefulset/stateful_set_control.go updateStatefulSet,
processReplica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.tally import Doom
from pytest_kwait.engine.verdicts import Failed
from pytest_kwait.resources.doom.scheduling import scheduling_doom
from pytest_kwait.resources.stateful_set_states import claims_of, is_parallel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.resources.stateful_pods import StatefulPods

__all__ = ["blocked_doom", "is_updating", "stateful_pod_doom"]

_UNBOUND = "persistentvolumeclaim"


def stateful_pod_doom(
    stateful_set: dict[str, Any],
    pod: dict[str, Any],
    before: Doom | None,
    rule: Callable[[dict[str, Any], Doom | None], Doom | None],
) -> Doom | None:
    """Return why a pod of a set will not become what is awaited; None while it may.

    Where its volumes keep it from every node, the claims that the set has made for it are named.

    Args:
        stateful_set: whose pod it is.
        pod: the pod.
        before: what it was doomed by before.
        rule: why any pod would not become that.
    """
    doom = rule(pod, before)
    if doom is None or _UNBOUND not in doom.reason.lower() or scheduling_doom(pod) is None:
        return doom
    claims = claims_of(stateful_set, pod["metadata"]["name"])
    if not claims:
        return doom
    noun = "claim" if len(claims) == 1 else "claims"
    return Doom(f"{doom.reason} ({noun} {', '.join(claims)})", doom.patience)


def is_updating(stateful_set: dict[str, Any]) -> bool:
    """Whether its status is of two revisions, so that some of its pods are to be replaced."""
    status = stateful_set.get("status") or {}
    update = status.get("updateRevision")
    return bool(update) and update != status.get("currentRevision")


def blocked_doom(
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
        blocked = pods.without_gap
    comes = len(pods) + (0 if blocked else missing)
    stuck = pods.nth_doomed(max(comes - wanted + 1, 1))
    if stuck is None or stuck[0].state.doom is None or wanted < 1:
        return None
    entry, patience, since = stuck
    others = pods.doomed - 1
    notes = [f"and {others} more {'pod' if others == 1 else 'pods'}"] if others else []
    if blocked and missing:
        notes.append("the set makes none after it")
    note = f" ({'; '.join(notes)})" if notes else ""
    return Failed(f"pod {entry.name}{note}: {stuck[0].state.doom.reason}", patience, since)
