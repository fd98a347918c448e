"""What an error of the API means for a wait: try again, list anew, or stop. One policy for all.

Retried are errors that pass by themselves: no answer, a server that is busy, restarting or
changing its leader. Final is what the server will say again however often it is asked. An answer
that nobody understands is tried again a few times, and final if it repeats.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from pytest_kwait.api.outage import Outage
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import ApiError, WaitTimeout
from pytest_kwait.wait.backoff import Backoff
from pytest_kwait.wait.context import Context
from pytest_kwait.wait.interruption import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clock import Clock, Deadline

__all__ = ["Decision", "Troubles", "ask", "decide", "in_time", "retry_pauses", "retrying"]

_Answer = TypeVar("_Answer")


class Decision(Enum):
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
_TRANSPORT_DOUBTS = frozenset({"TLS"})

REPEATS = 3
"""How many times in a row an answer that nobody understands is taken."""


PATIENCE = 30.0
"""Seconds that one answer may take: a connection may have gone silent, and another still work."""


def decide(error: ApiError) -> Decision:
    """Say what an error of a list, a watch or any other read means.

    A connection that was refused, reset, closed or timed out, an address that was not found, a
    watch that went silent, 408, 425, 429 and every 5xx are retried; 410 asks for a new list; 401,
    403, 404 (of the kind of resource), 405 and what else the server refuses about the request
    itself are final. What is left (no JSON, a redirect, TLS that fails) is in doubt.
    """
    if error.reason == "NotJSON" or (error.status == 0 and error.reason in _TRANSPORT_DOUBTS):
        return Decision.DOUBT
    if error.status == 410 or error.reason in {"Expired", "Gone"}:
        return Decision.RELIST
    if error.status == 0 or error.status in _RETRIED or error.status >= 500:
        return Decision.RETRY
    return Decision.STOP if error.status in _FINAL else Decision.DOUBT


def retry_pauses() -> Backoff:
    """Return the pauses between tries: 100 ms first, doubling to 10 s, each up to twice as long."""
    return Backoff(0.1, factor=2.0, jitter=1.0, steps=16, cap=10.0)


class Troubles:
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
        self._outage = Outage(clock)

    def hear(self, error: ApiError) -> bool:
        """Note an error; return whether it is a refusal that may be due to an outage."""
        self.last = error
        self.count += 1
        return self._outage.excuses(error)

    def meet(self, error: ApiError) -> Decision:
        """Note an error and say what to do.

        What is in doubt is final once it repeats; a refusal right after an outage, once it holds.

        Returns:
            RETRY, RELIST or STOP.
        """
        excused = self.hear(error)
        decision = Decision.RETRY if excused else decide(error)
        if decision is not Decision.DOUBT:
            self.repeats = 0
            return decision
        self.repeats += 1
        return Decision.STOP if self.repeats >= REPEATS else Decision.RETRY

    def over(self) -> None:
        """Note a success."""
        self.repeats = 0
        self._outage.over()


def ask(call: Callable[[Deadline], _Answer], deadline: Deadline) -> _Answer:
    """Return the answer of one request, which must not take all the time that there is.

    Raises:
        ApiError: as the request raises it; reason `Timeout`: it has had no answer for 30 s.
        DeadlineExceeded: the deadline has come.
    """
    try:
        return call(deadline.at_most(PATIENCE))
    except DeadlineExceeded as error:
        if deadline.expired:
            raise
        raise ApiError(str(error), reason="Timeout") from error


@contextlib.contextmanager
def in_time(deadline: Deadline, what: str) -> Iterator[None]:
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
        final = isinstance(error, ApiError) and decide(error) is Decision.STOP
        if final or not deadline.expired:
            raise
        raise WaitTimeout(f"{what} in time: {error}") from error


def retrying(
    call: Callable[[Deadline], _Answer], deadline: Deadline, troubles: Troubles | None = None
) -> _Answer:
    """Return the answer of one request, tried again by this policy until the deadline.

    Args:
        call: the request; given the deadline to keep.
        deadline: when the answer must be here; Retry-After pauses are cut off by it as well.
        troubles: where errors are noted; None to forget them.

    Raises:
        ApiError: a final error, or the last one when the time was up.
        DeadlineExceeded: the time was up before there was any answer.
    """
    troubles = troubles if troubles is not None else Troubles(deadline.clock)
    ctx = Context(deadline.clock, at=deadline.at)
    answers: list[_Answer] = []

    def attempt(ctx: Context) -> bool:
        try:
            answers.append(ask(call, deadline))
        except ApiError as error:
            if troubles.meet(error) is Decision.STOP:
                raise
            if error.retry_after:
                ctx.wait(error.retry_after)
            return False
        troubles.over()
        return True

    try:
        retry_pauses().delay_func().until(ctx, True, True, attempt)
    except DeadlineExceeded:
        if troubles.last is None:
            raise
        raise troubles.last from None
    return answers[0]
