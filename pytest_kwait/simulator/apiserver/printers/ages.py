"""How long ago something was, as tables show it.

Source: k8s.io/apimachinery pkg/util/duration/duration.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["UNKNOWN", "age_cell", "elapsed_text", "human_duration"]

UNKNOWN = "<unknown>"


def human_duration(seconds: float) -> str:
    """`7s`, `2m5s`, `3h`, `12d`: as coarse as the length allows."""
    total = int(seconds)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{max(total, 0)}s"
    if minutes < 10:
        return f"{minutes}m{total % 60}s" if total % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    if years < 8 and rest:
        return f"{years}y{rest}d"
    return f"{years}y"


def elapsed_text(stamp: str | None, until: str | None = None) -> str:
    """The time from `stamp` to `until` or to now; `<unknown>` without a stamp."""
    if not stamp:
        return UNKNOWN
    start = datetime.fromisoformat(stamp).timestamp()
    end = datetime.fromisoformat(until).timestamp() if until else SYSTEM_CLOCK.time()
    return human_duration(end - start)


def age_cell(obj: Obj) -> str:
    """How long ago the object was made."""
    return elapsed_text(obj["metadata"].get("creationTimestamp"))
