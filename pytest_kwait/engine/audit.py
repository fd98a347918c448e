"""The audit of met waits: whether what they awaited still holds at the test's next action.

A met wait keeps its watches for up to a second and evaluates its condition on the events that
arrive, without a further request. Conditions of users are evaluated in the audit's own thread, as
copies that change nothing of the test and send no requests. The test's next action ends that, since
it may change what was awaited on purpose: the next wait, a request, a connection or a program that
the test starts.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Protocol

from pytest_kwait.clock import TEST_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, Holding, WaitObserver
from pytest_kwait.engine.user_code import (
    CopiedCode,
    UserCode,
    UsesObjectsError,
    find_copied_code,
)
from pytest_kwait.wait.context import DeadlineExceeded
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.clock import Clock
    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.engine.condition import Condition, Verdict
    from pytest_kwait.engine.options import WaitSettings

OBSERVED = 1.0
"""Maximum seconds for which a met wait is observed."""

_ACTIONS = frozenset(
    {"http.client.send", "os.posix_spawn", "os.system", "socket.connect", "subprocess.Popen"}
)
"""Events of the interpreter by which a test changes something outside of its process."""

_OWN_THREADS = ("kwait", "execnet")
_THREADS_OF_TESTS = frozenset({"kwait-aio", "kwait-user-code"})
_listening = threading.Event()


class WatchingWait(Protocol):
    """A met wait that watches on."""

    def observe(self, observation: Observation) -> None:
        """Evaluate the condition on every further event."""

    def evaluate_changes(self) -> None:
        """Evaluate user code on the events since the last call."""

    def end_observation(self) -> None:
        """Stop watching."""


class Observation:
    """The observation of one met wait; its result is set once.

    Args:
        clock: the clock of its watches.
        wake: wakes the thread that evaluates user code.
    """

    def __init__(self, wait: ActiveWait, clock: Clock, wake: Callable[[], object]) -> None:
        self._wait = wait
        self._clock = clock
        self.wake = wake
        self._met_at = clock.monotonic()
        self._lock = threading.Lock()
        self._user_code = UserCode()
        self._copied_code = CopiedCode(lambda: self.give_up("its callable sends requests"))

    @property
    def remaining(self) -> float:
        """Seconds until it ends."""
        return self._met_at + OBSERVED - self._clock.monotonic()

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, or its time is up."""
        return self._wait.holding is not None or self.remaining <= 0

    def end(self) -> None:
        """End it: what was awaited held until now."""
        with self._lock:
            if self._wait.holding is None:
                self._wait.record_holding(Holding())

    def give_up(self, reason: str) -> None:
        """End it without a result.

        Args:
            reason: why the wait cannot be observed.
        """
        with self._lock:
            if self._wait.holding is None:
                self._wait.record_holding(Holding(reason))

    def evaluate_user_code(self, evaluate: Callable[[], Verdict]) -> Verdict | None:
        """Return the verdict of user code; None if it has none, which ends the observation."""
        deadline = Deadline.after(max(self.remaining, 0.0), self._clock)
        try:
            return self._user_code.run(lambda: self._copied_code.run(evaluate), deadline)
        except DeadlineExceeded:
            self.give_up("its callable did not return in time")
        except UsesObjectsError:
            self.give_up("its callable uses objects of the test")
        except BaseException as error:  # user code may raise anything, such as pytest.fail
            self.give_up(f"its callable raised {type(error).__name__}")
        return None

    def record_break(self, reason: str) -> None:
        """End it: what was awaited no longer holds.

        Args:
            reason: the verdict, in a few words.
        """
        with self._lock:
            if not self.is_over:
                lasted = round(self._clock.monotonic() - self._met_at, 3)
                self._wait.record_holding(Holding("", lasted, self._wait.hide(reason)))


class Auditor(WaitObserver):
    """Observes the met waits of this process until the test's next action.

    An observer of active waits. A thread of its own closes the watches, so that no action of the
    test is delayed.

    Args:
        clock: the clock of its thread.
    """

    def __init__(self, clock: Clock = TEST_CLOCK) -> None:
        self._clock = clock
        # Replaced, never mutated: an audit hook of the interpreter reads it in any thread.
        self._open: tuple[tuple[Observation, WatchingWait], ...] = ()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        """Closes the watches of ended observations; None while there are none."""

    def start(self) -> None:
        """Audit the waits of this process from now on."""
        CURRENT_AUDIT.auditor = self
        ACTIVE_WAITS.add(self)
        _listen_for_actions()

    def stop(self) -> None:
        """Audit no further wait; no-op if it does not."""
        self.end_observations()
        ACTIVE_WAITS.remove(self)
        if CURRENT_AUDIT.auditor is self:
            CURRENT_AUDIT.auditor = None

    def on_start(self, wait: ActiveWait) -> None:
        """End the observations before the next wait."""
        if not wait.inner:
            self.end_observations()

    def explain_unchecked(
        self, wait: ActiveWait, condition: Condition, settings: WaitSettings
    ) -> str:
        """Return why a wait cannot be observed; empty if it can."""
        if wait.inner:
            return "it is part of another wait"
        if settings.mode != "watch":
            return "poll mode watches nothing"
        if condition.probe is not None:
            return "it awaits answers, which cannot be watched"
        if condition.awaits_absence:
            return "what is gone stays gone"
        return ""

    def observe(self, wait: ActiveWait, watching: WatchingWait, clock: Clock) -> None:
        """Observe a wait that was met just now.

        Args:
            clock: their clock.
        """
        observation = Observation(wait, clock, self._wake)
        with self._lock:
            self._open = (*self._open, (observation, watching))
            if self._worker is None:
                worker = Worker("kwait-audit", lambda: self._close_ended(worker), self._clock)
                self._worker = worker
                worker.start()
        watching.observe(observation)
        self._wake()

    def end_observations(self) -> None:
        """End all observations: the test does something."""
        for observation, _ in self._open:
            observation.end()
        self._wake()

    def _wake(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wake()

    def record_action(self) -> None:
        """End all observations if this thread is one of the test's."""
        if self._open:
            name = threading.current_thread().name
            if name in _THREADS_OF_TESTS or not name.startswith(_OWN_THREADS):
                self.end_observations()

    def reset_after_fork(self) -> None:
        """Forget all observations: a forked child has none of its parent's threads."""
        self._open, self._worker = (), None
        self._lock = threading.Lock()

    def _close_ended(self, worker: Worker) -> None:
        """Close the watches of ended observations, until none is left."""
        while True:
            with self._lock:
                ended = [pair for pair in self._open if pair[0].is_over]
                self._open = running = tuple(pair for pair in self._open if pair not in ended)
                pause = min((observation.remaining for observation, _ in self._open), default=0.0)
                if not ended and not self._open:
                    self._worker = None
                    return
            for observation, watching in ended:
                observation.end()
                watching.end_observation()
            for _, watching in running:
                watching.evaluate_changes()
            if self._open:
                worker.pause(max(pause, 0.0))


class CurrentAudit:
    """The auditor of this process; None without an audit."""

    def __init__(self) -> None:
        self.auditor: Auditor | None = None


CURRENT_AUDIT = CurrentAudit()
"""The audit of this process."""


def _listen_for_actions() -> None:
    """Install the audit hook; the interpreter never removes one."""
    if not _listening.is_set():
        _listening.set()
        sys.addaudithook(_handle_event)


def _handle_event(event: str, _args: object) -> None:
    if event in _ACTIONS:
        auditor = CURRENT_AUDIT.auditor
        if auditor is None:
            return
        copied = find_copied_code()
        if copied is None:
            auditor.record_action()
            return
        copied.refuse()
        raise PermissionError("the audit sends no requests")


def _reset_after_fork() -> None:
    auditor = CURRENT_AUDIT.auditor
    if auditor is not None:
        auditor.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
