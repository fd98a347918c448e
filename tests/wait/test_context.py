from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from pytest_kwait import wait
from pytest_kwait.clock import Deadline
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.testing import FakeClock


def test_a_background_context_never_ends() -> None:
    clock = FakeClock()
    ctx = wait.background(clock)
    clock.advance(1e6)
    assert (ctx.err(), ctx.cause(), ctx.wait(5), ctx.done.is_set()) == (None, None, False, False)
    assert clock.pauses == [5]


def test_cancelling_ends_a_context_and_all_made_from_it() -> None:
    parent, cancel = wait.with_cancel(wait.background(FakeClock()))
    child, _ = wait.with_timeout(parent, 10)
    grandchild, _ = wait.with_cancel(child)
    sibling, _ = wait.with_cancel(wait.background(FakeClock()))
    cancel()
    for ended in (parent, child, grandchild):
        assert isinstance(ended.err(), wait.Canceled)
        assert ended.done.is_set()
    assert sibling.err() is None


def test_a_context_made_from_an_ended_one_has_ended() -> None:
    parent, cancel = wait.with_cancel(wait.background(FakeClock()))
    cancel()
    child, _ = wait.with_cancel(parent)
    assert isinstance(child.err(), wait.Canceled)
    assert child.wait() is True


def test_the_end_of_a_child_leaves_the_parent_alone() -> None:
    parent, _ = wait.with_cancel(wait.background(FakeClock()))
    _, cancel = wait.with_cancel(parent)
    cancel()
    assert parent.err() is None


def test_the_cause_is_kept_and_handed_down() -> None:
    parent, cancel = wait.with_cancel(wait.background(FakeClock()))
    child, _ = wait.with_cancel(parent)
    reason = RuntimeError("the run was stopped")
    cancel(reason)
    cancel(RuntimeError("a second call changes nothing"))
    assert parent.cause() is reason
    assert child.cause() is reason
    error = child.err()
    assert error is not None
    assert error.__cause__ is reason


def test_without_a_cause_the_error_is_the_cause() -> None:
    ctx, cancel = wait.with_cancel(wait.background(FakeClock()))
    cancel()
    assert isinstance(ctx.cause(), wait.Canceled)


def test_a_deadline_ends_a_context_and_all_made_from_it() -> None:
    clock = FakeClock()
    parent, _ = wait.with_timeout(wait.background(clock), "1s")
    child, _ = wait.with_timeout(parent, "1h")
    assert child.deadline.remaining == 1
    assert parent.wait(0.75) is False
    assert child.wait() is True
    assert clock.monotonic() == 1
    assert isinstance(child.err(), wait.DeadlineExceeded)
    assert isinstance(parent.err(), wait.DeadlineExceeded)


def test_a_deadline_of_a_child_may_be_earlier() -> None:
    clock = FakeClock()
    parent, _ = wait.with_timeout(wait.background(clock), 5)
    child, _ = wait.with_deadline(parent, Deadline.after(2, clock))
    clock.advance(2)
    assert isinstance(child.err(), wait.DeadlineExceeded)
    assert parent.err() is None


def test_a_deadline_that_passed_unnoticed_comes_before_a_cancellation() -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_timeout(wait.background(clock), 1)
    clock.advance(1)
    cancel()
    assert isinstance(ctx.err(), wait.DeadlineExceeded)


def test_a_waiter_is_woken_by_a_cancellation() -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    clock.call_later(3, cancel)
    assert ctx.wait(10) is True
    assert clock.monotonic() == 3


def test_a_deadline_waited_for_has_passed_whatever_the_clock_rounds_off() -> None:
    clock = FakeClock()
    ctx, _ = wait.with_timeout(wait.background(clock), 0.1 + 1e-12)
    assert ctx.wait(5) is True
    assert clock.monotonic() < ctx.deadline.at
    assert isinstance(ctx.err(), wait.DeadlineExceeded)


@pytest.mark.parametrize("seconds", [0, -1])
def test_waiting_for_no_time_looks_only(seconds: float) -> None:
    clock = FakeClock()
    ctx, cancel = wait.with_cancel(wait.background(clock))
    assert ctx.wait(seconds) is False
    cancel()
    assert ctx.wait(seconds) is True
    assert clock.pauses == []


def test_context_for_channel_ends_all_contexts_once_the_channel_is_set() -> None:
    channel = threading.Event()
    contexts = [wait.context_for_channel(channel) for _ in range(3)]
    ended: list[bool] = []
    group = wait.Group()
    for context in contexts:
        group.start_with_context(context, lambda ctx: ended.append(ctx.wait()))
    channel.set()
    group.wait()
    assert ended == [True, True, True]
    assert all(isinstance(context.err(), wait.Canceled) for context in contexts)


def test_a_context_made_from_a_channels_notices_the_channel() -> None:
    clock = FakeClock()
    channel = threading.Event()
    child, _ = wait.with_cancel(wait.context_for_channel(channel, clock))
    clock.call_later(1, channel.set)
    assert child.wait(10) is True
    assert clock.monotonic() == pytest.approx(1.0, abs=0.05)
    assert child.done.is_set()


def test_a_function_or_a_context_is_a_channel_too() -> None:
    clock = FakeClock()
    for made in (
        wait.context_for_channel(lambda: clock.monotonic() >= 3, clock),
        wait.with_cancel(wait.context_for_channel(lambda: clock.monotonic() >= 6, clock))[0],
    ):
        begun = clock.monotonic()
        assert made.wait(10) is True
        assert clock.monotonic() - begun == pytest.approx(3.0, abs=0.05)
        assert isinstance(made.err(), wait.Canceled)
        assert made.done.is_set()
    assert wait.context_for_channel(made) is made


@pytest.mark.parametrize("stop", [None, 5])
def test_what_is_no_channel_is_refused(stop: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        wait.context_for_channel(stop)
    assert str(caught.value) == (
        f"channel={stop} is not valid: use a threading.Event, a wait.Context, or a function "
        "without arguments"
    )


def test_cancelling_a_context_made_from_a_channels_leaves_the_channel_alone() -> None:
    clock = FakeClock()
    channel = threading.Event()
    child, cancel = wait.with_timeout(wait.context_for_channel(channel, clock), 10)
    clock.call_later(1, cancel)
    assert child.wait() is True
    assert clock.monotonic() == 1
    assert isinstance(child.err(), wait.Canceled)
    assert not channel.is_set()


def test_a_limited_context_ends_first_and_sets_nothing_above() -> None:
    clock = FakeClock()
    channel = threading.Event()
    limited = wait.context_for_channel(channel, clock).limited("2s")
    assert limited.wait() is True
    assert clock.pauses == [2]
    assert isinstance(limited.err(), wait.DeadlineExceeded)
    assert not channel.is_set()


def test_a_limited_context_is_woken_from_above() -> None:
    clock = FakeClock()
    channel = threading.Event()
    limited = wait.context_for_channel(channel, clock).limited("1h")
    clock.call_later(3, channel.set)
    assert limited.wait() is True
    assert (clock.monotonic(), clock.pauses) == (3, [3600])
    assert isinstance(limited.err(), wait.Canceled)


@pytest.mark.parametrize("make", [wait.with_timeout, wait.Context.limited])
def test_a_bad_timeout_is_refused(make: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^timeout='soon' is not valid: use seconds"):
        make(wait.background(FakeClock()), "soon")


def test_unreferenced_contexts_are_collected() -> None:
    parent, _ = wait.with_cancel(wait.background(FakeClock()))
    for _ in range(10):
        parent.limited(1)
    gc.collect()
    assert len(parent._children) == 0
