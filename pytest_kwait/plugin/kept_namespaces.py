"""Kept namespaces: which ones a failed test keeps, and their lines in the summary.

Failures of waits are shown by their message, without the traceback in this package.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.markers import InvalidMarker, settings_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

    from pytest_kwait.suite.config.settings import Settings

__all__ = [
    "NamespaceInUse",
    "fit_headline",
    "is_kept",
    "kept_lines",
    "namespaces_in_use",
    "report_kept",
]

LINE_WIDTH = 100
_FIRST_LINE = re.compile(r"(E +)((?:\w+\.)+\w+: )")


def fit_headline(longrepr: Any) -> None:
    """Break the headline of a wait's failure so that a terminal of 100 columns need not.

    pytest puts the name of the exception before a message whose lines know nothing of that.

    Args:
        longrepr: what pytest shows of a failed test; what is no traceback stays as it is.
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
            # Continued as deep as the lines of the message that continue it.
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
        LINE_WIDTH,
        initial_indent=lead,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


_INTERNAL_PACKAGES = frozenset({"pytest_kwait", "_pytest", "pluggy", "contextlib", "xdist"})
"""Where frames of a traceback say nothing to the user about an error of ours."""

_kept_nodes_key = pytest.StashKey[set[Any]]()
_kept_lines_key = pytest.StashKey[list[str]]()
_removals_key = pytest.StashKey[dict[str, None]]()
_namespaces_in_use_key = pytest.StashKey[list["NamespaceInUse"]]()


class NamespaceInUse:
    """A namespace that was made for a node and is still there.

    Args:
        node: the test, class, module or session that it was made for.
        namespace: its name.
        advice: how to look into it if it stays.
        client: the client that it was made with.
    """

    def __init__(self, node: Any, namespace: str, advice: str, client: Any) -> None:
        self.client = client
        self.node = node
        self.namespace = namespace
        self.advice = advice

    def __str__(self) -> str:
        return f"namespace {self.namespace} is kept; {self.advice}"


def pytest_configure(config: pytest.Config) -> None:
    """Start with nothing kept."""
    config.stash[_kept_nodes_key] = set()
    config.stash[_kept_lines_key] = []
    config.stash[_removals_key] = {}
    config.stash[_namespaces_in_use_key] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let an error of ours speak for itself, and note which namespaces its test wants kept."""
    excinfo = call.excinfo
    ours = excinfo is not None and isinstance(excinfo.value, KwaitError)
    shortened = ours and not item.config.getoption("fulltrace", default=False)
    in_user_code = excinfo is not None and shortened and _cut_traceback(excinfo)
    report = yield
    if excinfo is not None and shortened and not in_user_code:
        report.longrepr = _format_error(excinfo)
    if excinfo is not None and isinstance(excinfo.value, WaitFailed | WaitTimeout):
        fit_headline(report.longrepr)
    keep = _keep_namespaces(item)
    if keep == "always" or (keep == "failed" and report.failed):
        chain = item.listchain()
        item.config.stash[_kept_nodes_key].update(chain)
        if report.failed and report.when != "teardown":
            lines = [str(each) for each in namespaces_in_use(item.config) if each.node in chain]
            if lines:
                report.sections.append(("kwait", "\n".join(lines)))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what this worker kept to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kwait_kept"] = session.config.stash[_kept_lines_key]
        removals = session.config.stash[_removals_key]
        output["kwait_removals"] = list(removals)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker kept; a worker that died has told nothing."""
    output = getattr(node, "workeroutput", None) or {}
    node.config.stash[_kept_lines_key].extend(output.get("kwait_kept", []))
    node.config.stash[_removals_key].update(dict.fromkeys(output.get("kwait_removals", [])))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the namespaces that were kept."""
    lines = config.stash[_kept_lines_key]
    if lines:
        terminalreporter.section("kwait: kept namespaces")
        for line in lines:
            terminalreporter.line(line)
        commands = config.stash[_removals_key]
        for command in commands:
            terminalreporter.line(f"to remove them before they expire, in 24 hours: {command}")


def namespaces_in_use(config: pytest.Config) -> list[NamespaceInUse]:
    """Return the namespaces that this process made and that are still there."""
    return config.stash[_namespaces_in_use_key]


def is_kept(config: pytest.Config, node: Any, settings: Settings) -> bool:
    """Whether the namespace of a node stays: by its own settings, or by those of a test in it."""
    return settings.keep == "always" or node in config.stash[_kept_nodes_key]


def kept_lines(config: pytest.Config) -> list[str]:
    """Return what was kept, by this process and by workers that have ended."""
    return config.stash.get(_kept_lines_key, [])


def report_kept(config: pytest.Config, line: str, removal: str = "") -> None:
    """Name a namespace that was kept in the summary of the run.

    Args:
        config: the run.
        line: which one, and how to look into it.
        removal: the command that removes it; empty where it goes with its cluster.
    """
    config.stash[_kept_lines_key].append(line)
    if removal:
        config.stash[_removals_key][removal] = None


def _keep_namespaces(item: pytest.Item) -> str:
    try:
        return settings_of(item).keep
    except InvalidMarker:
        # Said already when the test was set up.
        return "never"


def _format_error(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return what pytest shows of an error without its traceback, notes included."""
    shown: Any = excinfo.getrepr(style="value")
    for entry in shown.reprtraceback.reprentries:
        entry.lines.extend(getattr(excinfo.value, "__notes__", ()))
    return shown


def _cut_traceback(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """End the traceback of an error of ours in the user's code; False if it never was there.

    The errors behind the error go as well: its message tells what they tell.
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
