"""Programs of other users, intercepted without the right to trace all processes (CAP_SYS_PTRACE).

The kernel lets a process look into another one of the same user and group that may be dumped. So
this process has a thread's user and group as long as it looks into it. A thread that has changed
its own makes its process dumpable again before it goes on.

Source: kernel/ptrace.c, `__ptrace_may_access`; kernel/cred.c, `commit_creds`; kernel/sys.c;
security/commoncap.c, `cap_ptrace_access_check`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Continue,
    Failure,
    Result,
    as_signed,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Condition
from pytest_kwait.simulator.runtimes.processes.system_calls import (
    has_capability,
    use_permitted_capabilities,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

# Source: include/uapi/linux/prctl.h, capability.h.
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_SIGKILL = 9
_CAP_SETGID, _CAP_SETUID = 6, 7
_UNCHANGED = -1
_STATUS_BYTES = 65536


def can_set_users() -> bool:
    """Return whether this process may give programs any user and group."""
    return os.geteuid() == 0 and has_capability("SETUID") and has_capability("SETGID")


@cache
def takes_users() -> bool:
    """Return whether this process may set users of programs, and trace them as their user alone."""
    return can_set_users() and not has_capability("SYS_PTRACE")


@contextlib.contextmanager
def as_user_of(thread: int) -> Iterator[None]:
    """Have the user and group of a thread, where they are needed to look into it.

    It resets the signal that follows the end of this process' parent.

    Raises:
        OSError: the thread has ended.
    """
    own = (os.geteuid(), os.getegid())
    theirs = own
    if takes_users():
        status = os.stat(f"/proc/{thread}")
        theirs = (status.st_uid, status.st_gid)
    if theirs == own:
        yield
        return
    os.setresgid(theirs[1], theirs[1], own[1])
    try:
        os.setresuid(theirs[0], theirs[0], own[0])
        # Those of the program must be among them.
        use_permitted_capabilities()
        yield
    finally:
        os.setresuid(own[0], own[0], own[0])
        os.setresgid(own[1], own[1], own[1])


def read_process_link(thread: int, path: bytes) -> bytes:
    """Return the text of a link below /proc that is about a thread's process.

    Raises:
        OSError: there is no such link.
    """
    with as_user_of(thread):
        return os.readlink(path)


class Ids(NamedTuple):
    """The users of a thread, or its groups."""

    real: int
    effective: int
    saved: int


def find_next_ids(
    name: str, arguments: tuple[int, ...], ids: Ids, *, has_capability: bool = False
) -> Ids:
    """Return the ids of a thread after a system call that sets them.

    Args:
        name: of the call.
        arguments: those of the call.
        ids: those before it.
        has_capability: whether it may set any.
    """
    given = [as_signed(argument) for argument in arguments]
    if name in ("setuid", "setgid"):
        return Ids(*given[:1] * 3) if has_capability else ids._replace(effective=given[0])
    if name in ("setreuid", "setregid"):
        real, effective = (
            before if number == _UNCHANGED else number
            for number, before in zip(given[:2], ids[:2], strict=True)
        )
        is_saved = given[0] != _UNCHANGED or given[1] not in (_UNCHANGED, ids.real)
        return Ids(real, effective, effective if is_saved else ids.saved)
    if name in ("setresuid", "setresgid"):
        return Ids(
            *(
                before if number == _UNCHANGED else number
                for number, before in zip(given[:3], ids, strict=True)
            )
        )
    return ids  # those of files alone


class SetUserCalls:
    """Answers calls by which programs change their user or group, or hide their memory.

    A program whose real, effective and saved user would differ cannot be intercepted any more: that
    is refused.
    """

    _USERS = ("setuid", "setreuid", "setresuid", "setfsuid")
    _GROUPS = ("setgid", "setregid", "setresgid", "setfsgid")

    CAUGHT: Mapping[str, Conditions] = {
        **dict.fromkeys((*_USERS, *_GROUPS), ()),
        "prctl": (Condition(0, (_PR_SET_DUMPABLE,)), Condition(1, (1,), is_excluded=True)),
    }
    """The system calls that need an answer."""

    def __init__(self) -> None:
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = {
            **dict.fromkeys((*self._USERS, *self._GROUPS), self._answer_set),
            # It stays dumpable.
            "prctl": lambda _: Result(),
        }

    def _answer_set(self, call: SystemCall) -> Answer:
        is_group = call.name in self._GROUPS
        status = _read_status(call.thread)
        ids = Ids(*(int(word) for word in status[b"Gid" if is_group else b"Uid"].split()[:3]))
        number = _CAP_SETGID if is_group else _CAP_SETUID
        has_capability = bool(int(status[b"CapEff"], 16) >> number & 1)
        after = find_next_ids(call.name, call.arguments, ids, has_capability=has_capability)
        if len(set(after)) > 1:
            return Failure(errno.EPERM)
        calls = [("prctl", (_PR_SET_DUMPABLE, 1))]
        if int(status[b"PPid"]) == os.getpid():
            # A change of user resets it.
            calls.append(("prctl", (_PR_SET_PDEATHSIG, _SIGKILL)))
        return Continue(followed_by=tuple(calls))


def _read_status(thread: int) -> dict[bytes, bytes]:
    """Return the lines of a thread's status by their names."""
    fd = os.open(f"/proc/{thread}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, _STATUS_BYTES)
    finally:
        os.close(fd)
    return dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)
