"""An artifact folder: portable file names, redacted contents, bounded size."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import TYPE_CHECKING, Literal

from pytest_kwait.engine.failure.redaction import SECRET_VALUES, redact_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_FOLDER_SIZE = 32 * 1024 * 1024
"""Maximum bytes of the files of one folder."""

MAX_FILE_SIZE = 4 * 1024 * 1024
"""Maximum bytes of one file."""

PROBLEMS_FILE = "problems.txt"

_MAX_NAME_LENGTH = 80
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names of Windows, which are reserved with any ending."""


def make_portable_name(text: str) -> str:
    """Return a unique name for a file that is valid on every file system.

    A valid name is returned unchanged.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_MAX_NAME_LENGTH].strip("-. ")
    # Some file systems ignore case.
    if plain and plain == text.lower() and not _RESERVED.fullmatch(plain):
        return plain
    return "-".join(filter(None, (plain, _digest(text))))


def make_folder_name(test: str, *, worker: str = "", shard: str = "", attempt: int = 1) -> str:
    """Return a readable, unique folder name for each test, place and attempt.

    Args:
        test: its node id.
        worker: the xdist worker that it ran on; empty without xdist.
        shard: the run's shard; empty without shards.
        attempt: 2 when it was run again.
    """
    title = re.sub(r"[^A-Za-z0-9_]+", "-", test.replace(".py::", "::"))[:_MAX_NAME_LENGTH].strip(
        "-"
    )
    again = f"attempt-{attempt}" if attempt > 1 else ""
    place = re.sub(r"[^a-z0-9]+", "-", shard.lower()).strip("-")
    return "-".join(filter(None, (title, _digest(test), place, worker, again)))


def create_folder(parent: Path, name: str) -> Path:
    """Create a folder, with a number appended if the name is taken.

    Args:
        parent: created if needed.

    Raises:
        OSError: it cannot be created.
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
    """A folder for texts; errors are recorded, never raised.

    Thread-safe.

    Args:
        path: the folder, created with the first file.
        redact: redacts secrets in a text.
        size: maximum bytes of its files.
    """

    def __init__(
        self, path: Path, redact: Callable[[str], str], *, size: int = MAX_FOLDER_SIZE
    ) -> None:
        self.path = path
        self.redact = redact
        self.trouble = ""
        """Why nothing can be written, e.g. a full disk; empty while writing works."""
        self.problems: list[str] = []
        """Errors and omissions."""
        self._texts: list[Path] = []
        self._left = size
        self._size = size
        self._lock = threading.Lock()

    def problem(self, text: str) -> None:
        """Record a problem."""
        with self._lock:
            self.problems.append(" ".join(redact_log(text, self.redact).split()))

    def write(
        self,
        name: str,
        text: str,
        *,
        keep: Literal["start", "end"] = "start",
        limit: int = MAX_FILE_SIZE,
        redacted: bool = False,
    ) -> None:
        """Write a file; if the name is taken, a number is appended.

        Args:
            name: the file's path in the folder.
            text: the content before redaction.
            keep: the part of a long text to keep.
            limit: maximum bytes.
            redacted: whether the text is redacted already.
        """
        shown = text if redacted else redact_log(text, self.redact)
        content = shown.encode("utf-8", "backslashreplace")
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
            end_name = "first" if keep == "start" else "last"
            note = f"# cut: the {end_name} {allowed} of {len(content)} bytes\n".encode()
            content = note + part
        try:
            path = self._write_file(name, content)
            with self._lock:
                self._texts.append(path)
        except OSError as error:
            self.trouble = self.trouble or str(error)

    def write_bytes(self, name: str, content: bytes) -> str:
        """Write a whole file that holds no secrets, or nothing; return its path.

        A file of that name is replaced.

        Args:
            name: the file's path in the folder.

        Returns:
            its path; empty if the folder is full or cannot be written to.
        """
        path = self.path.joinpath(*name.split("/"))
        try:
            with self._lock:
                known = path.stat().st_size if path.exists() else 0
                if len(content) - known > self._left:
                    self.problems.append(
                        f"{name} is left out: its {len(content)} bytes exceed the folder's "
                        f"{self._size}"
                    )
                    return ""
                self._left -= len(content) - known
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f"{path.name}.new")
                try:
                    new.write_bytes(content)
                    new.replace(path)
                finally:
                    new.unlink(missing_ok=True)
            return str(path)
        except OSError as error:
            self.trouble = self.trouble or str(error)
            return ""

    def hide_new_values(self) -> None:
        """Hide values of Secrets that were learned after their texts had been written.

        A log is read after a list of Secrets: a Secret may come in between.
        """
        with self._lock:
            texts = [*self._texts]
        for path in texts:
            try:
                text = path.read_bytes().decode("utf-8", "replace")
                masked = SECRET_VALUES.mask(text)
                if masked != text:
                    path.write_bytes(masked.encode())
            except OSError as error:
                self.trouble = self.trouble or str(error)

    def finish(self) -> None:
        """Write the recorded problems and omissions, if any."""
        with self._lock:
            lines, self.problems = sorted(self.problems), []
        if lines:
            # Even if the folder is full.
            self._left = max(self._left, MAX_FILE_SIZE)
            self.write(PROBLEMS_FILE, "".join(f"{line}\n" for line in lines), redacted=True)

    def _write_file(self, name: str, content: bytes) -> Path:
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
                return path


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
