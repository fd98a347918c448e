"""Repeat a function with pauses until it is stopped; groups of threads until all have ended."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.arguments import (
    check_answer,
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_number,
)
from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.wait.backoff import BackoffManager, JitteredBackoffManager
from pytest_kwait.wait.context import Context, Stop, check_context, make_stop_context
from pytest_kwait.wait.loop import VariableTimer, loop_condition_until_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.apimachinery.times import Duration


NEVER_STOP = threading.Event()
"""A `stop` that is never set."""


def forever(f: Callable[[], object], period: Duration, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Call `f` every `period` until it raises.

    Source: util/wait/wait.go Forever.
    """
    until(f, period, NEVER_STOP, clock=clock)


def until(
    f: Callable[[], object],
    period: Duration,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Call `f` until `stop` is set, pausing for `period` after each call.

    Not called at all if `stop` is set already; returns at once when it is set, during `f` as well.
    Exceptions of `f` propagate.

    Source: util/wait/backoff.go Until.
    """
    jitter_until(f, period, 0.0, True, stop, clock=clock)


def until_with_context(ctx: Context, f: Callable[[Context], object], period: Duration) -> None:
    """As `until`, until the context has ended.

    Source: util/wait/backoff.go UntilWithContext.
    """
    jitter_until_with_context(ctx, f, period, 0.0, True)


def non_sliding_until(
    f: Callable[[], object],
    period: Duration,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """As `until`, but `period` includes the time `f` takes.

    Source: util/wait/backoff.go NonSlidingUntil.
    """
    jitter_until(f, period, 0.0, False, stop, clock=clock)


def non_sliding_until_with_context(
    ctx: Context, f: Callable[[Context], object], period: Duration
) -> None:
    """As `non_sliding_until`, until the context has ended.

    Source: util/wait/backoff.go NonSlidingUntilWithContext.
    """
    jitter_until_with_context(ctx, f, period, 0.0, False)


def jitter_until(
    f: Callable[[], object],
    period: Duration,
    jitter_factor: float,
    sliding: bool,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Call `f` until `stop` is set, with pauses of `period` lengthened at random.

    Args:
        f: the function to repeat; its exceptions propagate.
        period: the minimum pause.
        jitter_factor: the maximum extra, as a fraction of `period`; not positive for none.
        sliding: a pause begins after `f`; else with it.
        stop: set to stop.
        clock: passes the pauses.

    Source: util/wait/backoff.go JitterUntil.
    """
    backoff_until(f, _make_backoff(period, jitter_factor), sliding, stop, clock=clock)


def jitter_until_with_context(
    ctx: Context,
    f: Callable[[Context], object],
    period: Duration,
    jitter_factor: float,
    sliding: bool,
) -> None:
    """As `jitter_until`, until the context has ended.

    Source: util/wait/backoff.go JitterUntilWithContext.
    """
    backoff_until_with_context(ctx, f, _make_backoff(period, jitter_factor), sliding)


def _make_backoff(period: Duration, jitter_factor: float) -> BackoffManager:
    check_number("jitter_factor", jitter_factor)
    return JitteredBackoffManager(to_seconds(period, what="period"), jitter_factor)


def backoff_until(
    f: Callable[[], object],
    backoff: BackoffManager,
    sliding: bool,
    stop: Stop,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Call `f` until `stop` is set, with the pauses that `backoff` decides.

    Raises:
        InvalidArgument: an argument of another type, or `f` is async.

    Source: util/wait/backoff.go BackoffUntil.
    """
    check_function("f", f)
    backoff_until_with_context(make_stop_context(stop, clock), lambda _ctx: f(), backoff, sliding)


def backoff_until_with_context(
    ctx: Context, f: Callable[[Context], object], backoff: BackoffManager, sliding: bool
) -> None:
    """As `backoff_until`, until the context has ended.

    Source: util/wait/backoff.go BackoffUntilWithContext.
    """
    check_context("ctx", ctx)
    check_function("f", f)
    check_methods("backoff", backoff, ("backoff",), "use an object with backoff()")
    check_flag("sliding", sliding)

    def never(ctx: Context) -> bool:
        check_answer("result of f", f(ctx))
        return False

    if ctx.err() is None:
        loop_condition_until_context(ctx, VariableTimer(backoff.backoff), True, sliding, never)


def handle_crash(
    f: Callable[[], object], *handlers: Callable[[Exception], object]
) -> Callable[[], None]:
    """Return `f` with its exceptions passed to `handlers` in turn, for loops that must continue.

    Upstream does so inside its loops, depending on a global switch. Here it is explicit per call;
    otherwise exceptions propagate.

    Source: util/runtime/runtime.go HandleCrash.
    """
    check_function("f", f)
    for handler in handlers:
        check_function("handlers", handler)

    def guarded() -> None:
        try:
            f()
        except Exception as error:  # the handlers take any exception of `f`
            for handler in handlers:
                handler(error)

    return guarded


class Group:
    """Starts functions in threads of their own and waits for all of them.

    Source: util/wait/wait.go Group.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._errors: list[Exception] = []
        self._lock = threading.Lock()

    def start(self, f: Callable[[], object]) -> None:
        """Call `f` in a new thread, which does not keep the process alive."""
        check_function("f", f)
        thread = threading.Thread(target=self._run, args=(f,), daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def start_with_channel(
        self, stop: threading.Event, f: Callable[[threading.Event], object]
    ) -> None:
        """Call `f(stop)` in a new thread; it should return once `stop` is set."""
        check_instance("stop", stop, threading.Event, "use a threading.Event")
        check_function("f", f)
        self.start(lambda: f(stop))

    def start_with_context(self, ctx: Context, f: Callable[[Context], object]) -> None:
        """Call `f(ctx)` in a new thread; it should return once the context has ended."""
        check_context("ctx", ctx)
        check_function("f", f)
        self.start(lambda: f(ctx))

    def wait(self) -> None:
        """Return once every function started so far has returned; at once if there was none.

        Raises:
            Exception: the exception of a single failed function.
            ExceptionGroup: the exceptions of several failed functions.
        """
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()
        with self._lock:
            errors, self._errors = self._errors, []
        if len(errors) > 1:
            raise ExceptionGroup(f"{len(errors)} functions of a group failed", errors)
        for error in errors:
            raise error

    def _run(self, f: Callable[[], object]) -> None:
        try:
            f()
        except Exception as error:  # raised by `wait`: a thread has no caller
            with self._lock:
                self._errors.append(error)
