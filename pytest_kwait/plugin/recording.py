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
from pytest_kwait.plugin.cleanup import namespaces_in_use
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

_MAIN = "main"
"""The folder of the journals of a process that is no worker."""

_FURTHER = "clusters"
"""The folder of the journals of further clusters."""

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
        cluster: the name of the further cluster of its wait; empty for the run's own.
    """

    def __init__(
        self, phase: str, headline: str, at: float | None = None, cluster: str = ""
    ) -> None:
        self.phase = phase
        self.headline = headline
        self.at = at
        self.cluster = cluster


class _RecordedCluster(NamedTuple):
    """A cluster that is recorded.

    Args:
        name: the name of a further cluster, or a number; empty for the run's own.
        cluster: the cluster.
        folder: the folder of its journals, and of those of all workers that watch it.
        history: the history that this process watches; None on an embedded cluster, which writes
            it.
    """

    name: str
    cluster: Cluster
    folder: Path
    history: WatchedHistory | None


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
        self._recorded: list[_RecordedCluster] = []
        """The clusters that are recorded, the run's own first."""
        self._further = 0
        """The number of further clusters."""
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
        return bool(self._recorded) and self._is_recorded(failed=False)

    def _is_recorded(self, *, failed: bool) -> bool:
        settings = self._run.settings
        # An explored test passes many times.
        always = settings.recorded == "always" and settings.explore is None
        return always or (failed and settings.recorded != "never")

    def record_cluster(self, cluster: Cluster) -> None:
        """Record the run's own cluster from now on, if tests are recorded."""
        if self._events is not None and (recorded := self._start("", cluster)) is not None:
            self._recorded.insert(0, recorded)

    def record_further_cluster(self, cluster: Cluster, name: str) -> None:
        """Record a further cluster from now on, if tests are recorded.

        Args:
            name: its name; empty for a cluster of a suite's fixture.
        """
        self._further += 1
        if self._events is None:
            return
        # Each worker has that of its fixture.
        name = name or "-".join(filter(None, (self._run.worker, str(self._further))))
        if (recorded := self._start(name, cluster)) is not None:
            self._recorded.append(recorded)

    def _start(self, name: str, cluster: Cluster) -> _RecordedCluster | None:
        """Start to record a cluster; None for one that is not recorded."""
        folder = self._journals_folder(name)
        # A conftest's fixture may return any object, or another cluster than the run's.
        provider = getattr(cluster, "provider", "")
        if provider == "embedded":
            is_kept = cluster.record_history(folder) is not None
            return _RecordedCluster(name, cluster, folder, None) if is_kept else None
        if not provider or self._run.settings.record is None or self._events is None:
            return None
        from pytest_kwait.suite.artifacts.history import WatchedHistory

        history = WatchedHistory(
            cluster.client, folder / (self._run.worker or _MAIN), self._events.begun
        )
        history.start()
        return _RecordedCluster(name, cluster, folder, history)

    def record_namespace(self, namespace: str, cluster: Cluster, *, is_new: bool) -> None:
        """Record a namespace from now on, if this process watches its cluster.

        Args:
            is_new: whether it does not exist yet.
        """
        if (history := self._history_of(cluster)) is not None:
            history.enter(namespace, is_new=is_new)

    def stop_recording_namespace(self, namespace: str, cluster: Cluster) -> None:
        """Record a namespace no longer, as no test uses it any more."""
        if (history := self._history_of(cluster)) is not None:
            history.leave(namespace)

    def _history_of(self, cluster: Cluster) -> WatchedHistory | None:
        """Return the history that this process watches of a cluster."""
        histories = (known.history for known in self._recorded if known.cluster is cluster)
        return next(histories, None)

    def _stop_watching(self) -> None:
        recorded, self._recorded = self._recorded, []
        for known in recorded:
            if known.history is not None:
                known.history.stop()

    def forget(self, item: pytest.Item) -> None:
        """Write the recording of a test again: its failure was none, or not the one."""
        item.stash.setdefault(_recorded_key, _RecordedItem()).written = None

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
        events, recorded_item = self._events, item.stash.setdefault(_recorded_key, _RecordedItem())
        written = recorded_item.written
        known = "" if written is None else written.path
        is_done = written is not None and (written.has_failure or failure is None)
        if is_done or events is None or not self._recorded or not namespaces:
            return known
        if not self._is_recorded(failed=failure is not None):
            return ""
        paths: dict[str, str] = {}
        for place in self._recorded:
            names = [name for name in namespaces if _is_on(item, name, place)]
            if names:
                paths[place.name] = self._record_on(place, item, folder, names, events, failure)
        path = paths.get("" if failure is None else failure.cluster) or next(
            filter(None, paths.values()), ""
        )
        if path:
            self._play(item.nodeid, self._run.worker, path, folder)
        recorded_item.written = _WrittenRecording(path or known, failure is not None)
        return path or known

    def _record_on(
        self,
        place: _RecordedCluster,
        item: pytest.Item,
        folder: ArtifactFolder,
        namespaces: list[str],
        events: _TestEvents,
        failure: RecordedFailure | None,
    ) -> str:
        """Write the recording of a test on one cluster; return its path, empty without one."""
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.artifacts.recording import RecordedTest

        recorded = RecordedTest(
            item.nodeid,
            namespaces,
            item.stash[_recorded_key].started,
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
        cluster, history = place.cluster, place.history
        if history is None:
            return self._write(
                folder,
                recorded,
                place.name,
                lambda: self._read_embedded(cluster, place.folder, recorded, folder, limit),
            )
        history.settle(min(limit, _SETTLE_SECONDS))
        for problem in history.problems():
            folder.problem(f"recording: {problem}")
        recorded.version, recorded.time_scale = cluster.version, cluster.time_scale
        journals = place.folder / (self._run.worker or _MAIN)
        return self._write(
            folder,
            recorded,
            place.name,
            lambda: self._read_watched(recorded, journals, history.session, folder, limit),
        )

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
        if not self._is_recorded(failed=True):
            return ""
        # The run's own cluster comes first.
        names = sorted({place.cluster for place in journal.places})
        paths = [self._record_crashed(name, test, worker, folder, journal) for name in names]
        path = next(filter(None, paths), "")
        if path:
            self._play(test, worker, path, folder)
        return path

    def _record_crashed(
        self, name: str, test: str, worker: str, folder: ArtifactFolder, journal: CrashJournal
    ) -> str:
        """Write the recording on one cluster; return its path, empty without one.

        Args:
            name: the name of a further cluster; empty for the run's own.
        """
        on_it = [place for place in journal.places if place.cluster == name]
        places = [place for place in on_it if place.provider == "embedded"]
        is_watched = not places
        journals = self._journals_folder(name)
        if is_watched:
            places, journals = on_it, journals / (worker or _MAIN)
        if not journals.exists():
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
                name,
                lambda: self._read_crashed(recorded, places[0], journals, folder),
            )
        return self._write(
            folder,
            recorded,
            name,
            lambda: self._read_embedded(
                self._run.find_source(name).cluster(), journals, recorded, folder
            ),
        )

    def _write(
        self,
        folder: ArtifactFolder,
        recorded: RecordedTest,
        name: str,
        read: Callable[[], list[RawLine]],
    ) -> str:
        """Write a recording; return its path, empty without one.

        Args:
            name: that of a further cluster; empty for the run's own.
        """
        from pytest_kwait.clock import SYSTEM_CLOCK
        from pytest_kwait.suite.artifacts.recording import make_file_name, make_recording

        try:
            lines = read()
            if not lines:
                return ""
            data = make_recording(lines, recorded, SYSTEM_CLOCK.time(), folder.redact)
        except (KwaitError, OSError) as error:
            folder.problem(f"recording: {error}")
            return ""
        return folder.write_bytes(make_file_name(name), data)

    def _play(self, test: str, worker: str, path: str, folder: ArtifactFolder) -> None:
        """Let the report play a recording."""
        from pytest_kwait.plugin.report import ReportWriter

        if (report := self._run.find(ReportWriter)) is not None:
            report.record_playback(test, worker, path, folder.redact)

    def _read_embedded(
        self,
        cluster: Any,
        journals: Path,
        recorded: RecordedTest,
        folder: ArtifactFolder,
        seconds: float = _READ_SECONDS,
    ) -> list[RawLine]:
        """Return the history that an embedded cluster writes; empty if it writes none."""
        from pytest_kwait.client.session import ApiSession
        from pytest_kwait.clock import Deadline
        from pytest_kwait.simulator.protocol.recording.files import merge_journals
        from pytest_kwait.suite.artifacts.recording import hide_secret_values, learn_secret_values

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
        journals: Path,
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
            return self._read_watched(recorded, journals, None, folder, _READ_SECONDS)
        try:
            recorded.version, recorded.time_scale = cluster.version, cluster.time_scale
            session = ApiSession.of(client)
            return self._read_watched(recorded, journals, session, folder, _READ_SECONDS)
        finally:
            client.close()  # type: ignore[no-untyped-call] # the official client has no types here

    def _read_watched(
        self,
        recorded: RecordedTest,
        journals: Path,
        session: ApiSession | None,
        folder: ArtifactFolder,
        seconds: float,
    ) -> list[RawLine]:
        """Return the history that a worker has written, with logs."""
        from pytest_kwait.clock import Deadline
        from pytest_kwait.suite.artifacts.history import read_history

        return read_history(
            journals,
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

    def _journals_folder(self, name: str = "") -> Path:
        """Return the folder of the journals of a cluster.

        Args:
            name: that of a further cluster, whose folder is in that of the run's own.
        """
        artifacts = self._run.settings.artifacts
        if artifacts is None:
            raise ValueError("recordings need a folder of artifacts")
        # Shards may share a run id and a folder, and have clusters of their own.
        shard = self._run.shard.replace("/", "-of-")
        # While exploring, each worker has a cluster of its own.
        run, explores = self._run, self._run.settings.explore is not None
        parts = ("history", run.id, shard, run.worker if explores else "")
        folder = artifacts.absolute() / "-".join(filter(None, parts))
        return folder / _FURTHER / name if name else folder


def _is_on(item: pytest.Item, namespace: str, place: _RecordedCluster) -> bool:
    """Return whether a namespace of a test is on a cluster; a given one is on the run's own."""
    for used in namespaces_in_use(item.config):
        if used.namespace == namespace and used.node in item.listchain():
            return used.cluster is place.cluster
    return not place.name
