"""How many objects are awaited: exactly, at least or at most so many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_kwait.engine.options import check_count
from pytest_kwait.errors import InvalidArgument

__all__ = ["Count", "at_least", "at_most", "exactly", "parse_count"]


@dataclass(frozen=True, slots=True)
class Count:
    """A bound on a number of objects.

    Args:
        bound: what the number is to it.
        number: objects.
    """

    bound: Literal["exactly", "at least", "at most"]
    number: int

    def __str__(self) -> str:
        return f"{self.bound} {self.number}"

    def admits(self, number: int) -> bool:
        """Return whether so many objects are as many as awaited."""
        if self.bound == "exactly":
            return number == self.number
        return number >= self.number if self.bound == "at least" else number <= self.number


def exactly(number: int) -> Count:
    """Return the count that a bare number means: no more and no fewer.

    Raises:
        InvalidArgument: it is no whole number, or negative.
    """
    return Count("exactly", check_count("count", number))


def at_least(number: int) -> Count:
    """Return the count that is reached with so many objects, and by any more.

    Raises:
        InvalidArgument: it is no whole number, or less than 1: at least none says nothing.
    """
    return Count("at least", check_count("count", number, least=1))


def at_most(number: int) -> Count:
    """Return the count that holds with so many objects or fewer, none included.

    Raises:
        InvalidArgument: it is no whole number, or negative.
    """
    return Count("at most", check_count("count", number))


def parse_count(value: object) -> Count | None:
    """Return the count that `count=` means; None for all.

    Raises:
        InvalidArgument: it is neither a count nor a whole number, 0 or more.
    """
    if value is None or isinstance(value, Count):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(
            "count", value, "use a whole number, 0 or more, at_least(n) or at_most(n)"
        )
    return exactly(value)
