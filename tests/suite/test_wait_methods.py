from __future__ import annotations

import asyncio
import inspect
import threading
from types import SimpleNamespace
from typing import Any, get_overloads

import pytest

import pytest_kwait
from pytest_kwait import typing as fixture_types
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.suite.kwait import AsyncKwait, Kwait
from pytest_kwait.suite.wait_methods import WaitMethods
from tests.rows import check_rows
from tools.wait_methods import protocol_name

SYNC_ONLY = {"close", "step"}
"""Methods of `Kwait` without an async form: a context manager, and its end."""


class Recorder(WaitMethods):
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def _wait(self, wait: str, /, *args: Any, **options: Any) -> Any:
        self.calls.append((wait, args, options))
        return "the result"


def test_every_wait_is_a_method() -> None:
    assert {name for name in vars(WaitMethods) if name.startswith("wait_for")} == WAIT_NAMES


def test_fixture_types_have_the_signatures_of_the_methods() -> None:
    check_rows(sorted(WAIT_NAMES), _check_fixture_type)


def _check_fixture_type(name: str) -> None:
    method = getattr(WaitMethods, name)
    call = getattr(fixture_types, protocol_name(name)).__call__
    assert inspect.signature(call) == inspect.signature(method)
    assert get_overloads(call) == get_overloads(method)


def test_methods_pass_their_arguments_by_the_names_of_the_function() -> None:
    check_rows(sorted(WAIT_NAMES), _check_passed_arguments)


def _check_passed_arguments(name: str) -> None:
    recorder = Recorder()
    method = getattr(recorder, name)
    given = {
        each.name: f"the {each.name}"
        for each in inspect.signature(method).parameters.values()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }
    options = {"timeout": "3s"} | ({} if name == "wait_for_cache_sync" else {"mode": "poll"})

    result = method(**{**given, **options})

    [(wait, args, rest)] = recorder.calls
    assert wait == name
    declared = WAITS[name]
    given.pop("as_model", None)
    assert rest.pop("as_model", "the as_model") == "the as_model"
    first = ("client",) if declared.bound else ()
    namespace = {"namespace": rest.pop("namespace")} if declared.namespaced else {}
    passed = inspect.signature(declared.function).bind(*first, *namespace.values(), *args, **rest)
    found = {**passed.arguments, **passed.arguments.get("options", {})}
    assert found == found | given | options
    assert result == "the result"


def test_methods_check_their_arguments() -> None:
    method: Any = Recorder().wait_for_job_ready
    with pytest.raises(TypeError) as caught:
        method("job")
    assert str(caught.value) == (
        "WaitMethods.wait_for_job_ready() missing 1 required positional argument: 'count'"
    )


def test_waits_that_return_objects_of_one_kind_take_a_model() -> None:
    check_rows(WAITS, _check_model)


def _check_model(name: str) -> None:
    wait = WAITS[name]
    signature = inspect.signature(getattr(WaitMethods, wait.name))
    forms = [*get_overloads(wait.function), wait.function]
    results = {str(inspect.signature(each).return_annotation) for each in forms}
    returns_objects = any("dict[str, Any]" in each for each in results)
    assert ("as_model" in signature.parameters) == (returns_objects and wait.has_model)


_ASYNC_NAMES = sorted(
    name
    for name, each in inspect.getmembers(Kwait, inspect.isfunction)
    if not name.startswith("_") and name not in SYNC_ONLY
)


def test_every_method_has_an_async_form() -> None:
    methods = inspect.getmembers(AsyncKwait, inspect.isfunction)
    assert [name for name, _ in methods if not name.startswith("_")] == _ASYNC_NAMES


def test_async_methods_are_those_of_kwait() -> None:
    check_rows(_ASYNC_NAMES, _check_async_method)


def _check_async_method(name: str) -> None:
    method, awaited = getattr(Kwait, name), getattr(AsyncKwait, name)
    assert inspect.iscoroutinefunction(awaited)
    assert inspect.signature(awaited) == inspect.signature(method)
    assert inspect.getdoc(awaited) == inspect.getdoc(method)
    assert get_overloads(awaited) == get_overloads(method)


def test_async_methods_pass_all_arguments() -> None:
    check_rows(_ASYNC_NAMES, _check_arguments_of_async_method)


def _check_arguments_of_async_method(name: str) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def record(*args: Any, **options: Any) -> str:
        calls.append((args, options))
        return "the result"

    parameters = list(inspect.signature(getattr(Kwait, name)).parameters.values())[1:]
    args = [
        each.name
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
    ]
    options: dict[str, Any] = {
        each.name: each.name for each in parameters if each.kind is each.KEYWORD_ONLY
    }
    if "stop" in options:
        options["stop"] = threading.Event()
    method = getattr(AsyncKwait(SimpleNamespace(**{name: record})), name)

    asyncio.run(method(*args, **options))

    [(passed, given)] = calls
    # What stops the wait is added to what the caller gives.
    added = {"stop"} & given.keys()
    assert passed == tuple(args)
    assert {key: given[key] for key in given.keys() - added} == {
        key: options[key] for key in options.keys() - added
    }
    assert given.keys() >= options.keys()


def test_methods_say_what_they_wait_for_and_the_special_arguments() -> None:
    assert inspect.getdoc(WaitMethods.wait_for_job_ready) == (
        "Wait for a job whose status has an exact number of ready pods.\n\n"
        "Return a Job once its controller has counted exactly `count` ready pods.\n\n"
        "Args:\n    count: the number of pods; 0 or more."
    )


def test_fixture_types_are_no_names_of_the_package() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = pytest_kwait.WaitForPodReady
    assert str(caught.value) == (
        "module 'pytest_kwait' has no attribute 'WaitForPodReady'; "
        "types of wait fixtures are in pytest_kwait.typing"
    )
