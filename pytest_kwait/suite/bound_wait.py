"""A wait bound to a client, a namespace and settings.

Fixtures return bound waits, and markers call them before a test starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pytest_kwait.client.write_options import encode_json
from pytest_kwait.engine.options import TIMEOUTS
from pytest_kwait.errors import InvalidArgument, WaitFailed, WaitTimeout
from pytest_kwait.framework.registry import WAITS, Wait
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.suite.config.settings import DEFAULT_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.informers import Informers

_Class = TypeVar("_Class")
_Model = TypeVar("_Model")
_MODEL_NAME = re.compile(r"[A-Za-z]*?V\d+(?:(?:alpha|beta)\d+)?([A-Z]\w*)")
"""Names of the official client's models, with the kind: `V1Pod`, `CoreV1Event`."""


@dataclass(frozen=True, slots=True)
class WaitDefaults:
    """The client, namespace, settings and limits that a bound wait fills in.

    Args:
        namespace: None for waits without a namespace.
        timeouts: seconds by name of the timeout table.
        time_budget: returns the time left to the current test; None without a limit.
        user: the user of the client, for messages; empty for the run's own.
        cluster: the name of its cluster, for messages; empty for the run's own.
    """

    client: ApiClient
    namespace: str | None
    settings: Settings
    timeouts: Mapping[str, float]
    time_budget: Callable[[], TimeBudget | None] = lambda: None
    user: str = ""
    cluster: str = ""

    def options(self, wait: Wait, call_options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call, completed from the settings."""
        options: dict[str, Any] = {
            "timeout": self.settings.wait_timeout(wait.timeout) or self.timeouts[wait.timeout],
            "poll": self._poll(),
            "mode": self.settings.mode,
            "fail_fast": self.settings.fail_fast,
            "grace": self.settings.grace,
            "stable_for": self.settings.stable_for,
        }
        options.update({name: value for name, value in call_options.items() if value is not None})
        return {name: value for name, value in options.items() if value is not None}

    def add_notes(self, error: BaseException) -> None:
        """Add the user and the cluster to an error, where they are not the run's own."""
        if self.user:
            error.add_note(f"the wait's requests were those of user {self.user}")
        if self.cluster:
            error.add_note(f"the wait was on cluster {self.cluster}")

    def _poll(self) -> float | None:
        # The table may be replaced in a conftest; it counts unless the option is set. Without
        # either, a wait may have its own interval.
        if self.settings.source("poll") != DEFAULT_SOURCE:
            return self.settings.poll
        pause = self.timeouts["poll"]
        return None if pause == TIMEOUTS["poll"].seconds else pause


class BoundWait:
    """Calls a wait with client, namespace and settings filled in."""

    def __init__(self, wait: Wait, defaults: WaitDefaults) -> None:
        self.wait = wait
        self.defaults = defaults
        self.__name__ = wait.name
        self.__doc__ = f"`pytest_kwait.{wait.name}({wait.usage})` on this test's cluster."

    def __repr__(self) -> str:
        where = f" in {self.defaults.namespace}" if self.defaults.namespace else ""
        return f"<{self.wait.name}({self.wait.usage}){where}>"

    def __call__(
        self,
        *args: Any,
        namespace: str | None = None,
        as_model: type[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Wait, and return the result of the function of the same name.

        Args:
            *args: its arguments after client and namespace.
            namespace: another namespace than the test's own.
            as_model: a model of the official client to return, for example `V1Pod`; None for
                dicts.
            **options: its keyword arguments; they override every setting.

        Raises:
            InvalidArgument: an invalid argument, or `as_model` is no model of what is returned.
            WaitTimeout: the condition did not come true within the limit.
            WaitFailed: the condition can no longer come true.
            ApiError: the server refuses.
        """
        __tracebackhide__ = True
        if as_model is not None:
            self._check_model(as_model)
        first: list[Any] = [self.defaults.client] if self.wait.bound else []
        if self.wait.namespaced:
            first.append(self.defaults.namespace if namespace is None else namespace)
        elif namespace is not None:
            raise _make_namespace_error(self.wait, namespace)
        names = ("timeout",) if not self.wait.bound else _option_names()
        own = {name: options.pop(name) for name in names if name in options}
        filled = self.defaults.options(self.wait, own)
        filled = {name: filled[name] for name in names if name in filled}
        note = self._fit(filled)
        try:
            result = self.wait.function(*first, *args, **options, **filled)
        except TypeError:
            # Python counts the arguments that are filled in.
            self.wait.check_arguments(args, options)
            raise
        except (WaitFailed, WaitTimeout) as error:
            if note and isinstance(error, WaitTimeout):
                error.add_note(note)
            self.defaults.add_notes(error)
            raise
        return result if as_model is None else self._to_models(result, as_model)

    def _check_model(self, model: type[Any]) -> None:
        if not self.wait.has_model or not self.wait.bound:
            valid = f"leave it out, as {self.wait.name} returns no objects of one kind"
            raise InvalidArgument("as_model", model, valid)
        check_model(model)

    def _to_models(self, result: Any, model: type[Any]) -> Any:
        """Return the objects of a result as models of the official client."""
        client = self.defaults.client
        if isinstance(result, list):
            return [to_model(client, obj, model) for obj in result]
        return to_model(client, result, model) if isinstance(result, dict) else result

    def _fit(self, options: dict[str, Any]) -> str:
        """Cut the limit to the time budget, with a note if needed."""
        time_budget = self.defaults.time_budget()
        if time_budget is None:
            return ""
        from pytest_kwait.apimachinery.times import to_seconds

        limit = to_seconds(options["timeout"], what="timeout", allow_zero=False)
        seconds, note = time_budget.fit(limit)
        if note:
            options["timeout"] = seconds
        return note


def call_waits(methods: type[_Class]) -> type[_Class]:
    """Let the methods of a class, which have no bodies, call the waits of their names.

    They pass the arguments that they are given to the class's method `_wait`.
    """
    for name, method in list(vars(methods).items()):
        if name in WAIT_NAMES:
            setattr(methods, name, _call_wait(method))
    return methods


def _call_wait(method: Callable[..., None]) -> Callable[..., Any]:
    name = method.__name__

    @wraps(method)
    def call(self: Any, /, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        method(self, *args, **options)  # invalid ones are its TypeError
        return self._wait(name, *args, **options)

    return call


def check_model(model: type[Any]) -> None:
    """Check that a class is a model of the official client."""
    if not hasattr(model, "openapi_types"):
        valid = "use a model of the official client, for example V1Pod"
        raise InvalidArgument("as_model", model, valid)


def to_model(client: ApiClient, obj: dict[str, Any], model: type[_Model] | None) -> _Model:
    """Return an object as a model of the official client, or as it is without one.

    Raises:
        InvalidArgument: it is no such model, or the object does not fit it.
    """
    if model is None:
        return cast("_Model", obj)
    check_model(model)
    kind = obj.get("kind") or "object"
    title = f"{kind} {obj['metadata'].get('name')}"
    named = _MODEL_NAME.fullmatch(model.__name__)
    if named and model.__module__.startswith("kubernetes.") and kind not in (named[1], "object"):
        raise InvalidArgument("as_model", model, f"{title} is of another kind")
    try:
        return cast("_Model", _deserialize(client, encode_json(obj).decode(), model))
    except ValueError as error:
        raise InvalidArgument("as_model", model, f"{title} does not fit it: {error}") from error


def _deserialize(client: Any, text: str, model: type[Any]) -> Any:
    parameters = signature(client.deserialize).parameters
    if "content_type" in parameters:
        return client.deserialize(text, model, "application/json")
    # Before 37 it takes an answer.
    return client.deserialize(SimpleNamespace(data=text), model)


def check_call(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check the arguments of a wait's marker; sends no request."""
    from pytest_kwait.apimachinery.validation import check_namespace

    wait = WAITS[name]
    options = dict(kwargs)
    namespace = options.pop("namespace", None)
    if namespace is not None:
        if not wait.namespaced:
            raise _make_namespace_error(wait, namespace)
        check_namespace(namespace)
    if wait.bound:
        wait.check(*args, **options)
    else:
        _check_cache_sync(wait, args, options)


def _make_namespace_error(wait: Wait, namespace: str) -> InvalidArgument:
    valid = f"leave it out, as {wait.name} is about objects without a namespace"
    if not wait.bound:
        valid = f"leave it out, as the informers of {wait.name} have their own"
    return InvalidArgument("namespace", namespace, valid)


def _check_cache_sync(wait: Wait, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    from pytest_kwait.apimachinery.times import to_seconds

    if options.get("timeout") is not None:
        to_seconds(options["timeout"], what="timeout", allow_zero=False)
    unknown = sorted(set(options) - {"timeout", "name"})
    if unknown:
        raise InvalidArgument(
            "argument", unknown[0], f"{wait.name} takes resource names, timeout and name"
        )
    if not args or not all(isinstance(argument, str) and argument for argument in args):
        raise InvalidArgument(
            "resources", args, f"use {wait.name}({wait.usage}), for example ('pods', 'jobs')"
        )


def _option_names() -> tuple[str, ...]:
    from pytest_kwait.engine.options import WaitOptions

    return tuple(WaitOptions.__annotations__)


class BoundCacheSync(BoundWait):
    """The wait for informers, which also takes resource names.

    Args:
        informers: returns the informers of the test; called if a name is given.
    """

    def __init__(
        self, wait: Wait, defaults: WaitDefaults, informers: Callable[[], Informers]
    ) -> None:
        super().__init__(wait, defaults)
        self._informers = informers

    def __call__(self, *synced: Any, namespace: str | None = None, **options: Any) -> Any:
        """Wait until all informers have synced; a name stands for the test's informer of it.

        Args:
            *synced: as for `pytest_kwait.wait_for_cache_sync`, or resource names.
            namespace: not supported: informers have their own.
            **options: `name`, `stop`, `timeout`.

        Raises:
            WaitTimeout: not all have synced within the limit; names those that have not.
            WaitFailed: the server refuses a list for good.
        """
        __tracebackhide__ = True
        started = [
            self._informers().start(item)[0] if isinstance(item, str) else item for item in synced
        ]
        return super().__call__(*started, namespace=namespace, **options)
