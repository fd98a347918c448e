"""Where a command's files lead while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.fds import FileEnd, OpenFile, open_path
from pytest_kwait.simulator.busybox.os.files import ENOENT, File, FileSystemError
from pytest_kwait.simulator.busybox.shell.variables import ShellExit

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_kwait.simulator.busybox.os.syscalls import Effect
    from pytest_kwait.simulator.busybox.shell.shell_state import ShellState
    from pytest_kwait.simulator.busybox.shell.tree import Redirect

__all__ = ["SavedFds", "open_redirects", "restore_fds"]

SavedFds = list[tuple[int, OpenFile | None]]
"""What was open under the numbers that were changed, in that order."""

_MODES = {"<": "r", ">": "w", ">|": "w", ">>": "a", "<>": "+", "&>": "w"}


def open_redirects(
    shell: ShellState, redirects: tuple[Redirect, ...]
) -> Generator[Effect, None, SavedFds | None]:
    """Open what redirections say; what was open before, None where that failed."""
    saved: SavedFds = []
    for redirect in redirects:
        opened_one = yield from _open_redirect(shell, redirect)
        if opened_one is False:
            restore_fds(shell, saved)
            return None
        for stream in (1, 2) if redirect.operator == "&>" else (redirect.stream,):
            saved.append((stream, shell.around.fds.pop(stream, None)))
            if isinstance(opened_one, OpenFile):
                shell.around.fds[stream] = opened_one.retain()
    return saved


def restore_fds(shell: ShellState, saved: SavedFds) -> None:
    """Have the files open again that were before."""
    fds = shell.around.fds
    for stream, before in reversed(saved):
        now = fds.pop(stream, None)
        if before is not None:
            fds[stream] = before
        if now is not None:
            now.release()
    saved.clear()


def _open_redirect(
    shell: ShellState, redirect: Redirect
) -> Generator[Effect, None, OpenFile | bool | None]:
    """The open file; None to close, False where that failed and has been told."""
    around, operator = shell.around, redirect.operator
    if operator in ("<<", "<<-"):
        try:
            text = yield from shell.expander.text(redirect.target)
        except ShellExit:
            # What would end the shell elsewhere is a document that cannot be opened here.
            return False
        data = text.encode(errors="surrogateescape")
        return FileEnd(File(data), None, around.now, "r")
    target = yield from shell.expander.text(redirect.target)
    if operator in (">&", "<&"):
        if target == "-":
            return None
        if target.isdigit():
            found = around.fds.get(int(target))
            if found is None:
                yield shell.make_message(f"{target}: Bad file descriptor")
                return False
            return found
        if operator == "<&":
            yield shell.make_message("ambiguous redirect")
            return False
    mode = _MODES.get(operator, "w")
    exclusive = "C" in shell.options and operator == ">"
    path = around.path(target) if target else ""
    try:
        if not path:
            raise FileSystemError(ENOENT)
        return open_path(
            around.files, path, mode, around.tasks.account, around.now, around.fds,
            exclusive=exclusive,
        )  # fmt: skip
    except FileSystemError as fault:
        why = str(fault)
        if mode == "r":
            why = "no such file" if why == ENOENT else why
            yield shell.make_message(f"can't open {target}: {why}")
        else:
            why = "nonexistent directory" if why == ENOENT else why
            yield shell.make_message(f"can't create {target}: {why}")
        return False
