"""Upstream's tables for Backoff, the delays and the managers made of it, and ExponentialBackoff."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock
from pytest_kwait.wait import backoff as backoff_module

if TYPE_CHECKING:
    from collections.abc import Callable

GROWING = [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


class ConditionError(Exception):
    """What the conditions of these tests raise."""


@pytest.mark.parametrize(
    ("initial", "want"),
    [
        (wait.Backoff(), [0, 0, 0, 0]),
        (wait.Backoff(1, steps=-1), [1, 1, 1]),
        (wait.Backoff(1, steps=0), [1, 1, 1]),
        (wait.Backoff(1, steps=1), [1, 1, 1]),
        (wait.Backoff(1, factor=1.0, steps=1), [1, 1, 1]),
        (wait.Backoff(1, factor=2, steps=3), [1, 2, 4]),
        (wait.Backoff(1, factor=2, steps=3, cap=3), [1, 2, 3]),
        (wait.Backoff(5, factor=2, steps=3, cap=1), [5, 1, 1]),  # the first is not cut to the cap
    ],
)
def test_step(initial: wait.Backoff, want: list[float]) -> None:
    backoff = replace(initial)
    assert [backoff.step() for _ in want] == want


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("initial", "want"),
    [
        (wait.Backoff(1, factor=2, steps=2, cap=3, jitter=0.5), [1, 2, 3]),
        (wait.Backoff(1, factor=2, steps=6, jitter=4), [1, 2, 4, 8, 16, 32]),
        (wait.Backoff(1, jitter=0.5), [1, 1, 1]),
    ],
)
def test_step_with_jitter(
    initial: wait.Backoff, want: list[float], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff_module, "_random", random.Random(seed))
    backoff = replace(initial)
    for least in want:
        assert least < backoff.step() < least * (1 + initial.jitter)


def test_a_step_uses_up_the_backoff() -> None:
    backoff = wait.Backoff("1s", factor=2, steps=3, cap="3s")
    backoff.step()
    assert backoff == wait.Backoff(2, factor=2, steps=2, cap=3)
    backoff.step()
    assert backoff == wait.Backoff(3, factor=2, steps=0, cap=3)


def test_a_delay_func_leaves_its_backoff_alone() -> None:
    backoff = wait.Backoff(1, factor=2, steps=3)
    delay = backoff.delay_func()
    assert [delay(), delay()] == [1, 2]
    assert backoff == wait.Backoff(1, factor=2, steps=3)


@pytest.mark.parametrize("what", ["duration", "cap"])
def test_bad_durations_are_refused(what: str) -> None:
    bad: dict[str, Any] = {what: "-1s"}
    with pytest.raises(InvalidArgument, match=rf"^{what}='-1s' is not valid: "):
        wait.Backoff(**bad)


def test_delay_with_reset_starts_again_after_the_interval() -> None:
    clock = FakeClock()
    delay = wait.Backoff(1, cap=10, factor=2.0, steps=10).delay_with_reset(clock, 10)
    assert [delay() for _ in GROWING] == GROWING
    clock.advance(10)
    assert delay() == 10, "not before the interval is over"
    clock.advance(1)
    assert [delay(), delay()] == [1, 2]


def test_delay_with_reset_at_once_never_grows() -> None:
    clock = FakeClock()
    delay = wait.Backoff(1, cap=10, factor=2.0, steps=10).delay_with_reset(clock, 0)
    assert [delay() for _ in range(7)] == [1] * 7
    clock.advance(11)
    assert delay() == 1


def test_delay_with_reset_without_factor_is_the_plain_delay() -> None:
    clock = FakeClock()
    jittered = wait.Backoff(1, jitter=1).delay_with_reset(clock, 0)
    assert all(1 <= jittered() <= 2 for _ in range(5))
    fixed = wait.Backoff(1, jitter=-1).delay_with_reset(clock, 5)
    assert [fixed() for _ in range(3)] == [1, 1, 1]


def test_exponential_manager_grows_to_its_maximum_and_starts_again_after_a_quiet_time() -> None:
    clock = FakeClock()
    manager = wait.ExponentialBackoffManager(1, 10, 10, 2.0, 0.0, clock)
    assert [manager.backoff() for _ in GROWING] == GROWING
    clock.advance(10)
    assert manager.backoff() == 10, "asked again in time: still busy"
    clock.advance(11)
    assert manager.backoff() == 1


def test_jittered_manager() -> None:
    positive = wait.JitteredBackoffManager(1, 1)
    assert all(1 <= positive.backoff() <= 2 for _ in range(5))
    assert wait.JitteredBackoffManager(1, -1).backoff() == 1


@pytest.mark.parametrize(("factor", "most"), [(0.5, 3.0), (0.0, 4.0), (-1.0, 4.0)])
def test_jitter(factor: float, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [wait.jitter("2s", factor) for _ in range(50)]
    assert all(2.0 <= value < most for value in seen)
    assert len(set(seen)) > 1

    class Most(random.Random):
        def random(self) -> float:
            return 1.0

    monkeypatch.setattr(backoff_module, "_random", Most())
    assert wait.jitter("2s", factor) == most


@dataclass
class Row:
    steps: int
    attempts: int
    ends_with: type[Exception] | None = None
    condition: Callable[[int], bool] = lambda _attempt: False
    end: str = ""
    cancel_after: int = 0
    duration: float = 1e-6


def fail(_attempt: int) -> bool:
    raise ConditionError


CONTEXT_ROWS = {
    "no steps, no call": Row(0, 0, wait.ErrWaitTimeout),
    "one step, false": Row(1, 1, wait.ErrWaitTimeout),
    "one step, true": Row(1, 1, None, lambda _attempt: True),
    "five steps, false": Row(5, 5, wait.ErrWaitTimeout),
    "five steps, true at the third": Row(5, 3, None, lambda attempt: attempt == 3),
    "true at the last": Row(5, 5, None, lambda attempt: attempt == 5),
    "an error ends it": Row(5, 1, ConditionError, fail),
    "cancelled before": Row(5, 0, wait.Canceled, end="cancelled"),
    "deadline passed before": Row(5, 0, wait.DeadlineExceeded, end="deadline"),
    "no steps wins over cancelled": Row(0, 0, wait.ErrWaitTimeout, end="cancelled"),
    "cancelled at the fourth": Row(5, 4, wait.Canceled, cancel_after=4),
    "cancelled at the last: tries are used up": Row(5, 5, wait.ErrWaitTimeout, cancel_after=5),
    "no pauses": Row(5, 3, None, lambda attempt: attempt == 3, duration=0),
    "no pauses, cancelled": Row(5, 2, wait.Canceled, cancel_after=2, duration=0),
}


@pytest.mark.parametrize("row", CONTEXT_ROWS.values(), ids=CONTEXT_ROWS)
def test_exponential_backoff_with_context(row: Row) -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_timeout(wait.background(clock), 1)
    if row.end == "cancelled":
        cancel()
    if row.end == "deadline":
        clock.advance(1)
    attempts = 0

    def condition(_ctx: wait.Context) -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == row.cancel_after:
            cancel()
        return row.condition(attempts)

    backoff = wait.Backoff(row.duration, factor=1.0, steps=row.steps)
    if row.ends_with is None:
        wait.exponential_backoff_with_context(ctx, backoff, condition)
    else:
        with pytest.raises(row.ends_with) as caught:
            wait.exponential_backoff_with_context(ctx, backoff, condition)
        assert caught.type is row.ends_with
    assert attempts == row.attempts
    assert backoff.steps == row.steps, "the caller's backoff is not used up"


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (wait.Backoff(factor=1.0), None),
        (wait.Backoff(1, factor=1.0, steps=1), []),
        (wait.Backoff(1, factor=2.0, steps=4), [1, 2, 4]),
        # A pause cut to the cap is the last, and no look follows it.
        (wait.Backoff("100ms", factor=2, steps=5, cap="300ms"), [0.1, 0.2]),
    ],
)
def test_exponential_backoff_pauses_between_calls_only(
    backoff: wait.Backoff, pauses: list[float] | None
) -> None:
    clock = FakeClock()
    called: list[float] = []

    def condition() -> bool:
        called.append(clock.monotonic())
        return False

    with pytest.raises(wait.ErrWaitTimeout, match=r"^timed out waiting for the condition$"):
        wait.exponential_backoff(backoff, condition, clock=clock)
    assert clock.pauses == pytest.approx(pauses or [])
    capped = backoff.cap > 0
    assert len(called) == (0 if pauses is None else len(pauses) + (0 if capped else 1))
    assert clock.monotonic() == pytest.approx(sum(pauses or []))


def test_exponential_backoff_ends_with_its_condition() -> None:
    clock = FakeClock()
    answers = iter([False, False, True])
    wait.exponential_backoff(
        wait.Backoff(1, factor=1.0, steps=3), lambda: next(answers), clock=clock
    )
    assert clock.monotonic() == 2
    with pytest.raises(ConditionError):
        wait.exponential_backoff(wait.Backoff(1, factor=1.0, steps=3), lambda: fail(1), clock=clock)
