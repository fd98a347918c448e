"""Records of waits, tests and runs, and the journal files that hold them.

Every text is bounded where it enters, so no test and no container can fill a report.

A journal has one line per record, written by one system call: a process that is killed
loses nothing that was complete. Each process has its own file. The controller merges all
files of its run into the report, `kwait report merge` does so for a killed controller, and
the artifacts of a crashed worker are read from its file.
"""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from pytest_kwait.bounds import MAX_LINE_BYTES, Seconds, encode_json
from pytest_kwait.engine.active_waits import WaitObserver
from pytest_kwait.engine.failure.redaction import SECRET_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from pytest_kwait.engine.active_waits import ActiveWait, Holding
    from pytest_kwait.engine.failure.wait_report import WaitReport

UNFINISHED = "unfinished"
"""The outcome of a wait whose process ended before it."""
BAD_OUTCOMES = frozenset({"failed", "error", "crashed", "rerun"})
"""The outcomes of attempts at a test that failed."""
JOURNAL_SUFFIX = ".jsonl"
"""The suffix of journal files."""

_MAX_LINE = 500
_MAX_TEXT = 16_000
_MAX_EVIDENCE = 32_000
_BOUNDS = ((25, 500), (10, 200), (4, 120), (1, 60))
"""Successive limits of list entries and text characters, until the evidence is small enough."""


class RecordedVerdict(msgspec.Struct, array_like=True, frozen=True):
    """A change of verdict: seconds since the wait began, and its text."""

    at: Seconds
    text: str


class AuditRecord(msgspec.Struct, omit_defaults=True):
    """Whether what a met wait awaited held until the test's next action, or for a second.

    Args:
        unchecked: why it was not observed; empty if it was.
        broke_after: seconds after which it no longer held; None if it held.
        reason: the verdict then.
    """

    unchecked: str = ""
    broke_after: Seconds | None = None
    reason: str = ""


class WaitRecord(msgspec.Struct, omit_defaults=True):
    """The record of one finished wait.

    Args:
        id: globally unique.
        run: the id of its run's record.
        subject: the observed object or objects.
        goal: the awaited state, as a verb.
        started: when it began, in seconds since the epoch.
        seconds: its duration.
        outcome: `met`, `failed early`, `timed out`, `error`, `interrupted` or `unfinished`.
        shard: the shard of the run; empty for an unsharded run.
        worker: the worker of pytest-xdist; empty without.
        test: the id of the test that waited; empty outside of every test.
        retries: the number of retried API errors.
        trouble: the last of them, or the one that ended it.
        inner: whether it was a part of another wait.
        changes: the first and the last changes of its verdict.
        left_out: the number of omitted changes between them.
        headline: why it did not succeed, in one line.
        text: the whole message of a wait that did not succeed.
        evidence: the same facts as JSON values.
        step: the steps of the test that it was in, outermost first.
        name: the called wait or verb; empty for a wait of the plugin itself.
        site: the call in the suite, as `file:line`; of a marker, its test.
        precondition: whether it is a marker of the test.
        limit: its limit in seconds.
        limit_name: the name in the timeout table that the limit comes from; empty for its own.
        first_look: whether its first verdict was that it is met.
        audit: whether it held afterwards; None without `--kwait-audit`.
        caught: whether its test caught its error, or expected it, so that it failed no test.
    """

    id: str
    run: str
    subject: str
    goal: str
    started: Seconds
    seconds: Seconds
    outcome: str
    shard: str = ""
    worker: str = ""
    test: str = ""
    retries: int = 0
    trouble: str = ""
    inner: bool = False
    changes: list[RecordedVerdict] = []
    left_out: int = 0
    headline: str = ""
    text: str = ""
    evidence: dict[str, Any] = {}
    step: str = ""
    name: str = ""
    site: str = ""
    precondition: bool = False
    limit: Seconds = 0.0
    limit_name: str = ""
    first_look: bool = False
    audit: AuditRecord | None = None
    caught: bool = False


class Explanation(msgspec.Struct, omit_defaults=True):
    """Evidence gathered after an unsuccessful wait ended."""

    id: str
    headline: str
    text: str
    evidence: dict[str, Any] = {}


class PlayedKind(msgspec.Struct, omit_defaults=True):
    """A kind of objects in a playback.

    Args:
        resource: with its group, as `jobs.batch`.
        columns: the names of the columns of its rows, as `kubectl get` has them.
        left_out: the number of its objects that are left out.
    """

    resource: str
    columns: list[str] = []
    left_out: int = 0


class Playback(msgspec.Struct, omit_defaults=True):
    """The history of a test's objects, one row of `kubectl get` for each state.

    Times are seconds since `started`.

    Args:
        started: when the test began, in seconds since the epoch.
        end: the last time.
        begin: the first time; changes before it are left out.
        kinds: the kinds of the objects.
        objects: each with the number of its kind, and its name.
        rows: the different rows of cells.
        changes: each with its time, the number of its object, and that of its new row; -1 for a
            deletion. Those up to `begin` are the state of the beginning.
        steps: the steps of the test, each with its start.
        failure: its time, the phase of the test, and its text; None if the test passed.
        events: the Warning events, each with its time, object, reason, count and message.
        logs: lines of containers, each with its time, `POD/CONTAINER`, and text.
        left_out: the numbers of `changes`, `events` and `logs` that are left out.
    """

    started: Seconds
    end: Seconds
    begin: Seconds = 0.0
    kinds: list[PlayedKind] = []
    objects: list[tuple[int, str]] = []
    rows: list[list[str]] = []
    changes: list[tuple[Seconds, int, int]] = []
    steps: list[tuple[Seconds, str]] = []
    failure: tuple[Seconds, str, str] | None = None
    events: list[tuple[Seconds, str, str, int, str]] = []
    logs: list[tuple[Seconds, str, str]] = []
    left_out: dict[str, int] = {}


class TestRecord(msgspec.Struct, omit_defaults=True):
    """One attempt at a test.

    Args:
        id: globally unique.
        run: the id of its run's record.
        test: the test's own id.
        outcome: `passed`, `failed`, `error` (of its setup or teardown), `skipped`, `xfailed`,
            `xpassed` or `crashed` (its worker ended).
        ended: when it ended, in seconds since the epoch.
        seconds: the duration of its phases.
        shard: the shard of the run.
        worker: the worker of pytest-xdist.
        text: pytest's failure text.
        recording: the file of its recording, relative to where pytest was started; empty for none.
        playback: what the page plays of its recording; None without one.
        explored: of an explored test its number of `runs`, how many `passed`, and its `failures`,
            each with its `headline`, number of `runs`, `seed`, `perturbations` and `command`; None
            for other tests.
        headline: the failure in one line; empty if it passed.
        phase: the phase that failed first; empty if none did.
        place: the failed line, as `file:line`.
        step: the steps of the test that it failed in, outermost first.
        namespaces: its namespaces when it failed.
        folder: the folder of its artifacts, relative as `recording`.
        kubectl: the command that reaches the cluster after the run; none if it ends with the run.
        cluster: the provider and name of the further cluster of its wait; empty for the run's own.
    """

    __test__ = False

    id: str
    run: str
    test: str
    outcome: str
    ended: Seconds
    seconds: Seconds = 0.0
    shard: str = ""
    worker: str = ""
    text: str = ""
    recording: str = ""
    playback: Playback | None = None
    explored: dict[str, Any] | None = None
    headline: str = ""
    phase: str = ""
    place: str = ""
    step: str = ""
    namespaces: list[str] = []
    folder: str = ""
    kubectl: list[str] = []
    cluster: str = ""


class RunRecord(msgspec.Struct, omit_defaults=True):
    """One run of pytest.

    Args:
        id: globally unique.
        name: the run id that names its namespaces.
        started: when it began, in seconds since the epoch.
        ended: when its report was written; None if the run was killed.
        shard: its shard as `I/N`; empty for an unsharded run.
        cluster: the source of its cluster; empty if it used none.
        exit_status: pytest's; None if the run was killed.
        tests: the number of tests by outcome.
        lost: records that could not be written, and why; empty if none.
        waits_left_out: the number of waits that exceed the report's limit.
        evidence_left_out: the number of waits without their evidence.
        playbacks_left_out: the number of recorded tests without their playback.
        commit: the commit of the suite, with `-dirty` if files differ from it; empty if unknown.
        passed: the ids of passed tests that have no record of their own, sorted.
    """

    id: str
    name: str
    started: Seconds
    ended: Seconds | None = None
    shard: str = ""
    cluster: str = ""
    exit_status: int | None = None
    tests: dict[str, int] = {}
    lost: str = ""
    waits_left_out: int = 0
    evidence_left_out: int = 0
    playbacks_left_out: int = 0
    commit: str = ""
    passed: list[str] = []


def record_ended_wait(wait: ActiveWait, id: str, run: str, started: float) -> WaitRecord:
    """Return the redacted record of a finished wait.

    Args:
        run: the id of the run.
        started: when it began, in seconds since the epoch.
    """
    timeline = wait.timeline
    return WaitRecord(
        id=id,
        run=run,
        subject=truncate_middle(wait.hide(wait.subject), _MAX_LINE),
        goal=truncate_middle(wait.hide(wait.goal), _MAX_LINE),
        started=round(started, 3),
        seconds=wait.seconds,
        outcome=wait.outcome,
        retries=wait.retries,
        trouble=truncate_middle(wait.hide(wait.trouble), _MAX_LINE) if wait.trouble else "",
        inner=wait.inner,
        step=truncate_middle(wait.hide(wait.step), _MAX_LINE),
        changes=[
            RecordedVerdict(round(change.at, 3), truncate_middle(wait.hide(change.text), _MAX_LINE))
            for change in (*timeline.first, *timeline.latest)
        ],
        left_out=timeline.left_out,
        name=wait.call.name,
        site=wait.call.site,
        precondition=wait.call.is_precondition,
        limit=round(wait.limit, 3),
        limit_name=wait.call.limit_name,
        first_look=wait.met_at_first_look,
    )


def record_holding(holding: Holding | None) -> AuditRecord | None:
    """Return the record of an observation; None if it has not ended."""
    if holding is None:
        return None
    return AuditRecord(
        holding.unchecked, holding.broke_after, truncate_middle(holding.reason, _MAX_LINE)
    )


def record_explanation(id: str, report: WaitReport) -> Explanation:
    """Return the evidence of an unsuccessful wait."""
    facts = msgspec.to_builtins(
        {
            name: value
            for name, value in report.evidence.items()
            # Already in the wait's own record.
            if name not in {"subject", "goal", "timeline", "timeline_left_out", "outcome"}
        }
    )
    evidence: dict[str, Any] = {}
    for items, length in _BOUNDS:
        evidence = limit_size(facts, items, length)
        if len(msgspec.json.encode(evidence)) <= _MAX_EVIDENCE:
            break
    return Explanation(
        id,
        truncate_middle(report.headline, 2 * _MAX_LINE),
        truncate_middle(report.render(), _MAX_TEXT),
        evidence,
    )


def limit_size(value: Any, items: int, length: int) -> Any:
    """Return JSON values with short lists and texts.

    The number of omitted entries of an object's list is stored next to it, in `…_left_out`.

    Args:
        value: decoded JSON.
        items: maximum entries of a list.
        length: maximum characters of a text.
    """
    if isinstance(value, str):
        return truncate_middle(value, length)
    if isinstance(value, (list, tuple)):
        return [limit_size(element, items, length) for element in value[:items]]
    if isinstance(value, dict):
        parts = {str(key): limit_size(element, items, length) for key, element in value.items()}
        for key, element in value.items():
            if isinstance(element, (list, tuple)) and len(element) > items:
                parts[f"{key}_left_out"] = len(element) - items
        return parts
    return value


def limit_failure_text(text: str, hide: Callable[[str], str]) -> str:
    """Return pytest's failure text, redacted and bounded."""
    # Values first: a truncated one is no longer recognized. The forms take longer.
    text = SECRET_VALUES.mask(text)
    return truncate_middle(hide(truncate_middle(text, 4 * _MAX_TEXT)), _MAX_TEXT)


def truncate_middle(text: str, limit: int) -> str:
    """Truncate the middle of a text to about `limit` characters, and count the omission."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


class WaitStarted(msgspec.Struct, omit_defaults=True):
    """The start of a wait, in case its end is never recorded."""

    id: str
    run: str
    subject: str
    goal: str
    started: Seconds
    shard: str = ""
    worker: str = ""
    test: str = ""


class NamespaceUse(msgspec.Struct, omit_defaults=True):
    """A process starts or stops using a namespace.

    Args:
        cluster: the name of the further cluster that it is in; empty for the run's own.
    """

    namespace: str
    left: bool = False
    provider: str = ""
    kubeconfig: str = ""
    context: str | None = None
    cluster: str = ""


class PlayedTest(msgspec.Struct, omit_defaults=True):
    """The playback of a test that is not over yet.

    Args:
        run: the id of its run's record.
        test: the test's own id.
        worker: the worker of pytest-xdist.
        playback: its playback, up to now.
    """

    run: str
    test: str
    worker: str
    recording: str
    playback: Playback


class AuditedWait(msgspec.Struct, omit_defaults=True):
    """The audit of a wait, which ends after it."""

    id: str
    audit: AuditRecord


class CaughtWaits(msgspec.Struct, omit_defaults=True):
    """Waits that did not succeed and did not fail their test, which ends after them."""

    ids: list[str]


class JournalEntry(msgspec.Struct, omit_defaults=True):
    """The types of journal lines."""

    run: RunRecord | None = None
    begun: WaitStarted | None = None
    wait: WaitRecord | None = None
    explained: Explanation | None = None
    audited: AuditedWait | None = None
    caught: CaughtWaits | None = None
    test: TestRecord | None = None
    played: PlayedTest | None = None
    place: NamespaceUse | None = None


_decoder = msgspec.json.Decoder(JournalEntry)


class Journal:
    """The journal file of one process; thread-safe.

    Args:
        path: the file; created, or appended to.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._broken = False
        self.lost = ""
        """Why writing stopped; empty while it works."""

    def write(self, entry: JournalEntry) -> None:
        """Append a line; a write error drops it and fails no test."""
        line = encode_json(entry) + b"\n"
        with self._lock:
            if self.lost:
                return
            # End a partial line, so that it does not corrupt the next one.
            line = b"\n" + line if self._broken else line
            self._broken = True
            try:
                self._broken = os.write(self._file, line) < len(line)
            except OSError as error:
                self.lost = f"{self.path}: {error.strerror}"

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self.lost = self.lost or f"{self.path}: closed"
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def read_entries(path: Path) -> Iterator[JournalEntry]:
    """Yield the lines of a journal, except one truncated by a killed process.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            with suppress(msgspec.DecodeError):
                yield _decoder.decode(line)


class WaitRecorder(WaitObserver):
    """Writes waits to a journal as they start, end and are explained.

    Args:
        run: the id of the run's record.
        shard: the run's shard; may be empty.
        worker: the worker of pytest-xdist; may be empty.
        test: returns the id of the running test; empty between tests.
    """

    def __init__(
        self, journal: Journal, run: str, shard: str, worker: str, test: Callable[[], str]
    ) -> None:
        self.journal = journal
        self.run = run
        self._shard = shard
        self._worker = worker
        self._test = test
        self._numbers = itertools.count(1)
        self._begun: dict[int, WaitStarted] = {}
        self._ended: WeakKeyDictionary[ActiveWait, str] = WeakKeyDictionary()
        self._unsuccessful: list[tuple[int, WaitStarted]] = []
        """The numbers and starts of those in the present phase of a test."""

    def on_start(self, wait: ActiveWait) -> None:
        """Record the start of a wait, in case this process crashes during it."""
        clock = wait.deadline.clock
        # A wait may have used part of its limit before this call.
        before = max(clock.monotonic() - wait.started, 0.0)
        begun = self._begun[id(wait)] = WaitStarted(
            id=f"{self.run}.{self._worker or 'main'}.{next(self._numbers)}",
            run=self.run,
            subject=wait.hide(wait.subject),
            goal=wait.hide(wait.goal),
            started=round(clock.time() - before, 3),
            shard=self._shard,
            worker=self._worker,
            test=self._test(),
        )
        self.journal.write(JournalEntry(begun=begun))

    def on_end(self, wait: ActiveWait) -> None:
        """Record the end of a wait."""
        begun = self._begun.pop(id(wait), None)
        if begun is None:
            return
        if wait.outcome != "met":
            self._unsuccessful.append((wait.number, begun))
            # The verdicts of one that is met show no output of a container.
            wait.learn_secrets(1.0)
        record = record_ended_wait(wait, begun.id, self.run, begun.started)
        record.shard, record.worker, record.test = begun.shard, begun.worker, begun.test
        self.journal.write(JournalEntry(wait=record))
        self._ended[wait] = begun.id

    def on_change(self, wait: ActiveWait) -> None:
        """Record the evidence of a failed wait, or the audit of a met one."""
        id = self._ended.pop(wait, None)
        if id is None:
            return
        if wait.report is not None:
            self.journal.write(JournalEntry(explained=record_explanation(id, wait.report)))
        audit = record_holding(wait.holding)
        if audit is not None:
            self.journal.write(JournalEntry(audited=AuditedWait(id, audit)))

    def record_caught(self, test: str, raised: Collection[int]) -> None:
        """Record which unsuccessful waits of a phase did not fail the test.

        Args:
            test: the test's id.
            raised: the numbers of the waits whose errors failed it.
        """
        waits, self._unsuccessful = self._unsuccessful, []
        ids = [begun.id for number, begun in waits if begun.test == test and number not in raised]
        if ids:
            self.journal.write(JournalEntry(caught=CaughtWaits(ids)))
