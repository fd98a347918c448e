"""Shared state of the run: current test, its time limit, run id.

Shared clients and namespaces look up settings and limits by the current test. Waits end
before the test's own timeout, which would end the test without evidence. Registered from
the start: a limit is set before it is known whether the test will wait.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.clock import Deadline
    from pytest_kwait.plugin.cluster_source import ClusterSource
    from pytest_kwait.suite.bound_wait import TimeBudget

__all__ = [
    "FIXTURES",
    "MODULES",
    "Run",
    "activate",
    "format_shard",
    "is_active",
    "namespace_node",
    "near_limit",
    "register",
    "register_fixtures",
    "register_fixtures_on_use",
    "run_key",
    "run_of",
    "running_item",
    "shard_key",
    "time_budget_of",
    "time_left",
    "uses_plugin",
    "without_timeout",
]

FIXTURES = "pytest_kwait.plugin.fixtures"
"""Registered once one of its fixtures is looked up."""

MODULES = (
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.shards",
    "pytest_kwait.plugin.cluster",
    "pytest_kwait.plugin.live_status",
    "pytest_kwait.plugin.kept_namespaces",
    "pytest_kwait.plugin.failures",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.junit",
    "pytest_kwait.plugin.github",
    "pytest_kwait.plugin.summary",
    "pytest_kwait.plugin.report",
    "pytest_kwait.plugin.markers",
    "pytest_kwait.plugin.faults",
    "pytest_kwait.plugin.lock",
    "pytest_kwait.plugin.cleanup",
    "pytest_kwait.plugin.readiness",
    "pytest_kwait.plugin.debugging",
)
"""Modules registered once a setting, fixture, marker or wait is used."""

_FIXTURE_PREFIXES = ("kwait", "_kwait", "wait_for")

_OURS = ("pytest_", *_FIXTURE_PREFIXES)
"""Prefixes of the names of hooks and fixtures."""

_active_key = pytest.StashKey[bool]()

run_key = pytest.StashKey["Run"]()
shard_key = pytest.StashKey[str]()

_item_key = pytest.StashKey[pytest.Item]()
_limit_key = pytest.StashKey["_TestTimeout"]()
_in_teardown_key = pytest.StashKey[bool]()

_RESERVED_SECONDS = 10.0
"""Seconds of a test's limit that are reserved for evidence and teardown."""

_RESERVED_PART = 0.2
"""The part of a short limit that is reserved instead."""

_TEARDOWN_PART = 0.2
"""The part of the reserve that waits in teardown leave unused."""

_MIN_REMAINING = 1.0
"""Minimum seconds of a test whose suspended limit is resumed."""


# A plain class: the code of a named tuple is compiled each time that the plugin is loaded.
class _TestTimeout:
    """The limit that pytest-timeout sets for a test.

    Args:
        deadline: its end.
        near: the time from which the end counts as near.
        seconds: its length.
        in_debuggers: whether it also holds while the test is debugged.
    """

    def __init__(
        self, deadline: Deadline, near: Deadline, seconds: float, in_debuggers: bool
    ) -> None:
        self.deadline = deadline
        self.near = near
        self.seconds = seconds
        self.in_debuggers = in_debuggers

    @property
    def holds(self) -> bool:
        """Return whether pytest-timeout can still end the test by it."""
        if self.deadline.expired:
            # The timer has fired, whether the test ended or not.
            return False
        from pytest_timeout import is_debugging

        return self.in_debuggers or not is_debugging()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the current test from before its setup until after its teardown."""
    item.config.stash[_item_key] = item
    try:
        return (yield)
    finally:
        del item.config.stash[_item_key]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Record when pytest-timeout will end the test."""
    from pytest_kwait.clock import Deadline

    deadline = Deadline.after(settings.timeout)
    near = Deadline(deadline.at - _reserve(settings.timeout), deadline.clock)
    in_debuggers = bool(getattr(settings, "disable_debugger_detection", False))
    item.stash[_limit_key] = _TestTimeout(deadline, near, settings.timeout, in_debuggers)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Let waits in teardown use most of the reserve."""
    item.stash[_in_teardown_key] = True
    try:
        return (yield)
    finally:
        del item.stash[_in_teardown_key]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Forget the limit together with pytest-timeout's timer."""
    # Also called with nodes that are not tests and never had a timer.
    if _limit_key in item.stash:
        del item.stash[_limit_key]


@contextmanager
def without_timeout(item: pytest.Item) -> Iterator[None]:
    """Suspend pytest-timeout's alarm during the block.

    For code between the phases of a test, where the alarm would end the whole run.
    """
    in_main = threading.current_thread() is threading.main_thread()
    left = interval = 0.0
    if in_main and _limit_key in item.stash and hasattr(signal, "setitimer"):
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left, _MIN_REMAINING), interval)


def running_item(config: pytest.Config) -> pytest.Item | None:
    """Return the test that runs now; None between tests."""
    return config.stash.get(_item_key, None)


def time_budget_of(item: pytest.Item | None) -> TimeBudget | None:
    """Return the time that a test's limit leaves to a new wait, or None.

    A test that was debugged has no limit, unless pytest-timeout is configured otherwise.
    """
    limit = None if item is None else item.stash.get(_limit_key, None)
    if item is None or limit is None or not limit.holds:
        return None
    from pytest_kwait.apimachinery.durations import format_duration
    from pytest_kwait.suite.bound_wait import TimeBudget

    kept = _reserve(limit.seconds) * (_TEARDOWN_PART if _in_teardown_key in item.stash else 1.0)
    return TimeBudget(
        max(limit.deadline.remaining - kept, 0.0),
        f"the test's own timeout of {format_duration(limit.seconds)} (pytest-timeout)",
    )


def time_left(item: pytest.Item) -> float | None:
    """Return the seconds until pytest-timeout ends a test; None without a limit or after it."""
    limit = item.stash.get(_limit_key, None)
    return None if limit is None or not limit.holds else limit.deadline.remaining or None


def near_limit(item: pytest.Item | None) -> tuple[Deadline, float] | None:
    """Return when a test's limit counts as near, and the limit in seconds; None without a limit.

    Waits bound to the test have ended by then. The deadline is the same object while the limit is
    the same.
    """
    limit = None if item is None else item.stash.get(_limit_key, None)
    return None if limit is None or not limit.holds else (limit.near, limit.seconds)


def _reserve(limit: float) -> float:
    return min(_RESERVED_SECONDS, limit * _RESERVED_PART)


class Run:
    """One run of pytest: its id, this worker, and the source of its cluster.

    Args:
        id: the run's name; the same in all workers.
        worker: this worker's name; empty without pytest-xdist.
        source: creates the source of the cluster on first use.
    """

    def __init__(self, id: str, worker: str, source: Callable[[], ClusterSource]) -> None:
        self.id = id
        self.worker = worker
        self.nonce = os.urandom(4).hex()
        self._make_source = source
        self._source: ClusterSource | None = None

    @property
    def source(self) -> ClusterSource:
        """The source of the cluster."""
        if self._source is None:
            self._source = self._make_source()
        return self._source

    def end(self) -> None:
        """Stop a cluster that was started here."""
        if self._source is not None:
            self._source.stop()


def run_of(config: pytest.Config) -> Run:
    """Return the run of this process."""
    return config.stash[run_key]


def format_shard(config: pytest.Config) -> str:
    """Return the shard of this run as `I/N`; empty without shards."""
    return config.stash.get(shard_key, "")


def namespace_node(item: pytest.Item) -> Any:
    """Return the node that owns a test's namespace: the test, or by option its class or module."""
    from pytest_kwait.plugin.settings import run_settings

    scope = run_settings(item.config).namespace_scope
    shared = {"class": pytest.Class, "module": pytest.Module, "session": pytest.Session}
    # A function outside of a class has a class-scoped namespace of its own.
    return (item.getparent(shared[scope]) if scope in shared else None) or item


def activate(config: pytest.Config) -> None:
    """Register the modules that are not registered yet."""
    if is_active(config):
        return
    config.stash[_active_key] = True
    register(config.pluginmanager, MODULES)
    if config.pluginmanager.hasplugin("session"):
        # The hooks of the session's start have been called already.
        progress = config.pluginmanager.getplugin("pytest_kwait.plugin.live_status")
        if progress is not None:
            progress.pytest_sessionstart(session=config.pluginmanager.getplugin("session"))


def is_active(config: pytest.Config) -> bool:
    """Return whether all modules are registered."""
    return _active_key in config.stash


def register(pluginmanager: pytest.PytestPluginManager, modules: tuple[str, ...]) -> None:
    """Register modules as plugins, with their hooks and fixtures only.

    `pytest_plugins` would make pytest search the metadata of all installed packages once for each
    module, which costs more than the rest of loading. pytest also inspects every name of a plugin,
    imported ones included.
    """
    for name in modules:
        if not pluginmanager.is_blocked(name):
            shown = ModuleType(name)
            for attribute, value in vars(import_module(name)).items():
                if attribute.startswith(_OURS):
                    setattr(shown, attribute, value)
            pluginmanager.register(shown, name)


def register_fixtures_on_use(session: pytest.Session) -> None:
    """Register the fixtures once a test or fixture names one of them.

    pytest parses each fixture that it is shown, which costs more than the rest of loading. The
    fixtures of conftests are then registered before these, which they override nevertheless.
    """
    pluginmanager = session.config.pluginmanager
    manager: Any = pluginmanager.getplugin("funcmanage")
    find = manager.getfixturedefs

    def getfixturedefs(name: str, node: Any) -> Any:
        if not name.startswith(_FIXTURE_PREFIXES):
            return find(name, node)
        register_fixtures(pluginmanager)
        # Stable: the least specific definition comes first.
        found = find(name, node)
        return found and sorted(found, key=lambda each: each.func.__module__ != FIXTURES)

    manager.getfixturedefs = getfixturedefs


def register_fixtures(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the fixtures if they are not registered yet."""
    if not pluginmanager.hasplugin(FIXTURES):
        register(pluginmanager, (FIXTURES,))


def uses_plugin(node: object) -> bool:
    """Return whether a test uses a fixture or marker of the plugin."""
    if not isinstance(node, pytest.Item):
        return False
    from pytest_kwait.framework.wait_names import WAIT_NAMES

    names = (*getattr(node, "fixturenames", ()), *(mark.name for mark in node.iter_markers()))
    return any(name in WAIT_NAMES or name.startswith(("kwait", "manifests")) for name in names)
