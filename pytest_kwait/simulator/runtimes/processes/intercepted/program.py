"""The start of an intercepted program: a process that answers its calls, and its child."""

from __future__ import annotations

import os
import signal
import socket
from array import array
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.runtimes.processes.container_init import (
    close_others,
    connect_streams,
    execute,
    limit_data,
    report,
    run_child,
    select_capabilities,
    try_chdir,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    UNSPECIFIED,
    AddressTable,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Change
from pytest_kwait.simulator.runtimes.processes.intercepted.interceptor import Interceptor
from pytest_kwait.simulator.runtimes.processes.intercepted.names import HostNameCalls, UserCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.network import (
    PASSED_FLAGS,
    NetworkCalls,
    PodAddress,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import (
    Listener,
    build_filter,
    install_filter,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.system_calls import find_processor
from pytest_kwait.simulator.runtimes.processes.messages import receive
from pytest_kwait.simulator.runtimes.processes.processes import MARKER
from pytest_kwait.simulator.runtimes.processes.system_calls import (
    die_with_parent,
    limit_capabilities,
    make_subreaper,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.simulator.runtimes.processes.cgroups import Cgroup
    from pytest_kwait.simulator.runtimes.processes.container_init import Environment
    from pytest_kwait.simulator.runtimes.processes.intercepted.calls import Answer, SystemCall
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions
    from pytest_kwait.simulator.runtimes.processes.messages import Message

_TRIED_NAME = "kwait"
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


def run_container(
    environment: Environment,
    config: Message,
    sandbox: Message,
    status: socket.socket,
    fds: Sequence[int],
    cgroup: Cgroup | None,
) -> NoReturn:
    """Run a container's program, or one of an exec session, and answer its calls.

    Args:
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping.
        status: connection to the launcher.
        fds: the program's input, output and error output; without a terminal.
    """
    die_with_parent()
    close_others(status, fds)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pod_address = IPv4Address(sandbox["address"])
    pod = PodAddress(
        pod_address,
        UNSPECIFIED if sandbox["host_network"] else pod_address,
        tuple(IPv4Network(network, strict=False) for network in environment.networks),
    )
    network = NetworkCalls(pod, AddressTable(environment.addresses))
    names = HostNameCalls(sandbox["hostname"], sandbox["domainname"])
    conditions = {**NetworkCalls.CAUGHT, **HostNameCalls.CAUGHT}
    answers = {**network.answers, **names.answers}
    if not environment.any_user:
        users = UserCalls(config["user"] or 0, _list_groups(config))
        conditions |= users.caught
        answers |= users.answers

    def on_forked(pid: int) -> None:
        report(status, {"pid": pid})
        status.close()
        for fd in fds:
            os.close(fd)

    run_intercepted(
        CaughtCalls(conditions, answers),
        lambda: run_child(
            lambda: _become_program(environment, config, status, fds, cgroup), status
        ),
        on_forked,
    )


def _become_program(
    environment: Environment,
    config: Message,
    status: socket.socket,
    fds: Sequence[int],
    cgroup: Cgroup | None,
) -> None:
    os.setsid()
    connect_streams(config, status, fds)
    if cgroup is not None:
        cgroup.join()
    if not environment.has_memory_cgroup and config["memory_bytes"] is not None:
        limit_data(config["memory_bytes"])
    config["env"][MARKER] = environment.name
    if not try_chdir(config["workdir"]):
        os.makedirs(config["workdir"], exist_ok=True)
        os.chdir(config["workdir"])
    if environment.any_user:
        limit_capabilities(select_capabilities(environment, config))
        os.setgroups(sorted(_list_groups(config)))
        os.setgid(config["group"] or 0)
        os.setuid(config["user"] or 0)
        die_with_parent()
    execute(config, status)


def _list_groups(config: Message) -> tuple[int, ...]:
    """Return the group and the further ones of a container."""
    return tuple(dict.fromkeys((config["group"] or 0, *config["groups"])))


def find_refusal() -> str:
    """Return why system calls cannot be intercepted here; empty if they can.

    A program of two calls is tried: one is answered, and one is changed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        try:
            _try_interception()
        except BaseException as error:
            os.write(writing, (str(error) or type(error).__name__).encode())
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        reason = answer.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return ""
    return reason or "a system call could not be changed"


def _try_interception() -> NoReturn:
    host_names = HostNameCalls(_TRIED_NAME, "")
    conditions: dict[str, Conditions] = {"uname": (), "chdir": ()}
    answers = {"uname": host_names.answers["uname"], "chdir": lambda _call: Change({0: b"/proc\0"})}

    def become_program() -> None:
        os.chdir("/")
        is_right = os.uname().nodename == _TRIED_NAME and os.getcwd() == "/proc"
        os._exit(0 if is_right else 1)

    run_intercepted(CaughtCalls(conditions, answers), become_program, lambda _: None)
