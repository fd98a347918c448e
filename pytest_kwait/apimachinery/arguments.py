"""Checks of arguments: functions, flags, numbers, and objects of a class or with methods.

Each check names the argument, the value and what is valid.
"""

from __future__ import annotations

import inspect
import math
from types import FunctionType, MethodType

from pytest_kwait.errors import InvalidArgument

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NOT_ASYNC = "use a function that is not async: its result is not awaited"


def check_function(what: str, value: object, valid: str = "use a function") -> None:
    """Check a function that is called and not awaited.

    Raises:
        InvalidArgument: it cannot be called, or is async.
    """
    if not callable(value):
        raise InvalidArgument(what, value, valid)
    if is_async(value):
        raise InvalidArgument(what, value, _NOT_ASYNC)


def is_async(function: object) -> bool:
    """Return whether calling a function only makes a coroutine or an async generator."""
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and not vars(plain):
        # As inspect decides for all but marked functions, in a tenth of its time.
        return bool(plain.__code__.co_flags & _ASYNC)
    called = type(function).__call__ if callable(function) else function
    return any(
        inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code)
        for code in (function, called)
    )


def check_answer(what: str, value: object) -> None:
    """Check that the answer of a function is no coroutine, which nothing awaits.

    Raises:
        InvalidArgument: it is one; it is closed.
    """
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidArgument(what, value, _NOT_ASYNC)


def check_flag(what: str, value: object) -> None:
    """Check a flag.

    Raises:
        InvalidArgument: it is no bool.
    """
    check_instance(what, value, bool, "use True or False")


def check_number(what: str, value: object, valid: str = "use a number") -> None:
    """Check a number, which is finite.

    Raises:
        InvalidArgument: it is no such number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidArgument(what, value, valid)


def check_instance(what: str, value: object, type_: type, valid: str) -> None:
    """Check an object of a class.

    Raises:
        InvalidArgument: it is of another class.
    """
    if not isinstance(value, type_):
        raise InvalidArgument(what, value, valid)


def check_text(what: str, value: object) -> None:
    """Check a text.

    Raises:
        InvalidArgument: it is no string, or empty.
    """
    if not isinstance(value, str) or not value:
        raise InvalidArgument(what, value, "use a string that is not empty")


def check_methods(what: str, value: object, methods: tuple[str, ...], valid: str) -> None:
    """Check an object with methods, which are not async.

    Raises:
        InvalidArgument: it is a class, lacks one of the methods, or has an async one.
    """
    for name in methods:
        method = getattr(value, name, None)
        if isinstance(value, type) or not callable(method):
            raise InvalidArgument(what, value, valid)
        if is_async(method):
            raise InvalidArgument(f"{what}.{name}", method, _NOT_ASYNC)
