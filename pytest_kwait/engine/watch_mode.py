"""Watch mode: evaluate the condition as soon as an event is read."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.engine.retry import ErrorAction, ErrorLog
from pytest_kwait.engine.shared_stream import subscribe
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.client.session import Session
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import Condition, Probe, Source
    from pytest_kwait.engine.evaluator import Evaluation, Evaluator
    from pytest_kwait.engine.shared_stream import Subscription

__all__ = ["WatchMode"]

_CLOSE_PAUSE = 0.005
"""Real seconds for which an ended wait keeps its streams, so that its caller returns first."""


class WatchMode:
    """One wait over watches: the subscriber of its streams, and the loop of its caller.

    Events are evaluated in the thread that read them. The caller's thread wakes up only to end the
    wait, to check an expired grace period, to run the probe and to run user code.

    Args:
        session: the session of all requests.
        condition: the awaited condition.
        evaluator: evaluates the condition.
        deadline: the deadline of the wait.
        poll: the pause between two runs of the probe, in seconds.
        probe: the part of the condition that cannot be watched; None without one.
        errors: the log of API errors.
    """

    def __init__(
        self,
        session: Session,
        condition: Condition,
        evaluator: Evaluator,
        deadline: Deadline,
        *,
        poll: float,
        probe: Probe | None,
        errors: ErrorLog,
    ) -> None:
        self._session = session
        self._condition = condition
        self._evaluator = evaluator
        self._deadline = deadline
        self._poll = poll
        self._probe = probe
        self._errors = errors
        self._unsubscribed = False
        self._caller = threading.get_ident()
        self._lock = threading.RLock()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._wake = threading.Event()
        self._sources: Sequence[Source] = ()
        self._streams: dict[Source, Subscription] = {}
        self._unlisted: set[Source] = set()
        self._skipped: set[Source] = set()
        self._confirming: set[Source] | None = None
        self._confirm_from = 0.0
        self._evaluation: Evaluation | None = None
        self._stale = False
        self._over = False
        self._error: BaseException | None = None
        self._probe_at = -math.inf

    def run(self) -> Evaluation:
        """Return the final evaluation.

        Raises:
            ApiError: a final error of a stream or of the probe.
            DeadlineExceeded: the deadline has passed.
        """
        try:
            with self._held():
                self._follow_sources()
                if not self._sources:
                    self._changed()  # nothing to list: only the probe
            while True:
                evaluation, pause = self._step()
                if evaluation is not None:
                    return evaluation
                if self._deadline.expired:
                    raise DeadlineExceeded
                self._session.clock.wait(self._wake, min(pause, self._deadline.remaining))
        finally:
            with self._lock:
                self._over = True
                unsubscribes, self._unsubscribed = not self._unsubscribed, True
            if unsubscribes:
                self._unsubscribe()

    def on_list(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        """Queue a list of a source."""
        self._inbox.append((self._enter_list, (source, items, asked)))

    def on_event(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        """Queue an event of a source."""
        self._inbox.append((self._enter_change, (source, kind, obj, raw)))

    def on_error(self, source: Source, error: ApiError) -> None:
        """Queue an error that is retried."""
        self._inbox.append((self._enter_error, (source, error)))

    def on_end(self, source: Source, error: BaseException) -> None:
        """Queue the error that ended a stream."""
        self._inbox.append((self._enter_end, (source, error)))

    def process_changes(self) -> None:
        """Process the queue, unless another thread does.

        The other thread checks the queue again after it has released the lock. It may hold the
        lock for long: user code runs in the caller's thread.
        """
        while self._inbox and self._lock.acquire(blocking=False):
            try:
                while self._inbox:
                    enter, args = self._inbox.popleft()
                    enter(*args)
                self._evaluator.record_last()
            except BaseException as error:  # raised by this wait; the stream continues for others
                self._error = error
                self._wake.set()
            finally:
                unsubscribes = self._over and not self._unsubscribed and not self._is_caller()
                self._unsubscribed |= unsubscribes
                self._lock.release()
            if unsubscribes:
                self._unsubscribe(_CLOSE_PAUSE)

    def _is_caller(self) -> bool:
        return threading.get_ident() == self._caller

    def _unsubscribe(self, pause: float = 0.0) -> None:
        """Unsubscribe from all streams; at once from those with other subscribers."""
        last = [share for share in self._streams.values() if not share.close_if_shared()]
        if last and pause:
            # Closing connections is slow, so the caller returns first.
            SYSTEM_CLOCK.sleep(pause)
        for share in last:
            share.close()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock, then process the events queued meanwhile."""
        with self._lock:
            yield
        self.process_changes()

    def _enter_list(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        if self._over or source not in self._streams:
            return
        source.replace(items, self._session.clock.monotonic())
        self._unlisted.discard(source)
        if self._confirming is not None and asked >= self._confirm_from:
            self._confirming.discard(source)
            self._wake.set()
        self._changed()

    def _enter_change(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        if self._over or source not in self._streams:
            return
        if kind == "DELETED":
            metadata = obj["metadata"]
            source.sink.drop(metadata.get("uid") or metadata["name"])
        else:
            source.sink.put(obj, raw, self._session.clock.monotonic())
        self._changed()

    def _enter_error(self, source: Source, error: ApiError) -> None:
        self._errors.record_error(error)
        if source in self._unlisted:
            self._evaluator.record_text(f"cannot list {source.resource.qualified}: {error.message}")

    def _enter_end(self, source: Source, error: BaseException) -> None:
        if source not in self._streams or self._over:
            return
        if source.optional and isinstance(error, ApiError):
            self._errors.record_error(error)
            self._skipped.add(source)
            self._streams.pop(source)
            self._unlisted.discard(source)
            if self._confirming is not None:
                self._confirming.discard(source)
            self._changed()
            self._wake.set()
            return
        self._error = error
        self._wake.set()

    def _follow_sources(self) -> None:
        sources = self._condition.sources()
        if sources is self._sources:
            return
        self._sources = sources
        for source in [source for source in self._streams if source not in sources]:
            self._streams.pop(source).close()
            self._unlisted.discard(source)
        for source in sources:
            if source not in self._streams and source not in self._skipped:
                self._unlisted.add(source)
                self._streams[source] = subscribe(self._session, source, self, self._deadline)

    def _changed(self) -> None:
        """Evaluate the condition, and wake the caller if it has work to do."""
        self._follow_sources()
        if self._unlisted:
            return
        if self._condition.runs_user_code:
            self._stale = True
            self._wake.set()
            return
        before = self._evaluation
        # The condition may be met in between: evaluate every change, but describe only the last.
        self._evaluate(in_passing=bool(self._inbox))
        if (
            self._over
            or before is None
            or self._evaluation is None
            or (self._evaluation.due, self._evaluation.ask_at) != (before.due, before.ask_at)
            or (self._probe is not None and self._probe.is_urgent())
        ):
            self._wake.set()

    def _evaluate(
        self, *, fresh: bool = False, asking: bool = False, in_passing: bool = False
    ) -> None:
        self._evaluation = self._evaluator.evaluate(
            fresh=fresh, asking=asking, in_passing=in_passing
        )
        self._stale = False
        # Later events are ignored: the result is the state of the final verdict.
        self._over = self._evaluation.final

    def _step(self) -> tuple[Evaluation | None, float]:
        """Do the due work; return the final evaluation, or the time of the next work."""
        clock = self._session.clock
        with self._held():
            self._wake.clear()
            if self._error is not None:
                raise self._error
            if self._evaluation is None and not self._stale:
                return None, math.inf
            if not self._over and (self._stale or self._is_check_due()):
                self._evaluate(asking=True)
            if not self._over:
                self._confirm()
            if self._over:
                return self._evaluation, 0.0
        if self._probe is not None and self._run_probe(self._probe):
            return self._evaluation, 0.0
        with self._held():
            until = math.inf
            if self._evaluation is not None and self._confirming is None:
                until = min(self._evaluation.due, self._evaluation.ask_at)
            if self._probe is not None and self._probe.questions():
                until = min(until, self._probe_at)
        return None, until - clock.monotonic()

    def _is_check_due(self) -> bool:
        now = self._session.clock.monotonic()
        return self._evaluation is not None and now >= self._evaluation.ask_at

    def _confirm(self) -> None:
        """List everything again once a grace or stability period has expired, then evaluate."""
        if self._evaluation is None or self._session.clock.monotonic() < self._evaluation.due:
            self._confirming = None
        elif self._confirming is None:
            self._confirming = set(self._streams)
            self._confirm_from = self._session.clock.monotonic()
            for share in self._streams.values():
                share.refresh()
        elif not self._confirming & self._streams.keys():
            self._confirming = None
            self._evaluate(fresh=True)

    def _run_probe(self, probe: Probe) -> bool:
        """Run the probe if it is due; return whether the wait is over."""
        clock = self._session.clock
        with self._held():
            questions = probe.questions()
            if not questions or not (probe.is_urgent() or clock.monotonic() >= self._probe_at):
                return False
        answers = None
        try:
            answers = probe.ask(questions, self._deadline)
        except ApiError as error:
            if self._errors.decide(error) is ErrorAction.STOP:
                raise
        else:
            self._errors.record_success()
        with self._held():
            self._probe_at = clock.monotonic() + self._poll
            if answers is not None:
                probe.record_answers(answers)
            if not self._over:
                self._evaluate()
            return self._over
