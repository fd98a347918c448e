"""The program that the server starts: ends the launcher with the server, and what it left.

    server
      supervisor          outside the namespaces: ends the launcher with the server, removes cgroups
        launcher          process 1 of a PID namespace: with it, the kernel ends everything below
          program         process 1 of a container's PID namespace
          program         of an exec session, in a container's namespaces

Without namespaces the supervisor itself is the launcher, of processes in sessions of their own.
It imports nothing but the standard library, and little of that: a fork copies its page tables.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import selectors
import signal
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.network.loopback_blocks import hold_block
from pytest_kwait.simulator.runtimes.processes import cgroups, root_filesystem, system_calls
from pytest_kwait.simulator.runtimes.processes.container_init import (
    IGNORED_SIGNALS,
    Environment,
    allow_loopback_routes,
    map_users,
    set_network_defaults,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import (
    MAX_ADDRESSES,
    create_table,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.program import try_interception
from pytest_kwait.simulator.runtimes.processes.launcher import BRIDGE, Launcher
from pytest_kwait.simulator.runtimes.processes.messages import pack_message
from pytest_kwait.simulator.runtimes.processes.netlink import Netlink
from pytest_kwait.simulator.runtimes.processes.processes import kill, kill_marked, list_children
from pytest_kwait.simulator.runtimes.processes.root_filesystem import describe_error, remove_below

if TYPE_CHECKING:
    from pytest_kwait.simulator.runtimes.processes.messages import Message

_ONE_USER = "all programs have the server's user, under the number that they ask for"
_MACHINES_PROCESSES = "programs see the machine's processes"
_NO_STORAGE_LIMIT = "programs may write without a limit"
_MISSING_INTERCEPTED = f"{_MACHINES_PROCESSES}, and may write without a limit"
# Reasons for which Linux refuses namespaces.
_REFUSALS = {
    errno.ENOSPC: "the limit user.max_user_namespaces is reached",
    errno.EPERM: (
        "not permitted, by a seccomp or AppArmor profile or kernel.unprivileged_userns_clone"
    ),
    errno.EINVAL: "the kernel has no user namespaces",
    errno.ENOSYS: "not known on this processor",
}
# The limit of this user namespace and those below it. In a cgroup namespace of its own, a pod could
# mount the machine's cgroups and change them.
_CGROUP_NAMESPACES = "/proc/sys/user/max_cgroup_namespaces"


def main() -> None:
    """Run the supervisor; arguments are two descriptors and the options as JSON."""
    control = socket.socket(fileno=int(sys.argv[1]))
    lifeline = int(sys.argv[2])
    options: Message = json.loads(sys.argv[3])
    for fd in (control.fileno(), lifeline):
        os.set_inheritable(fd, False)
    # Of servers that were killed together with their supervisor.
    kill_marked(options["name"])
    cgroups.remove_cgroups(options["name"])
    pid, reason = 0, f"isolation {options['isolation']} was asked for"
    if sys.platform != "linux":
        reason = f"no namespaces on {sys.platform}"
    elif options["isolation"] in ("auto", "namespaces"):
        try:
            pid, reason = _start_isolated(control, lifeline, options)
        except OSError as error:
            reason = describe_error(error)
    if pid:
        control.close()
        _supervise(pid, lifeline, options)
    elif options["isolation"] == "namespaces":
        _refuse(control, options, reason)
    else:
        _run_plainly(control, options, reason)
    _remove_folder(options["folder"])


def _refuse(control: socket.socket, options: Message, reason: str) -> NoReturn:
    """End without the isolation that was asked for; the server removes the folder."""
    message = pack_message({"op": "isolation", "refused": reason}, 0)
    with contextlib.suppress(OSError):
        control.sendall(message)
    # The server reads the last line of the log.
    sys.exit(f"isolation {options['isolation']} was asked for, and is refused: {reason}")


def _start_isolated(control: socket.socket, lifeline: int, options: Message) -> tuple[int, str]:
    """Start the launcher in namespaces; returns its pid, or 0 and the reason why not."""
    flags = system_calls.CLONE_NEWPID | system_calls.CLONE_NEWNET | system_calls.CLONE_NEWNS
    flags |= system_calls.CLONE_NEWUTS | system_calls.CLONE_NEWIPC
    reason = ""
    is_root = os.geteuid() == 0
    for has_users in (True, False) if is_root else (True,):
        any_user = is_root
        go_read, go_write = os.pipe()
        ready_read, ready_write = os.pipe()
        try:
            pid = system_calls.clone(flags | (system_calls.CLONE_NEWUSER if has_users else 0))
        except OSError as error:
            reason = reason or describe_refusal(error)
            for fd in (go_read, go_write, ready_read, ready_write):
                os.close(fd)
            continue
        if not pid:
            code = 1
            try:
                for fd in (go_write, ready_read, lifeline):
                    os.close(fd)
                system_calls.die_with_parent()
                if os.read(go_read, 1):
                    os.close(go_read)
                    _run_isolated(
                        control, options, ready_write, any_user=any_user, has_users=has_users
                    )
                    code = 0
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
            finally:
                os._exit(code)
        os.close(go_read)
        os.close(ready_write)
        answer = b""
        try:
            if has_users:
                outside = (os.geteuid(), os.getegid())
                map_users(pid, any_user=any_user, outside=outside)
            os.write(go_write, b"+")
            answer = os.read(ready_read, 4096)
        except OSError as error:
            answer = f"map users: {describe_error(error)}".encode()
        os.close(go_write)
        os.close(ready_read)
        if answer == b"+":
            return pid, ""
        reason = reason or answer.decode() or "the launcher ended"
        kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return 0, reason


def _supervise(pid: int, lifeline: int, options: Message) -> None:
    """End the launcher with the server, and remove what the kernel does not."""
    ended = os.pidfd_open(pid)
    with selectors.DefaultSelector() as selector:
        selector.register(lifeline, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        selector.select()
    kill(pid, signal.SIGKILL)
    # Returns after all processes of the namespace have ended.
    os.waitpid(pid, 0)
    cgroups.remove_cgroups(options["name"])


def describe_refusal(error: OSError) -> str:
    """Return why namespaces could not be created."""
    return f"create namespaces: {_REFUSALS.get(error.errno or 0) or describe_error(error)}"


def _run_isolated(
    control: socket.socket, options: Message, ready: int, *, any_user: bool, has_users: bool
) -> None:
    """Be process 1 of the cluster's namespaces."""
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    step = "mount"
    try:
        system_calls.mount(None, "/", None, system_calls.MS_REC | system_calls.MS_PRIVATE)
        step = "mount proc"
        flags = system_calls.MS_NOSUID | system_calls.MS_NODEV | system_calls.MS_NOEXEC
        system_calls.mount("proc", "/proc", "proc", flags)
        if has_users and os.path.exists(_CGROUP_NAMESPACES):
            step = "forbid cgroup namespaces"
            with open(_CGROUP_NAMESPACES, "w", encoding="ascii") as file:
                file.write("0")
        step = "create the cluster's network"
        _set_up_cluster_network(options)
        storage = f"{options['folder']}/storage"
        step = f"create {storage}"
        os.makedirs(storage, exist_ok=True)
    except OSError as error:
        os.write(ready, f"{step}: {describe_error(error)}".encode())
        return
    groups = cgroups.Cgroups(options["name"])
    has_overlay = _probe_overlay(storage)
    environment = _make_environment(options, groups, any_user=any_user, has_users=has_users)
    launcher = Launcher(control, environment, groups, isolated=True)
    missing = [] if has_overlay else ["programs cannot write to the machine's folders"]
    lacking = {} if any_user else {"users": _ONE_USER}
    missing += lacking.values()
    if not groups.memory:
        reason = f" ({groups.reasons[0]})" if groups.reasons else ""
        missing.append(f"memory is limited by a watcher instead of a cgroup{reason}")
    launcher.send(
        {
            "op": "isolation",
            "namespaces": True,
            "overlay": has_overlay,
            "memory": groups.memory or "watcher",
            "pids": groups.pids or "rlimit",
            "any_user": any_user,
            "missing": missing,
            "lacking": lacking,
        }
    )
    os.write(ready, b"+")
    os.close(ready)
    launcher.run()


def _make_environment(
    options: Message, groups: cgroups.Cgroups, *, any_user: bool, has_users: bool
) -> Environment:
    return Environment(
        folder=options["folder"],
        name=options["name"],
        pod_gateway=options["pod_gateway"],
        any_user=any_user,
        has_user_namespace=has_users,
        has_memory_cgroup=bool(groups.memory),
        has_pids_cgroup=bool(groups.pids),
        networks=(options["pod_gateway"], *options["local"]),
    )


def _set_up_cluster_network(options: Message) -> None:
    set_network_defaults(is_router=True)
    link = Netlink()
    link.set_up("lo")
    link.add_bridge(BRIDGE)
    link.add_address(BRIDGE, options["pod_gateway"])
    for network in options["local"]:
        link.add_local_network(network)
    with contextlib.suppress(OSError):
        allow_loopback_routes(options["local"])
    link.close()


def _probe_overlay(storage: str) -> bool:
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    code = 1
    try:
        system_calls.unshare(system_calls.CLONE_NEWNS)
        code = 0 if root_filesystem.is_overlay_supported(storage) else 1
    except OSError:
        pass
    finally:
        os._exit(code)


def _run_plainly(control: socket.socket, options: Message, reason: str) -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    groups = cgroups.Cgroups(options["name"])
    has_proc = os.path.exists("/proc/self/stat")
    if sys.platform == "linux":
        system_calls.make_subreaper()
    interception = _prepare_interception(options)
    if interception.refusal and options["isolation"] == "intercepted":
        _refuse(control, options, interception.refusal)
    any_user = interception.any_user
    environment = _make_environment(options, groups, any_user=any_user, has_users=False)
    environment = environment._replace(addresses=interception.addresses)
    lacking = {}
    if interception.addresses:
        lacking = {"processes": _MACHINES_PROCESSES, "storage": _NO_STORAGE_LIMIT}
        missing = [_MISSING_INTERCEPTED]
        if options["isolation"] == "auto":
            missing[0] += f": there are no namespaces ({reason})"
        if not any_user:
            denied = interception.denied
            lacking["users"] = f"{_ONE_USER}: others may not {denied}" if denied else _ONE_USER
            missing.append(lacking["users"])
    else:
        if interception.refusal:
            reason = f"{reason}; intercept system calls: {interception.refusal}"
        missing = [f"programs are plain processes on the machine's network and files ({reason})"]
    launcher = Launcher(control, environment, groups, isolated=False)
    launcher.send(
        {
            "op": "isolation",
            "namespaces": False,
            "addresses": environment.addresses,
            "overlay": False,
            "memory": groups.memory or ("watcher" if has_proc else "none"),
            "pids": groups.pids or "none",
            "any_user": any_user,
            "missing": missing,
            "lacking": lacking,
            "reason": reason,
        }
    )
    try:
        launcher.run()
    finally:
        launcher.kill_all()
        _end_children(options["name"])
        cgroups.remove_cgroups(options["name"])
        if interception.block is not None:
            interception.block.close()


class _Interception(NamedTuple):
    """The interception of programs without namespaces.

    Args:
        any_user: whether programs can have any user.
        denied: what other users may not do; empty if that is not the reason.
        refusal: why they cannot be intercepted; empty if they can, or are not to be.
        addresses: the file of the table of addresses; empty if they are not intercepted.
        block: the socket that holds the addresses.
    """

    any_user: bool
    denied: str = ""
    refusal: str = ""
    addresses: str = ""
    block: socket.socket | None = None


def _prepare_interception(options: Message) -> _Interception:
    """Try to intercept programs, unless plain processes are asked for."""
    plain = _Interception(os.geteuid() == 0)
    if options["isolation"] == "none":
        return plain
    if sys.platform != "linux":
        return plain._replace(refusal=f"no system call can be intercepted on {sys.platform}")
    trial = try_interception(os.path.realpath(options["folder"]))
    if trial.refusal:
        return plain._replace(refusal=trial.refusal)
    addresses = f"{options['folder']}/addresses"
    try:
        block, number = hold_block(os.getpid())
        create_table(addresses, number, secrets.randbelow(MAX_ADDRESSES))
    except OSError as error:
        refusal = f"addresses of the loopback interface: {describe_error(error)}"
        return plain._replace(refusal=refusal)
    return _Interception(trial.any_user, trial.denied, addresses=addresses, block=block)


def _end_children(name: str) -> None:
    """Kill and reap what programs have left: as their subreaper, it is the parent of all on Linux.

    A program may have removed the cluster's mark, and keeps its cgroup until it is reaped.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            kill_marked(name)
            for pid in list_children():
                kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _remove_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        remove_below(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        os.rmdir(folder)
