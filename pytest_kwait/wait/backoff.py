"""Backoff: pauses that grow, jitter, and stop growing; and delay functions."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.apimachinery.durations import to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.wait.context import Context, background
from pytest_kwait.wait.errors import ErrWaitTimeout
from pytest_kwait.wait.loop import (
    ConditionFunc,
    ConditionWithContextFunc,
    loop_condition_until_context,
    raise_interruption,
)
from pytest_kwait.wait.timer import FixedTimer, NoopTimer, Tick, VariableTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.apimachinery.durations import Duration
    from pytest_kwait.wait.timer import Timer

__all__ = [
    "Backoff",
    "BackoffManager",
    "DelayFunc",
    "ExponentialBackoffManager",
    "JitteredBackoffManager",
    "exponential_backoff",
    "exponential_backoff_with_context",
    "jitter",
]


class DelayFunc:
    """A function that gives the seconds to wait next, able to drive a loop.

    Safe to call from one thread only, unless made so by `concurrent`.

    Args:
        delay: gives the next interval in seconds.

    Source: util/wait/delay.go DelayFunc.
    """

    def __init__(self, delay: Callable[[], float]) -> None:
        self._delay = delay

    def __call__(self) -> float:
        """Return the next interval in seconds."""
        return self._delay()

    def timer(self) -> Timer:
        """Make a timer that asks this function for every interval."""
        return VariableTimer(self._delay)

    def until(
        self, ctx: Context, immediate: bool, sliding: bool, condition: ConditionWithContextFunc
    ) -> None:
        """Return once `condition` is true, looking after each of these delays.

        Raises:
            Canceled: the context was cancelled.
            DeadlineExceeded: the context's deadline has passed.
        """
        raise_interruption(
            loop_condition_until_context(ctx, self.timer(), immediate, sliding, condition)
        )

    def concurrent(self) -> DelayFunc:
        """Make the same delays safe to ask for from several threads."""
        lock = threading.Lock()

        def delay() -> float:
            with lock:
                return self._delay()

        return DelayFunc(delay)


_ENDLESS = 2**31 - 1

# The source of every jitter; tests replace it.
_random = random.Random()  # noqa: S311 - spreads retries, keeps no secret


def jitter(duration: Duration, max_factor: float) -> float:
    """Choose seconds evenly from `duration` to `duration * (1 + max_factor)`.

    Args:
        duration: the least.
        max_factor: how much more at most, as a part of `duration`; 1.0 if it is not positive.

    Source: util/wait/wait.go Jitter.
    """
    seconds = to_seconds(duration)
    return seconds + _random.random() * (max_factor if max_factor > 0 else 1.0) * seconds


@dataclass(init=False, slots=True)
class Backoff:
    """Growing pauses, and how long they go on growing.

    Args:
        duration: the first pause. It is not cut down to `cap`.
        factor: every next pause is this many times the one before; 0 keeps it as it is.
        jitter: every pause is longer by up to this part of itself, chosen anew each time. Jitter
            does not add up, and may lead beyond `cap`.
        steps: how many more times the pause may change; not positive keeps it as it is. Also the
            number of tries of `exponential_backoff`.
        cap: a pause that would grow beyond it becomes `cap`, and no steps are left. 0 for none.

    Raises:
        InvalidArgument: `duration` or `cap` is not a duration, or negative.

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
        self.duration = to_seconds(duration, what="duration")
        self.factor = factor
        self.jitter = jitter
        self.steps = steps
        self.cap = to_seconds(cap, what="cap")

    def step(self) -> float:
        """Return the next pause in seconds; use up a step, set `duration` to the pause after it.

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
        """Give these pauses as a function, which leaves this backoff as it is."""
        return DelayFunc(replace(self).step)

    def delay_with_reset(self, clock: Clock, reset_interval: Duration) -> DelayFunc:
        """As `delay_func`, starting from the first pause again every `reset_interval`.

        Safe to call from several threads, which then share the pauses. With an interval of zero the
        pause never grows. Without a positive `factor` nothing is reset.

        Source: util/wait/backoff.go DelayWithReset.
        """
        reset = to_seconds(reset_interval, what="reset_interval")
        if self.factor <= 0:
            return self.delay_func()
        if reset == 0:
            return replace(self, steps=0, factor=0.0).delay_func()
        return DelayFunc(_ResettingDelay(self, clock, reset).step)

    def timer(self) -> Timer:
        """Make the timer for these pauses: varying, on a fixed grid, or without pause.

        Source: util/wait/backoff.go Timer.
        """
        if self.steps > 1 or self.jitter != 0:
            return self.delay_func().timer()
        return FixedTimer(self.duration) if self.duration > 0 else NoopTimer()


class _ResettingDelay:
    """Source: util/wait/backoff.go backoffManager."""

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
    """Pauses that double (or so) up to a limit, and start again after a quiet time.

    Args:
        initial: the first pause.
        maximum: pauses grow no further; jitter may lead beyond it.
        reset: asked no sooner than this after the last time, it starts from `initial` again.
        factor: the growth of every step.
        jitter: every pause is longer by up to this part of itself.
        clock: the clock.

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
        self._initial = Backoff(initial, factor, jitter, _ENDLESS, maximum)
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
    """The same pause always, longer by up to `jitter` of itself if that is positive.

    Args:
        duration: the pause.
        jitter: how much more at most, as a part of `duration`.

    Source: util/wait/backoff.go NewJitteredBackoffManager.
    """

    def __init__(self, duration: Duration, jitter: float) -> None:
        self._duration = to_seconds(duration)
        self._jitter = jitter

    def backoff(self) -> float:
        """Return the next pause in seconds."""
        return jitter(self._duration, self._jitter) if self._jitter > 0 else self._duration


class _Attempts:
    """The pauses between a limited number of calls: none after the last.

    A pause cut to the cap is the last one too, and no call follows it: that is upstream's code,
    whatever its comments promise.
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
    """Return once `condition` is true, looking at most `backoff.steps` times.

    Calls `condition` first, then pauses; there is no pause after the last call. A pause that
    reaches the cap ends the wait early.

    Raises:
        ErrWaitTimeout: all steps are used; at once, without a call, if `steps` is not positive.

    Source: util/wait/backoff.go ExponentialBackoff.
    """
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
    if backoff.steps < 1:
        raise ErrWaitTimeout
    raise_interruption(
        ctx.err()
        or loop_condition_until_context(ctx, _Attempts(replace(backoff)), True, True, condition)
    )
