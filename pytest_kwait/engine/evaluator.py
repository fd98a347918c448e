"""The evaluator: applies grace periods and stability to verdicts, and runs deferred checks.

Deferred checks are requests that run only after a wait has been stuck for a while: a wait that
makes progress sends no requests beyond its watches.

`NamespaceCheck` fails a wait whose namespace does not exist or is terminating, because no object
can be created in it. It reads the namespace once an object has been missing for a while, and again
at growing intervals. An empty collection counts as missing. `DeferredSourceCheck` lists the events
of an object whose status does not explain its lack of progress, `VolumeMountCheck` those of pods
whose containers are not created because a volume cannot be mounted. `DeferredConditionCheck`
evaluates the conditions of the objects' own kinds, which read pods and events as well.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.client.resource import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, SECRETS
from pytest_kwait.client.responses import PartialObjectMetadata
from pytest_kwait.engine.condition import (
    Condition,
    Failed,
    Grace,
    Met,
    Pending,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.failure.wait_report import Timeline
from pytest_kwait.errors import ApiError
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Clock, Deadline
    from pytest_kwait.engine.condition import ObjectSink, Source
    from pytest_kwait.engine.options import WaitSettings


LONGEST_PAUSE = 60.0

CHECK_TIMEOUT = 5.0
"""Seconds that one request may take; the wait continues without its answer."""

_log = logging.getLogger("pytest_kwait.wait")
_SHORTEST_PAUSE = 1.0
"""Seconds between two runs of a deferred check at least."""
_MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_MOUNT_OPERATION = re.compile(r'^MountVolume\.\S+ failed for volume "[^"]*" ?: ')
# The kubelet's own watch was late, or the server's graph of nodes and their pods.
# Source: pkg/kubelet/util/manager/watch_based_manager.go, `Get`;
# plugin/pkg/auth/authorizer/node/node_authorizer.go, `authorize`, `authorizeCreateToken`.
_TRANSIENT_MOUNT = re.compile(
    r"failed to sync (configmap|secret) cache: timed out"
    r"|no relationship found between node '[^']*' and this object"
)
_MISSING_OBJECT = re.compile(r'\b(configmap|secret) "([^"]+)" not found')
_MOUNTED_KINDS = {"configmap": CONFIG_MAPS, "secret": SECRETS}
_SIMILAR_NAMES = 3

_Answer = TypeVar("_Answer")


def _at_once() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict, and its effect on the wait.

    Args:
        verdict: the condition's verdict.
        final: whether it ends the wait.
        due: when to list everything and evaluate again without a change, in monotonic seconds;
            infinite if only a change can alter the verdict.
        check_at: when to evaluate again for a deferred check, without listing anything.
    """

    verdict: Verdict
    final: bool
    due: float = math.inf
    check_at: float = math.inf


class Evaluator:
    """Applies grace periods and stability to the verdicts of one wait.

    Args:
        settings: the wait's options.
        clock: the clock of the grace periods.
        deferred_checks: the checks of a stuck wait.
        started: when the wait began, in monotonic seconds; None for now.
    """

    def __init__(
        self,
        condition: Condition,
        settings: WaitSettings,
        clock: Clock,
        deferred_checks: Sequence[DeferredCheck] = (),
        started: float | None = None,
    ) -> None:
        self.condition = condition
        self.settings = settings
        self._clock = clock
        self._deferred_checks = deferred_checks
        self._started = clock.monotonic() if started is None else started
        self._is_started = False
        self._met_since: float | None = None
        self._terminal_since: float | None = None
        self._permanent_since: float | None = None
        self._unrecorded: tuple[float, Pending] | None = None
        self.timeline = Timeline()
        self.is_met_at_first_look = False
        """True if the first verdict was that the condition is met."""

    @property
    def elapsed(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._started

    def evaluate(
        self, *, fresh: bool = False, may_check: bool = False, in_passing: bool = False
    ) -> Evaluation:
        """Return the condition's verdict and its effect on the wait.

        Args:
            fresh: whether everything was listed since the last due time. An expired grace or
                stability period is final only then: a dead connection would hide changes.
            may_check: whether deferred checks may send requests, in the caller's thread.
            in_passing: whether another evaluation follows at once; a pending verdict is then
                recorded only if it is the last before `record_last`.

        Raises:
            Exception: raised by user code in the verdict.
        """
        now = self._clock.monotonic()
        is_first, self._is_started = not self._is_started, True
        self.condition.set_time(now, fresh=fresh)
        self._unrecorded = None
        verdict = self.condition.verdict()
        if is_first:
            self.is_met_at_first_look = isinstance(verdict, Met)
        for check in self._deferred_checks:
            if isinstance(verdict, Pending):
                verdict = check.apply(verdict, now, fresh=fresh, may_check=may_check)
        match verdict:
            case Met():
                evaluation = self._evaluate_met(verdict, now, fresh)
            case Failed():
                evaluation = self._evaluate_failed(verdict, now, fresh)
            case Pending():
                due = self.condition.due
                check_at = math.inf
                for check in self._deferred_checks:
                    if check.lists_first:
                        due = min(due, check.due)
                    else:
                        check_at = min(check_at, check.due)
                evaluation = Evaluation(verdict, final=False, due=due, check_at=check_at)
                self._unrecorded = (now, verdict)
                if not in_passing:
                    self.record_last()
        if not isinstance(verdict, Met):
            self._met_since = None
        if not isinstance(verdict, Failed):
            self._terminal_since = self._permanent_since = None
        return evaluation

    def reevaluate(self) -> Verdict:
        """Return the verdict after the end of the wait; nothing is recorded."""
        self.condition.set_time(self._clock.monotonic(), fresh=False)
        return self.condition.verdict()

    def record_last(self) -> None:
        """Record the last verdict if it was evaluated in passing; call before the next change."""
        unrecorded, self._unrecorded = self._unrecorded, None
        if unrecorded is not None:
            now, verdict = unrecorded
            self._record(now, verdict.reason)

    @property
    def is_started(self) -> bool:
        """Return whether the condition was evaluated."""
        return self._is_started

    def record_text(self, text: str) -> None:
        """Record a text before the first verdict."""
        self._record(self._clock.monotonic(), text)

    def _evaluate_met(self, verdict: Met, now: float, fresh: bool) -> Evaluation:
        if self._met_since is None:
            self._met_since = now
        seconds = self.settings.stable_for
        if not verdict.settled:
            seconds = max(seconds, self.settings.settle_time)
        due = self._met_since + seconds
        if not seconds or (fresh and now >= due):
            self._record(now, "met")
            return Evaluation(verdict, final=True)
        held = format_duration(seconds)
        why = "" if verdict.settled else ", as another number may follow"
        self._record(now, f"met, and must hold for {held}{why}")
        # Part of the condition may change with time before that.
        return Evaluation(verdict, final=False, due=min(due, self.condition.due))

    def _evaluate_failed(self, verdict: Failed, now: float, fresh: bool) -> Evaluation:
        if not self.settings.fail_fast:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=False, due=self.condition.due)
        if verdict.grace is Grace.NONE:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=True)
        due = self._end_of_grace(verdict, now)
        if fresh and now >= due:
            self._record(now, verdict.reason)
            return Evaluation(verdict, final=True)
        grace = self._grace(verdict.grace)
        text = f"final if it holds for {format_duration(grace)}: {verdict.reason}"
        self._record(now, text, is_provisional=True)
        return Evaluation(verdict, final=False, due=min(due, self.condition.due))

    def _end_of_grace(self, verdict: Failed, now: float) -> float:
        if self._terminal_since is None:
            self._terminal_since = now
        if verdict.grace is not Grace.SHORT:
            self._permanent_since = None
        elif self._permanent_since is None:
            self._permanent_since = now
        since = verdict.since
        if since is None:
            permanent = self._permanent_since
            outside = verdict.grace is Grace.OUTSIDE
            long = self.settings.outside_grace if outside else self.settings.long_grace
            long_enough = self._terminal_since + long
            if permanent is not None:
                return min(permanent + self.settings.short_grace, long_enough)
            return long_enough
        return since + self._grace(verdict.grace)

    def _grace(self, grace: Grace) -> float:
        if grace is Grace.OUTSIDE:
            return self.settings.outside_grace
        return self.settings.short_grace if grace is Grace.SHORT else self.settings.long_grace

    def _record(self, now: float, text: str, *, is_provisional: bool = False) -> None:
        at = now - self._started
        is_new = self.timeline.record(at, text, is_provisional=is_provisional)
        if is_new and _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s to %s: after %s: %s",
                self.condition.subject,
                self.condition.goal,
                format_duration(round(at, 1)),
                text,
            )


class DeferredCheck(ABC):
    """A check that runs after some time without progress, and at growing intervals.

    A failure that it finds is confirmed by another run before it ends the wait.

    Args:
        delay: returns the seconds without progress before the first run.
        lead: the words before each reason: the object's, where the condition is one of several.
    """

    lists_first = True
    """True if all sources are listed before each run, not only before a final one."""

    def __init__(
        self,
        session: ApiSession,
        condition: Condition,
        deadline: Deadline,
        delay: Callable[[], float],
        lead: str = "",
    ) -> None:
        self.session = session
        self.condition = condition
        self._lead = lead
        self._deadline = deadline
        self._delay = delay
        self._pause: float | None = None
        self._next: float | None = None
        self._lost: Failed | None = None
        self.stuck_since = 0.0
        """The time when the wait got stuck, in monotonic seconds."""

    @property
    def due(self) -> float:
        """The time of the next run, in monotonic seconds; infinite for none."""
        return math.inf if self._next is None else self._next

    def apply(
        self, verdict: Pending, now: float, *, fresh: bool, may_check: bool
    ) -> Pending | Failed:
        """Return the verdict, or the failure that the check found.

        Args:
            verdict: the condition's verdict.
            now: the clock's monotonic seconds.
            fresh: whether all sources have just been listed.
            may_check: whether the check may send its request now.
        """
        if not self.is_needed(verdict):
            self._next = self._lost = None
            return verdict
        pause = self._pause = self._delay() if self._pause is None else self._pause
        if self._next is None:
            self.stuck_since = now
            self._next = now + pause
        may = fresh or (may_check and not self.lists_first)
        # In the last round, after the time is up, the failure found before counts.
        may = may and not self._deadline.expired
        if may and (self._lost is not None or now >= self._next):
            lost = self.run()
            self._lost = lost and replace(lost, reason=f"{self._lead}{lost.reason}")
            # Without a grace the first run comes at once; the server is not asked all the time.
            pause = max(pause, _SHORTEST_PAUSE)
            self._next = now + pause
            self._pause = min(2 * pause, LONGEST_PAUSE)
        return self._lost or verdict

    @abstractmethod
    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the wait is stuck in a way that this check can explain."""

    @abstractmethod
    def run(self) -> Failed | None:
        """Send the request; return the failure that it shows."""

    def list_source(self, source: Source) -> bool:
        """Replace the objects of a source by those on the server; return whether it was listed."""
        listed = self.request(source.list_watch(self.session).list)
        if listed is not None:
            source.replace(listed.items, self.session.clock.monotonic())
        return listed is not None

    def request(self, send: Callable[[Deadline], _Answer]) -> _Answer | None:
        """Return the answer; None without one, or if the request is forbidden."""
        try:
            return send(self._deadline.at_most(CHECK_TIMEOUT))
        except (ApiError, DeadlineExceeded):
            return None


class NamespaceCheck(DeferredCheck):
    """Fail a wait for a missing object whose namespace is missing or terminating."""

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether a namespaced object is missing."""
        return verdict.absent and self._namespace() is not None

    def _namespace(self) -> str | None:
        """Return the namespace of a missing object; None for cluster-scoped kinds."""
        missing = (s.namespace for s in self.condition.sources() if not s.sink.uids())
        return next(filter(None, missing), None)

    def run(self) -> Failed | None:
        """Read the namespace; return the failure if it is missing or being deleted."""
        namespace = self._namespace()
        if namespace is None:
            return None
        obj = self.request(lambda deadline: self._read(namespace, deadline))
        if obj == {}:
            # It may still be created: by a program that is as slow on a fast cluster.
            return Failed(f"namespace {namespace} does not exist", Grace.OUTSIDE)
        if obj is None or not (obj.get("metadata") or {}).get("deletionTimestamp"):
            return None
        text = f"namespace {namespace} is being deleted: nothing can be created in it"
        return Failed(text, Grace.SHORT)

    def _read(self, namespace: str, deadline: Deadline) -> dict[str, Any]:
        """Return the namespace; empty if it does not exist."""
        try:
            return self.session.get(NAMESPACES, namespace, deadline=deadline)
        except ApiError as error:
            if error.status != 404:
                raise
            return {}


class DeferredSourceCheck(DeferredCheck):
    """List the deferred source of a condition once it is stuck."""

    lists_first = False

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the condition has a deferred source now."""
        return self.condition.deferred_source() is not None

    def run(self) -> Failed | None:
        """List the source; return the failure it shows, dated from when the wait got stuck."""
        source = self.condition.deferred_source()
        if source is None or not self.list_source(source):
            return None
        failure = self.condition.deferred_verdict()
        if failure is None or failure.since is not None:
            return failure
        return replace(failure, since=self.stuck_since)


class _LastEvent(NamedTuple):
    """The last event about a pod, and how often it occurred."""

    reason: str
    message: str
    times: int


class VolumeMountCheck(DeferredCheck):
    """Fail a wait whose pods get no containers because a volume cannot be mounted.

    Only the kubelet's events show it. A pod counts as failing from the first run that finds its
    last event to be such a failure; what is mounted may still be created.
    """

    lists_first = False

    def __init__(
        self,
        session: ApiSession,
        condition: Condition,
        deadline: Deadline,
        delay: Callable[[], float],
    ) -> None:
        super().__init__(session, condition, deadline, delay)
        self._since: dict[str, float] = {}

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the containers of a watched pod are being created."""
        return any(sink.has_creating() for _, sink in self._sinks())

    def _sinks(self) -> Iterator[tuple[str | None, ObjectSink]]:
        for source in self.condition.sources():
            if source.resource == PODS:
                yield source.namespace, source.sink

    def run(self) -> Failed | None:
        """List the pods' events; return the verdict if pods that cannot mount were lost."""
        now = self.session.clock.monotonic()
        namespace = next((namespace for namespace, _ in self._sinks()), None)
        events = self.request(lambda deadline: self._last_events(namespace, deadline))
        creating = {uid for _, sink in self._sinks() for uid in sink.creating()}
        failing = {
            uid: last
            for uid, last in (events or {}).items()
            if uid in creating
            and last.reason in _MOUNT_REASONS
            # It says nothing about the volume, and is retried.
            and not _TRANSIENT_MOUNT.search(last.message)
        }
        self._since = {uid: self._since.get(uid, now) for uid in failing}
        if not failing:
            return None
        counts: Counter[tuple[str, str]] = Counter()
        for last in failing.values():
            counts[last.reason, last.message] += last.times
        hints = {message: self._hint(namespace, message) for _, message in counts}
        marks = {
            uid: TerminalState(
                f"{last.reason} ({counts[last.reason, last.message]}x): "
                f"{last.message}{hints[last.message]}",
                Grace.LONG,
            )
            for uid, last in failing.items()
        }
        return self._verdict_with(marks)

    def _verdict_with(self, marks: dict[str, TerminalState]) -> Failed | None:
        """Return the failure of the condition if these pods have terminal states."""
        sinks = [sink for _, sink in self._sinks()]
        for sink in sinks:
            sink.mark_creating(marks, self._since)
        try:
            verdict = self.condition.verdict()
        finally:
            for sink in sinks:
                sink.mark_creating({}, {})
        if not isinstance(verdict, Failed):
            return None
        since = min(self._since.values()) if verdict.since is None else verdict.since
        return replace(verdict, since=since)

    def _last_events(self, namespace: str | None, deadline: Deadline) -> dict[str, _LastEvent]:
        """Return the last event about each pod, by its UID."""
        listed = self.session.list(
            EVENTS, namespace, field_selector="involvedObject.kind=Pod", deadline=deadline
        )
        latest: dict[str, tuple[str, _LastEvent]] = {}
        for item in listed.items:
            event = item.object
            message = _MOUNT_OPERATION.sub("", " ".join((event.get("message") or "").split()))
            series = event.get("series") or {}
            count = series.get("count") or event.get("count") or 1
            moment = (
                series.get("lastObservedTime")
                or event.get("lastTimestamp")
                or event.get("eventTime")
                or ""
            )
            uid = (event.get("involvedObject") or {}).get("uid") or ""
            known = latest.get(uid, ("", _LastEvent("", "", 0)))
            reason = event.get("reason") or ""
            # That volumes are not mounted in time says less than why.
            if message.startswith("Unable to attach or mount") and known[1].reason == reason:
                continue
            if moment[:19] >= known[0][:19]:
                latest[uid] = (moment, _LastEvent(reason, message, count))
        return {uid: event for uid, (_, event) in latest.items()}

    def _hint(self, namespace: str | None, message: str) -> str:
        """Return the names that are there instead of a missing one; empty without any."""
        match = _MISSING_OBJECT.search(message)
        if match is None:
            return ""
        resource, missing = _MOUNTED_KINDS[match[1]], match[2]
        listed = self.request(
            lambda deadline: self.session.list(
                resource, namespace, deadline=deadline, type=PartialObjectMetadata
            )
        )
        names = sorted(item.object["metadata"]["name"] for item in listed.items) if listed else []
        names = [name for name in names if name != "kube-root-ca.crt"]
        near = difflib.get_close_matches(missing, names, n=_SIMILAR_NAMES) or names[:_SIMILAR_NAMES]
        return f" (there is: {', '.join(near)})" if near else ""


class DeferredConditionCheck(DeferredCheck):
    """Evaluate the conditions of the objects' own kinds once the wait is stuck.

    Their sources are listed, those of their own deferred checks too. A failure begins with the
    first run that finds it, unless its objects were in that state before.
    """

    lists_first = False

    def __init__(
        self,
        session: ApiSession,
        condition: Condition,
        deadline: Deadline,
        delay: Callable[[], float],
        lead: str = "",
    ) -> None:
        super().__init__(session, condition, deadline, delay, lead)
        self._checks: dict[Condition, list[DeferredCheck]] = {}
        self._since: dict[Condition, float] = {}

    def is_needed(self, verdict: Pending) -> bool:
        """Return whether the condition has others to evaluate now."""
        return bool(self.condition.deferred_conditions())

    def run(self) -> Failed | None:
        """List and evaluate the conditions; return the first failure once enough have failed."""
        now, failed = self.session.clock.monotonic(), []
        conditions = self.condition.deferred_conditions()
        since, self._since = self._since, {}
        checks = self._checks
        self._checks = {condition: checks.get(condition) or [] for condition in conditions}
        for condition in conditions:
            if (failure := self._evaluate(condition, now)) is not None:
                self._since[condition] = since.get(condition, now)
                began = self._since[condition] if failure.since is None else failure.since
                failed.append(replace(failure, since=began))
        needed = self.condition.deferred_failures_needed()
        if len(failed) < needed:
            return None
        begun = sorted(failure.since or now for failure in failed)
        return replace(failed[0], since=begun[needed - 1])

    def _evaluate(self, condition: Condition, now: float) -> Failed | None:
        seen: set[Source] = set()
        while missing := [source for source in condition.sources() if source not in seen]:
            for source in missing:
                seen.add(source)
                if not self.list_source(source) and not source.optional:
                    return None
        verdict = condition.verdict()
        checks = self._checks[condition]
        if not checks:
            checks.append(VolumeMountCheck(self.session, condition, self._deadline, _at_once))
            checks.append(DeferredSourceCheck(self.session, condition, self._deadline, _at_once))
        for check in checks:
            if isinstance(verdict, Pending):
                verdict = check.apply(verdict, now, fresh=True, may_check=True)
        return verdict if isinstance(verdict, Failed) else None
