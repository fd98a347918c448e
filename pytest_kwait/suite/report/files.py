"""A report as one page: the data, and what shows it, in one file that needs no network.

The page is built in the browser from the data alone, by text nodes: nothing that a cluster or a
test has said becomes markup. A policy in the page itself forbids every request and every script but
its own.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.suite.report.report import list_omissions

if TYPE_CHECKING:
    from pytest_kwait.suite.report.records import RunRecord, TestRecord, WaitRecord
    from pytest_kwait.suite.report.report import RunReport

__all__ = ["render_page"]

MAX_PAGE_EVIDENCE = 2_000_000
"""Bytes of messages and evidence in a page; the first failures have theirs, JSON has more."""

_SCRIPTS = ("data.js", "elements.js", "timeline.js", "tables.js", "detail.js", "page.js")


def render_page(report: RunReport) -> str:
    """Return the page of a report."""
    folder = files("pytest_kwait.suite") / "page"
    style = (folder / "page.css").read_text(encoding="utf-8")
    parts = [(folder / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    script = "\n".join(("'use strict';", *parts))
    data = msgspec.json.encode(_page_data(report)).decode()
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html = (folder / "page.html").read_text(encoding="utf-8")
    # Only once each: what the data says is not looked at for further places.
    head, _, rest = html.partition("{{style}}")
    middle, _, rest = rest.partition("{{data}}")
    before_script, _, tail = rest.partition("{{script}}")
    return "".join(
        (
            head.replace("{{policy}}", policy),
            style,
            middle,
            # JSON may have every character as \u…; without < nothing in it ends the element.
            data.replace("<", "\\u003c"),
            before_script,
            script,
            tail,
        )
    )


class _TextTable:
    """Texts by number: test ids, verdicts and goals are said many times."""

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
            room -= len(msgspec.json.encode(known))
            if room >= 0:
                evidence[number] = known
            else:
                cut += 1
    said = list_omissions(report)
    if cut:
        said.append(f"the evidence of {cut} waits is left out of this page; the JSON report has it")
    return {
        "notes": said,
        "base": base,
        "runs": [_run_data(run) for run in report.runs],
        "waits": [_wait_row(wait, runs, base, texts) for wait in report.waits],
        "tests": [_test_row(test, runs, texts) for test in report.tests],
        "evidence": evidence,
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
            for each in wait.changes
            for part in (round(each.at * 1000), texts.number(each.text))
        ],
        wait.retries,
        texts.number(wait.trouble),
        texts.number(wait.headline),
        int(wait.inner),
        wait.left_out,
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
    ]


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
