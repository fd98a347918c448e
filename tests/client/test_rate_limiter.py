from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait import wait
from pytest_kwait.client.rate_limiter import NoLimit, TokenBucket
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock


def test_a_burst_goes_through_at_once_and_then_so_many_per_second() -> None:
    clock = FakeClock()
    bucket = TokenBucket(10, 3, clock)
    ctx = wait.background(clock)
    sent = []
    for _ in range(6):
        bucket.wait(ctx)
        sent.append(round(clock.monotonic(), 6))
    assert sent == [0, 0, 0, 0.1, 0.2, 0.3]


def test_the_bucket_never_holds_more_than_its_burst() -> None:
    clock = FakeClock()
    bucket = TokenBucket(10, 2, clock)
    clock.advance(60)
    assert [bucket.try_accept() for _ in range(3)] == [True, True, False]
    clock.advance(0.1)
    assert [bucket.try_accept() for _ in range(2)] == [True, False]


def test_callers_are_served_in_the_order_in_which_they_came() -> None:
    clock = FakeClock(auto=False)
    bucket = TokenBucket(1, 1, clock)
    assert bucket.try_accept()
    group = wait.Group()
    for blocked in (1, 2):
        group.start(lambda: bucket.wait(wait.background(clock)))
        clock.until_blocked(blocked)
    assert clock.pauses == [1, 2]
    clock.advance(2)
    group.wait()


def test_token_after_the_deadline_fails_at_once_and_takes_nothing() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1, 1, clock)
    assert bucket.try_accept()
    with pytest.raises(wait.DeadlineExceeded, match="the rate limit leaves no request"):
        bucket.wait(wait.background(clock).limited(0.5))
    assert clock.monotonic() == 0
    clock.advance(1)
    assert bucket.try_accept()


def test_cancelled_wait_returns_its_token() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1, 1, clock)
    assert bucket.try_accept()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    clock.call_later(0.5, cancel)
    with pytest.raises(wait.Canceled):
        bucket.wait(ctx)
    clock.advance(0.5)
    assert bucket.try_accept()


@pytest.mark.parametrize("limiter", [TokenBucket(1, 5), NoLimit()])
def test_ended_context_does_not_wait(limiter: TokenBucket | NoLimit) -> None:
    ctx, cancel = wait.with_cancel(wait.background())
    cancel()
    with pytest.raises(wait.Canceled):
        limiter.wait(ctx)
    assert limiter.try_accept()


def test_no_limit_never_waits() -> None:
    clock = FakeClock()
    for _ in range(1000):
        NoLimit().wait(wait.background(clock))
    assert clock.monotonic() == 0


@pytest.mark.parametrize(
    ("qps", "burst", "message"),
    [
        (0, 1, "qps=0 is not valid: a number of requests per second above zero"),
        (-1.5, 1, "qps=-1.5 is not valid: a number of requests per second above zero"),
        (float("nan"), 1, "qps=nan is not valid: a number of requests per second above zero"),
        (float("inf"), 1, "qps=inf is not valid: a number of requests per second above zero"),
        (True, 1, "qps=True is not valid: a number of requests per second above zero"),
        ("50", 1, "qps='50' is not valid: a number of requests per second above zero"),
        (1, 0, "burst=0 is not valid: a whole number of requests, at least 1"),
        (1, 1.5, "burst=1.5 is not valid: a whole number of requests, at least 1"),
        (1, True, "burst=True is not valid: a whole number of requests, at least 1"),
    ],
)
def test_a_bucket_that_makes_no_sense(qps: Any, burst: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        TokenBucket(qps, burst)
    assert str(raised.value) == message
