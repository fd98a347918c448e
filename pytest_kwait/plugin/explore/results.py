"""What an exploration reports: one test report each, and the section at the end of the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_kwait.engine.failure.shortening import wrap_text
from pytest_kwait.plugin.failure_text import drop_short_message
from pytest_kwait.plugin.failures import relative_path, show_messages
from pytest_kwait.suite.config.options import OPTIONS
from pytest_kwait.suite.explore.verdict import (
    count_runs,
    describe_cause,
    make_command,
    needs_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kwait.plugin.explore.coordinator import CollectedTest, Coordinator
    from pytest_kwait.suite.explore.verdict import DistinctFailure, TestVerdict

_OWN_OPTIONS = frozenset(
    f"--kwait-{name}"
    for name in (
        "explore", "seed", "explore-level", "perturbations", "artifacts", "report", "record",
        "run-id", "shard", "keep",
    )
)  # fmt: skip
"""Options of this run that a command to reproduce a failure does not take over."""

_PASSED_ON = ("-c", "-o", "-p", "--config-file", "--override-ini", "--rootdir", "--confcutdir")
"""Options of pytest that it takes over."""

_WIDTH = 79
"""Columns of the headline of a failure."""

_PERTURBATIONS_FILE = "perturbations.txt"


class _FailurePlace:
    """Where a test failed, with the summary of its failures, as pytest's short summary reads it.

    Args:
        path: the file.
        lineno: the line.
        message: the summary.
    """

    def __init__(self, path: str, lineno: int, message: str) -> None:
        self.path = path
        self.lineno = lineno
        self.message = message


class _FailureText:
    """The failures of one test: what each needs, its command and its message.

    Args:
        blocks: lines about a failure, each with the report of a run.
        place: the failing line of the first one.
    """

    def __init__(
        self,
        blocks: list[tuple[list[str], pytest.TestReport | None]],
        place: _FailurePlace,
    ) -> None:
        self.blocks = blocks
        self.reprcrash = place

    def toterminal(self, tw: Any) -> None:
        """Write the blocks."""
        for number, (lines, report) in enumerate(self.blocks):
            if number:
                tw.line("")
            for line in lines:
                tw.line(line, bold=True)
            if report is not None:
                report.toterminal(tw)

    def __str__(self) -> str:
        return "\n\n".join(
            "\n".join([*lines, *([report.longreprtext] if report is not None else [])])
            for lines, report in self.blocks
        )


class ExplorationReport:
    """Reports the runs of an exploration.

    Args:
        level: the level of the exploration.
        only: its only perturbations; None for all of the level.
    """

    def __init__(
        self,
        config: pytest.Config,
        coordinator: Coordinator,
        level: str,
        only: Sequence[str] | None,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._level = level
        self._only = only
        self._options = _list_options(config)
        self._files: dict[str, str] = {}

    def log(self) -> None:
        """Log the reports of each test that ran: of a failed run, or of one that passed."""
        hook = self._config.hook
        for test, verdict in zip(
            self._coordinator.tests, self._coordinator.verdict.tests, strict=True
        ):
            if not verdict.runs:
                continue
            hook.pytest_runtest_logstart(nodeid=test.id, location=test.location)
            for report in self._make_reports(test, verdict):
                hook.pytest_runtest_logreport(report=report)
            hook.pytest_runtest_logfinish(nodeid=test.id, location=test.location)

    def shorten(self) -> None:
        """Show the short messages of waits in the failures that were logged."""
        reports = [
            report
            for verdict in self._coordinator.verdict.tests
            for failure in verdict.failures
            for report in failure.result.reports
        ]
        show_messages(self._config, reports)

    def lines(self, seed: int) -> Iterator[str]:
        """Yield the lines of the section at the end.

        Args:
            seed: the seed of the exploration.
        """
        from pytest_kwait.apimachinery.times import format_duration

        verdict = self._coordinator.verdict
        failed = f"{verdict.failed} failed, {verdict.distinct} distinct"
        yield (
            f"seed {seed}, level {self._level}: {count_runs(verdict.runs)} in "
            f"{format_duration(round(self._coordinator.seconds))}, "
            f"{failed if verdict.failed else 'none failed'}"
        )
        for facts, test in zip(self._coordinator.tests, verdict.tests, strict=True):
            if not test.runs:
                yield f"{facts.name}: not run"
                continue
            yield f"{facts.name}: {test}"
            for failure in test.failures:
                text = f"{count_runs(failure.runs)}: {failure.failure.headline}"
                yield from wrap_text(text, _WIDTH, "  ", "    ", max_lines=2)
                for line in describe_cause(failure.failure):
                    yield f"    {line}"
                yield f"    {self._command(facts, failure)}"

    def _make_reports(self, test: CollectedTest, verdict: TestVerdict) -> list[pytest.TestReport]:
        failures = verdict.failures
        reports = [report for failure in failures[:1] for report in failure.result.reports]
        if failures and not any(report.failed for report in reports):
            # Of a crashed worker, or too large.
            reports = _make_bare_reports(test, "failed", failures[0].failure.headline)
        reports = reports or verdict.reports
        if not reports:
            # They were too large.
            reports = _make_bare_reports(test, verdict.outcome)
        if failures:
            failed = next(report for report in reports if report.failed)
            original = _copy(failed)
            replaced = _copy(failed)
            # pytest takes any object with `toterminal`.
            replaced.longrepr = cast("Any", self._describe(test, verdict, original))
            drop_short_message(replaced)
            failures[0].result.reports = [original if r is failed else r for r in reports]
            reports = [replaced if r is failed else r for r in reports]
        if reports and verdict.is_explored:
            vars(reports[-1])["kwait_explored"] = self._facts(test, verdict)
            reports[-1].user_properties += self._properties(test, verdict)
        return reports

    def _describe(
        self, test: CollectedTest, verdict: TestVerdict, first: pytest.TestReport
    ) -> _FailureText:
        blocks: list[tuple[list[str], pytest.TestReport | None]] = []
        for number, failure in enumerate(verdict.failures):
            lines = [
                f"{count_runs(failure.runs, verdict.runs)} failed, seed {failure.result.seed}:",
                *describe_cause(failure.failure),
                f"reproduce: {self._command(test, failure)}",
            ]
            reports = [first] if not number else [r for r in failure.result.reports if r.failed]
            # A failure without reports is known by its headline alone.
            if not reports:
                lines.append(failure.failure.headline)
            blocks.append((lines, reports[0] if reports else None))
        crash = getattr(first.longrepr, "reprcrash", None)
        summary = f"{count_runs(verdict.failed, verdict.runs)} failed: "
        summary += verdict.failures[0].failure.headline
        path = crash.path if crash is not None else test.location[0]
        line = crash.lineno if crash is not None else (test.location[1] or 0) + 1
        return _FailureText(blocks, _FailurePlace(path, line, summary))

    def _command(self, test: CollectedTest, failure: DistinctFailure) -> str:
        shrunk, only = failure.failure.shrunk, self._only
        if shrunk is not None and (shrunk.only or (shrunk.only == [] and shrunk.is_confirmed)):
            only = shrunk.only
        return make_command(
            _relative_id(self._config, test.name),
            failure.result.seed,
            self._level,
            only,
            self._options,
            self._file(failure, only or ()) if needs_file(only) else "",
        )

    def _file(self, failure: DistinctFailure, only: Sequence[str]) -> str:
        """Return the file with the perturbations of a failure; empty without artifacts."""
        folder = failure.failure.folder
        if not folder:
            return ""
        if folder not in self._files:
            path = Path(folder, _PERTURBATIONS_FILE)
            try:
                path.write_text("".join(f"{perturbation}\n" for perturbation in only), "utf-8")
            except OSError:
                return ""  # the seed alone reproduces it, with more perturbations
            self._files[folder] = relative_path(self._config, str(path))
        return self._files[folder]

    def _facts(self, test: CollectedTest, verdict: TestVerdict) -> dict[str, Any]:
        return {
            "runs": verdict.runs,
            "passed": verdict.passed,
            "failures": [
                {
                    "headline": failure.failure.headline,
                    "runs": failure.runs,
                    "seed": failure.result.seed,
                    "perturbations": failure.failure.shrunk and failure.failure.shrunk.only,
                    "command": self._command(test, failure),
                }
                for failure in verdict.failures
            ],
        }

    def _properties(self, test: CollectedTest, verdict: TestVerdict) -> list[tuple[str, object]]:
        commands = [self._command(test, failure) for failure in verdict.failures]
        return [
            ("kwait_explored", str(verdict)),
            *(("kwait_reproduce", command) for command in commands),
        ]


def _relative_id(config: pytest.Config, id: str) -> str:
    """Return a node id relative to where pytest was started, as pytest takes it there."""
    path, separator, names = id.partition("::")
    path = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    return f"{path}{separator}{names}"


def _copy(report: pytest.TestReport) -> pytest.TestReport:
    copied = pytest.TestReport.__new__(type(report))
    vars(copied).update(vars(report))
    copied.user_properties = list(report.user_properties)
    return copied


def _make_bare_reports(
    test: CollectedTest, outcome: str, headline: str = ""
) -> list[pytest.TestReport]:
    """Return the reports of a test of which only the outcome and the failure are known."""
    skipped = outcome in ("skipped", "xfailed")
    call = pytest.TestReport(
        test.id,
        test.location,
        {},
        "skipped" if skipped else "failed" if outcome == "failed" else "passed",
        (test.location[0], (test.location[1] or 0) + 1, "Skipped") if skipped else headline,
        "call",
    )
    if outcome == "xfailed":
        vars(call)["wasxfail"] = ""
    return [call, pytest.TestReport(test.id, test.location, {}, "passed", None, "teardown")]


def _list_options(config: pytest.Config) -> list[str]:
    """Return the options of this run that a command to reproduce a failure needs."""
    flags = {flag: definition.kind != "bool" for definition in OPTIONS for flag in definition.flags}
    flags.update(dict.fromkeys(_PASSED_ON, True))
    options: list[str] = []
    given = iter(map(str, config.invocation_params.args))
    for arg in given:
        flag, equals, _ = arg.partition("=")
        if flag not in flags:
            continue
        words = [arg] if equals or not flags[flag] else [arg, next(given, "")]
        if flag not in _OWN_OPTIONS and not words[-1].startswith("no:"):
            options += words
    return options
