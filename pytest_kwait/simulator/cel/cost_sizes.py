"""Least and most: what costs and sizes are estimated as.

Source: github.com/google/cel-go checker/cost.go.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["UNBOUNDED", "UNKNOWN", "ZERO", "Estimate", "fixed_estimate"]

UNBOUNDED = 2**64 - 1
"""The most that can be counted; nothing goes beyond it."""


class Estimate(NamedTuple):
    """Between how little and how much something costs, or has of items or characters."""

    least: int
    most: int

    def plus(self, other: Estimate) -> Estimate:
        """Both together."""
        return Estimate(
            min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED)
        )

    def times(self, other: Estimate) -> Estimate:
        """One as often as the other says."""
        return Estimate(
            min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED)
        )

    def by(self, factor: float) -> Estimate:
        """As much for each; begun units count."""
        return Estimate(_scale(self.least, factor), _scale(self.most, factor))

    def union(self, other: Estimate) -> Estimate:
        """Either."""
        return Estimate(min(self.least, other.least), max(self.most, other.most))


ZERO = Estimate(0, 0)
UNKNOWN = Estimate(0, UNBOUNDED)


def fixed_estimate(number: int) -> Estimate:
    """Always as much."""
    return Estimate(number, number)


def _scale(number: int, factor: float) -> int:
    scaled = math.ceil(float(number) * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled
