"""The retry policy for API errors: retry, relist or stop.

Transient errors are retried: no answer, or a server that is busy, restarting or changing its
leader. Errors that the server would repeat are final. An unreadable answer is retried a few times.
Creation is retried like a read; if an answer got lost, the object is looked up.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.errors import StartupGrace
from pytest_kwait.client.write_options import is_typed_patch_error
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.wait.backoff import Backoff
from pytest_kwait.wait.context import Context, DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.client.write_options import FieldValidation
    from pytest_kwait.clock import Clock, Deadline

REPEATS = 3
"""The number of consecutive doubtful errors that is final."""

REQUEST_TIMEOUT = 30.0
"""Seconds that one answer may take; a silent connection is replaced by another."""

_Answer = TypeVar("_Answer")
_RETRIED = frozenset({408, 425, 429})
_FINAL = frozenset({400, 401, 403, 404, 405, 406, 409, 415, 422})
_DOUBTFUL_REASONS = frozenset({"TLS"})


class ErrorAction(Enum):
    """The reaction to an error."""

    RETRY = "retry"
    """Repeat the request after a pause."""

    RELIST = "relist"
    """List again: the known version is too old."""

    DOUBT = "doubt"
    """Repeat the request; stop if this error repeats."""

    STOP = "stop"
    """Stop at once: the error is final."""


def classify_error(error: ApiError) -> ErrorAction:
    """Return the reaction to an error of a read.

    Retried: a refused, reset, closed or timed-out connection, an unknown address, a silent watch,
    408, 425, 429 and every 5xx but the refusal of an applied object that does not fit its schema. A
    410 requires a new list. Final: 401, 403, 404 (of the resource), 405 and other refusals of the
    request itself. The rest (no JSON, a redirect, a TLS error) is
    doubtful.
    """
    if isinstance(error, ClusterEnded):
        return ErrorAction.STOP
    if error.reason == "NotJSON" or (error.status == 0 and error.reason in _DOUBTFUL_REASONS):
        return ErrorAction.DOUBT
    if is_typed_patch_error(error):
        return ErrorAction.STOP
    if error.status == 410 or error.reason in {"Expired", "Gone"}:
        return ErrorAction.RELIST
    if error.status == 0 or error.status in _RETRIED or error.status >= 500:
        return ErrorAction.RETRY
    return ErrorAction.STOP if error.status in _FINAL else ErrorAction.DOUBT


def make_retry_backoff() -> Backoff:
    """Return the retry backoff: 100 ms, doubling to 10 s, jitter of 100 %."""
    return Backoff(0.1, factor=2.0, jitter=1.0, steps=16, cap=10.0)


class ErrorLog:
    """The API errors of a wait.

    Args:
        clock: the clock of the grace after an outage.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.last: ApiError | None = None
        """The last error."""
        self.count = 0
        """The number of errors."""
        self.repeats = 0
        """The number of consecutive doubtful errors."""
        self._outage = StartupGrace(clock)

    def record_error(self, error: ApiError) -> bool:
        """Record an error; return whether it is a refusal that an outage may explain."""
        self.last = error
        self.count += 1
        return self._outage.record_error(error)

    def decide(self, error: ApiError) -> ErrorAction:
        """Record an error and return the reaction to it.

        A doubtful error is final once it repeats; a refusal after an outage, once it persists.

        Returns:
            RETRY, RELIST or STOP.
        """
        excused = self.record_error(error)
        decision = ErrorAction.RETRY if excused else classify_error(error)
        if decision is ErrorAction.DOUBT:
            self.repeats += 1
            decision = ErrorAction.STOP if self.repeats >= REPEATS else ErrorAction.RETRY
        else:
            self.repeats = 0
        return decision

    def send_again(
        self,
        error: ApiError,
        send: Callable[[Deadline], ApiError | None],
        deadline: Deadline,
    ) -> ApiError | None:
        """Return the error of a request that is tried again: the same, if this has not sent it.

        Another class may wait for the cause of an error to end, and send the request meanwhile.

        Args:
            error: the error of the last try.
            send: sends the request; returns its error, None for an answer.
            deadline: the deadline of the answer.
        """
        del send, deadline
        return error

    def record_success(self) -> None:
        """Record a success."""
        self.repeats = 0
        self._outage.record_success()


def request_once(call: Callable[[Deadline], _Answer], deadline: Deadline) -> _Answer:
    """Return the answer of one request, which may take 30 seconds at most.

    Raises:
        ApiError: raised by the request; with reason `Timeout` after 30 s without an answer.
        DeadlineExceeded: the deadline has passed.
    """
    try:
        return call(deadline.at_most(REQUEST_TIMEOUT))
    except DeadlineExceeded as error:
        if deadline.expired:
            raise
        raise ApiError(str(error), reason="Timeout") from error


@contextlib.contextmanager
def within_deadline(deadline: Deadline, what: str) -> Iterator[None]:
    """Convert an expired deadline of a wait's preparation into a `WaitTimeout`.

    Args:
        what: the failure, as a clause: `the kind widgets could not be found out`.

    Raises:
        ApiError: a final error.
        WaitTimeout: the deadline has passed; names the last error.
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
    """Return the answer of a request, retried by this policy until the deadline.

    Args:
        call: sends the request; takes its deadline.
        deadline: the deadline of the answer; it also cuts off Retry-After pauses.
        errors: the log of API errors; None to drop them.

    Raises:
        ApiError: a final error, or the last one before the deadline.
        DeadlineExceeded: the deadline passed without any answer.
    """
    errors = errors if errors is not None else ErrorLog(deadline.clock)
    ctx = Context(deadline.clock, at=deadline.at)
    started = deadline.clock.monotonic()
    answers: list[_Answer] = []

    def send(limit: Deadline) -> ApiError | None:
        try:
            answers.append(request_once(call, limit))
        except ApiError as error:
            return error
        return None

    def attempt(ctx: Context) -> bool:
        error = send(deadline)
        while error is not None:
            if errors.decide(error) is ErrorAction.STOP:
                raise error
            last, error = error, errors.send_again(error, send, deadline)
            if error is last:
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
        if errors.last.status == 0 and errors.count > 1:
            lasted = format_duration(float(round(deadline.clock.monotonic() - started)))
            errors.last.message += f" ({errors.count} tries in {lasted})"
        raise errors.last from None
    return answers[0]


def create_once(
    session: ApiSession,
    resource: Resource,
    obj: Mapping[str, Any],
    namespace: str | None,
    deadline: Deadline,
    field_validation: FieldValidation = "Strict",
    errors: ErrorLog | None = None,
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Create an object once: retried like a read, looked up after a lost answer.

    Args:
        errors: the log of API errors, empty; None to drop them.
        dry_run: whether the server only returns what it would store.

    Raises:
        ApiError: a final error, or the last one before the deadline.
    """
    errors = errors if errors is not None else ErrorLog()
    try:
        return request_with_retry(
            lambda deadline: session.create(
                resource,
                obj,
                namespace,
                field_validation=field_validation,
                dry_run=dry_run,
                deadline=deadline,
            ),
            deadline,
            errors,
        )
    except ApiError as error:
        name = obj["metadata"].get("name")
        if error.reason != "AlreadyExists" or errors.count == 1 or not name or dry_run:
            raise
    # An earlier try without an answer may have created the object.
    return request_with_retry(
        lambda deadline: session.get(resource, name, namespace, deadline=deadline), deadline
    )
