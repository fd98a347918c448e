"""The machine on which the simulated containers of a cluster run."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.memory import MachineMemory
from pytest_kwait.simulator.busybox.os.process_table import CpuScheduler

if TYPE_CHECKING:
    from pytest_kwait.simulator.clock import SimClock


class Machine:
    """What all containers of a cluster share: time, memory, disk and CPUs."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.memory = MachineMemory(clock)

    @cached_property
    def cpu_scheduler(self) -> CpuScheduler:
        """The CPUs, from the first container on."""
        return CpuScheduler(self.clock)
