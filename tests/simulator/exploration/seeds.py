"""Seeds that make the decisions which a test needs, and holds of a length that it chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.exploration.cluster_exploration import ClusterExploration
from pytest_kwait.simulator.exploration.exploration import Exploration
from pytest_kwait.simulator.no_exploration import NoExploration
from tests.simulator.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.exploration.exploration import Held

_SEEDS = 20_000


def find_seed(
    level: str,
    wanted: Iterable[tuple[str, str]],
    unwanted: Iterable[tuple[str, str]] = (),
) -> int:
    """Return the first seed that makes the wanted decisions and not the unwanted ones."""
    clock, yes, no = ManualClock(), [*wanted], [*unwanted]
    for seed in range(_SEEDS):
        decide = Exploration(clock, seed, level).decide
        if all(decide(*one) is not None for one in yes) and all(decide(*one) is None for one in no):
            return seed
    raise AssertionError(f"none of {_SEEDS} seeds decides so at {level}: {yes}, not {no}")


def hold_for(exploration: Exploration, seconds: float) -> list[float]:
    """Hold whatever is held for `seconds`; the list collects the decided times."""
    decided: list[float] = []
    original = exploration.hold

    def hold(seconds_decided: float, release: Callable[[], object]) -> Held:
        decided.append(seconds_decided)
        return original(seconds, release)

    exploration.__dict__["hold"] = hold
    return decided


def explore(cluster: SimulatedCluster, exploration: Exploration | None) -> None:
    """Explore a cluster from now on, or no more."""
    cluster.clock.exploration = exploration
    cluster.exploration = ClusterExploration(exploration) if exploration else NoExploration()


def running_exploration(cluster: SimulatedCluster) -> Exploration:
    """Return the exploration that runs in a cluster."""
    assert isinstance(cluster.exploration, ClusterExploration)
    return cluster.exploration.exploration


def decide_always(exploration: Exploration, size: float) -> None:
    """Make every decision with one size."""
    exploration.__dict__["decide"] = lambda _name, _event: size
