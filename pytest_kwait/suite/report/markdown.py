"""Failures of runs in Markdown: each distinct one once, with its cause and the next commands.

Lines are wrapped for a terminal, except commands, names of tests and paths, which are to be copied.
The size is bounded; the end says what is left out.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.times import format_duration
from pytest_kwait.engine.failure.evidence import Evidence
from pytest_kwait.engine.failure.shortening import (
    cut_line,
    replace_unprintable,
    wrap_middle,
    wrap_text,
)
from pytest_kwait.engine.failure.wait_report import (
    VerdictChange,
    list_kubectl_arguments,
    render_changes,
    render_findings,
)
from pytest_kwait.suite.report.failures import group_failures, list_failures, strip_namespaces
from pytest_kwait.suite.report.run_report import list_omissions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kwait.suite.report.failures import DistinctFailure, FailedPhase
    from pytest_kwait.suite.report.run_report import RunReport

MAX_SIZE = 256 * 1024
"""Maximum bytes of all sections."""

MAX_SECTIONS = 50
MAX_TESTS = 20
"""Maximum number of tests that a section names."""

MAX_LINES = 40
"""Maximum lines of a block."""

_WIDTH = 80
_HEADING = 72
_MAX_SHORT = 12
"""Lines of pytest's explanation of a failure without a wait."""

_OWN_CLUSTERS = frozenset({"embedded", "binaries"})
"""The providers whose clusters end with the run."""

_MARGIN = re.compile(r"E(?: |$)")


def render_failures(
    phases: Sequence[FailedPhase], about: Sequence[str], pages: Sequence[str] = ()
) -> str:
    """Return the distinct failures of runs as Markdown.

    Args:
        phases: the failed phases of tests, in the order of the run.
        about: sentences about the runs.
        pages: the paths of their report pages.
    """
    groups = group_failures(phases)
    sections: list[str] = []
    room = MAX_SIZE
    for number, group in enumerate(groups[:MAX_SECTIONS], 1):
        section = "\n".join(_render_section(number, group)) + "\n"
        room -= len(section.encode("utf-8", "backslashreplace"))
        if room < 0:
            break
        sections.append(section)
    parts = ["\n".join(_render_head(groups, about, pages)) + "\n", *sections]
    left_out = groups[len(sections) :]
    if left_out:
        parts.append("\n".join(_render_left_out(left_out)) + "\n")
    return "\n".join(parts)


def render_report_failures(report: RunReport) -> str:
    """Return the distinct failures of a report as Markdown."""
    names = [
        _code(run.name) + (f" (shard {run.shard})" if run.shard else "")
        for run in report.runs[:MAX_TESTS]
    ]
    more = f" and {len(report.runs) - MAX_TESTS} more" if len(report.runs) > MAX_TESTS else ""
    notes = [f"{note[:1].upper()}{note[1:]}." for note in list_omissions(report)[:MAX_TESTS]]
    start = "Paths are relative to where pytest was started."
    about = [f"Run{'' if len(names) == 1 else 's'} {', '.join(names)}{more}.", start, *notes]
    return render_failures(list_failures(report), about)


def count_failures(phases: Sequence[FailedPhase]) -> str:
    """Return the numbers of failed tests and of distinct failures."""
    tests = len({phase.test for phase in phases})
    return (
        f"{_count(tests, 'failed test')}, {_count(len(group_failures(phases)), 'distinct failure')}"
    )


def _render_head(
    groups: Sequence[DistinctFailure], about: Sequence[str], pages: Sequence[str]
) -> Iterator[str]:
    phases = [phase for group in groups for phase in group.phases]
    yield "# Failures"
    yield ""
    counted = f"{count_failures(phases)}." if groups else "No test failed."
    text = " ".join((counted, *about))
    yield from _wrap(text)
    if pages:
        yield ""
        yield from _wrap(f"All waits of the run: {', '.join(map(_code, pages))}.")
    if groups:
        yield ""
    for number, group in enumerate(groups[:MAX_SECTIONS], 1):
        yield from _wrap(f"{number}. {_title(group)} ({_count(len(group.tests), 'test')})", "   ")


def _render_section(number: int, group: DistinctFailure) -> Iterator[str]:
    first = group.phases[0]
    yield f"## {number}. {_title(group)}"
    yield ""
    yield f"{_count(len(group.tests), 'test')}:"
    yield ""
    for phase in group.phases[:MAX_TESTS]:
        yield from _wrap(f"- {_describe_test(phase)}", "  ")
    if len(group.phases) > MAX_TESTS:
        yield f"- {len(group.phases) - MAX_TESTS} more"
    yield from _block("Cause", "text", _explain(group))
    wait = first.waits[0] if first.waits else {}
    yield from _block("Timeline", "text", _render_timeline(wait, first))
    yield ""
    yield "Where" + (f" ({_code(first.test)}):" if len(group.phases) > 1 else ":")
    yield ""
    for name, value in _list_places(first, wait):
        yield from _wrap(f"- {name}: {value}", "  ")
    yield from _block("Look further", "sh", _list_commands(first, wait), copied=True)


def _render_left_out(groups: Sequence[DistinctFailure]) -> Iterator[str]:
    yield "## Left out"
    yield ""
    yield from _wrap(
        f"{_count(len(groups), 'more distinct failure')}, to keep this file short. Their artifacts "
        "have everything:"
    )
    yield ""
    for group in groups[:MAX_SECTIONS]:
        first = group.phases[0]
        where = f", in {_code(first.folder)}" if first.folder else f", {_code(first.test)}"
        yield from _wrap(f"- {_title(group)} ({_count(len(group.tests), 'test')}{where})", "  ")
    if len(groups) > MAX_SECTIONS:
        yield f"- {len(groups) - MAX_SECTIONS} more"


def _title(group: DistinctFailure) -> str:
    return _code(cut_line(" ".join(group.headline.split()), _HEADING))


def _describe_test(phase: FailedPhase) -> str:
    facts = [_code(phase.test)]
    if phase.phase != "call":
        facts[0] += f" ({phase.phase})"
    if phase.attempt > 1:
        facts.append(f"attempt {phase.attempt}")
    if phase.shard:
        facts.append(f"shard {phase.shard}")
    if phase.worker:
        facts.append(f"worker {phase.worker}")
    if phase.place:
        facts.append(f"at {_code(phase.place)}")
    return ", ".join(facts)


def _explain(group: DistinctFailure) -> list[str]:
    """Return the cause: the headline, what was awaited and seen, and the state of the objects."""
    first = group.phases[0]
    lines = wrap_middle("", group.headline, rest="  ", lines=6, width=_WIDTH)
    if not first.waits:
        return [*lines, *_list_explanation(first.text, first.headline)]
    wait = first.waits[0]
    for name, value in _list_terms(wait):
        text = strip_namespaces(value, first.namespaces)
        lines += wrap_middle(f"  {name:<9}", text, width=_WIDTH)
    findings = _read_findings(wait)
    if findings is not None:
        found = render_findings(findings, _WIDTH)
        lines += [strip_namespaces(line, first.namespaces) for line in found]
    return lines


def _list_terms(wait: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if wait.get("subject"):
        yield "awaited", f"{wait['subject']} to {wait.get('goal')}"
    elapsed, limit = wait.get("elapsed_seconds"), wait.get("limit_seconds")
    if isinstance(elapsed, int | float):
        ended = f"ended after {format_duration(round(float(elapsed), 1))}"
        whole = isinstance(limit, int | float) and limit
        yield "limit", f"{format_duration(float(limit or 0))}, {ended}" if whole else ended
    if wait.get("seen"):
        yield "seen", str(wait["seen"])
    if wait.get("last_api_error"):
        yield "API error", f" {wait['last_api_error']}"


def _read_findings(wait: Mapping[str, Any]) -> Evidence | None:
    """Return the findings of a wait; None if another version has written them."""
    try:
        return msgspec.convert(dict(wait), Evidence)
    except msgspec.ValidationError:
        return None


def _list_explanation(text: str, headline: str) -> list[str]:
    """Return the lines in which pytest explains a failure, without its margin and headline."""
    marked = [line[1:].rstrip() for line in text.splitlines() if _MARGIN.match(line)]
    lines = textwrap.dedent("\n".join(marked[:_MAX_SHORT])).splitlines()
    return [part for line in lines if line and line not in headline for part in _fit(line)]


def _render_timeline(wait: Mapping[str, Any], first: FailedPhase) -> list[str]:
    try:
        known = msgspec.convert(wait.get("timeline") or [], list[VerdictChange])
    except msgspec.ValidationError:
        return []
    changes = [
        replace(change, text=strip_namespaces(change.text, first.namespaces)) for change in known
    ]
    left_out = wait.get("timeline_left_out")
    early = len(changes) // 2 if left_out else len(changes)
    lines = [*render_changes(changes[:early], _WIDTH)]
    if left_out:
        lines.append(f"             ... {left_out} more changes ...")
    return [*lines, *render_changes(changes[early:], _WIDTH)]


def _list_places(first: FailedPhase, wait: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if first.place:
        yield "test", _code(first.place)
    if first.step:
        yield "step", _code(first.step)
    if first.cluster and (first.namespaces or first.kubectl or wait):
        ends_with_run = first.cluster.partition(" ")[0] in _OWN_CLUSTERS and not first.kubectl
        ends = ", which ends with the run" if ends_with_run else ""
        yield "cluster", f"{_code(first.cluster)}{ends}"
    findings = _read_findings(wait)
    # That of the wait may be gone already.
    awaited = [findings.namespace] if findings is not None and findings.namespace else []
    for name in list(dict.fromkeys((*first.namespaces, *awaited)))[:MAX_TESTS]:
        yield "namespace", _code(name)
    for reference in findings.objects[:MAX_TESTS] if findings is not None else ():
        yield "object", _code(f"{reference.resource}/{reference.name}")
    if first.folder:
        yield "artifacts", _code(first.folder)


def _list_commands(first: FailedPhase, wait: Mapping[str, Any]) -> Iterator[str]:
    if first.recording:
        recording = shlex.quote(first.recording)
        yield f"kwait replay {recording} --timeline"
        yield "# serves the failed state, and prints the KUBECONFIG for kubectl:"
        yield f"kwait replay {recording} --at failure"
    words = _list_kubectl_words(first, wait)
    if words and first.recording:
        yield shlex.join(["kubectl", *words])
    elif words and first.kubectl:
        yield "# the namespaces of a test are deleted after it, unless --kwait-keep=failed"
        yield shlex.join([*first.kubectl, *words])
    if first.folder:
        part = "-teardown" if first.phase == "teardown" else ""
        yield shlex.join(["cat", f"{first.folder}/failure{part}.txt"])
    yield shlex.join(["pytest", first.test])


def _list_kubectl_words(first: FailedPhase, wait: Mapping[str, Any]) -> list[str]:
    findings = _read_findings(wait) if wait else None
    if findings is not None:
        return list_kubectl_arguments(findings)
    return ["--namespace", first.namespaces[0], "get", "all,events"] if first.namespaces else []


def _block(
    title: str, language: str, lines: Iterator[str] | list[str], *, copied: bool = False
) -> Iterator[str]:
    """Yield a titled block of code; nothing without lines.

    Args:
        copied: whether the lines are kept whole, to be copied.
    """
    shown = list(lines)
    if not shown:
        return
    if len(shown) > MAX_LINES:
        shown = [*shown[:MAX_LINES], f"... {len(shown) - MAX_LINES} more lines"]
    shown = [
        replace_unprintable(line) if copied else cut_line(line.rstrip(), _WIDTH) for line in shown
    ]
    runs = re.findall(r"`{3,}", "\n".join(shown))
    fence = "`" * max((len(run) + 1 for run in runs), default=3)
    yield from ("", f"{title}:", "", f"{fence}{language}", *shown, fence)


def _fit(line: str) -> list[str]:
    """Return a line, wrapped behind its own indentation if it is too long."""
    if len(line) <= _WIDTH:
        return [line]
    text = line.lstrip()
    lead = line[: len(line) - len(text)]
    return wrap_middle(lead, text, rest=f"{lead}  ", width=_WIDTH)


def _wrap(text: str, further: str = "") -> list[str]:
    return wrap_text(text, _WIDTH, "", further)


def _code(text: str) -> str:
    """Return a text as code, which no Markdown in it changes."""
    plain = " ".join(replace_unprintable(text).split())
    runs = re.findall(r"`+", plain)
    if not runs:
        return f"`{plain}`"
    fence = "`" * (max(map(len, runs)) + 1)
    return f"{fence} {plain} {fence}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
