"""Artifacts of failed tests: one folder each, with failure, evidence and dumps.

Needed if there is a folder for them.

Each process writes the folders of its own tests as soon as a phase has failed: the objects
of the test still exist then.

Workers of pytest-xdist record the namespaces and waits of their tests. When a worker
dies, its controller reads that record and dumps the namespaces, beside the tests of other
workers and before the end-of-run cleanup.

pytest-timeout's thread method ends the process with the test: without pytest-xdist the
artifacts are written before it does.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.failure_list import FailureList
from pytest_kwait.plugin.failures import (
    Failure,
    failed_waits_in,
    failure_of,
    find_further_cluster,
    group_by_client,
    headline_of,
    namespaces_of,
    redaction_of,
    relative_path,
)
from pytest_kwait.plugin.internals import finish_fixture
from pytest_kwait.plugin.live_status import write_line
from pytest_kwait.plugin.recording import RecordedFailure, RecordingWriter
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.timeout import running_item, time_left

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.artifacts.crash_journal import CrashJournal
    from pytest_kwait.suite.artifacts.folder import ArtifactFolder
    from pytest_kwait.suite.report.records import NamespaceUse, WaitRecorder
    from pytest_kwait.temp_dir import TempDir

CRASH_DUMP_TIMEOUT = 15.0
"""Seconds for the dump of one test."""

CRASH_DUMPS_TIMEOUT = 600.0
"""Seconds for the dumps of all crashed workers."""

_MIN_DUMP_SECONDS = 0.2
"""Seconds below which a dump is not started."""

_DUMP_PART = 0.5
"""Part of the time until the test's own timeout; the rest is for its teardown."""

_NO_FAILURES = (
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    pytest.exit.Exception,
    pytest.skip.Exception,
)
"""Errors that end a block or a fixture, and are no failure of the test."""

_attempt_key: pytest.StashKey[_Attempt] = pytest.StashKey()


class _Attempt:
    """The artifacts of the present attempt at a test."""

    def __init__(self) -> None:
        self.number = 1
        self._has_begun = False
        self.folder: ArtifactFolder | None = None
        self.dumped: set[str] = set()
        """The namespaces that are in the folder."""
        self.timer: threading.Timer | None = None
        """Writes the folder before pytest-timeout ends the process."""
        self.phase = "setup"
        self.left_by: BaseException | None = None
        """The error that has ended the last block of a namespace; None before one has."""
        self.is_provisional = False
        """True while the folder has only what such blocks held, and no failure was reported."""

    def begin(self) -> None:
        """Begin the next attempt, with its setup."""
        self.number += self._has_begun
        self._has_begun = True
        self.phase, self.left_by = "setup", None
        self.forget_folder()

    def forget_folder(self) -> None:
        """Write to a new folder from now on."""
        self.folder, self.dumped, self.is_provisional = None, set(), False


def _is_in_chain(error: BaseException, failure: BaseException | None) -> bool:
    """Return whether a failure is an error, has it, or was raised while that was handled."""
    pending, seen = [failure], set[int]()
    while pending:
        member = pending.pop()
        if member is error:
            return True
        # An error may be its own cause.
        if member is not None and id(member) not in seen:
            seen.add(id(member))
            pending += [member.__cause__, member.__context__]
            if isinstance(member, BaseExceptionGroup):
                pending += member.exceptions
    return False


def _journal_path(folder: Path, worker: str) -> Path:
    return folder / f"{worker}.jsonl"


def _attempt_of(item: pytest.Item) -> _Attempt:
    return item.stash.setdefault(_attempt_key, _Attempt())


class CrashDumper:
    """Dumps namespaces of crashed workers, one after the other, in a thread."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._left = CRASH_DUMPS_TIMEOUT
        self.troubles: list[str] = []
        """Why something could not be written."""

    def start(self, places: tuple[NamespaceUse, ...], files: ArtifactFolder) -> None:
        """Start the dump of namespaces into a folder, which `finish` completes."""
        # Now: pytest rewrites a module of ours as it is first imported, and to do so in two
        # threads at a time is an error in Python 3.11.
        from concurrent.futures import ThreadPoolExecutor

        from pytest_kwait.suite.artifacts import crash_journal as last_words

        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="kwait-rescue")
        self._threads.submit(self._gather, places, files, last_words.dump_crashed_namespaces)

    def finish(self, *, patient: bool) -> None:
        """Wait until all dumps are written; without patience only the current one."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=not patient)
            self._threads = None

    def _gather(self, places: tuple[NamespaceUse, ...], files: ArtifactFolder, dump: Any) -> None:
        from pytest_kwait.clock import Deadline

        names = ", ".join(place.namespace for place in places)
        deadline = Deadline.after(min(CRASH_DUMP_TIMEOUT, self._left))
        if deadline.expired:
            files.problem(
                f"namespaces {names} are left out: what was gathered for tests before it leaves no "
                "time"
            )
        else:
            before = deadline.remaining
            dump(places, files, before)
            self._left -= before - deadline.remaining
        files.finish()
        if files.trouble:
            self.troubles.append(files.trouble)


class ArtifactCollector:
    """Writes the folders of failed tests of this process, and counts those of all.

    Args:
        run: the run, which has a folder for artifacts.
    """

    def __init__(self, run: Run) -> None:
        # Now, while there are no threads: pytest rewrites a module of ours as it is first imported,
        # and to do so in two threads at a time is an error in Python 3.11.
        from pytest_kwait.suite.artifacts import dump as dumps

        assert run.settings.artifacts is not None  # noqa: S101 - the condition of this object
        self._run = run
        self._config = run.config
        self._path: Path = run.settings.artifacts
        self._dump_namespaces = dumps.dump_namespaces
        self._left = CRASH_DUMPS_TIMEOUT
        self._tests: set[str] = set()
        self._trouble = ""
        self._crash_dumper = CrashDumper()
        self._journal_folder: TempDir | None = None
        """The journals of the workers; None before the first one is configured."""
        self._recorder: WaitRecorder | None = None
        """The journal of this worker."""
        self.wants: Callable[[pytest.Item, BaseException], bool] = lambda item, error: True
        """Returns whether a failure of a test gets a folder."""
        self._torn_down: pytest.Item | None = None
        """The test whose teardown has begun; None while one is set up."""
        self._failures = FailureList(run, self._path)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Refuse a folder that cannot be written to."""
        if self._run.is_worker or config.getoption("collectonly"):
            return
        problem = _write_error(self._path)
        if problem:
            given = self._run.settings.setting("artifacts")
            valid = f"use a folder that can be made and written to ({problem})"
            raise pytest.UsageError(
                str(InvalidArgument("artifacts", given.given, valid, given.source))
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Give a worker the place of its journal."""
        if self._journal_folder is None:
            from pytest_kwait.temp_dir import TempDir

            self._journal_folder = TempDir("workers-")
        node.workerinput["kwait_words"] = str(self._journal_folder.path)

    def pytest_sessionstart(self) -> None:
        """Start the journal of this worker."""
        folder: str | None = (self._run.handed or {}).get("kwait_words")
        if folder is None:
            return
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.suite.report.records import Journal, WaitRecorder

        run = self._run
        try:
            journal = Journal(_journal_path(Path(folder), run.worker))
        except OSError:
            # A worker on another file system: nothing more is known if it crashes.
            return

        def test() -> str:
            item = running_item(self._config)
            return "" if item is None else item.nodeid

        self._recorder = WaitRecorder(journal, run.id, run.shard, run.worker, test)
        ACTIVE_WAITS.add(self._recorder)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Finish the dumps before the run's objects are removed."""
        self._crash_dumper.finish(patient=exitstatus != pytest.ExitCode.INTERRUPTED)
        if not self._run.is_worker and not self._config.getoption("collectonly"):
            self._failures.finish(is_green=exitstatus == pytest.ExitCode.OK)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the path of the artifacts, and errors."""
        for line in self._lines():
            terminalreporter.line(line)

    def pytest_unconfigure(self) -> None:
        """Close and remove the journals."""
        if self._recorder is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            recorder, self._recorder = self._recorder, None
            ACTIVE_WAITS.remove(recorder)
            recorder.journal.close()
        self._crash_dumper.finish(patient=False)
        if self._journal_folder is not None:
            self._journal_folder.remove()

    def record_namespace_entered(self, namespace: str, cluster: Cluster) -> None:
        """Record that tests of this process use a namespace."""
        if self._recorder is not None:
            from pytest_kwait.suite.report.records import JournalEntry, NamespaceUse

            place = NamespaceUse(
                namespace,
                provider=cluster.provider,
                kubeconfig=str(cluster.kubeconfig),
                context=cluster.context,
                cluster=self._run.name_of(cluster),
            )
            self._recorder.journal.write(JournalEntry(place=place))

    def record_namespace_left(self, namespace: str) -> None:
        """Record that no test of this process uses a namespace any more."""
        if self._recorder is not None:
            from pytest_kwait.suite.report.records import JournalEntry, NamespaceUse

            self._recorder.journal.write(JournalEntry(place=NamespaceUse(namespace, left=True)))

    def record_failed_use(self, namespace: str, error: BaseException) -> None:
        """Write what a namespace holds, before the error that leaves its block removes it.

        The report of the failure is made after that. If the test handles the error, what was
        written is removed.

        Args:
            namespace: a namespace that still exists.
        """
        item = running_item(self._config)
        if item is None or isinstance(error, _NO_FAILURES) or not self.wants(item, error):
            return
        attempt = _attempt_of(item)
        is_new = attempt.folder is None
        with self._writing(item) as folder:
            if folder is None:
                return
            attempt.is_provisional = attempt.is_provisional or is_new
            if attempt.left_by is not None:
                self._forget_unless_in(item, attempt.left_by, error)
            attempt.left_by = error
            further = find_further_cluster(self._run, [error])
            self._record(
                item,
                folder,
                RecordedFailure(
                    attempt.phase,
                    headline_of(error),
                    cluster="" if further is None else further.name,
                ),
            )
            self._dump(item, folder, [namespace])

    def _read_worker_journal(self, worker: str) -> CrashJournal:
        """Return the journal of a crashed worker."""
        from pytest_kwait.suite.artifacts.crash_journal import CrashJournal, read_crash_journal

        if self._journal_folder is None:
            return CrashJournal()
        return read_crash_journal(_journal_path(self._journal_folder.path, worker))

    # First: the report is complete, and the objects of the test still exist.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the folder of a test once a phase of it has failed."""
        waits = list(failed_waits_in(call.excinfo.value if call.excinfo is not None else None))
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        self._settle_provisional(item, error if report.failed else None)
        if report.failed and (error is None or self.wants(item, error)):
            failure = failure_of(report)
            # Namespaces of a failed teardown were dumped during it.
            seen = (*failure.namespaces, *sorted(_attempt_of(item).dumped))
            failure.namespaces = tuple(dict.fromkeys(seen))
            with self._writing(item) as folder:
                if folder is not None:
                    part = "-teardown" if report.when == "teardown" else ""
                    folder.write(f"failure{part}.txt", _plain_longrepr(report))
                    known = [{"error": type(wait).__name__, **wait.evidence} for wait in waits]
                    facts = self._evidence(item, report.when, failure, known)
                    folder.write(f"evidence{part}.json", facts)
                    # First: it is due at the failure, and takes one request.
                    failure.recording = self._record(
                        item,
                        folder,
                        RecordedFailure(
                            report.when, failure.headline, call.stop, failure.further_cluster
                        ),
                    )
                    self._dump(item, folder)
                    failure.folder = str(folder.path)
                    failure.trouble = folder.trouble
                else:
                    failure.trouble = self._trouble
            failure.attach(report)
        elif report.passed and report.when == "call":
            self._record_passed(item)
        return report

    def _settle_provisional(self, item: pytest.Item, error: BaseException | None) -> None:
        """Keep what a block of a namespace has left if its error is the failure of the test.

        Args:
            error: the failure; None without one.
        """
        attempt = _attempt_of(item)
        left_by, attempt.left_by = attempt.left_by, None
        if left_by is None:
            return
        self._forget_unless_in(item, left_by, error)
        if error is None and attempt.is_provisional and attempt.folder is not None:
            shutil.rmtree(attempt.folder.path, ignore_errors=True)
            attempt.forget_folder()
        attempt.is_provisional = False

    def _forget_unless_in(
        self, item: pytest.Item, handled: BaseException, error: BaseException | None
    ) -> None:
        """Forget the recording of an error that the test has handled, if another one follows."""
        recorder = self._run.find(RecordingWriter)
        if recorder is not None and not _is_in_chain(handled, error):
            recorder.forget(item)

    def _record_passed(self, item: pytest.Item) -> None:
        recorder = self._run.find(RecordingWriter)
        # Without a namespace there is nothing to record.
        if recorder is None or not recorder.records_passed_tests or not namespaces_of(item):
            return
        with self._writing(item) as folder:
            if folder is not None:
                self._record(item, folder)

    def _record(
        self, item: pytest.Item, folder: ArtifactFolder, failure: RecordedFailure | None = None
    ) -> str:
        """Write the recording of a test; return its path, empty without one."""
        recorder = self._run.find(RecordingWriter)
        if recorder is None:
            return ""
        return recorder.record_test(item, folder, namespaces_of(item), failure)

    # First: fixtures may fail in it.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt.

        Nothing is dumped if the setup tears down a fixture, to make it with another parameter.
        """
        _attempt_of(item).begin()
        self._torn_down = None

    # First: the test runs in it.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Record that the test itself begins."""
        _attempt_of(item).phase = "call"

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Record whose teardown begins."""
        _attempt_of(item).phase = "teardown"
        self._torn_down = item

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Dump the namespaces of a test as soon as the teardown of a fixture fails.

        They no longer exist when the report of the teardown is made. A function that was given to
        `node.addfinalizer` is no fixture: if it fails, the report alone is written.
        """
        try:
            return (yield)
        finally:
            # The first finalizer that is called: the others are called by it.
            fixturedef.addfinalizer(lambda: self._finish_fixture(fixturedef, request))

    # First: other plugins read the folder of a crashed worker's test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Count the folders of all processes; write those of crashed workers."""
        if not self._run.is_worker:
            self._take(report)
        yield

    def _take(self, report: pytest.TestReport) -> None:
        if not report.failed and "kwait_failure" not in vars(report):
            return
        failure = failure_of(report)
        if not failure.folder and not failure.trouble:
            # A crashed worker has written nothing; the controller reports its test.
            self._write_crash(report)
            failure = failure_of(report)
        if failure.folder:
            self._tests.add(report.nodeid)
        self._failures.add(report, failure)
        self._trouble = self._trouble or failure.trouble

    def _lines(self) -> Iterator[str]:
        """Return a line with the path of the artifacts, and one with errors."""
        count = len(self._tests)
        if count:
            where = relative_path(self._config, str(self._path))
            yield f"kwait: artifacts of {count} failed {'test' if count == 1 else 'tests'}: {where}"
        if self._failures.line:
            yield self._failures.line
        troubles = (self._trouble, *self._crash_dumper.troubles, self._failures.trouble)
        trouble = next(filter(None, troubles), "")
        if trouble:
            yield f"kwait: artifacts could not be written: {trouble}"

    def _write_crash(self, report: pytest.TestReport) -> None:
        """Write the known facts of a test whose worker crashed; its namespaces are dumped later."""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.engine.failure.redaction import make_redactor
        from pytest_kwait.suite.artifacts.folder import (
            ArtifactFolder,
            create_folder,
            make_folder_name,
        )

        failure = failure_of(report)
        gateway = getattr(getattr(report, "node", None), "gateway", None)
        worker = str(getattr(gateway, "id", ""))
        name = make_folder_name(report.nodeid, worker=worker, shard=self._run.shard)
        words = self._read_worker_journal(worker)
        self._run.mask_secrets()
        failure.namespaces = tuple(place.namespace for place in words.places)
        failure.kubectl = next(filter(None, map(_kubectl_for, words.places)), [])
        try:
            folder = ArtifactFolder(create_folder(self._path, name), make_redactor(()))
        except OSError as error:
            failure.trouble = str(error)
        else:
            folder.write("failure.txt", _plain_longrepr(report))
            waits = words.waits(report.nodeid, SYSTEM_CLOCK.time())
            facts = {"test": report.nodeid, "phase": "crashed"}
            folder.write("evidence.json", self._facts(facts, worker, failure, waits))
            recorder = self._run.find(RecordingWriter)
            if recorder is not None:
                failure.recording = recorder.record_crashed_test(
                    report.nodeid, worker, folder, words
                )
            if words.places and not folder.trouble:
                self._crash_dumper.start(words.places, folder)
            failure.folder, failure.trouble = str(folder.path), folder.trouble
        failure.attach(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """Set a timer that writes artifacts before pytest-timeout's thread method ends the process.

        The signal method, and workers with a living controller, are left to pytest-timeout.
        """
        # As in pytest-timeout: only the main thread gets signals.
        main = threading.current_thread() is threading.main_thread()
        if self._run.is_worker or (settings.method == "signal" and main):
            return None
        timer = threading.Timer(settings.timeout, self._on_timeout, (item, settings))
        timer.name = f"kwait expiry {item.nodeid}"
        _attempt_of(item).timer = timer
        timer.start()
        return True

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> bool | None:
        """Cancel that timer; if it has fired, wait for the end of the process."""
        attempt = _attempt_of(item)
        timer, attempt.timer = attempt.timer, None
        if timer is None:
            return None
        timer.cancel()
        timer.join()
        return True

    def _on_timeout(self, item: pytest.Item, settings: Any) -> None:
        from pytest_timeout import is_debugging, timeout_timer

        if is_debugging() and not settings.disable_debugger_detection:
            return
        try:
            place = self.expire(item, _timeout_message(settings.timeout))
            if place:
                where = relative_path(self._config, place)
                line = f"artifacts of the test that ran out of time: {where}"
                write_line(self._config, line)
        finally:
            timeout_timer(item, settings)

    def expire(self, item: pytest.Item, why: str) -> str:
        """Write the folder of a test whose timeout is about to end the process.

        Args:
            item: the test, which keeps running in its own thread.
            why: the text in place of a failure.

        Returns:
            its path; empty if it could not be created.
        """
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.suite.artifacts.crash_journal import describe_pending_waits

        waits = describe_pending_waits(ACTIVE_WAITS.waits())
        failure = Failure(why.splitlines()[0], namespaces=tuple(namespaces_of(item)))
        with self._writing(item) as folder:
            if folder is None:
                return ""
            folder.write("failure.txt", why)
            folder.write("evidence.json", self._evidence(item, "expired", failure, waits))
            ended = RecordedFailure("expired", failure.headline)
            self._record(item, folder, ended)
            self._dump(item, folder)
            self._failures.add_folder(folder.path)
            self._failures.finish(is_green=False)
            return str(folder.path)

    @contextmanager
    def _writing(self, item: pytest.Item) -> Iterator[ArtifactFolder | None]:
        """Yield the folder of this attempt of a test; None if it cannot be created."""
        from pytest_kwait.suite.artifacts.folder import (
            ArtifactFolder,
            create_folder,
            make_folder_name,
        )

        attempt = _attempt_of(item)
        folder = attempt.folder
        if folder is None:
            name = make_folder_name(
                item.nodeid,
                worker=self._run.worker,
                shard=self._run.shard,
                attempt=attempt.number,
            )
            try:
                redact = redaction_of(item, max_age=1.0)
                folder = ArtifactFolder(create_folder(self._path, name), redact)
            except OSError as error:
                self._trouble = str(error)
                yield None
                return
            attempt.folder = folder
        try:
            yield folder
        finally:
            folder.finish()

    def _finish_fixture(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> None:
        __tracebackhide__ = True
        try:
            finish_fixture(fixturedef, request)
        except _NO_FAILURES:
            raise
        except BaseException as error:
            item = self._torn_down
            if item is not None and self.wants(item, error):
                with self._writing(item) as folder:
                    if folder is not None:
                        failure = RecordedFailure("teardown", headline_of(error))
                        self._record(item, folder, failure)
                        self._dump(item, folder)
            raise

    def _evidence(
        self, item: pytest.Item, phase: str | None, failure: Failure, waits: list[dict[str, Any]]
    ) -> str:
        facts = {
            "test": item.nodeid,
            "phase": phase,
            "attempt": _attempt_of(item).number,
        }
        return self._facts(facts, self._run.worker, failure, waits)

    def _facts(
        self, test: dict[str, Any], worker: str, failure: Failure, waits: list[dict[str, Any]]
    ) -> str:
        import json

        from pytest_kwait.engine.failure.shortening import escape_control_characters

        facts = {
            **test,
            "run": self._run.id,
            "shard": self._run.shard,
            "worker": worker,
            "namespaces": list(failure.namespaces),
            "cluster": failure.cluster or self._run.cluster_name,
            "kubectl": failure.kubectl,
            "place": failure.place,
            "step": failure.step,
            "headline": failure.headline,
            "waits": waits,
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False, default=str) + "\n"
        # It is escaped as JSON, except what JSON need not escape.
        return escape_control_characters(text, "\\u{:04x}")

    def _dump(
        self, item: pytest.Item, folder: ArtifactFolder, only: Sequence[str] | None = None
    ) -> None:
        """Dump the namespaces of a test, each once, at its first failure.

        Args:
            only: the namespaces to dump now; None for all.
        """
        dumped = _attempt_of(item).dumped
        chosen = namespaces_of(item) if only is None else only
        names = [name for name in chosen if name not in dumped]
        groups = group_by_client(item, names)
        if not groups or not names or folder.trouble:
            return
        dumped.update(names)
        left = time_left(item)
        limit = min(
            CRASH_DUMP_TIMEOUT,
            self._left,
            CRASH_DUMP_TIMEOUT if left is None else left * _DUMP_PART,
        )
        if limit < _MIN_DUMP_SECONDS:
            own = left is not None and left * _DUMP_PART < _MIN_DUMP_SECONDS
            why = "the test's own timeout" if own else "what was gathered for tests before it"
            folder.problem(f"namespaces {', '.join(names)} are left out: {why} leaves no time")
            return
        from pytest_kwait.clock import Deadline

        deadline = Deadline.after(limit)
        try:
            for client, on_its_cluster in groups:
                if on_its_cluster:
                    self._dump_namespaces(client, on_its_cluster, folder, deadline)
        except pytest.fail.Exception:
            # pytest-timeout's signal: the test has failed already.
            folder.problem("gathering was cut off by the test's own timeout")
        except KwaitError as error:
            folder.problem(f"namespaces {', '.join(names)} are left out: {error}")
        self._left -= limit - deadline.remaining


def _kubectl_for(place: NamespaceUse) -> list[str]:
    """Return the command that reaches the cluster of a crashed worker; none if it ends."""
    if place.provider != "existing":
        return []
    context = [f"--context={place.context}"] if place.context else []
    return ["kubectl", f"--kubeconfig={place.kubeconfig}", *context]


def _plain_longrepr(report: pytest.TestReport) -> str:
    """Return pytest's text of a failure, without colours."""
    parts = [report.longreprtext.rstrip("\n")]
    parts += [f"{f' {name} ':-^80}\n{text.rstrip()}" for name, text in report.sections if text]
    return "\n".join(parts) + "\n"


def _write_error(path: Path) -> str:
    """Return why a folder cannot be written to; empty if it can."""
    if path.exists() and not path.is_dir():
        return "it is no folder"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _timeout_message(seconds: float) -> str:
    """Return the stack of the test, in place of a failure."""
    from pytest_kwait.apimachinery.times import format_duration

    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
    return (
        f"the test's own timeout of {format_duration(float(seconds))} (pytest-timeout) ended the "
        f"process; where the test was:\n\n{stack}"
    )
