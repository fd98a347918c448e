"""`failures.md` in the folder of artifacts: the distinct failures of a run.

It is made of the evidence in the folders of failed tests. Shards of one run that share a folder
share the file: each writes what all have left there so far.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from pytest_kwait.bounds import FileTooLargeError, read_limited
from pytest_kwait.engine.failure.redaction import redact_log
from pytest_kwait.suite.artifacts.folder import MAX_FILE_SIZE, make_portable_name
from pytest_kwait.suite.artifacts.recording import find_recording
from pytest_kwait.suite.report.failures import FailedPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

FILE_NAME = "failures.md"

_FIRST_LINE = b"# Failures\n"

_TEXT_SIZE = 256 * 1024
"""Maximum characters of a failure's text, which begins with the failure."""

_decoder = msgspec.json.Decoder(FailedPhase)


def read_failed_phases(folder: Path, show_path: Callable[[str], str]) -> list[FailedPhase]:
    """Return the failed phases of a test from the folder of its artifacts.

    Args:
        folder: the folder; it may be unreadable, as that of a worker on another machine.
        show_path: returns a path as it is shown.
    """
    phases = []
    for path in sorted(folder.glob("evidence*.json")):
        try:
            phase = _decoder.decode(read_limited(path, 2 * MAX_FILE_SIZE))
        except (OSError, FileTooLargeError, msgspec.DecodeError, UnicodeDecodeError):
            # It may have been cut to its maximum size.
            continue
        phase.folder = show_path(str(folder))
        # The provider and the name of a further cluster.
        recording = find_recording(folder, phase.cluster.rpartition(" ")[2])
        phase.recording = "" if recording is None else show_path(str(recording))
        if not phase.waits:
            name = path.name.replace("evidence", "failure", 1)
            phase.text = _read_text(path.with_name(name).with_suffix(".txt"))
        phases.append(phase)
    return phases


def find_shard_folders(parent: Path, run: str, known: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders of failed tests that other shards of a run have left.

    Args:
        parent: the folder of all artifacts.
        run: the id of the run.
        known: the folders of this process.
    """
    own = set(known)
    for path in sorted(parent.glob("*/evidence*.json")):
        if path.parent not in own:
            own.add(path.parent)
            phases = read_failed_phases(path.parent, str)
            if any(phase.run == run for phase in phases):
                yield path.parent


class FailuresFile:
    """The file of a run.

    Args:
        parent: the folder of all artifacts.
        run: the id of the run.
        started: when the run began, in seconds since the epoch.
        redact: redacts secrets.
    """

    def __init__(
        self, parent: Path, run: str, started: float, redact: Callable[[str], str]
    ) -> None:
        self._parent = parent
        self._run = run
        self._started = started
        self._redact = redact
        self.trouble = ""
        """Why it could not be written or removed; empty if nothing went wrong."""

    def write(self, text: str) -> str:
        """Write the file; return its path, empty if it cannot be written.

        The file of an earlier run is replaced. That of another one which is still running, or has
        ended meanwhile, stays: this one's has the id of its run in its name.
        """
        name = FILE_NAME
        if not self._is_replaceable(self._parent / name):
            name = f"failures-{make_portable_name(self._run)}.md"
        path = self._parent / name
        part = self._parent / f".{name}.{os.getpid()}"
        try:
            part.write_text(redact_log(text, self._redact), "utf-8", errors="backslashreplace")
            part.replace(path)
        except OSError as error:
            self.trouble = str(error)
            with contextlib.suppress(OSError):
                part.unlink()
            return ""
        return str(path)

    def remove_stale(self) -> None:
        """Remove the file of an earlier run."""
        path = self._parent / FILE_NAME
        try:
            if path.exists() and self._is_replaceable(path) and _is_ours(path):
                path.unlink()
        except OSError as error:
            self.trouble = str(error)

    def _is_replaceable(self, path: Path) -> bool:
        """Return whether a file is of this run, or older than it."""
        try:
            if path.stat().st_mtime < self._started:
                return True
            mark = f"`{self._run}`".encode()
            return mark in b"".join(path.read_bytes().splitlines(keepends=True)[:8])
        except OSError:
            return True


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_FIRST_LINE)) == _FIRST_LINE


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_SIZE)
    except OSError:
        return ""
