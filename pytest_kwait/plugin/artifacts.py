"""A folder for each failed test: its failure, what its waits knew, what was in its namespaces.

Each process writes the folders of its own tests, at the moment a phase has failed: what a test made
is still there then. Those of a worker that died are written by its controller.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import InvalidArgument, KwaitError
from pytest_kwait.plugin.casualties import (
    CRASH_DUMP_TIMEOUT,
    CRASH_DUMPS_TIMEOUT,
    crash_dumper_of,
    read_worker_journal,
)
from pytest_kwait.plugin.cluster import run_of
from pytest_kwait.plugin.failures import (
    Failure,
    client_of,
    failed_waits_in,
    failure_of,
    namespaces_of,
    redaction_of,
)
from pytest_kwait.plugin.run import time_left, without_timeout
from pytest_kwait.plugin.settings import run_settings
from pytest_kwait.plugin.shards import format_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kwait.suite.artifacts.folder import ArtifactFolder

__all__ = ["ArtifactCollector", "artifacts_path", "collector_of", "relative_path"]

_MIN_DUMP_SECONDS = 0.2
"""Seconds below which gathering is not worth while."""

_DUMP_PART = 0.5
"""The part of what is left until the test's own timeout; the rest is for its teardown."""

_attempts_key = pytest.StashKey[int]()
_folder_key: pytest.StashKey[ArtifactFolder] = pytest.StashKey()
_dumped_key = pytest.StashKey[frozenset[str]]()
_collector_key = pytest.StashKey["ArtifactCollector"]()


def pytest_configure(config: pytest.Config) -> None:
    """End a run whose folder cannot be written to; else gather from now on."""
    path = artifacts_path(config)
    if path is None:
        return
    if not hasattr(config, "workerinput") and not config.getoption("collectonly"):
        problem = _write_error(path)
        if problem:
            given = run_settings(config).setting("artifacts")
            valid = f"use a folder that can be made and written to ({problem})"
            raise pytest.UsageError(
                str(InvalidArgument("artifacts", given.given, valid, given.source))
            )
    collector = config.stash[_collector_key] = ArtifactCollector(config, path)
    config.pluginmanager.register(collector, "kwait-artifacts")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say where the artifacts are, and why they are not."""
    collector = config.stash.get(_collector_key, None)
    if collector is not None:
        for line in collector.lines():
            terminalreporter.line(line)


def artifacts_path(config: pytest.Config) -> Path | None:
    """Return the folder of the run's artifacts; None where nobody wants any."""
    return run_settings(config).artifacts


def collector_of(config: pytest.Config) -> ArtifactCollector | None:
    """Return what writes the folders of this process; None where nobody wants any."""
    return config.stash.get(_collector_key, None)


def relative_path(config: pytest.Config, path: str) -> str:
    """Return a path as it is shown: from where pytest was started, if it is below that."""
    here = config.invocation_params.dir
    return os.path.relpath(path, here) if Path(path).is_relative_to(here) else path


class ArtifactCollector:
    """Writes the folders of tests that fail in this process, and counts those of all.

    Args:
        config: the run's configuration.
        path: where the folders are made.
    """

    def __init__(self, config: pytest.Config, path: Path) -> None:
        # Now, while there are no threads: pytest rewrites a module of ours as it is first imported,
        # and to do so in two threads at a time is an error in Python 3.11.
        from pytest_kwait.suite.artifacts import dumps

        self._dump_namespaces = dumps.dump_namespaces
        self._config = config
        self._path = path
        self._left = CRASH_DUMPS_TIMEOUT
        self._tests: set[str] = set()
        self._trouble = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the folder of a test once a phase of it has failed."""
        if call.when == "setup":
            item.stash[_attempts_key] = item.stash.get(_attempts_key, 0) + 1
            if _dumped_key in item.stash:
                del item.stash[_dumped_key]
            if _folder_key in item.stash:
                del item.stash[_folder_key]
        waits = list(failed_waits_in(call.excinfo.value if call.excinfo is not None else None))
        report = yield
        if report.failed:
            failure = failure_of(report)
            # Those of a teardown were looked into while they were there.
            seen = (*failure.namespaces, *sorted(item.stash.get(_dumped_key, ())))
            failure.namespaces = tuple(dict.fromkeys(seen))
            with without_timeout(item), self._writing(item) as folder:
                if folder is not None:
                    part = "-teardown" if report.when == "teardown" else ""
                    folder.write(f"failure{part}.txt", _plain_longrepr(report))
                    known = [{"error": type(each).__name__, **each.evidence} for each in waits]
                    facts = self._evidence(item, report.when, failure, known)
                    folder.write(f"evidence{part}.json", facts)
                    self._dump(item, folder)
                    failure.folder = str(folder.path)
                    failure.trouble = folder.trouble
                else:
                    failure.trouble = self._trouble
            failure.attach(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Look into the namespaces of a test as soon as anything of its teardown fails.

        When the report of the teardown is made they are gone already.
        """
        stack = getattr(getattr(item.session, "_setupstate", None), "stack", {})
        for finalizers, *_ in stack.values():
            finalizers[:] = [self._watched(item, each) for each in finalizers]
        yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Count what was written, in whichever process; write what nobody else could."""
        if not hasattr(self._config, "workerinput"):
            self._take(report)
        yield

    def _take(self, report: pytest.TestReport) -> None:
        if not report.failed and "kwait_failure" not in vars(report):
            return
        failure = failure_of(report)
        if not failure.folder and not failure.trouble:
            # A worker that died has written nothing; its controller tells of the test.
            self._write_crash(report)
            failure = failure_of(report)
        if failure.folder:
            self._tests.add(report.nodeid)
        self._trouble = self._trouble or failure.trouble

    def lines(self) -> Iterator[str]:
        """Say in a line where the artifacts are, and in one why some are not."""
        count = len(self._tests)
        if count:
            where = relative_path(self._config, str(self._path))
            yield f"kwait: artifacts of {count} failed {'test' if count == 1 else 'tests'}: {where}"
        trouble = next(filter(None, (self._trouble, *crash_dumper_of(self._config).troubles)), "")
        if trouble:
            yield f"kwait: artifacts could not be written: {trouble}"

    def _write_crash(self, report: pytest.TestReport) -> None:
        """Write what is known of a test whose worker died; the rest is gathered beside the run."""
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
        name = make_folder_name(report.nodeid, worker=worker, shard=format_shard(self._config))
        words = read_worker_journal(self._config, worker)
        failure.namespaces = tuple(each.namespace for each in words.places)
        try:
            folder = ArtifactFolder(create_folder(self._path, name), make_redactor(()))
        except OSError as error:
            failure.trouble = str(error)
        else:
            folder.write("failure.txt", _plain_longrepr(report))
            waits = words.waits(report.nodeid, SYSTEM_CLOCK.time())
            facts = {"test": report.nodeid, "phase": "crashed"}
            folder.write("evidence.json", self._facts(facts, worker, failure, waits))
            if words.places and not folder.trouble:
                crash_dumper_of(self._config).start(words.places, folder)
            failure.folder, failure.trouble = str(folder.path), folder.trouble
        failure.attach(report)

    def expire(self, item: pytest.Item, why: str) -> str:
        """Write the folder of a test whose time is up, and with it that of the process.

        Args:
            item: the test; goes on in its own thread meanwhile.
            why: what there is instead of a failure.

        Returns:
            where it is; empty where it could not be made.
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
            self._dump(item, folder)
            return str(folder.path)

    @contextmanager
    def _writing(self, item: pytest.Item) -> Iterator[ArtifactFolder | None]:
        """Give the folder of this attempt of a test; None where none can be made."""
        from pytest_kwait.suite.artifacts.folder import (
            ArtifactFolder,
            create_folder,
            make_folder_name,
        )

        folder = item.stash.get(_folder_key, None)
        if folder is None:
            name = make_folder_name(
                item.nodeid,
                worker=run_of(self._config).worker,
                shard=format_shard(self._config),
                attempt=item.stash.get(_attempts_key, 1),
            )
            try:
                folder = ArtifactFolder(create_folder(self._path, name), redaction_of(item))
            except OSError as error:
                self._trouble = str(error)
                yield None
                return
            item.stash[_folder_key] = folder
        try:
            yield folder
        finally:
            folder.finish()

    def _watched(self, item: pytest.Item, finalizer: Callable[[], object]) -> Callable[[], object]:
        # Those of shared fixtures stay from test to test.
        original = getattr(finalizer, "kwait_original", finalizer)

        def watched() -> object:
            try:
                return original()
            except (KeyboardInterrupt, SystemExit, pytest.exit.Exception, pytest.skip.Exception):
                raise
            except BaseException:
                with self._writing(item) as folder:
                    if folder is not None:
                        self._dump(item, folder)
                raise

        vars(watched)["kwait_original"] = original
        return watched

    def _evidence(
        self, item: pytest.Item, phase: str | None, failure: Failure, waits: list[dict[str, Any]]
    ) -> str:
        facts = {
            "test": item.nodeid,
            "phase": phase,
            "attempt": item.stash.get(_attempts_key, 1),
        }
        return self._facts(facts, run_of(self._config).worker, failure, waits)

    def _facts(
        self, test: dict[str, Any], worker: str, failure: Failure, waits: list[dict[str, Any]]
    ) -> str:
        import json

        facts = {
            **test,
            "run": run_of(self._config).id,
            "shard": format_shard(self._config),
            "worker": worker,
            "namespaces": list(failure.namespaces),
            "headline": failure.headline,
            "waits": waits,
        }
        return json.dumps(facts, indent=2, ensure_ascii=False, default=str) + "\n"

    def _dump(self, item: pytest.Item, folder: ArtifactFolder) -> None:
        """Write what is in the namespaces of a test, each once, as they are when it first fails."""
        client = client_of(item)
        dumped = item.stash.get(_dumped_key, frozenset[str]())
        names = [name for name in namespaces_of(item) if name not in dumped]
        if client is None or not names or folder.trouble:
            return
        item.stash[_dumped_key] = dumped | set(names)
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
            self._dump_namespaces(client, names, folder, deadline)
        except pytest.fail.Exception:
            # pytest-timeout, by a signal: the test has failed already.
            folder.problem("gathering was cut off by the test's own timeout")
        except KwaitError as error:
            folder.problem(f"namespaces {', '.join(names)} are left out: {error}")
        self._left -= limit - deadline.remaining


def _plain_longrepr(report: pytest.TestReport) -> str:
    """Return what pytest prints of a failure, without colours."""
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
