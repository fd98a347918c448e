"""Distinct failures: failed phases of tests, grouped by headlines without generated parts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.suite.explore.signatures import make_signature
from pytest_kwait.suite.report.records import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_kwait.suite.report.records import TestRecord, WaitRecord
    from pytest_kwait.suite.report.run_report import RunReport

_CLOCK_SKEW = 1.0
"""Seconds by which the clocks of a worker and of its controller may differ."""

_TIMEOUT = "WaitTimeout"
_ERRORS = {"timed out": _TIMEOUT, "failed early": "WaitFailed"}
"""The class of the error by the outcome of a wait."""

_ENDED_PHASES = frozenset({"crashed", "expired"})
"""The phases of tests whose process ended."""

_GENERATED = "t-*"
"""In place of a namespace, as `normalize` has it for those of tests."""


class FailedPhase(msgspec.Struct, omit_defaults=True):
    """A failed phase of a test, as `evidence.json` has it.

    Args:
        test: its id.
        phase: `setup`, `call`, `teardown`, `crashed` or `expired`.
        headline: the failure in one line.
        place: the failed line, as `file:line`; empty if unknown.
        step: the steps of the test that it failed in, outermost first.
        namespaces: the namespaces of the test, its own first.
        cluster: the source of its cluster.
        kubectl: the command that reaches the cluster after the run; none if it ends with the run.
        run: the id of the run.
        shard: the shard of the run; may be empty.
        worker: the worker of pytest-xdist; may be empty.
        attempt: 2 when the test was run again.
        waits: the evidence of its failed waits.
        folder: the folder of its artifacts; empty for none.
        recording: the file of its recording; empty for none.
        text: pytest's failure text; may be empty.
    """

    test: str
    phase: str = "call"
    headline: str = "failed"
    place: str = ""
    step: str = ""
    namespaces: list[str] = []
    cluster: str = ""
    kubectl: list[str] = []
    run: str = ""
    shard: str = ""
    worker: str = ""
    attempt: int = 1
    waits: list[dict[str, Any]] = []
    folder: str = ""
    recording: str = ""
    text: str = ""

    @property
    def signature(self) -> str:
        """The signature of the failure, equal for tests that fail from one cause."""
        first = self.waits[0] if self.waits else {}
        headline = self.headline.replace(self.test, "TEST")
        if first and self.phase in _ENDED_PHASES:
            # The end of a process says less than what its test was waiting for.
            headline = f"{headline}: {first.get('subject')} to {first.get('goal')}"
        is_timeout = first.get("error") == _TIMEOUT
        return sign_headline(headline, self.namespaces, is_timeout=is_timeout)


@dataclass(slots=True)
class DistinctFailure:
    """A failure that one or more tests have.

    Args:
        phases: the failed phases, in the order of the run.
    """

    phases: list[FailedPhase] = field(default_factory=list)

    @property
    def tests(self) -> list[str]:
        """The ids of its tests."""
        return list(dict.fromkeys(phase.test for phase in self.phases))

    @property
    def headline(self) -> str:
        """The headline of the first one, without the namespaces of its test."""
        first = self.phases[0]
        return strip_namespaces(first.headline, first.namespaces)


def sign_headline(headline: str, namespaces: Iterable[str], *, is_timeout: bool) -> str:
    """Return the signature of a headline, whatever its namespaces, numbers and times are."""
    for name in sorted(filter(None, namespaces), key=len, reverse=True):
        headline = re.sub(_whole(name), _GENERATED, headline)
    return make_signature(_TIMEOUT if is_timeout else "", headline, "")


def strip_namespaces(text: str, namespaces: Iterable[str]) -> str:
    """Return a text that names objects without their namespaces."""
    for name in sorted(filter(None, namespaces), key=len, reverse=True):
        whole = _whole(name)
        text = re.sub(rf"{whole}/(?=\S)| in {whole}", "", text)
    return text


def _whole(name: str) -> str:
    return rf"(?<![\w.-]){re.escape(name)}(?![\w.-])"


def group_failures(phases: Iterable[FailedPhase]) -> list[DistinctFailure]:
    """Return the distinct failures, those of the most tests first."""
    groups: dict[str, DistinctFailure] = {}
    for phase in phases:
        groups.setdefault(phase.signature, DistinctFailure()).phases.append(phase)
    return sorted(groups.values(), key=lambda group: -len(group.tests))


def list_failures(report: RunReport) -> list[FailedPhase]:
    """Return the failed attempts at tests of a report, ordered by their ends."""
    return [phase for _, phase in describe_attempts(report)]


def describe_attempts(report: RunReport) -> Iterator[tuple[TestRecord, FailedPhase]]:
    """Yield the failed attempts at tests of a report, each with its failure."""
    runs = {run.id: run for run in report.runs}
    waits: dict[tuple[str, str, str], list[WaitRecord]] = {}
    for wait in report.waits:
        if wait.outcome != "met" and not wait.inner and not wait.caught:
            waits.setdefault((wait.run, wait.test, wait.worker), []).append(wait)
    for test in report.tests:
        if test.outcome not in BAD_OUTCOMES:
            continue
        run = runs.get(test.run)
        own = waits.get((test.run, test.test, test.worker), ())
        phase = _describe_attempt(test, [wait for wait in own if is_in_attempt(wait, test)])
        if run is not None:
            phase.run, phase.cluster = run.name, test.cluster or run.cluster
        yield test, phase


def is_in_attempt(wait: WaitRecord, test: TestRecord) -> bool:
    """Return whether a wait began during an attempt at its test."""
    begin = test.ended - test.seconds - _CLOCK_SKEW
    return begin <= wait.started <= test.ended + _CLOCK_SKEW


def _describe_attempt(test: TestRecord, waits: Sequence[WaitRecord]) -> FailedPhase:
    headline = test.headline
    if not headline:
        # An older version has not recorded it.
        lines = [wait.headline for wait in waits if wait.headline] or test.text.splitlines()[-1:]
        headline = lines[0] if lines else "failed"
    return FailedPhase(
        test.test,
        test.phase or ("crashed" if test.outcome == "crashed" else "call"),
        headline,
        test.place,
        test.step or next((wait.step for wait in waits if wait.step), ""),
        test.namespaces,
        kubectl=test.kubectl,
        shard=test.shard,
        worker=test.worker,
        waits=[_describe_wait(wait) for wait in waits],
        folder=test.folder,
        recording=test.recording,
        text=test.text,
    )


def _describe_wait(wait: WaitRecord) -> dict[str, Any]:
    """Return the record of a wait as its evidence."""
    return {
        "elapsed_seconds": wait.seconds,
        "limit_seconds": wait.limit,
        **wait.evidence,
        "error": _ERRORS.get(wait.outcome),
        "subject": wait.subject,
        "goal": wait.goal,
        "outcome": wait.outcome,
        "timeline": [{"at": change.at, "text": change.text} for change in wait.changes],
        "timeline_left_out": wait.left_out,
    }
