"""Status conditions and phases of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping


class StatusCondition(TypedDict, total=False):
    """The fields of a status condition that waits read."""

    type: str
    status: str
    reason: str | None
    message: str | None
    observedGeneration: int | None


def get_condition(obj: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return the first status condition of a type; None without one."""
    condition: dict[str, Any]
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return condition
    return None


def is_condition_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Return whether the status condition of a type has the status `True`."""
    condition = get_condition(obj, kind)
    return condition is not None and condition.get("status") == "True"


def get_phase(obj: Mapping[str, Any]) -> str:
    """Return the phase of a pod, claim or volume; `Pending` before its first status."""
    return (obj.get("status") or {}).get("phase") or "Pending"
