"""The timeline of a wait: the changes of its verdict, bounded in number."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Timeline", "VerdictChange"]


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict that differs from the one before.

    Args:
        at: seconds since the wait began.
        text: the verdict in words.
    """

    at: float
    text: str


class Timeline:
    """The first and the last changes of a verdict; those between are only counted.

    Args:
        limit: the number of changes kept at each end.
    """

    def __init__(self, limit: int = 10) -> None:
        self._limit = limit
        self._first: list[VerdictChange] = []
        self._last: deque[VerdictChange] = deque(maxlen=limit)
        self._text: str | None = None
        self.changes = 0

    def record(self, at: float, text: str) -> bool:
        """Record a verdict; return whether it differs from the last one."""
        if text == self._text:
            return False
        self._text = text
        self.changes += 1
        change = VerdictChange(at, text)
        if len(self._first) < self._limit:
            self._first.append(change)
        else:
            self._last.append(change)
        return True

    @property
    def last(self) -> str:
        """The last verdict in words; empty before the first one."""
        return self._text or ""

    @property
    def left_out(self) -> int:
        """The number of changes between the first and the last that are not kept."""
        return self.changes - len(self._first) - len(self._last)

    @property
    def first(self) -> tuple[VerdictChange, ...]:
        """The first changes."""
        return tuple(self._first)

    @property
    def latest(self) -> tuple[VerdictChange, ...]:
        """The last changes that are not among the first."""
        return tuple(self._last)

    def changed(self, change: Callable[[str], str]) -> Timeline:
        """Return a copy with every text changed."""
        other = Timeline(self._limit)
        other._first = [VerdictChange(entry.at, change(entry.text)) for entry in self._first]
        other._last.extend(VerdictChange(entry.at, change(entry.text)) for entry in self._last)
        other._text = None if self._text is None else change(self._text)
        other.changes = self.changes
        return other
