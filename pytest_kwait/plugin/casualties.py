"""Artifacts of tests whose worker of pytest-xdist died: its controller gathers what they were at.

A worker writes down where its tests work and what they wait for as it happens. When it dies its
controller reads that, and looks into the namespaces beside the tests of the other workers, before
what is left of the run is removed at its end.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.cluster import run_of
from pytest_kwait.plugin.run import running_item
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.plugin.shards import format_shard

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pytest_kwait.clusters.provider import Cluster
    from pytest_kwait.suite.artifacts.crash_journal import CrashJournal
    from pytest_kwait.suite.artifacts.folder import ArtifactFolder
    from pytest_kwait.suite.report.journal import NamespaceUse
    from pytest_kwait.suite.report.recorder import WaitRecorder

__all__ = [
    "CrashDumper",
    "crash_dumper_of",
    "read_worker_journal",
    "record_namespace_entered",
    "record_namespace_left",
]

CRASH_DUMP_TIMEOUT = 15.0
"""Seconds that gathering may take for one test."""

CRASH_DUMPS_TIMEOUT = 600.0
"""Seconds that gathering may take for all workers that died."""

_journal_folder_key = pytest.StashKey[Path]()
_recorder_key: pytest.StashKey[WaitRecorder] = pytest.StashKey()
_crash_dumper_key = pytest.StashKey["CrashDumper"]()


class CrashDumper:
    """Looks into namespaces for workers that died, one after the other, in a thread of its own."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._left = CRASH_DUMPS_TIMEOUT
        self.troubles: list[str] = []
        """Why something could not be written."""

    def start(self, places: tuple[NamespaceUse, ...], files: ArtifactFolder) -> None:
        """Begin to write what is in namespaces into a folder; finish that."""
        # Now: pytest rewrites a module of ours as it is first imported, and to do so in two
        # threads at a time is an error in Python 3.11.
        from concurrent.futures import ThreadPoolExecutor

        from pytest_kwait.suite.artifacts import crash_journal as last_words

        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="kwait-rescue")
        self._threads.submit(self._gather, places, files, last_words.dump_crashed_namespaces)

    def finish(self, *, patient: bool) -> None:
        """Return once all is written; not patient, once that is which has begun."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=not patient)
            self._threads = None

    def _gather(self, places: tuple[NamespaceUse, ...], files: ArtifactFolder, dump: Any) -> None:
        from pytest_kwait.clock import Deadline

        names = ", ".join(each.namespace for each in places)
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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where to write down what its tests are at, if anybody wants artifacts."""
    config: pytest.Config = node.config
    if run_settings(config).artifacts is None:
        return
    if _journal_folder_key not in config.stash:
        config.stash[_journal_folder_key] = Path(tempfile.mkdtemp(prefix="kwait-workers-"))
    node.workerinput["kwait_words"] = str(config.stash[_journal_folder_key])


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Write down from now on what the tests of this worker are at."""
    config = session.config
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if "kwait_words" not in given:
        return
    from pytest_kwait.engine.active_waits import ACTIVE_WAITS
    from pytest_kwait.suite.report.journal import Journal
    from pytest_kwait.suite.report.recorder import WaitRecorder

    run = run_of(config)
    try:
        journal = Journal(_journal_path(Path(given["kwait_words"]), run.worker))
    except OSError:
        # A worker that sees another file system: should it die, nobody knows more.
        return

    def test() -> str:
        item = running_item(config)
        return "" if item is None else item.nodeid

    recorder = config.stash[_recorder_key] = WaitRecorder(
        journal, run.id, format_shard(config), run.worker, test
    )
    ACTIVE_WAITS.add(recorder)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Have looked into the namespaces before what is left of the run is removed."""
    rescue = session.config.stash.get(_crash_dumper_key, None)
    if rescue is not None:
        rescue.finish(patient=exitstatus != pytest.ExitCode.INTERRUPTED)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write nothing more, and remove what was written."""
    if _recorder_key in config.stash:
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS

        recorder = config.stash[_recorder_key]
        del config.stash[_recorder_key]
        ACTIVE_WAITS.remove(recorder)
        recorder.journal.close()
    if _crash_dumper_key in config.stash:
        config.stash[_crash_dumper_key].finish(patient=False)
    if _journal_folder_key in config.stash:
        shutil.rmtree(config.stash[_journal_folder_key], ignore_errors=True)


def record_namespace_entered(config: pytest.Config, namespace: str, cluster: Cluster) -> None:
    """Write down that tests of this process work in a namespace from now on."""
    recorder = config.stash.get(_recorder_key, None)
    if recorder is not None:
        from pytest_kwait.suite.report.journal import JournalEntry, NamespaceUse

        place = NamespaceUse(
            namespace,
            provider=cluster.provider,
            kubeconfig=str(cluster.kubeconfig),
            context=cluster.context,
        )
        recorder.journal.write(JournalEntry(place=place))


def record_namespace_left(config: pytest.Config, namespace: str) -> None:
    """Write down that no test of this process works in a namespace any more."""
    recorder = config.stash.get(_recorder_key, None)
    if recorder is not None:
        from pytest_kwait.suite.report.journal import JournalEntry, NamespaceUse

        recorder.journal.write(JournalEntry(place=NamespaceUse(namespace, left=True)))


def read_worker_journal(config: pytest.Config, worker: str) -> CrashJournal:
    """Return what a worker that died has written down."""
    from pytest_kwait.suite.artifacts.crash_journal import CrashJournal, read_crash_journal

    if _journal_folder_key not in config.stash:
        return CrashJournal()
    return read_crash_journal(_journal_path(config.stash[_journal_folder_key], worker))


def crash_dumper_of(config: pytest.Config) -> CrashDumper:
    """Return what looks into namespaces for workers that died."""
    return config.stash.setdefault(_crash_dumper_key, CrashDumper())


def _journal_path(folder: Path, worker: str) -> Path:
    return folder / f"{worker}.jsonl"
