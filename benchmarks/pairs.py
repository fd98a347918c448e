"""Paired measurements, taken alternately so that changes of the machine's load cancel out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of `ours` and of `peer`, one pair a round."""

    ours: list[float]
    peer: list[float]

    @property
    def median_difference(self) -> float:
        """The median of ours minus peer, in seconds."""
        return statistics.median(a - b for a, b in zip(self.ours, self.peer, strict=True))

    @property
    def median_ratio(self) -> float:
        """The median of ours divided by peer."""
        return statistics.median(a / b for a, b in zip(self.ours, self.peer, strict=True))

    def lines(self, ours: str, peer: str) -> str:
        """Return the medians as text, in milliseconds."""
        return "\n".join(
            f"  {name:<44} median {statistics.median(values) * 1000:9.2f} ms"
            f"   min {min(values) * 1000:9.2f}   max {max(values) * 1000:9.2f}"
            for name, values in ((ours, self.ours), (peer, self.peer))
        )


def seconds(action: Callable[[], object]) -> float:
    """Return the duration of `action`."""
    start = SYSTEM_CLOCK.monotonic()
    action()
    return SYSTEM_CLOCK.monotonic() - start


def measure(ours: Callable[[], float], peer: Callable[[], float], rounds: int) -> Pairs:
    """Return `rounds` pairs after a warm-up; the order alternates."""
    pairs = Pairs([], [])
    ours()
    peer()
    for number in range(rounds):
        if number % 2:
            pairs.ours.append(ours())
            pairs.peer.append(peer())
        else:
            pairs.peer.append(peer())
            pairs.ours.append(ours())
    return pairs
