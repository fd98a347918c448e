"""Private temporary folders, and removal of those that killed processes have left.

A folder's owner holds a lock on a file in it, which the system releases however the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "kwait-"
_LOCK_FILE = "owner"
_credentials: list[TempDir] = []
_credentials_lock = threading.Lock()


class TempDir:
    """A folder that only this user can read, removed at the latest when the process ends.

    A forked process does not remove it. If the process is killed, the next one that creates a
    folder does, or its run when it ends.

    Args:
        prefix: the start of its name, after `kwait-`.
    """

    def __init__(self, prefix: str = "") -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX + prefix))
        lock = _lock_new(self.path)
        self._finalizer = weakref.finalize(self, _remove_own_folder, self.path, lock, os.getpid())
        remove_abandoned_folders()

    def remove(self) -> None:
        """Remove the folder and its contents; idempotent."""
        self._finalizer()


def credentials_folder() -> str:
    """Return the folder in which the official client writes certificates and keys of kubeconfigs.

    There is one per process, until its end: the client writes the same content only once.
    """
    with _credentials_lock:
        if not _credentials:
            _credentials.append(TempDir("credentials-"))
            # Also where this module is imported anew, and the client's is not.
            atexit.register(_credentials[0].remove)
        return str(_credentials[0].path)


def remove_abandoned_folders() -> None:
    """Remove the folders of this user's dead processes, as far as that is possible."""
    for path in abandoned_folders():
        remove_folder(path)


def remove_folder(path: Path) -> None:
    """Remove a folder, its lock file last: after an interrupt it still counts as abandoned."""
    with contextlib.suppress(OSError):
        for entry in path.iterdir():
            if entry.name == _LOCK_FILE:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def abandoned_folders() -> Iterator[Path]:
    """Yield the folders of this user's dead processes; each is locked while it is handled."""
    try:
        paths = sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    except OSError:
        return
    for path in paths:
        try:
            if path.is_symlink() or path.lstat().st_uid != os.getuid():
                continue
            # Never created here: a folder without the file is new, or of something else.
            lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
        else:
            yield path
        finally:
            os.close(lock)


def _lock_new(folder: Path) -> int | None:
    """Lock a new folder; None where the file system has no locks."""
    new = folder / f"{_LOCK_FILE}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, f"{os.getpid()}\n".encode())
        # Only a file that is locked already has its final name.
        new.rename(folder / _LOCK_FILE)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove_own_folder(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() != owner:
        return
    try:
        remove_folder(path)
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                os.close(lock)
