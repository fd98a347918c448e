"""What a process has recorded, in a file that outlives it: a line for each thing.

A line is written by one call to the system and is then the system's: a process that is killed loses
nothing that was over before. Each process has a file of its own. For a report the controller makes
one of all files of its run, and `kwait report merge` does it where the controller was killed as
well; for artifacts it reads in the file of a worker that died what its test was at.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.suite.report.records import Explanation, RunRecord, TestRecord, WaitRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "JOURNAL_SUFFIX",
    "Journal",
    "JournalEntry",
    "NamespaceUse",
    "WaitStarted",
    "read_entries",
]

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
