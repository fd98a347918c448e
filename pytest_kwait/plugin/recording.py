"""`--kwait-record`: recordings of tests on the embedded cluster, in their artifacts.

The cluster writes journals beside the artifacts as its objects change; a passing test costs no
request. For a failed one the journals of its namespaces become its recording. They are removed
at the end of the run, and stay where it is killed.
"""

from __future__ import annotations

import shutil
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.run import format_shard, run_of
from pytest_kwait.plugin.settings import run_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.clusters.cluster import Cluster
    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.suite.artifacts.crash_journal import CrashJournal
    from pytest_kwait.suite.artifacts.folder import ArtifactFolder

__all__ = [
    "RecordedFailure",
    "is_recorded",
    "record_cluster",
    "record_crashed_test",
    "record_test",
]

_MAX_WAITS = 1000
"""Waits and steps of a test that are recorded, the last ones."""

_cluster_key = pytest.StashKey["Cluster"]()
_events_key = pytest.StashKey["_TestEvents"]()
_started_key = pytest.StashKey[float]()
_written_key = pytest.StashKey[str]()


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


class _TestEvents:
    """Observes the waits and steps of the current test."""

    def __init__(self) -> None:
        self.waits: deque[tuple[float, float, ActiveWait]] = deque(maxlen=_MAX_WAITS)
        """Finished waits, each with its start in seconds since the epoch and its duration."""
        self.steps: deque[tuple[float, str]] = deque(maxlen=_MAX_WAITS)

    def on_start(self, wait: ActiveWait) -> None:
        """Do nothing: only finished waits are recorded."""

    def on_end(self, wait: ActiveWait) -> None:
        """Record a finished wait; parts of other waits are left out."""
        if not wait.inner:
            clock = wait.deadline.clock
            seconds = max(clock.monotonic() - wait.started, 0.0)
            self.waits.append((clock.time() - seconds, seconds, wait))

    def on_step(self, path: str) -> None:
        """Record the start of a step."""
        from pytest_kwait.clock import SYSTEM_CLOCK

        self.steps.append((SYSTEM_CLOCK.time(), path))

    def clear(self) -> None:
        """Forget everything, for the next test."""
        self.waits.clear()
        self.steps.clear()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an option that cannot be followed; otherwise observe waits."""
    settings = run_settings(config)
    given = settings.setting("record")
    if given.source.startswith("option ") and given.value != "never":
        why = ""
        if not settings.is_embedded:
            why = "only an embedded cluster is recorded; leave it out, or use that one"
        elif settings.artifacts is None:
            why = "recordings need a folder: give --kwait-artifacts=DIR as well"
        if why:
            raise pytest.UsageError(str(InvalidArgument("record", given.value, why, given.source)))
    if settings.recorded == "never":
        return
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS

    events = config.stash[_events_key] = _TestEvents()
    ACTIVE_WAITS.add(events)
    ACTIVE_WAITS.step_listeners.append(events.on_step)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the start of a test."""
    from pytest_kwait.clock import SYSTEM_CLOCK

    item.stash[_started_key] = SYSTEM_CLOCK.time()
    if _written_key in item.stash:
        del item.stash[_written_key]
    events = item.config.stash.get(_events_key, None)
    if events is not None:
        events.clear()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the journals, after the end of the cluster."""
    if _events_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        events = config.stash[_events_key]
        del config.stash[_events_key]
        ACTIVE_WAITS.remove(events)
        ACTIVE_WAITS.step_listeners.remove(events.on_step)
        if not hasattr(config, "workerinput") or run_settings(config).explore is not None:
            shutil.rmtree(_journals_folder(config), ignore_errors=True)


def is_recorded(config: pytest.Config, *, failed: bool) -> bool:
    """Return whether tests that failed, or passed, are recorded."""
    settings = run_settings(config)
    # An explored test passes many times.
    always = settings.recorded == "always" and settings.explore is None
    return always or (failed and settings.recorded != "never")


def record_cluster(config: pytest.Config, cluster: Cluster) -> None:
    """Let the cluster keep journals from now on, if tests are recorded."""
    # A conftest's fixture may return any object, or another cluster than the run's.
    if _events_key not in config.stash or getattr(cluster, "provider", "") != "embedded":
        return
    if cluster.record_history(_journals_folder(config)) is not None:
        config.stash[_cluster_key] = cluster


def record_test(
    item: pytest.Item,
    folder: ArtifactFolder,
    namespaces: list[str],
    failure: RecordedFailure | None = None,
) -> str:
    """Write the recording of a test, once an attempt; problems are recorded in its folder.

    Args:
        item: the test.
        folder: the folder of its artifacts.
        namespaces: its namespaces.
        failure: how it failed; None if it passed.

    Returns:
        the path of the recording; empty without one.
    """
    config = item.config
    cluster = config.stash.get(_cluster_key, None)
    if _written_key in item.stash or cluster is None or not namespaces:
        return item.stash.get(_written_key, "")
    if not is_recorded(config, failed=failure is not None):
        return ""
    import msgspec

    from pytest_kwait.clock import SYSTEM_CLOCK
    from pytest_kwait.suite.artifacts.recording import RecordedTest
    from pytest_kwait.suite.report.records import record_ended_wait

    events = config.stash[_events_key]
    recorded = RecordedTest(
        item.nodeid,
        namespaces,
        item.stash.get(_started_key, None),
        run_of(config).id,
        run_of(config).worker,
        steps=list(events.steps),
        waits=[
            msgspec.structs.replace(record_ended_wait(wait, "", "", started), seconds=seconds)
            for started, seconds, wait in events.waits
        ],
    )
    if failure is not None:
        recorded.phase, recorded.headline = failure.phase, failure.headline
        recorded.failed = SYSTEM_CLOCK.time() if failure.at is None else failure.at
    path = _write(config, cluster, folder, recorded)
    item.stash[_written_key] = path
    return path


def record_crashed_test(
    config: pytest.Config, test: str, worker: str, folder: ArtifactFolder, journal: CrashJournal
) -> str:
    """Write the recording of a test whose worker crashed.

    Args:
        test: its id.
        worker: its worker.
        folder: the folder of its artifacts.
        journal: what the worker has left.

    Returns:
        the path of the recording; empty without one.
    """
    namespaces = [each.namespace for each in journal.places if each.provider == "embedded"]
    if not namespaces or not is_recorded(config, failed=True):
        return ""
    if not _journals_folder(config).exists():
        return ""
    from pytest_kwait.clock import SYSTEM_CLOCK
    from pytest_kwait.suite.artifacts.recording import RecordedTest

    recorded = RecordedTest(
        test,
        namespaces,
        run=run_of(config).id,
        worker=worker,
        failed=SYSTEM_CLOCK.time(),
        phase="crashed",
        headline="the worker crashed",
        begun=[each for each in journal.begun if each.test == test],
    )
    try:
        cluster = run_of(config).source.cluster()
    except KwaitError as error:
        folder.problem(f"recording: {error}")
        return ""
    return _write(config, cluster, folder, recorded)


def _write(config: pytest.Config, cluster: Any, folder: ArtifactFolder, recorded: Any) -> str:
    from pytest_kwait.clock import SYSTEM_CLOCK
    from pytest_kwait.suite.artifacts.recording import FILE_NAME, make_recording

    journals = _journals_folder(config)
    try:
        history = cluster.record_history(journals)
        if history is None:
            return ""
        if history.trouble:
            folder.problem(f"recording: {history.trouble}")
        recorded.version, recorded.time_scale = history.version, cluster.time_scale
        now = SYSTEM_CLOCK.time()
        data = make_recording(journals, recorded, now, folder.redact)
    except (KwaitError, OSError) as error:
        folder.problem(f"recording: {error}")
        return ""
    return folder.write_bytes(FILE_NAME, data)


def _journals_folder(config: pytest.Config) -> Path:
    """Return the folder of the journals of the cluster of this process."""
    artifacts = run_settings(config).artifacts
    if artifacts is None:
        raise ValueError("recordings need a folder of artifacts")
    # Shards may share a run id and a folder, and have clusters of their own.
    shard = format_shard(config).replace("/", "-of-")
    # While exploring, each worker has a cluster of its own.
    run, explores = run_of(config), run_settings(config).explore is not None
    parts = ("history", run.id, shard, run.worker if explores else "")
    return artifacts.absolute() / "-".join(filter(None, parts))
