"""Shared state of the run: current test, its time limit, run id.

Shared clients and namespaces look up settings and limits by the current test. Waits end
before the test's own timeout, which would end the test without evidence. Registered from
the start: a limit is set before it is known whether the test will wait.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    from pytest_kwait.client.session import TimeBudget
    from pytest_kwait.clock import Deadline
    from pytest_kwait.plugin.cluster_source import ClusterSource

MODULES = (
    "pytest_kwait.plugin.settings",
    "pytest_kwait.plugin.shards",
    "pytest_kwait.plugin.cluster",
    "pytest_kwait.plugin.live_status",
    "pytest_kwait.plugin.failures",
    "pytest_kwait.plugin.artifacts",
    "pytest_kwait.plugin.recording",
    "pytest_kwait.plugin.junit",
    "pytest_kwait.plugin.github",
    "pytest_kwait.plugin.summary",
    "pytest_kwait.plugin.report",
    "pytest_kwait.plugin.markers",
    "pytest_kwait.plugin.lock",
    "pytest_kwait.plugin.cleanup",
    "pytest_kwait.plugin.readiness",
    "pytest_kwait.plugin.debugging",
    "pytest_kwait.plugin.explore.loop",
)
"""Modules registered once a setting, fixture, marker or wait is used, if the run needs them."""

_active_key: pytest.StashKey[bool] = pytest.StashKey()

run_key: pytest.StashKey[Run] = pytest.StashKey()
shard_key: pytest.StashKey[str] = pytest.StashKey()

_item_key: pytest.StashKey[pytest.Item] = pytest.StashKey()
_limit_key: pytest.StashKey[_TestTimeout] = pytest.StashKey()
_alarm_key: pytest.StashKey[_Alarm] = pytest.StashKey()
_outer_phases_key: pytest.StashKey[int] = pytest.StashKey()
_in_teardown_key: pytest.StashKey[bool] = pytest.StashKey()
_is_ending_key: pytest.StashKey[bool] = pytest.StashKey()

_RESERVED_SECONDS = 10.0
"""Seconds of a test's limit that are reserved for evidence and teardown."""

_RESERVED_PART = 0.2
"""The part of a short limit that is reserved instead."""

_TEARDOWN_PART = 0.2
"""The part of the reserve that waits in teardown leave unused."""


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


class _Alarm:
    """The handler of pytest-timeout's signal, deferred between the phases of a test.

    The handler raises wherever the test is. Outside of a phase, for example while a report is
    made, that would end the whole run.

    Args:
        raise_timeout: pytest-timeout's own handler.
        outer_phases: the phases around the whole test: a run may be inside of a test.
    """

    def __init__(
        self, raise_timeout: Callable[[int, FrameType | None], object], outer_phases: int
    ) -> None:
        self._raise_timeout = raise_timeout
        self._outer_phases = outer_phases
        self._deferred = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the timeout within a phase; otherwise defer it to the next one."""
        if _count_phases(frame) > self._outer_phases:
            self._raise_timeout(number, frame)
        else:
            self._deferred = True

    def raise_deferred(self) -> None:
        """Raise the timeout if it was deferred."""
        if self._deferred:
            self._deferred = False
            self._raise_timeout(signal.SIGALRM, None)


def _count_phases(frame: FrameType | None) -> int:
    """Count the phases of tests that a frame is in: pytest reports what is raised in one."""
    phase = pytest.CallInfo.from_call.__code__
    count = 0
    while frame is not None:
        count += frame.f_code is phase
        frame = frame.f_back
    return count


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the current test from before its setup until after its teardown."""
    item.config.stash[_item_key] = item
    item.stash[_outer_phases_key] = _count_phases(sys._getframe())
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


@pytest.hookimpl(optionalhook=True, wrapper=True, specname="pytest_timeout_set_timer")
def pytest_timeout_defer_alarm(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Defer the alarm of pytest-timeout's signal method between phases."""
    result = yield
    # As in pytest-timeout: only the main thread gets signals.
    if settings.method == "signal" and threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGALRM)
        if callable(handler):
            alarm = item.stash[_alarm_key] = _Alarm(handler, item.stash.get(_outer_phases_key, 0))
            signal.signal(signal.SIGALRM, alarm)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose time was up before its setup."""
    _raise_deferred_alarm(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail a test whose time was up between its setup and its call."""
    _raise_deferred_alarm(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Let waits in teardown use most of the reserve; record the last teardown.

    A test whose time was up before its teardown fails after it.
    """
    item.stash[_in_teardown_key] = True
    if nextitem is None:
        item.config.stash[_is_ending_key] = True
    try:
        result = yield
    finally:
        del item.stash[_in_teardown_key]
    _raise_deferred_alarm(item)
    return result


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    """Forget the limit together with pytest-timeout's timer."""
    # Also called with nodes that are not tests and never had a timer.
    if _limit_key in item.stash:
        del item.stash[_limit_key]
    if _alarm_key in item.stash:
        del item.stash[_alarm_key]


def _raise_deferred_alarm(item: pytest.Item) -> None:
    alarm = item.stash.get(_alarm_key, None)
    if alarm is not None:
        alarm.raise_deferred()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record the teardown of fixtures after an interrupt."""
    record_ending(session.config)


def record_ending(config: pytest.Config) -> None:
    """Record that the last fixtures of this process are torn down next."""
    config.stash[_is_ending_key] = True


def is_ending(config: pytest.Config) -> bool:
    """Return whether the last fixtures of this process are torn down."""
    return _is_ending_key in config.stash


def guard_report(
    hook: Callable[..., Generator[None, Any, Any]],
) -> Callable[..., Generator[None, Any, Any]]:
    """Turn errors of a hook wrapper into failures of the report that it completes.

    For wrappers of `pytest_runtest_makereport` and `pytest_runtest_logreport`, where an error
    would end the whole run.
    """

    @functools.wraps(hook)
    def guarded(*args: Any) -> Generator[None, Any, Any]:
        # The argument of one of the hooks, and the result of the other one.
        given = next((each for each in args if isinstance(each, pytest.TestReport)), None)
        wrapper = hook(*args)
        try:
            next(wrapper)
        except _ERRORS as error:
            if given is not None:
                _add_error(given, error)
            result = yield
            if given is None:
                _add_error(result, error)
            return result
        try:
            result = yield
        except BaseException as error:
            wrapper.throw(error)
            raise
        try:
            wrapper.send(result)
        except StopIteration as end:
            return end.value
        except _ERRORS as error:
            _add_error(given or result, error)
        return result

    return guarded


_ERRORS = (Exception, pytest.fail.Exception)


def _add_error(report: pytest.TestReport, error: BaseException) -> None:
    """Fail a report that could not be completed; a failure of the test stays in front."""
    from pytest_kwait.engine.failure.redaction import SECRET_VALUES

    text = SECRET_VALUES.mask(
        "pytest-kwait could not complete the report of this test:\n\n"
        + "".join(traceback.format_exception(error))
    )
    if report.failed:
        report.sections.append(("kwait", text))
    else:
        report.outcome, report.longrepr = "failed", text


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
    from pytest_kwait.apimachinery.times import format_duration
    from pytest_kwait.client.session import TimeBudget

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

    @property
    def outage(self) -> str:
        """Why the running cluster cannot be used any more; empty if it can, or none was started."""
        return self._source.outage() if self._source is not None else ""

    def finish(self, *, failed: bool) -> None:
        """Export logs of a cluster that was started here, and keep it if asked to."""
        if self._source is not None:
            self._source.finish(failed=failed)

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


def activate(config: pytest.Config) -> None:
    """Register the modules that the run needs, and that are not registered yet."""
    if is_active(config):
        return
    config.stash[_active_key] = True
    for name in MODULES:
        # One by one: the first of them reads the settings that tell whether others are needed.
        if _is_needed(config, name.rpartition(".")[2]):
            register(config.pluginmanager, (name,))
    if config.pluginmanager.hasplugin("session"):
        # The hooks of the session's start have been called already.
        progress = config.pluginmanager.getplugin("pytest_kwait.plugin.live_status")
        if progress is not None:
            progress.pytest_sessionstart(session=config.pluginmanager.getplugin("session"))


def _is_needed(config: pytest.Config, module: str) -> bool:
    """Return whether a run needs a module: some serve one option, or shared clusters alone."""
    if module == "github":
        return os.environ.get("GITHUB_ACTIONS") == "true" and not hasattr(config, "workerinput")
    if module == "junit":
        return bool(config.getoption("xmlpath", None))
    if module not in ("shards", "artifacts", "recording", "report", "lock", "readiness", "loop"):
        return True
    from pytest_kwait.plugin.settings import run_settings

    settings = run_settings(config)
    handed: dict[str, Any] | None = getattr(config, "workerinput", None)
    if module == "shards":
        return settings.shard is not None or "kwait_shard" in (handed or {})
    if module == "artifacts":
        return settings.artifacts is not None
    if module == "recording":
        # A given one may have to be refused.
        return settings.recorded != "never" or settings.record is not None
    if module == "report":
        return bool(settings.report) if handed is None else "kwait_report" in handed
    if module == "loop":
        # A given option may have to be refused.
        names = ("explore", "seed", "explore_level", "perturbations")
        return any(map(settings.given_source, names))
    if module == "lock":
        # While exploring, each worker has a cluster of its own.
        is_alone = handed is None and config.getoption("dist", "no") == "no"
        is_alone = is_alone or settings.explore is not None
        return not (settings.is_alone and is_alone)
    return not settings.is_alone


def is_active(config: pytest.Config) -> bool:
    """Return whether the modules are registered."""
    return _active_key in config.stash


def register(pluginmanager: pytest.PytestPluginManager, modules: tuple[str, ...]) -> None:
    """Register modules as plugins.

    `pytest_plugins` would make pytest search the metadata of all installed packages once for each
    module, which costs more than the rest of loading.
    """
    for name in modules:
        if not pluginmanager.is_blocked(name):
            pluginmanager.register(import_module(name), name)


def is_built_on_library(node: pytest.Item, name: str) -> bool:
    """Return whether a fixture is the plugin's, or overrides it and requests it.

    A project's own fixture of the same name has nothing to do with this plugin.
    """
    manager: Any = node.session._fixturemanager
    _, *overrides = manager.getfixturedefs(name, node)
    return all(name in each.argnames for each in overrides)


def marker_names(config: pytest.Config, *names: str) -> tuple[str, ...]:
    """Return the names of markers: `kwait_…`, and the plain ones where the ini file wants them."""
    ours = tuple(f"kwait_{name}" for name in names)
    return (*ours, *names) if config.getini("kwait_plain_markers") else ours


def has_marker(node: pytest.Item | pytest.Collector, *names: str) -> bool:
    """Return whether a node has one of these markers of ours, named without `kwait_`."""
    return any(map(node.get_closest_marker, marker_names(node.config, *names)))


def uses_plugin(node: object) -> bool:
    """Return whether a test uses a fixture or marker of the plugin."""
    if not isinstance(node, pytest.Item):
        return False
    from pytest_kwait.framework.wait_names import WAIT_NAMES

    marks = {mark.name for mark in node.iter_markers()}
    # These say nothing of a test that does not use the cluster.
    marks.difference_update(("kwait_serial", "kwait_disruptive", "kwait_slow"))
    if marks.intersection(marker_names(node.config, "manifests")):
        return True
    names = (*getattr(node, "fixturenames", ()), *marks)
    return any(name in WAIT_NAMES or name.startswith("kwait") for name in names)
