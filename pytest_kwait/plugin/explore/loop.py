"""The loop of an exploring process: runs tests under seeds, and shrinks their failures.

Each run is a whole test protocol, so that other plugins see a test as ever. A test, and the
fixtures of its functions, classes and modules, are made anew for each run; those of the session are
shared by the runs of a worker.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.artifacts import ArtifactCollector
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
from pytest_kwait.plugin.internals import prepare_rerun, run_phases, tear_down
from pytest_kwait.plugin.report import ReportWriter
from pytest_kwait.plugin.timeout import running_test_of
from pytest_kwait.suite.explore.plan import Plan, derive_seed
from pytest_kwait.suite.explore.shrink import Budget, Shrunk, Trial, shrink
from pytest_kwait.suite.explore.signatures import make_signature
from pytest_kwait.suite.explore.verdict import ExploredFailure, ExploredRun

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

    from pytest_kwait.plugin.explore.workers import RunQueue
    from pytest_kwait.plugin.run import Run

_SHRINK_SECONDS = 120.0
"""Seconds that the shrinking of one failure may take."""

_SHRINK_LENGTHS = 20
"""Times the length of the failed run that it may take instead, if that is more."""

_MAX_SHRINK_SECONDS = 600.0
"""Seconds that it may take however long the run was."""

_SHRINK_PART = 0.25
"""Part of the remaining time of the exploration that it may take instead."""

_MAX_SHRUNK = 5
"""Distinct failures of one test that a worker shrinks."""
_ENDS = (KeyboardInterrupt, pytest.exit.Exception)


class _Current:
    """The run of a test that is under way.

    Args:
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
        self.seconds = 0.0
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
        run: Run,
        queue: RunQueue,
        level: str,
        only: tuple[str, ...] | None,
        *,
        shrinks: bool,
    ) -> None:
        self.current: _Current | None = None
        self.cluster: Any = None
        self._config = run.config
        self._report = run.find(ReportWriter)
        self._queue = queue
        self._level = level
        self._only = None if only is None else list(only)
        self._shrinks = shrinks
        self._known: dict[str, set[str]] = {}
        self._passed: set[str] = set()
        self._harmless: defaultdict[str, set[str]] = defaultdict(set)
        """The decisions of runs that passed, by test."""
        self._records_waits = True
        collector = run.find(ArtifactCollector)
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

    @contextmanager
    def without_sources_of_trials(self) -> Iterator[None]:
        """Leave the source out of the reports of trials, which nothing shows.

        The source of a failure is parsed from whole files, which can take longer than a trial.
        """
        if self.current is None or not self.current.shrinks:
            yield
            return
        options, style = self._config.option, self._config.getoption("tbstyle", "auto")
        options.tbstyle = "line"
        try:
            yield
        finally:
            options.tbstyle = style

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
    ) -> ExploredRun:
        current = self._run(item, nextitem, _Current(seed, self._only))
        # A test may fail before it uses the cluster, or skip itself once it has.
        explored = current.is_explored
        if current.outcome == "failed":
            explored = explored or uses_cluster(item)
        elif current.outcome == "skipped":
            explored = False
        result = ExploredRun(index, seed, current.outcome, is_explored=explored)
        if current.outcome != "failed":
            self._harmless[item.nodeid].update(current.decisions)
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
                # An interrupt keeps it.
                self._queue.shrink(result)
                failure.shrunk = self._shrink(item, end, current, failure, limit)
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
        seconds = max(_SHRINK_SECONDS, _SHRINK_LENGTHS * failed.seconds)
        seconds = min(seconds, _MAX_SHRINK_SECONDS)
        if limit is not None:
            seconds = min(seconds, limit.remaining * _SHRINK_PART)
        # A trial begins as a command that reproduces the failure does.
        pytest.CallInfo.from_call(
            lambda: tear_down(item.session, end), when="teardown", reraise=_ENDS
        )

        def attempt(only: list[str] | None) -> Trial:
            used = self._only if only is None else only
            current = self._run(item, end, _Current(failed.seed, used, shrinks=True))
            fails = current.failure is not None and current.failure.signature == failure.signature
            return Trial(fails, current.decisions)

        recorded, harmless = self._records_waits, self._harmless[item.nodeid]
        self._record_waits(False)
        try:
            return shrink(failed.decisions, attempt, Budget(Deadline.after(seconds)), harmless)
        finally:
            self._record_waits(recorded)

    def _run(self, item: pytest.Item, nextitem: pytest.Item, current: _Current) -> _Current:
        """Run the protocol of a test, and collect its reports."""
        properties = list(item.user_properties)
        prepare_rerun(item)
        self.current = current
        started = SYSTEM_CLOCK.monotonic()
        try:
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self.end_perturbing()
            self.current = None
            current.seconds = SYSTEM_CLOCK.monotonic() - started
            item.user_properties[:] = properties
        return current

    def run_phases(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test in its protocol, and collect its reports; None if nothing is explored."""
        current = self.current
        if current is None:
            return None
        setup, *others = run_phases(item, nextitem)
        # Between them, subtests have logged theirs.
        current.reports[:] = [setup, *current.reports, *others]
        return True

    def take_report(self, report: pytest.TestReport) -> None:
        """Collect a report that a subtest logs, and leave one of which others show nothing."""
        if self.current is None:
            return
        self.current.reports.append(copy.copy(report))
        # As the report of a setup that passed.
        report.when, report.outcome, report.longrepr = "setup", "passed", None
        report.sections, report.user_properties, report.duration = [], [], 0.0
        for name in [name for name in vars(report) if name.startswith("kwait_")]:
            del vars(report)[name]

    def _record_waits(self, wanted: bool) -> None:
        """Record waits for a report, or not: it has those of the first round, not of its trials."""
        if wanted != self._records_waits:
            self._records_waits = wanted
            if self._report is not None:
                (self._report.resume if wanted else self._report.pause)()

    def _end_session(self, session: pytest.Session, item: pytest.Item, seed: int) -> None:
        """Tear down the fixtures of the session; an error is a failure of the last test."""
        running_test_of(self._config).is_ending = True
        self.current = current = _Current(seed, None)
        call = pytest.CallInfo.from_call(
            lambda: tear_down(session, None), when="teardown", reraise=_ENDS
        )
        report = self._config.hook.pytest_runtest_makereport(item=item, call=call)
        self.current = None
        if report.failed:
            index = session.items.index(item)
            failure = current.failure or ExploredFailure("teardown", "")
            failure.headline = failure_of(report).headline
            result = ExploredRun(
                index, seed, "failed", is_explored=False, failure=failure, reports=[report]
            )
            self._queue.add(result)


def _with_units(items: list[pytest.Item]) -> Iterator[tuple[int, pytest.Item]]:
    """Yield tests with the number of their unit: those of one module that follow each other."""
    unit, last = -1, None
    for item in items:
        owner = _module_of(item)
        if owner is not last:
            unit, last = unit + 1, owner
        yield unit, item


def _module_of(item: pytest.Item) -> pytest.Item | pytest.Collector:
    return next((node for node in item.listchain() if isinstance(node, pytest.File)), item)


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


class ExplorationLoop:
    """Explores the tests of this process, or coordinates the workers that do."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._explorer: Explorer | None = None
        self._coordinator: Coordinator | None = None
        """None in a worker, and if nothing is explored; so are the next two."""
        self._report: ExplorationReport | None = None
        self._seed: int | None = None

    def pytest_configure(self) -> None:
        """Refuse options that cannot be followed; otherwise prepare the exploration."""
        run, config, settings = self._run, self._config, self._run.settings
        effort = settings.explore
        if effort is None:
            for name in ("seed", "explore_level", "perturbations"):
                self._refuse(name, "nothing is explored; give --kwait-explore=N as well")
            return
        if not settings.is_embedded:
            self._refuse(
                "explore",
                "only the embedded cluster can be explored; leave it out, or use that one",
                always=True,
            )
        if run.handed is not None:
            given = run.handed["kwait"]
            connection = ControllerConnection(given["port"], given["secret"])
            queue: RunQueue = RemoteQueue(config, connection, run.worker)
        else:
            self._seed = _make_seed() if settings.seed is None else settings.seed
            self._coordinator = Coordinator(
                config,
                Plan(effort, self._seed),
                int(config.getvalue("maxfail") or 0),
                lambda folder: shutil.rmtree(folder, ignore_errors=True),
            )
            self._report = ExplorationReport(
                config, self._coordinator, settings.explore_level, settings.perturbations
            )
            queue = LocalQueue(self._coordinator)
        reproduces = effort.runs == 1 and settings.perturbations is not None
        self._explorer = Explorer(
            run,
            queue,
            settings.explore_level,
            settings.perturbations,
            # A debugger would stop in each trial.
            shrinks=not reproduces and not config.getoption("usepdb"),
        )

    def _refuse(self, name: str, why: str, *, always: bool = False) -> None:
        """Refuse an option; one set for all runs is ignored, unless it matters `always`."""
        given = self._run.settings.setting(name)
        if always or given.source.startswith("option "):
            raise pytest.UsageError(str(InvalidArgument(name, given.given, why, given.source)))

    # Last: the cluster server is made in this hook.
    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_configure_node(self) -> None:
        """Answer the workers of pytest-xdist."""
        if self._coordinator is not None:
            serve_coordinator(self._run, self._coordinator)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> ExploringScheduler | None:
        """Let workers ask for tests, instead of sending them."""
        if self._coordinator is None:
            return None
        from xdist import workermanage

        # Its name before pytest-xdist 3.7 is the second one.
        parse = (
            getattr(workermanage, "parse_tx_spec_config", None) or workermanage.parse_spec_config
        )
        return ExploringScheduler(self._coordinator, len(parse(config)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Count the run in which a worker crashed."""
        crashed = error is not None and error != "keyboard-interrupt"
        if self._coordinator is not None and crashed:
            self._coordinator.record_crash(node.gateway.id)

    def pytest_report_header(self) -> list[str]:
        """Print how much is explored, and under which seed."""
        if self._seed is None:
            return []
        settings = self._run.settings
        return [
            f"kwait: exploring {settings.explore}, seed {self._seed}, "
            f"level {settings.explore_level}"
        ]

    @pytest.hookimpl(wrapper=True, specname="pytest_runtestloop")
    def pytest_runtestloop_logged(self) -> Generator[None, object, object]:
        """Log one report for each test at the end, also after an interrupt."""
        try:
            return (yield)
        finally:
            if self._coordinator is not None and self._report is not None:
                self._coordinator.finish()
                self._report.log()

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Explore in this process, unless workers do, or the collection has failed."""
        config = self._config
        failed = session.testsfailed and not config.getoption("continue_on_collection_errors")
        if (
            self._explorer is None
            or config.pluginmanager.hasplugin("dsession")
            or config.getoption("collectonly")
            or (failed and not self._run.is_worker)
        ):
            return None
        self._explorer.explore(session)
        return True

    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Run an explored test, whose reports are collected instead of logged."""
        return None if self._explorer is None else self._explorer.run_phases(item, nextitem)

    # First: others see what is left of the report.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Collect the reports that explored tests log for their subtests."""
        if self._explorer is not None:
            self._explorer.take_report(report)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        """Perturb once the namespace of a test is there, and not while it is made."""
        result = yield
        if self._explorer is not None:
            if fixturedef.argname == "kwait_cluster":
                self._explorer.cluster = result
            elif fixturedef.argname == "kwait_namespace":
                self._explorer.perturb()
        return result

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Perturb the setup of a test whose namespace is there already."""
        if self._explorer is not None:
            chain = item.listchain()
            if any(namespace.node in chain for namespace in namespaces_in_use(self._config)):
                self._explorer.perturb()

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Perturb a test without a namespace of its own."""
        if self._explorer is not None and uses_cluster(item):
            self._explorer.perturb()

    # First: nothing that is torn down is perturbed.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Perturb nothing while a test is torn down."""
        if self._explorer is not None:
            self._explorer.end_perturbing()
        return (yield)

    # First: artifacts are gathered in other wrappers.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record how a run failed; perturb nothing while its artifacts are gathered."""
        explorer = self._explorer
        if explorer is None:
            return (yield)
        if call.excinfo is not None:
            explorer.end_perturbing()
        with explorer.without_sources_of_trials():
            report = yield
        if call.excinfo is not None and report.failed:
            explorer.record_failure(item, call.excinfo.value)
        return report

    # First: around pytest's own, which prints the failures.
    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_terminal_summary")
    def pytest_terminal_summary_shortened(self) -> Generator[None, None, None]:
        """Show the short messages of waits in the failures."""
        if self._report is not None:
            self._report.shorten()
        return (yield)

    # Last: below the failures.
    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the verdict."""
        coordinator, report, seed = self._coordinator, self._report, self._seed
        if coordinator is None or report is None or seed is None or not coordinator.tests:
            return
        terminalreporter.section("kwait: explored")
        for line in report.lines(seed):
            terminalreporter.line(line)


def _make_seed() -> int:
    return derive_seed(int.from_bytes(os.urandom(8), "big"), 0)
