"""Async forms of waits and verbs, for `kwait.aio`: `get = awaitable(Kwait.get)`.

Each call runs in a thread of its own, so the event loop is never blocked. Cancelling the task
stops the wait, and returns once its thread has ended. The loop may be asyncio's or trio's, with
anyio or without: trio is only used where it runs already, so neither library is required.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from contextlib import nullcontext, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pytest_kwait.engine.active_waits import ACTIVE_WAITS
from pytest_kwait.framework.registry import VERBS
from pytest_kwait.wait.context import parse_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager
    from contextvars import ContextVar

    import typing_extensions

    # The default is that of `_Model`: mypy gives a generic result the default of this variable.
    _Result = typing_extensions.TypeVar("_Result", default=dict[str, Any])

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")

# Failures show the caller's line.
__tracebackhide__ = True

_WAITING = frozenset(
    {"create_and_wait", "helm_install", "helm_rollback", "helm_uninstall", "helm_upgrade"}
)
"""Methods that wait though their names say something else."""

_AT_ONCE = frozenset({"annotate", "cordon", "label", "patch", "taint", "uncordon", "update"})
"""Verbs that wait for nothing but the answer of their requests."""


class AsyncMethods:
    """Calls the methods of an object in threads, and stops its waits with their tasks.

    Args:
        called: the object whose methods are called.
    """

    def __init__(self, called: object) -> None:
        self._called = called

    def __repr__(self) -> str:
        return f"<aio of {self._called!r}>"

    async def _call(self, method: str, /, *args: Any, **options: Any) -> Any:
        waits = method.startswith("wait_for") or method in _WAITING
        stopped = threading.Event()
        if waits or (method in VERBS and method not in _AT_ONCE):
            stop = options.get("stop")
            options["stop"] = stopped if stop is None else _either(stopped, stop)
        call = _ThreadedCall(getattr(self._called, method), args, options)
        if ACTIVE_WAITS.locate_call is not None:
            from pytest_kwait.suite.audit.call_sites import LOCATED_CALL, find_call

            # The thread's stack does not have the line that awaits this.
            call.set_variable(LOCATED_CALL, find_call(method))
        token = _trio_token()
        await (_run_in_asyncio(call, stopped) if token is None else _run_in_trio(call, stopped))
        return call.result()


def awaitable(
    method: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Any, _Arguments], Coroutine[Any, Any, _Result]]:
    """Return the async form of a method, for a class of `AsyncMethods`.

    Signature, overloads and docstring are those of the method.
    """
    name = method.__name__

    @wraps(method)
    async def call(self: AsyncMethods, /, *args: Any, **options: Any) -> Any:
        return await self._call(name, *args, **options)

    return call


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

    def set_variable(self, variable: ContextVar[_Value], value: _Value) -> None:
        self._context.run(variable.set, value)

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
    import asyncio

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


def _either(stopped: threading.Event, stop: Any) -> Callable[[], bool]:
    is_stopped = parse_stop(stop)
    return lambda: stopped.is_set() or is_stopped()
