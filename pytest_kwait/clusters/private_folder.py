"""Private folders: where kubeconfigs and logs of a run live, and what is left of them: nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["TempDir"]


class TempDir:
    """A temporary folder that only this user can look into; gone at the latest with the process.

    A process that was forked from its owner leaves it alone.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kwait-"))
        self._finalizer = weakref.finalize(self, _remove_folder, self.path, os.getpid())

    def remove(self) -> None:
        """Remove the folder and all that is in it; nothing to do the second time."""
        self._finalizer()


def _remove_folder(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
