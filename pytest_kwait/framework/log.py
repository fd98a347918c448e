"""Wait until a line of the log of a pod, or of one of several, matches a pattern.

Each log is read on from the time of its last line. The server takes whole seconds, so lines that
were read before are recognized and dropped. The end of a run that was replaced meanwhile is read
from the log of the previous run.

Source: kubernetes/test/e2e/framework/pod/output/output.go LookForStringInLog.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, overload

from pytest_kwait.apimachinery.selectors import (
    Selector,
    format_label_selector,
    normalize_label_selector,
)
from pytest_kwait.apimachinery.times import Duration, parse_time, to_seconds
from pytest_kwait.apimachinery.validation import check_name, check_namespace
from pytest_kwait.client.discovery import match_resource
from pytest_kwait.client.resource import BUILT_IN, JOBS, PODS, SERVICES
from pytest_kwait.client.responses import ObjectMeta
from pytest_kwait.engine.condition import (
    Failed,
    Grace,
    Met,
    Pending,
    ReadLog,
    Source,
    TerminalState,
    Verdict,
)
from pytest_kwait.engine.object_sinks import ObjectState, SingleObject
from pytest_kwait.engine.options import TargetText, check_text, parse_target
from pytest_kwait.engine.pod_fields import (
    get_current_state,
    is_finished,
    phase_label,
)
from pytest_kwait.engine.retry import ErrorAction, classify_error
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.named_objects import controller_uid, count_noun
from pytest_kwait.framework.pod.containers import (
    find_container_status,
    keep_blocking_containers,
    list_container_names,
)
from pytest_kwait.framework.pod.placement import PlacedPodsCondition
from pytest_kwait.framework.registry import wait
from pytest_kwait.framework.terminal_states.pods import (
    describe_exit,
    detect_not_running,
    detect_pod_end,
    will_restart,
)
from pytest_kwait.framework.terminal_states.workloads import detect_replica_failure
from pytest_kwait.framework.workload.fields import CONTROLLERS, selector_of
from pytest_kwait.wait.context import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from re import Pattern

    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.engine.condition import EvidenceScope
    from pytest_kwait.engine.options import WaitOptions
    from pytest_kwait.framework.named_objects import KubernetesObject
    from pytest_kwait.framework.registry import ConditionOf

LOG_TIMEOUT = 10.0
"""Timeout of one request for a log, in seconds."""
KEPT_LINES = 10
"""Last lines of each log that a failure may show."""
KEPT_LOGS = 3
"""Logs that a failure may show."""

LINE_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
"""The time before a line, of a log that was requested with times."""
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_MAX_PATTERN = 60
_ALIVE = "not finished"


class LogMatch(NamedTuple):
    """The line of a log that matched.

    Args:
        pod: the pod's name.
        container: the container's name.
        line: the line, without its end.
    """

    pod: str
    container: str
    line: str


class _Fields(TypedDict, total=False):
    metadata: ObjectMeta
    spec: dict[str, Any] | None
    status: dict[str, Any] | None


class _Position(NamedTuple):
    """A place in the log of a run from which to read on.

    Args:
        since: the least time of the lines to request, in whole seconds since the epoch.
        first: the time of the first line that was read; earlier ones were not to be read.
        seen: the lines from `since` on that were read, with their times.
    """

    since: float
    first: float
    seen: tuple[str, ...]


class _Request(NamedTuple):
    """A request for the lines of a run that were not read yet.

    Args:
        uid: the pod's UID.
        run: the number of restarts before the run.
        has_ended: whether the run had ended before the request.
        previous: whether it is the run before the current one.
        position: where to read on; None for the beginning.
        max_age: the maximum age of lines without a position, in seconds; None for any.
    """

    uid: str
    pod: str
    container: str
    run: int
    has_ended: bool
    previous: bool
    position: _Position | None
    max_age: int | None


class _FoundLine(NamedTuple):
    """A line that matched, and its time in seconds since the epoch."""

    time: float
    match: LogMatch


@dataclass(slots=True)
class _Answer:
    """The lines that were read.

    Args:
        lines: the last new lines, without their times.
        count: the number of new lines.
        found: the first line that matches; None without one.
        problem: why there are no lines, or no further ones; empty if nothing is amiss.
        is_final: whether no further line of the run comes.
    """

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    count: int = 0
    position: _Position | None = None
    found: _FoundLine | None = None
    problem: str = ""
    is_final: bool = False


@dataclass(slots=True)
class _ContainerLog:
    """The log of a container, as far as it was read.

    Args:
        run: the number of restarts before the current run.
        has_ended: whether this run has ended.
        is_whole: whether all of this run was read.
        misses_previous: whether the end of the run before it may not have been read.
        is_read: whether the server has sent it, even if it is empty.
        last: when its last new lines were read; a counter.
    """

    pod: str
    container: str
    run: int
    has_ended: bool = False
    is_whole: bool = False
    misses_previous: bool = False
    is_read: bool = False
    position: _Position | None = None
    count: int = 0
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    last: int = 0
    problem: str = ""

    def begin(self, run: int) -> None:
        """Continue with a later run."""
        self.misses_previous = not self.is_whole
        self.run = run
        self.is_whole = self.has_ended = False
        self.position = None
        self.lines.clear()


class MatchingLog(PlacedPodsCondition):
    """A line of the log of one of several pods matches a pattern.

    Args:
        pattern: matches a line without its end.
        goal: the awaited line, as a verb phrase.
        owner: what selects the pods; None if they are given otherwise.
        selector: the pods' labels; None if they are selected otherwise.
        pods: the UIDs of the pods by name, empty where not known; None if they are selected.
        container: the only container whose log is read; None for all of each pod.
        since: the maximum age of lines when the wait begins, in seconds; None for any.
    """

    goal: str

    def __init__(
        self,
        namespace: str,
        pattern: Pattern[str],
        goal: str,
        *,
        owner: SingleObject | None = None,
        selector: str | None = None,
        pods: dict[str, str] | None = None,
        container: str | None,
        since: float | None,
    ) -> None:
        super().__init__(namespace, selector, pods, self._state)
        self.goal = goal
        self._pattern = pattern
        self._owner = owner
        self._container = container
        self._since = since
        self._started: float | None = None
        self._now = 0.0
        self._logs: dict[tuple[str, str], _ContainerLog] = {}
        self._reads = 0
        self._is_news = False
        self._found: _FoundLine | None = None
        if owner is None:
            self._sources = (self._pod_source(_Fields),)
        else:
            kind, name = owner.resource, owner.name
            self._sources = (Source(kind, namespace, owner, name, fields=_Fields),)

    @property
    def subject(self) -> str:
        """The pods, or what selects them."""
        if self._owner is not None:
            return f"{self._owner.noun} {self.namespace}/{self._owner.name}"
        return super().subject

    def sources(self) -> Sequence[Source]:
        """Return the owner, and the pods once their selector is known."""
        owner = self._owner
        if owner is not None and owner.current is not None and len(self._sources) == 1:
            self._selector = _selector_of(owner)
            if self._selector:
                self._sources = (*self._sources, self._pod_source(_Fields))
        return self._sources

    def set_time(self, now: float, *, fresh: bool) -> None:
        """Record the time, for the age of lines."""
        self._started = now if self._started is None else self._started
        self._now = now

    def _state(self, pod: dict[str, Any], before: TerminalState | None) -> ObjectState:
        self._record_runs(pod)
        terminal = self._detect_silence(pod, before)
        return ObjectState(
            phase_label(pod), () if is_finished(pod) else (_ALIVE,), terminal_state=terminal
        )

    def _awaited_statuses(self, pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for status in list_container_statuses(pod):
            if self._container in (None, status.get("name")):
                yield status

    def _record_runs(self, pod: dict[str, Any]) -> None:
        """Record the runs of a pod's containers whose logs can be read."""
        metadata = pod["metadata"]
        uid = metadata.get("uid") or metadata["name"]
        for status in self._awaited_statuses(pod):
            if not has_log(status):
                continue
            name, run = status.get("name") or "", status.get("restartCount") or 0
            log = self._logs.get((uid, name))
            is_new = log is None or run > log.run
            if log is None:
                log = self._logs[uid, name] = _ContainerLog(metadata["name"], name, run)
            elif is_new:
                log.begin(run)
            has_ended = get_current_state(status)[0] != "running"
            self._is_news = self._is_news or is_new or has_ended != log.has_ended
            log.has_ended = has_ended

    def _detect_silence(
        self, pod: dict[str, Any], before: TerminalState | None
    ) -> TerminalState | None:
        """Return why a pod writes no further line; None while it may."""
        name = self._container
        if is_finished(pod):
            # Another pod of the selection, or one of the same name, may come in its place.
            is_any = self._wanted is None or self._pods.follows_names
            return detect_pod_end(pod, replaced=is_any and bool(controller_uid(pod)))
        states = [
            (get_current_state(status), status.get("name") or "")
            for status in self._awaited_statuses(pod)
        ]
        if any(state == "running" for (state, _), _ in states):
            return None
        if name is not None:
            if not find_container_status(pod, name)[0]:
                has = ", ".join(list_container_names(pod))
                # An ephemeral container may still be added.
                return TerminalState(f"the pod has no container {name}, it has {has}", Grace.LONG)
            for (state, facts), its_name in states:
                if state == "terminated" and will_restart(pod, its_name, facts) is False:
                    text = f"container {name} ended with {describe_exit(facts)}, to stay so"
                    return TerminalState(text, Grace.SHORT)
            pod = keep_blocking_containers(pod, name)
        return detect_not_running(pod, before)

    def verdict(self) -> Verdict:
        """Decide by the lines that were read; without a match, by whether more may come."""
        if self._found is not None:
            return Met()
        missing = self._missing() if self._owner is None else self._missing_of(self._owner)
        if missing is not None:
            return missing
        logs = self._present_logs()
        if not self._has_unread_lines():
            silent = self._find_silence()
            if silent is not None:
                return replace(silent, reason=f"{silent.reason}; {self._describe_lines()}")
        if not logs:
            return Pending(f"no log yet: {self._pods.summary()}")
        problem = next((log.problem for log in logs if log.problem), "")
        if not (problem or any(log.is_read for log in logs)):
            return Pending("no log was read yet")
        return Pending(f"no line matches yet{': ' if problem else ''}{problem}")

    def _missing_of(self, owner: SingleObject) -> Verdict | None:
        """Return the verdict on missing pods of an owner; None if there are any."""
        absent = owner.missing_verdict()
        # The pods of a deleted owner write lines until they end.
        if self._pods.count(_ALIVE) or self._has_unread_lines():
            return None
        if absent is not None or len(self._pods):
            return absent
        if not self._selector:
            return Failed(f"the {owner.noun} selects no pods", Grace.LONG)
        if owner.spec.get("suspend"):
            return Failed(f"the {owner.noun} is suspended", Grace.LONG)
        refused = detect_replica_failure(owner.current or {})
        if refused is not None:
            return Failed(refused.reason, refused.grace)
        return self._job_end() or Pending("it has no pods yet")

    def _find_silence(self) -> Failed | None:
        """Return why no pod writes a further line; None while one may."""
        return self._pods.terminal_verdict(len(self._pods)) or self._job_end()

    def _job_end(self) -> Failed | None:
        owner = self._owner
        if owner is None or owner.resource != JOBS or self._pods.count(_ALIVE):
            return None
        for kind, verb in (("Complete", "completed"), ("Failed", "failed")):
            if owner.holds(kind):
                return Failed(f"the job has {verb}", Grace.SHORT)
        return None

    def _present_logs(self) -> list[_ContainerLog]:
        uids = self._pods.uids()
        return [log for (uid, _), log in self._logs.items() if uid in uids]

    def _has_unread_lines(self) -> bool:
        """Return whether a run that has ended was not read to its end."""
        return any(
            log.misses_previous or (log.has_ended and not log.is_whole)
            for log in self._present_logs()
        )

    def _describe_lines(self) -> str:
        count = sum(log.count for log in self._logs.values())
        if count == 1:
            return "its only line does not match"
        return f"none of {count} lines matches" if count else "nothing was logged"

    def probe_targets(self) -> Sequence[_Request]:
        """Return the requests for lines that were not read yet; none after a match."""
        if self._found is not None:
            return ()
        uids = self._pods.uids()
        requests = []
        for (uid, _), log in self._logs.items():
            if uid not in uids:
                continue
            if log.misses_previous:
                requests.append(self._next_request(uid, log, previous=True))
            if not log.is_whole:
                requests.append(self._next_request(uid, log, previous=False))
        return requests

    def _next_request(self, uid: str, log: _ContainerLog, *, previous: bool) -> _Request:
        position = None if previous else log.position
        max_age = None
        if self._since is not None and position is None:
            max_age = math.ceil(self._since + self._now - (self._started or 0.0))
        return _Request(
            uid,
            log.pod,
            log.container,
            log.run - previous,
            previous or log.has_ended,
            previous,
            position,
            max_age,
        )

    def is_urgent(self) -> bool:
        """Return whether a container has started or ended since the last requests."""
        return self._is_news

    def send_requests(
        self, targets: Sequence[_Request], deadline: Deadline
    ) -> list[tuple[_Request, _Answer]]:
        """Read each log on."""
        self._is_news = False
        session = self.client_session
        return [(request, self._read(session, request, deadline)) for request in targets]

    def _read(self, session: ApiSession, request: _Request, deadline: Deadline) -> _Answer:
        position = request.position
        try:
            text = session.logs(
                self.namespace,
                request.pod,
                container=request.container,
                previous=request.previous,
                since_seconds=request.max_age,
                since_time=None if position is None else position.since,
                timestamps=True,
                deadline=deadline.at_most(LOG_TIMEOUT),
            )
        except DeadlineExceeded:
            if deadline.expired:
                raise
            place = f"{request.pod}/{request.container}"
            return _Answer(problem=f"the log of {place} did not come within {LOG_TIMEOUT:g}s")
        except ApiError as error:
            is_absent = error.status in (400, 404)
            if not is_absent and classify_error(error) is not ErrorAction.RETRY:
                raise
            return _Answer(problem=error.message, is_final=is_absent and request.has_ended)
        return self._parse(request, text)

    def _parse(self, request: _Request, text: str) -> _Answer:
        """Return the new lines of a log with times."""
        answer = _Answer(position=request.position, is_final=request.has_ended)
        seen = Counter(request.position.seen if request.position else ())
        first = request.position.first if request.position and self._since is not None else 0.0
        *lines, partial = text.split("\n")
        for line in (*lines, partial) if partial else lines:
            stamp = LINE_TIME.match(line)
            if stamp is None:
                # The kubelet's own words on why it cannot read on.
                answer.problem = line.strip() or answer.problem
                continue
            if seen[line]:
                seen[line] -= 1
                continue
            if first and parse_time(stamp[1]) < first:
                continue
            content = line[stamp.end() :].removesuffix("\r")
            if answer.found is None and self._pattern.search(content):
                match = LogMatch(request.pod, request.container, content)
                answer.found = _FoundLine(parse_time(stamp[1]), match)
            if line is not partial or request.has_ended:
                answer.count += 1
                answer.lines.append(content)
        answer.position = _find_position(lines, request.position)
        return answer

    def record_answers(  # type: ignore[override]  # lines, not the reason of each pod
        self, answers: list[tuple[_Request, _Answer]]
    ) -> None:
        """Record the lines; the earliest one that matches is the result."""
        self._reads += 1
        found = [answer.found for _, answer in answers if answer.found is not None]
        if found:
            self._found = min(found, key=attrgetter("time"))
        for request, answer in answers:
            log = self._logs.get((request.uid, request.container))
            if log is None:
                continue
            log.is_read = log.is_read or not answer.problem
            log.problem = answer.problem
            if request.previous:
                log.misses_previous = log.misses_previous and not answer.is_final
            elif request.run == log.run:
                log.count += answer.count
                log.lines.extend(answer.lines)
                log.last = self._reads if answer.count else log.last
                log.position = answer.position
                log.is_whole = answer.is_final

    def summarize(self) -> str:
        """Return a summary of the pods and of the lines."""
        if not len(self._pods):
            return ""
        count = sum(log.count for log in self._logs.values())
        return f"{self._pods.summary()}; {count_noun(count, 'line')} read"

    def result(self) -> LogMatch:  # type: ignore[override]  # a line instead of pods
        """Return the line that matched."""
        if self._found is None:
            raise AssertionError("no line has matched")
        return self._found.match

    def scope(self) -> EvidenceScope:
        """Return the pods, what selects them, and the ends of the logs, newest lines first."""
        scope = super().scope()
        read = sorted(
            (log for log in self._logs.values() if log.is_read),
            key=attrgetter("last"),
            reverse=True,
        )
        logs = tuple(ReadLog(log.pod, log.container, tuple(log.lines)) for log in read[:KEPT_LOGS])
        objects = () if self._owner is None else (self._owner.reference(),)
        return replace(scope, objects=objects, logs=logs)


def list_container_statuses(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the statuses of a pod's containers, init and ephemeral ones included."""
    status = pod.get("status") or {}
    for kind in _STATUSES:
        yield from status.get(kind) or ()


def has_log(status: dict[str, Any]) -> bool:
    """Return whether a container has run: the server then has a log of it."""
    return get_current_state(status)[0] != "waiting" or has_previous_log(status)


def has_previous_log(status: dict[str, Any]) -> bool:
    """Return whether a container has run before its current state."""
    return (status.get("lastState") or {}).get("terminated") is not None


def _selector_of(owner: SingleObject) -> str:
    """Return the label selector of a controller or service; empty without one."""
    if owner.resource == SERVICES:
        return format_label_selector({"matchLabels": owner.spec.get("selector") or {}})
    return selector_of(owner.resource, owner.spec) or ""


def _find_position(lines: Sequence[str], before: _Position | None) -> _Position | None:
    """Return where to read on after these lines; the former position if there are none.

    Runtimes write standard output and error concurrently: a line may come after a later one. One
    second more than that of the last line is requested.
    """
    stamped = [(stamp[1], line) for line in lines if (stamp := LINE_TIME.match(line))]
    if not stamped:
        return before
    since = math.floor(parse_time(stamped[-1][0])) - 1.0
    seen = []
    for text, line in reversed(stamped):
        if parse_time(text) < since:
            break
        seen.append(line)
    first = parse_time(stamped[0][0]) if before is None else before.first
    return _Position(since, first, tuple(seen))


@overload
def wait_for_log(
    client: ApiClient,
    namespace: str,
    target: str | KubernetesObject,
    pattern: str | Pattern[str],
    *,
    container: str | None = None,
    since: Duration | None = None,
    **options: Unpack[WaitOptions],
) -> LogMatch: ...
@overload
def wait_for_log(
    client: ApiClient,
    namespace: str,
    *,
    pattern: str | Pattern[str],
    selector: Selector,
    container: str | None = None,
    since: Duration | None = None,
    **options: Unpack[WaitOptions],
) -> LogMatch: ...
@wait(
    limit="pod_start",
    kinds={"target": None},
    has_model=False,
    summary="a line in the log of a pod, or of one of several",
)
def wait_for_log(
    client: ApiClient,
    namespace: str,
    target: str | KubernetesObject | None = None,
    pattern: str | Pattern[str] = "",
    *,
    selector: Selector | None = None,
    container: str | None = None,
    since: Duration | None = None,
    **options: Unpack[WaitOptions],
) -> ConditionOf[LogMatch]:
    """Return the first line of a log that matches a pattern, once there is one.

    The result is a named tuple of `pod`, `container` and `line`. The logs of all pods are read
    when a container has started or ended, and every `poll`; of several lines the earliest counts.
    A container that is restarted is read from the beginning of its new run. A failure shows the
    last lines of each log. Upstream reads the whole log of one container again every two seconds.

    Args:
        target: a pod, as `web`, `pod/web` or an object; or what selects pods: `deployment/web`,
            `statefulset/web`, `daemonset/web`, `rs/web`, `rc/web`, `job/web`, `svc/web`.
        pattern: a text that the line contains, or a compiled regular expression, searched in it.
        selector: a label selector, text or mapping, instead of the target.
        container: the only container whose log is read; by default all of each pod, init
            containers included.
        since: only lines that are not older than this when the wait begins.

    Raises:
        ApiError: the server refuses, the logs included.
        InvalidArgument: not exactly one of target and selector, or an invalid argument.
        WaitFailed: the pod was deleted; or no pod writes a further line, because each has ended or
            cannot start, and all that they wrote was read.

    Source: pod/output/output.go LookForStringInLog.
    """
    check_namespace(namespace)
    if (target is None) == (selector is None):
        raise InvalidArgument("arguments", [], "give exactly one of target and selector")
    text = normalize_label_selector(selector)
    if target is None and text is None:
        raise InvalidArgument("selector", selector, "use labels that select something")
    searched, goal = _parse_pattern(pattern)
    owner, pods = (None, None) if target is None else _parse_log_target(target)
    name = None if container is None else check_text("container", container)
    age = None if since is None else to_seconds(since, what="since", allow_zero=False)
    return MatchingLog(
        namespace,
        searched,
        goal,
        owner=owner,
        selector=text,
        pods=pods,
        container=name,
        since=age,
    )


def _parse_pattern(value: object) -> tuple[Pattern[str], str]:
    """Return the regular expression of a pattern, and the goal to log it."""
    if isinstance(value, str) and value and "\n" not in value:
        return re.compile(re.escape(value)), f"log {_shorten(value)!r}"
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        return value, f"log a line that matches {_shorten(value.pattern)!r}"
    valid = "use a text without line breaks, or a compiled regular expression of text"
    raise InvalidArgument("pattern", value, valid)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_PATTERN else f"{text[: _MAX_PATTERN - 1]}…"


def _parse_log_target(value: object) -> tuple[SingleObject | None, dict[str, str] | None]:
    """Return what selects the pods, or the one pod: its UID, if known, by its name."""
    valid = "use the name of a pod, 'pod/name', or what selects pods: 'deployment/web'"
    if isinstance(value, str) and "/" not in value:
        return None, {check_name("target", value): ""}
    kind, name, _ = parse_target("target", value)
    resource: Resource | None = match_resource(BUILT_IN.values(), kind, None)
    if resource is None or not name or resource not in (PODS, SERVICES, *CONTROLLERS):
        raise InvalidArgument("target", value, valid)
    check_name("target", name)
    uid = value.uid if isinstance(value, TargetText) else ""
    if resource == PODS:
        return None, {name: uid}
    return SingleObject(resource, name, uid), None
