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
    """Return the condition's result once it is met, and has been for as long as it must be.

    The limit holds for the wait, hard; collecting evidence for the message of a wait that did not
    come true takes a few seconds more at most. Ctrl-C ends it at once.

    Args:
        session: who asks the server.
        condition: what is awaited; used up by the wait.
        settings: the options.
        deadline: the limit as a moment, where a part of it is used already; None to start now.

    Raises:
        ApiError: the server refuses what the wait needs to read.
        WaitFailed: what is awaited can no longer come.
        WaitTimeout: it did not come within the limit.
    """
    settings = replace(settings, time_scale=session.time_scale)
    deadline = deadline or Deadline.after(settings.timeout, session.clock)
    late_looks = _make_deferred_checks(session, condition, deadline, settings)
    # What has been used of the limit belongs to the wait.
    started = deadline.at - settings.timeout
    judge = Evaluator(condition, settings, session.clock, late_looks, started)
    troubles = ErrorLog(session.clock)
    mode = WatchMode if settings.mode == "watch" else PollMode
    looking = mode(
        session,
        condition,
        judge,
        deadline,
        poll=settings.poll,
        probe=_get_probe(condition),
        troubles=troubles,
    )
    pending = ActiveWait(condition.subject, condition.goal, deadline, judge.timeline, started)
    pending.hide = lambda text: make_redactor(session.credentials())(text)
    try:
        with ACTIVE_WAITS.entered(pending):
            try:
                verdict = looking.run().verdict
                pending.outcome = "failed early" if isinstance(verdict, Failed) else "met"
                pending.retries = troubles.count
            except DeadlineExceeded:
                pending.outcome = "timed out"
                pending.retries = troubles.count
                raise
            except ApiError as error:
                pending.outcome = "error"
                # The last one was not lived through.
                pending.retries = max(troubles.count - 1, 0)
                troubles.last = error
                raise
            finally:
                pending.trouble = str(troubles.last or "")
    except DeadlineExceeded:
        report = _make_report(session, condition, settings, judge, troubles, failed=None)
        pending.report = report
        raise WaitTimeout(report=report) from None
    except ApiError as error:
        error.add_note(f"while waiting for {condition.subject} to {condition.goal}")
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(
            f"while waiting for {condition.subject} to {condition.goal}; "
            f"last seen: {judge.timeline.last or 'nothing yet'}"
        )
        raise
    if isinstance(verdict, Failed):
        report = _make_report(session, condition, settings, judge, troubles, failed=verdict)
        pending.report = report
        raise WaitFailed(report=report)
    return condition.result()


def _make_deferred_checks(
    session: Session, condition: Condition, deadline: Deadline, settings: WaitSettings
) -> list[DeferredCheck[Any]]:
    if not settings.fail_fast:
        return []
    delay = settings.short_grace
    looks: list[DeferredCheck[Any]] = [
        NamespaceTerminatingCheck(session, condition, deadline, delay)
    ]
    if hasattr(condition, "deferred_source"):
        looks.append(
            DeferredSourceCheck(session, cast("HasDeferredSource", condition), deadline, delay)
        )
    return looks


def _get_probe(condition: Condition) -> Probe | None:
    return cast("Probe", condition) if hasattr(condition, "questions") else None


def _make_report(
    session: Session,
    condition: Condition,
    settings: WaitSettings,
    judge: Evaluator,
    troubles: ErrorLog,
    *,
    failed: Failed | None,
) -> WaitReport:
    elapsed = judge.elapsed
    missing = [source for source in condition.sources() if source.name and not source.sink.uids()]
    report = WaitReport(
        subject=condition.subject,
        goal=condition.goal,
        failed=failed is not None,
        reason=failed.reason if failed else judge.timeline.last,
        limit=settings.timeout,
        elapsed=elapsed,
        mode=settings.mode,
        seen=condition.seen(),
        timeline=judge.timeline,
        findings=gather_evidence(session, condition.scope(), () if failed else missing),
        last_error=str(troubles.last or ""),
        errors=troubles.count,
    )
    return report.redacted(make_redactor(session.credentials()))
