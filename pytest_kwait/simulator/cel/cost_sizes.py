"""Least and most: what costs and sizes are estimated as.

Source: github.com/google/cel-go checker/cost.go.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["NOTHING", "UNBOUNDED", "UNKNOWN", "Span", "fixed"]

UNBOUNDED = 2**64 - 1
"""The most that can be counted; nothing goes beyond it."""


class Span(NamedTuple):
    """Between how little and how much something costs, or has of items or characters."""

    least: int
    most: int

    def plus(self, other: Span) -> Span:
        """Both together."""
        return Span(
            min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED)
        )

    def times(self, other: Span) -> Span:
        """One as often as the other says."""
        return Span(
            min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED)
        )

    def by(self, factor: float) -> Span:
        """As much for each; begun units count."""
        return Span(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Span) -> Span:
        """Either."""
        return Span(min(self.least, other.least), max(self.most, other.most))


NOTHING = Span(0, 0)
UNKNOWN = Span(0, UNBOUNDED)


def fixed(number: int) -> Span:
    """Always as much."""
    return Span(number, number)


def _scaled(number: int, factor: float) -> int:
    scaled = math.ceil(float(number) * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled
