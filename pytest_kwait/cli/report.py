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
    """Say what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    merge = actions.add_parser(
        "merge",
        help="make one report of several",
        description="Make one report of several; what several of them have is in it once.",
    )
    merge.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a report as JSON, or the FILE.partial that a killed run has left",
    )
    merge.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="where to: .html is a page to look at, .json can be merged again",
    )


def run(arguments: argparse.Namespace) -> int:
    """Merge once."""
    # JSON costs, and other commands do without it.
    from pytest_kwait.suite.config.parsers import read_reports
    from pytest_kwait.suite.report.files import check_writable, read_report, write_report
    from pytest_kwait.suite.report.report import list_omissions, merge_reports

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
