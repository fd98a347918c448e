"""The retry policy for API errors: retry, relist or stop.

Retried are errors that pass by themselves: no answer, a server that is busy, restarting or
changing its leader. Final are errors that the server will return again however often it is asked.
An unreadable answer is retried a few times, and final if it repeats. Creation is retried like a
read; where an answer got lost the object is looked up.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.client.errors import StartupGrace
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.wait.backoff import Backoff
from pytest_kwait.wait.context import Context
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Clock, Deadline

__all__ = [
    "ErrorAction",
    "ErrorLog",
    "classify_error",
    "create_once",
    "make_retry_backoff",
    "request_once",
    "request_with_retry",
    "within_deadline",
]

_Answer = TypeVar("_Answer")


class ErrorAction(Enum):
    """What to do after an error."""

    RETRY = "retry"
    """Ask the same again, after a pause."""

    RELIST = "relist"
    """What was seen is too old to go on from: list anew."""

    DOUBT = "doubt"
    """Nobody understands it: ask again, and stop if it repeats."""

    STOP = "stop"
    """It will not change: stop at once."""


_RETRIED = frozenset({408, 425, 429})
_FINAL = frozenset({400, 401, 403, 404, 405, 406, 409, 415, 422})
_DOUBTFUL_REASONS = frozenset({"TLS"})

REPEATS = 3
"""How many times in a row an answer that nobody understands is taken."""


REQUEST_TIMEOUT = 30.0
"""Seconds that one answer may take: a connection may have gone silent, and another still work."""


def classify_error(error: ApiError) -> ErrorAction:
    """Say what an error of a list, a watch or any other read means.

    A connection that was refused, reset, closed or timed out, an address that was not found, a
    watch that went silent, 408, 425, 429 and every 5xx are retried; 410 asks for a new list; 401,
    403, 404 (of the kind of resource), 405 and what else the server refuses about the request
    itself are final. What is left (no JSON, a redirect, TLS that fails) is in doubt.
    """
    if error.reason == "NotJSON" or (error.status == 0 and error.reason in _DOUBTFUL_REASONS):
        return ErrorAction.DOUBT
    if error.status == 410 or error.reason in {"Expired", "Gone"}:
        return ErrorAction.RELIST
    if error.status == 0 or error.status in _RETRIED or error.status >= 500:
        return ErrorAction.RETRY
    return ErrorAction.STOP if error.status in _FINAL else ErrorAction.DOUBT


def make_retry_backoff() -> Backoff:
    """Return the pauses between tries: 100 ms first, doubling to 10 s, each up to twice as long."""
    return Backoff(0.1, factor=2.0, jitter=1.0, steps=16, cap=10.0)


class ErrorLog:
    """The errors that a wait has lived through.

    Args:
        clock: what the time to settle after an outage is measured by.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.last: ApiError | None = None
        """The last one."""
        self.count = 0
        """How many there were."""
        self.repeats = 0
        """How many in a row, without a success between them, were in doubt."""
        self._outage = StartupGrace(clock)

    def record_error(self, error: ApiError) -> bool:
        """Note an error; return whether it is a refusal that may be due to an outage."""
        self.last = error
        self.count += 1
        return self._outage.tolerates(error)

    def decide(self, error: ApiError) -> ErrorAction:
        """Note an error and say what to do.

        What is in doubt is final once it repeats; a refusal right after an outage, once it holds.

        Returns:
            RETRY, RELIST or STOP.
        """
        excused = self.record_error(error)
        decision = ErrorAction.RETRY if excused else classify_error(error)
        if decision is not ErrorAction.DOUBT:
            self.repeats = 0
            return decision
        self.repeats += 1
        return ErrorAction.STOP if self.repeats >= REPEATS else ErrorAction.RETRY

    def record_success(self) -> None:
        """Record a success."""
        self.repeats = 0
        self._outage.over()


def request_once(call: Callable[[Deadline], _Answer], deadline: Deadline) -> _Answer:
    """Return the answer of one request, which must not take all the time that there is.

    Raises:
        ApiError: as the request raises it; reason `Timeout`: it has had no answer for 30 s.
        DeadlineExceeded: the deadline has come.
    """
    try:
        return call(deadline.at_most(REQUEST_TIMEOUT))
    except DeadlineExceeded as error:
        if deadline.expired:
            raise
        raise ApiError(str(error), reason="Timeout") from error


@contextlib.contextmanager
def within_deadline(deadline: Deadline, what: str) -> Iterator[None]:
    """Let what a wait has to do before it can look end as the wait does, where its time is up.

    Args:
        deadline: when the wait must be over.
        what: what could not be done, as a clause: `the kind widgets could not be found out`.

    Raises:
        ApiError: a final error.
        WaitTimeout: the time was up; names the last error.
    """
    try:
        yield
    except (ApiError, DeadlineExceeded) as error:
        final = isinstance(error, ApiError) and classify_error(error) is ErrorAction.STOP
        if final or not deadline.expired:
            raise
        raise WaitTimeout(f"{what} in time: {error}") from error


def request_with_retry(
    call: Callable[[Deadline], _Answer], deadline: Deadline, errors: ErrorLog | None = None
) -> _Answer:
    """Return the answer of one request, tried again by this policy until the deadline.

    Args:
        call: the request; given the deadline to keep.
        deadline: when the answer must be here; Retry-After pauses are cut off by it as well.
        errors: where errors are noted; None to forget them.

    Raises:
        ApiError: a final error, or the last one when the time was up.
        DeadlineExceeded: the time was up before there was any answer.
    """
    errors = errors if errors is not None else ErrorLog(deadline.clock)
    ctx = Context(deadline.clock, at=deadline.at)
    answers: list[_Answer] = []

    def attempt(ctx: Context) -> bool:
        try:
            answers.append(request_once(call, deadline))
        except ApiError as error:
            if errors.decide(error) is ErrorAction.STOP:
                raise
            if error.retry_after:
                ctx.wait(error.retry_after)
            return False
        errors.record_success()
        return True

    try:
        make_retry_backoff().delay_func().until(ctx, True, True, attempt)
    except DeadlineExceeded:
        if errors.last is None:
            raise
        raise errors.last from None
    return answers[0]


def create_once(
    session: Session,
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    deadline: Deadline,
) -> dict[str, Any]:
    """Create an object once: tried again like a read, and an answer that got lost is looked up.

    Raises:
        ApiError: refused, or the server could not be reached in time.
    """
    errors = ErrorLog()
    try:
        return request_with_retry(
            lambda deadline: session.create(resource, obj, namespace, deadline=deadline),
            deadline,
            errors,
        )
    except ApiError as error:
        name = obj["metadata"].get("name")
        if error.reason != "AlreadyExists" or errors.count == 1 or not name:
            raise
    # An earlier try was answered by nothing: the object may well be the one that it made.
    return request_with_retry(
        lambda deadline: session.get(resource, name, namespace, deadline=deadline), deadline
    )
