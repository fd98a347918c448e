"""The running test: its time limit, and pytest-timeout's alarm.

Waits end before the test's own timeout, which would end the test without evidence. Registered in
every run: a limit is set before it is known whether the test will wait.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.clock import Deadline

_RESERVED_SECONDS = 10.0
"""Seconds of a test's limit that are reserved for evidence and teardown."""

_RESERVED_PART = 0.2
"""The part of a short limit that is reserved instead."""

_TEARDOWN_PART = 0.2
"""The part of the reserve that waits in teardown leave unused."""


running_test_key: pytest.StashKey[RunningTest] = pytest.StashKey()
_limits_key: pytest.StashKey[_Limits] = pytest.StashKey()


# A plain class: the code of a named tuple is compiled each time that the plugin is loaded.
class _TestTimeout:
    """The limit that pytest-timeout sets for a test.

    Args:
        deadline: its end.
        near: the time from which the end counts as near.
        seconds: its length.
        in_debuggers: whether it also holds while the test is debugged.
    """

    def __init__(
        self, deadline: Deadline, near: Deadline, seconds: float, in_debuggers: bool
    ) -> None:
        self.deadline = deadline
        self.near = near
        self.seconds = seconds
        self.in_debuggers = in_debuggers

    @property
    def holds(self) -> bool:
        """Return whether pytest-timeout can still end the test by it."""
        if self.deadline.expired:
            # The timer has fired, whether the test ended or not.
            return False
        from pytest_timeout import is_debugging

        return self.in_debuggers or not is_debugging()


class _Alarm:
    """The handler of pytest-timeout's signal, deferred between the phases of a test.

    The handler raises wherever the test is. Outside of a phase, for example while a report is
    made, that would end the whole run.

    Args:
        raise_timeout: pytest-timeout's own handler.
        outer_phases: the phases around the whole test: a run may be inside of a test.
    """

    def __init__(
        self, raise_timeout: Callable[[int, FrameType | None], object], outer_phases: int
    ) -> None:
        self._raise_timeout = raise_timeout
        self._outer_phases = outer_phases
        self._deferred = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the timeout within a phase; otherwise defer it to the next one."""
        if _count_phases(frame) > self._outer_phases:
            self._raise_timeout(number, frame)
        else:
            self._deferred = True

    def raise_deferred(self) -> None:
        """Raise the timeout if it was deferred."""
        if self._deferred:
            self._deferred = False
            self._raise_timeout(signal.SIGALRM, None)


def _count_phases(frame: FrameType | None) -> int:
    """Count the phases of tests that a frame is in: pytest reports what is raised in one."""
    phase = pytest.CallInfo.from_call.__code__
    count = 0
    while frame is not None:
        count += frame.f_code is phase
        frame = frame.f_back
    return count


class _Limits:
    """The limits of one attempt at a test.

    Args:
        outer_phases: the phases of tests around it.
    """

    def __init__(self, outer_phases: int) -> None:
        self.outer_phases = outer_phases
        self.in_teardown = False
        self.timeout: _TestTimeout | None = None
        self.alarm: _Alarm | None = None

    def raise_deferred_alarm(self) -> None:
        """Raise the timeout if it was deferred."""
        if self.alarm is not None:
            self.alarm.raise_deferred()


class RunningTest:
    """The test that runs now in this process, and whether the last fixtures are torn down."""

    def __init__(self) -> None:
        self.item: pytest.Item | None = None
        self.is_ending = False

    # First: pytest-timeout starts its timer in a wrapper of its own.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record the current test from before its setup until after its teardown."""
        self.item = item
        item.stash[_limits_key] = _Limits(_count_phases(sys._getframe()))
        try:
            return (yield)
        finally:
            self.item = None

    # First: the plugin that handles the timer ends the call.
    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> None:
        """Record when pytest-timeout will end the test."""
        from pytest_kwait.clock import Deadline

        deadline = Deadline.after(settings.timeout)
        near = Deadline(deadline.at - _reserve(settings.timeout), deadline.clock)
        in_debuggers = bool(getattr(settings, "disable_debugger_detection", False))
        timeout = _TestTimeout(deadline, near, settings.timeout, in_debuggers)
        _limits_of(item).timeout = timeout

    @pytest.hookimpl(optionalhook=True, wrapper=True, specname="pytest_timeout_set_timer")
    def pytest_timeout_defer_alarm(
        self, item: pytest.Item, settings: Any
    ) -> Generator[None, object, object]:
        """Defer the alarm of pytest-timeout's signal method between phases."""
        result = yield
        # As in pytest-timeout: only the main thread gets signals.
        if settings.method == "signal" and threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGALRM)
            if callable(handler):
                limits = _limits_of(item)
                limits.alarm = _Alarm(handler, limits.outer_phases)
                signal.signal(signal.SIGALRM, limits.alarm)
        return result

    # First: the plugin that handles the timer ends the call.
    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        """Forget the limit together with pytest-timeout's timer."""
        limits = _limits_of(item)
        limits.timeout = limits.alarm = None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test whose time was up before its setup."""
        _limits_of(item).raise_deferred_alarm()

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Fail a test whose time was up between its setup and its call."""
        _limits_of(item).raise_deferred_alarm()

    # First: teardowns of other plugins' wrappers are within the reserve too.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Let waits in teardown use most of the reserve; record the last teardown.

        A test whose time was up before its teardown fails after it.
        """
        limits = _limits_of(item)
        limits.in_teardown = True
        if nextitem is None:
            self.is_ending = True
        try:
            result = yield
        finally:
            limits.in_teardown = False
        limits.raise_deferred_alarm()
        return result

    def pytest_sessionfinish(self) -> None:
        """Record the teardown of fixtures after an interrupt."""
        self.is_ending = True


def running_test_of(config: pytest.Config) -> RunningTest:
    """Return what this process records of the running test."""
    return config.stash[running_test_key]


def running_item(config: pytest.Config) -> pytest.Item | None:
    """Return the test that runs now; None between tests."""
    return running_test_of(config).item


def _limits_of(item: pytest.Item) -> _Limits:
    """Return the limits of a test; pytest-timeout's hooks may be called for one that never ran."""
    return item.stash.setdefault(_limits_key, _Limits(0))


def _timeout_of(item: pytest.Item | None) -> _TestTimeout | None:
    """Return the limit that can still end a test.

    A test that was debugged has no limit, unless pytest-timeout is configured otherwise.
    """
    timeout = None if item is None else _limits_of(item).timeout
    return timeout if timeout is not None and timeout.holds else None


def time_budget_of(item: pytest.Item | None) -> TimeBudget | None:
    """Return the time that a test's limit leaves to a new wait, or None."""
    timeout = _timeout_of(item)
    if item is None or timeout is None:
        return None
    from pytest_kwait.apimachinery.times import format_duration
    from pytest_kwait.client.session import TimeBudget

    kept = _reserve(timeout.seconds) * (_TEARDOWN_PART if _limits_of(item).in_teardown else 1.0)
    return TimeBudget(
        max(timeout.deadline.remaining - kept, 0.0),
        f"the test's own timeout of {format_duration(timeout.seconds)} (pytest-timeout)",
    )


def time_left(item: pytest.Item) -> float | None:
    """Return the seconds until pytest-timeout ends a test; None without a limit or after it."""
    timeout = _timeout_of(item)
    return None if timeout is None else timeout.deadline.remaining or None


def near_limit(item: pytest.Item | None) -> tuple[Deadline, float] | None:
    """Return when a test's limit counts as near, and the limit in seconds; None without a limit.

    Waits bound to the test have ended by then. The deadline is the same object while the limit is
    the same.
    """
    timeout = _timeout_of(item)
    return None if timeout is None else (timeout.near, timeout.seconds)


def _reserve(limit: float) -> float:
    return min(_RESERVED_SECONDS, limit * _RESERVED_PART)
