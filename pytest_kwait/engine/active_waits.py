"""Active waits of this process, listed for live status and observers.

A wait is added once and removed once, and reports its start, its changes and its end. A run without
waits loads only this module of the engine, so its imports are cheap.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.failure.wait_report import Timeline, WaitReport

_numbers = itertools.count(1)
_step = ContextVar("step", default="")
"""The steps that the running code is in, outermost first."""

_SEPARATOR = " > "
_FAILED_STEP = "_kwait_step"
_RAISING_WAITS = "_kwait_waits"


class WaitObserver:
    """Observes waits; each event is handled in the thread in which it happens.

    A handler sends no request while the wait goes on: it would delay it. Live status, which masks
    texts and counts seconds down, reads the record in a thread of its own, when it draws.
    """

    def on_start(self, wait: ActiveWait) -> None:
        """Handle the start of a wait."""

    def on_end(self, wait: ActiveWait) -> None:
        """Handle the end of a wait, which is no longer listed."""

    def on_change(self, wait: ActiveWait) -> None:
        """Handle a change of what a wait has seen; after its end, of its report or its holding."""

    def on_retry(self) -> None:
        """Handle a write that is sent again outside of a wait."""


class WaitContext:
    """The server of a wait, for its observers; without one nothing is hidden."""

    def describe_outage(self) -> str:
        """Return since when the server has not answered, as a sentence; empty if it answers."""
        return ""

    def describe_error(self) -> str:
        """Return the last API error; empty without one."""
        return ""

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that the wait observes; empty for cluster-scoped objects."""
        return ()

    def hide(self, text: str) -> str:
        """Return a text without credentials."""
        return text

    def learn_secrets(self, max_age: float | None) -> None:
        """List the Secrets that `hide` is to redact.

        Args:
            max_age: the age in seconds up to which an earlier list suffices; None for any.
        """


class Step:
    """A named part of a test: `with Step("create the shop")`; steps may be nested.

    An error that leaves it gets a note with the names of all steps around it.

    Args:
        name: what the part does, as a phrase.

    Source: ginkgo's By.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._before: list[str] = []
        self._contexts: list[contextlib.ExitStack] = []

    def __enter__(self) -> str:
        before = _step.get()
        self._before.append(before)
        path = f"{before}{_SEPARATOR}{self._name}" if before else self._name
        _step.set(path)
        for listener in ACTIVE_WAITS.step_listeners:
            listener(path)
        contexts = contextlib.ExitStack()
        for make in ACTIVE_WAITS.step_contexts:
            contexts.enter_context(make(self._name))
        self._contexts.append(contexts)
        return path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._contexts.pop().__exit__(kind, error, trace)
        path = _step.get()
        _step.set(self._before.pop())
        if error is not None and not get_failed_step(error):
            with contextlib.suppress(AttributeError):
                setattr(error, _FAILED_STEP, path)
                error.add_note(f"in step {path}")


def get_failed_step(error: BaseException | None) -> str:
    """Return the steps that an error came from; empty without any."""
    return str(getattr(error, _FAILED_STEP, ""))


def list_raising_waits(error: BaseException) -> tuple[int, ...]:
    """Return the numbers of the waits that raised an error, innermost first."""
    numbers: tuple[int, ...] = getattr(error, _RAISING_WAITS, ())
    return numbers


class WaitCall:
    """The call of a wait in the code of a suite.

    Args:
        name: the called function: a wait, or a verb that waits; empty for one of the plugin.
        site: where, as `file:line`; empty if unknown.
        is_precondition: whether it is the marker of a test.
        limit_name: the name in the timeout table that its limit comes from; empty for its own.
        limit: that limit in seconds; None for its own.
    """

    __slots__ = ("is_precondition", "limit", "limit_name", "name", "site")

    def __init__(
        self,
        name: str = "",
        site: str = "",
        limit_name: str = "",
        *,
        is_precondition: bool = False,
        limit: float | None = None,
    ) -> None:
        self.name = name
        self.site = site
        self.limit_name = limit_name
        self.limit = limit
        self.is_precondition = is_precondition


class Holding:
    """Whether what a wait awaited held until the test's next action.

    Args:
        unchecked: why it was not observed; empty if it was.
        broke_after: seconds after which it no longer held; None if it held.
        reason: the verdict then.
    """

    __slots__ = ("broke_after", "reason", "unchecked")

    def __init__(
        self, unchecked: str = "", broke_after: float | None = None, reason: str = ""
    ) -> None:
        self.unchecked = unchecked
        self.broke_after = broke_after
        self.reason = reason


class ActiveWait:
    """One wait: what it awaits, and how it ended.

    Args:
        subject: the object of the wait: `job ci-1/sleepers`.
        goal: the awaited state, as a verb: `have 3 pods Running`.
        timeline: the changes of its verdict.
        started: when it began, in seconds of the deadline's clock.
        limit: the limit in seconds, before a test's own timeout shortens it; 0 if unknown.
        name: the declared wait; empty for a part of a verb.
        call: its call, if it was located.
        context: the server; by default none.
    """

    def __init__(
        self,
        subject: str,
        goal: str,
        deadline: Deadline,
        timeline: Timeline,
        started: float,
        *,
        limit: float = 0.0,
        name: str = "",
        call: WaitCall | None = None,
        context: WaitContext | None = None,
    ) -> None:
        self.number = next(_numbers)
        """Its number in this process."""
        self.name = name
        self.subject = subject
        self.goal = goal
        self.deadline = deadline
        self.timeline = timeline
        self.started = started
        self.call = call or WaitCall()
        self.limit = limit if self.call.limit is None else self.call.limit
        self._context = context or WaitContext()
        self._observers: Callable[[], tuple[WaitObserver, ...]] = tuple
        self.step = _step.get()
        """The steps of the test that it is in, outermost first; empty outside of any."""
        self.inner = False
        """True if this wait is part of another wait: its user code waits."""
        self.is_surrounded = False
        """True once the contexts around it are entered."""
        self.outcome = ""
        """`met`, `failed early`, `timed out`, `error` (of the API), `interrupted`; or empty."""
        self.seconds = 0.0
        """Its duration in seconds, to the millisecond; 0 until its end."""
        self.retries = 0
        """The number of retried API errors, and of writes sent again; 0 until its end."""
        self.trouble = ""
        """The last API error; empty until its end."""
        self.met_at_first_look = False
        """True if its first verdict was that it is met; False until its end."""
        self.holding: Holding | None = None
        """Whether it held until the test's next action; None before the audit knows."""
        self.report: WaitReport | None = None
        """The report of a failed wait; None before it is made."""

    def begin(self, observers: Callable[[], tuple[WaitObserver, ...]], *, inner: bool) -> None:
        """Begin the wait.

        Args:
            observers: returns the observers of its events.
            inner: whether it is part of another wait.
        """
        self._observers, self.inner = observers, inner
        self.timeline.on_change = self._notify_change
        for observer in observers():
            observer.on_start(self)

    def record_outcome(
        self, outcome: str, *, retries: int = 0, trouble: str = "", met_at_first_look: bool = False
    ) -> None:
        """Record how the wait ends; it is interrupted if it ends without.

        Args:
            outcome: `met`, `failed early`, `timed out` or `error`.
            retries: the number of retried API errors.
            trouble: the last API error.
            met_at_first_look: whether its first verdict was that it is met.
        """
        self.outcome, self.retries, self.trouble = outcome, retries, trouble
        self.met_at_first_look = met_at_first_look

    def end(self) -> None:
        """End the wait."""
        if not self.outcome:
            self.record_outcome("interrupted", trouble=self._context.describe_error())
        # Once: all who report it name the same duration.
        lasted = self.deadline.clock.monotonic() - self.started
        self.seconds = round(max(lasted, 0.0), 3)
        self.timeline.on_change = None
        for observer in self._observers():
            observer.on_end(self)

    def record_report(self, report: WaitReport) -> None:
        """Record the report of a failed wait, after its end."""
        self.report = report
        self._notify_change()

    def record_error(self, error: BaseException) -> None:
        """Mark an error as raised by this wait, for `list_raising_waits`."""
        with contextlib.suppress(AttributeError):
            setattr(error, _RAISING_WAITS, (*list_raising_waits(error), self.number))

    def record_holding(self, holding: Holding) -> None:
        """Record whether what was awaited held, after the end of the wait."""
        self.holding = holding
        self._notify_change()

    def _notify_change(self) -> None:
        for observer in self._observers():
            observer.on_change(self)

    def hide(self, text: str) -> str:
        """Return a text without credentials."""
        return self._context.hide(text)

    def learn_secrets(self, max_age: float | None) -> None:
        """List the Secrets that `hide` is to redact.

        Args:
            max_age: the age in seconds up to which an earlier list suffices; None for any.
        """
        self._context.learn_secrets(max_age)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that it observes; empty for cluster-scoped objects."""
        return self._context.namespaces()

    @property
    def failed_early(self) -> bool:
        """True if the wait ended because the condition can no longer be met."""
        return self.outcome == "failed early"

    @property
    def seen(self) -> str:
        """The last verdict in words; empty before the first one."""
        return self.timeline.last

    @property
    def left(self) -> str:
        """The time left, in whole seconds."""
        return _whole_seconds(self.deadline.remaining)

    @property
    def text(self) -> str:
        """The goal and the last verdict, in one line, without credentials."""
        last = " ".join(self.seen.split()) or "nothing seen yet"
        if outage := self._context.describe_outage():
            last = f"{outage}; last seen: {last.removesuffix(' seen yet')}"
        step = f"in step {self.step}: " if self.step else ""
        return self.hide(f"{step}{self.subject} to {self.goal}: {last}")

    def __str__(self) -> str:
        elapsed = _whole_seconds(self.deadline.clock.monotonic() - self.started)
        return f"{self.text} (after {elapsed}, {self.left} left)"


class ActiveWaits:
    """The waits in progress; safe to use from any thread and in signal handlers."""

    def __init__(self) -> None:
        # No lock: a signal handler may interrupt the thread that adds a wait.
        self._waits: dict[int, ActiveWait] = {}
        self._observers: tuple[WaitObserver, ...] = ()
        self.step_listeners: list[Callable[[str], None]] = []
        """Called with the steps of a test, outermost first, as one begins."""
        self.step_contexts: list[Callable[[str], AbstractContextManager[object]]] = []
        """Make a context around a step from its name."""
        self.wait_contexts: list[Callable[[ActiveWait], AbstractContextManager[object]]] = []
        """Make a context around a wait, in its thread, the outermost first.

        It ends once the wait has its outcome, and its report if it failed. Its errors are raised by
        the wait. Waits that are part of another wait have none.
        """
        self.locate_call: Callable[[str, float, str], WaitCall] | None = None
        """Finds the call of a wait that begins, in its thread; None if nothing needs it.

        Its arguments are the name of the declared wait, its limit in seconds and the name of its
        default limit; names are empty for a part of a verb.
        """
        self._lock = threading.Lock()
        # User code of a wait runs in a thread with the context of the wait.
        self._depth = ContextVar("depth", default=0)

    def waits(self) -> list[ActiveWait]:
        """Return the waits, oldest first."""
        return list(self._waits.values())

    @contextlib.contextmanager
    def surrounded(self, wait: ActiveWait) -> Iterator[None]:
        """Enter the contexts around a wait, once."""
        if wait.is_surrounded or self._depth.get() or not self.wait_contexts:
            yield
            return
        wait.is_surrounded = True
        with contextlib.ExitStack() as contexts:
            for make in tuple(self.wait_contexts):
                contexts.enter_context(make(wait))
            yield

    @contextlib.contextmanager
    def entered(self, wait: ActiveWait) -> Iterator[None]:
        """List a wait while the context is active."""
        with self.surrounded(wait), self._listed(wait):
            yield

    @contextlib.contextmanager
    def _listed(self, wait: ActiveWait) -> Iterator[None]:
        depth = self._depth.get()
        self._depth.set(depth + 1)
        self._waits[id(wait)] = wait
        try:
            wait.begin(lambda: self._observers, inner=depth > 0)
            yield
        except BaseException as error:
            wait.record_error(error)
            raise
        finally:
            self._depth.set(depth)
            del self._waits[id(wait)]
            wait.end()

    def record_retry(self) -> None:
        """Record that a write is sent again outside of a wait."""
        for observer in self._observers:
            observer.on_retry()

    def add(self, observer: WaitObserver) -> None:
        """Add an observer."""
        with self._lock:
            self._observers = (*self._observers, observer)

    def remove(self, observer: WaitObserver) -> None:
        """Remove an observer; no-op if it is not registered."""
        with self._lock:
            self._observers = tuple(added for added in self._observers if added is not observer)


ACTIVE_WAITS = ActiveWaits()
"""The waits of this process."""


def _whole_seconds(seconds: float) -> str:
    # Runs without waits load this module, but need no durations.
    from pytest_kwait.apimachinery.times import format_duration

    return format_duration(float(round(seconds)))
