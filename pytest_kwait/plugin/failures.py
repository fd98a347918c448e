"""Failures of tests: how they are shown, and their facts, carried by reports to other processes.

An error of this package is shown by its message and the user's line, without the package's frames.
A report arrives in the controller even if the worker that made it dies later. It carries the whole
message, for artifacts and reports; without `-v`, the terminal's summary shows a short one.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import ApiError, KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.cleanup import Cleanup, namespaces_in_use
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.run import run_settings
from pytest_kwait.plugin.timeout import time_left
from pytest_kwait.plugin.usage import uses_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.config.settings import Settings

_ATTRIBUTE = "kwait_failure"
_MAX_LENGTH = 500

_SHORT_MESSAGE = "kwait_short_message"
_REPLAY_SHOWN = "kwait_replay_shown"

_LINE_WIDTH = 100
_SHORT_LINE_WIDTH = 80
_MARGIN = re.compile(r"E +")
_FIRST_LINE = re.compile(r"(E +)((?:\w+\.)+\w+: )")

_INTERNAL_PACKAGES = frozenset({"pytest_kwait", "_pytest", "pluggy", "contextlib", "xdist"})
"""Packages whose frames are removed from tracebacks of this package's errors."""

_SECRETS_PART = 0.5
"""Part of the time until the test's own timeout that a list of its Secrets may take."""
_PARTS = {
    "message": "the whole message",
    "timeline": "the timeline",
    "objects": "all objects",
    "pods": "all pods",
    "claims": "all claims",
    "warnings": "all warnings",
    "logs": "all logs",
    "refusals": "all refusals",
}
"""Parts of a message, as a short one names what it leaves out."""


class Failure:
    """A failed phase of a test.

    Args:
        headline: the failure in one line.
        awaited: the condition of the failed wait; empty if none failed.
        namespaces: the namespaces that the test used.
        folder: the folder of its artifacts; empty for none.
        trouble: why artifacts could not be written; empty if they were.
        step: the steps of the test that it failed in; empty outside of any.
        recording: the file of its recording; empty for none.
    """

    def __init__(
        self,
        headline: str,
        awaited: str = "",
        namespaces: tuple[str, ...] = (),
        folder: str = "",
        trouble: str = "",
        step: str = "",
        recording: str = "",
    ) -> None:
        self.headline = headline
        self.awaited = awaited
        self.namespaces = namespaces
        self.folder = folder
        self.trouble = trouble
        self.step = step
        self.recording = recording

    def attach(self, report: pytest.TestReport) -> None:
        """Attach this to a report, as values that pytest-xdist can serialize."""
        vars(report)[_ATTRIBUTE] = {**vars(self), "namespaces": list(self.namespaces)}


class FailureReporter:
    """Shows errors of this package by their message, and attaches their facts to reports.

    Args:
        run: the run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._reported_outages: set[str] = set()

    # First: it changes the traceback before anything is made of it, and a report that other
    # wrappers have completed.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show errors of this package by their message; record the facts it does not contain."""
        excinfo = call.excinfo
        error = excinfo.value if excinfo is not None else None
        # Now: the causes of this package's errors are removed next.
        waits = list(failed_waits_in(error))
        ours = excinfo is not None and isinstance(error, KwaitError)
        shortened = ours and not item.config.getoption("fulltrace", default=False)
        in_user_code = excinfo is not None and shortened and _cut_traceback(excinfo)
        report = yield
        if excinfo is not None and shortened and not in_user_code:
            report.longrepr = _format_without_traceback(excinfo)
        if isinstance(error, WaitFailed | WaitTimeout):
            short = _shorten(error, report.longrepr)
            fit_headline(report.longrepr)
            if short is not None:
                vars(report)[_SHORT_MESSAGE] = short
        self._run.get(Cleanup).keep_namespaces(item, report)
        if call.when == "setup" and uses_plugin(item):
            vars(report)["kwait_asked"] = True
        if report.failed:
            from pytest_kwait.engine.active_waits import get_failed_step

            redact = redaction_of(item)
            headline = redact(headline_of(error))[:_MAX_LENGTH] if error is not None else "failed"
            awaited = next((redact(_format_awaited(wait)) for wait in waits if wait.evidence), "")
            step = redact(get_failed_step(error))[:_MAX_LENGTH]
            Failure(headline, awaited, tuple(namespaces_of(item)), step=step).attach(report)
            shown = _shown_error(error)
            if shown is not None:
                _set_summary(report, redact(_format_summary(shown))[:_MAX_LENGTH])
        _mask_secret_values(report)
        return report

    # First: around pytest's own, which prints the failures.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any, config: pytest.Config
    ) -> Generator[None, None, None]:
        """Show the short messages of failed waits, without the fixtures of this package."""
        reports = map(terminalreporter.getreports, ("failed", "error"))
        shorten_messages(config, chain.from_iterable(reports))
        return (yield)

    # Last: the innermost wrapper, so that all others see a teardown that passes.
    @pytest.hookimpl(wrapper=True, trylast=True, specname="pytest_runtest_makereport")
    @guard_report
    def pytest_runtest_makereport_once(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Pass a teardown whose only errors are an end of the cluster that is reported already."""
        report = yield
        if not report.failed or call.excinfo is None:
            return report
        reported, outage = self._reported_outages, self._run.outage
        leaves = list(_leaves_of(call.excinfo.value))
        known = [_outage_in(each, outage) in reported for each in leaves]
        if report.when == "teardown" and all(known):
            report.outcome, report.longrepr = "passed", None
            return report
        shown = report.longreprtext
        ends = {outage, *(_outage_in(each, outage) for each in leaves)} - {""}
        reported.update(text for text in ends if text in shown)
        return report


def _shorten(error: WaitFailed | WaitTimeout, longrepr: Any) -> dict[str, Any] | None:
    """Return the short message of a wait's failure, in values that pytest-xdist can serialize.

    Returns:
        its `lines` as pytest shows them, the `margin` before each, the parts of the whole message
        that are `omitted`, and the number of lines that come `after` it; None if the error has no
        message of its own or pytest does not show it.
    """
    from pytest_kwait.engine.failure.wait_report import WaitReport

    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", ())
    if not isinstance(error.report, WaitReport) or not entries:
        return None
    whole, lines = str(error).splitlines(), entries[-1].lines
    at = next((at for at, line in enumerate(lines) if line.endswith(whole[0])), None)
    if at is None:
        return None
    found = _FIRST_LINE.match(lines[at])
    margin = found[1] if found else ""
    # Without the folder of the error's module, to have more room for its cause.
    lead = f"{type(error).__name__}: " if found else ""
    message = error.report.shorten(_SHORT_LINE_WIDTH - len(margin), lead)
    return {
        "margin": margin,
        "lines": list(message.lines),
        "omitted": list(message.omitted),
        "after": len(lines) - at - len(whole),
        "before": at,
    }


def shorten_messages(config: pytest.Config, reports: Iterable[pytest.TestReport]) -> None:
    """Show the short messages of failed waits, unless the run is verbose, and recordings."""
    is_verbose = config.get_verbosity() > 0 or config.getoption("fulltrace", default=False)
    for report in reports:
        short = vars(report).pop(_SHORT_MESSAGE, None)
        if short is not None and not is_verbose:
            _show_short_message(report, short, config, run_settings(config))
        recording = failure_of(report).recording
        if recording and not vars(report).get(_REPLAY_SHOWN):
            vars(report)[_REPLAY_SHOWN] = True
            path = shlex.quote(relative_path(config, recording))
            report.longrepr = _append_line(report.longrepr, f"replay: kwait replay {path}", short)


def _append_line(longrepr: Any, line: str, short: Mapping[str, Any] | None) -> Any:
    """Return a representation of a failure with a line at the end of its message.

    Args:
        longrepr: pytest's representation.
        line: the line; it is not wrapped, so that it can be copied.
        short: the short message of a wait's failure; None for other failures.
    """
    if isinstance(longrepr, str):
        return f"{longrepr}\n{line}"
    entries = getattr(getattr(longrepr, "reprtraceback", None), "reprentries", ())
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
        margin = next(filter(None, map(_MARGIN.match, lines)), None)
        lines.append(f"{margin[0] if margin else 'E   '}{line}")
    return longrepr


def _show_short_message(
    report: pytest.TestReport, short: Mapping[str, Any], config: pytest.Config, settings: Settings
) -> None:
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
    if not entries:
        return
    entry = entries[-1]
    message = list(short["lines"])
    if short["omitted"]:
        message += _format_more(short, _places_of(report, config, settings))
    end = len(entry.lines) - short["after"]
    entry.lines[short["before"] : end] = [f"{short['margin']}{line}" for line in message]
    for each in entries:
        arguments = getattr(each, "reprfuncargs", None)
        if arguments is not None:
            arguments.args = [
                pair for pair in arguments.args if not pair[0].startswith(("kwait", "wait_for"))
            ]


def _places_of(report: pytest.TestReport, config: pytest.Config, settings: Settings) -> list[str]:
    """Return the files that have the whole message of a failure."""
    folder = failure_of(report).folder
    part = "-teardown" if report.when == "teardown" else ""
    files = [str(Path(folder, f"failure{part}.txt"))] if folder else []
    return [relative_path(config, each) for each in (*files, *map(str, settings.report))]


def _format_more(short: Mapping[str, Any], places: Sequence[str]) -> list[str]:
    names = [_PARTS[name] for name in short["omitted"]]
    parts = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    where = f"; so does {places[0]}" if places else ""
    return textwrap.wrap(
        f"-v shows {parts}{where}",
        _SHORT_LINE_WIDTH - len(short["margin"]),
        initial_indent="  more: ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def fit_headline(longrepr: Any) -> None:
    """Wrap the headline of a wait's failure to fit a terminal of 100 columns.

    pytest puts the exception's name before the message.

    Args:
        longrepr: pytest's representation of the failure; unchanged if it is not a
            traceback.
    """
    traceback = getattr(longrepr, "reprtraceback", None)
    for entry in getattr(traceback, "reprentries", ()):
        entry.lines[:] = _fit_lines(entry.lines)


def _fit_lines(lines: list[str]) -> Iterator[str]:
    headline = ""
    lead = further = ""
    for line in lines:
        found = _FIRST_LINE.match(line)
        if found and not headline:
            lead, headline = found[0], line[found.end() :]
            # Indented like the continuation lines of the message.
            further = found[1] + "    "
        elif headline and line.startswith(further):
            headline += " " + line[len(further) :].strip()
        else:
            if headline:
                yield from _wrap_text(lead, headline, further)
                headline = ""
            yield line
    if headline:
        yield from _wrap_text(lead, headline, further)


def _wrap_text(lead: str, text: str, further: str) -> list[str]:
    return textwrap.wrap(
        text,
        _LINE_WIDTH,
        initial_indent=lead,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _format_without_traceback(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return pytest's representation of an error without its traceback, notes included."""
    shown: Any = excinfo.getrepr(style="value")
    for entry in shown.reprtraceback.reprentries:
        entry.lines.extend(getattr(excinfo.value, "__notes__", ()))
    return shown


def _cut_traceback(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Cut an error's traceback to the user's code; False if it has no frame there.

    The causes of the error are removed as well: its message includes them.
    """
    error = excinfo.value
    error.__cause__ = None
    error.__suppress_context__ = True
    last: TracebackType | None = None
    entry: TracebackType | None = excinfo.tb
    while entry is not None:
        module = str(entry.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _INTERNAL_PACKAGES:
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    return last is not None


def _leaves_of(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves_of(each)
    else:
        yield error


def _outage_in(error: BaseException, outage: str) -> str:
    """Return the end of the cluster that an error is; empty for any other error."""
    text = _text_of(error)
    if text != outage and not (isinstance(error, ApiError) and error.reason == "ClusterEnded"):
        return ""
    # An error that was raised while another one was handled would hide it.
    context = error.__context__
    if context is not None and not error.__suppress_context__ and not _outage_in(context, outage):
        return ""
    return text


def _shown_error(error: BaseException | None) -> KwaitError | None:
    """Return the error of this package whose text a report shows, if any."""
    if isinstance(error, pytest.fail.Exception):
        cause = error.__context__
        return cause if isinstance(cause, KwaitError) and str(cause) == str(error) else None
    return error if isinstance(error, KwaitError) else None


def _set_summary(report: pytest.TestReport, text: str) -> None:
    """Show a text in pytest's short summary and in JUnit, without the module of the error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and text:
        crash.message = text


def _format_summary(error: KwaitError) -> str:
    if isinstance(error, WaitTimeout | WaitFailed) and error.report is not None:
        return error.report.summary
    summary = getattr(error, "summary", "")
    if summary:
        return str(summary)
    first, _, rest = str(error).strip().partition("\n")
    # A line that introduces a list says nothing without the list's first line.
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") else first


def _mask_secret_values(report: pytest.TestReport) -> None:
    """Hide values of Secrets in a report, for the terminal, JUnit and every other reader."""
    redaction: Any = sys.modules.get("pytest_kwait.engine.failure.redaction")
    if redaction is None:
        # No value has been read.
        return
    mask, seen = redaction.SECRET_VALUES.mask, set[int]()

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return mask(value)
        if isinstance(value, tuple):
            return tuple([masked(each) for each in value])
        if isinstance(value, list):
            value[:] = [masked(each) for each in value]
        elif type(value).__module__.startswith("_pytest.") and id(value) not in seen:
            seen.add(id(value))
            for name, each in vars(value).items():
                setattr(value, name, masked(each))
        return value

    report.longrepr = masked(report.longrepr)
    if _SHORT_MESSAGE in vars(report):
        masked(vars(report)[_SHORT_MESSAGE]["lines"])
    report.sections = masked(report.sections)


def failure_of(report: object) -> Failure:
    """Return the facts attached to a report, or those in its text."""
    carried = vars(report).get(_ATTRIBUTE)
    if carried is not None:
        return Failure(**{**carried, "namespaces": tuple(carried["namespaces"])})
    # Not the printed form, which begins with the worker's name.
    lines = str(getattr(report, "longrepr", "") or "").strip().splitlines()
    return Failure(lines[0].strip()[:_MAX_LENGTH] if lines else "failed")


def namespaces_of(item: pytest.Item) -> list[str]:
    """Return the existing namespaces that a test uses, its own first."""
    chain = item.listchain()
    made = [each.namespace for each in namespaces_in_use(item.config) if each.node in chain]
    own = (getattr(item, "funcargs", None) or {}).get("kwait_namespace")
    given = run_settings(item.config).namespace
    there = isinstance(own, str) and (own in made or own == given)
    names = [str(own)] if there else []
    return list(dict.fromkeys([*names, *reversed(made)]))


def relative_path(config: pytest.Config, path: str) -> str:
    """Return a path relative to the start folder of pytest, if it is below that."""
    here = config.invocation_params.dir
    return os.path.relpath(path, here) if Path(path).is_relative_to(here) else path


def client_of(item: pytest.Item) -> Any:
    """Return the client of a test, None if it has none."""
    own = getattr(item, "funcargs", None) or {}
    if "kwait_client" in own:
        return own["kwait_client"]
    # Markers request fixtures that are not among the test's own.
    chain = item.listchain()
    made = [each.client for each in namespaces_in_use(item.config) if each.node in chain]
    return made[-1] if made else getattr(own.get("kwait"), "client", None)


def redaction_of(item: pytest.Item) -> Callable[[str], str]:
    """Return the function that redacts secrets, those of a test's namespaces too."""
    from pytest_kwait.engine.failure.redaction import learn_secrets, make_redactor

    client = client_of(item)
    if client is None:
        return make_redactor(())
    from pytest_kwait.client.session import ApiSession

    try:
        session = ApiSession.of(client)
    except KwaitError:
        # A conftest's fixture may return any object.
        return make_redactor(())
    left = time_left(item)
    # Not longer than the test may last: pytest-timeout's thread method would end the process.
    limit = None if left is None else left * _SECRETS_PART
    learn_secrets(session, namespaces_of(item), limit=limit)
    return make_redactor(session.credentials())


def failed_waits_in(error: BaseException | None) -> Iterator[WaitTimeout | WaitFailed]:
    """Yield the failed waits in an error, its causes and the members of its group."""
    left, seen = [error], set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, WaitTimeout | WaitFailed):
            yield each
        left += [each.__context__ if not each.__suppress_context__ else None, each.__cause__]
        if isinstance(each, BaseExceptionGroup):
            left += reversed(each.exceptions)


def headline_of(error: BaseException) -> str:
    """Return an error in one line."""
    if isinstance(error, WaitTimeout | WaitFailed) and error.report is not None:
        return error.report.headline
    lines = _text_of(error).strip().splitlines()
    name = type(error).__name__
    if isinstance(error, pytest.fail.Exception) and lines:
        return lines[0]
    return f"{name}: {lines[0]}" if lines else name


def _text_of(error: BaseException) -> str:
    """Return the message of an error; empty for a class of the user whose `__str__` raises."""
    try:
        return str(error)
    except Exception:  # user code may raise anything
        return ""


def _format_awaited(wait: WaitTimeout | WaitFailed) -> str:
    return f"{wait.evidence.get('subject')} to {wait.evidence.get('goal')}"
