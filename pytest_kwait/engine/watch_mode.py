"""Watch mode: ask for the verdict as soon as an event has been read."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from pytest_kwait.clock import SYSTEM_CLOCK
from pytest_kwait.engine.retry import ErrorAction, ErrorLog
from pytest_kwait.engine.shared_stream import enter_list, subscribe
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
"""Seconds, of real time, that a wait that has ended keeps its streams: it is on its way out."""


class WatchMode:
    """One wait over watches: the audience of its streams, and the loop of its caller.

    Events are entered and judged in the thread that has read them; the caller's thread only wakes
    up for what it has to do itself: end the wait, let a grace run out, look at what cannot be
    watched, run code of the user.

    Args:
        session: who asks the server.
        condition: what is awaited.
        judge: what the verdicts mean for the wait.
        deadline: when it must be over.
        poll: the pause between looks at what cannot be watched, in seconds.
        probe: how to look at that; None where everything is watched.
        troubles: where errors are noted.
    """

    def __init__(
        self,
        session: Session,
        condition: Condition,
        judge: Evaluator,
        deadline: Deadline,
        *,
        poll: float,
        probe: Probe | None,
        troubles: ErrorLog,
    ) -> None:
        self._session = session
        self._condition = condition
        self._judge = judge
        self._deadline = deadline
        self._poll = poll
        self._probe = probe
        self._troubles = troubles
        self._left = False
        self._caller = threading.get_ident()
        self._lock = threading.RLock()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._wake = threading.Event()
        self._sources: Sequence[Source] = ()
        self._streams: dict[Source, Subscription] = {}
        self._unlisted: set[Source] = set()
        self._forgone: set[Source] = set()
        self._confirming: set[Source] | None = None
        self._confirm_from = 0.0
        self._ruling: Evaluation | None = None
        self._stale = False
        self._over = False
        self._error: BaseException | None = None
        self._probe_at = -math.inf

    def run(self) -> Evaluation:
        """Return the ruling that ends the wait.

        Raises:
            ApiError: the server refuses what the wait needs.
            DeadlineExceeded: the time is up.
        """
        try:
            with self._held():
                self._follow_sources()
                if not self._sources:
                    self._changed()  # nothing will be listed: all there is must be asked for
            while True:
                ruling, pause = self._step()
                if ruling is not None:
                    return ruling
                if self._deadline.expired:
                    raise DeadlineExceeded
                self._session.clock.wait(self._wake, min(pause, self._deadline.remaining))
        finally:
            with self._lock:
                self._over = True
                leaves, self._left = not self._left, True
            if leaves:
                self._leave()

    def listed(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        """Keep all objects of a source."""
        self._inbox.append((self._enter_list, (source, items, asked)))

    def changed(self, source: Source, kind: str, obj: dict[str, Any], raw: bytes) -> None:
        """Keep one change of a source."""
        self._inbox.append((self._enter_change, (source, kind, obj, raw)))

    def troubled(self, source: Source, error: ApiError) -> None:
        """Keep an error that is retried."""
        self._inbox.append((self._enter_trouble, (source, error)))

    def broken(self, source: Source, error: BaseException) -> None:
        """Keep what has ended a stream."""
        self._inbox.append((self._enter_end, (source, error)))

    def process_changes(self) -> None:
        """Enter and judge what was kept, unless another thread is at it.

        That one looks again once it has let go, so nothing is left lying. It may be at it for
        long: the code of the user runs in the caller's thread.
        """
        while self._inbox and self._lock.acquire(blocking=False):
            try:
                while self._inbox:
                    enter, told = self._inbox.popleft()
                    enter(*told)
                self._judge.tell()
            except BaseException as error:  # this wait raises it; the stream goes on for others
                self._error = error
                self._wake.set()
            finally:
                bids_farewell = self._over and not self._left and not self._is_caller()
                self._left |= bids_farewell
                self._lock.release()
            if bids_farewell:
                self._leave(_CLOSE_PAUSE)

    def _is_caller(self) -> bool:
        return threading.get_ident() == self._caller

    def _leave(self, pause: float = 0.0) -> None:
        """Let the streams go; those that others have a share in at once."""
        last = [share for share in self._streams.values() if not share.close_if_shared()]
        if last and pause:
            # To close connections takes longer than all the rest: the caller is let by first.
            SYSTEM_CLOCK.sleep(pause)
        for share in last:
            share.close()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other threads from judging; judge what they were told meanwhile."""
        with self._lock:
            yield
        self.process_changes()

    def _enter_list(
        self, source: Source, items: list[tuple[dict[str, Any], bytes]], asked: float
    ) -> None:
        if self._over or source not in self._streams:
            return
        enter_list(source, items, self._session.clock.monotonic())
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

    def _enter_trouble(self, source: Source, error: ApiError) -> None:
        self._troubles.record_error(error)
        if source in self._unlisted:
            self._judge.note(f"cannot list {source.resource.qualified}: {error.message}")

    def _enter_end(self, source: Source, error: BaseException) -> None:
        if source not in self._streams or self._over:
            return
        if source.optional and isinstance(error, ApiError):
            self._troubles.record_error(error)
            self._forgone.add(source)
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
            if source not in self._streams and source not in self._forgone:
                self._unlisted.add(source)
                self._streams[source] = subscribe(self._session, source, self, self._deadline)

    def _changed(self) -> None:
        """Judge what has been entered, and wake the caller if there is something for it to do."""
        self._follow_sources()
        if self._unlisted:
            return
        if self._condition.runs_user_code:
            self._stale = True
            self._wake.set()
            return
        before = self._ruling
        # Every change is judged, for it may be met in between; only the last is put into words.
        self._rule(in_passing=bool(self._inbox))
        if (
            self._over
            or before is None
            or self._ruling is None
            or (self._ruling.due, self._ruling.ask_at) != (before.due, before.ask_at)
            or (self._probe is not None and self._probe.is_urgent())
        ):
            self._wake.set()

    def _rule(self, *, fresh: bool = False, asking: bool = False, in_passing: bool = False) -> None:
        self._ruling = self._judge.rule(fresh=fresh, asking=asking, in_passing=in_passing)
        self._stale = False
        # What comes after the end belongs to no wait: the result is what made the verdict.
        self._over = self._ruling.final

    def _step(self) -> tuple[Evaluation | None, float]:
        """Do what is due; return the ruling that ends the wait, or how long nothing is due."""
        clock = self._session.clock
        with self._held():
            self._wake.clear()
            if self._error is not None:
                raise self._error
            if self._ruling is None and not self._stale:
                return None, math.inf
            if not self._over and (self._stale or self._asks_late()):
                self._rule(asking=True)
            if not self._over:
                self._confirm()
            if self._over:
                return self._ruling, 0.0
        if self._probe is not None and self._look(self._probe):
            return self._ruling, 0.0
        with self._held():
            until = math.inf
            if self._ruling is not None and self._confirming is None:
                until = min(self._ruling.due, self._ruling.ask_at)
            if self._probe is not None and self._probe.questions():
                until = min(until, self._probe_at)
        return None, until - clock.monotonic()

    def _asks_late(self) -> bool:
        now = self._session.clock.monotonic()
        return self._ruling is not None and now >= self._ruling.ask_at

    def _confirm(self) -> None:
        """List everything anew once a grace or a time of stability has run out, then rule on it."""
        if self._ruling is None or self._session.clock.monotonic() < self._ruling.due:
            self._confirming = None
        elif self._confirming is None:
            self._confirming = set(self._streams)
            self._confirm_from = self._session.clock.monotonic()
            for share in self._streams.values():
                share.refresh()
        elif not self._confirming & self._streams.keys():
            self._confirming = None
            self._rule(fresh=True)

    def _look(self, probe: Probe) -> bool:
        """Look at what cannot be watched, if it is time to; return whether the wait is over."""
        clock = self._session.clock
        with self._held():
            questions = probe.questions()
            if not questions or not (probe.is_urgent() or clock.monotonic() >= self._probe_at):
                return False
        answers = None
        try:
            answers = probe.ask(questions, self._deadline)
        except ApiError as error:
            if self._troubles.meet(error) is ErrorAction.STOP:
                raise
        else:
            self._troubles.over()
        with self._held():
            self._probe_at = clock.monotonic() + self._poll
            if answers is not None:
                probe.record_answers(answers)
            if not self._over:
                self._rule()
            return self._over
