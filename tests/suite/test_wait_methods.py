from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast, get_overloads

import pytest

import pytest_kwait
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.suite.aio import AsyncKwait
from pytest_kwait.suite.kwait import Kwait
from pytest_kwait.suite.wait_methods import WaitMethods
from tools.wait_methods import SYNC_ONLY, protocol_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.framework.registry import Wait


class Recorder(WaitMethods):
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def _wait(self, wait: str, /, *args: Any, **options: Any) -> Any:
        self.calls.append((wait, args, options))
        return "the result"


def test_every_wait_is_a_method() -> None:
    assert {name for name in vars(WaitMethods) if name.startswith("wait_for")} == WAIT_NAMES


def _overloads_in(protocol: type, name: str) -> Sequence[Callable[..., Any]]:
    # A protocol keeps none of its overloads as its attribute.
    function = SimpleNamespace(
        __module__=protocol.__module__, __qualname__=f"{protocol.__name__}.{name}"
    )
    return get_overloads(cast("Any", function))


@pytest.mark.parametrize("name", sorted(WAIT_NAMES))
def test_fixture_types_have_the_signatures_of_the_methods(name: str) -> None:
    method = getattr(WaitMethods, name)
    protocol = getattr(pytest_kwait, protocol_name(name))
    methods = get_overloads(method) or [method]
    calls = _overloads_in(protocol, "__call__") or [protocol.__call__]
    assert list(map(inspect.signature, methods)) == list(map(inspect.signature, calls))


@pytest.mark.parametrize("name", sorted(WAIT_NAMES))
def test_methods_pass_their_arguments_by_the_names_of_the_function(name: str) -> None:
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
    returns_nothing = str(inspect.signature(method).return_annotation) == "None"
    assert result == (None if returns_nothing else "the result")


@pytest.mark.parametrize("wait", WAITS.values(), ids=lambda wait: wait.name)
def test_waits_that_return_objects_of_one_kind_take_a_model(wait: Wait) -> None:
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


def _signature_of(function: Callable[..., Any]) -> str:
    """Return the signature; the type variable of async forms stands for `Kwait`."""
    return str(inspect.signature(function)).replace("'_Kwait'", "'Kwait'")


def test_every_method_has_an_async_form() -> None:
    methods = inspect.getmembers(AsyncKwait, inspect.isfunction)
    assert [name for name, _ in methods if not name.startswith("_")] == _ASYNC_NAMES


@pytest.mark.parametrize("name", _ASYNC_NAMES)
def test_async_methods_are_those_of_kwait(name: str) -> None:
    method, awaited = getattr(Kwait, name), getattr(AsyncKwait, name)
    assert inspect.iscoroutinefunction(awaited)
    assert _signature_of(awaited) == _signature_of(method)
    assert inspect.getdoc(awaited) == inspect.getdoc(method)
    overloads = [list(map(_signature_of, get_overloads(each))) for each in (method, awaited)]
    assert overloads[0] == overloads[1]


@pytest.mark.parametrize("name", _ASYNC_NAMES)
def test_async_methods_pass_all_arguments(name: str) -> None:
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
    options = {each.name: each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
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


def test_unknown_fixture_types_are_no_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="module 'pytest_kwait' has no attribute 'WaitForIt'"):
        _ = pytest_kwait.WaitForIt
