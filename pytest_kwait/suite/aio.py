"""`kwait.aio`: the waits and verbs of a `Kwait` for async tests.

Each call runs in a thread of its own, so the event loop is never blocked. Cancelling the task
stops the wait, and returns once its thread has ended. The loop may be asyncio's or trio's, with
anyio or without: trio is only used where it runs already, so neither library is required.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.framework.registry import VERBS
from pytest_kwait.suite.async_methods import AsyncMethods, _Kwait
from pytest_kwait.suite.audit.call_sites import LOCATED_CALL, find_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_kwait.engine.active_waits import WaitCall

# Failures show the caller's line.
__tracebackhide__ = True

_AT_ONCE = frozenset({"annotate", "cordon", "label", "patch", "taint", "uncordon", "update"})
"""Verbs that wait for nothing but the answer of their requests."""


class AsyncKwait(AsyncMethods[_Kwait]):
    """The methods of a `Kwait`, to be awaited: `await kwait.aio.wait_for_job_complete("pi")`.

    Cancelling the task stops a wait. A request that has been sent is not taken back: the task ends
    once it is answered.

    Args:
        kwait: the object whose methods are called.
    """

    def __init__(self, kwait: _Kwait) -> None:
        self._kwait = kwait

    def __repr__(self) -> str:
        return f"<aio of {self._kwait!r}>"

    async def _call(self, method: str, /, *args: Any, **options: Any) -> Any:
        waits = method.startswith("wait_for") or method == "create_and_wait"
        stopped = threading.Event()
        if waits or (method in VERBS and method not in _AT_ONCE):
            given = options.get("stop")
            options["stop"] = stopped if given is None else _either(stopped, given)
        call = _ThreadedCall(getattr(self._kwait, method), args, options)
        if ACTIVE_WAITS.locate_call is not None:
            # The thread's stack does not have the line that awaits this.
            call.locate(find_call(method))
        token = _trio_token()
        await (_run_in_asyncio(call, stopped) if token is None else _run_in_trio(call, stopped))
        return call.result()


class _ThreadedCall:
    """A call in a thread of its own, with the context variables of the task."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._function = function
        self._args = args
        self._options = options
        self._context = contextvars.copy_context()
        self._result: Any = None
        self._error: BaseException | None = None

    def locate(self, found: WaitCall | None) -> None:
        """Set the call that waits in the thread belong to."""
        self._context.run(LOCATED_CALL.set, found)

    def start(self, report_end: Callable[[], object]) -> None:
        """Start the thread, which calls `report_end` at its end."""
        threading.Thread(
            target=self._run, args=(report_end,), name="kwait-aio", daemon=True
        ).start()

    def _run(self, report_end: Callable[[], object]) -> None:
        try:
            self._result = self._context.run(self._function, *self._args, **self._options)
        except BaseException as error:  # raised in the task
            self._error = error
        # The loop is closed if the task was cancelled twice, and waits no more.
        with suppress(RuntimeError):
            report_end()

    def result(self) -> Any:
        """Return the result, or raise the error, of the call that has ended."""
        error = self._error
        if error is None:
            return self._result
        try:
            raise error
        finally:
            # The frame of this method must not keep the error alive.
            del error


async def _run_in_asyncio(call: _ThreadedCall, stopped: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    call.start(lambda: loop.call_soon_threadsafe(ended.set))
    try:
        await ended.wait()
    except asyncio.CancelledError:
        stopped.set()
        # The thread must not outlive its task; what it raises is of no interest any more.
        with _shield():
            await ended.wait()
        raise


def _shield() -> AbstractContextManager[object]:
    """Return a scope that anyio, where it runs, does not cancel again at once."""
    anyio: Any = sys.modules.get("anyio")
    shield: AbstractContextManager[object] = (
        nullcontext() if anyio is None else anyio.CancelScope(shield=True)
    )
    return shield


async def _run_in_trio(call: _ThreadedCall, stopped: threading.Event) -> None:
    trio: Any = sys.modules["trio"]
    token = trio.lowlevel.current_trio_token()
    ended = trio.Event()
    call.start(lambda: token.run_sync_soon(ended.set))
    try:
        await ended.wait()
    except trio.Cancelled:
        stopped.set()
        with trio.CancelScope(shield=True):
            await ended.wait()
        raise


def _trio_token() -> object | None:
    """Return the token of the running trio; None where asyncio runs."""
    trio: Any = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        token: object = trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None
    return token


def _either(stopped: threading.Event, given: Any) -> Callable[[], bool]:
    is_set = getattr(given, "is_set", given)
    return lambda: stopped.is_set() or bool(is_set())
