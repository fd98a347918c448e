"""User code under a hard limit, and copies of it that change nothing of a test.

Nothing can interrupt user code: a call that does not return in time is abandoned. The audit calls
conditions of users after their waits, when the test goes on. It calls copies of them.
"""

from __future__ import annotations

import contextvars
import dis
import enum
import functools
import re
import threading
from datetime import date, time, timedelta, timezone
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.clock import Deadline

_Result = TypeVar("_Result")

_RECHECK_INTERVAL = 0.5
"""Seconds between two checks of a deadline, whose clock stands still in a debugger."""

_CONTAINERS = (dict, frozenset, list, set, tuple)
_SHARED = (
    *(type(None), bool, int, float, complex, str, bytes, enum.Enum, re.Pattern),
    *(date, time, timedelta, timezone, type, BuiltinFunctionType, ModuleType),
)
"""Types of values that user code does not change."""
_GLOBAL_NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


class UserCode:
    """Runs the user code of one wait in threads, abandoned when the deadline passes.

    A thread has the context variables of the caller. After an abandoned call no other is made:
    user code is never called twice at the same time.
    """

    def __init__(self) -> None:
        self.hangs = False
        """True once a call was abandoned."""

    def run(self, call: Callable[[], _Result], deadline: Deadline) -> _Result:
        """Return the result of a call; its exceptions propagate, those of pytest too.

        Raises:
            DeadlineExceeded: this call did not return in time, or an earlier one.
        """
        if self.hangs:
            raise DeadlineExceeded
        results: list[_Result] = []
        errors: list[BaseException] = []

        def run_call() -> None:
            try:
                results.append(call())
            except BaseException as error:  # such as pytest.fail
                errors.append(error)

        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(run_call,), name="kwait-user-code", daemon=True
        )
        thread.start()
        while thread.is_alive() and not deadline.expired:
            thread.join(min(deadline.remaining, _RECHECK_INTERVAL))
        if thread.is_alive():
            self.hangs = True
            raise DeadlineExceeded
        for error in errors:
            raise error
        return results[0]


class UsesObjectsError(Exception):
    """User code cannot be copied: it uses objects of its test."""


class CopiedCode:
    """Copies of user code, which change no value of the test, for one observation of a wait.

    A copied function has its own copies of the containers and functions that it uses.

    Args:
        refuse: called when a copy is about to do something outside of its process.
    """

    def __init__(self, refuse: Callable[[], object]) -> None:
        self.refuse = refuse
        self._copies: dict[int, Any] = {}

    def run(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of a call, in which `current_code` returns copies."""
        token = _copied_code.set(self)
        try:
            return call()
        finally:
            _copied_code.reset(token)

    def copy(self, value: Any) -> Any:
        """Return a copy of user code, or of a value that it uses.

        Raises:
            UsesObjectsError: the value is none of a plain type.
        """
        # A method of a list changes that list.
        owner = value.__self__ if isinstance(value, BuiltinFunctionType) else None
        if isinstance(value, _SHARED) and isinstance(owner, _SHARED):
            return value
        if id(value) in self._copies:
            return self._copies[id(value)]
        if isinstance(value, FunctionType):
            return self._copy_function(value)
        if isinstance(value, functools.partial):
            call, given = self.copy(value.func), self.copy(dict(value.keywords))
            return functools.partial(call, *map(self.copy, value.args), **given)
        if type(value) not in _CONTAINERS:
            raise UsesObjectsError
        if isinstance(value, dict):
            return {self.copy(key): self.copy(member) for key, member in value.items()}
        return type(value)([self.copy(member) for member in value])

    def _copy_function(self, function: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in function.__closure__ or ())
        names: dict[str, Any] = {"__builtins__": function.__globals__["__builtins__"]}
        copied = FunctionType(function.__code__, names, function.__name__, None, cells or None)
        # First: it may use itself.
        self._copies[id(function)] = copied
        for name in _global_names(function.__code__):
            if name in function.__globals__:
                names[name] = self.copy(function.__globals__[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.copy(original.cell_contents)
            except ValueError:  # it has no value yet
                continue
        copied.__defaults__ = self.copy(function.__defaults__)
        copied.__kwdefaults__ = self.copy(function.__kwdefaults__)
        return copied


_copied_code: contextvars.ContextVar[CopiedCode | None] = contextvars.ContextVar(
    "copied_code", default=None
)


def current_code(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return user code, or its copy if this context runs copies.

    Raises:
        UsesObjectsError: it cannot be copied.
    """
    copied = _copied_code.get()
    if copied is None:
        return call
    copy: Callable[..., Any] = copied.copy(call)
    return copy


def find_copied_code() -> CopiedCode | None:
    """Return the copies that run in this context; None in any other."""
    return _copied_code.get()


def _global_names(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals that code reads, its inner functions' too."""
    for step in dis.get_instructions(code):
        if step.opname in _GLOBAL_NAMES:
            yield str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)
