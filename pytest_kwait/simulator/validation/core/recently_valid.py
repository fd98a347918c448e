"""A small cache of recently validated values, to skip repeated validation.

Most pods share some values with thousands of others: the token volume, the default tolerations.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from pytest_kwait.simulator.objects import clone

__all__ = ["RecentlyValid"]

_CAPACITY = 4


class RecentlyValid:
    """The last few valid values of one type."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: deque[Any] = deque(maxlen=_CAPACITY)

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def add(self, value: object) -> None:
        """Remember a copy of the value."""
        self._values.appendleft(clone(value))
