"""Properties and attachments of failed tests in the file of `--junitxml`.

Needed with that option, in workers of pytest-xdist too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

import pytest

from pytest_kwait.plugin.failures import failure_of, relative_path
from pytest_kwait.plugin.report_guard import guard_report

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kwait.plugin.run import Run

_ATTACHED_FILES = (
    "failure.txt",
    "failure-teardown.txt",
    "evidence.json",
    "evidence-teardown.json",
    "problems.txt",
)
"""The artifact files that are attached if they exist."""


class JUnitProperties:
    """Adds properties of failed tests, and links to their artifacts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config

    # First: it reads the facts that all other wrappers have attached.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the properties of a failed test to its own."""
        report = yield
        if report.failed:
            for pair in _properties(self._run, report):
                # Properties of the item go into its later reports, of which the last is written.
                for properties in (item.user_properties, report.user_properties):
                    if pair not in properties:
                        properties.append(pair)
        return report

    @pytest.hookimpl(wrapper=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Add the links to a test's output, before its last report completes it."""
        # The controller of pytest-xdist writes the file.
        folder = failure_of(report).folder if report.failed and not self._run.is_worker else ""
        if folder:
            self._attach(report, folder)
        return (yield)

    def _attach(self, report: pytest.TestReport, folder: str) -> None:
        """Link artifact files in the format that GitLab and Jenkins read."""
        from pytest_kwait.suite.artifacts.recording import FILE_PATTERN

        phase = "-teardown" if report.when == "teardown" else ""
        files = [Path(folder, name) for name in _ATTACHED_FILES]
        files += sorted(Path(folder).glob(FILE_PATTERN))
        links = [
            f"[[ATTACHMENT|{relative_path(self._config, str(path))}]]"
            for path in files
            if path.exists() and ("-teardown" in path.name or not phase)
        ]
        for writer in self._config.pluginmanager.get_plugins():
            # Captured output is not written by default, but the links must be.
            make: Any = getattr(writer, "node_reporter", None)
            if make is not None:
                element = Element("system-out")
                element.text = "\n".join(links)
                make(report).append(element)


def _properties(run: Run, report: pytest.TestReport) -> Iterator[tuple[str, str]]:
    failure = failure_of(report)
    if failure.folder:
        yield "kwait_artifacts", relative_path(run.config, failure.folder)
    if failure.recording:
        yield "kwait_recording", relative_path(run.config, failure.recording)
    if failure.step:
        yield "kwait_step", failure.step
    if failure.cluster:
        yield "kwait_cluster", failure.cluster
    for namespace in failure.namespaces:
        yield "kwait_namespace", namespace
    if failure.folder or failure.namespaces:
        yield "kwait_run_id", run.id
