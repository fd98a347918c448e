"""Guards for hooks around reports: their errors fail the report instead of the run."""

from __future__ import annotations

import functools
import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_ERRORS = (Exception, pytest.fail.Exception)


def guard_report(
    hook: Callable[..., Generator[None, Any, Any]],
) -> Callable[..., Generator[None, Any, Any]]:
    """Turn errors of a hook wrapper into failures of the report that it completes.

    For wrappers of `pytest_runtest_makereport` and `pytest_runtest_logreport`, where an error
    would end the whole run.
    """

    @functools.wraps(hook)
    def guarded(*args: Any) -> Generator[None, Any, Any]:
        # The argument of one of the hooks, and the result of the other one.
        given = next(
            (argument for argument in args if isinstance(argument, pytest.TestReport)), None
        )
        wrapper = hook(*args)
        try:
            next(wrapper)
        except _ERRORS as error:
            if given is not None:
                _add_error(given, error)
            result = yield
            if given is None:
                _add_error(result, error)
            return result
        try:
            result = yield
        except BaseException as error:
            wrapper.throw(error)
            raise
        try:
            wrapper.send(result)
        except StopIteration as end:
            return end.value
        except _ERRORS as error:
            _add_error(given or result, error)
        return result

    return guarded


def _add_error(report: pytest.TestReport, error: BaseException) -> None:
    """Fail a report that could not be completed; a failure of the test stays in front."""
    from pytest_kwait.engine.failure.redaction import SECRET_VALUES

    text = SECRET_VALUES.mask(
        "pytest-kwait could not complete the report of this test:\n\n"
        + "".join(traceback.format_exception(error))
    )
    if report.failed:
        report.sections.append(("kwait", text))
    else:
        report.outcome, report.longrepr = "failed", text
