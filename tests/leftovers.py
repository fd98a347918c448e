"""Tests leave nothing: no file in the folder for temporary files, and no process."""

from __future__ import annotations

import contextlib
import os
import tempfile
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNTIL_THE_PROCESS_ENDS = ("kwait-credentials-", "pymp-")
"""Folders of this process: certificates that the official client caches, and multiprocessing's."""

_END_TIMEOUT = "10s"


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
        names = [
            name
            for name in os.listdir(self._folder)  # noqa: PTH208 - before each test: no paths
            if not name.startswith(_UNTIL_THE_PROCESS_ENDS)
        ]
        return [f"{name}, after {self._tests.setdefault(name, self._last)}" for name in names]


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
    # An owned cluster ends with its pipe, a moment after its owner.
    with contextlib.suppress(wait.ErrWaitTimeout):
        wait.poll_immediate("20ms", _END_TIMEOUT, lambda: not find_processes(folder))
    left = [*find_processes(folder).values(), *leftovers.find()]
    if left:
        pytest.fail(f"tests have left in {folder}, or running: {'; '.join(left)}", pytrace=False)
