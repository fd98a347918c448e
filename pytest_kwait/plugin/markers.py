"""Markers: checked when tests are collected, carried out before a test starts.

An invalid marker becomes a failed collection report of its test: an exception in a
collection hook would be an internal error under pytest-xdist.

Before a test, fixtures are set up first, manifests are applied next, and waits come last,
so that objects made by the user's fixtures can be awaited.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.framework.wait_names import WAIT_NAMES
from pytest_kwait.plugin.run import namespace_node
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.suite.config.options import SETTING_DEFINITIONS
from pytest_kwait.suite.config.parsers import suggest_name

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from pytest_kwait.suite.bound_wait import BoundWait
    from pytest_kwait.suite.config.options import SettingDefinition
    from pytest_kwait.suite.config.settings import Settings
    from pytest_kwait.suite.kwait import Kwait

__all__ = ["InvalidMarker", "check_markers", "check_node", "manifest_folders", "settings_of"]


class InvalidMarker(KwaitError, ValueError):
    """A marker with invalid arguments.

    Args:
        mark: the marker.
        nodeid: the node that carries it.
        problem: the problem, and what is valid.
    """

    def __init__(self, mark: pytest.Mark, nodeid: str, problem: str) -> None:
        super().__init__(mark, nodeid, problem)
        self.mark = mark
        self.nodeid = nodeid
        self.problem = problem

    def __str__(self) -> str:
        return f"marker {_format_mark(self.mark)} of {self.nodeid}: {self.problem}"


class InvalidMarkers(pytest.Collector):
    """Replaces a test with invalid markers; fails when it is collected."""

    problem: str

    def collect(self) -> Iterator[pytest.Item]:
        """Raise the problems of the markers."""
        raise self.CollectError(self.problem)


def check_node(node: pytest.Item | pytest.Collector) -> pytest.Item | pytest.Collector:
    """Return a collected node, or a collector that fails with the problems of its markers."""
    if not isinstance(node, pytest.Item):
        return node
    try:
        check_markers(node)
    except InvalidMarker as error:
        assert node.parent is not None  # noqa: S101 - only the session has none
        stand_in: InvalidMarkers = InvalidMarkers.from_parent(node.parent, name=node.name)
        stand_in.problem = str(error)
        return stand_in
    return node


def check_markers(item: pytest.Item) -> None:
    """Check all markers of the plugin on a test.

    Raises:
        InvalidMarker: one cannot.
    """
    for node, mark in item.iter_markers_with_node():
        if mark.name == "manifests":
            _check_manifests(item, node, mark)
        elif mark.name in WAIT_NAMES:
            _check_wait(node, mark)
        else:
            continue
        if not isinstance(item, pytest.Function):
            raise InvalidMarker(mark, node.nodeid, "it can be on test functions alone")
    settings_of(item)


def settings_of(node: pytest.Item | pytest.Collector) -> Settings:
    """Return the settings of a node: the run's, overridden by its `kwait` markers.

    Raises:
        InvalidMarker: a marker is invalid.
    """
    settings = run_settings(node.config)
    for owner, mark in reversed(list(node.iter_markers_with_node("kwait"))):
        given = _kwait_arguments(owner, mark)
        source = f"marker of {owner.nodeid}"
        timeouts = given.pop("timeouts", None)
        try:
            settings = settings.merged(given, partial(_fixed_source, source), timeouts)
        except InvalidArgument as error:
            raise InvalidMarker(mark, owner.nodeid, _without_source(error)) from None
    return settings


def manifest_folders(item: pytest.Item | pytest.Collector) -> list[Path]:
    """The folders against which a test's relative paths are resolved."""
    path = item.path if item.path.is_dir() else item.path.parent
    return [path, item.config.rootpath]


def _kwait_arguments(node: Any, mark: pytest.Mark) -> dict[str, Any]:
    per_test = [
        *(each.name for each in SETTING_DEFINITIONS.values() if each.scope == "test"),
        "timeouts",
    ]
    if mark.args:
        raise InvalidMarker(
            mark, node.nodeid, f"settings are given by name: {', '.join(sorted(per_test))}"
        )
    for name in mark.kwargs:
        if name in per_test:
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
            f"there is no setting {name}; {suggest_name(name, per_test)}"
            f"a test can set {', '.join(sorted(per_test))}",
        )
    return dict(mark.kwargs)


def _check_manifests(item: pytest.Item, node: Any, mark: pytest.Mark) -> None:
    from pytest_kwait.suite.manifests import InvalidManifest, read_manifests

    if mark.kwargs or not mark.args:
        raise InvalidMarker(mark, node.nodeid, "give files, for example manifests('job.yaml')")
    try:
        read_manifests(mark.args, manifest_folders(item))
    except InvalidManifest as error:
        raise InvalidMarker(mark, node.nodeid, str(error)) from None


def _check_wait(node: Any, mark: pytest.Mark) -> None:
    from pytest_kwait.suite.bound_wait import check_call

    try:
        check_call(mark.name, mark.args, mark.kwargs)
    except InvalidArgument as error:
        raise InvalidMarker(mark, node.nodeid, _without_source(error)) from None
    except TypeError as error:
        raise InvalidMarker(mark, node.nodeid, str(error)) from None


def _fixed_source(source: str, _definition: SettingDefinition) -> str:
    return source


def _without_source(error: InvalidArgument) -> str:
    return str(InvalidArgument(error.what, error.value, error.valid))


def _format_mark(mark: pytest.Mark) -> str:
    arguments = [
        *(repr(value) for value in mark.args),
        *(f"{name}={value!r}" for name, value in mark.kwargs.items()),
    ]
    return f"{mark.name}({', '.join(arguments)})"


_preconditions_key = pytest.StashKey["Preconditions"]()


class Preconditions:
    """The manifests and waits that the markers of one test declare."""

    def __init__(self, item: pytest.Item) -> None:
        self.waits = [mark for mark in item.iter_markers() if mark.name in WAIT_NAMES]
        self.manifests = list(item.iter_markers_with_node("manifests"))

    def __bool__(self) -> bool:
        return bool(self.waits or self.manifests)

    def fulfil(self, item: pytest.Function) -> None:
        """Apply and wait, with the fixtures of the test."""
        bench = cast("Kwait", item.funcargs["kwait"])
        # Manifests of a shared namespace were applied when it was created; only this test's own are
        # applied now.
        shared = set(namespace_node(item).listchain())
        for node, mark in reversed(self.manifests):
            if node not in shared:
                bench.apply(*mark.args)
        for mark in reversed(self.waits):
            cast("BoundWait", item.funcargs[mark.name])(*mark.args, **mark.kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Request the fixtures that the markers need."""
    preconditions = Preconditions(item)
    if not preconditions:
        return
    try:
        # Checked again: a hook of the user may have added markers since collection.
        check_markers(item)
    except InvalidMarker as error:
        pytest.fail(str(error), pytrace=False)
    function = cast("pytest.Function", item)
    waits = (mark.name for mark in preconditions.waits)
    function.fixturenames = list(dict.fromkeys([*function.fixturenames, "kwait", *waits]))
    item.stash[_preconditions_key] = preconditions


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtest_setup")
def pytest_runtest_setup_last(item: pytest.Item) -> Generator[None, None, None]:
    """Apply manifests and run waits after the rest of the setup."""
    yield
    if _preconditions_key in item.stash:
        item.stash[_preconditions_key].fulfil(cast("pytest.Function", item))
        del item.stash[_preconditions_key]
