"""Suspendable tasks: yield the event loop while a webhook answers.

The store and the controllers work synchronously on the event loop's thread. Work that may call a
webhook runs on a thread of its own instead, and the loop's thread blocks until that work ends or
suspends itself. So only one of them ever runs, and while a task waits for a reply the loop serves
other requests, the webhook's own among them.
A suspendable task costs two thread switches; it is used only while the cluster has webhooks, and
for large objects: `beside_loop` lets the loop go on while a function works on such an object alone.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio.events import _set_running_loop
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

Result = TypeVar("Result")

_MAX_IDLE_THREADS = 16
"""Idle threads that are kept for later tasks."""

_thread_local = threading.local()
_idle_threads: list[_WorkerThread] = []


class _WorkerThread(threading.Thread):
    """Runs one task after the other."""

    def __init__(self) -> None:
        super().__init__(name="kwait task", daemon=True)
        self.given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self) -> None:
        """Run the queued work until None is queued."""
        while (work := self.given.get()) is not None:
            work()
            del work


class SuspendableTask(Generic[Result]):
    """Work on a thread of its own, started at once.

    Create it in an event loop's thread or in another task.

    Args:
        work: the function to run.
        done: called with the task when it has ended, on the thread that resumed it last.
        large: whether the work takes so long that its `beside_loop` parts run beside the loop.
    """

    def __init__(
        self,
        work: Callable[[], Result],
        done: Callable[[SuspendableTask[Result]], object],
        *,
        large: bool = False,
    ) -> None:
        self.error: BaseException | None = None
        """The exception that the work raised."""
        self._loop = asyncio.get_running_loop()
        self._large, self._beside = large, False
        self._work = work
        self._done = done
        self._results: list[Result] = []
        self._over = False
        self._wanted: Callable[[], Awaitable[None]] | None = None
        self._asking: asyncio.Future[None] | None = None
        self._resumed, self._back = threading.Lock(), threading.Lock()
        self._resumed.acquire()
        self._back.acquire()
        if _idle_threads:
            self._thread = _idle_threads.pop()
        else:
            self._thread = _WorkerThread()
            self._thread.start()
        self._thread.given.put(self._run)
        self._await_turn()

    @staticmethod
    def current() -> SuspendableTask[object] | None:
        """Return the running task, None outside of tasks."""
        task: SuspendableTask[object] | None = getattr(_thread_local, "task", None)
        return task

    @property
    def is_beside_loop(self) -> bool:
        """Whether the loop goes on while the task runs."""
        return self._beside

    @property
    def result(self) -> Result:
        """The return value of the work.

        Raises:
            BaseException: the exception that the work raised.
        """
        if self.error is not None:
            raise self.error
        return self._results[0]

    def wait(self, operation: Callable[[], Awaitable[None]]) -> None:
        """Suspend the task until the event loop has awaited `wanted()`.

        Raises:
            BaseException: the awaitable's exception.
        """
        if self._beside:
            asyncio.run_coroutine_threadsafe(_await(operation), self._loop).result()
            return
        self._suspend(operation)
        self._await_resumption()

    @contextmanager
    def beside_loop(self) -> Iterator[None]:
        """Let the loop go on while the block runs; then wait until it resumes the task.

        A no-op for tasks that are not large, and in such a block.
        """
        if not self._large or self._beside:
            yield
            return
        ended: Future[None] = Future()
        self._beside = True
        self._suspend(lambda: asyncio.wrap_future(ended, loop=self._loop))
        try:
            yield
        finally:
            self._beside = False
            ended.set_result(None)
            self._await_resumption()

    def _suspend(self, operation: Callable[[], Awaitable[None]]) -> None:
        self._wanted = operation
        self._back.release()

    def _await_resumption(self) -> None:
        self._resumed.acquire()
        future, self._asking = self._asking, None
        if future is not None:
            future.result()

    def _run(self) -> None:
        _thread_local.task = self
        _set_running_loop(self._loop)
        try:
            self._results.append(self._work())
        except BaseException as error:  # re-raised where the result is read
            self.error = error
        finally:
            _set_running_loop(None)
            _thread_local.task = None
            self._over = True
            if len(_idle_threads) < _MAX_IDLE_THREADS:
                _idle_threads.append(self._thread)
            else:
                self._thread.given.put(None)
            self._back.release()

    def _resume(self, future: asyncio.Future[None]) -> None:
        self._asking = future
        self._resumed.release()
        self._await_turn()

    def _await_turn(self) -> None:
        """Block while the task runs."""
        self._back.acquire()
        if self._over:
            self._done(self)
        elif self._wanted is not None:
            asking = asyncio.ensure_future(self._wanted(), loop=self._loop)
            self._wanted = None
            asking.add_done_callback(self._resume)


class Tasks:
    """How a cluster runs the work of its components: at once, in the caller.

    `SuspendableTasks` are those of a cluster that serves requests.
    """

    def may_suspend(self) -> bool:
        """Return whether work may be suspended while a webhook answers."""
        return False

    def run(self, call: Callable[..., object], *args: object) -> None:
        """Call a function."""
        call(*args)

    def run_large(self, call: Callable[[], object]) -> None:
        """Call a function that works on a large object."""
        call()


class SuspendableTasks(Tasks):
    """Work in suspendable tasks of the running event loop.

    Args:
        may_suspend: returns whether work may have to wait for a webhook.
    """

    def __init__(self, may_suspend: Callable[[], bool]) -> None:
        self._may_suspend = may_suspend

    def may_suspend(self) -> bool:
        """Return whether work may be suspended while a webhook answers."""
        return self._may_suspend()

    def run(self, call: Callable[..., object], *args: object) -> None:
        """Call a function, in a task if it may be suspended."""
        if self._may_suspend():
            SuspendableTask(lambda: call(*args), raise_error)
        else:
            call(*args)

    def run_large(self, call: Callable[[], object]) -> None:
        """Call a function that works on a large object; the loop goes on beside its long parts."""
        SuspendableTask(call, raise_error, large=True)


def await_result(make: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of an awaitable; the task that calls this is suspended meanwhile.

    Outside of tasks the thread blocks, and the awaitable runs in an event loop of its own.
    """
    results: list[Result] = []

    async def run() -> None:
        results.append(await make())

    task = SuspendableTask.current()
    if task is not None:
        task.wait(run)
    else:
        thread = threading.Thread(target=lambda: asyncio.run(run()))
        thread.start()
        thread.join()
    return results[0]


@contextmanager
def beside_loop() -> Iterator[None]:
    """Let the loop serve other requests while the block runs, if the current task is large.

    The block must neither read nor change what other requests change.
    """
    task = SuspendableTask.current()
    with nullcontext() if task is None else task.beside_loop():
        yield


def on_loop(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, on the loop's turn: it may read what other requests change.

    A no-op outside of `beside_loop` blocks.
    """
    results: list[Result] = []

    async def run() -> None:
        results.append(work())

    task = SuspendableTask.current()
    if task is None or not task.is_beside_loop:
        return work()
    task.wait(run)
    return results[0]


async def _await(operation: Callable[[], Awaitable[None]]) -> None:
    await operation()


async def run_suspendable(work: Callable[[], Result], *, large: bool = False) -> Result:
    """Run `work` in a suspendable task and return its result.

    Cancelling the caller does not end the task.

    Args:
        large: whether its `beside_loop` parts run beside the loop.
    """
    ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def done(task: SuspendableTask[Result]) -> None:
        if ended.done():
            return
        if task.error is None:
            ended.set_result(task.result)
        else:
            ended.set_exception(task.error)

    SuspendableTask(work, done, large=large)
    return await ended


def raise_error(task: SuspendableTask[Any]) -> None:
    """Raise the exception of an ended task, if any; a `done` callback that ignores the result."""
    if task.error is not None:
        raise task.error


def run_concurrently(works: Sequence[Callable[[], None]]) -> None:
    """Run all works and return when the last has ended; inside a task they run concurrently.

    Raises:
        BaseException: the first exception, once all have ended.
    """
    parent = SuspendableTask.current()
    if parent is None or len(works) < 2:
        for work in works:
            work()
        return
    loop = asyncio.get_running_loop()
    ended, pending_count = loop.create_future(), len(works)

    def done(_: SuspendableTask[None]) -> None:
        nonlocal pending_count
        pending_count -= 1
        if not pending_count:
            ended.set_result(None)

    async def all_done() -> None:
        await ended

    tasks = [SuspendableTask(work, done) for work in works]
    if pending_count:
        parent.wait(all_done)
    for task in tasks:
        raise_error(task)
