"""Findings of the audit: waits met by a transient, at the first look, or close to their limit.

Waits are counted by call and test. The counts of several processes, shards and runs are added.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kwait.framework.named_objects import count_noun
from pytest_kwait.suite.audit.limits import format_limit, format_rounded, suggest_limit
from pytest_kwait.suite.audit.rows import make_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kwait.suite.audit.rows import Row
    from pytest_kwait.suite.report.records import WaitRecord

MIN_FIRST_LOOKS = 3
"""Minimum runs of a call, all met at the first look, that are a finding; fewer may be chance."""

_USED_SHARE = 0.5
"""Share of the limit above which a wait is a finding."""

_MAX_ROWS = 20
_WIDTH = 80
_MAX_REASON = 200

_LASTING = {
    "wait_for_container_running": "wait_for_pod_ready",
    "wait_for_container_started": "wait_for_pod_ready",
    "wait_for_controlled_pods_running": "wait_for_deployment_complete or that of its kind",
    "wait_for_job_pods_running": "wait_for_job_ready",
    "wait_for_pod_not_pending": "wait_for_pod_ready",
    "wait_for_pod_running": "wait_for_pod_ready",
    "wait_for_pod_terminating": "wait_for_pod_not_found",
    "wait_for_pods_running": "wait_for_pods_running_ready",
    "wait_for_pods_with_label_running": "wait_for_pods_with_label_running_ready",
    "wait_for_rc_pods_running": "wait_for_pods_with_label_running_ready",
    "wait_for_stateful_set_running": "wait_for_stateful_set_running_and_ready",
}
"""Waits for a state that lasts, by those for a state that objects pass on the way to it."""

_FOR_ENDED = {
    "wait_for_job_pods_running": "wait_for_job_complete",
    "wait_for_pod_ready": "wait_for_pod_success",
    "wait_for_pod_running": "wait_for_pod_success",
    "wait_for_pod_running_ready": "wait_for_pod_success",
}
"""Waits for the end, by those that programs which end pass quickly."""


@dataclass(slots=True)
class _Counts:
    """The met waits of one call in one test."""

    precondition: bool = False
    waits: int = 0
    first_looks: int = 0
    observed: int = 0
    broken: int = 0
    broke_after: float = 0.0
    reason: str = ""
    share: float = 0.0
    seconds: float = 0.0
    limit: float = 0.0
    limit_name: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A call whose wait proves little.

    Args:
        site: the call, as `file:line`.
        wait: the called wait or verb.
        test: the test; the one where it shows most.
        more_tests: the number of other tests.
        text: the finding.
        instead: what to write instead.
    """

    site: str
    wait: str
    test: str
    more_tests: int
    text: str
    instead: str


@dataclass(slots=True)
class AuditCounts:
    """Counts of audited waits by call and test."""

    calls: dict[tuple[str, str], dict[str, _Counts]] = field(default_factory=dict)
    unchecked: dict[str, int] = field(default_factory=dict)
    """The number of waits that were not observed, by reason."""
    observed: int = 0
    """The number of waits that were."""

    def add_records(self, waits: Iterable[WaitRecord]) -> None:
        """Add the waits of a report that were met."""
        for wait in waits:
            if wait.outcome == "met" and wait.name and not wait.inner:
                self.add(make_row(wait))

    def add(self, row: Row) -> None:
        """Add a met wait."""
        name, site, test, precondition, seconds, limit, limit_name, first_look, *audit = row
        unchecked, broke_after, reason = audit
        counts = self.calls.setdefault((site, name), {}).setdefault(test, _Counts())
        counts.precondition = counts.precondition or precondition
        counts.waits += 1
        counts.first_looks += bool(first_look)
        if unchecked:
            self.unchecked[unchecked] = self.unchecked.get(unchecked, 0) + 1
        elif unchecked is not None:
            self.observed += 1
            counts.observed += 1
        if broke_after is not None:
            if not counts.broken or broke_after < counts.broke_after:
                counts.broke_after, counts.reason = broke_after, reason
            counts.broken += 1
        share = seconds / limit if limit else 0.0
        if share > counts.share:
            counts.share, counts.seconds = share, seconds
            counts.limit, counts.limit_name = limit, limit_name

    def findings(self) -> list[Finding]:
        """Return the findings: transients, then limits, then waits met at the first look."""
        ranked_findings: list[list[tuple[tuple[float, str], Finding]]] = [[], [], []]
        for (site, wait), tests in self.calls.items():
            call = _Call(site, wait, tests)
            for kind, ranked in enumerate((call.transient(), call.limit(), call.first_look())):
                if ranked is not None:
                    ranked_findings[kind].append(ranked)
        return [
            finding
            for kind in ranked_findings
            for _, finding in sorted(kind, key=lambda ranked: ranked[0])
        ]

    @property
    def rare_first_looks(self) -> int:
        """The number of calls met at the first look, but too few times for a finding."""
        calls = [_Call(*key, tests) for key, tests in self.calls.items()]
        return sum(call.is_at_first_look and call.waits < MIN_FIRST_LOOKS for call in calls)


class _Call:
    """The waits of one call, in all tests."""

    def __init__(self, site: str, wait: str, tests: dict[str, _Counts]) -> None:
        self._site = site
        self._wait = wait
        self._tests = tests
        self.waits = sum(counts.waits for counts in tests.values())

    @property
    def is_at_first_look(self) -> bool:
        """Return whether each wait was met at the first look, and could say something else."""
        return self._wait.startswith("wait_for") and all(
            counts.first_looks == counts.waits and not counts.precondition
            for counts in self._tests.values()
        )

    def transient(self) -> tuple[tuple[float, str], Finding] | None:
        """Return the finding that it did not hold; None if it did."""
        broken = {test: counts for test, counts in self._tests.items() if counts.broken}
        if not broken:
            return None
        test, worst = min(broken.items(), key=lambda item: (-item[1].broken, item[0]))
        times = sum(counts.broken for counts in broken.values())
        observed = sum(counts.observed for counts in self._tests.values())
        shortest = min(counts.broke_after for counts in broken.values())
        reason = textwrap.shorten(worst.reason, _MAX_REASON, placeholder=" …")
        text = (
            f"met by a transient in {times} of {observed} observed: held for "
            f"{format_rounded(shortest)}, then {reason}"
        )
        instead = _suggest_for_transient(self._wait, worst.reason)
        return (-times, self._site), self._finding(test, len(broken), text, instead)

    def limit(self) -> tuple[tuple[float, str], Finding] | None:
        """Return the finding that its limit was used by more than half; None if it was not."""
        near = {
            test: test_counts
            for test, test_counts in self._tests.items()
            if test_counts.share > _USED_SHARE
        }
        if not near:
            return None
        test, worst = min(near.items(), key=lambda item: (-item[1].share, item[0]))
        text = (
            f"used {min(round(worst.share * 100), 100)} % of its limit: "
            f"{format_rounded(worst.seconds)} of {format_rounded(worst.limit)}"
        )
        limit = format_limit(suggest_limit(worst.seconds))
        instead = f'timeout="{limit}"'
        if worst.limit_name:
            instead = f"--kwait-timeout {worst.limit_name}={limit}, or {instead} there"
        return (-worst.share, self._site), self._finding(test, len(near), text, instead)

    def first_look(self) -> tuple[tuple[float, str], Finding] | None:
        """Return the finding that it was always met at the first look; None if it was not."""
        if not self.is_at_first_look or self.waits < MIN_FIRST_LOOKS:
            return None
        test, _ = min(self._tests.items(), key=lambda item: (-item[1].waits, item[0]))
        text = f"met at the first look in all of {self.waits} runs"
        instead = _suggest_for_first_look(self._wait)
        return (-self.waits, self._site), self._finding(test, len(self._tests), text, instead)

    def _finding(self, test: str, tests: int, text: str, instead: str) -> Finding:
        return Finding(self._site, self._wait, test, tests - 1, text, instead)


def _suggest_for_transient(wait: str, reason: str) -> str:
    if "succeeded" in reason and wait in _FOR_ENDED:
        return f"{_FOR_ENDED[wait]}, as the program ends by itself"
    longer = 'stable_for="1s"'
    if wait in _LASTING:
        return f"{_LASTING[wait]}, or {longer}"
    if wait == "wait_for":
        return f"{longer}, or consistently(…) where the state must last"
    if not wait.startswith("wait_for"):
        return f"a wait after it with {longer}"
    return f"{longer}, or a wait for the state that lasts"


def _suggest_for_first_look(wait: str) -> str:
    if wait.endswith(("_gone", "_deleted", "_not_found")):
        return "a wait that it is there before it is deleted, or none"
    return "a wait for what the line before changes, or none"


def render_findings(counts: AuditCounts, *, more: str, show_all: bool = False) -> list[str]:
    """Return the lines of the table, at most 80 columns wide.

    Args:
        more: where the findings are that are left out.
        show_all: whether none is left out.
    """
    findings = counts.findings()
    rows = findings if show_all else findings[:_MAX_ROWS]
    lines = []
    for finding in rows:
        tests = f" and {finding.more_tests} more" if finding.more_tests else ""
        lines += _wrap(f"{finding.site}: {finding.wait}" if finding.site else finding.wait, "")
        lines += _wrap(f"in {finding.test}{tests}" if finding.test else "outside of tests", "  ")
        lines += _wrap(finding.text, "  ")
        lines += _wrap(f"instead: {finding.instead}", "  ")
    if len(findings) > len(rows):
        lines += _wrap(f"{len(findings) - len(rows)} more findings: {more}", "")
    if not findings:
        lines.append("no findings")
    lines += _wrap(_summarize(counts), "")
    return lines


def _summarize(counts: AuditCounts) -> str:
    calls = len(counts.calls)
    waits = sum(
        test_counts.waits for tests in counts.calls.values() for test_counts in tests.values()
    )
    parts = [
        f"{count_noun(waits, 'met wait')} of {count_noun(calls, 'call')}",
        f"{counts.observed} observed afterwards",
    ]
    parts += [
        f"{count} not: {reason}"
        for reason, count in sorted(counts.unchecked.items(), key=lambda item: (-item[1], item[0]))
    ]
    if counts.rare_first_looks:
        parts.append(
            f"{count_noun(counts.rare_first_looks, 'call')} met at the first look in fewer "
            f"than {MIN_FIRST_LOOKS} runs, which may be chance"
        )
    return "; ".join(parts)


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )
