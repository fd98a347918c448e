"""Facts of a failed test, carried by its report to the processes that show them.

A report arrives in the controller even if the worker that made it dies later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.errors import KwaitError, WaitFailed, WaitTimeout
from pytest_kwait.plugin.run import uses_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

__all__ = ["Failure", "client_of", "failed_waits_in", "failure_of", "namespaces_of", "redaction_of"]

_ATTRIBUTE = "kwait_failure"
_MAX_LENGTH = 500


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
    return report


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
    """Return the function that redacts secrets from texts of a test."""
    from pytest_kwait.engine.failure.redaction import make_redactor

    client = client_of(item)
    if client is None:
        return make_redactor(())
    from pytest_kwait.client.session import Session

    try:
        return make_redactor(Session.of(client).credentials())
    except KwaitError:
        # A conftest's fixture may return any object.
        return make_redactor(())


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
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    if isinstance(error, pytest.fail.Exception) and lines:
        return lines[0]
    return f"{name}: {lines[0]}" if lines else name


def _format_awaited(wait: WaitTimeout | WaitFailed) -> str:
    return f"{wait.evidence.get('subject')} to {wait.evidence.get('goal')}"
