"""Flake statistics: how often tests failed over many runs, since when, and what differed.

A run counts for a test if the test passed or failed in it. Runs are ordered by their start. Skipped
and expected failures count as no run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_kwait.apimachinery.times import format_duration, format_time
from pytest_kwait.engine.failure.shortening import replace_unprintable, wrap_text
from pytest_kwait.suite.explore.signatures import normalize
from pytest_kwait.suite.report.commit import DIRTY
from pytest_kwait.suite.report.failures import describe_attempts, strip_namespaces
from pytest_kwait.suite.report.records import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_kwait.suite.report.failures import FailedPhase
    from pytest_kwait.suite.report.records import RunRecord, TestRecord, WaitRecord
    from pytest_kwait.suite.report.run_report import RunReport

MAX_STATES = 50
"""Maximum number of states that are kept of a failure."""

_GOOD_OUTCOMES = frozenset({"passed", "xpassed"})
_VERDICTS = ("broken", "flaky", "intermittent", "fixed")
_WIDTH = 80
_SHOWN_STATES = 3
_SHORT_COMMIT = 12

_WaitKey = tuple[str, str, str]
"""The test, the normalized subject and the normalized goal of a wait."""


class FlakeRun(msgspec.Struct, frozen=True):
    """A run of the statistics.

    Args:
        name: the run id.
        started: when it began, in seconds since the epoch.
        shard: its shard; may be empty.
        commit: the commit of the suite; empty if unknown.
    """

    name: str
    started: float
    shard: str = ""
    commit: str = ""


class SeenFailure(msgspec.Struct):
    """A distinct failure of a test.

    Args:
        headline: the failure in one line, without namespaces; of the latest run.
        runs: the number of runs that had it.
        last_seen: the last state that the failed wait saw; empty without one.
        only_failed: states that it saw and the same wait of runs that were met never did.
        longest_met: the longest duration of that wait where it was met, in seconds; None if no run
            has met it.
        limit: the limit of the failed wait in seconds; None without one.
    """

    headline: str
    runs: int
    last_seen: str = ""
    only_failed: list[str] = []
    longest_met: float | None = None
    limit: float | None = None


class FlakyTest(msgspec.Struct):
    """A test that failed in at least one run.

    Args:
        test: its id.
        runs: the number of runs in which it passed or failed.
        failed: in how many of them it failed.
        rate: their share, from 0 to 1.
        verdict: `broken`, `flaky`, `intermittent` or `fixed`.
        reason: the verdict in words.
        first_bad: the run from which on it failed.
        last_good: the last run before that in which it passed; None without one.
        last_bad: the latest run in which it failed.
        failures: its distinct failures, the most frequent first.
    """

    test: str
    runs: int
    failed: int
    rate: float
    verdict: str
    reason: str
    first_bad: FlakeRun
    last_good: FlakeRun | None
    last_bad: FlakeRun
    failures: list[SeenFailure]


class FlakeStatistics(msgspec.Struct):
    """The statistics of all runs.

    Args:
        kwait_flakes: the version of the format.
        runs: ordered by start.
        tests: how many tests passed or failed in a run.
        unnamed: passed tests that the reports only count.
        flakes: the tests that failed, broken ones first.
    """

    kwait_flakes: int
    runs: list[FlakeRun]
    tests: int
    unnamed: int
    flakes: list[FlakyTest]


@dataclass(slots=True)
class _Outcome:
    """The outcomes of a test in one run."""

    passed: bool = False
    failed: bool = False


@dataclass(slots=True)
class _Failure:
    """A distinct failure while reports are added."""

    headline: str = ""
    latest: float = -1.0
    runs: set[str] = field(default_factory=set)
    last_seen: str = ""
    key: _WaitKey | None = None
    limit: float | None = None
    states: dict[str, str] = field(default_factory=dict)
    """The states by their normalized texts."""


@dataclass(slots=True)
class _MetWait:
    """A wait of a test where it was met."""

    longest: float = 0.0
    states: set[str] = field(default_factory=set)


class FlakeCounts:
    """Counts of tests over reports, which may share runs and records."""

    def __init__(self) -> None:
        self._runs: dict[str, RunRecord] = {}
        self._tests: dict[str, dict[str, _Outcome]] = {}
        """The outcomes of each test by run."""
        self._failures: dict[str, dict[str, _Failure]] = {}
        """The failures of each test by signature."""
        self._met: dict[_WaitKey, _MetWait] = {}
        self._seen: set[str] = set()
        """The ids of added records of failed tests."""

    def add(self, report: RunReport) -> None:
        """Add a report."""
        for run in report.runs:
            known = self._runs.get(run.id)
            if known is None or known.ended is None:
                self._runs[run.id] = run
            for test in run.passed:
                self._outcome(test, run.id).passed = True
        for record in report.tests:
            # The journal of one worker names a run that it has not.
            if record.run in self._runs and record.outcome in _GOOD_OUTCOMES | BAD_OUTCOMES:
                outcome = self._outcome(record.test, record.run)
                outcome.passed = outcome.passed or record.outcome in _GOOD_OUTCOMES
                outcome.failed = outcome.failed or record.outcome in BAD_OUTCOMES
        for wait in report.waits:
            if wait.outcome == "met" and not wait.inner:
                self._add_met(wait)
        for record, phase in describe_attempts(report):
            if record.id not in self._seen and record.run in self._runs:
                self._seen.add(record.id)
                self._add_failure(record, phase, self._runs[record.run].started)

    def statistics(self) -> FlakeStatistics:
        """Return the statistics of all added reports."""
        runs = sorted(self._runs.values(), key=lambda run: (run.started, run.id))
        order = {run.id: place for place, run in enumerate(runs)}
        flakes = [
            self._describe_test(
                test,
                [(runs[order[id]], outcomes[id]) for id in sorted(outcomes, key=order.__getitem__)],
            )
            for test, outcomes in sorted(self._tests.items())
            if any(outcome.failed for outcome in outcomes.values())
        ]
        flakes.sort(key=lambda flake: (_VERDICTS.index(flake.verdict), -flake.failed, flake.test))
        return FlakeStatistics(
            1, [_shorten_run(run) for run in runs], len(self._tests), self._count_unnamed(), flakes
        )

    def _outcome(self, test: str, run: str) -> _Outcome:
        return self._tests.setdefault(test, {}).setdefault(run, _Outcome())

    def _count_unnamed(self) -> int:
        """Return the number of passed tests that the runs count, and no report names."""
        named = dict.fromkeys(self._runs, 0)
        for outcomes in self._tests.values():
            for run, outcome in outcomes.items():
                named[run] += outcome.passed
        return sum(
            max(run.tests.get("passed", 0) + run.tests.get("xpassed", 0) - named[run.id], 0)
            for run in self._runs.values()
        )

    def _add_met(self, wait: WaitRecord) -> None:
        met = self._met.setdefault(_make_key(wait.test, wait.subject, wait.goal), _MetWait())
        met.longest = max(met.longest, wait.seconds)
        met.states.update(_normalize(change.text) for change in wait.changes)
        if wait.trouble:
            met.states.add(_normalize(_format_api_error(wait.trouble)))

    def _add_failure(self, record: TestRecord, phase: FailedPhase, started: float) -> None:
        failures = self._failures.setdefault(record.test, {})
        failure = failures.setdefault(phase.signature, _Failure())
        failure.runs.add(record.run)
        wait = phase.waits[0] if phase.waits else {}
        texts = [strip_namespaces(text, phase.namespaces) for text in _list_states(wait)]
        for text in texts:
            if len(failure.states) < MAX_STATES:
                failure.states.setdefault(_normalize(text), text)
        if started < failure.latest:
            return
        failure.latest = started
        failure.headline = strip_namespaces(phase.headline, phase.namespaces)
        failure.last_seen = str(wait.get("seen") or next(reversed(texts), ""))
        if wait:
            failure.key = _make_key(record.test, str(wait["subject"]), str(wait["goal"]))
            limit = wait.get("limit_seconds")
            failure.limit = limit if isinstance(limit, int | float) and limit else None

    def _describe_test(self, test: str, history: Sequence[tuple[RunRecord, _Outcome]]) -> FlakyTest:
        verdict, reason, begin = judge_history(
            [(_shorten_run(run), outcome.passed, outcome.failed) for run, outcome in history]
        )
        bad = [place for place, (_, outcome) in enumerate(history) if outcome.failed]
        good = [place for place in range(begin) if history[place][1].passed]
        failures = map(self._describe_failure, self._failures.get(test, {}).values())
        return FlakyTest(
            test,
            len(history),
            len(bad),
            round(len(bad) / len(history), 4),
            verdict,
            reason,
            _shorten_run(history[begin][0]),
            _shorten_run(history[good[-1]][0]) if good else None,
            _shorten_run(history[bad[-1]][0]),
            sorted(failures, key=lambda failure: -failure.runs),
        )

    def _describe_failure(self, failure: _Failure) -> SeenFailure:
        met = None if failure.key is None else self._met.get(failure.key)
        return SeenFailure(
            failure.headline,
            len(failure.runs),
            failure.last_seen,
            []
            if met is None
            else [text for state, text in failure.states.items() if state not in met.states],
            None if met is None else met.longest,
            failure.limit,
        )


def judge_history(history: Sequence[tuple[FlakeRun, bool, bool]]) -> tuple[str, str, int]:
    """Return the verdict about a test that failed, in words, and the index of its first bad run.

    Args:
        history: its runs in their order, each with whether it passed and whether it failed there;
            both if it was run again.
    """
    bad = [place for place, (_, _, failed) in enumerate(history) if failed]
    good = [place for place, (_, passed, _) in enumerate(history) if passed]
    both = next((run for run, passed, failed in history if passed and failed), None)
    if both is not None:
        return "flaky", f"failed and passed in run {both.name}", bad[0]
    commits = [
        {history[place][0].commit for place in places if _is_known(history[place][0].commit)}
        for places in (bad, good)
    ]
    shared = [history[place][0].commit for place in bad if history[place][0].commit in commits[1]]
    if shared:
        return "flaky", f"failed and passed at commit {_shorten(shared[-1])}", bad[0]
    if not good:
        return "broken", "has not passed in these runs", bad[0]
    if bad[-1] > good[-1]:
        begin = next(place for place in bad if place > good[-1])
        return "broken", f"fails since run {history[begin][0].name}", begin
    if bad[-1] - bad[0] == len(bad) - 1:
        fixed = next(place for place in good if place > bad[-1])
        return "fixed", f"passes since run {history[fixed][0].name}", bad[0]
    return "intermittent", "failed and passed in turn, at other or unknown commits", bad[0]


def render_flakes(statistics: FlakeStatistics) -> list[str]:
    """Return the table, 80 columns wide but for names of tests, and a line about all tests."""
    lines = []
    if statistics.flakes:
        lines.append("failed  runs   rate  verdict")
    for flake in statistics.flakes:
        lines += _render_flake(flake)
    counts = {
        verdict: sum(flake.verdict == verdict for flake in statistics.flakes)
        for verdict in _VERDICTS
    }
    found = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    tests = "1 test" if statistics.tests == 1 else f"{statistics.tests} tests"
    runs = "1 run" if len(statistics.runs) == 1 else f"{len(statistics.runs)} runs"
    begin, end = (format_time(statistics.runs[place].started) for place in (0, -1))
    lines.append(f"{found or 'none failed'}, of {tests} in {runs}")
    lines.append(f"from {begin} to {end}")
    return lines


def _render_flake(flake: FlakyTest) -> Iterator[str]:
    yield replace_unprintable(flake.test)
    lead = f"{flake.failed:6}  {flake.runs:4}  {flake.rate:5.0%}  "
    yield from _wrap(lead, f"{flake.verdict}: {flake.reason}", " " * len(lead))
    yield from _wrap("  first bad  ", _name_run(flake.first_bad))
    yield from _wrap("  last good  ", "none" if not flake.last_good else _name_run(flake.last_good))
    if flake.last_bad != flake.first_bad:
        yield from _wrap("  last bad   ", _name_run(flake.last_bad))
    for failure in flake.failures:
        yield from _wrap(f"  {failure.runs}x ", failure.headline)
        if failure.last_seen and failure.last_seen not in failure.headline:
            yield from _wrap("     last seen    ", failure.last_seen)
        for text in failure.only_failed[:_SHOWN_STATES]:
            yield from _wrap("     only failed  ", text)
        more = len(failure.only_failed) - _SHOWN_STATES
        if more > 0:
            yield f"                  and {more} more states"
        if failure.longest_met is not None:
            limit = f", limit {format_duration(failure.limit)}" if failure.limit else ""
            longest = format_duration(round(failure.longest_met, 1))
            yield from _wrap("     met          ", f"after at most {longest}{limit}")


def _wrap(lead: str, text: str, further: str | None = None) -> list[str]:
    rest = " " * len(lead) if further is None else further
    return wrap_text(" ".join(replace_unprintable(text).split()), _WIDTH, lead, rest, 4)


def _name_run(run: FlakeRun) -> str:
    shard = f" (shard {run.shard})" if run.shard else ""
    commit = f", commit {_shorten(run.commit)}" if run.commit else ""
    return f"{format_time(run.started)} run {run.name}{shard}{commit}"


def _shorten_run(run: RunRecord) -> FlakeRun:
    return FlakeRun(run.name, run.started, run.shard, run.commit)


def _shorten(commit: str) -> str:
    name = commit.removesuffix(DIRTY)
    return name[:_SHORT_COMMIT] + commit[len(name) :]


def _is_known(commit: str) -> bool:
    """Return whether a commit says which files the run had."""
    return bool(commit) and not commit.endswith(DIRTY)


def _make_key(test: str, subject: str, goal: str) -> _WaitKey:
    return test, _normalize(subject), _normalize(goal)


def _list_states(wait: Mapping[str, Any]) -> Iterable[str]:
    for change in wait.get("timeline") or ():
        yield str(change["text"])
    if wait.get("last_api_error"):
        yield _format_api_error(str(wait["last_api_error"]))


def _format_api_error(text: str) -> str:
    return f"API error: {text}"


_normalize = lru_cache(maxsize=100_000)(normalize)
