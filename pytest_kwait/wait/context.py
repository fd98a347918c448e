"""Contexts: cancel a wait and all its child waits, explicitly or by deadline; the errors of both.

A deadline takes effect when `err` or `wait` is called; it needs no thread and no timer.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from pytest_kwait.apimachinery.arguments import check_function, check_instance, check_methods
from pytest_kwait.apimachinery.times import Duration, to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import InvalidArgument, KwaitError, WaitTimeout

# The interval of checks of a foreign event or a function: only one event can be waited on.
_SLICE = 0.05

_VALID_STOP = "use a threading.Event, a wait.Context, or a function without arguments"
_VALID_CAUSE = "use an exception, or None"
_CLOCK_METHODS = ("monotonic", "wait")


class ErrWaitTimeout(WaitTimeout):
    """The tries or the time of a wait are used up.

    Source: util/wait/error.go ErrWaitTimeout.
    """

    def __init__(self, message: str = "timed out waiting for the condition") -> None:
        super().__init__(message)


class Canceled(KwaitError):
    """The context of a wait was cancelled.

    Source: context.Canceled of Go.
    """

    def __init__(self, message: str = "context canceled") -> None:
        super().__init__(message)


class DeadlineExceeded(WaitTimeout):
    """The context of a wait, or the deadline of a request, has passed.

    Source: context.DeadlineExceeded of Go.
    """

    def __init__(self, message: str = "context deadline exceeded") -> None:
        super().__init__(message)


def interrupted(err: BaseException | None) -> bool:
    """Return whether `err`, or an error that it was raised from, means an interrupted wait.

    True for a wait that timed out or was cancelled. False for None, for exceptions of a condition,
    and for errors raised while such an error was handled.

    Source: util/wait/error.go Interrupted.
    """
    if err is not None:
        check_instance("err", err, BaseException, _VALID_CAUSE)
    checked_errors: set[int] = set()
    while err is not None and id(err) not in checked_errors:
        if isinstance(err, WaitTimeout | Canceled):
            return True
        checked_errors.add(id(err))
        err = err.__cause__
    return False


def error_interrupted(cause: BaseException | None = None) -> ErrWaitTimeout:
    """Return an error for which `interrupted` is true, with the text of `cause`.

    Args:
        cause: the reason; never wrapped twice. None gives the text of `ErrWaitTimeout`.

    Source: util/wait/error.go ErrorInterrupted.
    """
    if isinstance(cause, ErrWaitTimeout):
        return cause
    if cause is not None:
        check_instance("cause", cause, BaseException, _VALID_CAUSE)
    error = ErrWaitTimeout() if cause is None else ErrWaitTimeout(str(cause))
    error.__cause__ = cause
    return error


class CancelFunc(Protocol):
    """Cancels a context and its children; later calls have no effect."""

    def __call__(self, cause: BaseException | None = None) -> None:
        """Cancel the context, with `cause` as its `cause`."""
        ...


class Context:
    """Carries cancellation to every wait below it. Created by the functions of this module.

    Safe to use from any thread.

    Source: package context of Go, without values.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        parent: Context | None = None,
        at: float = math.inf,
        channel: threading.Event | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        if parent is None:
            check_clock("clock", clock)
        self.clock = clock
        """The clock of every wait under this context."""
        self.deadline: Deadline = Deadline(
            min(at, parent.deadline.at if parent else math.inf), clock
        )
        """The earliest deadline of this context and its parents."""
        self._parent = parent
        self._channel: threading.Event | None = channel or (parent._channel if parent else None)
        self._done = channel or threading.Event()
        self._wakeup = self._done
        self._stop = stop
        self._is_polled: bool = stop is not None or (parent is not None and parent._is_polled)
        self._children: weakref.WeakSet[Context] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._reason: Callable[[], Canceled | DeadlineExceeded] | None = None
        self._cause: BaseException | None = None
        if parent is not None:
            with parent._lock:
                parent._children.add(self)

    @property
    def done(self) -> threading.Event:
        """Set on cancellation; for a deadline only once `err` or `wait` has noticed it."""
        return self._done

    def err(self) -> Canceled | DeadlineExceeded | None:
        """Return the reason of the end, as an exception; None before the end."""
        if self._reason is None:
            self._check_outer()
        if self._reason is None:
            return None
        error = self._reason()
        error.__cause__ = self._cause
        return error

    def cause(self) -> BaseException | None:
        """Return the cause of the cancellation; else `err()`, which is None before the end.

        Source: context.Cause of Go.
        """
        error = self.err()
        return None if error is None else error.__cause__ or error

    def wait(self, seconds: float | None = None) -> bool:
        """Return True once the context has ended, False after `seconds` (None: no limit)."""
        if seconds is not None and not isinstance(seconds, int | float):
            raise InvalidArgument("seconds", seconds, "use a number of seconds, or None")
        remaining = self.deadline.remaining
        pause = remaining if seconds is None else min(remaining, seconds)
        if pause > 0 and self.err() is None:
            self._block(pause)
            if pause == remaining and self.err() is None:
                # The full time has passed: rounding of the clock must not cause another call.
                self._end(DeadlineExceeded, None)
        return self.err() is not None

    def limited(self, timeout: Duration) -> Context:
        """Return a child context with an earlier deadline, for one wait.

        Args:
            timeout: from now; zero is a deadline that has passed.
        """
        return self._derive(self.clock.monotonic() + to_seconds(timeout, what="timeout"))

    def child(self) -> Context:
        """Return a child context that the caller cancels, for one wait."""
        return self._derive(math.inf)

    def cancel(self, cause: BaseException | None = None) -> None:
        """Cancel this context and its children with `cause`; no-op once ended."""
        if cause is not None:
            check_instance("cause", cause, BaseException, _VALID_CAUSE)
        if self.err() is None:  # a deadline that has passed unnoticed came first
            self._end(Canceled, cause)

    def _derive(self, at: float) -> Context:
        context = Context(self.clock, parent=self, at=at)
        if self._channel is not None:  # so that setting the channel is noticed at once
            context._wakeup = self._wakeup
        return context

    def _block(self, seconds: float) -> None:
        if not self._is_polled and (self._channel is None or self._channel is self._wakeup):
            self.clock.wait(self._wakeup, None if math.isinf(seconds) else seconds)
            return
        end = self.clock.monotonic() + seconds
        while self.err() is None and (remaining := end - self.clock.monotonic()) > 0:
            self.clock.wait(self._wakeup, min(remaining, _SLICE))

    def _check_outer(self) -> None:
        """End with the parent, a foreign event or a function."""
        above = self._parent.err() if self._parent is not None else None
        if above is not None:
            self._end(type(above), above.__cause__)
        elif self.deadline.expired:
            self._end(DeadlineExceeded, None)
        elif (self._channel is not None and self._channel.is_set()) or (
            self._stop is not None and self._stop()
        ):
            self._end(Canceled, None)

    def _end(
        self,
        reason: Callable[[], Canceled | DeadlineExceeded],
        cause: BaseException | None,
    ) -> None:
        with self._lock:
            if self._reason is not None:
                return
            self._cause = cause
            self._reason = reason
            children = list(self._children)
        if self._done is not self._channel:  # a foreign event must not be set here
            self._done.set()
        for child in children:
            child._end(reason, cause)


Stop: TypeAlias = threading.Event | Callable[[], bool] | Context
"""An event that is set, a function that returns True, or a context that ends: it stops a wait."""


def background(clock: Clock = SYSTEM_CLOCK) -> Context:
    """Return a root context that never ends."""
    return Context(clock)


def check_context(what: str, value: object) -> None:
    """Check a context.

    Raises:
        InvalidArgument: it is none.
    """
    check_instance(what, value, Context, "use a wait.Context")


def check_clock(what: str, value: object) -> None:
    """Check a clock.

    Raises:
        InvalidArgument: it is none.
    """
    check_methods(what, value, _CLOCK_METHODS, "use a Clock, as pytest_kwait.testing.FakeClock()")


def context_for_channel(channel: Stop, clock: Clock = SYSTEM_CLOCK) -> Context:
    """Return a context that is cancelled once `channel` is set, or returns True.

    Its children notice that within 50 ms. A context is returned itself.

    Raises:
        InvalidArgument: `channel` is no event, function or context.

    Source: util/wait/wait.go ContextForChannel.
    """
    return make_stop_context(channel, clock, "channel")


def make_stop_context(stop: Stop, clock: Clock = SYSTEM_CLOCK, what: str = "stop") -> Context:
    """Return `context_for_channel`, whose errors name the argument `what`."""
    check_clock("clock", clock)
    if isinstance(stop, Context):
        return stop
    if isinstance(stop, threading.Event):
        return Context(clock, channel=stop)
    return Context(clock, stop=parse_stop(stop, what))


def parse_stop(stop: Any, what: str = "stop") -> Callable[[], bool]:
    """Return a function that says whether to stop.

    Args:
        stop: an event, a function without arguments, or a context.
        what: the argument's name in the error.

    Raises:
        InvalidArgument: it is none of them.
    """
    if isinstance(stop, Context):
        return lambda: stop.err() is not None
    is_set: Callable[[], bool] = getattr(stop, "is_set", stop)
    if not callable(is_set):
        raise InvalidArgument(what, stop, _VALID_STOP)
    check_function(what, is_set)
    return is_set


def with_cancel(parent: Context) -> tuple[Context, CancelFunc]:
    """Return a context that ends with `parent`, and the function that cancels it."""
    check_context("parent", parent)
    context = Context(parent.clock, parent=parent)
    return context, context.cancel


def with_deadline(parent: Context, deadline: Deadline) -> tuple[Context, CancelFunc]:
    """As `with_cancel`, but ends at `deadline` at the latest, with `DeadlineExceeded`."""
    check_context("parent", parent)
    check_instance("deadline", deadline, Deadline, "use a Deadline, as Deadline.after(5)")
    context = Context(parent.clock, parent=parent, at=deadline.at)
    return context, context.cancel


def with_timeout(parent: Context, timeout: Duration) -> tuple[Context, CancelFunc]:
    """As `with_deadline`, `timeout` from now; zero is a deadline that has passed.

    Raises:
        InvalidArgument: `timeout` is not a duration, or negative.
    """
    check_context("parent", parent)
    seconds = to_seconds(timeout, what="timeout")
    return with_deadline(parent, Deadline.after(seconds, parent.clock))
