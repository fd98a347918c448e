"""The loop of an exploring process: runs tests under seeds, and shrinks their failures.

Each run is a whole test protocol, so that other plugins see a test as ever. A test, and the
fixtures of its functions, classes and modules, are made anew for each run; those of the session are
shared by the runs of a worker.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import Deadline
from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.artifacts import collector_of
from pytest_kwait.plugin.cleanup import namespaces_in_use
from pytest_kwait.plugin.cluster import uses_cluster
from pytest_kwait.plugin.cluster_source import ControllerConnection
from pytest_kwait.plugin.explore.coordinator import CollectedTest, Coordinator
from pytest_kwait.plugin.explore.results import ExplorationReport
from pytest_kwait.plugin.explore.workers import (
    ExploringScheduler,
    LocalQueue,
    RemoteQueue,
    serve_coordinator,
)
from pytest_kwait.plugin.failures import failure_of, headline_of
from pytest_kwait.plugin.report import pause_recording, resume_recording
from pytest_kwait.plugin.run import record_ending, run_of
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.suite.explore.plan import Plan, derive_seed
from pytest_kwait.suite.explore.shrink import Budget, Shrunk, Trial, shrink
from pytest_kwait.suite.explore.signatures import make_signature
from pytest_kwait.suite.explore.verdict import ExploredFailure, RunResult

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

    from pytest_kwait.plugin.explore.workers import RunQueue

_SHRINK_SECONDS = 120.0
"""Seconds that the shrinking of one failure may take."""

_SHRINK_PART = 0.25
"""Part of the remaining time of the exploration that it may take instead."""

_MAX_SHRUNK = 5
"""Distinct failures of one test that a worker shrinks."""

_explorer_key = pytest.StashKey["Explorer"]()
_coordinator_key = pytest.StashKey["Coordinator"]()
_report_key = pytest.StashKey["ExplorationReport"]()
_seed_key = pytest.StashKey[int]()


class _Current:
    """The run of a test that is under way.

    Args:
        seed: its seed.
        only: the only perturbations; None for all of the level.
        shrinks: whether it is a trial of shrinking.
    """

    def __init__(self, seed: int, only: list[str] | None, *, shrinks: bool = False) -> None:
        self.seed = seed
        self.only = only
        self.shrinks = shrinks
        self.is_explored = False
        """Whether the test used the cluster."""
        self.perturbed: Any = None
        """The control of the cluster that is perturbed now."""
        self.decisions: tuple[str, ...] = ()
        self.omitted = 0
        self.failure: ExploredFailure | None = None
        self.reports: list[pytest.TestReport] = []

    @property
    def outcome(self) -> str:
        """The outcome of the run."""
        if any(report.failed for report in self.reports):
            return "failed"
        for report in self.reports:
            # A skipped subtest, which has a context, skips not the test.
            if report.skipped and not hasattr(report, "context"):
                return "xfailed" if hasattr(report, "wasxfail") else "skipped"
        return "passed"


class _RoundEnd(pytest.Item):
    """Stands for the next test after a round: only fixtures of the session stay for it."""

    def runtest(self) -> None:
        """Do nothing: it is never run."""


class _Hooks:
    """The hooks of a test that runs, whose reports are collected instead of logged.

    Args:
        hooks: the hooks of the test's folder.
        reports: takes the reports.
    """

    def __init__(self, hooks: Any, reports: list[pytest.TestReport]) -> None:
        self._hooks = hooks
        self._reports = reports

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a report."""
        self._reports.append(report)

    def pytest_runtest_logstart(self, **_: object) -> None:
        """Do nothing: the test is logged once, at the end."""

    def pytest_runtest_logfinish(self, **_: object) -> None:
        """Do nothing: the test is logged once, at the end."""


class Explorer:
    """Runs tests of this process.

    Args:
        queue: what is run, and where results go.
        level: the level of the exploration.
        only: the only perturbations; None for all of the level.
        shrinks: whether failures are shrunk.
    """

    def __init__(
        self,
        config: pytest.Config,
        queue: RunQueue,
        level: str,
        only: tuple[str, ...] | None,
        *,
        shrinks: bool,
    ) -> None:
        self.current: _Current | None = None
        self.cluster: Any = None
        self._config = config
        self._queue = queue
        self._level = level
        self._only = None if only is None else list(only)
        self._shrinks = shrinks
        self._known: dict[str, set[str]] = {}
        self._passed: set[str] = set()
        self._records_waits = True
        collector = collector_of(config)
        if collector is not None:
            collector.wants = self.is_new

    def explore(self, session: pytest.Session) -> None:
        """Run what the queue gives out."""
        tests = [_facts_of(item, unit) for unit, item in _with_units(session.items)]
        problem = self._queue.join(tests)
        if problem:
            session.shouldstop = problem
            return
        end: _RoundEnd = _RoundEnd.from_parent(session, name="end of the round")
        last: pytest.Item | None = None
        seed = 0
        while not (session.shouldstop or session.shouldfail):
            assignment = self._queue.next()
            if assignment is None:
                break
            limit = None if assignment.left is None else Deadline.after(assignment.left)
            self._record_waits(assignment.run == 0)
            seed = assignment.seed
            following = [*assignment.tests[1:], None]
            for index, after in zip(assignment.tests, following, strict=True):
                if (limit is not None and limit.expired) or session.shouldstop:
                    break
                last = session.items[index]
                nextitem = end if after is None else session.items[after]
                result = self._run_test(index, last, nextitem, end, seed, limit)
                if not self._queue.add(result):
                    break
        if last is not None:
            self._end_session(session, last, seed)

    def is_new(self, item: pytest.Item, error: BaseException) -> bool:
        """Return whether a failure is the first of its kind in this process."""
        if self.current is None or self.current.shrinks:
            return False
        failure = self.current.failure
        known = self._known.get(item.nodeid, ())
        signature = _signature_of(item, error) if failure is None else failure.signature
        return signature not in known

    def record_failure(self, item: pytest.Item, error: BaseException) -> None:
        """Record the first failure of the current run."""
        if self.current is not None and self.current.failure is None:
            self.current.failure = ExploredFailure(_signature_of(item, error), "")

    def perturb(self) -> None:
        """Let the cluster perturb what the current test does from now on."""
        current = self.current
        control = getattr(self.cluster, "exploration", None)
        if current is None or current.perturbed is not None or control is None:
            return
        current.is_explored = True
        # An empty list would say the same, at the cost of two requests.
        if current.only != []:
            control.start(current.seed, self._level, current.only)
            current.perturbed = control

    def end_perturbing(self) -> None:
        """Let the cluster perturb nothing any more."""
        current = self.current
        if current is None or current.perturbed is None:
            return
        control, current.perturbed = current.perturbed, None
        try:
            current.decisions, current.omitted = control.end()
        except KwaitError:
            # The cluster has ended: the test says so.
            return

    def _run_test(
        self,
        index: int,
        item: pytest.Item,
        nextitem: pytest.Item,
        end: pytest.Item,
        seed: int,
        limit: Deadline | None,
    ) -> RunResult:
        current = self._run(item, nextitem, _Current(seed, self._only))
        # A test may fail before it uses the cluster, or skip itself once it has.
        explored = current.is_explored
        if current.outcome == "failed":
            explored = explored or uses_cluster(item)
        elif current.outcome == "skipped":
            explored = False
        result = RunResult(index, seed, current.outcome, is_explored=explored)
        if current.outcome != "failed":
            if item.nodeid not in self._passed:
                self._passed.add(item.nodeid)
                result.reports = current.reports
            return result
        failed = next(report for report in current.reports if report.failed)
        facts = failure_of(failed)
        failure = current.failure or ExploredFailure(make_signature("", facts.headline, ""), "")
        failure.headline, failure.folder = facts.headline, facts.folder
        failure.applied = len(current.decisions) + current.omitted
        result.failure = failure
        known = self._known.setdefault(item.nodeid, set())
        if failure.signature not in known:
            known.add(failure.signature)
            result.reports = current.reports
            if self._shrinks and current.is_explored and len(known) <= _MAX_SHRUNK:
                try:
                    failure.shrunk = self._shrink(item, end, current, failure, limit)
                except _ENDS:
                    self._queue.add(result)
                    raise
        return result

    def _shrink(
        self,
        item: pytest.Item,
        end: pytest.Item,
        failed: _Current,
        failure: ExploredFailure,
        limit: Deadline | None,
    ) -> Shrunk | None:
        if limit is not None and limit.expired:
            return None
        seconds = _SHRINK_SECONDS
        if limit is not None:
            seconds = min(seconds, limit.remaining * _SHRINK_PART)
        self._queue.shrink()
        session = item.session
        # A trial begins as a command that reproduces the failure does.
        pytest.CallInfo.from_call(
            lambda: session._setupstate.teardown_exact(end), when="teardown", reraise=_ENDS
        )

        def attempt(only: list[str] | None) -> Trial:
            used = self._only if only is None else only
            current = self._run(item, end, _Current(failed.seed, used, shrinks=True))
            found = current.failure is not None and current.failure.signature == failure.signature
            return Trial(found, current.decisions)

        recorded = self._records_waits
        self._record_waits(False)
        try:
            return shrink(failed.decisions, attempt, Budget(Deadline.after(seconds)))
        finally:
            self._record_waits(recorded)

    def _run(self, item: pytest.Item, nextitem: pytest.Item, current: _Current) -> _Current:
        """Run the protocol of a test, and collect its reports."""
        properties = list(item.user_properties)
        item._report_sections.clear()
        if isinstance(item.parent, pytest.Class) and vars(item).get("_instance", item) is None:
            # pytest before 8.3 leaves the method of a TestCase without one after a run.
            del vars(item)["_instance"]
        self.current = current
        try:
            with _collecting(item.session, current.reports):
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self.end_perturbing()
            self.current = None
            item.user_properties[:] = properties
        return current

    def _record_waits(self, wanted: bool) -> None:
        """Record waits for a report, or not: it has those of the first round, not of its trials."""
        if wanted != self._records_waits:
            self._records_waits = wanted
            (resume_recording if wanted else pause_recording)(self._config)

    def _end_session(self, session: pytest.Session, item: pytest.Item, seed: int) -> None:
        """Tear down the fixtures of the session; an error is a failure of the last test."""
        record_ending(self._config)
        self.current = current = _Current(seed, None)
        call = pytest.CallInfo.from_call(
            lambda: session._setupstate.teardown_exact(None), when="teardown", reraise=_ENDS
        )
        report = self._config.hook.pytest_runtest_makereport(item=item, call=call)
        self.current = None
        if report.failed:
            index = session.items.index(item)
            failure = current.failure or ExploredFailure("teardown", "")
            failure.headline = failure_of(report).headline
            result = RunResult(
                index, seed, "failed", is_explored=False, failure=failure, reports=[report]
            )
            self._queue.add(result)


_ENDS = (KeyboardInterrupt, pytest.exit.Exception)


@contextmanager
def _collecting(session: pytest.Session, reports: list[pytest.TestReport]) -> Iterator[None]:
    """Collect the reports of tests during the block; no plugin logs them."""
    find = session.gethookproxy
    vars(session)["gethookproxy"] = lambda path: _Hooks(find(path), reports)
    try:
        yield
    finally:
        del vars(session)["gethookproxy"]


def _with_units(items: list[pytest.Item]) -> Iterator[tuple[int, pytest.Item]]:
    """Yield tests with the number of their unit: those of one module that follow each other."""
    unit, last = -1, None
    for item in items:
        owner = _module_of(item)
        if owner is not last:
            unit, last = unit + 1, owner
        yield unit, item


def _module_of(item: pytest.Item) -> pytest.Item | pytest.Collector:
    return next((each for each in item.listchain() if isinstance(each, pytest.File)), item)


def _facts_of(item: pytest.Item, unit: int) -> CollectedTest:
    id = item.nodeid
    if item.config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group"):
        # A suffix of pytest-xdist, which names no test.
        id = id.rpartition("@")[0]
    return CollectedTest(item.nodeid, item.location, unit, id)


def _signature_of(item: pytest.Item, error: BaseException) -> str:
    return make_signature(type(error).__name__, headline_of(error), _place_of(item, error))


def _place_of(item: pytest.Item, error: BaseException) -> str:
    """Return the last line of the suite's own code in a traceback."""
    root = item.config.rootpath
    place = ""
    entry: TracebackType | None = error.__traceback__
    while entry is not None:
        path = Path(entry.tb_frame.f_code.co_filename)
        if path.is_relative_to(root) and "site-packages" not in path.parts:
            module = str(entry.tb_frame.f_globals.get("__name__", ""))
            if module.partition(".")[0] != "pytest_kwait":
                place = f"{path.relative_to(root).as_posix()}:{entry.tb_lineno}"
        entry = entry.tb_next
    return place


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that cannot be followed; otherwise prepare the exploration."""
    settings = run_settings(config)
    handed: dict[str, Any] | None = getattr(config, "workerinput", None)
    effort = settings.explore
    if effort is None:
        for name in ("seed", "explore_level", "perturbations"):
            _refuse(config, name, "nothing is explored; give --kwait-explore=N as well")
        return
    if not settings.is_embedded:
        _refuse(
            config,
            "explore",
            "only the embedded cluster can be explored; leave it out, or use that one",
            always=True,
        )
    if handed is not None:
        queue: RunQueue = RemoteQueue(
            config,
            ControllerConnection(handed["kwait"]["port"], handed["kwait"]["secret"]),
            run_of(config).worker,
        )
    else:
        seed = _fresh_seed() if settings.seed is None else settings.seed
        config.stash[_seed_key] = seed
        coordinator = config.stash[_coordinator_key] = Coordinator(
            config,
            Plan(effort, seed),
            int(config.getvalue("maxfail") or 0),
            lambda folder: shutil.rmtree(folder, ignore_errors=True),
        )
        config.stash[_report_key] = ExplorationReport(
            config, coordinator, settings.explore_level, settings.perturbations
        )
        queue = LocalQueue(coordinator)
    reproduces = effort.runs == 1 and settings.perturbations is not None
    config.stash[_explorer_key] = Explorer(
        config,
        queue,
        settings.explore_level,
        settings.perturbations,
        # A debugger would stop in each trial.
        shrinks=not reproduces and not config.getoption("usepdb"),
    )


def _refuse(config: pytest.Config, name: str, why: str, *, always: bool = False) -> None:
    """Refuse an option; one that is set for all runs is ignored, unless it matters `always`."""
    given = run_settings(config).setting(name)
    if always or given.source.startswith("option "):
        raise pytest.UsageError(str(InvalidArgument(name, given.given, why, given.source)))


def _fresh_seed() -> int:
    return derive_seed(int.from_bytes(os.urandom(8), "big"), 0)


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_configure_node(node: Any) -> None:
    """Answer the workers of pytest-xdist."""
    coordinator = node.config.stash.get(_coordinator_key, None)
    if coordinator is not None:
        serve_coordinator(node.config, coordinator)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> ExploringScheduler | None:
    """Let workers ask for tests, instead of sending them."""
    coordinator = config.stash.get(_coordinator_key, None)
    if coordinator is None:
        return None
    from xdist import workermanage

    # Its name before pytest-xdist 3.7 is the second one.
    parse = getattr(workermanage, "parse_tx_spec_config", None) or workermanage.parse_spec_config
    return ExploringScheduler(coordinator, len(parse(config)))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Count the run in which a worker crashed."""
    coordinator = node.config.stash.get(_coordinator_key, None)
    if coordinator is not None and error is not None and error != "keyboard-interrupt":
        coordinator.record_crash(node.gateway.id)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print how much is explored, and under which seed."""
    if _seed_key not in config.stash:
        return []
    settings = run_settings(config)
    seed, level = config.stash[_seed_key], settings.explore_level
    return [f"kwait: exploring {settings.explore}, seed {seed}, level {level}"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Explore in this process, unless workers do, or the collection has failed."""
    config = session.config
    failed = session.testsfailed and not config.getoption("continue_on_collection_errors")
    is_worker = hasattr(config, "workerinput")
    if (
        _explorer_key not in config.stash
        or config.pluginmanager.hasplugin("dsession")
        or config.getoption("collectonly")
        or (failed and not is_worker)
    ):
        return None
    config.stash[_explorer_key].explore(session)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_runtestloop")
def pytest_runtestloop_logged(session: pytest.Session) -> Generator[None, object, object]:
    """Log one report for each test at the end, also after an interrupt."""
    try:
        return (yield)
    finally:
        coordinator = session.config.stash.get(_coordinator_key, None)
        if coordinator is not None:
            coordinator.finish()
            session.config.stash[_report_key].log()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Perturb once the namespace of a test is there, and not while it is made."""
    result = yield
    explorer = request.config.stash.get(_explorer_key, None)
    if explorer is not None:
        if fixturedef.argname == "kwait_cluster":
            explorer.cluster = result
        elif fixturedef.argname == "kwait_namespace":
            explorer.perturb()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Perturb the setup of a test whose namespace is there already."""
    explorer = item.config.stash.get(_explorer_key, None)
    if explorer is not None:
        chain = item.listchain()
        if any(each.node in chain for each in namespaces_in_use(item.config)):
            explorer.perturb()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Perturb a test without a namespace of its own."""
    explorer = item.config.stash.get(_explorer_key, None)
    if explorer is not None and uses_cluster(item):
        explorer.perturb()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Perturb nothing while a test is torn down."""
    explorer = item.config.stash.get(_explorer_key, None)
    if explorer is not None:
        explorer.end_perturbing()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record how a run failed; perturb nothing while its artifacts are gathered."""
    explorer = item.config.stash.get(_explorer_key, None)
    if explorer is not None and call.excinfo is not None:
        explorer.end_perturbing()
    report = yield
    if explorer is not None and call.excinfo is not None and report.failed:
        explorer.record_failure(item, call.excinfo.value)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_terminal_summary")
def pytest_terminal_summary_shortened(config: pytest.Config) -> Generator[None, None, None]:
    """Show the short messages of waits in the failures."""
    if _report_key in config.stash:
        config.stash[_report_key].shorten()
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdict, after the failures."""
    if _report_key in config.stash and config.stash[_coordinator_key].tests:
        terminalreporter.section("kwait: explored")
        for line in config.stash[_report_key].lines(config.stash[_seed_key]):
            terminalreporter.line(line)
