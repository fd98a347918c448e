"""Files that the server replaces and interceptors read, beside the table of addresses."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import count
from typing import Any


class SharedFileWriter:
    """Replaces a file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._versions = count(1)

    def write(self, content: object) -> None:
        """Replace the content, which JSON can have."""
        part = f"{self._path}.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump(content, file)
        # Two files may be written in one tick of the kernel's clock.
        version = next(self._versions)
        os.utime(part, ns=(version, version))
        os.replace(part, self._path)


class SharedFileReader:
    """Reads a file when it was replaced.

    Args:
        path: the file, which may not be there yet.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._version = 0

    def read_changed(self) -> Any:
        """Return the content; None if it is the one of the last call, or there is none."""
        with suppress(FileNotFoundError):
            version = os.stat(self._path).st_mtime_ns
            if version != self._version:
                with open(self._path, encoding="ascii") as file:
                    content = json.load(file)
                self._version = version
                return content
        return None
