"""Paths of Unix sockets: short ones that the kernel takes, and the names that programs see.

An address has space for 107 bytes of a path, and a path on the machine is longer than the
container's. So a socket is bound through a link to its folder. A second link beside that one has
the path as the program has given it: that is the name that the socket has for all of the cluster.

Source: man 7 unix; include/uapi/linux/un.h.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import make_error
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import AT_FDCWD

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.file_system import FileSystem

UNIX_PATH_BYTES = 108
"""The space for a path and the zero after it."""
_FOLDER_MODE = 0o711
_MAX_KEPT = 1024
_NAME_SUFFIX = b"-name"
# What this module binds sockets to: a link, and an entry of the folder behind it.
_BOUND = re.compile(rb"(.*/[0-9]+)/[^/]+", re.DOTALL)


class SocketPath(NamedTuple):
    """A path of the machine for the address of a socket.

    Args:
        path: the path, of less than `UNIX_PATH_BYTES` bytes.
        on_return: called with the result of the call: a number, or a negative errno. None to do
            nothing.
    """

    path: bytes
    on_return: Callable[[int], None] | None = None


class SocketPaths:
    """The paths of the Unix sockets of a container.

    Args:
        files: the container's files.
        folder: folder for links, with a short path; created where it is missing. Those of other
            containers may be in it, too.
    """

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = os.fsencode(os.path.realpath(folder))
        self._links: dict[tuple[bytes, bytes], bytes] = {}
        os.makedirs(self._folder, exist_ok=True)
        with contextlib.suppress(PermissionError):
            os.chmod(self._folder, _FOLDER_MODE)

    def find(self, call: SystemCall, path: bytes, *, is_created: bool) -> SocketPath | None:
        """Return a path of the machine for one of a program.

        Args:
            call: the call that has it.
            path: the path.
            is_created: whether the call creates the socket.

        Returns:
            None if the kernel comes to the same place.

        Raises:
            OSError: it leads nowhere, cannot be created, or no path is short enough.
        """
        host = self._files.find_host_path(call, AT_FDCWD, path, is_created=is_created)
        if host is None:
            return None
        if not is_created:
            is_short = len(host) < UNIX_PATH_BYTES
            return SocketPath(host if is_short else self._link(host, b""))
        folder, _, name = host.rpartition(b"/")
        link = self._link(folder or b"/", path)
        bound = link + b"/" + name
        if len(bound) < UNIX_PATH_BYTES:
            return SocketPath(bound)
        temporary = b"." + os.path.basename(link)
        return SocketPath(
            _check_length(link + b"/" + temporary),
            partial(_rename_bound, folder + b"/" + temporary, host),
        )

    @staticmethod
    def find_name(bound: bytes) -> bytes | None:
        """Return the path by which a program has bound a socket; None if it is that one.

        Args:
            bound: the path by which the kernel knows it.
        """
        match = _BOUND.fullmatch(bound)
        if match is None:
            return None
        try:
            return os.readlink(bytes(match[1]) + _NAME_SUFFIX)
        except OSError:
            return None

    def _link(self, target: bytes, name: bytes) -> bytes:
        """Return the path of a link to a file or folder.

        Args:
            name: the name of a socket in that folder; empty for none.
        """
        link = self._links.get((target, name))
        if link is None:
            link = self._make_link(target)
            if name:
                os.symlink(name, link + _NAME_SUFFIX)
            if len(self._links) >= _MAX_KEPT:
                self._links.clear()
            self._links[target, name] = link
        return _check_length(link)

    def _make_link(self, target: bytes) -> bytes:
        number = len(self._links)
        while True:
            link = self._folder + b"/%d" % number
            try:
                os.symlink(target, link)
            except FileExistsError:
                number += 1
            else:
                return link


def _check_length(path: bytes) -> bytes:
    """Return a path, if it is short enough."""
    if len(path) >= UNIX_PATH_BYTES:
        raise make_error(errno.ENAMETOOLONG)
    return path


def _rename_bound(temporary: bytes, host: bytes, result: int) -> None:
    """Give a socket its name once it is bound."""
    if result >= 0:
        os.rename(temporary, host)
