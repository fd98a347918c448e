"""Environments: what tests share, made once by a generator with a `Kwait` of its own namespace.

`environment` makes a fixture of the generator. With the scope `run` all workers and shards of a run
share one environment of a cluster: see `suite.environments`. A failure is shown in full once.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import pytest

from pytest_kwait.errors import ClusterError, InvalidArgument, KwaitError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from kubernetes.client import ApiClient

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.plugin.staying_environments import StayingInputs
    from pytest_kwait.suite.cleanup.owned_objects import Owner
    from pytest_kwait.suite.environments import EnvironmentLease, EnvironmentState
    from pytest_kwait.suite.kwait import Kwait
    from pytest_kwait.suite.namespaces.namespaces import Namespaces

Scope = Literal["class", "module", "session", "run", "cluster"]
_Function = TypeVar("_Function", bound="Callable[..., Any]")

_SCOPES = ("class", "module", "session", "run", "cluster")
_SHARED_SCOPES = ("run", "cluster")
"""Scopes of environments that processes share: one of them runs the function."""

_OURS = ("request", "kwait_cluster", "kwait_client", "_kwait_namespaces")
"""Fixtures that every environment needs."""

_COLUMNS = 80
_MIN_CAUSE = 40
"""Columns of a cause that stands in one line with the name of its environment."""

_EXAMPLE = "for example: def database(kwait): kwait.apply('database.yaml'); yield kwait"


class _Failure:
    """The failure of an environment, which each test that needs it meets again.

    Args:
        name: the environment.
        error: what pytest raises for each of the tests.
        is_known: whether another process has reported it in full.
    """

    def __init__(self, name: str, error: BaseException, *, is_known: bool) -> None:
        self.name = name
        self.error = error
        self.is_known = is_known
        self.reported = ""
        """The test whose report has it in full; empty for none yet."""


@overload
def environment(function: _Function, /) -> _Function: ...


@overload
def environment(
    *, scope: Scope = ..., name: str | None = ...
) -> Callable[[_Function], _Function]: ...


def environment(
    function: Any = None, /, *, scope: Scope = "module", name: str | None = None
) -> Any:
    """Make a fixture of a generator function that sets up what tests share.

    The function has the argument `kwait`, a `Kwait` of a namespace of its own, and may have further
    ones: fixtures, other environments included. It yields once: the `Kwait` (or nothing, which is
    the same) or a value for the tests. Everything that it created is removed in the end.

    Args:
        function: a generator function.
        scope: who shares it: the tests of a class, a module or a session (of each worker), or all
            workers and shards of a run on a cluster. With `run` one process runs the function, up
            to its `yield`, which must be its last statement. All get a `Kwait` of the namespace, a
            value as JSON has it, or a tuple of both. With `cluster` it stays for the next runs on a
            cluster that outlives them, until its inputs or objects change.
        name: the name of the fixture; that of the function by default.

    Raises:
        InvalidArgument: the function or an argument is not as above.
    """
    if scope not in _SCOPES:
        raise InvalidArgument("scope", scope, f"use one of {', '.join(_SCOPES)}")
    if function is None:
        return lambda given: _make_fixture(given, scope, name)
    return _make_fixture(function, scope, name)


def _make_fixture(function: Any, scope: str, name: str | None) -> Any:
    parameters = _check_function(function, scope)
    title = name or function.__name__

    def fixture(*instance: Any, **fixtures: Any) -> Iterator[Any]:
        ours = {name: fixtures.pop(name) if name not in own else fixtures[name] for name in _OURS}
        with _environment_of(function, title, scope, instance, fixtures, **ours) as value:
            yield value

    # What the function requests by itself is passed on.
    own = [parameter.name for parameter in parameters if parameter.name in _OURS]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = [inspect.Parameter(name, kind) for name in _OURS if name not in own]
    others = [parameter for parameter in parameters if parameter.name != "kwait"]
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(fixture, attribute, getattr(function, attribute))
    vars(fixture)["__signature__"] = inspect.Signature([*others, *added])
    own_scope = "session" if scope in _SHARED_SCOPES else scope
    return pytest.fixture(scope=cast("Any", own_scope), name=name)(fixture)


def _check_function(function: Any, scope: str) -> list[inspect.Parameter]:
    """Return the parameters of the function of an environment, without those with defaults."""
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        raise InvalidArgument("environment", function, f"it is async; use a generator, {_EXAMPLE}")
    if not inspect.isgeneratorfunction(function):
        raise InvalidArgument(
            "environment", function, f"use a function with one `yield`, {_EXAMPLE}"
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not any(parameter.name == "kwait" for parameter in parameters):
        raise InvalidArgument("environment", function, f"it needs the argument kwait, {_EXAMPLE}")
    if scope in _SHARED_SCOPES and not _ends_with_yield(function):
        raise InvalidArgument(
            "environment",
            function,
            f"with the scope {scope} its last statement must be the `yield`: another process may "
            "be the last to use it; what was created in the cluster is removed by itself",
        )
    if scope == "cluster" and any(parameter.name == "kwait_factory" for parameter in parameters):
        raise InvalidArgument(
            "environment",
            function,
            "with the scope cluster it cannot use kwait_factory, whose objects end with the run; "
            "create them by kwait, or give it the scope run",
        )
    return [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]


def _ends_with_yield(function: Any) -> bool:
    """Return whether the last statement is a `yield`, or the source is not there."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return True
    body = getattr(tree.body[0], "body", None)
    if not body:
        return True
    return isinstance(body[-1], ast.Expr) and isinstance(body[-1].value, ast.Yield)


@contextmanager
def _environment_of(
    function: Callable[..., Iterator[Any]],
    name: str,
    scope: str,
    instance: tuple[Any, ...],
    fixtures: Mapping[str, Any],
    *,
    request: pytest.FixtureRequest,
    kwait_cluster: Cluster,
    kwait_client: ApiClient,
    _kwait_namespaces: Namespaces,
) -> Iterator[Any]:
    """Make an environment, or join one of the run; yield the fixture's value."""
    from pytest_kwait.plugin.namespaces import make_owner
    from pytest_kwait.plugin.run import run_of

    config = request.config

    def start(kwait: Kwait) -> Iterator[Any]:
        return function(*instance, **{**fixtures, "kwait": kwait})

    made = _Environment(name, start, request, kwait_cluster, kwait_client, _kwait_namespaces)
    try:
        with ExitStack() as stack:
            place = _run_wide_name(function, request) if scope in _SHARED_SCOPES else ""
            if _stays(scope, function, config, kwait_cluster):
                from pytest_kwait.plugin.staying_environments import StayingInputs

                inputs = StayingInputs(function, fixtures, config, kwait_cluster, kwait_client)
                value = stack.enter_context(made.staying(place, inputs))
            elif scope in _SHARED_SCOPES:
                value = stack.enter_context(made.shared(place))
            else:
                node = request.node.nodeid or "session"
                test = f"{node} environment {name}"
                owner = make_owner(config, kwait_cluster, test, name)
                value = stack.enter_context(made.alone(owner))
            made.is_made = True
            yield value
    except BaseException as error:
        if not made.is_made:
            failure = _Failure(name, error, is_known=made.is_failure_known)
            run_of(config).get(EnvironmentFailures).failures.append(failure)
        raise


def _stays(
    scope: str, function: Callable[..., Any], config: pytest.Config, cluster: Cluster
) -> bool:
    """Return whether an environment stays after the run; a line says why none can."""
    from pytest_kwait.plugin.run import run_of, run_settings

    settings = run_settings(config)
    is_meant = scope == "cluster" and not (settings.reuse == "auto" and _is_in_ci())
    if scope == "run" and settings.reuse == "always":
        is_meant = "kwait_factory" not in inspect.signature(function).parameters
    if settings.reuse == "never" or not is_meant:
        return False
    why = ""
    if cluster.ends_with_run:
        ways = "`kwait up` starts one that stays, for --kwait-kubeconfig"
        why = f"the {cluster.title} ends with the run; {ways}"
    elif settings.namespace is not None:
        why = "with --kwait-namespace they have no namespace of their own"
    if why:
        run_of(config).source_of(cluster).add_note(f"environments do not stay: {why}")
    return not why


def _is_in_ci() -> bool:
    """Return whether this is a job of CI. Source: pytest's `running_on_ci`."""
    return any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


def _run_wide_name(function: Any, request: pytest.FixtureRequest) -> str:
    """Return a name that is the same in all processes and on all machines of a run.

    It has the function, the fixture if that is named otherwise, and the parameters of the fixtures
    that the environment needs.
    """
    folder = request.config.rootpath
    path = os.path.relpath(function.__code__.co_filename, folder).replace(os.sep, "/")
    name = f"{path}::{function.__qualname__}"
    fixture = request.fixturename
    if fixture is not None and fixture != function.__name__:
        name = f"{name}:{fixture}"
    parameters = ", ".join(_list_parameters(request))
    return f"{name}[{parameters}]" if parameters else name


def _list_parameters(request: Any) -> list[str]:
    """Return the parameters of the fixtures that a fixture needs, as NAME=VALUE.

    A value that JSON does not have is represented by its index.
    """
    from json import dumps

    from pytest_kwait.plugin.internals import find_fixtures
    from pytest_kwait.plugin.timeout import running_item

    item = running_item(request.config)
    callspec = getattr(item, "callspec", None)
    if item is None or callspec is None:
        return []
    needed: set[str] = set()
    pending = [request.fixturename]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            for definition in find_fixtures(item, name):
                pending += definition.argnames
    listed = []
    for name in sorted(needed.intersection(callspec.params)):
        try:
            value = dumps(callspec.params[name], sort_keys=True)
        except (TypeError, ValueError):
            value = f"#{callspec.indices[name]}"
        listed.append(f"{name}={value}")
    return listed


class _Environment:
    """One environment in this process."""

    def __init__(
        self,
        name: str,
        start: Callable[[Kwait], Iterator[Any]],
        request: pytest.FixtureRequest,
        cluster: Cluster,
        client: ApiClient,
        namespaces: Namespaces,
    ) -> None:
        self._name = name
        self._start = start
        self._config = request.config
        self._node = request.node
        self._cluster = cluster
        self._client = client
        self._namespaces = namespaces
        self._is_left = False
        self.is_made = False
        """True once the fixture has its value."""
        self.is_failure_known = False
        """True if another process could not make it."""

    @contextmanager
    def alone(self, owner: Owner) -> Iterator[Any]:
        """Make the environment for the node of the fixture, and remove it in the end."""
        with self._kwait(owner) as kwait:
            generator = self._start(kwait)
            value = self._advance(generator)
            yield kwait if value is None else value
            self._finish(generator)

    @contextmanager
    def shared(self, place: str) -> Iterator[Any]:
        """Make the environment for the run, or wait until another process has made it.

        Args:
            place: its name in the run.
        """
        from pytest_kwait.plugin.run import run_of

        client = self._cluster.client()
        lease = self._lease(client, place, _name_process(run_of(self._config)))
        try:
            while True:
                state = self._join(lease, place)
                with ExitStack() as stack:
                    if state.name == "making":
                        ready = self._make_shared(lease, place, state, stack)
                        if ready is None:
                            # Taken over: what was made here is left to the end of the run.
                            continue
                        kwait, text = ready
                    else:
                        kwait = stack.enter_context(
                            self._kwait(self._shared_owner(lease, place, state), state)
                        )
                        self._is_left, text = True, state.value
                    yield _decode(kwait, text)
                    return
        finally:
            lease.stop()
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here

    @contextmanager
    def staying(self, place: str, inputs: StayingInputs) -> Iterator[Any]:
        """Use the environment that is in the cluster, or make it so that it stays.

        The function has ended when tests run, in the process that has run it too.

        Args:
            place: its name in a project.
        """
        from pytest_kwait.plugin.run import run_of, run_settings

        run = run_of(self._config)
        client = self._cluster.client()
        name = f"{inputs.project.title}/{place}"
        lifetime = run_settings(self._config).reuse_for
        lease = self._lease(client, name, _name_process(run), lifetime)
        try:
            while True:
                state = self._join(lease, name, inputs.check)
                if state.name == "ready":
                    break
                self._show(f"environment {self._name}: {inputs.describe_making(state)}")
                try:
                    is_made = self._make_staying(lease, name, state, inputs)
                finally:
                    self._show("")
                if is_made:
                    inputs.note(self._name, inputs.describe_making(state))
            if not state.is_known:
                inputs.note(self._name, inputs.describe_use(state))
            with self._used_kwait(state) as kwait:
                yield _decode(kwait, state.value)
        finally:
            lease.stop()
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here

    def _show(self, line: str) -> None:
        from pytest_kwait.plugin.run import run_of

        run_of(self._config).source_of(self._cluster).show(line)

    def _make_staying(
        self, lease: EnvironmentLease, place: str, state: EnvironmentState, inputs: StayingInputs
    ) -> bool:
        """Make the environment; return False if another process took over."""
        with self._reported_failures(lease, place, state):
            inputs.remove_old(lease, state)
            is_ready = False
            owner = inputs.owner(lease, place, self._name, state)
            with inputs.recorded() as finish, self._kwait(owner, stays=lambda: is_ready) as kwait:
                generator = self._start(kwait)
                text = _encode(kwait, self._advance(generator))
                cast("Generator[Any, None, None]", generator).close()
                uid = self._namespaces.uid_of(kwait.namespace)
                is_ready = lease.publish(kwait.namespace, uid, text, finish(kwait.namespace))
        return is_ready

    @contextmanager
    def _used_kwait(self, state: EnvironmentState) -> Iterator[Kwait]:
        """Yield a `Kwait` in the namespace; what is created by it ends with the session."""
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.engine.failure.redaction import learn_namespace
        from pytest_kwait.plugin.namespaces import make_kwait, make_owner, recorded_use

        config, node, cluster = self._config, self._node, self._cluster
        test = f"session environment {self._name}"
        owner = make_owner(config, cluster, test, self._name)
        learn_namespace(ApiSession.of(self._client), state.namespace)
        with (
            recorded_use(config, state.namespace, cluster, is_made=False),
            make_kwait(
                config, node, owner, state.namespace, cluster, self._client, self._namespaces
            ) as kwait,
        ):
            yield kwait

    def _lease(
        self, client: ApiClient, place: str, maker: str, lifetime: float | None = None
    ) -> EnvironmentLease:
        from pytest_kwait.plugin.cleanup import registration_of
        from pytest_kwait.plugin.run import run_of, run_settings
        from pytest_kwait.suite.cleanup.run_lease import LEASE_NAMESPACE
        from pytest_kwait.suite.environments import EnvironmentLease

        return EnvironmentLease(
            client,
            run_of(self._config).id,
            place,
            maker,
            registration=registration_of(self._config, self._cluster),
            namespace=run_settings(self._config).namespace or LEASE_NAMESPACE,
            lifetime=lifetime,
        )

    def _join(
        self,
        lease: EnvironmentLease,
        place: str,
        check: Callable[[EnvironmentState], str] = lambda state: "",
    ) -> EnvironmentState:
        """Return the state; fail or skip if another process could not make the environment."""
        from pytest_kwait.clock import Deadline
        from pytest_kwait.plugin.markers import settings_in_force
        from pytest_kwait.plugin.run import run_of
        from pytest_kwait.plugin.timeout import running_item, time_budget_of

        attempts = run_of(self._config).get(EnvironmentFailures).attempts
        budget = time_budget_of(running_item(self._config))
        seconds = settings_in_force(self._config, self._node).timeouts()["environment"]
        limit = seconds if budget is None else budget.fit(seconds)[0]
        source = run_of(self._config).source
        try:
            state = lease.join(Deadline.after(limit), attempts.get(place, 0), source.show, check)
        finally:
            source.show("")
        if state.name == "skipped":
            attempts[place] = state.attempt
            pytest.skip(state.value)
        if state.name == "failed":
            attempts[place] = state.attempt
            self.is_failure_known = True
            cause, _, test = state.value.partition("\n")
            where = f"environment {self._name} of {state.maker}" + (f": see {test}" if test else "")
            pytest.fail(_format_repeated(self._config, cause, where), pytrace=False)
        return state

    def _make_shared(
        self, lease: EnvironmentLease, place: str, state: EnvironmentState, stack: ExitStack
    ) -> tuple[Kwait, str] | None:
        """Make the environment; return its `Kwait` and published value, None if taken over."""
        with self._reported_failures(lease, place, state):
            kwait = stack.enter_context(self._kwait(self._shared_owner(lease, place, state)))
            generator = self._start(kwait)
            stack.callback(cast("Generator[Any, None, None]", generator).close)
            text = _encode(kwait, self._advance(generator))
        self._is_left = True
        if lease.publish(kwait.namespace, self._namespaces.uid_of(kwait.namespace), text):
            return kwait, text
        return None

    @contextmanager
    def _reported_failures(
        self, lease: EnvironmentLease, place: str, state: EnvironmentState
    ) -> Iterator[None]:
        """Record in the Lease why the environment could not be made."""
        from pytest_kwait.plugin.run import run_of
        from pytest_kwait.plugin.timeout import running_item

        try:
            yield
        except BaseException as error:
            run_of(self._config).get(EnvironmentFailures).attempts[place] = state.attempt
            if isinstance(error, pytest.skip.Exception):
                lease.fail(str(error), skipped=True)
            elif isinstance(error, Exception | pytest.fail.Exception):
                item = running_item(self._config)
                lease.fail(f"{_format_cause(error)}\n{'' if item is None else item.nodeid}")
            else:
                lease.abandon()
            raise

    def _shared_owner(self, lease: EnvironmentLease, place: str, state: EnvironmentState) -> Owner:
        from pytest_kwait.plugin.run import run_of
        from pytest_kwait.suite.cleanup.owned_objects import Owner

        run = run_of(self._config)
        return Owner(
            run.id,
            f"environment {place}",
            self._name,
            worker=run.worker,
            shard=run.shard,
            attempt=max(state.attempt, 1),
            nonce=run.nonce,
            registration=lease,
        )

    @contextmanager
    def _kwait(
        self,
        owner: Owner,
        state: EnvironmentState | None = None,
        *,
        stays: Callable[[], bool] = lambda: False,
    ) -> Iterator[Kwait]:
        from pytest_kwait.plugin.namespaces import make_kwait, make_namespace

        adopted = None if state is None else (state.namespace, state.uid)
        config, node, cluster = self._config, self._node, self._cluster
        with (
            make_namespace(
                config,
                node,
                owner,
                self._namespaces,
                cluster,
                adopted=adopted,
                is_left=lambda: self._is_left,
                stays=stays,
            ) as namespace,
            make_kwait(
                config,
                node,
                owner,
                namespace,
                cluster,
                self._client,
                self._namespaces,
                is_left=lambda: self._is_left,
                stays=stays,
            ) as kwait,
        ):
            yield kwait

    def _advance(self, generator: Iterator[Any]) -> Any:
        try:
            return next(generator)
        except StopIteration:
            raise ClusterError(
                f"environment {self._name} ended without a `yield`: it must yield once"
            ) from None

    def _finish(self, generator: Iterator[Any]) -> None:
        try:
            next(generator)
        except StopIteration:
            return
        cast("Generator[Any, None, None]", generator).close()
        raise ClusterError(f"environment {self._name} has a second `yield`: it must yield once")


def _name_process(run: Run) -> str:
    """Return a readable name of this process of a run."""
    shard = f"shard {run.shard}" if run.shard else ""
    return " of ".join(filter(None, (run.worker or "another process", shard)))


def _encode(kwait: Kwait, value: Any) -> str:
    from pytest_kwait.suite.environments import encode_value

    if value is None or value is kwait:
        form, value = "kwait", None
    elif isinstance(value, tuple) and len(value) == 2 and value[0] is kwait:
        form, value = "both", value[1]
    else:
        form = "value"
    return f'{{"form": "{form}", "value": {encode_value(value)}}}'


def _decode(kwait: Kwait, text: str) -> Any:
    import json

    published = json.loads(text)
    if published["form"] == "kwait":
        return kwait
    return (kwait, published["value"]) if published["form"] == "both" else published["value"]


def _format_cause(error: BaseException) -> str:
    """Return the object and the cause of a failure in one line."""
    from pytest_kwait.engine.failure.redaction import SECRET_VALUES
    from pytest_kwait.engine.failure.shortening import cut_headline
    from pytest_kwait.plugin.failures import format_summary

    lines = str(error).strip().splitlines() or [""]
    name = "" if isinstance(error, pytest.fail.Exception) else f"{type(error).__name__}: "
    cause = f"{name}{lines[0]}".removesuffix(": ")
    if isinstance(error, KwaitError):
        cause = format_summary(error)
    return cut_headline(SECRET_VALUES.mask(cause))


def _format_repeated(config: pytest.Config, cause: str, where: str) -> str:
    """Return a failure that another test has in full, its cause first.

    Args:
        where: the environment, and that test.

    Returns:
        one line; two where the cause has too little room in it. Whole with `-v`.
    """
    from pytest_kwait.engine.failure.shortening import cut_line

    room = _COLUMNS - len(f" ({where})")
    if config.get_verbosity() > 0 or len(cause) <= room:
        return f"{cause} ({where})"
    if room >= _MIN_CAUSE:
        return f"{cut_line(cause, room)} ({where})"
    return f"{cut_line(cause, _COLUMNS)}\n{cut_line(f'  ({where})', _COLUMNS)}"


class EnvironmentFailures:
    """The environments that failed: each is shown in full once, and in one line after that."""

    def __init__(self, run: Run) -> None:
        self.failures: list[_Failure] = []
        self.attempts: dict[str, int] = {}
        """The number of the last failed attempt at each environment of the run."""

    # First: it replaces what other wrappers have made of the failure.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show the failure in full once, and in one line for the other tests."""
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        for failure in self.failures if report.failed else ():
            if failure.error is not error:
                continue
            if failure.is_known or failure.reported in ("", item.nodeid):
                failure.reported = item.nodeid
                continue
            path, _, name = failure.reported.partition("::")
            first = name if path == item.nodeid.partition("::")[0] else failure.reported
            where = f"environment {failure.name}: see {first}"
            report.longrepr = _format_repeated(item.config, _format_cause(failure.error), where)
        return report
