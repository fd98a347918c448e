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
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.engine.active_waits import get_failed_step, list_raising_waits
from pytest_kwait.engine.failure.differences import render_differences
from pytest_kwait.engine.failure.shortening import cut_headline
from pytest_kwait.errors import ApiError, KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.cleanup import Cleanup, namespaces_in_use
from pytest_kwait.plugin.failure_text import (
    attach_short_message,
    fit_headline,
    short_lines_of,
    show_message,
)
from pytest_kwait.plugin.report_guard import guard_report
from pytest_kwait.plugin.run import run_settings
from pytest_kwait.plugin.timeout import running_item, time_left
from pytest_kwait.plugin.usage import uses_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pytest_kwait.framework.predicates import ObjectMatch
    from pytest_kwait.plugin.run import Run
    from pytest_kwait.suite.config.clusters import FurtherCluster

_ATTRIBUTE = "kwait_failure"

_INTERNAL_PACKAGES = frozenset({"pytest_kwait", "_pytest", "pluggy", "contextlib", "xdist"})
"""Packages whose frames are removed from tracebacks of this package's errors."""

_raising_waits_key: pytest.StashKey[tuple[int, ...]] = pytest.StashKey()

_CLUSTER_NOTE = re.compile(r"the wait was on cluster (\S+)")
"""The note of `suite.bound_wait` on the error of a wait on a further cluster."""

_ENDING_PROVIDERS = frozenset({"embedded", "binaries"})
"""The providers whose clusters end with the run."""

_ASSERTION_WIDTH = 74
"""Of 80 columns, pytest's `E` prefix and the indentation of explanations take six."""

_SECRETS_PART = 0.5
"""Part of the time until the test's own timeout that a list of its Secrets may take."""


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
        place: the failed line of the user, as `file:line`; empty if unknown.
        kubectl: the command that reaches the cluster after the run; none if it ends with the run.
        cluster: the provider and name of the further cluster of its wait; empty for the run's own.
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
        place: str = "",
        kubectl: Sequence[str] = (),
        cluster: str = "",
    ) -> None:
        self.headline = headline
        self.awaited = awaited
        self.namespaces = namespaces
        self.folder = folder
        self.trouble = trouble
        self.step = step
        self.recording = recording
        self.place = place
        self.kubectl = list(kubectl)
        self.cluster = cluster

    @property
    def further_cluster(self) -> str:
        """The name of that further cluster; empty for the run's own."""
        return self.cluster.rpartition(" ")[2]

    def attach(self, report: pytest.TestReport) -> None:
        """Attach this to a report, as values that pytest-xdist can serialize."""
        vars(report)[_ATTRIBUTE] = {**vars(self), "namespaces": list(self.namespaces)}


def describe_match(op: str, obj: Mapping[str, Any], match: ObjectMatch) -> list[str]:
    """Return the explanation of a failed comparison of an object with `matches(...)`.

    Args:
        op: `==` or `!=`.
    """
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    subject = f"{str(obj.get('kind') or 'object').lower()}{f'/{name}' if name else ''}"
    return [
        f"{subject} {op} {match!r}",
        *render_differences(match.differences(dict(obj)), _ASSERTION_WIDTH),
    ]


class FailureReporter:
    """Shows errors of this package by their message, and attaches their facts to reports."""

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
        errors = list(errors_in(error))
        waits = list(failed_waits_in(error))
        numbers = chain.from_iterable(map(list_raising_waits, errors))
        item.stash[_raising_waits_key] = tuple(numbers)
        ours = excinfo is not None and isinstance(error, KwaitError)
        is_whole = item.config.getoption("fulltrace", default=False)
        shortened = ours and not is_whole
        in_user_code = excinfo is not None and shortened and _cut_traceback(excinfo)
        if excinfo is not None and not is_whole:
            _drop_leading_frames(excinfo)
        report = yield
        if excinfo is not None and shortened and not in_user_code:
            report.longrepr = _format_without_traceback(excinfo)
        if isinstance(error, WaitFailed | WaitTimeout):
            attach_short_message(report, error)
            fit_headline(report.longrepr, error)
        self._run.get(Cleanup).keep_namespaces(item, report)
        if call.when == "setup" and uses_plugin(item):
            vars(report)["kwait_asked"] = True
        if report.failed:
            redact = redaction_of(item)
            headline = "failed" if error is None else cut_headline(redact(headline_of(error)))
            awaited = next((redact(_format_awaited(wait)) for wait in waits if wait.evidence), "")
            step = cut_headline(redact(get_failed_step(error)))
            further = find_further_cluster(self._run, errors)
            Failure(
                headline,
                awaited,
                tuple(namespaces_of(item)),
                step=step,
                place=_find_place(item.config, report),
                kubectl=_kubectl_of(item) if further is None else _kubectl_on(further, waits),
                cluster="" if further is None else f"{further.provider} {further.name}",
            ).attach(report)
            _add_releases(item, report)
            shown = _shown_error(error)
            if shown is not None:
                _set_summary(report, cut_headline(redact(format_summary(shown))))
        else:
            _learn_printed(item, report)
        _mask_secret_values(report)
        return report

    # First: others write the report.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    @guard_report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Hide values of Secrets in what was added to a report after it was made.

        This is the output of a subtest. The controller of pytest-xdist knows the values of all
        workers.
        """
        _learn_printed(running_item(self._run.config), report)
        _mask_secret_values(report)
        return (yield)

    # First: pytest's own shows both objects whole.
    @pytest.hookimpl(tryfirst=True)
    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Show the differences of an object from `matches(...)`."""
        # Loaded if there is such a condition.
        predicates = sys.modules.get("pytest_kwait.framework.predicates")
        if predicates is None or op not in ("==", "!="):
            return None
        obj, match = (right, left) if isinstance(left, predicates.ObjectMatch) else (left, right)
        if not isinstance(match, predicates.ObjectMatch) or not isinstance(obj, dict):
            return None
        return describe_match(op, obj, match)

    # First: around pytest's own, which prints the failures.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: Any, config: pytest.Config
    ) -> Generator[None, None, None]:
        """Show the short messages of failed waits, without the fixtures of this package."""
        for report in chain.from_iterable(terminalreporter.stats.values()):
            # Some values have become known since.
            if isinstance(report, pytest.TestReport):
                _mask_secret_values(report)
        reports = map(terminalreporter.getreports, ("failed", "error"))
        show_messages(config, chain.from_iterable(reports))
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
        known = [_outage_in(leaf, outage) in reported for leaf in leaves]
        if report.when == "teardown" and all(known):
            report.outcome, report.longrepr = "passed", None
            return report
        shown = report.longreprtext
        ends = {outage, *(_outage_in(leaf, outage) for leaf in leaves)} - {""}
        reported.update(text for text in ends if text in shown)
        return report


def show_messages(config: pytest.Config, reports: Iterable[pytest.TestReport]) -> None:
    """Show the short messages of failed waits, unless the run is verbose, and recordings."""
    is_verbose = config.get_verbosity() > 0 or config.getoption("fulltrace", default=False)
    for report in reports:
        failure = failure_of(report)
        recording = shlex.quote(relative_path(config, failure.recording))
        show_message(
            report,
            is_short=not is_verbose,
            where=_find_whole_message(report, failure, config),
            replay=f"replay: kwait replay {recording}" if failure.recording else "",
        )


def _find_whole_message(report: pytest.TestReport, failure: Failure, config: pytest.Config) -> str:
    """Return the file that has the whole message of a failure; empty without one."""
    part = "-teardown" if report.when == "teardown" else ""
    files = [str(Path(failure.folder, f"failure{part}.txt"))] if failure.folder else []
    files += map(str, run_settings(config).report)
    return relative_path(config, files[0]) if files else ""


def _format_without_traceback(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return pytest's representation of an error without its traceback, notes included."""
    shown: Any = excinfo.getrepr(style="value")
    for entry in shown.reprtraceback.reprentries:
        entry.lines.extend(getattr(excinfo.value, "__notes__", ()))
    return shown


def _drop_leading_frames(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Begin a traceback with the user's code, of an environment for example, if it has any."""
    for place, entry in enumerate(excinfo.traceback):
        if not _is_internal(entry.frame.f_globals):
            if place:
                excinfo.traceback = excinfo.traceback[place:]
            return


def _is_internal(module_globals: Mapping[str, Any]) -> bool:
    """Return whether the user did not write a module."""
    name = str(module_globals.get("__name__", ""))
    return name.partition(".")[0] in _INTERNAL_PACKAGES


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
        if not _is_internal(entry.tb_frame.f_globals):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None
    return last is not None


def _leaves_of(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves_of(member)
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


def format_summary(error: KwaitError) -> str:
    """Return the object and the cause of an error, for a line of a list of failures."""
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
            return tuple([masked(member) for member in value])
        if isinstance(value, list):
            value[:] = [masked(member) for member in value]
        # The parts of a failure, whose classes pytest does not document, have text everywhere.
        elif type(value).__module__.startswith("_pytest.") and id(value) not in seen:
            seen.add(id(value))
            for name, member in vars(value).items():
                setattr(value, name, masked(member))
        return value

    report.longrepr = masked(report.longrepr)
    masked(short_lines_of(report))
    report.sections = masked(report.sections)
    report.user_properties = masked(report.user_properties)
    if reason := getattr(report, "wasxfail", ""):
        vars(report)["wasxfail"] = masked(reason)


def _add_releases(item: pytest.Item, report: pytest.TestReport) -> None:
    """Name the Helm releases that a failed test uses."""
    # Loaded with the first release.
    records = sys.modules.get("pytest_kwait.suite.helm.records")
    lines = "" if records is None else records.describe_installed(namespaces_of(item))
    if lines:
        report.sections.append(("helm", lines))


def failure_of(report: object) -> Failure:
    """Return the facts attached to a report, or those in its text."""
    carried = vars(report).get(_ATTRIBUTE)
    if carried is not None:
        return Failure(**{**carried, "namespaces": tuple(carried["namespaces"])})
    # Not the printed form, which begins with the worker's name.
    lines = str(getattr(report, "longrepr", "") or "").strip().splitlines()
    return Failure(cut_headline(lines[0].strip()) if lines else "failed")


def namespaces_of(item: pytest.Item) -> list[str]:
    """Return the existing namespaces that a test uses, its own first."""
    chain = item.listchain()
    made = [used.namespace for used in namespaces_in_use(item.config) if used.node in chain]
    own = (getattr(item, "funcargs", None) or {}).get("kwait_namespace")
    given = run_settings(item.config).namespace
    there = isinstance(own, str) and (own in made or own == given)
    names = [str(own)] if there else []
    return list(dict.fromkeys([*names, *reversed(made)]))


def relative_path(config: pytest.Config, path: str) -> str:
    """Return a path relative to the start folder of pytest, if it is below that."""
    here = config.invocation_params.dir
    return os.path.relpath(path, here) if Path(path).is_relative_to(here) else path


def list_places(config: pytest.Config, report: pytest.TestReport) -> Iterator[tuple[Path, int]]:
    """Yield the failed line of a report, then the first line of the test; each with its file."""
    crash = getattr(report.longrepr, "reprcrash", None)
    places = [(crash.path, crash.lineno)] if crash is not None else []
    places.append((report.location[0], (report.location[1] or 0) + 1))
    for path, line in places:
        yield Path(os.path.normpath(config.rootpath / path)), int(line)


def _find_place(config: pytest.Config, report: pytest.TestReport) -> str:
    """Return the user's line that failed, as `file:line`; empty if it is unknown."""
    for path, line in list_places(config, report):
        if path.is_relative_to(config.rootpath) and "site-packages" not in path.parts:
            return f"{relative_path(config, str(path))}:{line}"
    return ""


def find_further_cluster(run: Run, errors: Iterable[BaseException]) -> FurtherCluster | None:
    """Return the further cluster that the note of a failed wait names; None for the run's own."""
    notes = chain.from_iterable(getattr(error, "__notes__", ()) for error in errors)
    names = [found[1] for found in map(_CLUSTER_NOTE.fullmatch, notes) if found is not None]
    return next((each for each in run.settings.clusters if each.name in names), None)


def _kubectl_on(cluster: FurtherCluster, waits: Sequence[WaitTimeout | WaitFailed]) -> list[str]:
    """Return the command that reaches a further cluster after the run; none if it ends with it."""
    if cluster.provider in _ENDING_PROVIDERS:
        return []
    known = next((wait.evidence["kubectl"] for wait in waits if "kubectl" in wait.evidence), None)
    return [] if known is None else ["kubectl", *known]


def _kubectl_of(item: pytest.Item) -> list[str]:
    """Return the command that reaches a test's cluster after the run; none if it ends with it."""
    client = client_of(item)
    if client is None:
        return []
    from pytest_kwait.client.session import ApiSession

    try:
        session = ApiSession.of(client)
    except KwaitError:
        # A conftest's fixture may return any object.
        return []
    return [] if session.outlook else ["kubectl", *session.kubectl_args]


def client_of(item: pytest.Item) -> Any:
    """Return the client of a test, None if it has none."""
    own = getattr(item, "funcargs", None) or {}
    if "kwait_client" in own:
        return own["kwait_client"]
    # Markers request fixtures that are not among the test's own.
    chain = item.listchain()
    made = [used.client for used in namespaces_in_use(item.config) if used.node in chain]
    return made[-1] if made else getattr(own.get("kwait"), "client", None)


def group_by_client(item: pytest.Item, namespaces: Iterable[str]) -> list[tuple[Any, list[str]]]:
    """Return clients, each with those of a test's namespaces that are on its cluster.

    The test's own client comes first.
    """
    own, chain = client_of(item), item.listchain()
    made = {
        used.namespace: used.client for used in namespaces_in_use(item.config) if used.node in chain
    }
    groups: dict[int, tuple[Any, list[str]]] = {} if own is None else {id(own): (own, [])}
    for name in namespaces:
        client = made.get(name, own)
        if client is not None:
            groups.setdefault(id(client), (client, []))[1].append(name)
    return list(groups.values())


def redaction_of(item: pytest.Item, max_age: float = 0.0) -> Callable[[str], str]:
    """Return the function that redacts secrets, those of all namespaces of the run too.

    Args:
        max_age: the age in seconds from which an earlier list of Secrets is outdated.
    """
    from pytest_kwait.engine.failure.redaction import learn_secrets, make_redactor

    credentials: set[str] = set()
    for client, names in group_by_client(item, namespaces_of(item)):
        from pytest_kwait.client.session import ApiSession

        try:
            session = ApiSession.of(client)
        except KwaitError:
            # A conftest's fixture may return any object.
            continue
        left = time_left(item)
        # Not longer than the test may last: pytest-timeout's thread method would end the process.
        limit = None if left is None else left * _SECRETS_PART
        learn_secrets(session, names, max_age, limit)
        credentials |= session.credentials()
    return make_redactor(credentials)


def _learn_printed(item: pytest.Item | None, report: pytest.TestReport) -> None:
    """Learn the values of Secrets that a test may have printed; it may have passed."""
    if report.sections and item is not None and client_of(item) is not None:
        # Some plugins write what passed tests print; a list for each would cost too much.
        redaction_of(item, max_age=1.0)


def raising_waits_of(item: pytest.Item) -> tuple[int, ...]:
    """Return the numbers of the waits whose errors ended the last phase of a test."""
    return item.stash.get(_raising_waits_key, ())


def errors_in(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its causes and the members of its group."""
    left, seen = [error], set()
    while left:
        failure = left.pop()
        if failure is None or id(failure) in seen:
            continue
        seen.add(id(failure))
        yield failure
        left += [
            failure.__context__ if not failure.__suppress_context__ else None,
            failure.__cause__,
        ]
        if isinstance(failure, BaseExceptionGroup):
            left += reversed(failure.exceptions)


def failed_waits_in(error: BaseException | None) -> Iterator[WaitTimeout | WaitFailed]:
    """Yield the failed waits in an error, its causes and the members of its group."""
    for part in errors_in(error):
        if isinstance(part, WaitTimeout | WaitFailed):
            yield part


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
