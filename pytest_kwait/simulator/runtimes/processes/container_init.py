"""Steps of a forked process on its way to being a container's program, as runc's `init`.

Source: runc libcontainer/{standard_init_linux,setns_init_linux,init_linux}.go.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import sys
import termios
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pytest_kwait.simulator.network.loopback_blocks import is_loopback
from pytest_kwait.simulator.runtimes.processes import root_filesystem, system_calls
from pytest_kwait.simulator.runtimes.processes.messages import receive
from pytest_kwait.simulator.runtimes.processes.netlink import Netlink
from pytest_kwait.simulator.runtimes.processes.processes import MARKER
from pytest_kwait.simulator.runtimes.processes.root_filesystem import (
    RootError,
    describe_error,
    resolve_sub_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_kwait.simulator.runtimes.processes.cgroups import Cgroup
    from pytest_kwait.simulator.runtimes.processes.messages import Message

# Source: runc libcontainer/process_linux.go, `initProcess.start`.
STARTING = "unable to start container process: "
MAX_STATUS = 1 << 17
"""Bytes of a message between the launcher and a forked process."""
STATUS_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
"""Type of the socket between them: messages are lines, where it keeps no boundaries."""
DEFAULT_PIDS = 4096
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that the launcher ignores: it ends with its server only."""

# Above the limit of a container, in which its memory grows between two looks of the watcher.
_DATA_MARGIN = 1 << 30
# Source: containerd pkg/oci/spec.go, `defaultUnixCaps`.
_DEFAULT_CAPABILITIES = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
_NAMESPACED_SYSCTLS = frozenset(
    [
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
    ]
)
# Those that change nothing outside of a container's namespaces and files. `MKNOD` is none: a
# device of the machine opens wherever its node is.
_HARMLESS_CAPABILITIES = (_DEFAULT_CAPABILITIES - {"MKNOD", "AUDIT_WRITE"}) | {
    "NET_BROADCAST",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_PTRACE",
}
# Source: runc main_linux.go, `init`; an exec that fails after the container was created.
_EXEC_FAILED_CODE = 1
# Source: HostProcess containers on Windows, which see the machine's files too.
ROOT_VARIABLE = "CONTAINER_SANDBOX_MOUNT_POINT"
"""The variable of plain processes with the folder of links to their mounts."""
RELAY_MARK = 0x6B77
"""The mark of connections that are made for another pod, within the network of their target.

Their answers take a route to this network itself, not to the pod that has the address.
"""
# Connections that were accepted have the mark of the peer's first packet.
_LOOPBACK_ROUTES = "ipv4/conf/all/route_localnet"
_ACCEPT_MARKS = "ipv4/tcp_fwmark_accept"
_UNLIMITED_IDS = "0 0 4294967295"


class Environment(NamedTuple):
    """The launcher's state that its forked processes need.

    Args:
        folder: the runtime's folder.
        name: the cluster's, as `get_cluster_name` returns.
        pod_gateway: address and prefix length of the bridge.
        any_user: whether all users are in the map of the user namespace.
        has_user_namespace: False if the machine's root runs without one.
        has_memory_cgroup: False if memory is watched.
        has_pids_cgroup: False if processes are limited per user.
        networks: the networks of pods, services and nodes.
        addresses: the file of the table of addresses, where system calls are intercepted.
    """

    folder: str
    name: str
    pod_gateway: str
    any_user: bool
    has_user_namespace: bool
    has_memory_cgroup: bool
    has_pids_cgroup: bool
    networks: tuple[str, ...] = ()
    addresses: str = ""

    @property
    def storage(self) -> str:
        """The folder where pods mount their storage."""
        return f"{self.folder}/storage"


def run_child(call: Callable[[], None], status: socket.socket) -> NoReturn:
    """Run a part of the setup in a forked process; report its failure."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        call()
        code = 0
    except RootError as error:
        text = f"{STARTING}error during container init: {error}"
        report(status, {"error": text, "denied": error.denied})
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        text = f"{STARTING}error during container init:{where} {describe_error(error)}"
        report(status, {"error": text})
    except BaseException as error:
        report(status, {"error": f"{STARTING}{type(error).__name__}: {error}"})
    finally:
        os._exit(code)


def report(status: socket.socket, message: Message) -> None:
    """Report to the launcher."""
    with contextlib.suppress(OSError):
        status.send(json.dumps(message).encode("utf-8", "surrogateescape") + b"\n")


def close_others(status: socket.socket, kept: Sequence[int] = ()) -> None:
    """Close what a forked process has inherited: it may wait long, and keeps namespaces alive."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in (status.fileno(), *kept):
            with contextlib.suppress(OSError):
                os.close(int(name))


def map_users(
    pid: int, *, any_user: bool, outside: tuple[int, int], inside: tuple[int, int] = (0, 0)
) -> None:
    """Map users and groups of a process' user namespace: all, or one user and one group."""
    if any_user:
        user_map = group_map = _UNLIMITED_IDS
    else:
        user_map = f"{inside[0]} {outside[0]} 1"
        group_map = f"{inside[1]} {outside[1]} 1"
        with contextlib.suppress(PermissionError):  # denied by the parent already
            _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", user_map)
    _write(f"/proc/{pid}/gid_map", group_map)


# -- sandboxes


def run_sandbox(environment: Environment, status: socket.socket, flags: int) -> None:
    """Make a pod's namespaces; they are held by descriptors of the launcher."""
    close_others(status)
    system_calls.unshare(flags)
    status.send(b"{}")
    data = status.recv(MAX_STATUS)
    if not data:
        return
    config: Message = json.loads(data)
    socket.sethostname(config["hostname"])
    if config["domainname"]:
        system_calls.set_domain_name(config["domainname"])
    opened = root_filesystem.create_storage(environment.storage, config)
    if not config["host_network"]:
        _set_up_pod_network(environment, config["address"])
    for name, value in config["sysctls"].items():
        check_sysctl(name)
        _write(f"/proc/sys/{name.replace('.', '/')}", value)
    pause = 0
    if config["share_pids"]:
        system_calls.unshare(system_calls.CLONE_NEWPID)
        # Its root is the machine's.
        system_calls.hide_from_tracers()
        pause = os.fork()
        if not pause:
            _pause()
        opened.append(os.open("/proc/self/ns/pid_for_children", os.O_RDONLY))
    data = json.dumps({"pause": pause}).encode()
    socket.send_fds(status, [data], opened)


def check_sysctl(name: str) -> None:
    """Refuse settings that are not of a pod's own namespaces.

    Source: runc libcontainer/configs/validate/validator.go, `sysctl`.

    Raises:
        RootError: the setting is the machine's.
    """
    if name not in _NAMESPACED_SYSCTLS and not name.startswith(("net.", "fs.mqueue.")):
        raise RootError(f'sysctl "{name}" is not in a separate kernel namespace')


def _set_up_pod_network(environment: Environment, address: str) -> None:
    gateway, _, length = environment.pod_gateway.partition("/")
    set_network_defaults()
    link = Netlink()
    link.set_up("lo")
    link.add_address("eth0", f"{address}/{length}")
    link.set_up("eth0")
    link.add_default_route(gateway)
    # Optional: without it programs reach no load balancers.
    with contextlib.suppress(OSError):
        for network in allow_loopback_routes(environment.networks):
            link.add_loopback_route(network, gateway)
    # Optional: without it programs see the address of a proxy.
    with contextlib.suppress(OSError):
        link.add_route_by_mark(RELAY_MARK)
        _write(f"/proc/sys/net/{_ACCEPT_MARKS}", "1")
    link.close()


def has_routes_by_mark() -> bool:
    """Return whether answers to marked connections stay in this network namespace."""
    try:
        with open(f"/proc/sys/net/{_ACCEPT_MARKS}", encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def set_network_defaults(*, is_router: bool = False) -> None:
    """Set what container runtimes set in a network namespace; all of it is optional.

    Args:
        is_router: whether it answers packets to other networks: without a route it says so at
            once, where a host drops them. The machine's own setting would be the default.
    """
    settings = {
        "ipv4/ip_forward": "1" if is_router else "0",
        "ipv4/ip_unprivileged_port_start": "0",
        "ipv4/ping_group_range": "0 2147483647",
        "ipv6/conf/default/disable_ipv6": "1",
        "ipv6/conf/eth0/disable_ipv6": "1",
    }
    for name, value in settings.items():
        with contextlib.suppress(OSError):
            _write(f"/proc/sys/net/{name}", value)


def allow_loopback_routes(networks: Iterable[str]) -> list[str]:
    """Let packets to networks of the loopback interface come from devices; return these networks.

    Load balancers have such addresses.

    Args:
        networks: all networks of the cluster.

    Raises:
        OSError: the setting cannot be written.
    """
    found = [network for network in networks if is_loopback(network)]
    if found:
        _write(f"/proc/sys/net/{_LOOPBACK_ROUTES}", "1")
    return found


def _pause() -> NoReturn:
    """Be process 1 of a pod's PID namespace: reap what the containers leave."""
    os.closerange(0, 4096)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


# -- containers and exec sessions


def wait_for_container(environment: Environment, cgroup: Cgroup, status: socket.socket) -> None:
    """Enter a cgroup, wait for a container, and become its program."""
    close_others(status)
    cgroup.join()
    status.send(b"{}")
    data, fds = receive(status, MAX_STATUS)
    if not data:
        return
    message: Message = json.loads(data)
    count = len(message["namespaces"])
    namespaces = dict(zip(message["namespaces"], fds[:count], strict=True))
    fds = fds[count:]
    run_container(environment, message["config"], message["sandbox"], namespaces, status, fds)


def run_container(
    environment: Environment,
    config: Message,
    sandbox: Message,
    namespaces: Mapping[str, int],
    status: socket.socket,
    fds: Sequence[int],
) -> None:
    """Fork a container's program in its namespaces; the launcher becomes its parent.

    Its mounts are made with the launcher's user namespace. In a copy of them for the pod's user
    namespace the kernel refuses to unmount or change each, whatever a program's capabilities:
    man 7 mount_namespaces, "Restrictions on mount namespaces".

    Args:
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping.
        namespaces: descriptors of the pod's namespaces by name.
        status: connection to the launcher.
        fds: the program's input, output and error output; without a terminal.
    """
    _set_namespaces(namespaces, ("net", "uts", "ipc", "mnt", "pid"))
    flags = system_calls.CLONE_NEWNS
    if "pid" not in namespaces:
        flags |= system_calls.CLONE_NEWPID
    system_calls.unshare(flags)

    def become_program() -> None:
        root_filesystem.enter_root(environment.storage, config, sandbox)
        if "user" in namespaces:
            system_calls.setns(namespaces["user"])
            system_calls.unshare(system_calls.CLONE_NEWNS)
        report(status, {"mount_namespace": os.stat("/proc/self/ns/mnt").st_ino})
        _run_program(environment, config, status, fds, None)

    # With a single user, the program's own file of its map must stay its own.
    _fork_program(become_program, status, is_hidden=environment.any_user)


def run_session(
    environment: Environment,
    config: Message,
    container: int,
    namespaces: Mapping[str, int],
    status: socket.socket,
    fds: Sequence[int],
) -> None:
    """Fork the program of an exec session in a container's namespaces.

    Args:
        config: `ContainerConfig` of the session as a mapping.
        container: process number of the container's program.
        namespaces: descriptors of the pod's namespaces by name.
        status: connection to the launcher.
        fds: the program's input, output and error output; without a terminal.
    """
    folder = f"/proc/{container}/ns"
    own = {name: os.open(f"{folder}/{name}", os.O_RDONLY) for name in ("mnt", "pid", "user")}
    user = own.pop("user")
    # The PID namespace is the launcher's, the others are the pod's.
    order = ("pid", "user", "net", "uts", "ipc", "mnt")
    _set_namespaces({**namespaces, **own}, order)
    _fork_program(
        lambda: _run_program(environment, config, status, fds, user), status, is_hidden=True
    )


def _set_namespaces(namespaces: Mapping[str, int], order: Sequence[str]) -> None:
    for name in order:
        if name in namespaces:
            system_calls.setns(namespaces[name])


def _fork_program(
    become_program: Callable[[], None], status: socket.socket, *, is_hidden: bool
) -> None:
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", "1000")
    if is_hidden:
        system_calls.hide_from_tracers()
    pid = os.fork()
    if pid:
        report(status, {"pid": pid})
    else:
        run_child(become_program, status)


def _run_program(
    environment: Environment,
    config: Message,
    status: socket.socket,
    fds: Sequence[int],
    user_namespace: int | None,
) -> None:
    os.setsid()
    connect_streams(config, status, fds)
    if not environment.has_pids_cgroup:
        resource.setrlimit(resource.RLIMIT_NPROC, (config["pids"] or DEFAULT_PIDS,) * 2)
    if not environment.has_memory_cgroup and config["memory_bytes"] is not None:
        limit_data(config["memory_bytes"])
    is_entered = try_chdir(config["workdir"])
    _become_user(environment, config, user_namespace)
    if not is_entered:
        change_directory(config["workdir"])
    if config["no_new_privs"]:
        system_calls.forbid_new_privileges()
    execute(config, status)


def _become_user(environment: Environment, config: Message, user_namespace: int | None) -> None:
    """Set user, groups and capabilities.

    Args:
        user_namespace: the container's, for an exec session.
    """
    user, group = config["user"] or 0, config["group"] or 0
    if not environment.any_user and (user or group):
        # The only user of the pod's namespace gets another number in one of its own.
        if user_namespace is None:
            system_calls.unshare(system_calls.CLONE_NEWUSER)
            map_users(os.getpid(), any_user=False, outside=(0, 0), inside=(user, group))
        else:
            system_calls.setns(user_namespace)
    system_calls.limit_capabilities(select_capabilities(environment, config))
    if environment.any_user:
        os.setgroups(sorted({group, *config["groups"]}))
        os.setgid(group)
        os.setuid(user)


def connect_streams(config: Message, status: socket.socket, fds: Sequence[int]) -> None:
    """Make pipes, or a terminal, the streams of this process."""
    if config["tty"]:
        terminal, slave = os.openpty()
        with contextlib.suppress(OSError):
            os.fchown(slave, config["user"] or 0, -1)
        socket.send_fds(status, [b'{"terminal": true}\n'], [terminal])
        os.close(terminal)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        fds = [slave, slave, slave]
    else:
        if config["user"]:
            # As runc's `fixStdioPermissions`: the program may open /dev/stdout again.
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.fchown(fd, config["user"], -1)
        if not config["stdin"]:
            fds = [os.open("/dev/null", os.O_RDONLY), *fds]
    # First above the standard descriptors: one may be among them.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds]
    for number, fd in enumerate(high):
        os.dup2(fd, number)


def run_plain(
    environment: Environment,
    config: Message,
    sandbox: Message | None,
    folder: str,
    status: socket.socket,
    fds: Sequence[int],
    cgroup: Cgroup | None,
) -> None:
    """Execute a program without namespaces.

    Args:
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping; None for an exec session.
        folder: the sandbox' folder.
        status: connection to the launcher.
        fds: the program's input, output and error output; without a terminal.
    """
    if sys.platform == "linux":
        system_calls.die_with_parent()
    os.setsid()
    connect_streams(config, status, fds)
    if cgroup is not None:
        cgroup.join()
    if not environment.has_memory_cgroup and config["memory_bytes"] is not None:
        limit_data(config["memory_bytes"])
    root = f"{folder}/{config['id']}/root"
    if sandbox is not None:
        _link_mounts(folder, root, config, sandbox)
    env = config["env"]
    env[MARKER] = environment.name
    env[ROOT_VARIABLE] = root
    env.setdefault("TMPDIR", f"{root}/tmp")
    if config["workdir"] != "/" and not try_chdir(config["workdir"]):
        os.makedirs(root + config["workdir"], exist_ok=True)
        os.chdir(root + config["workdir"])
    if os.getuid() == 0 and (config["user"] or config["group"]):
        os.setgroups(sorted({config["group"] or 0, *config["groups"]}))
        os.setgid(config["group"] or 0)
        os.setuid(config["user"] or 0)
        if sys.platform == "linux":
            system_calls.die_with_parent()
    execute(config, status)


class FolderMount(NamedTuple):
    """A mount of a container without namespaces.

    Args:
        source: file or folder of the machine.
        read_only: whether the container may not write to it.
        is_of_image: whether it is a part of the image.
    """

    source: str
    read_only: bool = False
    is_of_image: bool = False


def list_folder_mounts(folder: str, config: Message, sandbox: Message) -> dict[str, FolderMount]:
    """Return the mounts of a container by their paths in it, and make what is missing.

    Args:
        folder: the sandbox' folder.
        config: `ContainerConfig` as a mapping.
        sandbox: `SandboxConfig` as a mapping.

    Raises:
        RootError: a source is missing, or outside of its volume.
    """
    mounts = {
        path: FolderMount(f"{folder}/files/{number}")
        for number, path in enumerate(sorted(sandbox["files"]))
    }
    if config["termination_log"]:
        log = f"{folder}/{config['id']}/termination-log"
        os.close(os.open(log, os.O_CREAT | os.O_WRONLY))
        os.chmod(log, 0o666)
        mounts[config["termination_log"]] = FolderMount(log)
    for mount in config["mounts"]:
        source = mount["source"] or f"{folder}/empty/{mount['empty_dir']}"
        if mount["sub_path"]:
            source = resolve_sub_path(source, mount["sub_path"])
        mounts[mount["target"]] = FolderMount(source, mount["read_only"], mount["is_of_image"])
    return mounts


def _link_mounts(folder: str, root: str, config: Message, sandbox: Message) -> None:
    """Make a folder with links to the mounts of a container, for plain processes."""
    os.makedirs(f"{root}/tmp")
    for target, mount in list_folder_mounts(folder, config, sandbox).items():
        path = root + os.path.normpath(target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(mount.source, path)


def limit_data(memory: int) -> None:
    """Limit the memory of this process, where no cgroup does."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory + _DATA_MARGIN,) * 2)


def try_chdir(path: str) -> bool:
    """Enter a folder; returns whether that was possible."""
    try:
        os.chdir(path)
    except OSError:
        return False
    return True


def change_directory(path: str) -> None:
    """Enter a container's working directory.

    Raises:
        RootError: it cannot be entered; with what the user may not do.
    """
    try:
        os.chdir(path)
    except OSError as error:
        text = f'chdir to cwd ("{path}") set in config.json failed: {describe_error(error)}'
        is_denied = error.errno == errno.EACCES
        raise RootError(text, describe_denied(path) if is_denied else "") from None


def select_capabilities(environment: Environment, config: Message) -> frozenset[str]:
    """Return the capabilities of a container; without a user namespace, only harmless ones."""
    selected = _select_requested(config)
    return selected if environment.has_user_namespace else selected & _HARMLESS_CAPABILITIES


def _select_requested(config: Message) -> frozenset[str]:
    """Return the capabilities that a container asks for.

    Source: containerd internal/cri/server/container_create.go, `generateSecurityContext`.
    """
    every = frozenset(system_calls.CAPABILITIES)
    if config["privileged"]:
        return every
    added = frozenset(name.removeprefix("CAP_") for name in config["capabilities_add"])
    dropped = frozenset(name.removeprefix("CAP_") for name in config["capabilities_drop"])
    if "ALL" in added:
        return every - dropped
    if "ALL" in dropped:
        return added
    return (_DEFAULT_CAPABILITIES | added) - dropped


def execute(config: Message, status: socket.socket) -> None:
    """Replace this process by the program."""
    env = config["env"]
    path, reason, denied = _find_program(config["argv"][0], env.get("PATH", ""))
    if reason:
        report(status, {"error": f"{STARTING}{reason}", "denied": denied})
        os._exit(1)
    # Ignored by the interpreter and by the launcher; programs inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, *IGNORED_SIGNALS):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.umask(0o022)
    try:
        os.execve(path, config["argv"], env)  # noqa: S606 (a program's own arguments)
    except OSError as error:
        status.close()
        with contextlib.suppress(OSError):
            os.write(2, f"exec {path}: {describe_error(error)}\n".encode())
        os._exit(_EXEC_FAILED_CODE)


def _find_program(program: str, path: str) -> tuple[str, str, str]:
    """Return the path of a program; if there is none, the reason in runc's words.

    The third text is what this process may not do, as `describe_denied` returns; or empty.

    Source: go os/exec/lp_unix.go, `LookPath`, `findExecutable`.
    """
    if "/" in program:
        try:
            status = os.stat(program)
        except OSError as error:
            denied = describe_denied(program) if error.errno == errno.EACCES else ""
            return "", f'exec: "{program}": stat {program}: {describe_error(error)}', denied
        if stat.S_ISDIR(status.st_mode) or not os.access(program, os.X_OK):
            return "", f'exec: "{program}": permission denied', describe_denied(program)
        return program, "", ""
    denied = ""
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{program}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate, "", ""
        denied = denied or _describe_denied_candidate(candidate)
    return "", f'exec: "{program}": executable file not found in $PATH', denied


def _describe_denied_candidate(path: str) -> str:
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as error:
        return describe_denied(path) if error.errno == errno.EACCES else ""
    return describe_denied(path) if is_file else ""


def describe_denied(path: str) -> str:
    """Return what keeps this process from executing or entering a path, with mode and owner.

    It completes "the user may not".
    """
    current = "/"
    for part in os.path.realpath(path).strip("/").split("/"):
        if not os.access(current, os.X_OK):
            break
        current = os.path.join(current, part)
    status = os.stat(current)
    owner = f"mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}:{status.st_gid}"
    if not stat.S_ISDIR(status.st_mode):
        return f"execute {current} ({owner})"
    if os.access(current, os.X_OK):
        return f"execute {current} (a folder)"
    return f"enter {current} ({owner})"


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
