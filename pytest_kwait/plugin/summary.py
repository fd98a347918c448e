"""The summary line of a run: number, duration and outcome of its waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_kwait.engine.active_waits import ActiveWait

__all__ = ["WaitCount"]

_counter_key = pytest.StashKey["WaitCounter"]()
_total_key = pytest.StashKey["WaitCount"]()


class WaitCount:
    """Waits, counted.

    Args:
        waits: how many.
        seconds: how long they took, one after the other.
        failed_early: how many ended because what they awaited could no longer come.
        retries: how many errors of the API they lived through.
    """

    def __init__(
        self, waits: int = 0, seconds: float = 0.0, failed_early: int = 0, retries: int = 0
    ) -> None:
        self.waits = waits
        self.seconds = seconds
        self.failed_early = failed_early
        self.retries = retries

    def add(self, numbers: Sequence[Any]) -> None:
        """Add what another process, or an earlier moment, has counted."""
        waits, seconds, failed_early, retries = numbers
        self.waits += waits
        self.seconds += seconds
        self.failed_early += failed_early
        self.retries += retries

    def numbers(self) -> list[Any]:
        """Return the four numbers, as they are handed from process to process."""
        return [self.waits, self.seconds, self.failed_early, self.retries]

    def __str__(self) -> str:
        from pytest_kwait.apimachinery.durations import format_duration

        digits = 3 if self.seconds < 1 else 1 if self.seconds < 10 else 0
        waited = format_duration(round(self.seconds, digits))
        return (
            f"waited {waited} in {_format_count(self.waits, 'wait', 'waits')}, "
            f"{self.failed_early} failed early, "
            f"{_format_count(self.retries, 'retry', 'retries')}"
        )


class WaitCounter:
    """Hears of waits and counts those that are over; a wait within a wait is a part of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = WaitCount()

    def begun(self, wait: ActiveWait) -> None:
        """Hear that a wait has begun."""

    def over(self, wait: ActiveWait) -> None:
        """Hear that a wait is over."""
        outermost = not wait.inner
        seconds = max(wait.deadline.clock.monotonic() - wait.started, 0.0) if outermost else 0.0
        with self._lock:
            self._count.add([int(outermost), seconds, int(wait.failed_early), wait.retries])

    def taken(self) -> list[Any] | None:
        """Return what was counted since this was called last; None for nothing."""
        with self._lock:
            count, self._count = self._count, WaitCount()
        numbers = count.numbers()
        return numbers if any(numbers) else None


def pytest_configure(config: pytest.Config) -> None:
    """Count from now on."""
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    total = config.stash[_total_key] = WaitCount()
    config.pluginmanager.register(_Adder(total), "kwait-summary")
    counter = config.stash[_counter_key] = WaitCounter()
    ACTIVE_WAITS.add(counter)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have the report of each phase carry what it waited: it arrives even if its worker dies."""
    report = yield
    numbers = item.config.stash[_counter_key].taken()
    if numbers is not None:
        vars(report)["kwait_waits"] = numbers
    return report


class _Adder:
    """Adds what reports carry, where they arrive.

    Args:
        total: what it is added to.
    """

    def __init__(self, total: WaitCount) -> None:
        self._total = total

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a phase of a test waited, in whichever process it ran."""
        numbers = getattr(report, "kwait_waits", None)
        if numbers is not None:
            self._total.add(numbers)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over, or add, what was waited outside of every test."""
    config = session.config
    numbers = config.stash[_counter_key].taken()
    if numbers is None:
        return
    output = getattr(config, "workeroutput", None)
    if output is None:
        config.stash[_total_key].add(numbers)
    else:
        output["kwait_waits"] = numbers


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker waited outside of every test."""
    numbers = (getattr(node, "workeroutput", None) or {}).get("kwait_waits")
    if numbers is not None:
        node.config.stash[_total_key].add(numbers)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Count no more."""
    if _counter_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.remove(config.stash[_counter_key])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say it, unless nobody waited or the run is to be very quiet."""
    total = config.stash[_total_key]
    if total.waits and config.get_verbosity() > -2:
        terminalreporter.line(f"kwait: {total}")


def _format_count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
