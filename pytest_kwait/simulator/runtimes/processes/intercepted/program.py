"""The start of an intercepted program: a process that answers its calls, and its child."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import sys
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.runtimes.processes.container_init import (
    change_directory,
    close_others,
    connect_streams,
    describe_denied,
    execute,
    limit_data,
    list_folder_mounts,
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
from pytest_kwait.simulator.runtimes.processes.intercepted.connection_filter import ProgramFilter
from pytest_kwait.simulator.runtimes.processes.intercepted.files import FileCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.interceptor import (
    CaughtCalls,
    Interceptor,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.interfaces import (
    InterfaceCalls,
    PodInterfaces,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.kernel_files import KernelFiles
from pytest_kwait.simulator.runtimes.processes.intercepted.names import HostNameCalls, UserCalls
from pytest_kwait.simulator.runtimes.processes.intercepted.network import (
    NetworkCalls,
    PodAddress,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.paths import ContainerFiles, Mount
from pytest_kwait.simulator.runtimes.processes.intercepted.service_routes import ServiceRoutes
from pytest_kwait.simulator.runtimes.processes.intercepted.users import (
    SetUserCalls,
    can_set_users,
    takes_users,
)
from pytest_kwait.simulator.runtimes.processes.messages import MessageReader, pack_message
from pytest_kwait.simulator.runtimes.processes.processes import MARKER
from pytest_kwait.simulator.runtimes.processes.root_filesystem import (
    MAX_COPIED_BYTES,
    RootError,
    describe_error,
    make_working_directory,
)
from pytest_kwait.simulator.runtimes.processes.system_calls import (
    die_with_parent,
    limit_capabilities,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kwait.simulator.runtimes.processes.cgroups import Cgroup
    from pytest_kwait.simulator.runtimes.processes.container_init import Environment
    from pytest_kwait.simulator.runtimes.processes.intercepted.seccomp import Conditions
    from pytest_kwait.simulator.runtimes.processes.messages import Message

_SHARED_MEMORY = "/dev/shm"
_TRIED_NAME, _TRIED_USER = "kwait", 65534
# Exit codes of the program of a trial, in which all calls were right.
_ANY_USER, _ONE_USER = 0, 2


class ContainerInterceptor:
    """The process above the programs of one container.

    Args:
        environment: the launcher's state.
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping.
        folder: the sandbox' folder.
        control: connection to the launcher: programs of exec sessions come from it, and their exit
            codes go back.
        cgroup: the container's.
    """

    def __init__(
        self,
        environment: Environment,
        config: Message,
        sandbox: Message,
        folder: str,
        control: socket.socket,
        cgroup: Cgroup | None,
    ) -> None:
        self._environment, self._cgroup, self._control = environment, cgroup, control
        self._reader = MessageReader(control)
        self._sessions: dict[int, int] = {}
        self._code = 1
        calls = _list_calls(environment, folder, config, sandbox)
        self._interceptor = Interceptor(calls, self._on_exit)
        self._interceptor.add_reader(control.fileno(), self._read_control)

    def run(self, config: Message, status: socket.socket, fds: Sequence[int]) -> int:
        """Run the container's program; returns its exit code.

        Args:
            config: `ContainerConfig` as a mapping.
            status: connection to the launcher about its start.
            fds: the program's input, output and error output; without a terminal.
        """
        pid = self._start(config, status, fds)
        try:
            self._interceptor.run(pid)
        except BaseException as error:
            # The end by a signal is reported; the launcher's log has this.
            sys.excepthook(type(error), error, error.__traceback__)
            os.kill(os.getpid(), signal.SIGKILL)
        return self._code

    def _start(self, config: Message, status: socket.socket, fds: Sequence[int]) -> int:
        pid = self._interceptor.start(
            lambda: run_child(lambda: self._become_program(config, status, fds), status)
        )
        report(status, {"pid": pid})
        status.close()
        for fd in fds:
            os.close(fd)
        return pid

    def _read_control(self) -> None:
        messages = self._reader.read()
        if messages is None:  # the launcher has ended
            self._interceptor.kill_programs()
        for message, fds in messages or ():
            status = socket.socket(fileno=fds[0])
            pid = self._start(message["config"], status, fds[1:])
            self._sessions[pid] = message["id"]

    def _on_exit(self, pid: int, code: int) -> None:
        number = self._sessions.pop(pid, None)
        if number is None:
            self._code = code
        else:
            with contextlib.suppress(OSError):
                self._control.sendall(pack_message({"id": number, "code": code}, 0))

    def _become_program(self, config: Message, status: socket.socket, fds: Sequence[int]) -> None:
        os.setsid()
        connect_streams(config, status, fds)
        if self._cgroup is not None:
            self._cgroup.join()
        environment = self._environment
        if not environment.has_memory_cgroup and config["memory_bytes"] is not None:
            limit_data(config["memory_bytes"])
        config["env"][MARKER] = environment.name
        make_working_directory(config["workdir"])
        is_entered = try_chdir(config["workdir"])
        if environment.any_user:
            limit_capabilities(select_capabilities(environment, config))
            os.setgroups(sorted(_list_groups(config)))
            os.setgid(config["group"] or 0)
            os.setuid(config["user"] or 0)
            die_with_parent()
        if not is_entered:
            change_directory(config["workdir"])
        execute(config, status)


def run_container(
    environment: Environment,
    config: Message,
    sandbox: Message,
    folder: str,
    control: socket.socket,
    status: socket.socket,
    fds: Sequence[int],
    cgroup: Cgroup | None,
) -> NoReturn:
    """Be the process above the programs of a container, and end as its program does.

    Args:
        folder, control: as of `ContainerInterceptor`.
        status: connection to the launcher about the program's start.
        fds: the program's input, output and error output; without a terminal.
    """
    die_with_parent()
    close_others(status, (control.fileno(), *fds))
    os.makedirs(f"{folder}/{config['id']}", exist_ok=True)
    interceptor = ContainerInterceptor(environment, config, sandbox, folder, control, cgroup)
    os._exit(interceptor.run(config, status, fds))


def _list_calls(
    environment: Environment, folder: str, config: Message, sandbox: Message
) -> CaughtCalls:
    """Return the system calls of a container that are answered."""
    address = IPv4Address(sandbox["address"])
    pod = PodAddress(
        address,
        UNSPECIFIED if sandbox["host_network"] else address,
        tuple(IPv4Network(network, strict=False) for network in environment.networks),
    )
    files = FileCalls(_find_files(environment, folder, config, sandbox))
    table = AddressTable(environment.addresses)
    pod_interfaces = PodInterfaces(address, pod.networks)
    interfaces = InterfaceCalls(pod_interfaces)
    network = NetworkCalls(
        pod, table, files.sockets, interfaces, ServiceRoutes(environment.addresses),
        ProgramFilter(environment.addresses, pod.host),
    )  # fmt: skip
    kernel = KernelFiles(pod, table, pod_interfaces, sandbox["sysctls"], files.answer)
    names = HostNameCalls(sandbox["hostname"], sandbox["domainname"])
    conditions = {
        **NetworkCalls.CAUGHT,
        **InterfaceCalls.CAUGHT,
        **HostNameCalls.CAUGHT,
        **FileCalls.CAUGHT,
    }
    answers = {**network.answers, **interfaces.answers, **names.answers, **files.answers}
    answers |= {"open": kernel.answer_open, "openat": kernel.answer_openat}
    if not environment.any_user:
        users = UserCalls(config["user"] or 0, _list_groups(config))
        conditions |= users.caught
        answers |= users.answers
    elif takes_users():
        conditions |= SetUserCalls.CAUGHT
        answers |= SetUserCalls().answers
    return CaughtCalls(conditions, answers, {interfaces.fileno(): interfaces.read})


def _find_files(
    environment: Environment, folder: str, config: Message, sandbox: Message
) -> ContainerFiles:
    """Return the files of a container; small files of its image are its own copies."""
    mounts, copies = [], {}
    for target, mount in list_folder_mounts(folder, config, sandbox).items():
        try:
            status = os.stat(mount.source)
        except OSError as error:
            text = f'error mounting "{mount.source}" to rootfs at "{target}": stat {mount.source}'
            raise RootError(f"{text}: {describe_error(error)}") from None
        is_small = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_COPIED_BYTES
        if mount.is_of_image and is_small:
            copies[target] = mount.source
        else:
            mounts.append(Mount(os.path.normpath(target), mount.source, mount.read_only))
    if all(mount.target != _SHARED_MEMORY for mount in mounts):
        mounts.append(Mount(_SHARED_MEMORY, _make_shared_memory(folder)))
    return ContainerFiles(
        upper=f"{folder}/{config['id']}/layer",
        mounts=tuple(mounts),
        copies=copies,
        visible=tuple(config["visible"]),
        folders=(config["workdir"],),
        # A folder before those below it, which are hidden with it.
        hidden=tuple(sorted((environment.folder, *sandbox["hidden"]), key=len)),
        read_only_root=config["read_only_root"],
        sockets=f"{folder}/sockets",
    )


def _make_shared_memory(folder: str) -> str:
    """Make the folder of a pod's shared memory, unless another container has; returns its path."""
    path = f"{folder}/shm"
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        os.chmod(path, 0o1777)
    return path


def _list_groups(config: Message) -> tuple[int, ...]:
    """Return the group and the further ones of a container."""
    return tuple(dict.fromkeys((config["group"] or 0, *config["groups"])))


class Trial(NamedTuple):
    """The outcome of a trial of interception on this machine.

    Args:
        refusal: why system calls cannot be intercepted; empty if they can.
        any_user: whether those of programs of other users can be, too.
        denied: what other users may not do, as `describe_denied` returns; or empty.
    """

    refusal: str
    any_user: bool = False
    denied: str = ""


def try_interception(folder: str) -> Trial:
    """Run a program of a few calls: some are answered, one is changed, some set its user.

    Args:
        folder: the one that all programs have to enter.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        try:
            _try_interception(folder, writing)
        except OSError as error:
            reason = f"install a filter: {describe_error(error)}" if error.errno else str(error)
            os.write(writing, reason.encode())
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        reason = answer.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (_ANY_USER, _ONE_USER):
        return Trial("", any_user=code == _ANY_USER, denied=reason)
    return Trial(reason or "a system call could not be changed")


def _try_interception(folder: str, writing: int) -> NoReturn:
    host_names, path = HostNameCalls(_TRIED_NAME, ""), os.fsencode(folder) + b"\0"
    conditions: dict[str, Conditions] = {"uname": (), "chdir": ()}
    answers = {"uname": host_names.answers["uname"], "chdir": lambda _: Change({0: path})}
    if takes_users():
        conditions |= SetUserCalls.CAUGHT
        answers |= SetUserCalls().answers
    codes = []

    def become_program() -> None:
        os._exit(_make_tried_calls(folder, writing))

    interceptor = Interceptor(CaughtCalls(conditions, answers), lambda _, code: codes.append(code))
    interceptor.run(interceptor.start(become_program))
    os._exit(codes[0])


def _make_tried_calls(folder: str, writing: int) -> int:
    """Return the exit code of the tried program; writes what is refused to it."""
    try:
        if not _is_intercepted(folder):
            return 1
    except OSError as error:
        os.write(writing, f"change a call: {describe_error(error)}".encode())
        return 1
    is_any_user = can_set_users() and _is_intercepted_as_user(folder, writing)
    return _ANY_USER if is_any_user else _ONE_USER


def _is_intercepted(folder: str) -> bool:
    os.chdir("/")
    return os.uname().nodename == _TRIED_NAME and os.getcwd() == folder


def _is_intercepted_as_user(folder: str, writing: int) -> bool:
    """Return whether calls of another user are intercepted; writes what it may not do."""
    try:
        os.setgid(_TRIED_USER)
        os.setuid(_TRIED_USER)
        return _is_intercepted(folder)
    except OSError:
        denied = describe_denied(folder)
        if denied.startswith("enter "):
            os.write(writing, denied.encode())
        return False
