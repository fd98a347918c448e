"""Rate limiters: a token bucket that limits requests per second."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.wait import DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.wait import Context


VALID_QPS = "a number of requests per second above zero"
"""The valid values of `qps`, for errors."""


class RateLimiter(Protocol):
    """Decides when the next request may be sent."""

    def try_accept(self) -> bool:
        """Take a token if available; return whether it was."""

    def wait(self, ctx: Context) -> None:
        """Wait until the caller may send a request.

        Raises:
            Canceled, DeadlineExceeded: the context has ended, or would end before.
        """


class NoLimit:
    """Accepts every request at once."""

    def try_accept(self) -> bool:
        """Return True."""
        return True

    def wait(self, ctx: Context) -> None:
        """Return at once, unless the context has ended."""
        if (error := ctx.err()) is not None:
            raise error


class TokenBucket:
    """A bucket of `burst` tokens that gains `qps` per second; a request takes one.

    Callers are served in order of arrival. Safe to use from any thread.

    Args:
        qps: tokens per second, above zero.
        burst: the maximum number of immediate consecutive requests, at least one.
        clock: passes the time.

    Raises:
        InvalidArgument: another number.

    Source: client-go, util/flowcontrol/throttle.go, `NewTokenBucketRateLimiter`.
    """

    def __init__(self, qps: float, burst: int, clock: Clock = SYSTEM_CLOCK) -> None:
        if type(qps) not in (int, float) or not 0 < qps < math.inf:
            raise InvalidArgument("qps", qps, VALID_QPS)
        if type(burst) is not int or burst < 1:
            raise InvalidArgument("burst", burst, "a whole number of requests, at least 1")
        self.qps = float(qps)
        self.burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def try_accept(self) -> bool:
        """Take a token if available; return whether it was."""
        with self._lock:
            self._gain()
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True

    def wait(self, ctx: Context) -> None:
        """Wait for a token and take it.

        Raises:
            Canceled, DeadlineExceeded: the context has ended; no token is taken then. The latter
                is raised at once if the context would end before a token is available.
        """
        if (error := ctx.err()) is not None:
            raise error
        with self._lock:
            self._gain()
            pause = max(0.0, (1 - self._tokens) / self.qps)
            if pause > ctx.deadline.remaining:
                raise DeadlineExceeded("the rate limit leaves no request before the deadline")
            self._tokens -= 1
        if pause and ctx.wait(pause):
            with self._lock:
                self._gain()
                self._tokens = min(float(self.burst), self._tokens + 1)
            error = ctx.err()
            assert error is not None  # noqa: S101 - what `wait` has said
            raise error

    def _gain(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.qps)
        self._at = now
