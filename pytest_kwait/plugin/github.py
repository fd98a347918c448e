"""GitHub Actions output of a run: annotations, and the step summary.

Written by the controller after the tests, for runs that have used this plugin. Needed on
GitHub Actions alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.plugin.failures import failure_of, list_places, relative_path
from pytest_kwait.plugin.report_guard import guard_report

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.report.github import FailedTest

_MAX_ANNOTATIONS = 50
"""Maximum number of annotations that GitHub shows for a job."""

_OTHER_PLUGIN = "pytest_github_actions_annotate_failures"


class FailureCollector:
    """Collects failures of all processes of the run, and reports them at its end."""

    def __init__(self, run: Run) -> None:
        # Now, while there are no threads: see `artifacts.Collector`.
        from pytest_kwait.suite.report import github

        self._github = github
        self._run = run
        self._config = run.config
        self._counts: dict[str, int] = {}
        self._failed: list[FailedTest] = []
        self._ours = run.settings.artifacts is not None
        self._trouble = ""

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Collect a failure."""
        category = self._config.hook.pytest_report_teststatus(report=report, config=self._config)[0]
        if category:
            self._counts[category] = self._counts.get(category, 0) + 1
        self._ours = self._ours or bool(vars(report).get("kwait_asked"))
        if report.failed:
            self._failed.append(self._summarize(report))
        return (yield)

    # Last: the fixtures of the session have ended.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the summary, with or without a terminal."""
        self._write_summary()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the annotations."""
        for line in self._lines():
            terminalreporter.line(line)

    def _lines(self) -> Iterator[str]:
        """Return the annotations, and why there is no summary."""
        if not self._ours:
            return
        if not self._config.pluginmanager.hasplugin(_OTHER_PLUGIN):
            for failed in self._failed[:_MAX_ANNOTATIONS]:
                yield self._github.format_annotation(failed)
        if self._trouble:
            yield f"kwait: the step summary could not be written: {self._trouble}"

    def _write_summary(self) -> None:
        """Append the summary to the step's, as far as it fits."""
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if not path or not self._failed or not self._ours:
            return
        file = Path(path)
        try:
            there = file.stat().st_size if file.exists() else 0
            text = self._github.format_summary(
                self._failed,
                self._counts,
                run=self._run.id,
                link=_run_link(),
                size=self._github.MAX_SUMMARY_SIZE - there,
            )
            with file.open("a", encoding="utf-8", errors="backslashreplace") as opened:
                opened.write(text)
        except OSError as error:
            self._trouble = str(error)

    def _summarize(self, report: pytest.TestReport) -> FailedTest:
        failure = failure_of(report)
        file, line = self._line(report)
        phase = f" ({report.when})" if report.when in ("setup", "teardown") else ""
        return self._github.FailedTest(
            report.nodeid + phase,
            failure.headline,
            failure.awaited,
            relative_path(self._config, failure.folder) if failure.folder else "",
            file,
            line,
        )

    def _line(self, report: pytest.TestReport) -> tuple[str, int]:
        """Return the failed line, or the first line of the test, relative to the repository."""
        root = Path(os.environ.get("GITHUB_WORKSPACE") or self._config.rootpath)
        for path, line in list_places(self._config, report):
            if path.is_relative_to(root) and "site-packages" not in path.parts:
                return path.relative_to(root).as_posix(), line
        return "", 1


def _run_link() -> str:
    parts = [
        os.environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    ]
    if not all(parts):
        return ""
    server, repository, run = parts
    return f"{server}/{repository}/actions/runs/{run}#artifacts"
