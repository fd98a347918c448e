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
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_kwait.engine.active_waits import ActiveWait
    from pytest_kwait.engine.failure.report import WaitReport

__all__ = [
    "JOURNAL_SUFFIX",
    "UNFINISHED",
    "Explanation",
    "Journal",
    "JournalEntry",
    "NamespaceUse",
    "RunRecord",
    "TestRecord",
    "VerdictChange",
    "WaitRecord",
    "WaitRecorder",
    "WaitStarted",
    "limit_failure_text",
    "limit_size",
    "read_entries",
    "record_ended_wait",
    "record_explanation",
    "truncate_middle",
]

UNFINISHED = "unfinished"
"""The outcome of a wait whose process ended before it."""

_MAX_LINE = 500
_MAX_TEXT = 16_000
_MAX_EVIDENCE = 32_000
_BOUNDS = ((25, 500), (10, 200), (4, 120), (1, 60))
"""Entries of a list and characters of a text, until the evidence of a wait is small enough."""


class VerdictChange(msgspec.Struct, array_like=True, frozen=True):
    """A verdict that was not the one before: seconds since the wait began, and its words."""

    at: float
    text: str


class WaitRecord(msgspec.Struct, omit_defaults=True):
    """One wait that is over.

    Args:
        id: unlike that of any other wait of any run.
        run: the id of its run's record.
        subject: what it was about.
        goal: what was awaited of it, as a verb.
        started: when it began, in seconds since the epoch.
        seconds: how long it lasted.
        outcome: `met`, `failed early`, `timed out`, `error`, `interrupted` or `unfinished`.
        shard: the shard of the run; empty for a run of everything.
        worker: the worker of pytest-xdist; empty without.
        test: the id of the test that waited; empty outside of every test.
        retries: how many errors of the API it lived through.
        trouble: the last of them, or the one that ended it.
        inner: whether it was a part of another wait.
        changes: how its verdict changed; the first and the last changes.
        left_out: how many changes between them are not here.
        headline: why it did not come true, in one line.
        text: the whole message of a wait that did not come true.
        evidence: the same facts as JSON values.
    """

    id: str
    run: str
    subject: str
    goal: str
    started: float
    seconds: float
    outcome: str
    shard: str = ""
    worker: str = ""
    test: str = ""
    retries: int = 0
    trouble: str = ""
    inner: bool = False
    changes: list[VerdictChange] = []
    left_out: int = 0
    headline: str = ""
    text: str = ""
    evidence: dict[str, Any] = {}


class Explanation(msgspec.Struct, omit_defaults=True):
    """What became known of a wait that did not come true after it was over."""

    id: str
    headline: str
    text: str
    evidence: dict[str, Any] = {}


class TestRecord(msgspec.Struct, omit_defaults=True):
    """One attempt at a test.

    Args:
        id: unlike that of any other attempt of any run.
        run: the id of its run's record.
        test: the test's own id.
        outcome: `passed`, `failed`, `error` (of its setup or teardown), `skipped`, `xfailed` or
            `crashed` (its worker ended).
        ended: when it was over, in seconds since the epoch.
        seconds: how long its phases took.
        shard: the shard of the run.
        worker: the worker of pytest-xdist.
        text: what pytest says of its failure.
    """

    __test__ = False

    id: str
    run: str
    test: str
    outcome: str
    ended: float
    seconds: float = 0.0
    shard: str = ""
    worker: str = ""
    text: str = ""


class RunRecord(msgspec.Struct, omit_defaults=True):
    """One run of pytest.

    Args:
        id: unlike that of any other run.
        name: the run id that names its namespaces.
        started: when it began, in seconds since the epoch.
        ended: when its report was written; None if it never was: the run was killed.
        shard: its shard as `I/N`; empty for a run of everything.
        cluster: where its cluster came from; empty if it used none.
        exit_status: pytest's; None if the run was killed.
        tests: how many tests had which outcome.
        lost: what could not be recorded and why; empty for nothing.
        waits_left_out: how many of its waits a bounded report has no room for.
        evidence_left_out: of how many the evidence.
    """

    id: str
    name: str
    started: float
    ended: float | None = None
    shard: str = ""
    cluster: str = ""
    exit_status: int | None = None
    tests: dict[str, int] = {}
    lost: str = ""
    waits_left_out: int = 0
    evidence_left_out: int = 0


def record_ended_wait(wait: ActiveWait, id: str, run: str, started: float) -> WaitRecord:
    """Return the record of a wait that is over, with nothing in it that must not be shown.

    Args:
        wait: the wait.
        id: its id.
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
        seconds=round(max(wait.deadline.clock.monotonic() - wait.started, 0.0), 3),
        outcome=wait.outcome,
        retries=wait.retries,
        trouble=truncate_middle(wait.hide(wait.trouble), _MAX_LINE) if wait.trouble else "",
        inner=wait.inner,
        changes=[
            VerdictChange(round(change.at, 3), truncate_middle(wait.hide(change.text), _MAX_LINE))
            for change in (*timeline.first, *timeline.latest)
        ],
        left_out=timeline.left_out,
    )


def record_explanation(id: str, report: WaitReport) -> Explanation:
    """Return what is known of a wait that did not come true."""
    facts = msgspec.to_builtins(
        {
            name: value
            for name, value in report.evidence.items()
            # What the wait's own record has already.
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

    How many entries a list of an object lacks is said beside it, in `…_left_out`.

    Args:
        value: what decoded JSON is made of.
        items: how many entries a list may have.
        length: how many characters a text may have.
    """
    if isinstance(value, str):
        return truncate_middle(value, length)
    if isinstance(value, (list, tuple)):
        return [limit_size(each, items, length) for each in value[:items]]
    if isinstance(value, dict):
        parts = {str(key): limit_size(each, items, length) for key, each in value.items()}
        for key, each in value.items():
            if isinstance(each, (list, tuple)) and len(each) > items:
                parts[f"{key}_left_out"] = len(each) - items
        return parts
    return value


def limit_failure_text(text: str, hide: Callable[[str], str]) -> str:
    """Return what pytest says of a failure, bounded, with nothing that must not be shown."""
    return truncate_middle(hide(truncate_middle(text, 4 * _MAX_TEXT)), _MAX_TEXT)


def truncate_middle(text: str, limit: int) -> str:
    """Return a text of about `limit` characters; what its middle lacks is counted there."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


JOURNAL_SUFFIX = ".jsonl"
"""What the names of journals end with."""


class WaitStarted(msgspec.Struct, omit_defaults=True):
    """A wait that has begun, in case that nothing more is heard of it."""

    id: str
    run: str
    subject: str
    goal: str
    started: float
    shard: str = ""
    worker: str = ""
    test: str = ""


class NamespaceUse(msgspec.Struct, omit_defaults=True):
    """A namespace that the tests of a process work in from now on, or no more."""

    namespace: str
    left: bool = False
    provider: str = ""
    kubeconfig: str = ""
    context: str | None = None


class JournalEntry(msgspec.Struct, omit_defaults=True):
    """A line of a journal: one of these."""

    run: RunRecord | None = None
    begun: WaitStarted | None = None
    wait: WaitRecord | None = None
    explained: Explanation | None = None
    test: TestRecord | None = None
    place: NamespaceUse | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JournalEntry)


class Journal:
    """The file of one process; safe to use from any thread.

    Args:
        path: the file; made, or added to.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._broken = False
        self.lost = ""
        """Why nothing is written any more; empty as long as it is."""

    def write(self, entry: JournalEntry) -> None:
        """Add a line; what cannot be written is lost, and a test does not fail for it."""
        line = _encoder.encode(entry) + b"\n"
        with self._lock:
            if self.lost:
                return
            # Whatever broke off is ended, so that it takes no other line with it.
            line = b"\n" + line if self._broken else line
            self._broken = True
            try:
                self._broken = os.write(self._file, line) < len(line)
            except OSError as error:
                self.lost = f"{self.path}: {error.strerror}"

    def close(self) -> None:
        """Write nothing more."""
        with self._lock:
            self.lost = self.lost or f"{self.path}: closed"
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def read_entries(path: Path) -> Iterator[JournalEntry]:
    """Yield the lines of a journal; one that was cut off as its process was killed is none.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for line in file:
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError:
                continue


_MAX_UNEXPLAINED = 100
"""How many waits may be without an explanation at a time; the oldest then stay without."""


class WaitRecorder:
    """Writes what it hears of waits to a journal; keeps nothing but what is not over.

    Args:
        journal: where to.
        run: the id of the run's record.
        shard: the run's shard; may be empty.
        worker: this process among those of pytest-xdist; may be empty.
        test: returns the id of the test that runs; empty between tests.
    """

    def __init__(
        self, journal: Journal, run: str, shard: str, worker: str, test: Callable[[], str]
    ) -> None:
        self.journal = journal
        self._run = run
        self._shard = shard
        self._worker = worker
        self._test = test
        self._numbers = itertools.count(1)
        self._begun: dict[int, WaitStarted] = {}
        self._unexplained: deque[tuple[str, ActiveWait]] = deque(maxlen=_MAX_UNEXPLAINED)
        self._lock = threading.Lock()

    def on_start(self, wait: ActiveWait) -> None:
        """Write down that a wait has begun: should it be the last of this process, it is known."""
        self.explain()
        clock = wait.deadline.clock
        # A wait may have used a part of its limit before it is heard of.
        before = max(clock.monotonic() - wait.started, 0.0)
        begun = self._begun[id(wait)] = WaitStarted(
            id=f"{self._run}.{self._worker or 'main'}.{next(self._numbers)}",
            run=self._run,
            subject=wait.hide(wait.subject),
            goal=wait.hide(wait.goal),
            started=round(clock.time() - before, 3),
            shard=self._shard,
            worker=self._worker,
            test=self._test(),
        )
        self.journal.write(JournalEntry(begun=begun))

    def on_end(self, wait: ActiveWait) -> None:
        """Write down how a wait ended."""
        begun = self._begun.pop(id(wait), None)
        if begun is None:
            return
        record = record_ended_wait(wait, begun.id, self._run, begun.started)
        record.shard, record.worker, record.test = begun.shard, begun.worker, begun.test
        self.journal.write(JournalEntry(wait=record))
        if wait.outcome in ("failed early", "timed out"):
            with self._lock:
                self._unexplained.append((begun.id, wait))

    def explain(self) -> None:
        """Write down the evidence of waits that are over, as far as it has been gathered."""
        if not self._unexplained:
            return
        with self._lock:
            waits = list(self._unexplained)
            self._unexplained.clear()
            self._unexplained.extend(each for each in waits if each[1].report is None)
        for id, wait in waits:
            if wait.report is not None:
                self.journal.write(JournalEntry(explained=record_explanation(id, wait.report)))
