"""The host name that intercepted programs see."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Failure, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions

# struct utsname of include/uapi/linux/utsname.h: six fields of 65 bytes.
_FIELD_BYTES = 65


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
