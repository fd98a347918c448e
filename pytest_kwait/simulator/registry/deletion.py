"""Deletions before they are stored: preconditions, grace period, finalizers of the propagation.

Source: k8s.io/apiserver pkg/registry/rest/delete.go; pkg/registry/generic/registry/store.go, func
deletionFinalizersForGarbageCollection and markAsDeleting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.apimachinery.times import format_time, parse_time
from pytest_kwait.simulator.api_errors import conflict, invalid
from pytest_kwait.simulator.objects import clone, name_of
from pytest_kwait.simulator.validation.objectmeta import validate_delete_options

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.strategy import Strategy

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class DeletionPlan(NamedTuple):
    """The outcome of a deletion: store `obj` if it `changed`, or remove it."""

    obj: Obj
    changed: bool
    remove: bool


def plan_deletion(strategy: Strategy, obj: Obj, options: Obj, now: float) -> DeletionPlan:
    """Decide the deletion of `obj` with `options` at `now` (seconds since the epoch).

    Raises:
        StatusError: 422 for invalid options, 409 if a precondition fails.
    """
    new: Obj = {**obj, "metadata": clone(obj["metadata"])}
    metadata = new["metadata"]
    graceful, pending = before_delete(strategy, new, options, now)
    finalizers = deletion_finalizers_for_garbage_collection(strategy, metadata, options)
    changed = graceful
    if finalizers != metadata.get("finalizers", []):
        changed = True
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
    if pending and not changed:
        return DeletionPlan(obj, changed=False, remove=False)
    if finalizers:
        if not graceful and not pending:
            changed = mark_as_deleting(metadata, now) or changed
        return DeletionPlan(new, changed, remove=False)
    seconds = metadata.get("deletionGracePeriodSeconds", 0)
    if (graceful or pending) and seconds > 0:
        return DeletionPlan(new, changed, remove=False)
    return DeletionPlan(new, changed, remove=True)


def before_delete(strategy: Strategy, obj: Obj, options: Obj, now: float) -> tuple[bool, bool]:
    """Mark `obj` for graceful deletion; return whether that changed it, and whether it is pending.

    Raises:
        StatusError: 422 for invalid options, 409 if a precondition fails.
    """
    if errors := validate_delete_options(options):
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    _check_preconditions(strategy, obj, options.get("preconditions") or {})
    metadata = obj["metadata"]
    grace_seconds = options.get("gracePeriodSeconds")
    if grace_seconds is not None and grace_seconds < 0:
        grace_seconds = 1
    strategy_seconds = strategy.check_graceful_delete(obj, grace_seconds)
    if strategy_seconds is None:
        return False, False
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = format_time(now + _go_duration(strategy_seconds))
        metadata["deletionGracePeriodSeconds"] = strategy_seconds
        if metadata.get("generation"):
            metadata["generation"] += 1
        return True, False
    before = metadata.get("deletionGracePeriodSeconds", 0)
    if before == 0:
        return False, False
    if grace_seconds is None or grace_seconds >= before:
        return False, True
    start = parse_time(metadata["deletionTimestamp"]) - _go_duration(before)
    end = start + _go_duration(grace_seconds)
    if end < now:
        end, grace_seconds = now, min(grace_seconds, 1)
    metadata["deletionTimestamp"] = format_time(end)
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    return True, False


def _check_preconditions(strategy: Strategy, obj: Obj, preconditions: Obj) -> None:
    kind, metadata = strategy.kind, obj["metadata"]
    uid = preconditions.get("uid")
    if uid is not None and uid != metadata["uid"]:
        raise conflict(
            kind.group,
            kind.kind,
            name_of(obj),
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated",
        )
    revision = preconditions.get("resourceVersion")
    if revision is not None and revision != metadata["resourceVersion"]:
        raise conflict(
            kind.group,
            kind.kind,
            name_of(obj),
            f"the ResourceVersion in the precondition ({revision}) does not match the "
            f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have "
            "been modified",
        )


def _go_duration(seconds: int) -> float:
    """Return the length of `time.Second * seconds` in Go, whose 64 bits wrap after 292 years."""
    return ((seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def mark_as_deleting(metadata: Obj, now: float) -> bool:
    """Mark an object as being deleted since `now`; return whether its metadata changed."""
    if "deletionTimestamp" not in metadata:
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = format_time(now)
    elif metadata.get("deletionGracePeriodSeconds") == 0:
        return False
    metadata["deletionGracePeriodSeconds"] = 0
    return True


def deletion_finalizers_for_garbage_collection(
    strategy: Strategy, metadata: Obj, options: Obj
) -> list[str]:
    """Return the finalizers with the one that stands for the propagation policy."""
    finalizers: list[str] = metadata.get("finalizers", [])
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            policy = "Orphan" if ORPHAN in finalizers else "Foreground"
        else:
            policy = strategy.default_garbage_collection_policy or "Background"
    remaining_finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        remaining_finalizers.append(ORPHAN)
    elif policy == "Foreground":
        remaining_finalizers.append(FOREGROUND)
    if set(remaining_finalizers) == set(finalizers):
        return finalizers
    return remaining_finalizers
