"""The summary of a run's waits: a line with their number, and with `--kwait-audit` a table.

The table lists waits that prove little, with what to write instead. Each process observes its own
waits, the controller counts them.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.active_waits import WaitObserver
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.run import worker_output
from pytest_kwait.plugin.timeout import running_item, time_budget_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_kwait.engine.active_waits import ActiveWait, WaitCall
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.audit.rows import Row

_LATENESS = 2.0
"""Seconds by which a limit that was cut to the test's own timeout may differ from it by now."""


class WaitCount:
    """Number, duration and outcome of waits.

    Args:
        waits: the number of waits.
        seconds: the sum of their durations.
        failed_early: waits that ended because their condition could no longer come true.
        retries: API errors that were retried, and writes that were sent again for a webhook.
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


class WaitCounter(WaitObserver):
    """Observer that counts finished waits; nested waits count as part of the outer one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = WaitCount()

    def on_end(self, wait: ActiveWait) -> None:
        """Count a finished wait."""
        outermost = not wait.inner
        seconds = wait.seconds if outermost else 0.0
        with self._lock:
            self._count.add([int(outermost), seconds, int(wait.failed_early), wait.retries])

    def on_retry(self) -> None:
        """Count a write that is sent again."""
        with self._lock:
            self._count.add([0, 0.0, 0, 1])

    def take_count(self) -> list[Any] | None:
        """Return the counts since the last call; None if there are none."""
        with self._lock:
            count, self._count = self._count, WaitCount()
        numbers = count.numbers()
        return numbers if any(numbers) else None


class WaitSummary:
    """Counts the waits of all processes, and prints their number."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._counter = WaitCounter()
        self._total = WaitCount()

    def pytest_configure(self, config: pytest.Config) -> None:
        """Start counting; register the audit if it is wanted."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.add(self._counter)
        if self._run.settings.audit:
            config.pluginmanager.register(_Audit(config), "kwait-audit")

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach each phase's counts to its report, which arrives even if the worker crashes."""
        report = yield
        numbers = self._counter.take_count()
        if numbers is not None:
            vars(report)["kwait_waits"] = numbers
        return report

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Add the counts of a phase, in whichever process it ran."""
        self._add(getattr(report, "kwait_waits", None))
        return (yield)

    # Last: the fixtures of the session have ended.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Add the counts outside of tests, or pass them to the controller."""
        numbers = self._counter.take_count()
        output = self._run.output
        if output is None:
            self._add(numbers)
        elif numbers is not None:
            output["kwait_waits"] = numbers

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of a worker outside of its tests."""
        self._add(worker_output(node).get("kwait_waits"))

    def _add(self, numbers: Sequence[Any] | None) -> None:
        if numbers is not None:
            self._total.add(numbers)

    def pytest_unconfigure(self) -> None:
        """Stop counting."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.remove(self._counter)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the summary line, unless nothing waited or was retried, or in a quiet run."""
        if (self._total.waits or self._total.retries) and config.get_verbosity() > -2:
            terminalreporter.line(f"kwait: {self._total}")


def _format_count(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def locate_calls(config: pytest.Config) -> None:
    """Find the call of each wait from now on: its line in the suite, and the name of its limit."""
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    ACTIVE_WAITS.locate_call = partial(_locate, config)


def _locate(config: pytest.Config, name: str, limit: float, limit_name: str) -> WaitCall:
    from pytest_kwait.engine.active_waits import WaitCall
    from pytest_kwait.suite.audit.call_sites import find_call, make_relative

    call = find_call(name)
    if call is None:
        return WaitCall()
    item = running_item(config)
    site = make_relative(call.site, config.rootpath)
    if item is not None and not site:
        file, line, _ = item.location
        site = f"{file}:{(line or 0) + 1}"
    table_limit = _find_limit(config, limit, limit_name)
    return WaitCall(
        call.name,
        site,
        "" if table_limit is None else limit_name,
        is_precondition=call.is_precondition,
        limit=table_limit,
    )


def _find_limit(config: pytest.Config, used: float, name: str) -> float | None:
    """Return the limit of the timeout table if a wait uses it, even if cut; None otherwise."""
    from pytest_kwait.plugin.markers import settings_in_force

    if not name:
        return None
    settings = settings_in_force(config, config.pluginmanager.getplugin("session"))
    if settings.wait_timeout(name) is not None:
        return None
    limit = settings.timeouts()[name]
    budget = time_budget_of(running_item(config))
    cut = limit if budget is None else min(limit, budget.seconds)
    return limit if used == limit or abs(used - cut) <= _LATENESS else None


class _Audit:
    """Observes the waits of this process, and counts those of all where reports arrive."""

    def __init__(self, config: pytest.Config) -> None:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.engine.audit import Auditor
        from pytest_kwait.suite.audit.findings import AuditCounts
        from pytest_kwait.suite.audit.rows import AuditCollector

        self._counts = AuditCounts()
        self._auditor = Auditor()
        self._collector = AuditCollector(
            lambda: "" if (item := running_item(config)) is None else item.nodeid
        )
        locate_calls(config)
        self._auditor.start()
        ACTIVE_WAITS.add(self._collector)

    # Last: around the test's function alone; other wrappers are outside.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """End the observations with the body of the test."""
        try:
            return (yield)
        finally:
            self._auditor.end_observations()

    # First: the waits of other plugins' teardown are observed too.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """End the observations with the test."""
        try:
            return (yield)
        finally:
            self._auditor.end_observations()

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the waits whose observation has ended."""
        report = yield
        if rows := self._collector.take_rows():
            vars(report)["kwait_audit"] = rows
        return report

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Count the waits of a phase, in whichever process it ran."""
        self._add(getattr(report, "kwait_audit", ()))
        return (yield)

    # Last: the fixtures of the session have ended.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Count the waits outside of tests, or pass them to the controller."""
        self._auditor.end_observations()
        rows = self._collector.take_rows()
        output = getattr(session.config, "workeroutput", None)
        if output is None:
            self._add(rows)
        else:
            output["kwait_audit"] = rows

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Count the waits of a worker outside of its tests."""
        self._add(worker_output(node).get("kwait_audit", ()))

    def _add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._counts.add(row)

    # Last: a section of its own, below the lines of all other plugins.
    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the table, unless nothing waited or the run is very quiet."""
        from pytest_kwait.suite.audit.findings import render_findings

        if not self._counts.calls or config.get_verbosity() <= -2:
            return
        terminalreporter.section("kwait audit")
        more = "`kwait report audit --all` of the --kwait-report FILE.json lists them"
        for line in render_findings(self._counts, more=more):
            terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Stop observing."""
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        self._auditor.stop()
        ACTIVE_WAITS.remove(self._collector)
        ACTIVE_WAITS.locate_call = None
