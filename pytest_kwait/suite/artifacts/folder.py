"""An artifact folder: portable file names, redacted contents, bounded size."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ArtifactFolder", "create_folder", "make_folder_name", "make_portable_name"]

MAX_FOLDER_SIZE = 32 * 1024 * 1024
"""Bytes that the files of one folder hold at most."""

MAX_FILE_SIZE = 4 * 1024 * 1024
"""Bytes that one file holds at most."""

PROBLEMS_FILE = "problems.txt"

_MAX_NAME_LENGTH = 80
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""What Windows takes for devices, with any ending."""


def make_portable_name(text: str) -> str:
    """Return a name for a file or folder that every file system takes; another for another text.

    What is such a name already stays as it is.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_MAX_NAME_LENGTH].strip("-. ")
    # Upper and lower case are the same to some file systems.
    if plain and plain == text.lower() and not _RESERVED.fullmatch(plain):
        return plain
    return "-".join(filter(None, (plain, _digest(text))))


def make_folder_name(test: str, *, worker: str = "", shard: str = "", attempt: int = 1) -> str:
    """Return the name of the folder of a test: readable, and one for each test, place and attempt.

    Args:
        test: its node id.
        worker: the xdist worker that it ran on; empty without xdist.
        shard: the part of the suite that it belongs to; empty without shards.
        attempt: 2 when it was run again.
    """
    title = re.sub(r"[^A-Za-z0-9_]+", "-", test.replace(".py::", "::"))[:_MAX_NAME_LENGTH].strip(
        "-"
    )
    again = f"attempt-{attempt}" if attempt > 1 else ""
    place = re.sub(r"[^a-z0-9]+", "-", shard.lower()).strip("-")
    return "-".join(filter(None, (title, _digest(test), place, worker, again)))


def create_folder(parent: Path, name: str) -> Path:
    """Make a folder that nobody else has, and return it: of that name, or with a number behind it.

    Args:
        parent: where; made if it is not there.
        name: what it is to be called.

    Raises:
        OSError: it cannot be made.
    """
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


class ArtifactFolder:
    """A folder that texts are written to; what cannot be written is noted, never raised.

    Safe to use from any thread.

    Args:
        path: the folder; made with the first file.
        redact: what takes out of a text what must not be shown.
        size: bytes that its files hold at most.
    """

    def __init__(
        self, path: Path, redact: Callable[[str], str], *, size: int = MAX_FOLDER_SIZE
    ) -> None:
        self.path = path
        self.redact = redact
        self.trouble = ""
        """Why nothing can be written, as of a full disk; empty as long as it can."""
        self.problems: list[str] = []
        """What could not be had, and what was left out."""
        self._left = size
        self._size = size
        self._lock = threading.Lock()

    def problem(self, text: str) -> None:
        """Note what could not be had."""
        with self._lock:
            self.problems.append(" ".join(self.redact(text).split()))

    def write(
        self,
        name: str,
        text: str,
        *,
        keep: Literal["start", "end"] = "start",
        limit: int = MAX_FILE_SIZE,
        redacted: bool = False,
    ) -> None:
        """Write a file; one that is there stays, and the new one gets a number behind its name.

        Args:
            name: of the file, with `/` between the folders on its way.
            text: what is written, after what must not be shown is taken out of it.
            keep: which part of a text that is too long.
            limit: how many bytes are too long.
            redacted: whether that has been taken out already.
        """
        content = (text if redacted else self.redact(text)).encode("utf-8", "backslashreplace")
        with self._lock:
            allowed = min(limit, self._left)
            if self._left < min(len(content), limit, 1024):
                self.problems.append(
                    f"{name} is left out: the files hold {self._size} bytes already"
                )
                return
            self._left -= min(len(content), allowed)
        if len(content) > allowed:
            part = content[:allowed] if keep == "start" else content[-allowed:]
            which = "first" if keep == "start" else "last"
            note = f"# cut: the {which} {allowed} of {len(content)} bytes\n".encode()
            content = note + part
        try:
            self._write_file(name, content)
        except OSError as error:
            self.trouble = self.trouble or str(error)

    def finish(self) -> None:
        """Write what could not be had and what was left out, if there is anything."""
        with self._lock:
            lines, self.problems = sorted(self.problems), []
        if lines:
            # However full the folder is.
            self._left = max(self._left, MAX_FILE_SIZE)
            self.write(PROBLEMS_FILE, "".join(f"{line}\n" for line in lines), redacted=True)

    def _write_file(self, name: str, content: bytes) -> None:
        path = self.path.joinpath(*name.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        stem, number = path.stem, 1
        while True:
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                number += 1
                path = path.with_name(f"{stem}-{number}{path.suffix}")
            else:
                return


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
