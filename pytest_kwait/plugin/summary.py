"""The summary line of a run: number, duration and outcome of its waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.run import guard_report

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_kwait.engine.active_waits import ActiveWait

__all__ = ["WaitCount"]

_counter_key = pytest.StashKey["WaitCounter"]()
_total_key = pytest.StashKey["WaitCount"]()


class WaitCount:
    """Number, duration and outcome of waits.

    Args:
        waits: the number of waits.
        seconds: the sum of their durations.
        failed_early: waits that ended because their condition could no longer come true.
        retries: API errors that were retried.
    """

    def __init__(
        self, waits: int = 0, seconds: float = 0.0, failed_early: int = 0, retries: int = 0
    ) -> None:
        self.waits = waits
        self.seconds = seconds
        self.failed_early = failed_early
        self.retries = retries

    def add(self, numbers: Sequence[Any]) -> None:
        """Add the numbers of another process."""
        waits, seconds, failed_early, retries = numbers
        self.waits += waits
        self.seconds += seconds
        self.failed_early += failed_early
        self.retries += retries

    def numbers(self) -> list[Any]:
        """Return the four numbers, as they are passed between processes."""
        return [self.waits, self.seconds, self.failed_early, self.retries]

    def __str__(self) -> str:
        from pytest_kwait.apimachinery.times import format_duration

        digits = 3 if self.seconds < 1 else 1 if self.seconds < 10 else 0
        waited = format_duration(round(self.seconds, digits))
        return (
            f"waited {waited} in {_format_count(self.waits, 'wait', 'waits')}, "
            f"{self.failed_early} failed early, "
            f"{_format_count(self.retries, 'retry', 'retries')}"
        )


class WaitCounter:
    """Observer that counts finished waits; nested waits count as part of the outer one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = WaitCount()

    def on_start(self, wait: ActiveWait) -> None:
        """Record the start of a wait."""

    def on_end(self, wait: ActiveWait) -> None:
        """Count a finished wait."""
        outermost = not wait.inner
        seconds = max(wait.deadline.clock.monotonic() - wait.started, 0.0) if outermost else 0.0
        with self._lock:
            self._count.add([int(outermost), seconds, int(wait.failed_early), wait.retries])

    def take_count(self) -> list[Any] | None:
        """Return the counts since the last call; None if there are none."""
        with self._lock:
            count, self._count = self._count, WaitCount()
        numbers = count.numbers()
        return numbers if any(numbers) else None


def pytest_configure(config: pytest.Config) -> None:
    """Start counting."""
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    total = config.stash[_total_key] = WaitCount()
    config.pluginmanager.register(_Adder(total), "kwait-summary")
    counter = config.stash[_counter_key] = WaitCounter()
    ACTIVE_WAITS.add(counter)


@pytest.hookimpl(wrapper=True)
@guard_report
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach each phase's counts to its report, which arrives even if the worker crashes."""
    report = yield
    numbers = item.config.stash[_counter_key].take_count()
    if numbers is not None:
        vars(report)["kwait_waits"] = numbers
    return report


class _Adder:
    """Adds the counts of reports where they arrive."""

    def __init__(self, total: WaitCount) -> None:
        self._total = total

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Add the counts of a phase, in whichever process it ran."""
        numbers = getattr(report, "kwait_waits", None)
        if numbers is not None:
            self._total.add(numbers)
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Add the counts outside of tests, or pass them to the controller."""
    config = session.config
    numbers = config.stash[_counter_key].take_count()
    if numbers is None:
        return
    output = getattr(config, "workeroutput", None)
    if output is None:
        config.stash[_total_key].add(numbers)
    else:
        output["kwait_waits"] = numbers


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker outside of its tests."""
    numbers = (getattr(node, "workeroutput", None) or {}).get("kwait_waits")
    if numbers is not None:
        node.config.stash[_total_key].add(numbers)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop counting."""
    if _counter_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.remove(config.stash[_counter_key])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the summary line, unless nothing waited or the run is very quiet."""
    total = config.stash[_total_key]
    if total.waits and config.get_verbosity() > -2:
        terminalreporter.line(f"kwait: {total}")


def _format_count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
