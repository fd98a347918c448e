"""The report of a failed wait: facts and timeline, as JSON and as a message; all bounded."""

from __future__ import annotations

import re
import shlex
from collections import Counter, deque
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.engine.failure.differences import render_differences
from pytest_kwait.engine.failure.evidence import Evidence
from pytest_kwait.engine.failure.log_records import TELLING
from pytest_kwait.engine.failure.shortening import WIDTH, cut_line, wrap_middle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_kwait.apimachinery.matching import Difference
    from pytest_kwait.engine.failure.evidence import (
        EventGroup,
        ExistingObjects,
        LogTail,
        PodReport,
        UnboundClaim,
    )
    from pytest_kwait.engine.pod_fields import ContainerReport

PODS = 8
EVENTS = 8
ERRORS = 4

_LONG_NAMESPACE = 20
"""Characters from which a namespace is left out of texts: generated ones have more."""

_LONG_TEXT = 40
"""Characters from which a text is shown once."""

_SHORT_LINES = 15
"""Lines of a short message; pytest's frame around a test of five lines fills up 25."""

_NUMBER = re.compile(r"\d+")
_MORE_PODS = re.compile(r" \(and \d+ more pods?\)")

_LOG_LEAD = "    | "

_LAST_STEP = 2
"""The step of sharing a short message's lines in which whole sections get the rest."""

_PROBE_REASONS = frozenset({"Unhealthy", "ProbeError", "ProbeWarning"})

_UNSCHEDULABLE = "Unschedulable: "

_NAMED_PODS = re.compile(r"pod \S+(?: \(and (?P<more>\d+) more pods?\))?: ")


@dataclass(frozen=True, slots=True)
class VerdictChange:
    """A verdict that differs from the one before.

    Args:
        at: seconds since the wait began.
        text: the verdict in words.
        is_provisional: whether it is a failed state that may recover within its grace period.
    """

    at: float
    text: str
    is_provisional: bool = False


class Timeline:
    """The first and the last changes of a verdict; those between are only counted.

    Args:
        limit: the number of changes kept at each end.
    """

    def __init__(self, limit: int = 10) -> None:
        self._limit = limit
        self._first: list[VerdictChange] = []
        self._last: deque[VerdictChange] = deque(maxlen=limit)
        self._text: str | None = None
        self.changes = 0
        self.on_change: Callable[[], object] | None = None
        """Called after each recorded change; None for nothing."""

    def record(self, at: float, text: str, *, is_provisional: bool = False) -> bool:
        """Record a verdict; return whether its text differs from the last one."""
        if text == self._text:
            return False
        self._text = text
        self.changes += 1
        change = VerdictChange(at, text, is_provisional)
        if len(self._first) < self._limit:
            self._first.append(change)
        else:
            self._last.append(change)
        if self.on_change is not None:
            self.on_change()
        return True

    @property
    def last(self) -> str:
        """The last verdict in words; empty before the first one."""
        return self._text or ""

    @property
    def left_out(self) -> int:
        """The number of changes between the first and the last that are not kept."""
        return self.changes - len(self._first) - len(self._last)

    @property
    def first(self) -> tuple[VerdictChange, ...]:
        """The first changes."""
        return tuple(self._first)

    @property
    def latest(self) -> tuple[VerdictChange, ...]:
        """The last changes that are not among the first."""
        return tuple(self._last)

    def changed(self, change: Callable[[str], str]) -> Timeline:
        """Return a copy with every text changed."""
        other = Timeline(self._limit)
        other._first = [replace(entry, text=change(entry.text)) for entry in self._first]
        other._last.extend(replace(entry, text=change(entry.text)) for entry in self._last)
        other._text = None if self._text is None else change(self._text)
        other.changes = self.changes
        return other


def render_message(report: WaitReport) -> str:
    """Return the message, bounded in lines and, except for the command, 92 columns wide.

    Its parts, each left out when empty: headline; the awaited state, the elapsed time, the last
    summary of the objects and the option to go on; existing objects; differences from an assertion
    tree, side by side; changes of the verdict; pods;
    unbound claims; Warning events; logs; refusals and other records in logs of operators; the last
    API error; the parts that could not be gathered; the kubectl command for a closer look.

    A long namespace is named once, in the command if there is one. A long text, as of the
    scheduler, is shown once; a warning that only repeats one is left out.
    """
    report = _without_namespace(report)
    headline = wrap_middle("", report.headline, rest="    ", lines=6)
    shown = _ShownTexts(headline)
    parts = (
        headline,
        _render_terms(report),
        render_differences(report.differences),
        _render_timeline(report),
        _render_pods(report.findings, shown),
        _render_claims(report.findings),
        _render_events(report.findings, shown),
        _render_logs(report.findings),
        _render_refusals(report.findings),
        _render_records(report.findings),
        _render_errors(report),
        _render_command(report.findings),
    )
    return "\n".join(line for part in parts for line in part)


class _ShownTexts:
    """The texts that a message has shown.

    A text in the middle that was cut out of a longer one is not shown.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._texts: set[str] = set()
        self._shown = ""
        self.add(lines)

    def add(self, lines: Sequence[str]) -> Sequence[str]:
        """Record lines of one text as they are shown, and return them."""
        self._shown += f"{_join_words(lines)}\n"
        return lines

    def is_new(self, text: str) -> bool:
        """Return whether a text is short or not shown yet, and record it."""
        if len(" ".join(text.split())) < _LONG_TEXT:
            return True
        words = _join_words([text])
        if words in self._texts or words in self._shown:
            return False
        self._texts.add(words)
        return True


def _join_words(lines: Sequence[str]) -> str:
    """Return text without white space, as lines are wrapped within long words too."""
    return "".join(word for line in lines for word in line.split())


def _without_namespace(report: WaitReport) -> WaitReport:
    """Return a report whose texts leave out the namespace if it is long."""
    findings = report.findings
    if findings.namespace is None or len(findings.namespace) < _LONG_NAMESPACE:
        return report
    short: WaitReport = _change_texts(report, lambda text: _strip_namespace(text, findings))
    existing = tuple(
        replace(existing, namespace=None) if existing.namespace == findings.namespace else existing
        for existing in short.findings.existing
    )
    # Logs are shown as they were written.
    return replace(
        short,
        findings=replace(
            short.findings,
            logs=findings.logs,
            refusals=findings.refusals,
            records=findings.records,
            existing=existing,
        ),
    )


def _strip_namespace(text: str, findings: Evidence) -> str:
    namespace = re.escape(findings.namespace or "")
    return re.sub(rf"(?<![-\w./]){namespace}/| in {namespace}(?![-\w./])", "", text)


def _render_terms(report: WaitReport) -> Iterator[str]:
    yield from wrap_middle("  awaited   ", f"{report.subject} to {report.goal}")
    elapsed = format_duration(round(report.elapsed, 1))
    limit = format_duration(report.limit)
    yield f"  limit     {limit}, ended after {elapsed} ({report.mode} mode)"
    namespace = report.findings.namespace or ""
    if report.findings.outlook and len(namespace) >= _LONG_NAMESPACE:
        # No command names it.
        yield f"  namespace {namespace}"
    if report.seen:
        yield from wrap_middle("  seen      ", report.seen)
    if report.option:
        yield from wrap_middle("  option    ", report.option)
    yield from _render_all_existing(report.findings)


def _render_all_existing(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    for existing in findings.existing:
        yield from wrap_middle("  there are ", _render_existing(existing), width=width)


def _render_existing(existing: ExistingObjects) -> str:
    where = f" in {existing.namespace}" if existing.namespace else ""
    if not existing.names:
        return f"no {existing.resource}{where}"
    if existing.labels:
        return f"{existing.count} {existing.resource}{where}, with {'; '.join(existing.names)}"
    rest = existing.count - len(existing.names)
    more = f" and {rest} more" if rest else ""
    return f"{existing.resource}{where}: {', '.join(existing.names)}{more}"


def _render_timeline(report: WaitReport) -> Iterator[str]:
    timeline = report.timeline
    if timeline.changes < 2:
        return
    yield "  timeline"
    yield from render_changes(timeline.first)
    if timeline.left_out:
        yield f"             ... {timeline.left_out} more changes ..."
    yield from render_changes(timeline.latest)


def _comparable_text(change: VerdictChange) -> str:
    """Return the text by which alternations are recognized.

    A failed state counts what goes on in it, as the restarts of a crash loop or its pods.
    """
    if not change.is_provisional:
        return change.text
    return _NUMBER.sub("#", _MORE_PODS.sub("", change.text))


def render_changes(changes: Sequence[VerdictChange], width: int = WIDTH) -> Iterator[str]:
    """Yield a line per change; alternations, and a failed state that counts on, share them."""
    texts = [_comparable_text(change) for change in changes]
    place = 0
    while place < len(changes):
        returns = 0
        # A failed state that only counts on does not alternate.
        if place > 1 and texts[place] != texts[place - 1]:
            while place + returns < len(changes):
                if texts[place + returns] != texts[place + returns - 2]:
                    break
                returns += 1
        text = changes[place].text
        if returns > 1:
            place += returns - 1
            text = f"the last of {returns} changes to and fro between these two"
        yield cut_line(f"  {changes[place].at:8.1f}s  {text}", width)
        end = place
        while returns < 2 and end + 1 < len(changes) and texts[end + 1] == texts[place]:
            end += 1
        if end > place + 2:
            yield f"             ... {end - place - 1} more changes of its numbers ..."
            place = end - 1
        place += 1


def _render_pods(findings: Evidence, shown: _ShownTexts, width: int = WIDTH) -> Iterator[str]:
    if not findings.pods:
        return
    yield "  pods"
    for pod in findings.pods[:PODS]:
        text = _render_pod(pod, shown)
        yield from shown.add(wrap_middle("    ", text, rest="      ", width=width))
        for container in pod.containers:
            text = _render_container(container, shown)
            lines = wrap_middle("      ", text, rest="        ", lines=3, width=width)
            yield from shown.add(lines)
    rest = Counter(pod.phase for pod in findings.pods[PODS:])
    if rest:
        phases = ", ".join(f"{n} {phase}" for phase, n in rest.most_common())
        yield f"    and {rest.total()} more: {phases}"


def _render_pod(pod: PodReport, shown: _ShownTexts) -> str:
    where = f" on {pod.node}" if pod.node else ", on no node"
    ready = ", ready" if pod.ready else ""
    deleting = ", being deleted" if pod.deleting else ""
    reason, _, text = pod.note.partition(": ")
    note = pod.note if shown.is_new(text) else reason
    note = f": {note}" if note else ""
    return f"{pod.name}  {pod.phase}{where}{ready}{deleting}{note}"


def _render_container(container: ContainerReport, shown: _ShownTexts) -> str:
    init = "init container " if container.init else ""
    message = container.message if shown.is_new(container.message) else ""
    detail = ": ".join(filter(None, (container.reason, message)))
    exit_code = "" if container.exit_code is None else f", exit code {container.exit_code}"
    if container.state != "terminated" and exit_code:
        exit_code = f", last exit code {container.exit_code}"
    restarts = f", {container.restarts} restarts" if container.restarts else ""
    if container.restarts == 1:
        restarts = ", 1 restart"
    facts = f"{container.state}{exit_code}{restarts}"
    return f"{init}{container.name}: {facts}{': ' if detail else ''}{detail}"


def _render_claims(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    if findings.claims:
        yield "  unbound claims"
    for claim in findings.claims:
        text = _render_claim(claim)
        yield from wrap_middle("    ", text, rest="      ", lines=3, width=width)


def _render_claim(claim: UnboundClaim) -> str:
    wanted = f", class {claim.storage_class}" if claim.storage_class else ""
    there = f" (there is: {', '.join(claim.classes)})" if claim.classes else ""
    why = f": {claim.event}" if claim.event else ""
    return f"{claim.name}{wanted}{why}{there}"


def _render_events(findings: Evidence, shown: _ShownTexts, width: int = WIDTH) -> Iterator[str]:
    lines: list[str] = []
    count = 0
    for event in findings.events:
        if not shown.is_new(event.message):
            # Without its message, which the headline, a pod or a warning has, it says nothing.
            continue
        count += 1
        if count > EVENTS:
            continue
        text = _render_event(event)
        lines += shown.add(wrap_middle("    ", text, rest="      ", lines=3, width=width))
    if lines:
        yield "  warnings"
        yield from lines
    if count > EVENTS:
        yield f"    and {count - EVENTS} more kinds of warnings"


def _render_event(event: EventGroup) -> str:
    times = f"{event.count}x " if event.count > 1 else ""
    others = f" and {event.others} more" if event.others else ""
    message = f": {event.message}" if event.message else ""
    return f"{times}{event.reason} ({event.subject}{others}){message}"


def _render_logs(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    for tail in findings.logs:
        empty = ": empty" if not tail.lines else ""
        yield from wrap_middle("  ", f"{_name_log(tail)}{empty}", rest="    ", width=width)
        for line in tail.lines:
            # The end of a long line is often its point: the module that is missing, the status.
            if len(line) > width - len("    | "):
                yield from wrap_middle("    | ", line, rest="    |   ", lines=2, width=width)
            else:
                yield cut_line(f"    | {line}", width)


def _render_refusals(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    is_elsewhere = any(tail.namespace for tail in findings.refusals)
    pods = "pods of operators" if is_elsewhere else "the namespace's pods"
    if findings.refusals:
        yield f"  refused by the API server, as logs of {pods} say"
    for line in _name_lines(findings.refusals):
        yield from wrap_middle("    ", line, rest="      ", width=width)


def _render_records(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    if findings.records:
        yield "  operator, by its log"
    for line in _name_lines(findings.records):
        yield from wrap_middle("    ", line, rest="      ", lines=6, width=width)


def _name_lines(tails: Sequence[LogTail]) -> list[str]:
    """Return the lines of logs, each after its container."""
    return [
        f"{tail.namespace}{'/' if tail.namespace else ''}{tail.pod}/{tail.container}: {line}"
        for tail in tails
        for line in tail.lines
    ]


def _render_errors(report: WaitReport) -> Iterator[str]:
    if report.last_error:
        yield from wrap_middle("  API error ", _render_last_error(report), rest="    ")
    for error in report.findings.errors[:ERRORS]:
        yield from wrap_middle("  not gathered: ", error, rest="    ")


def _render_last_error(report: WaitReport) -> str:
    count = f" (the last of {report.errors})" if report.errors > 1 else ""
    return f"{report.last_error}{count}"


def _render_command(findings: Evidence, width: int = WIDTH) -> Iterator[str]:
    if findings.outlook:
        yield from wrap_middle("  look: ", findings.outlook, width=width)
        return
    words = list_kubectl_arguments(findings)
    yield f"  try: {shlex.join(['kubectl', *findings.kubectl, *words])}"


def list_kubectl_arguments(findings: Evidence) -> list[str]:
    """Return the arguments of kubectl for a closer look, without those that select the cluster."""
    if findings.pods and findings.pods[0].failing:
        words = ["describe", f"pod/{findings.pods[0].name}"]
    elif findings.objects and findings.objects[0].exists:
        reference = findings.objects[0]
        words = ["describe", f"{reference.resource}/{reference.name}"]
    elif findings.objects and not findings.objects[0].uid:
        words = ["get", findings.objects[0].resource]
    elif findings.pods and not findings.objects:
        words = ["describe", f"pod/{findings.pods[0].name}"]
    else:
        words = ["get", "events"]
    return [*(["--namespace", findings.namespace] if findings.namespace else []), *words]


def render_findings(findings: Evidence, width: int) -> list[str]:
    """Return objects, pods, claims, warnings and logs, as the message of a wait has them."""
    shown = _ShownTexts(())
    parts = (
        _render_all_existing(findings, width),
        _render_pods(findings, shown, width),
        _render_claims(findings, width),
        _render_events(findings, shown, width),
        _render_logs(findings, width),
        _render_refusals(findings, width),
        _render_records(findings, width),
    )
    return [line for part in parts for line in part]


@dataclass(frozen=True, slots=True)
class ShortMessage:
    """A message of a failed wait that fits a glance.

    Args:
        omitted: the parts of the whole message that it leaves out or shortens.
    """

    lines: tuple[str, ...]
    omitted: tuple[str, ...]


class _Text(NamedTuple):
    """A text of a short message, of which the middle is cut where it does not fit.

    Args:
        lead: the text before its first line.
        text: the text.
        rest: the text before its further lines.
        lines: the maximum number of its lines.
        is_row: whether it is a line of a table, which fits already.
    """

    lead: str
    text: str
    rest: str = "      "
    lines: int = 2
    is_row: bool = False

    def wrap(self, width: int, lines: int | None = None) -> list[str]:
        """Return its lines, at most as many as are given."""
        if self.is_row:
            return [self.text]
        most = self.lines if lines is None else min(self.lines, lines)
        if self.lead == _LOG_LEAD and len(self.lead) + len(self.text) <= width:
            # It keeps its indentation.
            return [cut_line(f"{self.lead}{self.text}", width)]
        return wrap_middle(self.lead, self.text, self.rest, most, width)[:most]


@dataclass(frozen=True, slots=True)
class _Section:
    """One part of a short message.

    Args:
        name: its name in the plural, as it is listed when it is not whole.
        rank: its place in the message.
        title: its first line; empty without one.
        texts: its texts; those in front matter most.
        is_whole: whether they have everything that the whole message has.
        places: the order in which the texts are shown; empty for their own.
        required: the number of texts that come before all others of the message.
    """

    name: str
    rank: int
    title: str = ""
    texts: Sequence[_Text] = ()
    is_whole: bool = True
    places: Sequence[int] = ()
    required: int = 1

    def fit(self, room: int, width: int, most: int | None = None) -> tuple[list[str], bool]:
        """Return the lines that fit, none for the title alone, and whether all do.

        Args:
            room: the number of lines.
            most: the number of texts; None for all.
        """
        left = room - bool(self.title)
        shown: dict[int, list[str]] = {}
        texts = self.texts[:most]
        for place, text in enumerate(texts):
            if left < 1:
                break
            shown[place] = text.wrap(width, left)
            left -= len(shown[place])
        lines = [
            line for place in self.places or range(len(texts)) for line in shown.get(place, ())
        ]
        is_complete = all(
            len(shown.get(place, ())) == len(text.wrap(width)) for place, text in enumerate(texts)
        )
        return ([self.title] if self.title and lines else []) + lines, is_complete


def shorten_message(report: WaitReport, width: int, lead: str = "") -> ShortMessage:
    """Return the message in at most 15 lines, without the line that says where the rest is.

    It always has the headline, of which only the middle of a long text is cut, the limit, the last
    summary of the objects, the option to go on and the command. The lines that are left go to the
    parts that explain most failures, in this order: differences, refusals, the last error of an
    operator, unbound claims, the first failing pod, the last API error, the last lines of one log,
    warnings, existing objects, the timeline. A line of each first text comes first, then the whole
    of it, then the rest.

    Args:
        report: the facts.
        width: the maximum width of lines, except for the command.
        lead: the text in front of the headline.
    """
    report = _without_namespace(report)
    findings = report.findings
    headline = wrap_middle(lead, report.headline, rest="    ", lines=5, width=width)
    is_cut = len(wrap_middle(lead, report.headline, rest="    ", lines=6, width=width)) > len(
        headline
    )
    shown = _ShownTexts(headline)
    elapsed = format_duration(round(report.elapsed, 1))
    limit = format_duration(report.limit)
    terms = [f"  limit     {limit}, ended after {elapsed} ({report.mode} mode)"]
    if report.seen:
        terms += wrap_middle("  seen      ", report.seen, lines=2, width=width)
    if report.option:
        terms += wrap_middle("  option    ", report.option, lines=2, width=width)
    command = list(_render_command(findings, width))
    sections = [
        section
        for section in (
            _shorten_differences(report, width),
            _shorten_refusals(findings),
            _shorten_records(findings),
            _shorten_claims(findings),
            _shorten_pods(findings, shown, width),
            _shorten_error(report),
            _shorten_logs(findings),
            _shorten_events(findings, shown),
            _shorten_existing(findings),
            _shorten_timeline(report),
        )
        if section.texts or not section.is_whole
    ]
    room = _SHORT_LINES - len(headline) - len(terms) - len(command)
    rooms = _share_lines(sections, room, width)
    omitted = ["message"] if is_cut else []
    fitting = []
    for section, lines in zip(sections, rooms, strict=True):
        fitted, is_complete = section.fit(lines, width)
        if not is_complete or not section.is_whole:
            omitted.append(section.name)
        fitting.append((section.rank, fitted))
    parts = [lines for _, lines in sorted(fitting, key=lambda ranked: ranked[0])]
    order = (
        "message", "differences", "timeline", "objects", "pods", "claims", "warnings", "logs",
        "refusals", "records",
    )  # fmt: skip
    return ShortMessage(
        tuple(line for lines in (headline, terms, *parts, command) for line in lines),
        tuple(name for name in order if name in omitted),
    )


def _share_lines(sections: Sequence[_Section], room: int, width: int) -> list[int]:
    """Return the number of lines of each section."""
    rooms = [0] * len(sections)
    places = list(range(len(sections)))
    for step in range(3):
        # A pod's message is the kubelet's; that of its program is in the log.
        order = sorted(places, key=lambda at: sections[at].name == "pods") if step == 1 else places
        for place in order:
            section = sections[place]
            if not section.required and step < _LAST_STEP:
                continue
            if step == 0:
                wanted = bool(section.title) + min(section.required, len(section.texts))
            else:
                most = None if step == _LAST_STEP else section.required
                wanted = len(section.fit(_SHORT_LINES, width, most)[0])
            more = min(max(wanted - rooms[place], 0), room)
            # A title alone says nothing.
            if rooms[place] or more > bool(section.title):
                rooms[place] += more
                room -= more
    return rooms


def _shorten_differences(report: WaitReport, width: int) -> _Section:
    title, *rows = render_differences(report.differences, width) or [""]
    texts = [_Text("", row, is_row=True) for row in rows]
    return _Section("differences", 0, title, texts, required=4)


def _shorten_refusals(findings: Evidence) -> _Section:
    texts = _name_lines(findings.refusals)
    first = [_Text("    ", text, lines=3) for text in texts[:1]]
    return _Section("refusals", 7, "  refused", first, len(texts) < 2)


def _shorten_records(findings: Evidence) -> _Section:
    """Return the last record of the likeliest operator; one of no error only if there is room."""
    texts = _name_lines([replace(tail, lines=tail.lines[-1:]) for tail in findings.records[:1]])
    first = [_Text("    ", text, lines=4) for text in texts]
    required = sum(bool(TELLING.search(text)) for text in texts)
    is_whole = sum(len(tail.lines) for tail in findings.records) < 2
    return _Section("records", 8, "  operator", first, is_whole, required=required)


def _shorten_claims(findings: Evidence) -> _Section:
    first = [_Text("    ", _render_claim(claim), lines=3) for claim in findings.claims[:1]]
    return _Section("claims", 4, "  unbound claims", first, len(findings.claims) < 2)


def _shorten_pods(findings: Evidence, shown: _ShownTexts, width: int) -> _Section:
    """Return the first pod if it fails, with its failing containers and the number of its like."""
    if not findings.pods or not findings.pods[0].failing:
        return _Section("pods", 3, is_whole=not findings.pods)
    pod, *others = findings.pods
    alike = sum(_pod_facts(other) == _pod_facts(pod) for other in others)
    like_it = f" (and {alike} more like it)" if alike else ""
    failing = [container for container in pod.containers if container.failing] or pod.containers[:1]
    texts = [_Text("    ", f"{_render_pod(pod, shown)}{like_it}")]
    shown.add(texts[0].wrap(width))
    for container in failing[:2]:
        if container.reason == "CrashLoopBackOff":
            # Its message names the pod again, and the pause.
            container = replace(container, message="")
        texts.append(_Text("      ", _render_container(container, shown), "        "))
        shown.add(texts[-1].wrap(width))
    is_whole = not others and len(pod.containers) == len(failing[:2])
    # The headline has the exit code of a container whose log says why.
    required = 1 if any(log.pod == pod.name and log.lines for log in findings.logs) else 2
    return _Section("pods", 3, "  pods", texts, is_whole, required=required)


def _pod_facts(pod: PodReport) -> object:
    return pod.phase, pod.note, pod.deleting, pod.ready, pod.containers


def _shorten_error(report: WaitReport) -> _Section:
    text = _render_last_error(report) if report.last_error else ""
    texts = [_Text("  API error ", text, "    ")] if text else []
    return _Section("message", 9, texts=texts, is_whole=not report.findings.errors)


def _shorten_logs(findings: Evidence) -> _Section:
    """Return the first log with lines: its last ones, and an error that is further up."""
    tail = next((log for log in findings.logs if any(map(str.strip, log.lines))), None)
    if tail is None:
        return _Section("logs", 6, is_whole=not findings.logs)
    written = [line for line in tail.lines if line.strip()]
    kept = written[-3:]
    further_up = [line for line in written[:-3] if TELLING.search(line)]
    if further_up and not any(map(TELLING.search, kept)):
        kept = [further_up[-1], *kept[-2:]]
    # The last one, or the last that names an error, matters most.
    order = sorted(range(len(kept)), key=lambda place: (not TELLING.search(kept[place]), -place))
    texts = [_Text(_LOG_LEAD, kept[order[0]], "    |   ", lines=3)]
    texts += [
        _Text(_LOG_LEAD, kept[place], "    |   ") for place in sorted(order[1:], reverse=True)
    ]
    shown = [order[0], *sorted(order[1:], reverse=True)]
    places = sorted(range(len(shown)), key=shown.__getitem__)
    is_whole = len(findings.logs) == 1 and len(kept) == len(tail.lines)
    return _Section("logs", 6, f"  {_name_log(tail)}", texts, is_whole, places)


def _shorten_events(findings: Evidence, shown: _ShownTexts) -> _Section:
    events = [event for event in findings.events if shown.is_new(event.message)]
    # The cause of a pod that is not ready.
    events.sort(key=lambda event: event.reason not in _PROBE_REASONS)
    texts = [_Text("    ", _render_event(event), lines=3) for event in events[:2]]
    required = sum(event.reason in _PROBE_REASONS for event in events[:1])
    return _Section("warnings", 5, "  warnings", texts, len(events) < 3, required=required)


def _shorten_existing(findings: Evidence) -> _Section:
    texts = [_Text("  there are ", _render_existing(item), " " * 12) for item in findings.existing]
    return _Section("objects", 1, texts=texts[:2], is_whole=len(texts) < 3, required=0)


def _shorten_timeline(report: WaitReport) -> _Section:
    timeline = report.timeline
    if timeline.changes < 2:
        return _Section("timeline", 2)
    text = f"{timeline.changes} changes, at first: {timeline.first[0].text}"
    texts = [_Text("  timeline  ", text, lines=1)]
    return _Section("timeline", 2, texts=texts, is_whole=False, required=0)


def _name_log(tail: LogTail) -> str:
    run = ", the run before this one" if tail.previous else ""
    return f"log of {tail.pod}/{tail.container}{run}"


def name_claim_event(reason: str, claims: Sequence[UnboundClaim]) -> str:
    """Return a reason with the event of an unbound claim, which the scheduler's text leaves out.

    Args:
        reason: the reason of a failed wait.
        claims: the unbound claims that keep its pods from being scheduled.
    """
    # A claim that waits for its pod is not what the pod waits for.
    held = [claim for claim in claims if claim.event and not claim.event.startswith("WaitFor")]
    if not held or any(f'"{claim.name}"' in reason or claim.event in reason for claim in held):
        return reason
    text = f"claim {held[0].name} is not bound: {held[0].event}"
    lead, separator, rest = reason.partition(_UNSCHEDULABLE)
    if separator and "persistentvolumeclaim" in rest.lower():
        return f"{lead}{separator}{text}"
    return f"{reason} ({text})"


def name_restart(reason: str, pods: Sequence[PodReport]) -> str:
    """Return a reason with the exit code of the first restarted container that is not ready.

    Args:
        reason: the last verdict of a wait that timed out.
        pods: its pods, failed ones first.
    """
    crashed = (
        (pod, container)
        for pod in pods
        for container in pod.containers
        if container.restarts and container.exit_code is not None and not container.ready
    )
    pod, container = next(crashed, (None, None))
    if pod is None or container is None or f"exit code {container.exit_code}" in reason:
        return reason
    kind = "init container" if container.init else "container"
    times = "once" if container.restarts == 1 else f"{container.restarts} times"
    where = "" if len(pods) == 1 else f" of pod {pod.name}"
    text = f"{kind} {container.name}{where} was restarted {times}, exit code {container.exit_code}"
    return f"{reason} ({text})"


@dataclass(frozen=True, slots=True)
class WaitReport:
    """The facts of a failed or timed-out wait.

    Args:
        subject: the object of the wait: `job ci-1/sleepers`.
        goal: the awaited state, as a verb: `have 3 pods Running`.
        failed: whether the condition can no longer be met; False for a timeout.
        reason: the last verdict in words.
        limit: the limit of the wait, in seconds.
        elapsed: the duration of the wait, in seconds.
        mode: `watch` or `poll`.
        seen: the last summary of the objects, in one line; may be empty.
        timeline: the changes of the verdict.
        findings: the evidence of the cluster.
        last_error: the last API error; empty without one.
        errors: the number of API errors.
        option: the option that makes the wait go on, as a sentence; empty without one.
        differences: the fields that are not as an assertion tree awaits.
    """

    subject: str
    goal: str
    failed: bool
    reason: str
    limit: float
    elapsed: float
    mode: str
    seen: str = ""
    timeline: Timeline = field(default_factory=Timeline)
    findings: Evidence = field(default_factory=Evidence)
    last_error: str = ""
    errors: int = 0
    option: str = ""
    differences: tuple[Difference, ...] = ()

    @property
    def headline(self) -> str:
        """The goal of the wait and the cause of its failure, in one line."""
        reason = " ".join(self.reason.split()) or "nothing was seen"
        if self.failed:
            return f"{self.subject} can no longer {self.goal}: {reason}"
        limit = format_duration(self.limit)
        return f"{self.subject} did not {self.goal} within {limit}: {reason}"

    @property
    def summary(self) -> str:
        """The object and the cause, as short as a line of pytest's summary needs it."""
        namespace = re.escape(self.findings.namespace or "")
        subject = re.sub(rf"^(\S+) {namespace}/(\S+)$", r"\1/\2", self.subject)
        subject, reason = (
            _strip_namespace(text, self.findings) if namespace else text
            for text in (subject, " ".join(self.reason.split()) or "nothing was seen")
        )
        named = _NAMED_PODS.match(reason)
        if named:
            number = 1 + int(named["more"] or 0)
            pods = "1 pod" if number == 1 else f"{number} pods"
            reason = f"{pods}: {reason[named.end() :]}"
        end = "" if self.failed else f" (limit {format_duration(self.limit)})"
        return f"{subject}: {reason}{end}"

    @property
    def evidence(self) -> Mapping[str, Any]:
        """The report as JSON values."""
        return {
            "subject": self.subject,
            "goal": self.goal,
            "outcome": "failed" if self.failed else "timeout",
            "reason": self.reason,
            "limit_seconds": self.limit,
            "elapsed_seconds": round(self.elapsed, 3),
            "mode": self.mode,
            "seen": self.seen,
            "differences": [asdict(each) for each in self.differences],
            "timeline": [
                {"at": change.at, "text": change.text}
                for change in (*self.timeline.first, *self.timeline.latest)
            ],
            "timeline_left_out": self.timeline.left_out,
            **self.findings.as_json(),
            "last_api_error": self.last_error or None,
            "api_errors": self.errors,
        }

    def render(self) -> str:
        """Return the whole message."""
        return render_message(self)

    def shorten(self, width: int, lead: str = "") -> ShortMessage:
        """Return the message in at most 15 lines; see `shorten_message`."""
        return shorten_message(self, width, lead)

    def redacted(self, change: Callable[[str], str]) -> WaitReport:
        """Return a copy with `redact` applied to every text."""
        return _change_texts(self, change)  # type: ignore[no-any-return]  # of the type it was given


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_change_texts(part, change) for part in value)
    if isinstance(value, Timeline):
        return value.changed(change)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            part.name: _change_texts(getattr(value, part.name), change) for part in fields(value)
        }
        return replace(value, **parts)
    return value
