from __future__ import annotations

import asyncio

from pytest_kwait.simulator.clock import FAST, SimClock
from tests.simulator.manual_clock import ManualClock


def test_controllers_pauses_are_scaled_and_others_are_not() -> None:
    clock = ManualClock(scale=FAST)
    assert clock.call_later(10, lambda: None).when == 0.5
    assert clock.call_later(10, lambda: None, scaled=False).when == 10.0


def test_calls_are_made_in_their_order_and_not_once_cancelled() -> None:
    clock, made = ManualClock(), list[str]()
    clock.call_later(2, made.append, "second")
    clock.call_later(1, made.append, "first")
    clock.call_later(1, made.append, "never").cancel()
    clock.call_soon(made.append, "soon")
    clock.advance(2)
    assert made == ["soon", "first", "second"]
    assert clock.stamp() == "2026-01-01T00:00:02Z"
    assert clock.micro_stamp() == "2026-01-01T00:00:02.000000Z"


def test_the_real_clock_calls_in_the_running_loop() -> None:
    async def run() -> list[str]:
        clock, made = SimClock(FAST), list[str]()
        clock.call_soon(made.append, "soon")
        timer = clock.call_later(0.0, made.append, "later")
        assert timer.when <= clock.monotonic()
        await asyncio.wait_for(_until(made, 2), 60)
        return made

    assert asyncio.run(run()) == ["soon", "later"]


async def _until(made: list[str], count: int) -> None:
    while len(made) < count:
        await asyncio.get_running_loop().create_task(_turn())


async def _turn() -> None:
    pass
