"""Reading conditions and stamps of objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["get_condition", "is_being_deleted", "parse_timestamp"]


def parse_timestamp(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 stamp."""
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).astimezone(UTC).timestamp()


def get_condition(obj: Obj, kind: str) -> Obj | None:
    """Return the condition of that type in the object's status; None where there is none."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == kind:
            found: Obj = condition
            return found
    return None


def is_being_deleted(obj: Obj) -> bool:
    """Whether its deletion has begun."""
    return "deletionTimestamp" in obj["metadata"]
