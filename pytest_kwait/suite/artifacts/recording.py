"""The recording of a test: the history of its namespaces, with its waits, steps and failure.

It is made of journals, which an embedded cluster or `history` keeps; `protocol.recording` has
their format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, learn_namespace, learn_secrets
from pytest_kwait.simulator.protocol.recording.files import (
    VERSION,
    RawLine,
    RecordingHeader,
    encode_recording,
    fold,
)
from pytest_kwait.simulator.protocol.recording.journal import hide_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline
    from pytest_kwait.suite.report.records import WaitRecord, WaitStarted

FILE_NAME = "recording.jsonl.gz"
"""The name of the file in the folder of a test's artifacts."""

FILE_PATTERN = "recording*.jsonl.gz"
"""The names of such files, those of further clusters too."""

SECRETS_TIMEOUT = 2.0
"""Maximum seconds of a list of Secrets."""


def make_file_name(cluster: str) -> str:
    """Return the name of the file of a further cluster, or of the run's own for an empty name."""
    return FILE_NAME.replace(".", f"-{cluster}.", 1) if cluster else FILE_NAME


def find_recording(folder: Path, cluster: str) -> Path | None:
    """Return the recording in the folder of a test: of the cluster it failed on, or the first one.

    Args:
        cluster: the name of the further cluster; any other text for the run's own.
    """
    preferred = folder / make_file_name(cluster)
    own = folder / FILE_NAME
    found = sorted(folder.glob(FILE_PATTERN))
    return next((path for path in (preferred, own, *found) if path in found), None)


@dataclass
class RecordedTest:
    """A test to record; times are seconds since the epoch.

    Args:
        test: its id.
        namespaces: its namespaces, its own first.
        started: when its setup began; None for the start of its namespaces.
        run: the id of its run.
        worker: the worker of pytest-xdist; empty without.
        version: the version of the cluster.
        time_scale: the duration of its controllers' work relative to a real cluster's.
        failed: when it failed; None if it did not.
        phase: the phase that failed.
        headline: the failure in one line.
        steps: its steps, each with its start.
        waits: its finished waits.
        begun: its unfinished waits.
    """

    test: str
    namespaces: list[str]
    started: float | None = None
    run: str = ""
    worker: str = ""
    version: str = ""
    time_scale: float = 1.0
    failed: float | None = None
    phase: str = ""
    headline: str = ""
    steps: list[tuple[float, str]] = field(default_factory=list)
    waits: list[WaitRecord] = field(default_factory=list)
    begun: list[WaitStarted] = field(default_factory=list)


def learn_secret_values(
    session: ApiSession,
    namespaces: Iterable[str],
    deadline: Deadline,
    report: Callable[[str], object],
) -> None:
    """Mask the present values of Secrets, from a list for each namespace, and those of the run.

    Args:
        deadline: when all lists end.
        report: called with each problem.
    """
    for name in namespaces:
        error = learn_namespace(session, name, 0.0, deadline.at_most(SECRETS_TIMEOUT))
        if error is not None:
            report(f"values of Secrets in {name} are hidden only if the run knows them: {error}")
    learn_secrets(session, (), limit=deadline.at_most(SECRETS_TIMEOUT).remaining)
    if SECRET_VALUES.is_full:
        report("values of further Secrets are not hidden: there are too many")


def hide_secret_values(lines: Iterable[RawLine]) -> None:
    """Hide values of Secrets in objects and logs; names, labels and selectors stay."""
    for line in lines:
        if line.type == "LOG":
            line.text = SECRET_VALUES.mask(line.text)
        else:
            line.object = msgspec.Raw(hide_values(bytes(line.object), SECRET_VALUES))


def make_recording(
    history: Sequence[RawLine],
    recorded: RecordedTest,
    now: float,
    redact: Callable[[str], str],
) -> bytes:
    """Return the recording of a test as the contents of a file.

    Args:
        history: the history of its namespaces up to now, ordered by time, in seconds since the
            epoch.
        now: the end of the recording.
        redact: redacts texts: logs, waits, steps and the failure.
    """
    started = recorded.started
    if started is None:
        own = set(recorded.namespaces)
        times = [line.at for line in history if line.key.rpartition("/")[0] in own]
        started = min(times, default=now)
    lines = fold(history, started)
    for line in lines:
        if line.type == "LOG":
            line.text = redact(line.text)
    lines += _own_lines(recorded, started, redact)
    # Stable: what happened at the same time stays in its order.
    lines.sort(key=lambda line: line.at)
    header = RecordingHeader(
        VERSION,
        round(started, 6),
        recorded.test,
        recorded.namespaces,
        recorded.version,
        recorded.run,
        recorded.worker,
        recorded.time_scale,
    )
    end = max((line.at for line in lines), default=0.0)
    return encode_recording(header, lines, max(end, now - started))


def _own_lines(
    recorded: RecordedTest, started: float, redact: Callable[[str], str]
) -> list[RawLine]:
    """Return the lines about the test itself."""

    def at(moment: float) -> float:
        return round(max(moment - started, 0.0), 6)

    lines = [RawLine(at(moment), "STEP", text=redact(name)) for moment, name in recorded.steps]
    lines += [
        RawLine(
            at(wait.started),
            "WAIT",
            text=redact(wait.subject),
            goal=redact(wait.goal),
            seconds=wait.seconds,
            outcome=wait.outcome,
            step=redact(wait.step),
            changes=[(change.at, redact(change.text)) for change in wait.changes],
        )
        for wait in recorded.waits
    ]
    lines += [
        RawLine(
            at(wait.started),
            "WAIT",
            text=redact(wait.subject),
            goal=redact(wait.goal),
            outcome="unfinished",
        )
        for wait in recorded.begun
    ]
    if recorded.failed is not None:
        failure = RawLine(at(recorded.failed), "FAILURE", outcome=recorded.phase)
        failure.text = redact(recorded.headline)
        lines.append(failure)
    return lines
