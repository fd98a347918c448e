"""Checks of arguments: what they take, and the text of what they refuse."""

from __future__ import annotations

import functools
from types import MethodType
from typing import Any

import pytest

from pytest_kwait.apimachinery.arguments import (
    check_answer,
    check_flag,
    check_function,
    check_instance,
    check_methods,
    check_number,
    check_text,
    is_async,
)
from pytest_kwait.errors import InvalidArgument

NOT_ASYNC = "use a function that is not async: its result is not awaited"


def answer() -> int:
    return 1


async def answer_later() -> int:
    return 1


async def answer_often() -> Any:
    yield 1


class Caller:
    def __call__(self) -> int:
        return 1

    def get(self) -> int:
        return 1


class AsyncCaller:
    async def __call__(self) -> int:
        return 1

    async def get(self) -> int:
        return 1


def test_what_the_checks_take() -> None:
    for function in (answer, Caller(), functools.partial(answer), int):
        check_function("call", function)
    for number in (0, -1, 1.5):
        check_number("count", number)
    check_flag("force", False)
    check_text("name", "a")
    check_instance("options", {}, dict, "use a mapping")
    check_methods("source", Caller(), ("get",), "use an object with get")
    check_answer("call", 1)


@pytest.mark.parametrize(
    ("check", "value", "valid"),
    [
        (check_function, 3, "use a function"),
        (check_function, answer_later, NOT_ASYNC),
        (check_function, AsyncCaller(), NOT_ASYNC),
        (check_function, answer_often, NOT_ASYNC),
        (check_number, True, "use a number"),
        (check_number, float("nan"), "use a number"),
        (check_number, float("inf"), "use a number"),
        (check_number, "1", "use a number"),
        (check_flag, 1, "use True or False"),
        (check_flag, None, "use True or False"),
        (check_text, "", "use a string that is not empty"),
        (check_text, b"a", "use a string that is not empty"),
    ],
)
def test_what_the_checks_refuse(check: Any, value: object, valid: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check("what", value)
    assert (caught.value.what, caught.value.value, caught.value.valid) == ("what", value, valid)


@pytest.mark.parametrize("value", [Caller, object(), None])
def test_an_object_needs_its_methods(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_methods("source", value, ("get",), "use an object with get")
    assert (caught.value.what, caught.value.valid) == ("source", "use an object with get")


def test_an_async_method_is_named() -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_methods("source", AsyncCaller(), ("get",), "use an object with get")
    assert (caught.value.what, caught.value.valid) == ("source.get", NOT_ASYNC)


def test_an_answer_that_nothing_awaits_is_closed() -> None:
    coroutine = answer_later()
    with pytest.raises(InvalidArgument) as caught:
        check_answer("call", coroutine)
    assert caught.value.valid == NOT_ASYNC
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        coroutine.send(None)


def test_every_form_of_a_function_is_known_as_async_or_not() -> None:
    @functools.wraps(answer)
    async def wrapped() -> int:
        return 1

    assert is_async(wrapped)
    assert is_async(AsyncCaller().get)
    assert not is_async(Caller().get)
    assert not is_async(MethodType(Caller(), 1))
    assert not is_async("".join)


def test_a_partial_of_an_async_function_is_async() -> None:
    assert is_async(functools.partial(answer_later))
    assert not is_async(functools.partial(answer))
    assert not is_async(3)
