"""Backoff: growing pauses with jitter and a limit; and delay functions."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.apimachinery.arguments import (
    check_function,
    check_instance,
    check_number,
)
from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.wait.context import (
    Context,
    ErrWaitTimeout,
    background,
    check_clock,
    check_context,
)
from pytest_kwait.wait.loop import (
    ConditionFunc,
    ConditionWithContextFunc,
    FixedTimer,
    NoopTimer,
    Tick,
    VariableTimer,
    loop_condition_until_context,
    raise_interruption,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.apimachinery.times import Duration
    from pytest_kwait.wait.loop import Timer

_ENDLESS = 2**31 - 1

# The source of every jitter; tests replace it.
_random = random.Random()  # noqa: S311 - spreads retries, keeps no secret


class DelayFunc:
    """A function that returns the seconds to wait next, able to drive a loop.

    Safe to call from one thread only, unless made so by `concurrent`.

    Args:
        delay: returns the next interval in seconds.

    Source: util/wait/delay.go DelayFunc.
    """

    def __init__(self, delay: Callable[[], float]) -> None:
        check_function("delay", delay)
        self._delay = delay

    def __call__(self) -> float:
        """Return the next interval in seconds."""
        return self._delay()

    def timer(self) -> Timer:
        """Return a timer that calls this function for every interval."""
        return VariableTimer(self._delay)

    def until(
        self, ctx: Context, immediate: bool, sliding: bool, condition: ConditionWithContextFunc
    ) -> None:
        """Return once `condition` is true, checking after each of these delays.

        Raises:
            Canceled: the context was cancelled.
            DeadlineExceeded: the context's deadline has passed.
        """
        raise_interruption(
            loop_condition_until_context(ctx, self.timer(), immediate, sliding, condition)
        )

    def concurrent(self) -> DelayFunc:
        """Return the same function, safe to call from several threads."""
        lock = threading.Lock()

        def delay() -> float:
            with lock:
                return self._delay()

        return DelayFunc(delay)


def jitter(duration: Duration, max_factor: float) -> float:
    """Return random seconds, uniform from `duration` to `duration * (1 + max_factor)`.

    Args:
        duration: the minimum.
        max_factor: the maximum extra, as a fraction of `duration`; 1.0 if it is not positive.

    Source: util/wait/wait.go Jitter.
    """
    check_number("max_factor", max_factor)
    seconds = to_seconds(duration)
    return seconds + _random.random() * (max_factor if max_factor > 0 else 1.0) * seconds


@dataclass(init=False, slots=True)
class Backoff:
    """Growing pauses and their limits.

    Args:
        duration: the first pause. It is not cut down to `cap`.
        factor: multiplies each next pause; 0 keeps it constant.
        jitter: each pause is longer by up to this fraction of itself, chosen each time. Jitter
            does not add up, and may exceed `cap`.
        steps: the number of further changes of the pause; not positive keeps it constant. Also the
            number of tries of `exponential_backoff`.
        cap: a pause that would exceed it becomes `cap`, and no steps are left. 0 for none.

    Raises:
        InvalidArgument: `duration` or `cap` is not a duration, or negative, or another argument
            is no number.

    Source: util/wait/backoff.go Backoff.
    """

    duration: float
    factor: float
    jitter: float
    steps: int
    cap: float

    def __init__(
        self,
        duration: Duration = 0.0,
        factor: float = 0.0,
        jitter: float = 0.0,
        steps: int = 0,
        cap: Duration = 0.0,
    ) -> None:
        check_number("factor", factor)
        check_number("jitter", jitter)
        check_instance("steps", steps, int, "use a whole number")
        self.duration = to_seconds(duration, what="duration")
        self.factor = factor
        self.jitter = jitter
        self.steps = steps
        self.cap = to_seconds(cap, what="cap")

    def step(self) -> float:
        """Return the next pause in seconds; use a step and advance `duration`.

        Source: util/wait/backoff.go Step, delay.
        """
        pause = self.duration
        if self.steps < 1:
            self.steps = 0
        else:
            self.steps -= 1
            if self.factor != 0:
                self.duration *= self.factor
                if 0 < self.cap < self.duration:
                    self.duration, self.steps = self.cap, 0
        return jitter(pause, self.jitter) if self.jitter > 0 else pause

    def delay_func(self) -> DelayFunc:
        """Return these pauses as a function; this backoff stays unchanged."""
        return DelayFunc(replace(self).step)

    def delay_with_reset(self, clock: Clock, reset_interval: Duration) -> DelayFunc:
        """Return `delay_func`, restarted from the first pause every `reset_interval`.

        Safe to call from several threads, which then share the pauses. With an interval of zero the
        pause never grows. Without a positive `factor` nothing is reset.

        Source: util/wait/backoff.go DelayWithReset.
        """
        reset = to_seconds(reset_interval, what="reset_interval")
        check_clock("clock", clock)
        if self.factor <= 0:
            return self.delay_func()
        if reset == 0:
            return replace(self, steps=0, factor=0.0).delay_func()
        return DelayFunc(_ResettingDelay(self, clock, reset).step)

    def timer(self) -> Timer:
        """Return the timer for these pauses: varying, on a fixed grid, or without pause.

        Source: util/wait/backoff.go Timer.
        """
        if self.steps > 1 or self.jitter != 0:
            return self.delay_func().timer()
        return FixedTimer(self.duration) if self.duration > 0 else NoopTimer()


class _ResettingDelay:
    """Pauses that restart after an interval.

    Source: util/wait/backoff.go backoffManager.
    """

    def __init__(self, backoff: Backoff, clock: Clock, reset: float) -> None:
        self._initial = replace(backoff)
        self._backoff = replace(backoff)
        self._clock = clock
        self._reset = reset
        self._started = clock.monotonic()
        self._lock = threading.Lock()

    def step(self) -> float:
        with self._lock:
            now = self._clock.monotonic()
            if now - self._started > self._reset:
                self._backoff = replace(self._initial)
                self._started = now
            return self._backoff.step()


class BackoffManager(Protocol):
    """Decides the pauses of `backoff_until`.

    Source: util/wait/backoff.go BackoffManager.
    """

    def backoff(self) -> float:
        """Return the next pause in seconds."""
        ...


class ExponentialBackoffManager:
    """Pauses that grow up to a limit, and restart after a quiet time.

    Args:
        initial: the first pause.
        maximum: the maximum pause; jitter may exceed it.
        reset: the time since the last call after which pauses restart from `initial`.
        factor: the growth of every step.
        jitter: each pause is longer by up to this fraction of itself.

    Source: util/wait/backoff.go NewExponentialBackoffManager.
    """

    def __init__(
        self,
        initial: Duration,
        maximum: Duration,
        reset: Duration,
        factor: float,
        jitter: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        first = to_seconds(initial, what="initial")
        longest = to_seconds(maximum, what="maximum")
        check_clock("clock", clock)
        self._initial = Backoff(first, factor, jitter, _ENDLESS, longest)
        self._backoff = replace(self._initial)
        self._reset = to_seconds(reset, what="reset")
        self._clock = clock
        self._asked = clock.monotonic()

    def backoff(self) -> float:
        """Return the next pause in seconds."""
        now = self._clock.monotonic()
        if now - self._asked > self._reset:
            self._backoff = replace(self._initial)
        self._asked = now
        return self._backoff.step()


class JitteredBackoffManager:
    """A constant pause, longer by up to `jitter` of itself if that is positive.

    Args:
        duration: the pause.
        jitter: the maximum extra, as a fraction of `duration`.

    Source: util/wait/backoff.go NewJitteredBackoffManager.
    """

    def __init__(self, duration: Duration, jitter: float) -> None:
        check_number("jitter", jitter)
        self._duration = to_seconds(duration)
        self._jitter = jitter

    def backoff(self) -> float:
        """Return the next pause in seconds."""
        return jitter(self._duration, self._jitter) if self._jitter > 0 else self._duration


class _Attempts:
    """The pauses between a limited number of calls: none after the last.

    A pause cut to the cap is also the last one, and no call follows it. This matches upstream's
    code, although its comments differ.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._timer = VariableTimer(backoff.step)
        self._over = False

    def start(self, ctx: Context) -> None:
        self._over = self._backoff.steps == 1
        if not self._over:
            self._timer.start(ctx)

    def wait(self, ctx: Context) -> Tick:
        if self._over:
            return Tick.ENDED
        tick = self._timer.wait(ctx)
        return Tick.ENDED if tick is Tick.FIRED and self._backoff.steps < 1 else tick

    def next(self, ctx: Context) -> None:
        self.start(ctx)

    def stop(self) -> None:
        self._timer.stop()


def exponential_backoff(
    backoff: Backoff, condition: ConditionFunc, *, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Return once `condition` is true, checking at most `backoff.steps` times.

    Calls `condition` first, then pauses; there is no pause after the last call. A pause that
    reaches the cap ends the wait early.

    Raises:
        ErrWaitTimeout: all steps are used; at once, without a call, if `steps` is not positive.

    Source: util/wait/backoff.go ExponentialBackoff.
    """
    check_function("condition", condition)
    exponential_backoff_with_context(background(clock), backoff, lambda _ctx: condition())


def exponential_backoff_with_context(
    ctx: Context, backoff: Backoff, condition: ConditionWithContextFunc
) -> None:
    """Like `exponential_backoff`, but also ends with the context.

    Raises:
        ErrWaitTimeout: all steps are used.
        Canceled: the context was cancelled.
        DeadlineExceeded: the context's deadline has passed.

    Source: util/wait/backoff.go ExponentialBackoffWithContext.
    """
    check_context("ctx", ctx)
    check_instance("backoff", backoff, Backoff, "use a wait.Backoff")
    check_function("condition", condition)
    if backoff.steps < 1:
        raise ErrWaitTimeout
    raise_interruption(
        ctx.err()
        or loop_condition_until_context(ctx, _Attempts(replace(backoff)), True, True, condition)
    )
