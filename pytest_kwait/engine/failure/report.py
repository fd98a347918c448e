"""The report of a failed wait: its facts, as JSON and as a bounded message."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.durations import format_duration
from pytest_kwait.engine.failure.evidence import Evidence
from pytest_kwait.engine.failure.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_kwait.engine.container_states import ContainerReport
    from pytest_kwait.engine.failure.evidence import ExistingObjects, PodReport
    from pytest_kwait.engine.failure.timeline import VerdictChange

__all__ = ["WaitReport", "render_message"]

WIDTH = 92
"""Of 100 columns, pytest's `E` prefix and the code's indentation take eight."""

PODS = 8
EVENTS = 8
ERRORS = 4


def render_message(report: WaitReport) -> str:
    """Return the message, bounded in lines and, except for the command, 92 columns wide.

    Its parts, each left out when empty: headline; the awaited state, the elapsed time and the last
    summary of the objects; existing objects; changes of the verdict; pods; Warning events; logs;
    the last API error; the parts that could not be gathered; the kubectl command for a closer look.
    """
    parts = (
        _wrap("", report.headline, rest="    ", lines=6),
        _render_terms(report),
        _render_timeline(report),
        _render_pods(report.findings),
        _render_events(report.findings),
        _render_logs(report.findings),
        _render_errors(report),
        _render_command(report.findings),
    )
    return "\n".join(line for part in parts for line in part)


def _render_terms(report: WaitReport) -> Iterator[str]:
    yield from _wrap("  awaited   ", f"{report.subject} to {report.goal}")
    elapsed = format_duration(round(report.elapsed, 1))
    limit = format_duration(report.limit)
    yield f"  limit     {limit}, ended after {elapsed} ({report.mode} mode)"
    if report.seen:
        yield from _wrap("  seen      ", report.seen)
    for found in report.findings.existing:
        yield from _wrap("  there are ", _render_existing(found))


def _render_existing(found: ExistingObjects) -> str:
    where = f" in {found.namespace}" if found.namespace else ""
    if not found.names:
        return f"no {found.resource}{where}"
    rest = found.count - len(found.names)
    more = f" and {rest} more" if rest else ""
    return f"{found.resource}{where}: {', '.join(found.names)}{more}"


def _render_timeline(report: WaitReport) -> Iterator[str]:
    timeline = report.timeline
    if timeline.changes < 2:
        return
    yield "  timeline"
    yield from _render_changes(timeline.first)
    if timeline.left_out:
        yield f"             ... {timeline.left_out} more changes ..."
    yield from _render_changes(timeline.latest)


def _render_changes(changes: Sequence[VerdictChange]) -> Iterator[str]:
    """Return one line per change; alternations of the same two verdicts share one."""
    place = 0
    while place < len(changes):
        returns = 0
        while place > 1 and place + returns < len(changes):
            if changes[place + returns].text != changes[place + returns - 2].text:
                break
            returns += 1
        text = changes[place].text
        if returns > 1:
            place += returns - 1
            text = f"the last of {returns} changes to and fro between these two"
        yield _join_lines(f"  {changes[place].at:8.1f}s  {text}")
        place += 1


def _render_pods(findings: Evidence) -> Iterator[str]:
    if not findings.pods:
        return
    yield "  pods"
    for pod in findings.pods[:PODS]:
        yield from _wrap("    ", _render_pod(pod), rest="      ")
        for container in pod.containers:
            yield from _wrap("      ", _render_container(container), rest="        ", lines=3)
    rest = Counter(pod.phase for pod in findings.pods[PODS:])
    if rest:
        phases = ", ".join(f"{n} {phase}" for phase, n in rest.most_common())
        yield f"    and {rest.total()} more: {phases}"


def _render_pod(pod: PodReport) -> str:
    where = f" on {pod.node}" if pod.node else ", on no node"
    ready = ", ready" if pod.ready else ""
    deleting = ", being deleted" if pod.deleting else ""
    note = f": {pod.note}" if pod.note else ""
    return f"{pod.name}  {pod.phase}{where}{ready}{deleting}{note}"


def _render_container(container: ContainerReport) -> str:
    init = "init container " if container.init else ""
    detail = ": ".join(filter(None, (container.reason, container.message)))
    exit_code = "" if container.exit_code is None else f", exit code {container.exit_code}"
    if container.state != "terminated" and exit_code:
        exit_code = f", last exit code {container.exit_code}"
    restarts = f", {container.restarts} restarts" if container.restarts else ""
    if container.restarts == 1:
        restarts = ", 1 restart"
    facts = f"{container.state}{exit_code}{restarts}"
    return f"{init}{container.name}: {facts}{': ' if detail else ''}{detail}"


def _render_events(findings: Evidence) -> Iterator[str]:
    if not findings.events:
        return
    yield "  warnings"
    for event in findings.events[:EVENTS]:
        times = f"{event.count}x " if event.count > 1 else ""
        others = f" and {event.others} more" if event.others else ""
        text = f"{times}{event.reason} ({event.subject}{others}): {event.message}"
        yield from _wrap("    ", text, rest="      ", lines=3)
    if len(findings.events) > EVENTS:
        yield f"    and {len(findings.events) - EVENTS} more kinds of warnings"


def _render_logs(findings: Evidence) -> Iterator[str]:
    for tail in findings.logs:
        run = ", the run before this one" if tail.previous else ""
        yield from _wrap("  ", f"log of {tail.pod}/{tail.container}{run}", rest="    ")
        for line in tail.lines:
            yield _join_lines(f"    | {line}")


def _render_errors(report: WaitReport) -> Iterator[str]:
    if report.last_error:
        count = f" (the last of {report.errors})" if report.errors > 1 else ""
        yield from _wrap("  API error ", f"{report.last_error}{count}", rest="    ")
    for error in report.findings.errors[:ERRORS]:
        yield from _wrap("  not gathered: ", error, rest="    ")


def _render_command(findings: Evidence) -> Iterator[str]:
    if findings.pods and findings.pods[0].failing:
        what = ["describe", f"pod/{findings.pods[0].name}"]
    elif findings.objects and findings.objects[0].exists:
        reference = findings.objects[0]
        what = ["describe", f"{reference.resource}/{reference.name}"]
    elif findings.objects and not findings.objects[0].uid:
        what = ["get", findings.objects[0].resource]
    elif findings.pods and not findings.objects:
        what = ["describe", f"pod/{findings.pods[0].name}"]
    else:
        what = ["get", "events"]
    where = ["--namespace", findings.namespace] if findings.namespace else []
    yield f"  try: {shlex.join(['kubectl', *findings.kubectl, *where, *what])}"


def _wrap(lead: str, text: str, rest: str | None = None, lines: int = 4) -> list[str]:
    """Wrap a text to a bounded width and number of lines by cutting its middle.

    The middle is cut because a long message ends with the error and begins with the operation.
    """
    further = " " * len(lead) if rest is None else rest
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=lead, subsequent_indent=further, break_on_hyphens=False
    )
    text = " ".join(text.split())
    wrapped = wrapper.wrap(text)
    room = lines * (WIDTH - max(len(lead), len(further)))
    while len(wrapped) > lines:
        # Long words leave lines half empty, so the length that fits is found by trying.
        room -= 10
        half = max(room // 2, 10)
        head, tail = text[:half].rpartition(" ")[0], text[-half:].partition(" ")[2]
        wrapped = wrapper.wrap(f"{head or text[:half]} ... {tail or text[-half:]}")
        if half == 10:
            break
    return wrapped


def _join_lines(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


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

    @property
    def headline(self) -> str:
        """The goal of the wait and the cause of its failure, in one line."""
        reason = " ".join(self.reason.split()) or "nothing was seen"
        if self.failed:
            return f"{self.subject} can no longer {self.goal}: {reason}"
        limit = format_duration(self.limit)
        return f"{self.subject} did not {self.goal} within {limit}: {reason}"

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
            "timeline": [asdict(c) for c in (*self.timeline.first, *self.timeline.latest)],
            "timeline_left_out": self.timeline.left_out,
            **self.findings.as_json(),
            "last_api_error": self.last_error or None,
            "api_errors": self.errors,
        }

    def render(self) -> str:
        """Return the whole message."""
        return render_message(self)

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
            each.name: _change_texts(getattr(value, each.name), change) for each in fields(value)
        }
        return replace(value, **parts)
    return value
