"""Markers: checked when tests are collected, carried out before a test starts.

An invalid marker becomes a failed collection report of its test: an exception in a
collection hook would be an internal error under pytest-xdist.

Before a test, fixtures are set up first, manifests are applied next, and waits come last,
so that objects made by the user's fixtures can be awaited.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError, describe_value
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.plugin.internals import find_fixtures, request_of
from pytest_kwait.plugin.run import run_of, run_settings
from pytest_kwait.plugin.timeout import running_item
from pytest_kwait.plugin.usage import (
    is_built_on_library,
    is_misspelt_wait,
    marker_names,
    registered_markers,
)
from pytest_kwait.suite.config.options import MARKER_KEYS, SETTING_DEFINITIONS
from pytest_kwait.suite.config.values import suggest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from pytest_kwait.engine.options import TimeoutEntry
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.config.options import SettingDefinition
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.kwait import Kwait

_MAX_VALUE_LENGTH = 72
"""Characters of one argument of a marker in its error."""
_SKIP_PREFIX = "kwait_skip_"


class InvalidMarker(KwaitError, ValueError):
    """A marker with invalid arguments.

    Args:
        mark: the marker.
        nodeid: the node that carries it.
        problem: the problem, and what is valid.
        summary: the problem for pytest's short summary; None for the same.
    """

    def __init__(
        self, mark: pytest.Mark, nodeid: str, problem: str, summary: str | None = None
    ) -> None:
        super().__init__(mark, nodeid, problem)
        self.mark = mark
        self.nodeid = nodeid
        self.problem = problem
        self.summary = _to_printable(problem if summary is None else summary)

    def __str__(self) -> str:
        return _to_printable(f"marker {_format_mark(self.mark)} of {self.nodeid}: {self.problem}")


class InvalidMarkers(pytest.Collector):
    """Replaces a test with invalid markers; fails when it is collected."""

    error: InvalidMarker

    def collect(self) -> Iterator[pytest.Item]:
        """Raise the problem of a marker."""
        pytest.fail(str(self.error), pytrace=False)

    def repr_failure(  # type: ignore[override] # as in pytest's own collectors
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Any:
        """Return the problem; unlike a `CollectError`, it is in pytest's short summary."""
        shown = super().repr_failure(excinfo)
        crash = getattr(shown, "reprcrash", None)
        if crash is not None:
            crash.message = self.error.summary
        return shown


def check_node(node: pytest.Item | pytest.Collector) -> pytest.Item | pytest.Collector:
    """Return a collected node, or a collector that fails with the problems of its markers."""
    if not isinstance(node, pytest.Item):
        return node
    try:
        check_markers(node)
    except InvalidMarker as error:
        assert node.parent is not None  # noqa: S101 - only the session has none
        stand_in: InvalidMarkers = InvalidMarkers.from_parent(node.parent, name=node.name)
        stand_in.error = error
        return stand_in
    return node


def check_markers(item: pytest.Item) -> None:
    """Check all markers of the plugin on a test.

    Raises:
        InvalidMarker: one cannot.
    """
    for node, mark in item.iter_markers_with_node():
        if mark.name in marker_names(item.config, "manifests"):
            with _marker_errors(mark, node):
                _check_manifests(item, node, mark)
        elif mark.name in WAIT_NAMES:
            with _marker_errors(mark, node):
                _check_wait(mark)
        elif mark.name.startswith("wait_for_"):
            _check_wait_name(item.config, node, mark)
            continue
        elif mark.name.startswith("kwait_"):
            _check_name(item.config, node, mark)
            if not mark.name.startswith(_SKIP_PREFIX):
                continue
            with _marker_errors(mark, node):
                _check_skipper(mark)
        else:
            continue
        if not isinstance(item, pytest.Function):
            raise InvalidMarker(
                mark, node.nodeid, "waits and manifests can be on test functions alone"
            )
    settings_of(item)


def settings_of(node: pytest.Item | pytest.Collector) -> Settings:
    """Return the settings of a node: the run's, overridden by its `kwait` markers.

    Raises:
        InvalidMarker: a marker is invalid.
    """
    settings = run_settings(node.config)
    for owner, mark in reversed(list(node.iter_markers_with_node("kwait"))):
        source = f"marker of {owner.nodeid}"
        with _marker_errors(mark, owner):
            given = _kwait_arguments(owner, mark)
            timeouts = given.pop("timeouts", None)
            settings = settings.merged(given, partial(_fixed_source, source), timeouts)
    return settings


def settings_in_force(config: pytest.Config, node: Any) -> Settings:
    """Return the settings of what runs now: the test, or the scope of a fixture that it shares.

    They include the timeouts of the suite's fixture `kwait_timeouts`.

    Args:
        node: the node whose settings apply between tests.
    """
    executor = run_of(config).get(MarkerExecutor)
    shared = executor.shared_nodes
    settings = settings_of(shared[-1] if shared else running_item(config) or node)
    return settings.with_suite_timeouts(executor.suite_timeouts())


def namespace_scope_of(request: pytest.FixtureRequest) -> str:
    """Return the scope of the namespace that a marker of a test names; empty for none."""
    if request.scope != "function":
        # By option, which a marker cannot change.
        return ""
    scope = settings_of(request.node).namespace_scope
    return "" if scope == "test" else scope


def namespace_node(item: pytest.Item) -> Any:
    """Return the node that owns a test's namespace: the test, or its class, module or session."""
    scope = settings_of(item).namespace_scope
    shared = {"class": pytest.Class, "module": pytest.Module, "session": pytest.Session}
    # A function outside of a class has a class-scoped namespace of its own.
    return (item.getparent(shared[scope]) if scope in shared else None) or item


def manifest_folders(item: pytest.Item | pytest.Collector) -> list[Path]:
    """The folders against which a test's relative paths are resolved."""
    path = item.path if item.path.is_dir() else item.path.parent
    return [path, item.config.rootpath]


def manifest_markers(node: Any) -> list[tuple[Any, pytest.Mark]]:
    """Return the nodes and markers of manifests that apply to a node, the nearest first."""
    names = marker_names(node.config, "manifests")
    return [marker for marker in node.iter_markers_with_node() if marker[1].name in names]


def _kwait_arguments(node: Any, mark: pytest.Mark) -> dict[str, Any]:
    if mark.args:
        raise InvalidMarker(
            mark, node.nodeid, f"settings are given by name: {', '.join(sorted(MARKER_KEYS))}"
        )
    for name in mark.kwargs:
        if name in MARKER_KEYS:
            continue
        definition = SETTING_DEFINITIONS.get(name)
        if definition is not None:
            raise InvalidMarker(
                mark,
                node.nodeid,
                f"{name} belongs to the run, not to a test; use {definition.flag}, "
                f"{definition.env} or ini {definition.ini}",
            )
        raise InvalidMarker(
            mark,
            node.nodeid,
            f"there is no setting {name}; {suggest_name(name, MARKER_KEYS)}"
            f"a test can set {', '.join(sorted(MARKER_KEYS))}",
        )
    _check_namespace_scope(node, mark)
    return dict(mark.kwargs)


def _check_namespace_scope(node: Any, mark: pytest.Mark) -> None:
    settings = run_settings(node.config)
    wanted, by_run = mark.kwargs.get("namespace_scope"), settings.namespace_scope
    if wanted not in (None, by_run) and by_run != "test":
        raise InvalidMarker(
            mark,
            node.nodeid,
            f"the run has namespace_scope={by_run!r} (from "
            f"{settings.source('namespace_scope')}), which a marker cannot change",
        )


@contextmanager
def _marker_errors(mark: pytest.Mark, node: Any) -> Iterator[None]:
    """Raise anything but an interrupt as the error of a marker."""
    from pytest_kwait.suite.manifests import InvalidManifest

    try:
        yield
    except InvalidMarker:
        raise
    except InvalidArgument as error:
        raise _name_marker(mark, node, error) from None
    except InvalidManifest as error:
        raise InvalidMarker(mark, node.nodeid, str(error)) from None
    except Exception as error:
        # Raised by an object of the user, or by a check that did not expect it.
        name, text = type(error).__name__, _format_error(error)
        problem = f"cannot be checked: {name}: {text}" if text else f"cannot be checked: {name}"
        raise InvalidMarker(mark, node.nodeid, problem) from error


def _name_marker(mark: pytest.Mark, node: Any, error: InvalidArgument) -> InvalidMarker:
    """Return the error of an argument as that of the marker that has it."""
    without_source = InvalidArgument(error.what, error.value, error.valid)
    return InvalidMarker(mark, node.nodeid, str(without_source), without_source.summary)


def _format_error(error: Exception) -> str:
    try:
        return str(error).strip().partition("\n")[0]
    except Exception:  # the `__str__` of a user's class may raise anything
        return ""


def _check_manifests(item: pytest.Item, node: Any, mark: pytest.Mark) -> None:
    from pytest_kwait.client.write_options import parse_field_validation
    from pytest_kwait.suite.manifest_namespaces import parse_moves
    from pytest_kwait.suite.manifests import read_manifests

    if not mark.args:
        raise InvalidMarker(
            mark, node.nodeid, f"give files, for example {mark.name}('job.yaml'), then variables"
        )
    variables = dict(mark.kwargs)
    if "dry_run" in variables:
        raise InvalidMarker(
            mark,
            node.nodeid,
            "a marker applies what the test needs; use kwait.apply(…, dry_run=True) in the test",
        )
    parse_field_validation(variables.pop("validate", True))
    namespace = variables.pop("namespace", None)
    # The test's own namespace has no name yet.
    moves = None if namespace is None else parse_moves(namespace, own="t-test")
    read = read_manifests if moves is None else moves.read
    read(mark.args, manifest_folders(item), variables)


def _check_name(config: pytest.Config, node: Any, mark: pytest.Mark) -> None:
    """Refuse a marker that is neither ours nor registered by the suite."""
    names = sorted(name for name in registered_markers(config) if name.startswith("kwait_"))
    if mark.name not in names:
        raise InvalidMarker(
            mark,
            node.nodeid,
            f"there is no marker {mark.name}; {suggest_name(mark.name, names, prefix='kwait_')}"
            f"the markers are kwait, {', '.join(names)} and those of the waits",
        )


def _check_wait_name(config: pytest.Config, node: Any, mark: pytest.Mark) -> None:
    """Refuse a marker that is named as a wait, but neither ours nor registered by the suite."""
    if not is_misspelt_wait(config, mark.name):
        return
    near = suggest_name(mark.name, sorted(WAIT_NAMES), prefix="wait_for_")
    raise InvalidMarker(
        mark,
        node.nodeid,
        f"there is no wait {mark.name}; {near}the waits are in `pytest --markers -v`; a marker of "
        "another name, or of the suite, is registered by the ini setting markers",
    )


def _check_skipper(mark: pytest.Mark) -> None:
    from pytest_kwait.suite.skippers import SKIPPERS, check_skipper

    if mark.name not in SKIPPERS:
        return  # registered by the suite
    check_skipper(mark.name, mark.args, mark.kwargs)


def _check_wait(mark: pytest.Mark) -> None:
    from pytest_kwait.suite.bound_wait import check_call

    check_call(mark.name, mark.args, mark.kwargs)


def _fixed_source(source: str, _definition: SettingDefinition[Any]) -> str:
    return source


def _to_printable(text: str) -> str:
    """Return a text that a report can carry to the controller of pytest-xdist."""
    return text.encode("utf-8", "backslashreplace").decode()


def _format_mark(mark: pytest.Mark) -> str:
    arguments = [
        *(describe_value(value, _MAX_VALUE_LENGTH) for value in mark.args),
        *(
            f"{name}={describe_value(value, _MAX_VALUE_LENGTH)}"
            for name, value in mark.kwargs.items()
        ),
    ]
    return f"{mark.name}({', '.join(arguments)})"


class Preconditions:
    """The manifests and waits that the markers of one test declare."""

    def __init__(self, item: pytest.Item) -> None:
        self.waits = [
            (node, mark) for node, mark in item.iter_markers_with_node() if mark.name in WAIT_NAMES
        ]
        self.manifests = manifest_markers(item)

    def __bool__(self) -> bool:
        return bool(self.waits or self.manifests)

    def fixtures(self, item: pytest.Item) -> list[str]:
        """Return the names of the fixtures that the markers need."""
        kwait = "kwait" if is_built_on_library(item, "kwait") else "_kwait"
        waits = (mark.name for _, mark in self.waits)
        built = (name for name in waits if is_built_on_library(item, name))
        return ["_kwait_request", kwait, *built]

    def fulfil(self, item: pytest.Function) -> None:
        """Apply and wait, with the fixtures of the test."""
        from pytest_kwait.suite.kwait import Kwait

        kwait = item.funcargs.get("kwait")
        if not isinstance(kwait, Kwait):
            kwait = cast("Kwait", _request_of(item).getfixturevalue("_kwait"))
        # Manifests of a shared namespace were applied when it was created; only this test's own are
        # applied now.
        shared = set(namespace_node(item).listchain())
        for node, mark in reversed(self.manifests):
            if node not in shared:
                kwait.apply(*mark.args, **mark.kwargs)
        for node, mark in reversed(self.waits):
            wait = _wait_of_marker(item, mark.name)
            try:
                wait(*mark.args, **mark.kwargs)
            except InvalidArgument as error:
                # What only the cluster knows, as its kinds.
                raise _name_marker(mark, node, error) from None


def _wait_of_marker(item: pytest.Function, name: str) -> Callable[..., Any]:
    from pytest_kwait.suite.bound_wait import BoundWait

    value = item.funcargs.get(name)
    if isinstance(value, BoundWait) or (callable(value) and is_built_on_library(item, name)):
        return value
    bind: Callable[[str], BoundWait] = _request_of(item).getfixturevalue("_kwait_waits")
    return bind(name)


def _request_of(item: pytest.Function) -> pytest.FixtureRequest:
    """Return the request of a test, which the fixture `_kwait_request` has kept."""
    return cast("pytest.FixtureRequest", item.funcargs["_kwait_request"])


class MarkerExecutor:
    """Carries out the markers of each test."""

    def __init__(self, run: Run) -> None:
        self.shared_nodes: list[Any] = []
        """The nodes of the fixtures that are set up or torn down now, the innermost last."""
        self._preconditions: Preconditions | None = None
        self._item: pytest.Item | None = None
        self._suite_timeouts: dict[str, TimeoutEntry] | None = None

    def suite_timeouts(self) -> dict[str, TimeoutEntry]:
        """Return what the suite's fixture `kwait_timeouts` changes for the running test.

        Its first use in a test sets the fixture up, which a teardown cannot.
        """
        if self._suite_timeouts is not None:
            return self._suite_timeouts
        # A wait of that fixture, or of one that it requests, is without it.
        self._suite_timeouts, timeouts = {}, None
        try:
            timeouts = self._read_suite_timeouts()
        finally:
            self._suite_timeouts = timeouts
        return timeouts

    def _read_suite_timeouts(self) -> dict[str, TimeoutEntry]:
        from pytest_kwait.suite.config.settings import read_suite_timeouts

        item = self._item
        request = None if item is None else request_of(item)
        if item is None or request is None or len(find_fixtures(item, "kwait_timeouts")) < 2:
            return {}
        table = settings_of(item).unscaled_timeouts()
        return read_suite_timeouts(request.getfixturevalue("kwait_timeouts"), table)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Let a fixture of a wider scope than a test's follow the markers of its module or class.

        Which test runs first, and is last, must not matter to it.
        """
        if fixturedef.scope == "function":
            return (yield)
        nodes = self.shared_nodes

        def enter() -> None:
            nodes.append(request.node)

        # Finalizers are called in reverse order.
        fixturedef.addfinalizer(nodes.pop)
        enter()
        try:
            return (yield)
        finally:
            nodes.pop()
            fixturedef.addfinalizer(enter)

    # First: the fixtures are requested before any is set up. No wrapper: an error in one that is
    # outside of pytest's own would leave those without the state that their teardown needs.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Request the fixtures that the markers need."""
        self._item, self._suite_timeouts = item, None
        self._preconditions = None
        self._preconditions = _request_fixtures(item)

    # First: the waits come after the hooks of all other plugins.
    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_setup")
    def pytest_runtest_setup_last(self, item: pytest.Item) -> Generator[None, None, None]:
        """Apply manifests and wait after the rest of the setup."""
        yield
        if "kwait_client" in getattr(item, "fixturenames", ()):
            self.suite_timeouts()
        if self._preconditions is not None:
            self._preconditions.fulfil(cast("pytest.Function", item))

    # First: a fixture that is set up while others are torn down would stay.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """Set up no fixture from now on."""
        self._item = None

    def pytest_runtest_logfinish(self) -> None:
        """Forget the timeouts of the test."""
        self._suite_timeouts = None


def _request_fixtures(item: pytest.Item) -> Preconditions | None:
    preconditions = Preconditions(item)
    skips = any(mark.name.startswith(_SKIP_PREFIX) for mark in item.iter_markers())
    if not (preconditions or skips):
        return None
    try:
        # Checked again: a hook of the user may have added markers since collection.
        check_markers(item)
    except InvalidMarker as error:
        pytest.fail(str(error), pytrace=False)
    function = cast("pytest.Function", item)
    names = [*function.fixturenames, *(preconditions.fixtures(item) if preconditions else ())]
    if skips:
        # First: a test that is skipped needs no namespace.
        names.insert(0, "_kwait_skip")
    function.fixturenames = list(dict.fromkeys(names))
    return preconditions if preconditions else None
