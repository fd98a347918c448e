"""`--kwait-report`: every process records its waits, the controller writes the reports.

Each record is one line of a file, written as it happens: a process that is killed loses
only what was not complete. Needed with that option.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.failures import Failure, failure_of, raising_waits_of, relative_path
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.run import worker_output
from pytest_kwait.plugin.summary import locate_calls
from pytest_kwait.plugin.timeout import running_item

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.report.records import Journal, RunRecord, WaitRecorder

_OUTCOMES_BY_SEVERITY = (
    *("passed", "xpassed", "skipped", "xfailed"),
    *("rerun", "error", "failed", "crashed"),
)
_BAD = _OUTCOMES_BY_SEVERITY[-4:]
"""The outcomes of phases that failed."""


class OutcomeRecorder:
    """Records the outcome of each test, and writes the reports at the end.

    Args:
        run: the record of the run at its start.
    """

    __test__ = False

    def __init__(self, config: pytest.Config, journal: Journal, run: RunRecord) -> None:
        self._config = config
        self.journal = journal
        self.run = run
        self.lost: list[str] = []
        self._open: dict[tuple[str, str], tuple[str, str, float]] = {}
        self._failures: dict[tuple[str, str], tuple[str, Failure]] = {}
        """The first failed phase of each unfinished test."""
        self._count = 0
        self._uncollected: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record collection errors; all workers report the same."""
        if report.failed and report.nodeid not in self._uncollected:
            self._uncollected.add(report.nodeid)
            self._write(report.nodeid, "", "error", report.longreprtext, 0.0)

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Record a phase of a test, in whichever process it ran."""
        node = getattr(report, "node", None)
        worker = "" if node is None else str(node.gateway.id)
        key = (report.nodeid, worker)
        outcome, text, seconds = self._open.pop(key, ("passed", "", 0.0))
        outcome = _worse_outcome(outcome, _outcome(report))
        if report.failed and not text:
            text = report.longreprtext
        if _outcome(report) in _BAD:
            phase = "crashed" if _outcome(report) == "crashed" else str(report.when)
            failure = failure_of(report)
            _, first = self._failures.setdefault(key, (phase, failure))
            first.recording = first.recording or failure.recording
        seconds += getattr(report, "duration", 0.0)
        if report.when in ("setup", "call"):
            self._open[key] = (outcome, text, seconds)
        else:
            explored = vars(report).get("kwait_explored")
            self._write(report.nodeid, worker, outcome, text, seconds, explored)
        return (yield)

    def _write(
        self,
        test: str,
        worker: str,
        outcome: str,
        text: str,
        seconds: float,
        explored: dict[str, Any] | None = None,
    ) -> None:
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.engine.failure.redaction import make_redactor
        from pytest_kwait.suite.report.records import JournalEntry, TestRecord, limit_failure_text

        self._count += 1
        phase, failure = self._failures.pop((test, worker), ("", Failure("")))
        self.run.tests[outcome] = self.run.tests.get(outcome, 0) + 1
        record = TestRecord(
            id=f"{self.run.id}.{self._count}",
            run=self.run.id,
            test=test,
            outcome=outcome,
            ended=round(SYSTEM_CLOCK.time(), 3),
            seconds=round(seconds, 3),
            shard=self.run.shard,
            worker=worker,
            text=limit_failure_text(text, make_redactor(())) if text else "",
            recording=self._shorten(failure.recording),
            explored=explored,
            headline=failure.headline,
            phase=phase,
            place=failure.place,
            step=failure.step,
            namespaces=list(failure.namespaces),
            folder=self._shorten(failure.folder),
            kubectl=failure.kubectl,
            cluster=failure.cluster,
        )
        self.journal.write(JournalEntry(test=record))

    def _shorten(self, path: str) -> str:
        return relative_path(self._config, path) if path else ""

    def finish(self, reports: tuple[Path, ...], exit_status: int) -> list[str]:
        """Write the reports; return a line for each."""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.engine.failure.redaction import SECRET_VALUES
        from pytest_kwait.suite.report.files import (
            list_journals,
            remove_journals,
            report_from_journals,
            write_report,
        )
        from pytest_kwait.suite.report.records import JournalEntry
        from pytest_kwait.suite.report.run_report import hide_values

        self.run.ended = round(SYSTEM_CLOCK.time(), 3)
        self.run.exit_status = exit_status
        self.run.lost = "; ".join(dict.fromkeys(filter(None, (*self.lost, self.journal.lost))))
        self.journal.write(JournalEntry(run=self.run))
        self.journal.close()
        folder = self.journal.path.parent
        try:
            journals = list_journals(folder, self.run.id)
            report = report_from_journals(journals)
        except OSError as error:
            return [f"kwait: no report: {folder}: {error.strerror}"]
        if not any(run.ended for run in report.runs):
            # The end of the run could not be recorded.
            report.runs = [self.run]
        hide_values(report, SECRET_VALUES)
        lines = []
        written = True
        for path in reports:
            try:
                write_report(report, path)
                lines.append(f"kwait: report {path}")
            except OSError as error:
                written = False
                lines.append(
                    f"kwait: report {path} could not be written: {error.strerror}; what was "
                    f"recorded is in {folder}, for kwait report merge"
                )
        if written:
            remove_journals(journals)
        return lines


class ReportWriter:
    """Records the waits of this process; in the controller, writes the reports at the end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._recorder: WaitRecorder | None = None
        """None if nothing is recorded."""
        self._outcomes: OutcomeRecorder | None = None
        """None in a worker."""
        self._lines: list[str] = []

    # First: before pytest-xdist starts workers, which are given the journals' folder.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Start recording; a report that cannot be written ends the run before any test."""
        handed: dict[str, str] | None = (self._run.handed or {}).get("kwait_report")
        if handed is not None:
            name = f"{handed['run']}-{self._run.worker}.jsonl"
            self._record_waits(Path(handed["folder"]) / name, handed["run"])
        elif not self._config.getoption("collectonly"):
            try:
                self._start()
            except InvalidArgument as error:
                raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker of pytest-xdist the place of its journal."""
        if self._outcomes is not None:
            node.workerinput["kwait_report"] = {
                "folder": str(self._outcomes.journal.path.parent),
                "run": self._outcomes.run.id,
            }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Record what a worker could not record."""
        lost = worker_output(node).get("kwait_report_lost")
        if lost and self._outcomes is not None:
            self._outcomes.lost.append(lost)

    # Last: the innermost wrapper; after the hooks of the session's end, before the terminal's
    # wrapper prints the summary.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, object, object]:
        """Write the reports after everything else of the session's end."""
        result = yield
        if self._recorder is not None:
            self._stop()
            output = self._run.output
            if output is not None:
                output["kwait_report_lost"] = self._recorder.journal.lost
                self._recorder.journal.close()
        if self._outcomes is not None:
            status = int(getattr(session, "exitstatus", exitstatus))
            self._lines = self._outcomes.finish(self._run.settings.report, status)
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the paths of the reports."""
        for line in self._lines:
            terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Stop recording, however the session ended."""
        self._stop()

    # First: it sees a report that all others have completed, an expected failure's too.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record which failed waits did not fail the test."""
        report = yield
        if self._recorder is not None:
            raised = raising_waits_of(item) if report.failed else ()
            self._recorder.record_caught(item.nodeid, raised)
        return report

    def pause(self) -> None:
        """Record no waits for now."""
        if self._recorder is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            ACTIVE_WAITS.remove(self._recorder)

    def resume(self) -> None:
        """Record waits again."""
        if self._recorder is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            ACTIVE_WAITS.add(self._recorder)

    def _stop(self) -> None:
        """Record no waits; the outcomes of tests are still recorded."""
        self.pause()
        if self._recorder is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            ACTIVE_WAITS.locate_call = None

    def record_playback(
        self, test: str, worker: str, recording: str, redact: Callable[[str], str]
    ) -> None:
        """Record what the page plays of a test's recording.

        Args:
            test: the id of the test.
            worker: its worker; empty without pytest-xdist.
            redact: redacts what the recording has of objects.
        """
        recorder = self._recorder
        if recorder is None:
            return
        from pytest_kwait.simulator.protocol.recording.files import read_recording
        from pytest_kwait.suite.report.playback import make_playback
        from pytest_kwait.suite.report.records import JournalEntry, PlayedTest

        playback = make_playback(read_recording(Path(recording)), redact)
        shown = relative_path(self._config, recording)
        played = PlayedTest(recorder.run, test, worker, shown, playback)
        recorder.journal.write(JournalEntry(played=played))

    def _start(self) -> None:
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.report.commit import find_commit
        from pytest_kwait.suite.report.files import check_writable, partial_folder
        from pytest_kwait.suite.report.records import JournalEntry, RunRecord

        run, settings = self._run, self._run.settings
        for path in settings.report:
            check_writable(path, "report", settings.source("report"))
        record = RunRecord(
            id=f"{run.id}-{os.urandom(4).hex()}",
            name=run.id,
            started=round(SYSTEM_CLOCK.time(), 3),
            shard=run.shard,
            cluster=run.cluster_name,
            commit=find_commit(self._config.rootpath, os.environ),
        )
        folder = partial_folder(settings.report[0])
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidArgument(
                "report",
                str(settings.report[0]),
                f"{folder} cannot be made: {error.strerror}",
                settings.source("report"),
            ) from None
        recorder = self._record_waits(folder / f"{record.id}-main.jsonl", record.id)
        if recorder is None:
            return
        recorder.journal.write(JournalEntry(run=record))
        self._outcomes = OutcomeRecorder(self._config, recorder.journal, record)
        self._config.pluginmanager.register(self._outcomes, "kwait-report")

    def _record_waits(self, path: Path, record: str) -> WaitRecorder | None:
        """Record the waits of this process.

        Args:
            path: the journal.
            record: the id of the run's record.

        Returns:
            None in a worker on another file system: its tests run nevertheless.
        """
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.suite.report.records import Journal, WaitRecorder

        def test() -> str:
            item = running_item(self._config)
            return "" if item is None else item.nodeid

        run = self._run
        try:
            journal = Journal(path)
        except OSError as error:
            lost = f"{path}: {error.strerror}"
            if run.output is not None:
                run.output["kwait_report_lost"] = lost
                return None
            raise InvalidArgument(
                "report", str(path), lost, run.settings.source("report")
            ) from None
        self._recorder = WaitRecorder(journal, record, run.shard, run.worker, test)
        ACTIVE_WAITS.add(self._recorder)
        locate_calls(self._config)
        return self._recorder


def _outcome(report: pytest.TestReport) -> str:
    if report.when not in ("setup", "call", "teardown"):
        return "crashed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return str(report.outcome)


def _worse_outcome(first: str, second: str) -> str:
    return max(
        first,
        second,
        key=lambda outcome: (
            _OUTCOMES_BY_SEVERITY.index(outcome) if outcome in _OUTCOMES_BY_SEVERITY else -1
        ),
    )
