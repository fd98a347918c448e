"""Waiting for several things to be done, each of which says so itself.

Ported from client-go `tools/cache/shared_informer.go` (DoneChecker, IsDone, WaitFor).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Protocol

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.cache.signal import Signal

__all__ = ["DoneChecker", "is_done", "wait_for"]

_logger = logging.getLogger("pytest_kwait.cache")


class DoneChecker(Protocol):
    """Something that gets done once and has a name: an informer, a handler's registration."""

    @property
    def name(self) -> str:
        """What is to be done, for messages."""
        ...

    @property
    def done(self) -> Signal:
        """Set once it is done."""
        ...


def is_done(checker: DoneChecker) -> bool:
    """Whether it is done by now."""
    return checker.done.is_set()


def wait_for(context: wait.Context, what: str, *checkers: DoneChecker) -> bool:
    """Wait until all checkers are done; False if the context ended before they were.

    Woken by the checkers rather than polling. A checker that is done counts even if the context
    has ended. Logs to `pytest_kwait.cache` that it waits, each checker that is done, and those
    that were not, with the context's cause.

    Args:
        context: ends the wait.
        what: what is waited for, for the log; nothing is logged if it is empty.
        checkers: what must be done; True at once if there are none.
    """
    pending = list(checkers)

    def log(message: str, **facts: object) -> None:
        if what:
            _logger.info(_format_log_line(message, {"for": what, **facts}))

    def all_done(_context: wait.Context) -> bool:
        for checker in [checker for checker in pending if is_done(checker)]:
            pending.remove(checker)
            log("Done waiting", instance=checker.name)
        return not pending

    def wakings(context: wait.Context) -> Iterator[None]:
        while context.err() is None:
            woken, wake = wait.with_cancel(context)
            forget = [checker.done.on_set(wake) for checker in pending]
            woken.wait()
            for call in forget:
                call()
            yield

    log("Waiting")
    if all_done(context):
        return True
    try:
        wait.wait_for_with_context(context, wakings, all_done)
    except wait.ErrWaitTimeout:
        if all_done(context):
            return True
        names = sorted(checker.name for checker in pending)
        log("Timed out waiting", cause=str(context.cause()), instances=names)
        return False
    return True


def _format_log_line(message: str, facts: dict[str, object]) -> str:
    """Write a message and its facts as Kubernetes' components write them to their logs."""
    values = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in facts.items())
    return " ".join((message, *values))
