"""The text of a failure as pytest shows it: fitted to the terminal, shortened without `-v`.

pytest's representation of a failure has the error's message in its last entry, each line behind a
margin. The short message is made where the error is, and shown by the process that prints it.
"""

from __future__ import annotations

import re
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.engine.failure.shortening import wrap_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from pytest_kwait.errors import WaitFailed, WaitTimeout

_SHORT_MESSAGE = "kwait_short_message"
_REPLAY_SHOWN = "kwait_replay_shown"

_WIDTH = 100
_SHORT_WIDTH = 80

_INDENT = "    "
"""Of the lines that continue the headline of a message."""

_MARGIN = re.compile(r"E +")
"""pytest's margin of a message, where the error itself is no longer there to find it by."""

_PARTS = {
    "message": "the whole message",
    "timeline": "the timeline",
    "objects": "all objects",
    "pods": "all pods",
    "claims": "all claims",
    "warnings": "all warnings",
    "logs": "all logs",
    "refusals": "all refusals",
    "records": "all of the operator's log",
}
"""Parts of a message, as a short one names what it leaves out."""


class _ShownMessage(NamedTuple):
    """The message of an error in the lines that pytest shows.

    Args:
        lines: all lines of the entry; they may be changed.
        start: the index of its first line.
        length: the number of its lines.
        margin: the text before each of its lines; empty where pytest shows no traceback.
        name: the name of the error before its headline; empty where pytest shows no traceback.
    """

    lines: list[str]
    start: int
    length: int
    margin: str
    name: str


def _find_message(error: BaseException, longrepr: Any) -> _ShownMessage | None:
    """Return the message of an error in pytest's representation; None if it is not there."""
    entries, message = _entries_of(longrepr), str(error).splitlines()
    if not entries or not message:
        return None
    lines: list[str] = entries[-1].lines
    headline = message[0]
    named = format_exception_only(error)[0].splitlines()[0]
    for index, line in enumerate(lines):
        if line == headline:
            return _ShownMessage(lines, index, len(message), "", "")
        if line.endswith(named):
            margin, name = line.removesuffix(named), named.removesuffix(headline)
            return _ShownMessage(lines, index, len(message), margin, name)
    return None


def _entries_of(longrepr: Any) -> Sequence[Any]:
    """Return the entries of pytest's representation; none if it is a text."""
    entries: Sequence[Any] = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", ())
    return entries


def fit_headline(longrepr: Any, error: BaseException) -> None:
    """Wrap the headline of a wait's failure to fit a terminal of 100 columns.

    pytest puts the exception's name before the message.

    Args:
        longrepr: pytest's representation of the failure; unchanged if it is not a traceback.
        error: the failure.
    """
    shown = _find_message(error, longrepr)
    if shown is None or not shown.margin:
        return
    further = shown.margin + _INDENT
    lead = shown.margin + shown.name
    end = shown.start + 1
    texts = [shown.lines[shown.start].removeprefix(lead)]
    for line in shown.lines[end : shown.start + shown.length]:
        if not line.startswith(further):
            break
        texts.append(line.removeprefix(further).strip())
        end += 1
    shown.lines[shown.start : end] = wrap_text(" ".join(texts), _WIDTH, lead, further)


def attach_short_message(report: pytest.TestReport, error: WaitFailed | WaitTimeout) -> None:
    """Attach the short message of a wait's failure, in values that pytest-xdist can serialize.

    These are its `lines` without the `margin` before each, the parts of the whole message that are
    `omitted`, and the numbers of lines `before` and `after` it. Without an own message of the
    error, or if pytest does not show it, nothing is attached.
    """
    from pytest_kwait.engine.failure.wait_report import WaitReport

    shown = _find_message(error, report.longrepr)
    if shown is None or not isinstance(error.report, WaitReport):
        return
    # Without the folder of the error's module, to have more room for its cause.
    lead = f"{type(error).__name__}: " if shown.name else ""
    message = error.report.shorten(_SHORT_WIDTH - len(shown.margin), lead)
    vars(report)[_SHORT_MESSAGE] = {
        "margin": shown.margin,
        "lines": list(message.lines),
        "omitted": list(message.omitted),
        "before": shown.start,
        "after": len(shown.lines) - shown.start - shown.length,
    }


def short_lines_of(report: pytest.TestReport) -> list[str]:
    """Return the lines of a report's short message; none if it has no such message."""
    short: Mapping[str, Any] = vars(report).get(_SHORT_MESSAGE, {})
    lines: list[str] = short.get("lines", [])
    return lines


def drop_short_message(report: pytest.TestReport) -> None:
    """Show the whole message of a report, if it is shown at all."""
    vars(report).pop(_SHORT_MESSAGE, None)


def show_message(report: pytest.TestReport, *, is_short: bool, where: str, replay: str) -> None:
    """Show the message of a failure: the short one if wanted, and a line that replays the test.

    Args:
        is_short: whether the short message is shown, if the report has one.
        where: the file that has the whole message; empty without one.
        replay: the line, once added to the message; empty for none.
    """
    short = vars(report).pop(_SHORT_MESSAGE, None)
    if short is not None and is_short:
        _show_short_message(report, short, where)
    if replay and not vars(report).get(_REPLAY_SHOWN):
        vars(report)[_REPLAY_SHOWN] = True
        report.longrepr = _append_line(report.longrepr, replay, short)


def _show_short_message(report: pytest.TestReport, short: Mapping[str, Any], where: str) -> None:
    entries = _entries_of(report.longrepr)
    if not entries:
        return
    entry = entries[-1]
    message = list(short["lines"])
    if short["omitted"]:
        message += _format_more(short, where)
    end = len(entry.lines) - short["after"]
    entry.lines[short["before"] : end] = [f"{short['margin']}{line}" for line in message]
    for shown in entries:
        arguments = getattr(shown, "reprfuncargs", None)
        if arguments is not None:
            arguments.args = [
                pair for pair in arguments.args if not pair[0].startswith(("kwait", "wait_for"))
            ]


def _format_more(short: Mapping[str, Any], where: str) -> list[str]:
    names = [_PARTS[name] for name in short["omitted"]]
    parts = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return wrap_text(
        f"-v shows {parts}" + (f"; so does {where}" if where else ""),
        _SHORT_WIDTH - len(short["margin"]),
        "  more: ",
        "        ",
    )


def _append_line(longrepr: Any, line: str, short: Mapping[str, Any] | None) -> Any:
    """Return a representation of a failure with a line at the end of its message.

    Args:
        longrepr: pytest's representation.
        line: the line; it is not wrapped, so that it can be copied.
        short: the short message of a wait's failure; None for other failures.
    """
    if isinstance(longrepr, str):
        return f"{longrepr}\n{line}"
    entries = _entries_of(longrepr)
    if not entries:
        return longrepr
    lines = entries[-1].lines
    if lines and lines[-1].endswith("\n"):
        # A traceback as Python prints it.
        lines.append(f"{line}\n")
    elif short is not None:
        # Notes of the error come after its message.
        lines.insert(len(lines) - short["after"], f"{short['margin']}  {line}")
    else:
        margins = map(_MARGIN.match, lines)
        margin = next((margin[0] for margin in margins if margin is not None), "E   ")
        lines.append(f"{margin}{line}")
    return longrepr
