"""Kept namespaces: which ones a failed test keeps, and their lines in the summary."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.markers import InvalidMarker, settings_of
from pytest_kwait.plugin.run import guard_report

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
        LINE_WIDTH,
        initial_indent=lead,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


_INTERNAL_PACKAGES = frozenset({"pytest_kwait", "_pytest", "pluggy", "contextlib", "xdist"})
"""Packages whose frames are removed from tracebacks of this package's errors."""

_kept_nodes_key = pytest.StashKey[set[Any]]()
_kept_lines_key = pytest.StashKey[list[str]]()
_removals_key = pytest.StashKey[dict[str, None]]()
_namespaces_in_use_key = pytest.StashKey[list["NamespaceInUse"]]()


class NamespaceInUse:
    """A namespace that was created for a node and still exists.

    Args:
        node: the test, class, module or session that owns it.
        namespace: its name.
        advice: the command to inspect it if it is kept.
        client: the client that created it.
    """

    def __init__(self, node: Any, namespace: str, advice: str, client: Any) -> None:
        self.client = client
        self.node = node
        self.namespace = namespace
        self.advice = advice

    def __str__(self) -> str:
        return f"namespace {self.namespace} is kept; {self.advice}"


def pytest_configure(config: pytest.Config) -> None:
    """Start with no kept namespaces."""
    config.stash[_kept_nodes_key] = set()
    config.stash[_kept_lines_key] = []
    config.stash[_removals_key] = {}
    config.stash[_namespaces_in_use_key] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
@guard_report
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show errors of this package by their message, and record which namespaces to keep."""
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
    """Pass the kept namespaces of this worker to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kwait_kept"] = session.config.stash[_kept_lines_key]
        removals = session.config.stash[_removals_key]
        output["kwait_removals"] = list(removals)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the kept namespaces of a worker; a crashed worker reports none."""
    output = getattr(node, "workeroutput", None) or {}
    node.config.stash[_kept_lines_key].extend(output.get("kwait_kept", []))
    node.config.stash[_removals_key].update(dict.fromkeys(output.get("kwait_removals", [])))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """List the kept namespaces."""
    lines = config.stash[_kept_lines_key]
    if lines:
        terminalreporter.section("kwait: kept namespaces")
        for line in lines:
            terminalreporter.line(line)
        commands = config.stash[_removals_key]
        for command in commands:
            terminalreporter.line(f"to remove them before they expire, in 24 hours: {command}")


def namespaces_in_use(config: pytest.Config) -> list[NamespaceInUse]:
    """Return the namespaces that this process created and has not deleted."""
    return config.stash[_namespaces_in_use_key]


def is_kept(config: pytest.Config, node: Any, settings: Settings) -> bool:
    """Return whether a node's namespace is kept, by its settings or those of its tests."""
    return settings.keep == "always" or node in config.stash[_kept_nodes_key]


def kept_lines(config: pytest.Config) -> list[str]:
    """Return the lines about kept namespaces, of this process and of ended workers."""
    return config.stash.get(_kept_lines_key, [])


def report_kept(config: pytest.Config, line: str, removal: str = "") -> None:
    """Add a kept namespace to the summary of the run.

    Args:
        line: its name, and how to inspect it.
        removal: the command that removes it; empty if it ends with its cluster.
    """
    config.stash[_kept_lines_key].append(line)
    if removal:
        config.stash[_removals_key][removal] = None


def _keep_namespaces(item: pytest.Item) -> str:
    try:
        return settings_of(item).keep
    except InvalidMarker:
        # Reported when the test was set up.
        return "never"


def _format_error(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
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
