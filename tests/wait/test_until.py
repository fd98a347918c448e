"""Upstream's tests of Until and its kin, once per form, since all forms are one loop; groups."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from pytest_kwait import wait
from pytest_kwait.testing import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable


class FunctionError(Exception):
    """What the functions of these tests raise."""


def until(f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock) -> None:
    wait.until(f, period, stop, clock=clock)


def non_sliding_until(
    f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock
) -> None:
    wait.non_sliding_until(f, period, stop, clock=clock)


def jitter_until(
    f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock
) -> None:
    wait.jitter_until(f, period, 1.0, True, stop, clock=clock)


def until_with_context(
    f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock
) -> None:
    ctx = wait.context_for_channel(stop, clock)
    wait.until_with_context(ctx, lambda _ctx: f(), period)


def non_sliding_until_with_context(
    f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock
) -> None:
    ctx = wait.context_for_channel(stop, clock)
    wait.non_sliding_until_with_context(ctx, lambda _ctx: f(), period)


def jitter_until_with_context(
    f: Callable[[], object], period: float, stop: threading.Event, clock: FakeClock
) -> None:
    ctx = wait.context_for_channel(stop, clock)
    wait.jitter_until_with_context(ctx, lambda _ctx: f(), period, 1.0, True)


FORMS = [
    until,
    non_sliding_until,
    jitter_until,
    until_with_context,
    non_sliding_until_with_context,
    jitter_until_with_context,
]
every_form = pytest.mark.parametrize("form", FORMS)


@every_form
def test_never_called_if_stopped_before(form: Callable[..., None]) -> None:
    stop = threading.Event()
    stop.set()
    called: list[int] = []
    form(lambda: called.append(1), 0, stop, FakeClock())
    assert called == []


@every_form
@pytest.mark.parametrize("period", [0, 1])
def test_called_again_and_again_until_stopped(form: Callable[..., None], period: float) -> None:
    stop = threading.Event()
    called: list[int] = []

    def f() -> None:
        called.append(1)
        if len(called) == 5:
            stop.set()

    form(f, period, stop, FakeClock())
    assert len(called) == 5


@every_form
def test_stopping_inside_the_function_returns_at_once(form: Callable[..., None]) -> None:
    clock = FakeClock()
    stop = threading.Event()
    form(stop.set, 30, stop, clock)
    assert clock.monotonic() == 0


@every_form
def test_stopping_during_a_pause_ends_the_pause(form: Callable[..., None]) -> None:
    clock = FakeClock()
    stop = threading.Event()
    clock.call_later(7, stop.set)
    called: list[int] = []
    form(lambda: called.append(1), 30, stop, clock)
    assert (clock.monotonic(), called) == (7, [1])


@every_form
def test_exceptions_of_the_function_propagate(form: Callable[..., None]) -> None:
    def f() -> None:
        raise FunctionError

    with pytest.raises(FunctionError):
        form(f, 1, threading.Event(), FakeClock())


@pytest.mark.parametrize(
    ("form", "starts"), [(until, [0, 1.5, 3.0]), (non_sliding_until, [0, 1.0, 2.0])]
)
def test_a_sliding_period_begins_when_the_function_has_returned(
    form: Callable[..., None], starts: list[float]
) -> None:
    clock = FakeClock()
    stop = threading.Event()
    called: list[float] = []

    def f() -> None:
        called.append(clock.monotonic())
        clock.sleep(0.5)
        if len(called) == 3:
            stop.set()

    form(f, 1, stop, clock)
    assert called == starts


@pytest.mark.parametrize(("factor", "least", "most"), [(-30.0, 1, 1), (0.0, 1, 1), (2.0, 1, 3)])
def test_jitter_lengthens_the_period_if_it_is_positive(
    factor: float, least: float, most: float
) -> None:
    clock = FakeClock()
    stop = threading.Event()
    called: list[int] = []

    def f() -> None:
        called.append(1)
        if len(called) == 11:
            stop.set()

    wait.jitter_until(f, 1, factor, True, stop, clock=clock)
    assert len(clock.pauses) == 10
    assert all(least - 1e-9 <= pause <= most + 1e-9 for pause in clock.pauses)
    assert (len(set(clock.pauses)) > 1) is (factor > 0)


def test_backoff_until_takes_its_pauses_from_the_backoff() -> None:
    clock = FakeClock()
    stop = threading.Event()
    clock.call_later(20, stop.set)
    called: list[float] = []
    manager = wait.ExponentialBackoffManager(1, 4, 60, 2.0, 0.0, clock)
    wait.backoff_until(lambda: called.append(clock.monotonic()), manager, True, stop, clock=clock)
    assert called == [0, 1, 3, 7, 11, 15, 19]


def test_backoff_until_with_context_hands_the_context_on_and_ends_with_it() -> None:
    clock = FakeClock()
    ctx, _ = wait.with_timeout(wait.background(clock), 2.5)
    seen: list[wait.Context] = []
    manager = wait.JitteredBackoffManager(1, 0)
    wait.backoff_until_with_context(ctx, seen.append, manager, False)
    assert seen == [ctx, ctx, ctx]


def test_forever_ends_with_an_exception_only() -> None:
    clock = FakeClock()
    called: list[float] = []

    def f() -> None:
        called.append(clock.monotonic())
        if len(called) == 4:
            raise FunctionError

    with pytest.raises(FunctionError):
        wait.forever(f, "1m", clock=clock)
    assert called == [0, 60, 120, 180]
    assert not wait.NEVER_STOP.is_set()


def test_a_guarded_function_may_raise_and_is_called_again() -> None:
    stop = threading.Event()
    called: list[int] = []
    handled: list[str] = []

    def f() -> None:
        called.append(1)
        if len(called) > 2:
            stop.set()
            return
        raise FunctionError(f"call {len(called)}")

    def log(error: Exception) -> None:
        handled.append(str(error))

    wait.jitter_until(wait.handle_crash(f, log), "1ms", 1.0, True, stop, clock=FakeClock())
    assert len(called) == 3
    assert handled == ["call 1", "call 2"]


def test_wait_returns_once_all_have_returned() -> None:
    stop = threading.Event()
    ctx, cancel = wait.with_cancel(wait.background())
    ended: list[str] = []
    group = wait.Group()
    group.start(lambda: ended.append("plain"))
    group.start_with_channel(stop, lambda channel: ended.append(f"channel {channel.wait(5)}"))
    group.start_with_context(ctx, lambda context: ended.append(f"context {context.wait(5)}"))
    stop.set()
    cancel()
    group.wait()
    assert sorted(ended) == ["channel True", "context True", "plain"]


def test_an_empty_group_is_done() -> None:
    wait.Group().wait()


def boom(text: str) -> None:
    raise ValueError(text)


def test_exception_of_one_function_is_raised_once() -> None:
    group = wait.Group()
    group.start(lambda: boom("one"))
    with pytest.raises(ValueError, match=r"^one$"):
        group.wait()
    group.wait()


def test_exceptions_of_several_functions_are_a_group() -> None:
    group = wait.Group()
    group.start(lambda: boom("one"))
    group.start(lambda: boom("two"))
    with pytest.raises(ExceptionGroup, match=r"^2 functions of a group failed") as caught:
        group.wait()
    assert sorted(str(error) for error in caught.value.exceptions) == ["one", "two"]
