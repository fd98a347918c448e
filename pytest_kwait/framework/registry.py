"""The registry of waits: each is declared once, by a decorator over its condition.

    @wait(limit="job", kind=JOBS, summary="a job that has failed")
    def wait_for_job_failed(
        client: ApiClient, namespace: str, name: str, **options: Unpack[WaitOptions]
    ) -> ConditionOf[dict[str, Any]]:
        return JobOutcome(namespace, name, ("Failed",))

The function that callers see has the same arguments and returns the condition's result. Its
fixture, its marker, its public export and its row in the docs follow from the declaration. A
declared function sends no request and leaves `client` and `options` alone: markers call it
without a client to check their arguments.

All waits and verbs take these arguments and raise these errors; their docstrings name only the
special ones:

- `client`: the official client.
- `namespace`: the namespace of the objects.
- `name`: the object, of the kind that is declared; an object or `kind/name` is taken as well.
- `target`: an object of any kind, as `kind/name`; an object is taken as well.
- `**options`: `timeout` (default: the declared limit) and the rest of `WaitOptions`.
- `InvalidArgument`: an argument or option is invalid.
- `ApiError`: the server refuses a request.
- `WaitFailed`: the condition can no longer come true.
- `WaitTimeout`: the condition did not come true within the limit.

Reading the registry imports no wait. `python -m tools.waits` writes `wait_names` and the static
imports of `pytest_kwait` from the declarations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from pytest_kwait.errors import InvalidArgument, describe_value
from pytest_kwait.framework.wait_names import VERB_MODULES, WAIT_MODULES

if TYPE_CHECKING:
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.engine.condition import Condition
    from pytest_kwait.wait.loop import ConditionFunc

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

if TYPE_CHECKING:

    class ConditionOf(Protocol[R_co]):
        """A condition whose wait returns `R_co`."""

        def result(self) -> R_co:
            """Return the result of a wait whose verdict is Met."""
            ...


DECLARED: dict[str, Wait] = {}
"""The waits and verbs of the modules that have been imported, by name."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A declared wait or verb.

    Args:
        name: the name of its function, fixture and marker.
        usage: its arguments after client and namespace, as text.
        summary: the state it waits for, as a phrase.
        module: the module of its function.
        timeout: the name of its default limit in the timeout table.
        poll: the name of its default pause there.
        namespaced: whether its function takes `client, namespace` first, or `client` alone.
        bound: whether its function takes a client. `wait_for_cache_sync` does not; its marker
            takes resource names instead of informers.
        is_verb: whether its function changes objects; a verb has neither fixture nor marker.
        kinds: the kinds of the arguments that name objects; None where the value names its kind.
        has_model: whether its objects are of one kind, so that `as_model` applies to all of them.
        signature: the arguments of `make_condition`.
        make_condition: makes the condition from namespace and arguments, without a request; None
            if the function makes none.
    """

    name: str
    usage: str
    summary: str
    module: str
    timeout: str
    poll: str = "poll"
    namespaced: bool = True
    bound: bool = True
    is_verb: bool = False
    kinds: Mapping[str, Resource | None] = field(default_factory=dict, repr=False)
    has_model: bool = True
    signature: inspect.Signature = field(default_factory=inspect.Signature, repr=False)
    make_condition: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def function(self) -> Callable[..., Any]:
        """The wait function."""
        return cast("Callable[..., Any]", getattr(import_module(self.module), self.name))

    def check(self, *args: object, **kwargs: object) -> None:
        """Validate the arguments of a call without any request.

        Args:
            *args: the arguments after client and namespace.
            **kwargs: keyword arguments and options.

        Raises:
            InvalidArgument: an argument is missing, unknown or invalid.
        """
        if self.make_condition is None:
            return
        from pytest_kwait.engine.options import WaitOptions, resolve_options

        options = {name: kwargs.pop(name) for name in WaitOptions.__annotations__ if name in kwargs}
        resolve_options(options, timeout=self.timeout, poll=self.poll)
        bound = self.check_arguments(args, kwargs)
        if bound is not None:
            self.make_condition(*bound.args, **bound.kwargs)

    def check_arguments(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> inspect.BoundArguments | None:
        """Return the arguments by name, with a namespace; None if they are not declared.

        Args:
            args: the arguments after client and namespace.
            kwargs: keyword arguments, without options.

        Raises:
            InvalidArgument: an argument is missing or unknown.
        """
        if self.make_condition is None and not self.is_verb:
            return None
        from pytest_kwait.engine.options import list_option_names

        first = ("default",) if self.namespaced else ()
        try:
            return self.signature.bind(*first, *args, **kwargs)
        except TypeError as error:
            arguments = [
                *map(describe_value, args),
                *(f"{name}={describe_value(value)}" for name, value in kwargs.items()),
            ]
            raise InvalidArgument(
                f"arguments of {self.name}",
                f"({', '.join(arguments)})",
                f"{error}; use {self.name}({self.usage}) and the options of every wait: "
                f"{list_option_names()}",
            ) from None


def wait(
    *,
    limit: str,
    summary: str,
    kind: Resource | None = None,
    kinds: Mapping[str, Resource | None] | None = None,
    has_model: bool = True,
    poll: str = "poll",
) -> Callable[[Callable[P, ConditionOf[R]]], Callable[P, R]]:
    """Declare a wait: the decorated function returns the condition, the result waits for it.

    Args:
        limit: the name of the default limit in the timeout table.
        summary: the awaited state, as a phrase; read after "Wait for".
        kind: the kind of the object that the argument `name` names; None without it.
        kinds: the kinds of other arguments that name objects, by argument; None for `kind/name`.
        has_model: whether the returned objects are of one kind.
        poll: the name of the default pause there.
    """

    def declare(declared: Callable[P, ConditionOf[R]]) -> Callable[P, R]:
        named = _join_kinds(kind, kinds)
        make: Callable[..., Any] = _taking_objects(declared, named, checks_namespace=False)
        more = {"kinds": named, "has_model": has_model, "make_condition": partial(make, None)}
        entry = _declare(declared, limit, summary, poll, **more)
        called = _taking_objects(declared, named)
        own = {*entry.signature.parameters, "client"}

        @wraps(declared)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            condition = called(*args, **kwargs)
            client = args[0] if args else kwargs["client"]
            options = {name: value for name, value in kwargs.items() if name not in own}
            return cast("R", _run(client, cast("Condition", condition), options, entry))

        vars(run)["__signature__"] = _result_signature(declared)
        return run

    return declare


def custom_wait(
    *,
    limit: str,
    summary: str,
    kinds: Mapping[str, Resource | None],
    condition: Callable[..., Any],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a wait whose function waits by itself.

    Args:
        limit: the name of the default limit in the timeout table.
        summary: the awaited state, as a phrase; read after "Wait for".
        kinds: the kinds of the arguments that name objects; None for `kind/name`.
        condition: makes what the function awaits; takes its arguments without client and options.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        make = _taking_objects(condition, kinds, checks_namespace=False)
        _declare(function, limit, summary, kinds=kinds, make_condition=make)
        return _taking_objects(function, kinds)

    return declare


def verb(
    *,
    limit: str,
    summary: str,
    kind: Resource | None = None,
    kinds: Mapping[str, Resource | None] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function that changes objects and waits; it has neither fixture nor marker.

    Args:
        limit: the name of the default limit in the timeout table.
        summary: the objects that it returns, as a phrase.
        kind: the kind of the object that the argument `name` names; None without it.
        kinds: the kinds of other arguments that name objects, by argument; None for `kind/name`.
    """

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        named = _join_kinds(kind, kinds)
        _declare(function, limit, summary, is_verb=True, kinds=named, make_condition=None)
        return _taking_objects(function, named)

    return declare


def condition_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the maker of a wait's conditions: it takes namespace and arguments, no client."""
    make = DECLARED[function.__name__].make_condition
    if make is None:
        raise InvalidArgument("function", function.__name__, "use a declared wait")
    return make


def condition_func(wait: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> ConditionFunc:
    """Return the condition of a declared wait, for `wait.poll_immediate` and its like.

    Each call lists the objects once. Settings in force apply, but for the limit and the interval,
    which belong to the caller's loop.

    Args:
        *args: its arguments, from the client on.
        **kwargs: its keyword arguments, without options.
    """
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.engine.options import resolve_options
    from pytest_kwait.engine.waiter import PolledCondition

    declared = inspect.unwrap(wait)
    make: Callable[..., Any] = _taking_objects(declared, DECLARED[declared.__name__].kinds)
    condition = make(*args, **kwargs)
    if condition.is_trivial:
        return lambda: True
    client: Any = args[0] if args else kwargs["client"]
    session = ApiSession.of(client)
    condition.session = session
    settings = resolve_options({}, timeout="single_call", session=session)
    return PolledCondition(session, condition, settings)


def _join_kinds(
    kind: Resource | None, kinds: Mapping[str, Resource | None] | None
) -> dict[str, Resource | None]:
    return ({} if kind is None else {"name": kind}) | dict(kinds or {})


def _declare(
    function: Callable[..., Any], limit: str, summary: str, poll: str = "poll", **more: Any
) -> Wait:
    first, *rest, options = inspect.signature(function).parameters.values()
    assert first.name == "client"  # noqa: S101
    assert options.kind is options.VAR_KEYWORD  # noqa: S101
    namespaced = bool(rest) and rest[0].name == "namespace"
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in rest[namespaced:]]
    entry = Wait(
        function.__name__,
        str(inspect.Signature(parameters))[1:-1],
        summary,
        function.__module__,
        limit,
        poll,
        namespaced=namespaced,
        signature=inspect.Signature(rest),
        **({"make_condition": partial(function, None)} | more),
    )
    DECLARED[entry.name] = entry
    return entry


def _taking_objects(
    function: Callable[P, R],
    kinds: Mapping[str, Resource | None],
    *,
    checks_namespace: bool = True,
) -> Callable[P, R]:
    """Return a function that takes objects, and `kind/name`, wherever a name is taken.

    An argument `uid` that is not given is that of the object.

    Args:
        kinds: the kinds of its arguments that name objects; None for `kind/name`.
        checks_namespace: whether an object of another namespace is an error; False where the
            namespace is not known yet.
    """
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        __tracebackhide__ = True
        if not any(map(_is_special, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        from pytest_kwait.client.resource import NAMESPACES
        from pytest_kwait.framework.named_objects import parse_object_argument, strip_kind

        # Python reports arguments beyond those that there are.
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        values = dict(arguments)
        # The namespace first: those of objects are compared with it.
        for name, kind in {"namespace": NAMESPACES, **kinds}.items():
            if name not in arguments or name not in parameters:
                continue
            values[name] = arguments[name] if kind is None else strip_kind(arguments[name], kind)
            # A list of objects is read by the wait, which needs their UIDs.
            several = "KubernetesObjects" in str(parameters[name].annotation)
            parsed = None if several else parse_object_argument(name, arguments[name], kind)
            if parsed is None:
                continue
            values[name] = parsed.value
            if name == "namespace":
                continue
            if checks_namespace:
                _check_namespaces(name, parsed.namespaces, values.get("namespace"))
            if parsed.uid and "uid" in parameters and values.get("uid") is None:
                values["uid"] = parsed.uid
        positional = [values.pop(name) for name in names[: len(args)]]
        twice = {name: kwargs[name] for name in names[: len(args)] if name in kwargs}
        return function(*positional, *args[len(names) :], **values, **twice)

    return cast("Callable[P, R]", call)


def _is_special(value: object) -> bool:
    """Return whether a value may be an object, or a text with a kind, or have one of them."""
    if isinstance(value, list | tuple):
        return any(map(_is_special, value))
    if isinstance(value, str):
        return "/" in value
    return isinstance(value, Mapping) or hasattr(type(value), "openapi_types")


def _check_namespaces(name: str, namespaces: Mapping[str, str], namespace: object) -> None:
    for object_name, object_namespace in namespaces.items():
        if namespace is not None and object_namespace != namespace:
            valid = f"its namespace is {object_namespace!r}, and namespace={namespace!r} is given"
            raise InvalidArgument(name, object_name, valid)


def _result_signature(declared: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(declared)
    result = str(signature.return_annotation).removeprefix("ConditionOf[").removesuffix("]")
    return signature.replace(return_annotation=result)


def _run(client: Any, condition: Condition, options: Mapping[str, Any], entry: Wait) -> Any:
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.engine.options import resolve_options
    from pytest_kwait.engine.waiter import wait_for_condition

    if condition.is_trivial:
        resolve_options(options, timeout=entry.timeout, poll=entry.poll)
        return condition.result()
    session = ApiSession.of(client)
    settings = resolve_options(options, timeout=entry.timeout, poll=entry.poll, session=session)
    condition.session = session
    return wait_for_condition(session, condition, settings, name=entry.name)


class _Registry(Mapping[str, Wait]):
    """Declarations by name; reading one imports its module."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def __getitem__(self, name: str) -> Wait:
        if name not in DECLARED:
            import_module(f"{__package__.partition('.')[0]}.{self._modules[name]}")
        return DECLARED[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


# Layers forbid `cache` to import this module.
DECLARED["wait_for_cache_sync"] = Wait(
    "wait_for_cache_sync",
    "*resources",
    "informers that have seen their first list",
    "pytest_kwait.cache.sync",
    "cache_sync",
    namespaced=False,
    bound=False,
)

WAITS: Mapping[str, Wait] = _Registry(WAIT_MODULES)
"""Every wait by its name."""

VERBS: Mapping[str, Wait] = _Registry(VERB_MODULES)
"""Every verb by its name: functions, and methods of the `kwait` fixture."""
