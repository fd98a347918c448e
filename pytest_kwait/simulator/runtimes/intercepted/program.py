"""The start of an intercepted program: a process that answers its calls, and its child."""

from __future__ import annotations

import os
import socket
import sys
from array import array
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.runtimes.intercepted.interceptor import Interceptor
from pytest_kwait.simulator.runtimes.intercepted.network import PASSED_FLAGS
from pytest_kwait.simulator.runtimes.intercepted.seccomp import (
    Listener,
    build_filter,
    install_filter,
)
from pytest_kwait.simulator.runtimes.intercepted.system_calls import find_processor
from pytest_kwait.simulator.runtimes.processes.messages import receive
from pytest_kwait.simulator.runtimes.processes.system_calls import die_with_parent, make_subreaper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.runtimes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.intercepted.seccomp import Conditions

# Rings make system calls that no filter sees.
_REFUSED = ("io_uring_setup",)


class CaughtCalls(NamedTuple):
    """The system calls that a container's programs do not make themselves.

    Args:
        conditions: the conditions of each name.
        answers: what answers each name.
    """

    conditions: Mapping[str, Conditions]
    answers: Mapping[str, Callable[[SystemCall], Answer]]


def run_intercepted(
    calls: CaughtCalls, become_program: Callable[[], None], on_forked: Callable[[int], None]
) -> NoReturn:
    """Fork a program, answer its calls until it ends, and end with its exit code.

    Args:
        become_program: becomes the program, in the child; its own calls are caught, too.
        on_forked: called with the child's number.
    """
    processor = find_processor()
    if processor is None:
        raise OSError(f"system calls cannot be intercepted on this processor: {os.uname().machine}")
    own_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    make_subreaper()
    pid = os.fork()
    if not pid:
        own_socket.close()
        die_with_parent()
        fd = install_filter(processor, build_filter(processor, calls.conditions, _REFUSED))
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))
        child_socket.sendmsg([b"+"], [rights], PASSED_FLAGS)
        child_socket.close()
        os.close(fd)
        become_program()
        os._exit(1)
    child_socket.close()
    on_forked(pid)
    _, fds = receive(own_socket, 1)
    own_socket.close()
    if not fds:
        # The child has reported why.
        os.waitpid(pid, 0)
        os._exit(1)
    os._exit(Interceptor(processor, Listener(fds[0]), calls.answers).run(pid))


def is_supported() -> str:
    """Return why system calls cannot be intercepted here; empty if they can.

    It tries all that is needed, in processes of its own.
    """
    if sys.platform != "linux":
        return f"no seccomp notifications on {sys.platform}"
    return ""
