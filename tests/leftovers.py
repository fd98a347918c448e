"""Tests leave nothing: no file in the folder for temporary files, and no process."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from multiprocessing import resource_tracker
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNTIL_THE_PROCESS_ENDS = ("kwait-credentials-", "pymp-")
"""Folders of this process: certificates that the official client caches, and multiprocessing's."""

_OF_PYTEST = "pytest-of-"
"""The folder of `tmp_path`, of which pytest keeps those of three runs."""

_END_TIMEOUT = "10s"

_LAST = -1000
"""The priority of what multiprocessing does last as the process ends."""


def find_processes(folder: Path) -> dict[int, str]:
    """Return the processes whose temporary files are in the folder, with their commands.

    But for the one that multiprocessing has for semaphores, which ends with this process.
    """
    tracker: Any = resource_tracker._resource_tracker
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == tracker._pid:
            continue
        try:
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(process.name)] = command.decode(errors="replace")
        except OSError:  # it has just ended, or is another user's
            continue
    return found


def _await_processes(folder: Path) -> list[str]:
    """Return the commands of processes that do not end."""
    # An owned cluster ends with its pipe, a moment after its owner.
    with contextlib.suppress(wait.ErrWaitTimeout):
        wait.poll_immediate("20ms", _END_TIMEOUT, lambda: not find_processes(folder))
    return [*find_processes(folder).values()]


def _find_files(folder: Path) -> list[str]:
    # The official client removes certificates that it has written when this process ends.
    written = getattr(sys.modules.get("kubernetes.config.kube_config"), "_temp_files", {})
    kept = {os.path.basename(path) for path in written.values()}  # noqa: PTH119 - as below
    return [
        name
        for name in os.listdir(folder)  # noqa: PTH208 - before each test: no paths
        if not name.startswith((*_UNTIL_THE_PROCESS_ENDS, _OF_PYTEST)) and name not in kept
    ]


class _Leftovers:
    """Files in the folder for temporary files, with the test after which each was found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tests: dict[str, str] = {}
        self._last = "the first test"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.find()
        self._last = item.nodeid

    def find(self) -> list[str]:
        """Return the files that are there, each with its test."""
        return [
            f"{name}, after {self._tests.setdefault(name, self._last)}"
            for name in _find_files(self._folder)
        ]


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Tests have a folder for temporary files, which is empty after them; no process is left."""
    folder = tmp_path_factory.mktemp("t")  # short: paths of sockets are
    leftovers = _Leftovers(folder)
    pytestconfig.pluginmanager.register(leftovers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    pytestconfig.pluginmanager.unregister(leftovers)
    gc.collect()  # a folder goes with its owner, which may be in a cycle
    left = [*_await_processes(folder), *leftovers.find()]
    if left:
        pytest.fail(f"tests have left in {folder}, or running: {'; '.join(left)}", pytrace=False)


class LeftByRun:
    """The temporary files and processes of a run: its cluster's too, which ends after all tests."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="t"))
        # Programs of any user enter it.
        self._folder.chmod(0o711)
        self._session: pytest.Session | None = None
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        self._patch.setenv("TMPDIR", str(self._folder))
        self._patch.setattr(tempfile, "tempdir", str(self._folder))

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    # Last: after the cluster of the run has been stopped.
    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._patch.undo()
        gc.collect()  # as above
        left = [*_await_processes(self._folder), *_find_files(self._folder)]
        remove = Finalize(None, shutil.rmtree, (self._folder,), {"ignore_errors": True}, _LAST)
        # multiprocessing removes its own folder as the process ends, which must be there still.
        if not [*self._folder.glob("pymp-*")]:
            remove()
        if left and self._session is not None:
            sys.stderr.write(f"the run has left files, or processes: {'; '.join(left)}\n")
            self._session.exitstatus = self._session.exitstatus or pytest.ExitCode.TESTS_FAILED
