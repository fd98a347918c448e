"""Wait until caches have synced, or until any set of `DoneChecker`s is done.

A `Signal` is an event that calls back when it is set, so that one thread can wait for many.

Ported from client-go `tools/cache/shared_informer.go` (WaitForCacheSync, WaitForNamedCacheSync,
DoneChecker, IsDone, WaitFor).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_kwait import wait
from pytest_kwait.apimachinery.arguments import check_function, check_instance, check_text
from pytest_kwait.apimachinery.times import Duration, format_duration, to_seconds
from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.wait.context import check_context
from pytest_kwait.wait.loop import check_result

if TYPE_CHECKING:
    from pytest_kwait.clock import Clock
    from pytest_kwait.wait.context import Stop

SYNCED_POLL_PERIOD = 0.1
"""Seconds between two checks of unsynced caches."""

CACHE_SYNC_TIMEOUT = 300.0
"""The default limit of a wait for caches, in seconds; as for a pod start."""

InformerSynced: TypeAlias = Callable[[], bool]
"""Returns whether a cache has synced."""

_logger = logging.getLogger("pytest_kwait.cache")


class Signal(threading.Event):
    """An event that is set once and then calls its callbacks.

    A thread can wait for one `threading.Event` only. Through `on_set` it waits for any of many
    with one event of its own, without polling, as Go's `select` does.
    """

    def __init__(self) -> None:
        super().__init__()
        self._interest = threading.Lock()
        self._calls: list[Callable[[], object]] = []

    def set(self) -> None:
        """Set the event; the first call runs the callbacks, in this thread."""
        with self._interest:
            super().set()
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def on_set(self, call: Callable[[], object]) -> Callable[[], None]:
        """Call `call` once the event is set, at once if it is.

        Returns:
            A function that removes the callback.
        """
        check_function("call", call)
        with self._interest:
            waiting = not self.is_set()
            if waiting:
                self._calls.append(call)
        if not waiting:
            call()
        return lambda: self._forget(call)

    def _forget(self, call: Callable[[], object]) -> None:
        with self._interest:
            if call in self._calls:
                self._calls.remove(call)


class DoneChecker(Protocol):
    """Work with a name that completes once: an informer, a handler's registration."""

    @property
    def name(self) -> str:
        """The awaited work, for messages."""
        ...

    @property
    def done(self) -> Signal:
        """Set once the work is done."""
        ...


def is_done(checker: DoneChecker) -> bool:
    """Return whether it is done."""
    _check_checker("checker", checker)
    return checker.done.is_set()


def wait_for(context: wait.Context, what: str, *checkers: DoneChecker) -> bool:
    """Wait until all checkers are done; False if the context ended before they were.

    Woken by the checkers rather than polling. A checker that is done counts even if the context
    has ended. Logs the start to `pytest_kwait.cache`, each checker that is done, and the unfinished
    ones with the context's cause.

    Args:
        context: ends the wait.
        what: the awaited work, for the log; empty for no log.
        checkers: the checkers; True at once without any.
    """
    check_context("context", context)
    check_instance("what", what, str, "use a string, empty for no log")
    for checker in checkers:
        _check_checker("checkers", checker)
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


def _check_checker(what: str, value: object) -> None:
    done, name = getattr(value, "done", None), getattr(value, "name", None)
    if isinstance(value, type) or not (isinstance(done, Signal) and isinstance(name, str)):
        valid = "use an informer, a handler's registration, or another object with name and done"
        raise InvalidArgument(what, value, valid)


def _format_log_line(message: str, facts: dict[str, object]) -> str:
    """Format a message and its facts as in the logs of Kubernetes' components."""
    values = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in facts.items())
    return " ".join((message, *values))


class HasSynced(Protocol):
    """An informer, or a handler's registration, which has a synced state."""

    def has_synced(self) -> bool:
        """Return whether it has synced."""
        ...


class HasInformers(Protocol):
    """An informer factory."""

    @property
    def informers(self) -> Sequence[HasSynced]:
        """Its informers."""
        ...


Synced: TypeAlias = InformerSynced | HasSynced | HasInformers


@dataclass(frozen=True, slots=True)
class _SyncedCheck:
    """One synced function, with what its informer has.

    Informers may be users' own: they have all, some or none of the attributes that are read here.
    """

    has_synced: InformerSynced

    @property
    def owner(self) -> object:
        """The informer, registration or function."""
        return getattr(self.has_synced, "__self__", self.has_synced)

    @property
    def informer(self) -> object:
        """The informer, or that of a handler's registration."""
        return getattr(self.owner, "informer", self.owner)

    @property
    def name(self) -> str:
        owner = self.owner
        name = getattr(owner, "name", None)
        if isinstance(name, str):
            return name
        return getattr(owner, "__qualname__", None) or repr(owner)

    @property
    def clock(self) -> Clock | None:
        clock: Clock | None = getattr(self.owner, "clock", None)
        return clock

    @property
    def permanent_error(self) -> Exception | None:
        error = getattr(self.informer, "permanent_error", None)
        return error if isinstance(error, Exception) else None

    def why_not(self) -> str:
        """Return the name, with the reason if one is known."""
        if getattr(self.informer, "started", True) is False:
            return f"{self.name} (not started)"
        error = getattr(self.informer, "last_error", None)
        return f"{self.name} (last error: {error})" if error is not None else self.name


def wait_for_cache_sync(
    *synced: Synced,
    name: str | None = None,
    stop: Stop | None = None,
    timeout: Duration | None = None,
) -> bool:
    """Wait until all caches have synced in the same round of checks.

    They are checked at once, and then every 100 ms; once even if `stop` is set already. Without
    anything to wait for the result is True.

    Args:
        synced: informers, informer factories (all their requested informers), handlers'
            registrations, or functions that return whether a cache has synced.
        name: the caller; the wait and its end are then logged to `pytest_kwait.cache`.
        stop: ends the wait.
        timeout: the limit; None for five minutes.

    Returns:
        True once all have synced, False if `stop` was set first.

    Raises:
        WaitTimeout: not all have synced in time; names those that have not and their last errors.
        WaitFailed: an informer's list is permanently refused, as by 401, 403, or 404 for its kind;
            the message has the cause.
        InvalidArgument: an argument without a synced state.
    """
    awaited = [check for item in synced for check in _iterate_checks(item)]
    limit = CACHE_SYNC_TIMEOUT if timeout is None else to_seconds(timeout, what="timeout")
    if name is not None:
        check_text("name", name)
    context = make_stop_context(stop, _get_clock(awaited))
    if name is None:
        return _wait(awaited, context, limit)
    _logger.info('Waiting for caches to sync controller="%s"', name)
    done = False
    try:
        done = _wait(awaited, context, limit)
    finally:
        if done:
            _logger.info('Caches are synced controller="%s"', name)
        else:
            _logger.error('Unable to sync caches controller="%s"', name)
    return done


def wait_for_named_cache_sync(
    name: str,
    *synced: Synced,
    stop: Stop | None = None,
    timeout: Duration | None = None,
) -> bool:
    """Call `wait_for_cache_sync`, with log lines that name the caller.

    Args:
        name: the caller.
        synced: the informers, registrations or functions.
        stop: ends the wait.
        timeout: the limit; None for five minutes.
    """
    return wait_for_cache_sync(*synced, name=name, stop=stop, timeout=timeout)


def make_stop_context(stop: Stop | None, clock: Clock = SYSTEM_CLOCK) -> wait.Context:
    """Return a context that ends with `stop`, or never without one."""
    return wait.background(clock) if stop is None else wait.context.make_stop_context(stop, clock)


def _wait(awaited: Sequence[_SyncedCheck], context: wait.Context, limit: float) -> bool:
    def all_synced(_context: wait.Context) -> bool:
        for check in awaited:
            if not check_result(check.has_synced(), f"has_synced of {check.name}"):
                _raise_if_permanent(awaited)
                return False
        return True

    try:
        wait.poll_immediate_until_with_context(
            context.limited(limit), SYNCED_POLL_PERIOD, all_synced
        )
    except wait.ErrWaitTimeout:
        if context.err() is not None:
            return False
        missing = [check for check in awaited if not check.has_synced()]
        if missing:
            # An informer that is named stands for its handlers.
            informers = {id(check.owner) for check in missing}
            named = dict.fromkeys(
                check.why_not()
                for check in missing
                if check.owner is check.informer or id(check.informer) not in informers
            )
            waited = format_duration(limit)
            raise WaitTimeout(f"caches not synced after {waited}: {', '.join(named)}") from None
    return True


def _raise_if_permanent(awaited: Sequence[_SyncedCheck]) -> None:
    for check in awaited:
        error = check.permanent_error
        if error is not None and not check.has_synced():
            name = getattr(check.informer, "name", check.name)
            raise WaitFailed(f"the cache of {name} cannot sync: list failed: {error}") from error


def _iterate_checks(synced: object) -> Iterator[_SyncedCheck]:
    """Yield the checks of one argument."""
    informers = getattr(synced, "informers", None)
    if isinstance(informers, Sequence):
        for informer in informers:
            yield from _iterate_checks(informer)
        return
    has_synced = getattr(synced, "has_synced", synced)
    if not callable(has_synced) or isinstance(synced, type):
        valid = "an informer, an informer factory or a has_synced function"
        raise InvalidArgument("synced", synced, valid)
    check_function("synced", has_synced)
    yield _SyncedCheck(has_synced)


def _get_clock(awaited: Sequence[_SyncedCheck]) -> Clock:
    """Return the first informer's clock, which the wait must share."""
    clocks = (check.clock for check in awaited)
    return next((clock for clock in clocks if clock is not None), SYSTEM_CLOCK)
