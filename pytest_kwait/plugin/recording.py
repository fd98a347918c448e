"""`--kwait-record`: recordings of tests in their artifacts.

Journals beside the artifacts have the history of the run. An embedded cluster writes them itself,
so that a passing test costs no request; on any other cluster each worker watches it. For a failed
test the journals of its namespaces become its recording. They are removed at the end of the run,
and stay where it is killed.
"""

from __future__ import annotations

import shutil
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_kwait.engine.active_waits import WaitObserver
from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.timeout import time_left

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.simulator.protocol.recording.files import RawLine
    from pytest_kwait.suite.artifacts.crash_journal import CrashJournal
    from pytest_kwait.suite.artifacts.folder import ArtifactFolder
    from pytest_kwait.suite.artifacts.history import WatchedHistory
    from pytest_kwait.suite.artifacts.recording import RecordedTest
    from pytest_kwait.suite.report.records import NamespaceUse, WaitRecord

_MAX_WAITS = 1000
"""Waits and steps of a test that are recorded, the last ones."""

_SETTLE_SECONDS = 2.0
"""Maximum seconds until a worker's watches have reported everything before a failure."""

_READ_SECONDS = 5.0
"""Maximum seconds for logs, and for values of Secrets to hide."""

_TIME_PART = 0.2
"""The part that either may take of the time until the test's own timeout."""

_recorded_key: pytest.StashKey[_RecordedItem] = pytest.StashKey()


class _WrittenRecording(NamedTuple):
    """The recording of an attempt at a test.

    Args:
        path: its file; empty if it could not be written.
        has_failure: whether the test had failed.
    """

    path: str
    has_failure: bool


class _RecordedItem:
    """What is recorded of a test in its present attempt.

    Args:
        started: its time in seconds since the epoch.
    """

    def __init__(self, started: float | None = None) -> None:
        self.started = started
        self.written: _WrittenRecording | None = None


class RecordedFailure:
    """A failure of a test.

    Args:
        phase: the phase that failed.
        headline: the failure in one line.
        at: its time in seconds since the epoch; None for now.
    """

    def __init__(self, phase: str, headline: str, at: float | None = None) -> None:
        self.phase = phase
        self.headline = headline
        self.at = at


class _TestEvents(WaitObserver):
    """Observes the waits and steps of the current test.

    Args:
        begun: the time in seconds since the epoch.
    """

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.waits: deque[tuple[float, ActiveWait]] = deque(maxlen=_MAX_WAITS)
        """Finished waits, each with its start in seconds since the epoch."""
        self.steps: deque[tuple[float, str]] = deque(maxlen=_MAX_WAITS)

    def on_end(self, wait: ActiveWait) -> None:
        """Record a finished wait; parts of other waits are left out."""
        if not wait.inner:
            self.waits.append((wait.deadline.clock.time() - wait.seconds, wait))

    def list_waits(self) -> list[WaitRecord]:
        """Return the finished waits."""
        from pytest_kwait.suite.report.records import record_ended_wait

        # A copy: other threads may finish waits meanwhile.
        return [record_ended_wait(wait, "", "", started) for started, wait in list(self.waits)]

    def on_step(self, path: str) -> None:
        """Record the start of a step."""
        from pytest_kwait.clock import SYSTEM_CLOCK

        self.steps.append((SYSTEM_CLOCK.time(), path))

    def clear(self) -> None:
        """Forget everything, for the next test."""
        self.waits.clear()
        self.steps.clear()


class RecordingWriter:
    """Writes the recordings of tests, from journals of the history of the run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._events: _TestEvents | None = None
        """None if nothing is recorded."""
        self._cluster: Cluster | None = None
        """The cluster of the tests, once it is recorded."""
        self._history: WatchedHistory | None = None
        """The history that this process watches; None on an embedded cluster, which writes it."""
        self._unreachable: dict[tuple[str, str | None], str] = {}
        """Why a cluster of a crashed worker does not answer, by its kubeconfig and context."""

    def pytest_configure(self) -> None:
        """Refuse an option that cannot be followed; otherwise observe waits."""
        settings = self._run.settings
        given = settings.setting("record")
        is_asked = given.source.startswith("option ") and given.value != "never"
        if is_asked and settings.artifacts is None:
            why = "recordings need a folder: give --kwait-artifacts=DIR as well"
            raise pytest.UsageError(str(InvalidArgument("record", given.value, why, given.source)))
        if settings.recorded == "never":
            return
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        self._events = _TestEvents(SYSTEM_CLOCK.time())
        ACTIVE_WAITS.add(self._events)
        ACTIVE_WAITS.step_listeners.append(self._events.on_step)

    # First: the recording begins before any fixture of the test is set up.
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Record the start of a test."""
        from pytest_kwait.clock import SYSTEM_CLOCK

        item.stash[_recorded_key] = _RecordedItem(SYSTEM_CLOCK.time())
        if self._events is not None:
            self._events.clear()

    def pytest_sessionfinish(self) -> None:
        """End the watches before the cluster ends."""
        self._stop_watching()

    # Last: the cluster, which may write them, has ended.
    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove the journals."""
        self._stop_watching()
        if self._events is not None:
            from pytest_kwait.engine.active_waits import ACTIVE_WAITS

            events, self._events = self._events, None
            ACTIVE_WAITS.remove(events)
            ACTIVE_WAITS.step_listeners.remove(events.on_step)
            if not self._run.is_worker or self._run.settings.explore is not None:
                shutil.rmtree(self._journals_folder(), ignore_errors=True)

    @property
    def records_passed_tests(self) -> bool:
        """Return whether tests that passed are recorded."""
        return self._cluster is not None and self._is_recorded(failed=False)

    def _is_recorded(self, *, failed: bool) -> bool:
        settings = self._run.settings
        # An explored test passes many times.
        always = settings.recorded == "always" and settings.explore is None
        return always or (failed and settings.recorded != "never")

    def record_cluster(self, cluster: Cluster) -> None:
        """Record the cluster from now on, if tests are recorded."""
        if self._events is None:
            return
        # A conftest's fixture may return any object, or another cluster than the run's.
        provider = getattr(cluster, "provider", "")
        if provider == "embedded":
            if cluster.record_history(self._journals_folder()) is not None:
                self._cluster = cluster
        elif provider and self._run.settings.record is not None:
            from pytest_kwait.suite.artifacts.history import WatchedHistory

            self._cluster = cluster
            folder = self._worker_folder(self._run.worker)
            self._history = WatchedHistory(cluster.client, folder, self._events.begun)
            self._history.start()

    def record_namespace(self, namespace: str, cluster: Cluster, *, is_new: bool) -> None:
        """Record a namespace from now on, if this process watches its cluster.

        Args:
            is_new: whether it does not exist yet.
        """
        if self._history is not None and cluster is self._cluster:
            self._history.enter(namespace, is_new=is_new)

    def stop_recording_namespace(self, namespace: str) -> None:
        """Record a namespace no longer, as no test uses it any more."""
        if self._history is not None:
            self._history.leave(namespace)

    def _stop_watching(self) -> None:
        history, self._history = self._history, None
        if history is not None:
            history.stop()

    def record_test(
        self,
        item: pytest.Item,
        folder: ArtifactFolder,
        namespaces: list[str],
        failure: RecordedFailure | None = None,
    ) -> str:
        """Write the recording of a test; problems are recorded in its folder.

        It is written once an attempt, and again for the first failure after the test has passed.

        Args:
            item: the test.
            failure: how it failed; None if it passed.

        Returns:
            the path of the recording; empty without one.
        """
        events, cluster, history = self._events, self._cluster, self._history
        recorded_item = item.stash.setdefault(_recorded_key, _RecordedItem())
        written = recorded_item.written
        known = "" if written is None else written.path
        is_done = written is not None and (written.has_failure or failure is None)
        if is_done or events is None or cluster is None or not namespaces:
            return known
        if not self._is_recorded(failed=failure is not None):
            return ""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.artifacts.recording import RecordedTest

        recorded = RecordedTest(
            item.nodeid,
            namespaces,
            recorded_item.started,
            self._run.id,
            self._run.worker,
            steps=list(events.steps),
            waits=events.list_waits(),
        )
        if failure is not None:
            recorded.phase, recorded.headline = failure.phase, failure.headline
            recorded.failed = SYSTEM_CLOCK.time() if failure.at is None else failure.at
        left = time_left(item)
        limit = _READ_SECONDS if left is None else min(left * _TIME_PART, _READ_SECONDS)
        if history is None:
            path = self._write(
                folder,
                recorded,
                lambda: self._read_embedded(cluster, recorded, folder, limit),
            )
        else:
            history.settle(min(limit, _SETTLE_SECONDS))
            for problem in history.problems():
                folder.problem(f"recording: {problem}")
            recorded.version, recorded.time_scale = cluster.version, cluster.time_scale
            path = self._write(
                folder,
                recorded,
                lambda: self._read_watched(recorded, history.session, folder, limit),
            )
        recorded_item.written = _WrittenRecording(path or known, failure is not None)
        return path or known

    def record_crashed_test(
        self, test: str, worker: str, folder: ArtifactFolder, journal: CrashJournal
    ) -> str:
        """Write the recording of a test whose worker crashed.

        Args:
            test: its id.
            journal: what the worker has left.

        Returns:
            the path of the recording; empty without one.
        """
        places = [place for place in journal.places if place.provider == "embedded"]
        is_watched = not places
        folder_of_journals = self._journals_folder()
        if is_watched:
            places, folder_of_journals = list(journal.places), self._worker_folder(worker)
        if not places or not self._is_recorded(failed=True) or not folder_of_journals.exists():
            return ""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.artifacts.recording import RecordedTest

        recorded = RecordedTest(
            test,
            [place.namespace for place in places],
            run=self._run.id,
            worker=worker,
            failed=SYSTEM_CLOCK.time(),
            phase="crashed",
            headline="the worker crashed",
            begun=[wait for wait in journal.begun if wait.test == test],
        )
        if is_watched:
            return self._write(
                folder,
                recorded,
                lambda: self._read_crashed(recorded, places[0], worker, folder),
            )
        return self._write(
            folder,
            recorded,
            lambda: self._read_embedded(self._run.source.cluster(), recorded, folder),
        )

    def _write(
        self,
        folder: ArtifactFolder,
        recorded: RecordedTest,
        read: Callable[[], list[RawLine]],
    ) -> str:
        """Write a recording; return its path, empty without one."""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.artifacts.recording import FILE_NAME, make_recording

        try:
            lines = read()
            if not lines:
                return ""
            data = make_recording(lines, recorded, SYSTEM_CLOCK.time(), folder.redact)
        except (KwaitError, OSError) as error:
            folder.problem(f"recording: {error}")
            return ""
        path = folder.write_bytes(FILE_NAME, data)
        if path:
            from pytest_kwait.plugin.report import ReportWriter

            if (report := self._run.find(ReportWriter)) is not None:
                report.record_playback(recorded.test, recorded.worker, path, folder.redact)
        return path

    def _read_embedded(
        self,
        cluster: Any,
        recorded: RecordedTest,
        folder: ArtifactFolder,
        seconds: float = _READ_SECONDS,
    ) -> list[RawLine]:
        """Return the history that an embedded cluster writes; empty if it writes none."""
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.clock import Deadline
        from pytest_kwait.simulator.protocol.recording.files import merge_journals
        from pytest_kwait.suite.artifacts.recording import hide_secret_values, learn_secret_values

        journals = self._journals_folder()
        history = cluster.record_history(journals)
        if history is None:
            return []
        if history.trouble:
            folder.problem(f"recording: {history.trouble}")
        recorded.version, recorded.time_scale = history.version, cluster.time_scale
        lines = merge_journals(journals, recorded.namespaces, 0.0)
        client = cluster.client()
        try:
            # The cluster has hidden them in texts from after their creation.
            learn_secret_values(
                ApiSession.of(client),
                recorded.namespaces,
                Deadline.after(seconds),
                lambda text: folder.problem(f"recording: {text}"),
            )
        finally:
            client.close()
        hide_secret_values(lines)
        return lines

    def _read_crashed(
        self,
        recorded: RecordedTest,
        place: NamespaceUse,
        worker: str,
        folder: ArtifactFolder,
    ) -> list[RawLine]:
        """Return the history that a crashed worker has written."""
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.clusters.provider import connect

        # A cluster that does not answer delays the reports of a run once, not for each test.
        unreachable = self._unreachable
        key = (place.kubeconfig, place.context)
        if key not in unreachable:
            try:
                cluster = connect(place.kubeconfig, place.context, place.provider)
                client = cluster.client()
            except KwaitError as error:
                unreachable[key] = str(error)
        if key in unreachable:
            folder.problem(f"recording: {unreachable[key]}")
            return self._read_watched(recorded, None, folder, _READ_SECONDS, worker)
        try:
            recorded.version, recorded.time_scale = cluster.version, cluster.time_scale
            session = ApiSession.of(client)
            return self._read_watched(recorded, session, folder, _READ_SECONDS, worker)
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here

    def _read_watched(
        self,
        recorded: RecordedTest,
        session: ApiSession | None,
        folder: ArtifactFolder,
        seconds: float,
        worker: str = "",
    ) -> list[RawLine]:
        """Return the history that a worker has written, this one by default, with logs."""
        from pytest_kwait.clock import Deadline
        from pytest_kwait.suite.artifacts.history import read_history

        return read_history(
            self._worker_folder(worker or self._run.worker),
            recorded.namespaces,
            session,
            Deadline.after(seconds),
            lambda text: folder.problem(f"recording: {text}"),
            started=recorded.started or 0.0,
            awaited=[
                *(wait.subject for wait in recorded.waits),
                *(wait.subject for wait in recorded.begun),
            ],
        )

    def _worker_folder(self, worker: str) -> Path:
        """Return the folder of the journals that a worker writes."""
        return self._journals_folder() / (worker or "main")

    def _journals_folder(self) -> Path:
        """Return the folder of the journals of the cluster of this process."""
        artifacts = self._run.settings.artifacts
        if artifacts is None:
            raise ValueError("recordings need a folder of artifacts")
        # Shards may share a run id and a folder, and have clusters of their own.
        shard = self._run.shard.replace("/", "-of-")
        # While exploring, each worker has a cluster of its own.
        run, explores = self._run, self._run.settings.explore is not None
        parts = ("history", run.id, shard, run.worker if explores else "")
        return artifacts.absolute() / "-".join(filter(None, parts))
