"""`failures.md`: the distinct failures of a run, in the folder of its artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.plugin.failures import relative_path

if TYPE_CHECKING:
    import pytest

    from pytest_kwait.plugin.failures import Failure
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.report.failures import FailedPhase


class FailureList:
    """Collects the failures of all processes of a run, and writes the file at its end.

    Args:
        path: the folder of all artifacts.
    """

    def __init__(self, run: Run, path: Path) -> None:
        from pytest_kwait.clock import SYSTEM_CLOCK

        self._run = run
        self._path = path
        self._started = SYSTEM_CLOCK.time()
        self._folders: dict[Path, list[FailedPhase]] = {}
        """The folders of failed tests, each with the failures that were reported of it."""
        self.line = ""
        """The line of the summary; empty without a file."""
        self.trouble = ""
        """Why the file could not be written; empty if it was."""

    def add(self, report: pytest.TestReport, failure: Failure) -> None:
        """Add a failed phase of a test of any process."""
        from pytest_kwait.suite.report.failures import FailedPhase

        phase = FailedPhase(
            report.nodeid,
            report.when if report.when in ("setup", "call", "teardown") else "crashed",
            failure.headline,
            failure.place,
            failure.step,
            list(failure.namespaces),
            failure.cluster or self._run.cluster_name,
            failure.kubectl,
            self._run.id,
            self._run.shard,
            text=report.longreprtext,
        )
        # Without a folder it has one of its own here, which is not there.
        self._folders.setdefault(Path(failure.folder or report.nodeid), []).append(phase)

    def add_folder(self, folder: Path) -> None:
        """Add the folder of a test that no report will follow."""
        self._folders.setdefault(folder, [])

    def finish(self, *, is_green: bool) -> None:
        """Write the file; a green run removes that of an earlier one."""
        from pytest_kwait.engine.failure.redaction import make_redactor
        from pytest_kwait.suite.artifacts.failures_file import FailuresFile
        from pytest_kwait.suite.report.markdown import count_failures, render_failures

        run = self._run
        file = FailuresFile(self._path, run.id, self._started, make_redactor(()))
        phases = self._read_phases()
        if phases:
            about = [f"Run `{run.id}`.", "Paths are relative to where pytest was started."]
            pages = [self._show(str(path)) for path in run.settings.report]
            written = file.write(render_failures(phases, about, pages))
            if written:
                self.line = f"kwait: {count_failures(phases)}: {self._show(written)}"
        elif is_green:
            file.remove_stale()
        self.trouble = file.trouble

    def _read_phases(self) -> list[FailedPhase]:
        """Return the failed phases of the run, those of other shards last."""
        from pytest_kwait.suite.artifacts.failures_file import (
            find_shard_folders,
            read_failed_phases,
        )

        phases: list[FailedPhase] = []
        for folder, reported in self._folders.items():
            # A worker on another machine has its folders there.
            phases += read_failed_phases(folder, self._show) or reported
        if self._run.shard:
            for folder in find_shard_folders(self._path, self._run.id, self._folders):
                phases += read_failed_phases(folder, self._show)
        return phases

    def _show(self, path: str) -> str:
        return relative_path(self._run.config, path)
