"""What a DELETE does to an object before, or instead of, removing it.

Source: k8s.io/apiserver pkg/registry/rest/delete.go, pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.clock import rfc3339
from pytest_kwait.simulator.api_errors import conflict, invalid
from pytest_kwait.simulator.objects import clone, name_of
from pytest_kwait.simulator.validation.objectmeta import delete_option_errors

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.registry.strategies_init import Strategy

__all__ = ["FOREGROUND", "ORPHAN", "DeletionPlan", "plan_deletion"]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class DeletionPlan(NamedTuple):
    """What is to be done: store `obj` if it `changed`, or remove it."""

    obj: Obj
    changed: bool
    remove: bool


def plan_deletion(strategy: Strategy, obj: Obj, options: Obj, now: float) -> DeletionPlan:
    """What deleting `obj` with `options` comes to at `now` (seconds since the epoch).

    Raises:
        StatusError: 422 for bad options, 409 where the object is not the one that is meant.
    """
    errors = delete_option_errors(options)
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    _check_preconditions(strategy, obj, options.get("preconditions") or {})
    new: Obj = {**obj, "metadata": clone(obj["metadata"])}
    metadata = new["metadata"]
    graceful, pending = _decide_grace(strategy, new, options, now)
    finalizers = _deletion_finalizers(strategy, metadata, options)
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
            changed = _mark_deleted(metadata, now) or changed
        return DeletionPlan(new, changed, remove=False)
    seconds = metadata.get("deletionGracePeriodSeconds", 0)
    if (graceful or pending) and seconds > 0:
        return DeletionPlan(new, changed, remove=False)
    return DeletionPlan(new, changed, remove=True)


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


def _decide_grace(strategy: Strategy, obj: Obj, options: Obj, now: float) -> tuple[bool, bool]:
    """Mark for graceful deletion; returns whether that changed the object, and whether it is on."""
    metadata = obj["metadata"]
    asked = options.get("gracePeriodSeconds")
    if asked is not None and asked < 0:
        asked = 1
    if strategy.grace(obj, asked) is None:
        return False, False
    if "deletionTimestamp" in metadata:
        before = metadata.get("deletionGracePeriodSeconds", 0)
        if before == 0:
            return False, False
        if asked is None or asked >= before:
            return False, True
        start = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp() - before
        end = start + asked
        if end < now:
            end, asked = now, min(asked, 1)
        metadata["deletionTimestamp"] = rfc3339(end)
        metadata["deletionGracePeriodSeconds"] = asked
        return True, False
    seconds = strategy.grace(obj, asked) or 0
    metadata["deletionTimestamp"] = rfc3339(now + seconds)
    metadata["deletionGracePeriodSeconds"] = seconds
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True, False


def _mark_deleted(metadata: Obj, now: float) -> bool:
    """Mark as being deleted now; returns whether that changed anything."""
    if "deletionTimestamp" not in metadata:
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = rfc3339(now)
    elif metadata.get("deletionGracePeriodSeconds") == 0:
        return False
    metadata["deletionGracePeriodSeconds"] = 0
    return True


def _deletion_finalizers(strategy: Strategy, metadata: Obj, options: Obj) -> list[str]:
    """The object's finalizers with the mark of what is to happen to its dependents."""
    present: list[str] = metadata.get("finalizers", [])
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        if ORPHAN in present or FOREGROUND in present:
            policy = "Orphan" if ORPHAN in present else "Foreground"
        else:
            policy = strategy.default_propagation or "Background"
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        kept.append(ORPHAN)
    elif policy == "Foreground":
        kept.append(FOREGROUND)
    if set(kept) == set(present):
        return present
    return kept
