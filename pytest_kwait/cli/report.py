"""`kwait report`: merge reports of jobs, audit waits, suggest limits, find flaky tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.cli import print_text
from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from pytest_kwait.suite.report.run_report import RunReport

_NO_CALLS = "no test of the reports has called a wait, or an older pytest-kwait wrote them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    merge = actions.add_parser(
        "merge",
        help="merge reports",
        description="Merge reports; records that occur in several of them are kept once.",
    )
    _add_files(merge)
    merge.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the merged report: .html is a page, .json can be merged again, .md has the distinct "
        "failures",
    )

    audit = actions.add_parser(
        "audit",
        help="list waits that prove nothing",
        description="List waits that were met by a transient, always met at the first look, or "
        "close to their limit, in all runs of the reports.",
    )
    _add_files(audit)
    audit.add_argument("--all", action="store_true", help="list all of them, not the first 20")
    limits = actions.add_parser(
        "limits",
        help="suggest limits of waits",
        description="Suggest limits from the durations of the waits in all runs of the reports: "
        "three times the 99th percentile, at least 5 s, rounded up.",
    )
    _add_files(limits)

    flakes = actions.add_parser(
        "flakes",
        help="list tests that failed in some runs",
        description="List how often each test failed in all runs of the reports, since when, with "
        "which failures, and what it saw only then.",
    )
    flakes.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a report as JSON, the FILE.partial of a killed run, or a folder with such",
    )
    flakes.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a report as JSON, or the FILE.partial of a killed run",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    # Imports for JSON are expensive; other commands do without them.
    from pytest_kwait.suite.config.values import read_reports
    from pytest_kwait.suite.report.files import check_writable, read_report
    from pytest_kwait.suite.report.run_report import list_omissions, merge_reports

    if arguments.action == "flakes":
        _list_flakes(arguments.paths, as_json=arguments.json)
        return 0
    output = None
    if arguments.action == "merge":
        (output,) = read_reports(arguments.output, "--output", None)
        check_writable(output, "--output", None)
    report = merge_reports(read_report(path, "FILE") for path in arguments.files)
    for note in list_omissions(report):
        print_text(f"kwait report: {note}", sys.stderr)
    if output is not None:
        _write(report, output)
    elif arguments.action == "audit":
        _list_findings(report, show_all=arguments.all)
    else:
        _suggest_limits(report)
    return 0


def _write(report: RunReport, output: Path) -> None:
    from pytest_kwait.suite.report.files import write_report

    try:
        write_report(report, output)
    except OSError as error:
        raise KwaitError(f"{output} could not be written: {error.strerror}") from None
    if output.suffix.lower() == ".md":
        from pytest_kwait.suite.report.failures import list_failures
        from pytest_kwait.suite.report.markdown import count_failures

        print(f"{output}: {count_failures(list_failures(report))} of {len(report.runs)} runs")
        return
    waits = sum(not wait.inner for wait in report.waits)
    print(f"{output}: {waits} waits of {len(report.runs)} runs")


def _list_findings(report: RunReport, *, show_all: bool) -> None:
    from pytest_kwait.suite.audit.findings import AuditCounts, render_findings

    counts = AuditCounts()
    counts.add_records(report.waits)
    if not counts.calls:
        raise KwaitError(_NO_CALLS)
    print_text("\n".join(render_findings(counts, more="--all lists them", show_all=show_all)))


def _suggest_limits(report: RunReport) -> None:
    from pytest_kwait.suite.audit.limits import collect_limits, render_limits

    rows = collect_limits(report.waits)
    if not rows:
        raise KwaitError(_NO_CALLS)
    clusters = sorted({run.cluster for run in report.runs if run.cluster})
    if len(clusters) > 1:
        print_text(
            f"kwait report: the runs used several clusters ({', '.join(clusters)}); "
            "limits for one come from its runs alone",
            sys.stderr,
        )
    print_text("\n".join(render_limits(rows)))


def _list_flakes(paths: Iterable[Path], *, as_json: bool) -> None:
    from pytest_kwait.suite.report.files import find_reports, read_report
    from pytest_kwait.suite.report.flakes import FlakeCounts, render_flakes

    counts = FlakeCounts()
    for path in paths:
        for file in find_reports(path, "PATH"):
            counts.add(read_report(file, "PATH"))
    statistics = counts.statistics()
    if not statistics.tests:
        raise KwaitError("no test of the reports has passed or failed")
    if statistics.unnamed:
        print_text(
            f"kwait report: {statistics.unnamed} passed tests are counted in these reports, but "
            "not named: an older pytest-kwait wrote them; they count as no run",
            sys.stderr,
        )
    if as_json:
        from msgspec import json

        from pytest_kwait.bounds import encode_json

        print_text(json.format(encode_json(statistics)).decode())
    else:
        print_text("\n".join(render_flakes(statistics)))
