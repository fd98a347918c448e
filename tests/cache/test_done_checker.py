"""Upstream's rows of TestWaitFor, with the log lines in this package's words."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from pytest_kwait import cache, wait
from pytest_kwait.cache import Signal
from pytest_kwait.testing import FakeClock


def test_signal_calls_each_callback_once() -> None:
    signal, told = Signal(), list[str]()
    signal.on_set(lambda: told.append("first"))
    signal.on_set(lambda: told.append("second"))

    signal.set()
    signal.set()

    assert signal.is_set()
    assert told == ["first", "second"]


def test_signal_calls_a_late_callback_at_once() -> None:
    signal, told = Signal(), list[str]()
    signal.set()

    signal.on_set(lambda: told.append("late"))

    assert told == ["late"]


def test_signal_does_not_call_a_removed_callback() -> None:
    signal, told = Signal(), list[str]()
    forget = signal.on_set(lambda: told.append("no longer"))

    forget()
    forget()
    signal.set()

    assert told == []


def test_is_set_before_it_tells() -> None:
    signal, seen = Signal(), list[bool]()
    signal.on_set(lambda: seen.append(signal.is_set()))

    signal.set()

    assert seen == [True]


@dataclass
class Checker:
    """Done `delay` seconds after the clock's start; None for never."""

    name: str
    delay: float | None
    done: cache.Signal = field(default_factory=cache.Signal)

    def plan(self, clock: FakeClock) -> None:
        if self.delay == 0:
            self.done.set()
        elif self.delay is not None:
            clock.call_later(self.delay, self.done.set)


@dataclass(frozen=True)
class Row:
    what: str = ""
    checkers: tuple[tuple[str, float | None], ...] = ()
    timeout: float | None = None
    cancelled: bool = False
    cause: str | None = None
    done: bool = True
    log: tuple[tuple[float, str], ...] = ()


THREE = (("first", 10.0), ("second", 5.0), ("last", 0.0))
TWO = (("first", 10.0), ("second", None), ("last", 0.0))
NONE = (("first", None), ("second", None), ("last", None))
WAITING = (0.0, 'Waiting for="my-caches"')
LAST = (0.0, 'Done waiting for="my-caches" instance="last"')
FIRST = (10.0, 'Done waiting for="my-caches" instance="first"')

ROWS = {
    "empty": Row(),
    "no-caches": Row("my-caches", log=(WAITING,)),
    "no-logging": Row("", THREE),
    "with-logging": Row(
        "my-caches",
        THREE,
        log=(WAITING, LAST, (5.0, 'Done waiting for="my-caches" instance="second"'), FIRST),
    ),
    "some-timeout": Row(
        "my-caches",
        TWO,
        timeout=60.0,
        done=False,
        log=(
            WAITING,
            LAST,
            FIRST,
            (
                60.0,
                'Timed out waiting for="my-caches" cause="context deadline exceeded" '
                'instances=["second"]',
            ),
        ),
    ),
    "some-canceled": Row(
        "my-caches",
        TWO,
        cancelled=True,
        done=False,
        log=(
            WAITING,
            LAST,
            (
                0.0,
                'Timed out waiting for="my-caches" cause="context canceled" '
                'instances=["first", "second"]',
            ),
        ),
    ),
    "more": Row(
        "my-caches",
        TWO,
        timeout=5.0,
        cause="go fish",
        done=False,
        log=(
            WAITING,
            LAST,
            (
                5.0,
                'Timed out waiting for="my-caches" cause="go fish" instances=["first", "second"]',
            ),
        ),
    ),
    "all": Row(
        "my-caches",
        NONE,
        timeout=60.0,
        done=False,
        log=(
            WAITING,
            (
                60.0,
                'Timed out waiting for="my-caches" cause="context deadline exceeded" '
                'instances=["first", "last", "second"]',
            ),
        ),
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_wait_for(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    checkers = [Checker(name, delay) for name, delay in row.checkers]
    for checker in checkers:
        checker.plan(clock)
    context, cancel = wait.with_cancel(wait.background(clock))
    if row.cancelled:
        cancel()
    elif row.cause is not None and row.timeout is not None:
        cause = RuntimeError(row.cause)
        clock.call_later(row.timeout, lambda: cancel(cause))
    elif row.timeout is not None:
        context, _ = wait.with_timeout(context, row.timeout)
    lines: list[tuple[float, str]] = []
    listener = logging.Handler()
    listener.emit = lambda record: lines.append((clock.monotonic(), record.getMessage()))  # type: ignore[method-assign] # the shortest listener
    logger = logging.getLogger("pytest_kwait.cache")
    logger.addHandler(listener)
    try:
        with caplog.at_level(logging.INFO, "pytest_kwait.cache"):
            done = cache.wait_for(context, row.what, *checkers)
    finally:
        logger.removeHandler(listener)

    assert done is row.done
    assert tuple(lines) == row.log


def test_wait_for_does_not_poll() -> None:
    clock = FakeClock()
    checker = Checker("slow", 3600.0)
    checker.plan(clock)

    assert cache.wait_for(wait.background(clock), "", checker)
    assert clock.pauses == []


def test_checker_that_is_done_when_the_context_ends_counts() -> None:
    clock = FakeClock()
    checker = Checker("just in time", 5.0)
    checker.plan(clock)
    context, _ = wait.with_timeout(wait.background(clock), 5.0)

    assert cache.wait_for(context, "", checker)


def test_is_done() -> None:
    checker = Checker("one", None)
    before = cache.is_done(checker)
    checker.done.set()

    assert (before, cache.is_done(checker)) == (False, True)


def test_interest_is_taken_back_when_the_wait_ends() -> None:
    clock = FakeClock()
    checker = Checker("never", None)
    context, _ = wait.with_timeout(wait.background(clock), 5.0)

    assert not cache.wait_for(context, "", checker)
    assert checker.done._calls == []
