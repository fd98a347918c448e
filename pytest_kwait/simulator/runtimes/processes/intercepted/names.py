"""The names of its pod and its user that an intercepted program sees."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import (
    Failure,
    Result,
    as_signed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

# struct utsname of include/uapi/linux/utsname.h: six fields of 65 bytes.
_FIELD_BYTES = 65
_ID = struct.Struct("=I")
_UNCHANGED = -1


class HostNameCalls:
    """Answers calls of the names of a pod.

    Args:
        host_name: the host name.
        domain_name: the NIS domain name; empty without one.
    """

    def __init__(self, host_name: str, domain_name: str) -> None:
        self._host_name, self._domain_name = host_name, domain_name or "(none)"
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = {
            "uname": self._answer_uname,
            "sethostname": self._refuse,
            "setdomainname": self._refuse,
        }

    CAUGHT: Mapping[str, Conditions] = {"uname": (), "sethostname": (), "setdomainname": ()}
    """The system calls that need an answer."""

    def _answer_uname(self, call: SystemCall) -> Answer:
        own = os.uname()
        names = (
            own.sysname, self._host_name, own.release, own.version, own.machine, self._domain_name,
        )  # fmt: skip
        fields = [
            os.fsencode(name)[: _FIELD_BYTES - 1].ljust(_FIELD_BYTES, b"\0") for name in names
        ]
        call.memory.write(call.arguments[0], b"".join(fields))
        return Result()

    def _refuse(self, call: SystemCall) -> Answer:
        """Refuse to change the machine's name, as in a container without privileges."""
        del call
        return Failure(errno.EPERM)


class UserCalls:
    """Answers calls of the user, where the server may set none: it is shown as asked for.

    Source: man 7 user_namespaces, for what programs see whose namespace has one user.

    Args:
        user: the user.
        groups: the group, and the further ones.
    """

    def __init__(self, user: int, groups: tuple[int, ...]) -> None:
        self._groups = groups
        group = groups[0]
        self.answers: Mapping[str, Callable[[SystemCall], Answer]] = {
            "getuid": lambda _: Result(user),
            "geteuid": lambda _: Result(user),
            "getgid": lambda _: Result(group),
            "getegid": lambda _: Result(group),
            "getresuid": lambda call: _write_ids(call, user),
            "getresgid": lambda call: _write_ids(call, group),
            "getgroups": self._answer_getgroups,
            "setgroups": lambda _: Failure(errno.EPERM),
            "setuid": lambda call: _keep_ids(call, user, 1),
            "setreuid": lambda call: _keep_ids(call, user, 2),
            "setresuid": lambda call: _keep_ids(call, user, 3),
            "setgid": lambda call: _keep_ids(call, group, 1),
            "setregid": lambda call: _keep_ids(call, group, 2),
            "setresgid": lambda call: _keep_ids(call, group, 3),
        }

    @property
    def caught(self) -> Mapping[str, Conditions]:
        """The system calls that need an answer."""
        return dict.fromkeys(self.answers, ())

    def _answer_getgroups(self, call: SystemCall) -> Answer:
        size = as_signed(call.arguments[0])
        if not size:
            return Result(len(self._groups))
        if size < len(self._groups):
            return Failure(errno.EINVAL)
        call.memory.write(call.arguments[1], b"".join(map(_ID.pack, self._groups)))
        return Result(len(self._groups))


def _write_ids(call: SystemCall, number: int) -> Answer:
    """Write the real, effective and saved id."""
    for address in call.arguments[:3]:
        call.memory.write(address, _ID.pack(number))
    return Result()


def _keep_ids(call: SystemCall, number: int, count: int) -> Answer:
    """Set an id that the program has; there is no other one."""
    if all(as_signed(argument) in (number, _UNCHANGED) for argument in call.arguments[:count]):
        return Result()
    return Failure(errno.EINVAL)
