"""Errors of a wait that ends without its condition: timed out, canceled, deadline exceeded."""

from __future__ import annotations

from pytest_kwait.errors import KwaitError, WaitTimeout

__all__ = ["Canceled", "DeadlineExceeded", "ErrWaitTimeout", "error_interrupted", "interrupted"]


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
    seen: set[int] = set()
    while err is not None and id(err) not in seen:
        if isinstance(err, WaitTimeout | Canceled):
            return True
        seen.add(id(err))
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
    error = ErrWaitTimeout() if cause is None else ErrWaitTimeout(str(cause))
    error.__cause__ = cause
    return error
