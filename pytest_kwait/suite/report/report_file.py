"""Reports and journals as files: where a run records, what it is put together from, what is read.

While a run lasts, its processes record beside its first report, in `FILE.partial`; when its report
is written that folder goes away. It stays where a run is killed, and can be merged like a report.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.report.journal import JOURNAL_SUFFIX, read_entries
from pytest_kwait.suite.report.report import assemble_report, decode_report, encode_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_kwait.suite.report.journal import JournalEntry
    from pytest_kwait.suite.report.report import RunReport

__all__ = [
    "check_writable",
    "list_journals",
    "partial_folder",
    "read_report",
    "remove_journals",
    "report_from_journals",
    "write_report",
]


def partial_folder(report: Path) -> Path:
    """Return the folder that a run records in while its report is not written."""
    return report.with_name(report.name + ".partial")


def check_writable(report: Path, what: str, source: str | None) -> None:
    """Return if a report can be written.

    Args:
        report: its path.
        what: what the path was given for.
        source: where it came from.

    Raises:
        InvalidArgument: its folder is not there or cannot be written to, or it is a folder itself.
    """
    if report.is_dir():
        raise InvalidArgument(what, str(report), "it is a folder; use the path of a file", source)
    if not report.parent.is_dir():
        valid = f"there is no folder {report.parent}; make it first"
        raise InvalidArgument(what, str(report), valid, source)
    trial = report.with_name(f".{report.name}.{os.getpid()}")
    try:
        trial.write_bytes(b"")
        trial.unlink()
    except OSError as error:
        valid = f"{report.parent} cannot be written to: {error.strerror}"
        raise InvalidArgument(what, str(report), valid, source) from None


def list_journals(folder: Path, run: str = "") -> list[Path]:
    """Return the journals in a folder, of one run or of all.

    Raises:
        OSError: the folder cannot be read.
    """
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == JOURNAL_SUFFIX and path.name.startswith(run)
    )


def report_from_journals(journals: Iterable[Path]) -> RunReport:
    """Return the report of what was recorded.

    Raises:
        OSError: a journal cannot be read.
    """

    def all_entries() -> Iterator[JournalEntry]:
        for journal in journals:
            yield from read_entries(journal)

    return assemble_report(all_entries())


def remove_journals(journals: Iterable[Path]) -> None:
    """Remove journals, and their folder if nothing else is in it."""
    for journal in journals:
        with contextlib.suppress(OSError):
            journal.unlink()
            journal.parent.rmdir()


def read_report(path: Path, what: str) -> RunReport:
    """Return the report in a file, or in the folder that a killed run has left.

    Args:
        path: a report as JSON, `FILE.partial`, or a journal in it.
        what: what the path was given for.

    Raises:
        InvalidArgument: it cannot be read, or is no report.
    """
    try:
        if path.is_dir():
            report = report_from_journals(list_journals(path))
        elif path.suffix == JOURNAL_SUFFIX:
            report = report_from_journals([path])
        else:
            return decode_report(path.read_bytes(), what, str(path))
    except OSError as error:
        raise InvalidArgument(
            what, str(path), f"it cannot be read: {error.strerror or error}"
        ) from None
    if not report.runs and not report.waits:
        raise InvalidArgument(what, str(path), "no run has recorded anything there")
    return report


def write_report(report: RunReport, path: Path) -> None:
    """Write a report in the form that its path ends with; whoever reads it sees all or nothing.

    Raises:
        OSError: it cannot be written.
    """
    if path.suffix.lower() == ".html":
        from pytest_kwait.suite.report.files import render_page

        data = render_page(report).encode()
    else:
        data = encode_report(report)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
