"""The waiter: run one wait from its options to its result or error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.clock import Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait
from pytest_kwait.engine.deferred_checks import DeferredSourceCheck, NamespaceTerminatingCheck
from pytest_kwait.engine.evaluator import Evaluator
from pytest_kwait.engine.failure.evidence import gather_evidence
from pytest_kwait.engine.failure.redaction import make_redactor
from pytest_kwait.engine.failure.report import WaitReport
from pytest_kwait.engine.poll_mode import PollMode
from pytest_kwait.engine.retry import ErrorLog
from pytest_kwait.engine.verdicts import Failed
from pytest_kwait.engine.watch_mode import WatchMode
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.wait.errors import DeadlineExceeded

if TYPE_CHECKING:
    from pytest_kwait.client.session import Session
    from pytest_kwait.engine.condition import Condition, HasDeferredSource, Probe
    from pytest_kwait.engine.deferred_checks import DeferredCheck
    from pytest_kwait.engine.options import WaitSettings

__all__ = ["wait_for_condition"]


def wait_for_condition(
    session: Session,
    condition: Condition,
    settings: WaitSettings,
    deadline: Deadline | None = None,
) -> Any:
    """Return the condition's result once it is met and stable.

    The limit is hard. Gathering evidence for the message of a failed wait takes a few seconds more
    at most. Ctrl-C ends the wait at once.

    Args:
        session: the session of all requests.
        condition: the awaited condition; used for this wait only.
        settings: the options.
        deadline: the deadline, if part of the limit is used already; None to start now.

    Raises:
        ApiError: a final error of a required read.
        WaitFailed: the condition can no longer be met.
        WaitTimeout: the condition was not met within the limit.
    """
    settings = replace(settings, time_scale=session.time_scale)
    deadline = deadline or Deadline.after(settings.timeout, session.clock)
    deferred_checks = _make_deferred_checks(session, condition, deadline, settings)
    # The used part of the limit belongs to the wait.
    started = deadline.at - settings.timeout
    evaluator = Evaluator(condition, settings, session.clock, deferred_checks, started)
    errors = ErrorLog(session.clock)
    mode = WatchMode if settings.mode == "watch" else PollMode
    runner = mode(
        session,
        condition,
        evaluator,
        deadline,
        poll=settings.poll,
        probe=_get_probe(condition),
        errors=errors,
    )
    active = ActiveWait(condition.subject, condition.goal, deadline, evaluator.timeline, started)
    active.hide = lambda text: make_redactor(session.credentials())(text)
    try:
        with ACTIVE_WAITS.entered(active):
            try:
                verdict = runner.run().verdict
                active.outcome = "failed early" if isinstance(verdict, Failed) else "met"
                active.retries = errors.count
            except DeadlineExceeded:
                active.outcome = "timed out"
                active.retries = errors.count
                raise
            except ApiError as error:
                active.outcome = "error"
                # The last one ended the wait.
                active.retries = max(errors.count - 1, 0)
                errors.last = error
                raise
            finally:
                active.trouble = str(errors.last or "")
    except DeadlineExceeded:
        report = _make_report(session, condition, settings, evaluator, errors, failed=None)
        active.report = report
        raise WaitTimeout(report=report) from None
    except ApiError as error:
        error.add_note(f"while waiting for {condition.subject} to {condition.goal}")
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(
            f"while waiting for {condition.subject} to {condition.goal}; "
            f"last seen: {evaluator.timeline.last or 'nothing yet'}"
        )
        raise
    if isinstance(verdict, Failed):
        report = _make_report(session, condition, settings, evaluator, errors, failed=verdict)
        active.report = report
        raise WaitFailed(report=report)
    return condition.result()


def _make_deferred_checks(
    session: Session, condition: Condition, deadline: Deadline, settings: WaitSettings
) -> list[DeferredCheck[Any]]:
    if not settings.fail_fast:
        return []
    delay = settings.short_grace
    checks: list[DeferredCheck[Any]] = [
        NamespaceTerminatingCheck(session, condition, deadline, delay)
    ]
    if hasattr(condition, "deferred_source"):
        checks.append(
            DeferredSourceCheck(session, cast("HasDeferredSource", condition), deadline, delay)
        )
    return checks


def _get_probe(condition: Condition) -> Probe | None:
    return cast("Probe", condition) if hasattr(condition, "questions") else None


def _make_report(
    session: Session,
    condition: Condition,
    settings: WaitSettings,
    evaluator: Evaluator,
    errors: ErrorLog,
    *,
    failed: Failed | None,
) -> WaitReport:
    elapsed = evaluator.elapsed
    missing = [source for source in condition.sources() if source.name and not source.sink.uids()]
    report = WaitReport(
        subject=condition.subject,
        goal=condition.goal,
        failed=failed is not None,
        reason=failed.reason if failed else evaluator.timeline.last,
        limit=settings.timeout,
        elapsed=elapsed,
        mode=settings.mode,
        seen=condition.seen(),
        timeline=evaluator.timeline,
        findings=gather_evidence(session, condition.scope(), () if failed else missing),
        last_error=str(errors.last or ""),
        errors=errors.count,
    )
    return report.redacted(make_redactor(session.credentials()))
