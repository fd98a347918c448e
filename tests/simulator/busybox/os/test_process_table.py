"""CPU time shared by the containers of a cluster."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.busybox.os.machine import Machine
from pytest_kwait.simulator.busybox.os.process_table import (
    CpuCredit,
    CpuScheduler,
)
from tests.simulator.manual_clock import ManualClock
from tests.simulator.runtimes.interpreted.container_harness import ContainerHarness

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.process_table import ProcessTable
    from pytest_kwait.simulator.busybox.os.syscalls import Task


def test_an_unreferenced_cluster_is_collected_with_its_containers() -> None:
    harness = ContainerHarness("sh", "-c", "while :; do :; done")
    harness.clock.advance(0.1)
    gone = weakref.ref(harness.clock)
    del harness
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "script", ["exit 4", "cat /no | grep port || exit 4", "x=$(true); (exit 4)"]
)
def test_a_short_process_ends_before_the_next_relist(script: str) -> None:
    harness = ContainerHarness("sh", "-c", script)
    assert (harness.container.running, harness.container.status.exit_code) == (False, 4)


@pytest.mark.parametrize("count", [1, 8])
def test_debtors_share_one_credit_gain(count: int) -> None:
    clock = ManualClock()
    debtors = CpuScheduler(clock).debtors
    shared = [CpuCredit(clock, debtors) for _ in range(count)]
    for credit in shared:
        credit.spend(0.3)
    assert not any(credit.is_positive for credit in shared)
    # A debt of 0.2 s, reduced by 0.1 s per second.
    clock.advance(1.9 * count)
    assert not any(credit.is_positive for credit in shared)
    clock.advance(0.2 * count)
    assert all(credit.is_positive for credit in shared)


def test_cpu_debt_is_limited() -> None:
    clock = ManualClock()
    credit = CpuCredit(clock, CpuScheduler(clock).debtors)
    credit.spend(1000)
    clock.advance(6)
    assert credit.is_positive


def test_simultaneous_wakeups_are_spread_over_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    machine = Machine(clock)
    rooms = [
        ContainerHarness("sh", "-c", "sleep 1; sleep 999", clock=clock, machine=machine)
        for _ in range(300)
    ]
    waited: list[ProcessTable] = []
    schedule = CpuScheduler.schedule

    def count(self: CpuScheduler, tasks: ProcessTable, task: Task) -> None:
        waited.append(tasks)
        schedule(self, tasks, task)

    monkeypatch.setattr(CpuScheduler, "schedule", count)
    clock.advance(1)
    assert len(rooms) / 2 < len(set(waited)) < len(rooms)
