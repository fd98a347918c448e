"""GitHub Actions output: annotations at lines of code, and the step summary in Markdown."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SUMMARY_SIZE = 1024 * 1024
"""Maximum bytes of one step's summary; GitHub rejects a longer one as a whole."""

_MARKUP = re.compile(r"[\\`*_\[\]~|]")


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A failed test.

    Args:
        test: the node id, with the phase if setup or teardown failed.
        headline: what happened, in one line.
        awaited: the goal of the failed wait; may be empty.
        folder: the folder with its artifacts; may be empty.
        file: the file of the line that failed, from the root of the repository; may be empty.
        line: its number, from 1.
    """

    test: str
    headline: str
    awaited: str = ""
    folder: str = ""
    file: str = ""
    line: int = 1


def format_annotation(failed: FailedTest) -> str:
    """Return the workflow command that annotates a failure at its line.

    Source: toolkit packages/core/src/command.ts, `Command.toString`.
    """
    place = f"file={_escape_property(failed.file)},line={failed.line}," if failed.file else ""
    return f"::error {place}title={_escape_property(failed.test)}::{_escape_data(failed.headline)}"


def format_summary(
    failures: Sequence[FailedTest],
    counts: Mapping[str, int],
    *,
    run: str,
    link: str = "",
    size: int = MAX_SUMMARY_SIZE,
) -> str:
    """Return the summary of a run as Markdown, with as many failures as fit.

    Args:
        failures: the tests that failed.
        counts: the number of tests by outcome.
        run: the id of the run.
        link: the address of the job's artifacts; empty if unknown.
        size: maximum bytes; less than its first lines gives an empty text.
    """
    counted = ", ".join(
        f"{number} {'errors' if outcome == 'error' and number > 1 else _escape_cell(outcome)}"
        for outcome, number in counts.items()
        if number
    )
    artifacts = any(failure.folder for failure in failures)
    columns = ["test", "what happened", "awaited", *(["artifacts"] if artifacts else [])]
    head = [
        f"### pytest-kwait: {counted}",
        "",
        f"Run <code>{_escape_cell(run)}</code>.",
        "",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
    ]
    rows = [_row(failure, link, artifacts) for failure in failures]
    # Room for the line with the number of omitted failures.
    remaining_size = size - _bytes(head) - 100
    if remaining_size < 0:
        return ""
    fitting = 0
    for row in rows:
        remaining_size -= _bytes([row])
        if remaining_size < 0:
            break
        fitting += 1
    tail = [""]
    if fitting < len(rows):
        tail = ["", f"{len(rows) - fitting} more failures are left out.", ""]
    return "\n".join([*head, *rows[:fitting], *tail]) + "\n"


def _row(failed: FailedTest, link: str, artifacts: bool) -> str:
    cells = [
        f"<code>{_escape_cell(failed.test)}</code>",
        _escape_cell(failed.headline),
        _escape_cell(failed.awaited),
    ]
    if artifacts:
        folder = f"<code>{_escape_cell(failed.folder)}</code>" if failed.folder else ""
        linked = f'<a href="{html.escape(link)}">{folder}</a>' if folder and link else folder
        cells.append(linked)
    return f"| {' | '.join(cells)} |"


def _escape_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    escaped = html.escape(" ".join(text.split()), quote=False)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", escaped)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _bytes(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines)
