"""`--kwait-report`: every process records its waits, the controller writes the reports.

Each record is one line of a file, written as it happens: a process that is killed loses
only what was not complete. Registered with that option.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.plugin.failures import failure_of, relative_path
from pytest_kwait.plugin.run import format_shard, guard_report, run_of, running_item
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.plugin.summary import locate_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_kwait.suite.report.records import Journal, RunRecord, WaitRecorder

_recorder_key: pytest.StashKey[WaitRecorder] = pytest.StashKey()
_outcome_recorder_key: pytest.StashKey[OutcomeRecorder] = pytest.StashKey()
_lines_key = pytest.StashKey[list[str]]()


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
        self._recordings: dict[tuple[str, str], str] = {}
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
        if report.failed and (recording := failure_of(report).recording):
            self._recordings[key] = recording
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
        recording = self._recordings.pop((test, worker), "")
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
            recording=relative_path(self._config, recording) if recording else "",
            explored=explored,
        )
        self.journal.write(JournalEntry(test=record))

    def finish(self, reports: tuple[Path, ...], exit_status: int) -> list[str]:
        """Write the reports; return a line for each."""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.report.files import (
            list_journals,
            remove_journals,
            report_from_journals,
            write_report,
        )
        from pytest_kwait.suite.report.records import JournalEntry

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


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Start recording; a report that cannot be written ends the run before any test."""
    config = session.config
    handed: dict[str, str] | None = getattr(config, "workerinput", {}).get("kwait_report")
    if handed is not None:
        name = f"{handed['run']}-{run_of(config).worker}.jsonl"
        _record_waits(config, Path(handed["folder"]) / name, handed["run"])
    elif not config.getoption("collectonly"):
        try:
            _start_recording(config)
        except InvalidArgument as error:
            raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of pytest-xdist the place of its journal."""
    log = node.config.stash.get(_outcome_recorder_key, None)
    if log is not None:
        node.workerinput["kwait_report"] = {
            "folder": str(log.journal.path.parent),
            "run": log.run.id,
        }


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Record what a worker could not record."""
    lost = (getattr(node, "workeroutput", None) or {}).get("kwait_report_lost")
    log = node.config.stash.get(_outcome_recorder_key, None)
    if lost and log is not None:
        log.lost.append(lost)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(
    session: pytest.Session, exitstatus: int
) -> Generator[None, object, object]:
    """Write the reports after everything else of the session's end."""
    result = yield
    config = session.config
    recorder = config.stash.get(_recorder_key, None)
    if recorder is not None:
        stop_recording(config)
        output = getattr(config, "workeroutput", None)
        if output is not None:
            output["kwait_report_lost"] = recorder.journal.lost
            recorder.journal.close()
    log = config.stash.get(_outcome_recorder_key, None)
    if log is not None:
        status = int(getattr(session, "exitstatus", exitstatus))
        config.stash[_lines_key] = log.finish(run_settings(config).report, status)
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the paths of the reports."""
    for line in config.stash.get(_lines_key, []):
        terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop recording, however the session ended."""
    stop_recording(config)


def pause_recording(config: pytest.Config) -> None:
    """Record no waits for now, if there is a report."""
    recorder = config.stash.get(_recorder_key, None)
    if recorder is not None:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.remove(recorder)


def resume_recording(config: pytest.Config) -> None:
    """Record waits again, if there is a report."""
    recorder = config.stash.get(_recorder_key, None)
    if recorder is not None:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.add(recorder)


def record_playback(
    config: pytest.Config, test: str, worker: str, recording: str, redact: Callable[[str], str]
) -> None:
    """Record what the page plays of a test's recording, if there is a report.

    Args:
        test: the id of the test.
        worker: its worker; empty without pytest-xdist.
        recording: the file of its recording.
        redact: redacts what the recording has of objects.
    """
    recorder = config.stash.get(_recorder_key, None)
    if recorder is None:
        return
    from pytest_kwait.simulator.recording.files import read_recording
    from pytest_kwait.suite.report.playback import make_playback
    from pytest_kwait.suite.report.records import JournalEntry, PlayedTest

    playback = make_playback(read_recording(Path(recording)), redact)
    played = PlayedTest(recorder.run, test, worker, relative_path(config, recording), playback)
    recorder.journal.write(JournalEntry(played=played))


def _start_recording(config: pytest.Config) -> None:
    from pytest_kwait.clock import SYSTEM_CLOCK
    from pytest_kwait.suite.report.files import check_writable, partial_folder
    from pytest_kwait.suite.report.records import JournalEntry, RunRecord

    settings = run_settings(config)
    for path in settings.report:
        check_writable(path, "report", settings.source("report"))
    run = run_of(config)
    named = settings.kubeconfig is not None or settings.context is not None
    provider = settings.cluster
    if provider == "auto":
        provider = "existing" if named else "embedded"
    record = RunRecord(
        id=f"{run.id}-{os.urandom(4).hex()}",
        name=run.id,
        started=round(SYSTEM_CLOCK.time(), 3),
        shard=format_shard(config),
        cluster=" ".join(filter(None, (provider, settings.context))),
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
    _record_waits(config, folder / f"{record.id}-main.jsonl", record.id)
    journal = config.stash[_recorder_key].journal
    journal.write(JournalEntry(run=record))
    log = config.stash[_outcome_recorder_key] = OutcomeRecorder(config, journal, record)
    config.pluginmanager.register(log, "kwait-report")


def _record_waits(config: pytest.Config, path: Path, run: str) -> None:
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS
    from pytest_kwait.suite.report.records import Journal, WaitRecorder

    def test() -> str:
        item = running_item(config)
        return "" if item is None else item.nodeid

    try:
        journal = Journal(path)
    except OSError as error:
        # A worker on another file system: its tests run nevertheless.
        lost = f"{path}: {error.strerror}"
        if hasattr(config, "workeroutput"):
            config.workeroutput["kwait_report_lost"] = lost
            return
        raise InvalidArgument(
            "report", str(path), lost, run_settings(config).source("report")
        ) from None
    worker = run_of(config).worker
    recorder = config.stash[_recorder_key] = WaitRecorder(
        journal, run, format_shard(config), worker, test
    )
    ACTIVE_WAITS.add(recorder)
    locate_calls(config)


def stop_recording(config: pytest.Config) -> None:
    """Record no waits; the outcomes of tests are still recorded."""
    pause_recording(config)
    if _recorder_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        ACTIVE_WAITS.locate_call = None


def _outcome(report: pytest.TestReport) -> str:
    if report.when not in ("setup", "call", "teardown"):
        return "crashed"
    if report.failed:
        return "failed" if report.when == "call" else "error"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return str(report.outcome)


_OUTCOMES_BY_SEVERITY = ("passed", "skipped", "xfailed", "rerun", "error", "failed", "crashed")


def _worse_outcome(one: str, other: str) -> str:
    return max(
        one,
        other,
        key=lambda outcome: (
            _OUTCOMES_BY_SEVERITY.index(outcome) if outcome in _OUTCOMES_BY_SEVERITY else -1
        ),
    )
