"""The API dispatcher: sends requests in threads, in order for each object.

Source: kube-scheduler, backend/api_dispatcher.
"""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pytest_kwait import wait
from pytest_kwait.clock import SYSTEM_CLOCK, Clock, Deadline
from pytest_kwait.errors import PLAIN_TRACEBACKS, InvalidArgument
from pytest_kwait.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.client.rate_limiter import RateLimiter

_log = logging.getLogger(__name__)
_log.addFilter(PLAIN_TRACEBACKS)

_Item: TypeAlias = "tuple[str, APICall] | None"


def _no_op() -> None:
    pass


@dataclass(frozen=True, slots=True)
class APICall:
    """A call to the API server.

    Args:
        run: sends the request until the deadline, and handles the answer and errors.
        drop: called instead of `run` if the call is never sent.
    """

    run: Callable[[Deadline], object]
    drop: Callable[[], object] = _no_op


class APIDispatcher:
    """Sends calls in its own threads, at most one at a time for each key.

    Of several waiting calls with the same key only the last is sent.

    Args:
        name: the prefix of the threads' names.
        threads: their number; at least one.
        limiter: the rate limit of all calls.
        request_timeout: seconds that a call may take.
        flush: seconds for which calls are still sent after `close`.

    Raises:
        InvalidArgument: an invalid number of threads.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        limiter: RateLimiter,
        *,
        request_timeout: float,
        flush: float = 0.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if type(threads) is not int or threads < 1:
            raise InvalidArgument("bind_threads", threads, "a whole number, at least 1")
        self._limiter = limiter
        self._timeout = request_timeout
        self._flush = flush
        self._clock = clock
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy: dict[str, APICall | None] = {}
        self._closed = False
        self._run = wait.background(clock)
        self._ctx, self._end = wait.with_cancel(wait.background(clock))
        self._last, end_last = wait.with_cancel(wait.background(clock))
        end_last()
        self._workers = [
            Worker(f"kwait {name} {number}", self._work) for number in range(1, threads + 1)
        ]

    @property
    def started(self) -> bool:
        """True if `start` was called."""
        return self._workers[-1].is_started

    def start(self, run: wait.Context | None = None) -> None:
        """Begin to send.

        Args:
            run: once it is done, no waiting call is sent except within `flush`; None for `close`.
        """
        self._run = run or self._run
        for worker in self._workers:
            worker.start()

    def submit(self, key: str, call: APICall) -> None:
        """Send a call once no other with its key runs; drop it if closed."""
        dropped: APICall | None = None
        with self._lock:
            if self._closed:
                dropped = call
            elif key in self._busy:
                dropped, self._busy[key] = self._busy[key], call
            else:
                self._busy[key] = None
                self._queue.put((key, call))
        if dropped is not None:
            dropped.drop()

    def close(self) -> bool:
        """Accept no more calls, finish those in flight, drop the rest; return whether all ended.

        Returns within the request timeout.
        """
        with self._lock:
            self._closed = True
            self._last = wait.background(self._clock).limited(self._flush)
            self._end()
        for _ in self._workers:
            self._queue.put(None)
        deadline = Deadline.after(self._timeout + self._flush, self._clock)
        for worker in self._workers:
            worker.join(deadline.remaining)
        self._drop_rest()
        return not any(worker.is_alive for worker in self._workers)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            key, call = item
            self._send(call)
            with self._lock:
                following = self._busy[key]
                if following is None:
                    del self._busy[key]
                else:
                    self._busy[key] = None
            if following is not None:
                self._queue.put((key, following))

    def _send(self, call: APICall) -> None:
        try:
            ctx = self._admitted()
            if ctx is None:
                call.drop()
            else:
                call.run(ctx.deadline.at_most(self._timeout))
        except Exception:  # An error of a binder or error handler must not stop the next call.
            _log.exception("a call of the scheduler failed")

    def _admitted(self) -> wait.Context | None:
        """Wait for the rate limit; return None once closed."""
        for ctx in (self._ctx, None):
            chosen = ctx or self._last
            try:
                self._limiter.wait(chosen)
            except (wait.Canceled, wait.DeadlineExceeded):
                continue
            return chosen if self._flush or self._run.err() is None else None
        return None

    def _drop_rest(self) -> None:
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if item is not None:
                item[1].drop()
