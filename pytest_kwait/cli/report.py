"""`kwait report merge`: merge reports of several jobs, or records of a killed run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kwait.errors import KwaitError

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    merge = actions.add_parser(
        "merge",
        help="merge reports",
        description="Merge reports; records that occur in several of them are kept once.",
    )
    merge.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a report as JSON, or the FILE.partial of a killed run",
    )
    merge.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the merged report: .html is a page, .json can be merged again",
    )


def run(arguments: argparse.Namespace) -> int:
    """Merge the reports."""
    # Imports for JSON are expensive; other commands do without them.
    from pytest_kwait.suite.config.settings import read_reports
    from pytest_kwait.suite.report.files import check_writable, read_report, write_report
    from pytest_kwait.suite.report.run_report import list_omissions, merge_reports

    (output,) = read_reports(arguments.output, "--output", None)
    check_writable(output, "--output", None)
    report = merge_reports(read_report(path, "FILE") for path in arguments.files)
    for note in list_omissions(report):
        print(f"kwait report: {note}", file=sys.stderr)
    try:
        write_report(report, output)
    except OSError as error:
        raise KwaitError(f"{output} could not be written: {error.strerror}") from None
    waits = sum(not wait.inner for wait in report.waits)
    print(f"{output}: {waits} waits of {len(report.runs)} runs")
    return 0
