"""Late, uncounted and repeated events of one recorder, as an exploration decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.exploration.exploration import LateCalls, make_stable_name
from pytest_kwait.simulator.no_exploration import UnexploredEvents
from pytest_kwait.simulator.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.exploration.exploration import Exploration
    from pytest_kwait.simulator.objects import Obj


class ExploredEvents(UnexploredEvents):
    """The events of one recorder under an exploration; they keep their order.

    Args:
        component: the component that records them.
    """

    def __init__(self, exploration: Exploration, component: str) -> None:
        self._exploration = exploration
        self._component = component
        self._late = LateCalls(exploration)

    @property
    def is_late(self) -> bool:
        """Return whether events are held back."""
        return len(self._late) > 0

    def is_of(self, exploration: object) -> bool:
        """Return whether an exploration holds them back."""
        return exploration is self._exploration

    def record(self, obj: Obj, reason: str, write: Callable[[str], object]) -> None:
        """Write an event now or later.

        Args:
            obj: the object of the event.
            write: writes it, given the text of the event.
        """
        name = make_stable_name(name_of(obj))
        text = f"event {self._component} {reason} {name}"
        event = self._exploration.event(text, namespace_of(obj))
        seconds = self._exploration.decide("event-delay", event) or 0.0
        self._late.add(seconds, lambda: write(event))
