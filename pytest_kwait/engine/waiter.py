"""The waiter: run one wait, in watch or poll mode, from its options to its result or error.

In watch mode the condition is evaluated as soon as an event is read. All waits of the process on
the same collection share one list and watch of it. In poll mode every source is listed every
`poll`, as the Go framework does.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.cache import collection_watch
from pytest_kwait.cache.collection_watch import COLLECTION_WATCHES, CollectionWatch, Recovery
from pytest_kwait.client.availability import ClusterEnded
from pytest_kwait.client.resource import BUILT_IN_GROUPS
from pytest_kwait.clock import SYSTEM_CLOCK, Deadline
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, ActiveWait, Holding, WaitContext
from pytest_kwait.engine.audit import CURRENT_AUDIT
from pytest_kwait.engine.condition import Failed, Met, Verdict, iterate_leaves
from pytest_kwait.engine.evaluator import (
    DeferredConditionCheck,
    DeferredSourceCheck,
    Evaluator,
    NamespaceCheck,
    VolumeMountCheck,
)
from pytest_kwait.engine.failure.evidence import describe_lost_definition, gather_evidence
from pytest_kwait.engine.failure.operators import OperatedObjects
from pytest_kwait.engine.failure.redaction import learn_secrets, make_redactor, redact_log
from pytest_kwait.engine.failure.wait_report import WaitReport, name_claim_event, name_restart
from pytest_kwait.engine.retry import (
    ErrorAction,
    ErrorLog,
    classify_error,
    make_retry_backoff,
    request_once,
)
from pytest_kwait.errors import ApiError, WaitFailed, WaitTimeout
from pytest_kwait.wait.backoff import jitter
from pytest_kwait.wait.context import (
    Canceled,
    Context,
    DeadlineExceeded,
    background,
    with_cancel,
)
from pytest_kwait.wait.poll import poll_until_context_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.cache.collection_watch import Outcome, Subscriber, Subscription
    from pytest_kwait.cache.listwatch import ListWatch
    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.responses import Item, WatchEvent
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Clock
    from pytest_kwait.engine.audit import Observation
    from pytest_kwait.engine.condition import Condition, Probe, Source
    from pytest_kwait.engine.evaluator import DeferredCheck, Evaluation
    from pytest_kwait.engine.options import WaitSettings


_NOTED = 1.0
"""Seconds from which a limit that was shortened is noted in the message."""

LAST_ROUND = 2.0
"""Maximum seconds of the round of lists after the time is up."""
RELIST = 300.0
"""Minimum seconds after which a source is listed again, in case an event was lost."""

_BACKOFF_RESET = 120.0

_CLOSE_PAUSE = 0.005
"""Real seconds for which an ended wait stays subscribed, so that its caller returns first."""

_MOST_UNEVALUATED = 10
"""Changes that wait for user code; slower code sees the newest state of the others."""

_STOP_INTERVAL = 0.05
"""Seconds between two looks at what stops a wait."""
_STOPPED = "the wait was stopped"


def wait_for_condition(
    session: ApiSession,
    condition: Condition,
    settings: WaitSettings,
    deadline: Deadline | None = None,
    name: str = "",
) -> Any:
    """Return the condition's result once it is met and stable.

    The limit is hard. When it has passed, everything is listed once more and evaluated; that, and
    gathering evidence for the message of a failed wait, takes a few seconds at most. Ctrl-C ends
    the wait at once.

    Args:
        session: the session of all requests.
        condition: the awaited condition; used for this wait only.
        deadline: the deadline, if part of the limit is used already; None to start now.
        name: the declared wait; empty for a part of a verb.

    Raises:
        ApiError: a final error of a required read.
        WaitFailed: the condition can no longer be met.
        WaitTimeout: the condition was not met within the limit.
    """
    settings = _prepare(session, condition, settings)
    limit = settings.timeout
    deadline = deadline or Deadline.after(limit, session.clock)
    deadline, settings, note = _fit_to_test(session, deadline, settings)
    run = _WaitRun(session, condition, settings, deadline)
    active = run.describe(name, limit)
    with ACTIVE_WAITS.surrounded(active):
        return _complete(run, condition, active, note)


def _complete(run: _WaitRun, condition: Condition, active: ActiveWait, note: str) -> Any:
    """Run a wait; return its result, or raise its error with its report.

    Args:
        note: how the test's own timeout shortens its limit; empty if it does not.
    """
    wait = f"while waiting for {condition.subject} to {condition.goal}"
    try:
        with ACTIVE_WAITS.entered(active):
            run.prepare_audit(active)
            verdict = run.to_verdict(active)
    except DeadlineExceeded:
        timed_out = WaitTimeout(report=run.report(active))
        active.record_error(timed_out)
        if note:
            timed_out.add_note(note)
        raise timed_out from None
    except ApiError as error:
        seen = f"; last seen: {run.last_seen}" if isinstance(error, ClusterEnded) else ""
        error.add_note(active.hide(wait + seen))
        raise
    except (Canceled, KeyboardInterrupt) as interrupt:
        interrupt.add_note(active.hide(f"{wait}; last seen: {run.last_seen}"))
        raise
    if isinstance(verdict, Failed):
        failed = WaitFailed(report=run.report(active, verdict))
        active.record_error(failed)
        raise failed
    try:
        return condition.result()
    finally:
        # Later events change the objects of the result.
        run.audit(active)


class _WaitRun:
    """One call of `wait_for_condition`.

    Args:
        session: the session of all requests.
    """

    def __init__(
        self, session: ApiSession, condition: Condition, settings: WaitSettings, deadline: Deadline
    ) -> None:
        self._session = session
        self._condition = condition
        self._settings = settings
        self._deadline = deadline
        # The used part of the limit belongs to the wait.
        self._started = deadline.at - settings.timeout
        checks = _make_deferred_checks(session, condition, deadline, settings)
        self._evaluator = Evaluator(condition, settings, session.clock, checks, self._started)
        self._errors = ErrorLog(session.clock)
        mode = WatchMode if settings.mode == "watch" else PollMode
        self._runner = mode(session, self._evaluator, deadline, self._errors)
        self._auditor = CURRENT_AUDIT.auditor
        self._unchecked = ""

    @property
    def last_seen(self) -> str:
        """The last verdict, in a few words."""
        return _last_seen(self._evaluator)

    @property
    def _retries(self) -> int:
        return self._errors.count + self._condition.retries

    def describe(self, name: str, limit: float) -> ActiveWait:
        """Return the wait for its observers.

        Args:
            name: the declared wait; empty for a part of a verb.
            limit: the limit in seconds, before the test's own timeout shortens it.
        """
        locate = ACTIVE_WAITS.locate_call
        return ActiveWait(
            self._condition.subject,
            self._condition.goal,
            self._deadline,
            self._evaluator.timeline,
            self._started,
            limit=limit,
            name=name,
            call=None if locate is None else locate(name, limit, self._settings.limit_name),
            context=_SessionContext(self._session, self._condition, self._errors),
        )

    def prepare_audit(self, active: ActiveWait) -> None:
        """Keep the watches beyond the end if an audit can observe the wait."""
        if self._auditor is None:
            return
        self._unchecked = self._auditor.explain_unchecked(active, self._condition, self._settings)
        if isinstance(self._runner, WatchMode):
            self._runner.watches_on = not self._unchecked

    def to_verdict(self, active: ActiveWait) -> Verdict:
        """Wait; return the final verdict and record the outcome.

        Raises:
            ApiError: a final error of a required read.
            DeadlineExceeded: the condition was not met within the limit.
        """
        errors = self._errors
        try:
            verdict = self._run()
        except DeadlineExceeded:
            active.record_outcome(
                "timed out", retries=self._retries, trouble=str(errors.last or "")
            )
            raise
        except ApiError as error:
            errors.last = error
            lost = _find_lost_definition(self._session, self._condition, error)
            # The last one ended the wait.
            retries = max(self._retries - 1, 0)
            outcome = "failed early" if lost else "error"
            active.record_outcome(outcome, retries=retries, trouble=str(error))
            if not lost:
                raise
            return Failed(lost)
        active.record_outcome(
            "failed early" if isinstance(verdict, Failed) else "met",
            retries=self._retries,
            trouble=str(errors.last or ""),
            # One that must hold for a while says more than its first look.
            met_at_first_look=(
                self._evaluator.is_met_at_first_look and not self._settings.stable_for
            ),
        )
        return verdict

    def _run(self) -> Verdict:
        try:
            return self._runner.run().verdict
        except DeadlineExceeded:
            if self._runner.is_blocked:
                raise
            return _evaluate_last(self._session, self._evaluator, self._settings, self._errors)

    def report(self, active: ActiveWait, failed: Failed | None = None) -> WaitReport:
        """Return and record the report of a wait that was not met.

        Args:
            failed: the verdict that ended it early; None after its limit.
        """
        if failed is not None:
            lost = _find_lost_definition(self._session, self._condition)
            if lost and lost not in failed.reason:
                failed = replace(failed, reason=f"{failed.reason}: {lost}")
        report = _make_report(
            self._session,
            self._condition,
            self._settings,
            self._evaluator,
            self._errors,
            failed=failed,
        )
        active.record_report(report)
        return report

    def audit(self, active: ActiveWait) -> None:
        """Observe a met wait from now on, or record why it is not observed."""
        if self._auditor is None:
            return
        if isinstance(self._runner, WatchMode) and self._runner.watches_on:
            self._auditor.observe(active, self._runner, self._session.clock)
        else:
            active.record_holding(Holding(self._unchecked or "it was met by its last list"))


class _SessionContext(WaitContext):
    """The server of a session, for the observers of a wait.

    Args:
        condition: the awaited condition, whose namespaces have Secrets.
        errors: the API errors of the wait.
    """

    def __init__(self, session: ApiSession, condition: Condition, errors: ErrorLog) -> None:
        self._session = session
        self._condition = condition
        self._errors = errors

    def describe_outage(self) -> str:
        return self._session.availability.describe_outage()

    def describe_error(self) -> str:
        return str(self._errors.last or "")

    def namespaces(self) -> tuple[str, ...]:
        named = (source.namespace for source in self._condition.sources())
        return tuple(dict.fromkeys(filter(None, named)))

    def hide(self, text: str) -> str:
        return make_redactor(self._session.credentials())(text)

    def learn_secrets(self, max_age: float | None) -> None:
        namespaces = {source.namespace for source in self._condition.sources()}
        learn_secrets(self._session.base, namespaces, max_age)


def _prepare(session: ApiSession, condition: Condition, settings: WaitSettings) -> WaitSettings:
    """Return the settings for the cluster's times; apply them to the condition's objects."""
    settings = replace(settings, time_scale=lambda: session.time_scale)
    if settings.follows_name and not condition.awaits_absence:
        condition.follow_names()
    return settings


def _find_lost_definition(
    session: ApiSession, condition: Condition, error: ApiError | None = None
) -> str:
    """Return that the definition of an awaited custom resource was deleted; empty if none was.

    Args:
        error: the error that ended the wait; None if the objects did.
    """
    if error is not None and error.status != 404:
        return ""
    if condition.awaits_absence:
        return ""
    for source in condition.sources():
        resource = source.resource
        is_missing = error is not None or not source.sink.uids()
        if is_missing and _is_custom(resource):
            lost = describe_lost_definition(session, source, is_served=error is None)
            if lost:
                return lost
    return ""


def _is_custom(resource: Resource) -> bool:
    return "." in resource.group and resource.group not in BUILT_IN_GROUPS


def _last_seen(evaluator: Evaluator) -> str:
    return evaluator.timeline.last or "nothing yet"


def _fit_to_test(
    session: ApiSession, deadline: Deadline, settings: WaitSettings
) -> tuple[Deadline, WaitSettings, str]:
    """Return a deadline, and its settings, that end before the limit of the running test.

    Bound waits are cut already, in tenths of a second.
    """
    time_budget, remaining = session.time_budget(), deadline.remaining
    if time_budget is None or remaining <= time_budget.seconds + 0.1:
        return deadline, settings, ""
    _, note = time_budget.fit(round(settings.timeout, 1))
    cut, _ = time_budget.fit(remaining)
    limit = round(settings.timeout - remaining + cut, 1)
    if remaining - cut < _NOTED:
        # It was cut by its caller already.
        note = ""
    return Deadline.after(cut, session.clock), replace(settings, timeout=limit), note


def _evaluate_last(
    session: ApiSession, evaluator: Evaluator, settings: WaitSettings, errors: ErrorLog
) -> Verdict:
    """Return the final verdict of one more round of lists, whichever mode was used.

    Raises:
        ClusterEnded: the cluster has ended.
        DeadlineExceeded: the round ends nothing, or does not end in time.
    """
    if settings.timeout:
        limit = Deadline.after(LAST_ROUND, session.clock)
        last = PollMode(session, evaluator, limit, errors).run_last_round()
        if last is not None:
            return last.verdict
    raise DeadlineExceeded


def _make_deferred_checks(
    session: ApiSession, condition: Condition, deadline: Deadline, settings: WaitSettings
) -> list[DeferredCheck]:
    if not settings.fail_fast:
        return []

    def delay() -> float:
        return settings.short_grace

    checks: list[DeferredCheck] = [
        NamespaceCheck(session, condition, deadline, delay),
        VolumeMountCheck(session, condition, deadline, delay),
    ]
    leaves = list(iterate_leaves(condition))
    for leaf in leaves:
        lead = f"{leaf.subject}: " if len(leaves) > 1 else ""
        checks.append(DeferredSourceCheck(session, leaf, deadline, delay, lead))
        checks.append(DeferredConditionCheck(session, leaf, deadline, delay, lead))
    return checks


def _make_report(
    session: ApiSession,
    condition: Condition,
    settings: WaitSettings,
    evaluator: Evaluator,
    errors: ErrorLog,
    *,
    failed: Failed | None,
) -> WaitReport:
    elapsed = evaluator.elapsed
    # Labels explain only a selector of the user's own.
    selected = not condition.scope().objects
    missing = [
        source
        for source in condition.sources()
        if (source.name or (selected and source.selector)) and not source.sink.uids()
    ]
    findings = gather_evidence(
        session.base, condition.scope(), () if failed else missing, _find_operated(condition)
    )
    reason = failed.reason if failed else evaluator.timeline.last
    reason = name_claim_event(reason, findings.claims)
    if failed is None:
        reason = name_restart(reason, findings.pods)
    if failed is None and (outage := session.availability.describe_outage()):
        reason = f"{outage}; last seen: {_last_seen(evaluator)}"
    report = WaitReport(
        subject=condition.subject,
        goal=condition.goal,
        failed=failed is not None,
        reason=reason,
        limit=settings.timeout,
        elapsed=elapsed,
        mode=settings.mode,
        seen=condition.summarize(),
        differences=tuple(condition.differences()),
        timeline=evaluator.timeline,
        findings=findings,
        last_error=str(errors.last or ""),
        errors=errors.count,
        option=_name_option(condition, settings) if failed else "",
    )
    redact = make_redactor(session.credentials())
    return report.redacted(lambda text: redact_log(text, redact))


def _find_operated(condition: Condition) -> OperatedObjects | None:
    """Return the awaited objects that an operator works on: custom ones, else missing ones."""
    for source in condition.sources():
        if _is_custom(source.resource):
            scope = condition.scope()
            qualified = source.resource.qualified
            seen = [obj for obj in scope.objects if obj.resource == qualified]
            uids = () if len(seen) > 1 else source.sink.uids()
            names = (source.name, *(obj.name for obj in seen), *uids)
            known = tuple(dict.fromkeys(filter(None, names)))
            return OperatedObjects(source.resource, source.namespace, known)
    for source in condition.sources():
        if source.name and not condition.awaits_absence and not source.sink.uids():
            return OperatedObjects(
                source.resource, source.namespace, (source.name,), is_custom=False
            )
    return None


def _name_option(condition: Condition, settings: WaitSettings) -> str:
    """Return the option that goes on after the deletion that failed a wait; empty without one."""
    if settings.follows_name or condition.awaits_absence:
        return ""
    nouns = (source.sink.lost_noun() for source in condition.sources())
    noun = next(filter(None, nouns), "")
    return f"follow_name=True waits for a new {noun} of this name" if noun else ""


class _RetryPolicy:
    """Retries the requests of a collection watch as those of a wait."""

    def __init__(self, clock: Clock) -> None:
        self._errors = ErrorLog(clock)
        self._backoff = make_retry_backoff().delay_with_reset(clock, _BACKOFF_RESET)

    def decide(self, outcome: Outcome) -> Recovery:
        """Return the next step.

        Raises:
            ApiError: a final error.
        """
        error = outcome.error
        if error is None:
            if outcome.is_short:
                return Recovery(pause=self._backoff())
            if outcome.verb == "list":
                self._errors.repeats = 0
            else:
                self._errors.record_success()
            return Recovery()
        if not isinstance(error, ApiError):
            # A watch that ended at once without an event, or the deadlines of all have passed.
            return Recovery(relist=True, pause=self._backoff())
        action = self._errors.decide(error)
        if action is ErrorAction.STOP:
            raise error
        pause = self._backoff() + (error.retry_after or 0.0)
        return Recovery(relist=action is ErrorAction.RELIST, pause=pause)


def subscribe(
    session: ApiSession, source: Source, subscriber: Subscriber, deadline: Deadline
) -> Subscription:
    """Subscribe to the list and watch of a source, shared by all waits on the same collection.

    Each wait has its own deadline, verdict and errors.

    Args:
        session: the session of all requests.
        source: the source to watch.
        subscriber: receives lists, events and errors.
    """

    def make(lister_watcher: ListWatch) -> CollectionWatch:
        return CollectionWatch(
            lister_watcher,
            send_list=lambda deadline: request_once(lister_watcher.list, deadline),
            decide=_RetryPolicy(session.clock).decide,
            relist_interval=jitter(RELIST, 0.2),
            inactivity=collection_watch.WATCH_INACTIVITY,
            in_batches=True,
        )

    return COLLECTION_WATCHES.subscribe(source.list_watch(session), make, subscriber, deadline)


class SourceSubscriber:
    """Queues the changes of one source, so that a busy wait does not delay others."""

    def __init__(self, wait: WatchMode, source: Source) -> None:
        self._wait = wait
        self._source = source

    def on_list(self, items: Sequence[Item], resource_version: str, requested_at: float) -> None:
        """Process a list."""
        self._queue(self._wait.enter_list, items, requested_at)
        self._wait.process_changes()

    def on_events(self, events: Sequence[WatchEvent]) -> None:
        """Process events."""
        for event in events:
            if event.type != "BOOKMARK":
                self._queue(self._wait.enter_event, event)
        self._wait.process_changes()

    def on_error(self, verb: str, error: Exception) -> None:
        """Record an API error."""
        if isinstance(error, ApiError):
            self._queue(self._wait.enter_error, error)
            self._wait.process_changes()

    def on_end(self, error: BaseException) -> None:
        """End the source."""
        self._queue(self._wait.enter_end, error)
        self._wait.process_changes()

    def _queue(self, enter: Callable[..., None], *args: object) -> None:
        self._wait.inbox.append((enter, (self._source, *args)))


def sleep_until_stopped(clock: Clock, seconds: float, stop: Callable[[], bool] | None) -> None:
    """Sleep between two steps of a verb.

    Args:
        stop: the option of that name; None if nothing stops it.

    Raises:
        Canceled: the function has returned True.
    """
    if stop is None:
        clock.sleep(seconds)
        return
    deadline = Deadline.after(seconds, clock)
    while True:
        if stop():
            raise Canceled(_STOPPED)
        if deadline.expired:
            return
        clock.sleep(min(_STOP_INTERVAL, deadline.remaining))


class WatchMode:
    """One wait over watches: evaluates their events, and runs the loop of its caller.

    Events are evaluated in the thread that read them. The caller's thread wakes up only to end the
    wait, to check an expired grace period, to run the probe and to run user code.

    Args:
        session: the session of all requests.
        evaluator: evaluates the condition.
    """

    def __init__(
        self, session: ApiSession, evaluator: Evaluator, deadline: Deadline, errors: ErrorLog
    ) -> None:
        self._session = session
        self._evaluator = evaluator
        self._condition = evaluator.condition
        self._probe = evaluator.condition.probe
        self._poll = evaluator.settings.poll
        self._deadline = deadline
        self._errors = errors
        self._unsubscribed = False
        self.watches_on = False
        """True if a met wait stays subscribed for `observe`; set before it runs."""
        self._observation: Observation | None = None
        self._caller = threading.get_ident()
        self._auditor = 0
        """The thread that evaluates user code of the met wait; 0 before there is one."""
        self._lock = threading.RLock()
        self.inbox: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        """Calls of the methods `enter_…`, with their arguments, for `process_changes`."""
        self._wake = threading.Event()
        self._sources: Sequence[Source] = ()
        self._subscriptions: dict[Source, Subscription] = {}
        self._unlisted: set[Source] = set()
        self._probing = False
        self._skipped: set[Source] = set()
        self._confirming: set[Source] | None = None
        self._confirm_from = 0.0
        self._evaluation: Evaluation | None = None
        self._stale = False
        self._over = False
        self._error: BaseException | None = None
        self._probe_at = -math.inf

    def run(self) -> Evaluation:
        """Return the final evaluation.

        Raises:
            ApiError: a final error of a watch or of the probe.
            DeadlineExceeded: the deadline has passed.
        """
        evaluation = None
        try:
            with self._session.availability.notifying(self._wake.set):
                evaluation = self._run()
                return evaluation
        finally:
            if evaluation is None or not isinstance(evaluation.verdict, Met):
                self.watches_on = False
            if not self.watches_on:
                self._close()

    def observe(self, observation: Observation) -> None:
        """Evaluate the condition of the met wait on every further event.

        The events since it was met are evaluated now.
        """
        with self._held():
            self._observation = observation

    def evaluate_changes(self) -> None:
        """Evaluate user code on the changes since the last call, in the thread of the audit."""
        if self._condition.runs_user_code:
            self._auditor = threading.get_ident()
            self.process_changes()

    def end_observation(self) -> None:
        """Unsubscribe."""
        self.watches_on = False
        self._close()

    def _close(self) -> None:
        with self._lock:
            self._over = True
            unsubscribes, self._unsubscribed = not self._unsubscribed, True
        if unsubscribes:
            self._unsubscribe()

    @property
    def _keeps_changes(self) -> bool:
        """Return whether changes stay queued.

        They do until the caller has evaluated user code on the change before, and until the met
        wait is observed, by this thread.
        """
        if not self._over:
            return self._stale and len(self.inbox) <= _MOST_UNEVALUATED
        if not self.watches_on:
            return False
        # User code is called by the audit, so that it delays neither the test nor other waits.
        is_audit = not self._condition.runs_user_code or threading.get_ident() == self._auditor
        return self._observation is None or not is_audit

    def _run(self) -> Evaluation:
        with self._held():
            self._follow_sources()
            if not self._sources:
                self._changed()  # nothing to list: only the probe
        while True:
            evaluation, pause = self._step()
            if evaluation is not None:
                return evaluation
            if self._deadline.expired:
                raise DeadlineExceeded
            self._session.availability.check()
            stop = self._evaluator.settings.stop
            if stop is not None:
                pause = min(pause, _STOP_INTERVAL)
                if stop():
                    raise Canceled(_STOPPED)
            self._session.clock.wait(self._wake, min(pause, self._deadline.remaining))

    @property
    def is_blocked(self) -> bool:
        """Return whether the first list of a source, or the probe, has no answer."""
        return bool(self._unlisted) or self._probing

    def process_changes(self) -> None:
        """Process the queue, unless another thread does.

        The other thread checks the queue again after it has released the lock. It may hold the
        lock for long: user code runs in the caller's thread.
        """
        observation = self._observation
        if observation is not None and self._keeps_changes:
            observation.wake()
        while self.inbox and not self._keeps_changes and self._lock.acquire(blocking=False):
            try:
                while self.inbox and not self._keeps_changes:
                    enter, args = self.inbox.popleft()
                    enter(*args)
                self._evaluator.record_last()
            except BaseException as error:  # raised by this wait; the watch continues for others
                self._error = error
                self._wake.set()
            finally:
                unsubscribes = (
                    self._over
                    and not (self._unsubscribed or self.watches_on)
                    and not self._is_caller()
                )
                self._unsubscribed |= unsubscribes
                self._lock.release()
            if unsubscribes:
                self._unsubscribe(_CLOSE_PAUSE)

    def _is_caller(self) -> bool:
        return threading.get_ident() == self._caller

    def _unsubscribe(self, pause: float = 0.0) -> None:
        """Unsubscribe from all sources; at once from those with other subscribers."""
        last = [
            subscription
            for subscription in self._subscriptions.values()
            if not subscription.close_if_shared()
        ]
        if last and pause:
            # Closing connections is slow, so the caller returns first.
            SYSTEM_CLOCK.sleep(pause)
        for subscription in last:
            subscription.close()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the lock, then process the events queued meanwhile."""
        with self._lock:
            yield
        self.process_changes()

    @property
    def _ignores_changes(self) -> bool:
        """Return whether the wait is over and not observed: its result must not change."""
        return self._over and (self._observation is None or self._observation.is_over)

    def _reevaluate(self, observation: Observation) -> None:
        """Evaluate the condition of the met wait once more."""
        known = self._subscriptions.keys() | self._skipped
        if not known.issuperset(self._condition.sources()):
            # Another source would have to be listed.
            observation.end()
            return
        if self._condition.runs_user_code:
            user_verdict = observation.evaluate_user_code(self._evaluator.reevaluate)
            if user_verdict is None:
                return
            verdict = user_verdict
        else:
            verdict = self._evaluator.reevaluate()
        if not isinstance(verdict, Met):
            observation.record_break(verdict.reason)

    def enter_list(self, source: Source, items: Sequence[Item], requested_at: float) -> None:
        """Take the objects of a list."""
        if self._ignores_changes or source not in self._subscriptions:
            return
        source.replace(items, self._session.clock.monotonic())
        self._unlisted.discard(source)
        if self._confirming is not None and requested_at >= self._confirm_from:
            self._confirming.discard(source)
            self._wake.set()
        self._changed()

    def enter_event(self, source: Source, event: WatchEvent) -> None:
        """Take an event."""
        if not self._ignores_changes and source in self._subscriptions:
            source.apply(event, self._session.clock.monotonic())
            self._changed()

    def enter_error(self, source: Source, error: ApiError) -> None:
        """Take an error that is retried."""
        self._errors.record_error(error)
        if source in self._unlisted:
            self._evaluator.record_text(f"cannot list {source.resource.qualified}: {error.message}")

    def enter_end(self, source: Source, error: BaseException) -> None:
        """Take the error that ended the watch of a source."""
        if source not in self._subscriptions or self._over:
            return
        if source.optional and isinstance(error, ApiError):
            self._errors.record_error(error)
            self._skipped.add(source)
            self._subscriptions.pop(source)
            self._unlisted.discard(source)
            if self._confirming is not None:
                self._confirming.discard(source)
            self._changed()
            self._wake.set()
            return
        self._error = error
        self._wake.set()

    def _follow_sources(self) -> None:
        sources = self._condition.sources()
        if sources is self._sources:
            return
        self._sources = sources
        for source in [source for source in self._subscriptions if source not in sources]:
            self._subscriptions.pop(source).close()
            self._unlisted.discard(source)
        for source in sources:
            if source not in self._subscriptions and source not in self._skipped:
                self._unlisted.add(source)
                self._subscriptions[source] = subscribe(
                    self._session, source, SourceSubscriber(self, source), self._deadline
                )

    def _changed(self) -> None:
        """Evaluate the condition, and wake the caller if it has work to do."""
        if self._observation is not None:
            self._reevaluate(self._observation)
            return
        self._follow_sources()
        if self._unlisted:
            return
        if self._condition.runs_user_code:
            self._stale = True
            self._wake.set()
            return
        before = self._evaluation
        # The condition may be met in between: evaluate every change, but describe only the last.
        self._evaluate(in_passing=bool(self.inbox))
        if (
            self._over
            or before is None
            or self._evaluation is None
            or (self._evaluation.due, self._evaluation.check_at) != (before.due, before.check_at)
            or (self._probe is not None and self._probe.is_urgent())
        ):
            self._wake.set()

    def _evaluate(
        self, *, fresh: bool = False, may_check: bool = False, in_passing: bool = False
    ) -> None:
        self._evaluation = self._evaluator.evaluate(
            fresh=fresh, may_check=may_check, in_passing=in_passing
        )
        self._stale = False
        # Later events are ignored: the result is the state of the final verdict.
        self._over = self._evaluation.final

    def _step(self) -> tuple[Evaluation | None, float]:
        """Do the due work; return the final evaluation, or the time of the next work."""
        clock = self._session.clock
        with self._held():
            self._wake.clear()
            if self._error is not None:
                raise self._error
            if self._evaluation is None and not self._stale:
                return None, math.inf
            if not self._over and (self._stale or self._is_check_due()):
                self._evaluate(may_check=True)
            if not self._over:
                self._confirm()
            if self._over:
                return self._evaluation, 0.0
        if self._probe is not None and self._run_probe(self._probe):
            return self._evaluation, 0.0
        with self._held():
            until = math.inf
            if self._evaluation is not None and self._confirming is None:
                until = min(self._evaluation.due, self._evaluation.check_at)
            if self._probe is not None and self._probe.probe_targets():
                until = min(until, self._probe_at)
        return None, until - clock.monotonic()

    def _is_check_due(self) -> bool:
        now = self._session.clock.monotonic()
        return self._evaluation is not None and now >= self._evaluation.check_at

    def _confirm(self) -> None:
        """List everything again once a grace or stability period has expired, then evaluate."""
        if self._evaluation is None or self._session.clock.monotonic() < self._evaluation.due:
            self._confirming = None
        elif self._confirming is None:
            self._confirming = set(self._subscriptions)
            self._confirm_from = self._session.clock.monotonic()
            for subscription in self._subscriptions.values():
                subscription.refresh()
        elif not self._confirming & self._subscriptions.keys():
            self._confirming = None
            self._evaluate(fresh=True)

    def _run_probe(self, probe: Probe) -> bool:
        """Run the probe if it is due; return whether the wait is over."""
        clock = self._session.clock
        with self._held():
            targets = probe.probe_targets()
            if not targets or not (probe.is_urgent() or clock.monotonic() >= self._probe_at):
                return False
        answers = None
        self._probing = True
        try:
            answers = probe.send_requests(targets, self._deadline)
        except ApiError as error:
            if self._errors.decide(error) is ErrorAction.STOP:
                raise
        else:
            self._errors.record_success()
        self._probing = False
        with self._held():
            self._probe_at = clock.monotonic() + self._poll
            if answers is not None:
                probe.record_answers(answers)
            if not self._over:
                self._evaluate()
            return self._over


class PollMode:
    """One wait over repeated lists.

    Args:
        session: the session of all requests.
        evaluator: evaluates the condition.
    """

    def __init__(
        self, session: ApiSession, evaluator: Evaluator, deadline: Deadline, errors: ErrorLog
    ) -> None:
        self._session = session
        self._evaluator = evaluator
        self._condition = evaluator.condition
        self._probe = evaluator.condition.probe
        self._poll = evaluator.settings.poll
        self._deadline = deadline
        self._errors = errors
        self._blocked = False
        self._skipped: set[Source] = set()
        self._evaluation: Evaluation | None = None

    def run(self) -> Evaluation:
        """Return the final evaluation.

        Raises:
            ApiError: a final error of a list or of the probe.
            DeadlineExceeded: the deadline has passed.
        """
        availability = self._session.availability
        stop = self._evaluator.settings.stop
        ctx = Context(self._deadline.clock, channel=availability.ended, stop=stop)
        timeout = self._deadline.remaining
        try:
            poll_until_context_timeout(ctx, self._poll, timeout, True, self._run_round)
        except Canceled:
            availability.check()
            raise Canceled(_STOPPED) from None
        if self._evaluation is None:
            raise AssertionError("no round was evaluated")
        return self._evaluation

    def run_round(self) -> Evaluation | None:
        """Return the evaluation of one round; None after an error that is retried.

        Raises:
            ApiError: a final error of a list or of the probe.
            DeadlineExceeded: the deadline has passed.
        """
        # Retry-After is left to the caller's next round.
        ctx, cancel = with_cancel(background(self._deadline.clock))
        cancel()
        self._evaluation = None
        self._run_round(ctx)
        return self._evaluation

    def run_last_round(self) -> Evaluation | None:
        """Return the evaluation of one round after the time is up, if it ends the wait.

        Errors are recorded; none but the end of the cluster hides that the time is up.

        Raises:
            ClusterEnded: the cluster has ended.

        Source: util/wait/poll.go poller, whose last tick comes at the timeout.
        """
        # Retry-After is not waited for: nothing follows.
        ctx, cancel = with_cancel(background(self._deadline.clock))
        cancel()
        try:
            return self._evaluation if self._run_round(ctx) else None
        except ClusterEnded:
            raise
        except (ApiError, DeadlineExceeded):
            return None

    @property
    def is_blocked(self) -> bool:
        """Return whether a request, or the pause that the server asked for, has not ended."""
        return self._blocked

    def _run_round(self, ctx: Context) -> bool:
        self._blocked = True
        try:
            self._list_all()
            if self._probe is not None and (targets := self._probe.probe_targets()):
                self._probe.record_answers(self._probe.send_requests(targets, self._deadline))
        except ApiError as error:
            if self._errors.decide(error) is ErrorAction.STOP:
                raise
            self._blocked = bool(error.retry_after) and ctx.wait(error.retry_after)
            return False
        self._blocked = False
        self._errors.record_success()
        self._evaluation = self._evaluator.evaluate(fresh=True)
        return self._evaluation.final

    def _list_all(self) -> None:
        """List all sources, including those that the condition adds meanwhile."""
        seen = set(self._skipped)
        while missing := [s for s in self._condition.sources() if s not in seen]:
            for source in missing:
                seen.add(source)
                try:
                    listed = request_once(source.list_watch(self._session).list, self._deadline)
                except ApiError as error:
                    if not source.optional or classify_error(error) is not ErrorAction.STOP:
                        if not self._evaluator.is_started:
                            text = f"cannot list {source.resource.qualified}: {error.message}"
                            self._evaluator.record_text(text)
                        raise
                    self._errors.record_error(error)
                    self._skipped.add(source)
                    continue
                source.replace(listed.items, self._session.clock.monotonic())


class PolledCondition:
    """A condition as a `wait.ConditionFunc`: each call lists its objects once.

    Grace periods and stability hold from call to call.

    Args:
        session: the session of all requests.
        settings: the options; the timeout limits one call.
    """

    def __init__(self, session: ApiSession, condition: Condition, settings: WaitSettings) -> None:
        self._session = session
        self._condition = condition
        self._settings = _prepare(session, condition, settings)
        unlimited = Deadline.after(None, session.clock)
        checks = _make_deferred_checks(session, condition, unlimited, self._settings)
        self._evaluator = Evaluator(condition, self._settings, session.clock, checks)
        self._errors = ErrorLog(session.clock)

    def __repr__(self) -> str:
        return f"<{self._condition.subject} to {self._condition.goal}>"

    def __call__(self) -> bool:
        """Return whether the condition is met; False after an error that a wait would retry.

        Raises:
            ApiError: the server refuses a request.
            DeadlineExceeded: the server does not answer within the limit.
            WaitFailed: the condition can no longer be met.
        """
        __tracebackhide__ = True
        self._session.availability.check()
        deadline = Deadline.after(self._settings.timeout, self._session.clock)
        deadline, _, _ = _fit_to_test(self._session, deadline, self._settings)
        evaluation = PollMode(self._session, self._evaluator, deadline, self._errors).run_round()
        if evaluation is None or not evaluation.final:
            return False
        if isinstance(evaluation.verdict, Failed):
            report = _make_report(
                self._session,
                self._condition,
                self._settings,
                self._evaluator,
                self._errors,
                failed=evaluation.verdict,
            )
            raise WaitFailed(report=report)
        return True
