"""The services of a cluster: what its components share, one object of each class.

A component finds them at its cluster, so that it neither makes nor passes them on. The module that
defines a service has the function that gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kwait.simulator.busybox.os.machine import Machine
    from pytest_kwait.simulator.clock import SimClock

T = TypeVar("T")


class Services:
    """The services of one cluster.

    Attributes:
        is_closed: whether the cluster has ended.
    """

    def __init__(self) -> None:
        self._made: dict[type, object] = {}
        self._ends: list[Callable[[], Awaitable[None]]] = []
        self.is_closed = False

    def get(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the cluster's object of a class.

        Args:
            make: makes the object when it is first asked for.
        """
        service = self._made.get(kind)
        if not isinstance(service, kind):
            service = self._made[kind] = make()
        return service

    def on_close(self, end: Callable[[], Awaitable[None]]) -> None:
        """Call a function when the cluster ends."""
        self._ends.append(end)

    async def close(self) -> None:
        """End what services have begun."""
        self.is_closed = True
        while self._ends:
            await self._ends.pop(0)()


def get_machine(services: Services, clock: SimClock) -> Machine:
    """Return the machine of all simulated containers of a cluster."""
    # Not at import: a cluster starts without it.
    from pytest_kwait.simulator.busybox.os.machine import Machine

    return services.get(Machine, lambda: Machine(clock))
