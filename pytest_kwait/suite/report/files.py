"""Report files: JSON, the HTML page, failures in Markdown, and the journals of a report.

While a run lasts, its processes record beside its first report, in `FILE.partial`. That
folder is removed when the report is written. It stays where a run is killed, and can be
merged like a report.

The page is one file that needs no network: data, style and script. The browser builds it
from text nodes, so no output of a cluster or a test becomes markup, and its
Content-Security-Policy forbids all requests and all other scripts.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_kwait.bounds import encode_json, read_bounded
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.report.markdown import render_report_failures
from pytest_kwait.suite.report.records import JOURNAL_SUFFIX, read_entries
from pytest_kwait.suite.report.run_report import (
    assemble_report,
    decode_report,
    encode_report,
    limit_playbacks,
    list_omissions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_kwait.suite.report.records import JournalEntry, RunRecord, TestRecord, WaitRecord
    from pytest_kwait.suite.report.run_report import RunReport

MAX_PAGE_EVIDENCE = 2_000_000
"""Maximum bytes of messages and evidence in a page, first failures first; JSON has more."""

MAX_PAGE_PLAYBACKS = 4_000_000
"""Maximum bytes of playbacks in a page, failed tests first; JSON has more."""

PARTIAL_SUFFIX = ".partial"
"""Of the folder of a run's journals, behind the name of its report."""

_REPORT_START = b'{"kwait_report":'

_SCRIPTS = (
    "playback.js",
    "data.js",
    "elements.js",
    "timeline.js",
    "tables.js",
    "detail.js",
    "player.js",
    "page.js",
)


def render_page(report: RunReport) -> str:
    """Return the HTML page of a report."""
    folder = files("pytest_kwait.suite.report") / "page"
    style = (folder / "page.css").read_text(encoding="utf-8")
    parts = [(folder / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    script = "\n".join(("'use strict';", *parts))
    data = encode_json(_page_data(report)).decode()
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (folder / "page.html").read_text(encoding="utf-8")
    # Replace each placeholder once: the data itself may contain placeholders.
    head, _, rest = html.partition("{{style}}")
    middle, _, rest = rest.partition("{{data}}")
    before_script, _, tail = rest.partition("{{script}}")
    return "".join(
        (
            head.replace("{{policy}}", policy),
            style,
            middle,
            # JSON may escape every character as \u…; without < nothing in it ends the element.
            data.replace("<", "\\u003c"),
            before_script,
            script,
            tail,
        )
    )


class _TextTable:
    """Texts by number: test ids, verdicts and goals repeat."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


def _page_data(report: RunReport) -> dict[str, Any]:
    texts = _TextTable()
    runs = {run.id: number for number, run in enumerate(report.runs)}
    base = min((run.started for run in report.runs), default=0.0)
    base = min(base, *(wait.started for wait in report.waits)) if report.waits else base
    evidence: dict[int, Any] = {}
    room = MAX_PAGE_EVIDENCE
    cut = 0
    for number, wait in enumerate(report.waits):
        if wait.text or wait.evidence:
            known = {"text": wait.text, **wait.evidence}
            room -= len(encode_json(known))
            if room >= 0:
                evidence[number] = known
            else:
                cut += 1
    notes = list_omissions(report)
    if cut:
        notes.append(
            f"the evidence of {cut} waits is left out of this page; the JSON report has it"
        )
    played = {test.id for test in limit_playbacks(report.tests, MAX_PAGE_PLAYBACKS)}
    playbacks = {
        number: test.playback for number, test in enumerate(report.tests) if test.id in played
    }
    unplayed = sum(test.playback is not None for test in report.tests) - len(playbacks)
    if unplayed:
        notes.append(
            f"recordings left out of this page: {unplayed}; kwait replay plays them, and the "
            "JSON report has them"
        )
    return {
        "notes": notes,
        "base": base,
        "runs": [_run_data(run) for run in report.runs],
        "waits": [_wait_row(wait, runs, base, texts) for wait in report.waits],
        "tests": [_test_row(test, runs, texts) for test in report.tests],
        "evidence": evidence,
        "playbacks": playbacks,
        "explored": {
            number: test.explored
            for number, test in enumerate(report.tests)
            if test.explored is not None
        },
        "texts": texts.texts,
    }


def _run_data(run: RunRecord) -> dict[str, Any]:
    fields = ("name", "started", "ended", "shard", "cluster", "exit_status", "tests")
    return {name: getattr(run, name) for name in fields}


def _wait_row(wait: WaitRecord, runs: dict[str, int], base: float, texts: _TextTable) -> list[Any]:
    # Read by data.js in this order.
    row: list[Any] = [
        runs.get(wait.run, -1),
        texts.number(wait.worker),
        texts.number(wait.test),
        texts.number(wait.subject),
        texts.number(wait.goal),
        round((wait.started - base) * 1000),
        round(wait.seconds * 1000),
        texts.number(wait.outcome),
        [
            part
            for change in wait.changes
            for part in (round(change.at * 1000), texts.number(change.text))
        ],
        wait.retries,
        texts.number(wait.trouble),
        texts.number(wait.headline),
        int(wait.inner),
        wait.left_out,
        texts.number(wait.step),
        int(wait.caught),
    ]
    while row[-1] == 0:
        row.pop()
    return row


def _test_row(test: TestRecord, runs: dict[str, int], texts: _TextTable) -> list[Any]:
    return [
        runs.get(test.run, -1),
        texts.number(test.worker),
        texts.number(test.test),
        texts.number(test.outcome),
        round(test.seconds * 1000),
        texts.number(test.text),
        texts.number(test.recording),
    ]


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def partial_folder(report: Path) -> Path:
    """Return the folder for a run's journals until its report is written."""
    return report.with_name(report.name + PARTIAL_SUFFIX)


def check_writable(report: Path, what: str, source: str | None) -> None:
    """Check that a report can be written.

    Args:
        what: the name of the setting, for messages.
        source: the source of the setting.

    Raises:
        InvalidArgument: its folder is missing or not writable, or the path is a folder.
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
    """Return the report assembled from journals.

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
    """Return the report in a file, or in the folder of a killed run.

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
            return decode_report(read_bounded(path, what), what, str(path))
    except OSError as error:
        raise InvalidArgument(
            what, str(path), f"it cannot be read: {error.strerror or error}"
        ) from None
    if not report.runs and not report.waits:
        raise InvalidArgument(what, str(path), "no run has recorded anything there")
    return report


def find_reports(path: Path, what: str) -> list[Path]:
    """Return the reports at a path: a file, a folder of a killed run, or all below a folder.

    Args:
        what: what the path was given for.

    Raises:
        InvalidArgument: a folder has no report, or cannot be read.
    """
    if not path.is_dir() or path.suffix == PARTIAL_SUFFIX:
        return [path]
    try:
        found = sorted(child for child in path.rglob("*") if _may_be_report(child))
        if not found and list_journals(path):
            return [path]
    except OSError as error:
        raise InvalidArgument(what, str(path), f"it cannot be read: {error.strerror}") from None
    if not found:
        raise InvalidArgument(
            what, str(path), "no report is in this folder: --kwait-report FILE.json writes one"
        )
    return found


def _may_be_report(path: Path) -> bool:
    """Return whether a path below a folder is a report, or a file that cannot be read."""
    if path.suffix == PARTIAL_SUFFIX:
        return path.is_dir()
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_REPORT_START)) == _REPORT_START
    except OSError:
        return True


def write_report(report: RunReport, path: Path) -> None:
    """Write a report atomically, in the format of its file extension.

    Raises:
        OSError: it cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix == ".html":
        data = render_page(report).encode()
    elif suffix == ".md":
        data = render_report_failures(report).encode("utf-8", "backslashreplace")
    else:
        data = encode_report(report)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
