"""Facts of a failed test, carried by its report to the processes that show them.

A report arrives in the controller even if the worker that made it dies later.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import ApiError, KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.run import guard_report, run_of, time_left, uses_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["Failure", "client_of", "failed_waits_in", "failure_of", "namespaces_of", "redaction_of"]

_reported_outages_key = pytest.StashKey[set[str]]()

_ATTRIBUTE = "kwait_failure"
_MAX_LENGTH = 500

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
    """

    def __init__(
        self,
        headline: str,
        awaited: str = "",
        namespaces: tuple[str, ...] = (),
        folder: str = "",
        trouble: str = "",
    ) -> None:
        self.headline = headline
        self.awaited = awaited
        self.namespaces = namespaces
        self.folder = folder
        self.trouble = trouble

    def attach(self, report: pytest.TestReport) -> None:
        """Attach this to a report, as values that pytest-xdist can serialize."""
        vars(report)[_ATTRIBUTE] = {**vars(self), "namespaces": list(self.namespaces)}


@pytest.hookimpl(wrapper=True, tryfirst=True)
@guard_report
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the facts of each failure that its text does not contain."""
    # The causes of this package's errors are removed from its text.
    error = call.excinfo.value if call.excinfo is not None else None
    waits = list(failed_waits_in(error))
    report = yield
    if call.when == "setup" and uses_plugin(item):
        vars(report)["kwait_asked"] = True
    if report.failed:
        redact = redaction_of(item)
        headline = redact(_format_headline(error))[:_MAX_LENGTH] if error is not None else "failed"
        awaited = next((redact(_format_awaited(wait)) for wait in waits if wait.evidence), "")
        Failure(headline, awaited, tuple(namespaces_of(item))).attach(report)
        shown = _shown_error(error)
        if shown is not None:
            _set_summary(report, redact(_format_summary(shown))[:_MAX_LENGTH])
    _mask_secret_values(report)
    return report


@pytest.hookimpl(wrapper=True, trylast=True, specname="pytest_runtest_makereport")
@guard_report
def pytest_runtest_makereport_once(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Pass a teardown whose only errors are an end of the cluster that is reported already."""
    report = yield
    if not report.failed or call.excinfo is None:
        return report
    reported = item.config.stash.setdefault(_reported_outages_key, set())
    outage = run_of(item.config).outage
    leaves = list(_leaves_of(call.excinfo.value))
    known = [_outage_in(each, outage) in reported for each in leaves]
    if report.when == "teardown" and all(known):
        report.outcome, report.longrepr = "passed", None
        return report
    shown = report.longreprtext
    ends = {outage, *(_outage_in(each, outage) for each in leaves)} - {""}
    reported.update(text for text in ends if text in shown)
    return report


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
    from pytest_kwait.plugin.kept_namespaces import namespaces_in_use
    from pytest_kwait.plugin.settings import run_settings

    chain = item.listchain()
    made = [each.namespace for each in namespaces_in_use(item.config) if each.node in chain]
    own = (getattr(item, "funcargs", None) or {}).get("kwait_namespace")
    given = run_settings(item.config).namespace
    there = isinstance(own, str) and (own in made or own == given)
    names = [str(own)] if there else []
    return list(dict.fromkeys([*names, *reversed(made)]))


def client_of(item: pytest.Item) -> Any:
    """Return the client of a test, None if it has none."""
    from pytest_kwait.plugin.kept_namespaces import namespaces_in_use

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
    from pytest_kwait.client.session import Session

    try:
        session = Session.of(client)
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


def _format_headline(error: BaseException) -> str:
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
