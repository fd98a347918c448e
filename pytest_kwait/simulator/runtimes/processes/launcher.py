"""The launcher: makes sandboxes, forks containers and exec sessions, and reports their exits."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
from typing import TYPE_CHECKING

from pytest_kwait.simulator.network.filter_rules import FilterRule, PortRange
from pytest_kwait.simulator.runtimes.processes.container_init import (
    DEFAULT_PIDS,
    MAX_STATUS,
    RELAY_MARK,
    STARTING,
    STATUS_KIND,
    Environment,
    check_sysctl,
    close_others,
    has_routes_by_mark,
    map_users,
    run_child,
    run_container,
    run_plain,
    run_sandbox,
    run_session,
    wait_for_container,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.program import (
    run_container as run_intercepted_container,
)
from pytest_kwait.simulator.runtimes.processes.logger import (
    LOG_DESCRIPTORS,
    Logger,
    LoggerProcess,
)
from pytest_kwait.simulator.runtimes.processes.messages import (
    MessageReader,
    pack_message,
    receive,
)
from pytest_kwait.simulator.runtimes.processes.netlink import Netlink
from pytest_kwait.simulator.runtimes.processes.packet_filter import PacketFilter
from pytest_kwait.simulator.runtimes.processes.processes import (
    is_listening,
    kill,
    list_children,
    list_processes,
    read_own_bytes,
    read_resident_bytes,
)
from pytest_kwait.simulator.runtimes.processes.root_filesystem import (
    RootError,
    describe_error,
    get_layer,
    remove_below,
    set_mode,
)
from pytest_kwait.simulator.runtimes.processes.system_calls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    setns,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kwait.simulator.runtimes.processes.cgroups import Cgroup, Cgroups
    from pytest_kwait.simulator.runtimes.processes.messages import Message

BRIDGE = "kwait0"
"""The device that connects the pods."""

_SPARE_CONTAINERS = 2
_KILLED_CODE = 128 + signal.SIGKILL
_WATCH_SECONDS = 0.05
_MAX_TERMINATION_LOG = 4096
_NAMESPACES = ("user", "net", "uts", "ipc", "mnt")
# Source: include/uapi/linux/in.h; include/uapi/asm-generic/socket.h.
_IP_TRANSPARENT, _SO_MARK = 19, 36


class _Sandbox:
    """Namespaces of a pod; without namespaces, its folders.

    Args:
        config: `SandboxConfig` as a mapping.
    """

    def __init__(self, number: int, config: Message) -> None:
        self.number, self.config = number, config
        self.namespaces: dict[str, int] = {}
        self.storage = -1
        self.pause = 0
        self.stopped = False
        self.filter: PacketFilter | None = None
        self.processes: list[_Process] = []

    def close(self) -> None:
        """Release the namespaces; processes in them keep them."""
        for fd in (*self.namespaces.values(), *([self.storage] if self.storage >= 0 else ())):
            os.close(fd)
        self.namespaces, self.storage = {}, -1


class _SandboxChild:
    """The process that makes a sandbox.

    Args:
        sandbox: None while no pod needs it.
    """

    def __init__(self, pid: int, status: socket.socket, sandbox: _Sandbox | None) -> None:
        self.pid, self.status, self.sandbox = pid, status, sandbox
        self.namespaces: dict[str, int] = {}
        self.is_joined = False

    def close(self) -> None:
        """End it without a pod."""
        self.status.close()
        for fd in self.namespaces.values():
            os.close(fd)


class _ContainerChild:
    """A process that has entered a cgroup, which may take 50 ms, before a container needs it."""

    def __init__(self, pid: int, status: socket.socket, cgroup: Cgroup) -> None:
        self.pid, self.status, self.cgroup = pid, status, cgroup
        self.is_joined = False


class _Process:
    """A program, while it starts and runs.

    Args:
        container: None for a container's own program; that program for an exec session.
        config: `ContainerConfig` as a mapping; of an exec session with its own argv and so on.
    """

    def __init__(
        self, number: int, sandbox: _Sandbox, config: Message, container: _Process | None
    ) -> None:
        self.number, self.sandbox, self.config, self.container = number, sandbox, config, container
        self.pid = 0
        # The child of the launcher that ends with the program: itself, or what intercepts it.
        self.child = 0
        # Connection to what intercepts a container's programs.
        self.interceptor: socket.socket | None = None
        self.code: int | None = None
        self.mount_namespace = 0
        self.status: socket.socket | None = None
        self.error: str | None = None
        self.denied = ""
        self.cgroup: Cgroup | None = None
        self.memory: int | None = config["memory_bytes"] if container is None else None
        self.is_over_memory = False
        self.signals: list[int] = []


class Launcher:
    """The loop that answers the server's messages.

    Args:
        control: the connection to the server.
        environment: the state that forked processes need.
        groups: the cluster's cgroups.
        isolated: whether this is process 1 of the namespaces.
    """

    def __init__(
        self, control: socket.socket, environment: Environment, groups: Cgroups, *, isolated: bool
    ) -> None:
        self._control, self._environment, self._groups = control, environment, groups
        self._isolated = isolated
        self._reader = MessageReader(control)
        self._sandboxes: dict[int, _Sandbox] = {}
        self._processes: dict[int, _Process] = {}
        self._by_pid: dict[int, _Process] = {}
        # Exits that came before the message with the process' number; helpers have no exit.
        self._early_exits: dict[int, int] = {}
        self._helpers: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._veths = 0
        # Made ahead: a new network device and a change of cgroup wait for all processors.
        self._spare_sandbox: _SandboxChild | None = None
        self._spare_containers: list[_ContainerChild] = []
        self._container_children = 0
        # Until one could not be made.
        self._has_spares = isolated
        self._netlink = Netlink() if isolated else None
        self._filter, self._rules = PacketFilter(), list[FilterRule]()
        self._logger: LoggerProcess | None = None

    # -- the loop

    def run(self) -> None:
        """Answer messages until the server ends."""
        wakeup, wakeup_write = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(wakeup_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        self._selector.register(self._control, selectors.EVENT_READ, self._read_control)
        self._selector.register(wakeup, selectors.EVENT_READ, lambda: self._reap(wakeup))
        while True:
            if self._has_spares:
                # Here, where no descriptors of a message are open.
                self._fork_spares()
            watched = [process for process in self._processes.values() if self._is_watched(process)]
            for key, _ in self._selector.select(_WATCH_SECONDS if watched else None):
                if key.data() is False:
                    return
            if watched:
                self._watch_memory(watched)

    def _read_control(self) -> bool:
        messages = self._reader.read()
        if messages is None:
            return False
        for message, fds in messages:
            handle: Callable[[Message, list[int]], None] = getattr(self, f"_op_{message['op']}")
            handle(message, fds)
        return True

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message to the server."""
        data = pack_message(message, len(fds))
        # A server that is gone is noticed by the next read.
        with contextlib.suppress(OSError):
            sent = socket.send_fds(self._control, [data], fds) if fds else 0
            self._control.sendall(data[sent:])

    # -- sandboxes

    def _op_sandbox(self, message: Message, _: list[int]) -> None:
        sandbox = _Sandbox(message["id"], message["config"])
        self._sandboxes[sandbox.number] = sandbox
        if not self._isolated:
            self._make_plain_sandbox(sandbox)
            return
        if sandbox.config["host_network"] or self._spare_sandbox is None:
            try:
                self._fork_sandbox(sandbox)
            except OSError as error:
                del self._sandboxes[sandbox.number]
                text = f"{STARTING}fork: {describe_error(error)}"
                self.send({"op": "sandbox", "id": sandbox.number, "error": text})
        else:
            child, self._spare_sandbox = self._spare_sandbox, None
            child.sandbox = sandbox
            if child.is_joined:
                self._configure_sandbox(child)

    def _fork_sandbox(self, sandbox: _Sandbox | None) -> _SandboxChild:
        """Fork the process that makes a sandbox; None for the next one that will be needed."""
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, STATUS_KIND)
        flags = CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS
        if self._environment.has_user_namespace:
            flags |= CLONE_NEWUSER
        if sandbox is None or not sandbox.config["host_network"]:
            flags |= CLONE_NEWNET
        pid = os.fork()
        if not pid:
            run_child(lambda: run_sandbox(self._environment, child_socket, flags), child_socket)
        self._helpers.add(pid)
        child_socket.close()
        child = _SandboxChild(pid, own_socket, sandbox)
        self._selector.register(own_socket, selectors.EVENT_READ, lambda: self._read_sandbox(child))
        return child

    def _read_sandbox(self, child: _SandboxChild) -> None:
        status, sandbox = child.status, child.sandbox
        data, fds = receive(status, MAX_STATUS)
        answer: Message = json.loads(data) if data else {"error": f"{STARTING}sandbox was killed"}
        if not child.is_joined and "error" not in answer:
            try:
                self._join_sandbox(child)
                if sandbox is not None:
                    self._configure_sandbox(child)
                return
            except OSError as error:
                answer = {"error": f"{STARTING}create pod network: {describe_error(error)}"}
        self._finish_sandbox(child, answer, fds)

    def _configure_sandbox(self, child: _SandboxChild) -> None:
        """Have the process of a joined sandbox set it up for its pod."""
        if child.sandbox is None:
            return
        child.sandbox.namespaces = child.namespaces
        try:
            child.status.send(json.dumps(child.sandbox.config).encode("utf-8", "surrogateescape"))
        except OSError as error:
            text = f"{STARTING}configure sandbox: {describe_error(error)}"
            self._finish_sandbox(child, {"error": text}, [])

    def _finish_sandbox(self, child: _SandboxChild, answer: Message, fds: list[int]) -> None:
        """Report a sandbox that is ready or has failed."""
        status, sandbox = child.status, child.sandbox
        if sandbox is None:
            # A spare one; the next sandbox reports the reason.
            self._selector.unregister(status)
            child.close()
            self._has_spares = False
            self._spare_sandbox = None
            return
        self._selector.unregister(status)
        status.close()
        reply: Message = {"op": "sandbox", "id": sandbox.number, "error": answer.get("error")}
        if "error" in answer:
            self._sandboxes.pop(sandbox.number, None)
            sandbox.close()
        else:
            sandbox.pause = answer["pause"]
            sandbox.storage = fds.pop(0)
            if sandbox.pause:
                sandbox.namespaces["pid"] = fds.pop()
            # The reason is in the answer to the message that has brought the rules.
            with contextlib.suppress(OSError):
                self._filter_pod(sandbox)
        self.send(reply, fds)
        for fd in fds:
            os.close(fd)
        if sandbox.stopped:
            self._end_sandbox(sandbox)

    def _join_sandbox(self, child: _SandboxChild) -> None:
        """Map the users of a new pod's namespace, hold its namespaces, and connect its network."""
        pid, sandbox = child.pid, child.sandbox
        has_network = sandbox is None or not sandbox.config["host_network"]
        if self._environment.has_user_namespace:
            map_users(pid, any_user=self._environment.any_user, outside=(0, 0))
        # The launcher's own network namespace needs not be entered, nor could it be from below.
        own = set() if has_network else {"net"}
        own |= set() if self._environment.has_user_namespace else {"user"}
        for name in _NAMESPACES:
            if name not in own:
                child.namespaces[name] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        if has_network and self._netlink is not None:
            self._veths += 1
            name = f"veth{self._veths}"
            self._netlink.add_veth(name, BRIDGE, "eth0", child.namespaces["net"])
        child.is_joined = True

    def _make_plain_sandbox(self, sandbox: _Sandbox) -> None:
        folder = self._get_plain_folder(sandbox)
        fds = []
        error = None
        try:
            if self._environment.addresses:
                for name in sandbox.config["sysctls"]:
                    check_sysctl(name)
                    os.stat(f"/proc/sys/{name.replace('.', '/')}")
            os.makedirs(f"{folder}/files")
            os.mkdir(f"{folder}/empty")
            for number, (_, content) in enumerate(sorted(sandbox.config["files"].items())):
                with open(f"{folder}/files/{number}", "wb") as file:
                    file.write(content.encode("latin-1"))
            for empty_dir in sandbox.config["empty_dirs"]:
                path = f"{folder}/empty/{empty_dir['name']}"
                os.mkdir(path)
                set_mode(path, empty_dir)
                fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            sandbox.storage = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except RootError as failure:
            error = f"{STARTING}error during container init: {failure}"
        except OSError as failure:
            error = f"{STARTING}{failure.filename}: {describe_error(failure)}"
        self.send({"op": "sandbox", "id": sandbox.number, "error": error}, fds)
        for fd in fds:
            os.close(fd)

    def _op_stop(self, message: Message, _: list[int]) -> None:
        sandbox = self._sandboxes.get(message["sandbox"])
        if sandbox is None or sandbox.stopped:
            return
        sandbox.stopped = True
        for process in sandbox.processes:
            self._signal(process, signal.SIGKILL)
        if sandbox.storage >= 0:
            self._end_sandbox(sandbox)

    def _end_sandbox(self, sandbox: _Sandbox) -> None:
        """Release a stopped sandbox once none of its processes is left."""
        if sandbox.pause:
            kill(sandbox.pause, signal.SIGKILL)
            sandbox.pause = 0
        if sandbox.processes:
            return
        if not self._isolated and sandbox.storage >= 0:
            remove_below(sandbox.storage)
            sandbox.storage = -1
            with contextlib.suppress(OSError):
                os.rmdir(self._get_plain_folder(sandbox))
        sandbox.close()
        self._sandboxes.pop(sandbox.number, None)

    def _op_file(self, message: Message, _: list[int]) -> None:
        sandbox = self._sandboxes.get(message["sandbox"])
        if sandbox is None or sandbox.storage < 0:
            return
        number = sorted(sandbox.config["files"]).index(message["path"])
        # Written in place: it is mounted in the containers.
        flags = os.O_WRONLY | os.O_TRUNC
        fd = os.open(f"files/{number}", flags, dir_fd=sandbox.storage)
        with os.fdopen(fd, "wb") as file:
            file.write(message["content"].encode("latin-1"))

    # -- programs

    def _op_start(self, message: Message, fds: list[int]) -> None:
        sandbox = self._sandboxes.get(message["sandbox"])
        container = self._processes.get(message["container"]) if message["container"] else None
        error = ""
        if sandbox is None or sandbox.stopped or sandbox.storage < 0:
            error = "sandbox is stopped"
        elif message["container"] and (container is None or not container.pid):
            error = "container is not running"
        elif container is None and self._find_target(sandbox, message["config"]) == 0:
            error = f"target container {message['config']['process_target']} is not running"
        if error or sandbox is None:
            self.send({"op": "started", "id": message["id"], "error": f"{STARTING}{error}"})
        else:
            if container is None:
                # A restarted container starts with an empty layer.
                message["config"]["id"] += f"-{message['id']}"
            process = _Process(message["id"], sandbox, message["config"], container)
            try:
                if message["is_logged"]:
                    self._log(fds[-LOG_DESCRIPTORS:])
                    self._start(process, fds[:-LOG_DESCRIPTORS])
                else:
                    self._start(process, fds)
            except OSError as failure:
                text = f"{STARTING}logger: {describe_error(failure)}"
                self.send({"op": "started", "id": process.number, "error": text})
        for fd in fds:
            os.close(fd)

    def _log(self, fds: Sequence[int]) -> None:
        """Have the output of a program read, by another logger if the last one was killed."""
        if self._logger is not None:
            try:
                self._logger.take(fds)
                return
            except OSError:
                self._close_logger()
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, STATUS_KIND)
        pid = os.fork()
        if not pid:
            run_child(lambda: _run_logger(child_socket), child_socket)
        self._helpers.add(pid)
        child_socket.close()
        self._logger = LoggerProcess(own_socket)
        self._logger.take(fds)

    def _close_logger(self) -> None:
        if self._logger is not None:
            self._logger.close()
            self._logger = None

    def _start(self, process: _Process, fds: list[int]) -> None:
        config = process.config
        try:
            if process.container is None:
                if self._isolated:
                    os.mkdir(get_layer(config["id"]), dir_fd=process.sandbox.storage)
                if not config["process_target"] and self._start_spare(process, fds):
                    return
                name = f"{process.sandbox.number}-{process.number}"
                process.cgroup = self._groups.create(name)
                process.cgroup.set_limits(config["memory_bytes"], config["pids"] or DEFAULT_PIDS)
            else:
                process.cgroup = process.container.cgroup
                if process.container.interceptor is not None:
                    self._start_intercepted_session(process, process.container.interceptor, fds)
                    return
            own_socket, child_socket = socket.socketpair(socket.AF_UNIX, STATUS_KIND)
            theirs = self._connect_interceptor(process) if self._environment.addresses else None
            pid = os.fork()
        except OSError as error:
            text = f"{STARTING}{error.filename or 'fork'}: {describe_error(error)}"
            self.send({"op": "started", "id": process.number, "error": text})
            return
        if not pid:
            own_socket.close()
            run_child(lambda: self._run_program(process, child_socket, fds, theirs), child_socket)
        if self._isolated:
            self._helpers.add(pid)
        child_socket.close()
        if theirs is not None:
            theirs.close()
        self._selector.register(
            own_socket, selectors.EVENT_READ, lambda: self._read_status(process)
        )
        self._add_process(process, own_socket)
        if self._environment.addresses:
            process.child = pid
            self._by_pid[pid] = process
        elif not self._isolated:
            self._set_pid(process, pid)

    def _connect_interceptor(self, process: _Process) -> socket.socket:
        """Return the connection of a container's interceptor to this process."""
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        process.interceptor = own_socket
        reader = MessageReader(own_socket)
        self._selector.register(
            own_socket, selectors.EVENT_READ, lambda: self._read_interceptor(process, reader)
        )
        return child_socket

    def _start_intercepted_session(
        self, process: _Process, interceptor: socket.socket, fds: list[int]
    ) -> None:
        """Have the interceptor of a container start the program of an exec session."""
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, STATUS_KIND)
        self._selector.register(
            own_socket, selectors.EVENT_READ, lambda: self._read_status(process)
        )
        self._add_process(process, own_socket)
        message = {"id": process.number, "config": process.config}
        data = pack_message(message, 1 + len(fds))
        # One that has ended is noticed where its messages are read.
        with contextlib.suppress(OSError):
            sent = socket.send_fds(interceptor, [data], [child_socket.fileno(), *fds])
            interceptor.sendall(data[sent:])
        child_socket.close()

    def _read_interceptor(self, container: _Process, reader: MessageReader) -> None:
        """Take the exit codes of a container's exec sessions."""
        messages = reader.read()
        for message, _ in messages or ():
            process = self._processes.get(message["id"])
            if process is not None:
                self._end_session(process, message["code"])
        if messages is None and container.interceptor is not None:
            self._selector.unregister(container.interceptor)
            container.interceptor.close()
            container.interceptor = None
            for process in list(container.sandbox.processes):
                if process.container is container:
                    self._end_session(process, _KILLED_CODE)

    def _end_session(self, process: _Process, code: int) -> None:
        if process.status is None:
            self._end(process, code)
        else:
            # Its start is reported first.
            process.code = code

    def _run_program(
        self,
        process: _Process,
        status: socket.socket,
        fds: list[int],
        interceptor: socket.socket | None,
    ) -> None:
        """Run a program in a forked process."""
        environment, config, sandbox = self._environment, process.config, process.sandbox
        container = process.container
        if interceptor is not None:
            folder = self._get_plain_folder(sandbox)
            run_intercepted_container(
                environment, config, sandbox.config, folder, interceptor, status, fds,
                process.cgroup,
            )  # fmt: skip
        if not self._isolated:
            pod = sandbox.config if container is None else None
            folder = self._get_plain_folder(sandbox)
            run_plain(environment, config, pod, folder, status, fds, process.cgroup)
            return
        if process.cgroup is not None:
            process.cgroup.join()
        if container is None:
            namespaces = dict(sandbox.namespaces)
            target = self._find_target(sandbox, config)
            if target:
                namespaces["pid"] = os.open(f"/proc/{target}/ns/pid", os.O_RDONLY)
            run_container(environment, config, sandbox.config, namespaces, status, fds)
        else:
            run_session(environment, config, container.pid, sandbox.namespaces, status, fds)

    def _find_target(self, sandbox: _Sandbox, config: Message) -> int | None:
        """Return the process of the container whose processes another sees; 0 if it has ended."""
        target = config["process_target"]
        if not target or not self._isolated:
            return None
        for process in reversed(sandbox.processes):
            name = process.config["id"].rpartition("-")[0]
            if process.container is None and process.pid and name == target:
                return process.pid
        return 0

    def _get_plain_folder(self, sandbox: _Sandbox) -> str:
        return f"{self._environment.folder}/{sandbox.number}"

    def _add_process(self, process: _Process, status: socket.socket) -> None:
        process.status = status
        self._processes[process.number] = process
        process.sandbox.processes.append(process)

    def _fork_spares(self) -> None:
        """Fork processes for the next sandbox and the next containers."""
        try:
            if self._spare_sandbox is None:
                self._spare_sandbox = self._fork_sandbox(None)
            if self._groups.memory or self._groups.pids:
                while len(self._spare_containers) < _SPARE_CONTAINERS:
                    self._fork_container()
        except OSError:
            # The next one that is needed reports the reason.
            self._has_spares = False

    def _fork_container(self) -> None:
        """Fork a process for the next container, in a cgroup of its own."""
        self._container_children += 1
        cgroup = self._groups.create(f"spare-{self._container_children}")
        own_socket, child_socket = socket.socketpair(socket.AF_UNIX, STATUS_KIND)
        pid = os.fork()
        if not pid:
            run_child(
                lambda: wait_for_container(self._environment, cgroup, child_socket), child_socket
            )
        self._helpers.add(pid)
        child_socket.close()
        child = _ContainerChild(pid, own_socket, cgroup)
        self._spare_containers.append(child)
        self._selector.register(own_socket, selectors.EVENT_READ, lambda: self._read_spare(child))

    def _read_spare(self, child: _ContainerChild) -> None:
        """Note that a spare process is ready, or drop it."""
        if child.status.recv(MAX_STATUS) == b"{}":
            child.is_joined = True
            return
        self._has_spares = False
        self._spare_containers.remove(child)
        self._selector.unregister(child.status)
        child.status.close()

    def _start_spare(self, process: _Process, fds: list[int]) -> bool:
        """Start a container in a process that was forked ahead; returns whether there is one."""
        namespaces = process.sandbox.namespaces
        data = json.dumps(
            {
                "sandbox": process.sandbox.config,
                "namespaces": list(namespaces),
                "config": process.config,
            }
        ).encode("utf-8", "surrogateescape")
        child = next(
            (container for container in self._spare_containers if container.is_joined), None
        )
        if child is None or len(data) > MAX_STATUS:
            return False
        self._spare_containers.remove(child)
        config = process.config
        child.cgroup.set_limits(config["memory_bytes"], config["pids"] or DEFAULT_PIDS)
        socket.send_fds(child.status, [data], [*namespaces.values(), *fds])
        process.cgroup = child.cgroup
        self._selector.modify(
            child.status, selectors.EVENT_READ, lambda: self._read_status(process)
        )
        self._add_process(process, child.status)
        return True

    def _set_pid(self, process: _Process, pid: int) -> None:
        process.pid = pid
        process.child = process.child or pid
        self._by_pid[process.child] = process
        for number in process.signals:
            self._signal(process, number)

    def _read_status(self, process: _Process) -> None:
        """Read what a starting process reports; its end means that the program was executed."""
        status = process.status
        if status is None:
            return
        data, fds = receive(status, MAX_STATUS)
        for line in data.splitlines():
            self._read_report(process, json.loads(line), fds)
        if data:
            return
        self._selector.unregister(status)
        status.close()
        process.status = None
        if not process.pid and process.error is None:
            process.error = f"{STARTING}process was killed"
        started = {"error": process.error, "denied": process.denied}
        self.send({"op": "started", "id": process.number, **started})
        if not process.pid:
            self._by_pid.pop(process.child, None)
            self._forget(process)
            return
        code = self._early_exits.pop(process.child, process.code)
        if code is not None:
            self._end(process, code)

    def _read_report(self, process: _Process, answer: Message, fds: list[int]) -> None:
        if "pid" in answer:
            self._set_pid(process, answer["pid"])
        elif "mount_namespace" in answer:
            process.mount_namespace = answer["mount_namespace"]
        elif "terminal" in answer:
            self.send({"op": "terminal", "id": process.number}, fds)
            for fd in fds:
                os.close(fd)
        else:
            process.error, process.denied = answer["error"], answer.get("denied", "")

    def _op_signal(self, message: Message, _: list[int]) -> None:
        process = self._processes.get(message["id"])
        if process is not None:
            self._signal(process, message["number"])

    def _signal(self, process: _Process, number: int) -> None:
        if not process.pid:
            process.signals.append(number)
            return
        kill(process.pid, number)
        if number == signal.SIGKILL and process.container is None:
            self._kill_rest(process)

    def _kill_rest(self, process: _Process) -> None:
        """Kill what a container's program leaves, where no PID namespace ends with it."""
        shares_pids = process.sandbox.config["share_pids"] or process.config["process_target"]
        if not self._isolated or shares_pids:
            for pid in self._list_processes(process):
                kill(pid, signal.SIGKILL)
        if not self._isolated:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def _list_processes(self, process: _Process) -> Iterator[int]:
        """Yield the processes of a container."""
        limited = set() if process.cgroup is None else process.cgroup.list_processes()
        for pid in list_processes():
            with contextlib.suppress(OSError):
                if self._isolated:
                    is_of_container = (
                        os.stat(f"/proc/{pid}/ns/mnt").st_ino == process.mount_namespace
                    )
                else:
                    # One that left the session is found where a cgroup limits the container.
                    is_of_container = os.getsid(pid) == process.pid or pid in limited
                if is_of_container:
                    yield pid

    def _reap(self, wakeup: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            process = self._by_pid.get(pid)
            if pid in self._helpers:
                self._helpers.discard(pid)
            elif process is not None and process.status is None:
                self._end(process, code)
            elif any(process.status is not None for process in self._processes.values()):
                # Its start is reported first.
                self._early_exits[pid] = code
            else:
                self._early_exits.clear()
            if self._environment.addresses and process is None:
                self._kill_orphans()

    def _end(self, process: _Process, code: int) -> None:
        """Report a program's exit."""
        self._by_pid.pop(process.child, None)
        container = process.container or process
        killed = container.is_over_memory
        log = ""
        fault = ""
        if process.container is None:
            self._kill_rest(process)
            if code < 0 and process.child != process.pid:
                fault = signal.Signals(-code).name
                self._kill_orphans()
            if process.cgroup is not None:
                killed = killed or process.cgroup.count_oom_kills() > 0
        if process.container is None and process.sandbox.storage >= 0:
            log = self._read_termination_log(process)
        process.pid = 0
        if process.error is None:
            self.send(
                {
                    "op": "exit",
                    "id": process.number,
                    "code": 128 - code if code < 0 else code,
                    "oom_killed": killed,
                    "log": log,
                    "fault": fault,
                }
            )
        self._forget(process)

    def _kill_orphans(self) -> None:
        """Kill what a killed interceptor has left: this process is its parent then."""
        for pid in list_children():
            if pid not in self._helpers and pid not in self._by_pid:
                kill(pid, signal.SIGKILL)

    def _read_termination_log(self, process: _Process) -> str:
        if not process.config["termination_log"]:
            return ""
        path = f"{get_layer(process.config['id'])}/termination-log"
        if not self._isolated:
            path = f"{process.config['id']}/termination-log"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=process.sandbox.storage)
        except OSError:
            return ""
        with os.fdopen(fd, "rb") as file:
            file.seek(max(os.fstat(fd).st_size - _MAX_TERMINATION_LOG, 0))
            return file.read(_MAX_TERMINATION_LOG).decode("latin-1")

    def _forget(self, process: _Process) -> None:
        self._processes.pop(process.number, None)
        sandbox = process.sandbox
        sandbox.processes.remove(process)
        if process.container is None:
            if process.cgroup is not None:
                process.cgroup.remove()
            if not sandbox.stopped and sandbox.storage >= 0:
                self._remove_layer(process)
        if sandbox.stopped:
            self._end_sandbox(sandbox)

    def _remove_layer(self, process: _Process) -> None:
        """Free what a container wrote, in a process of its own: there may be many files."""
        pid = os.fork()
        if pid:
            self._helpers.add(pid)
            return
        layer = get_layer(process.config["id"]) if self._isolated else process.config["id"]
        try:
            storage = process.sandbox.storage
            if self._environment.has_user_namespace:
                setns(process.sandbox.namespaces["user"])
            fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY, dir_fd=storage)
            remove_below(fd)
            os.rmdir(layer, dir_fd=storage)
        finally:
            os._exit(0)

    # -- memory

    def kill_all(self) -> None:
        """Kill all plain processes with their sessions, and the logger."""
        self._close_logger()
        for process in self._processes.values():
            if process.pid:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _is_watched(self, process: _Process) -> bool:
        return bool(process.memory and process.pid and not self._groups.memory)

    def _watch_memory(self, watched: list[_Process]) -> None:
        """Kill containers above their memory limit, where no cgroup does."""
        for process in watched:
            if not process.pid or process.memory is None:
                continue
            pids = list(self._list_processes(process))
            if sum(map(read_resident_bytes, pids)) <= process.memory:
                continue
            # Exact, but slow: pages that processes share are divided among them.
            if sum(map(read_own_bytes, pids)) > process.memory:
                process.is_over_memory = True
                self._signal(process, signal.SIGKILL)

    def _op_memory(self, message: Message, _: list[int]) -> None:
        process = self._processes.get(message["process"])
        number = 0
        if process is not None:
            try:
                if process.cgroup is not None:
                    process.cgroup.set_memory(message["limit"])
                process.memory = message["limit"]
            except OSError as error:
                number = error.errno or errno.EIO
        self.send({"op": "reply", "id": message["id"], "errno": number})

    # -- sockets and addresses

    def _op_socket(self, message: Message, _: list[int]) -> None:
        kind = socket.SOCK_STREAM if message["kind"] == "tcp" else socket.SOCK_DGRAM
        address = message["address"]
        family = socket.AF_INET6 if address and ":" in address else socket.AF_INET
        sandbox = self._sandboxes.get(message.get("sandbox", 0))
        network = None if sandbox is None else sandbox.namespaces.get("net")
        try:
            with _entered_network(network), socket.socket(family, kind) as created:
                if message["any_source"]:
                    _allow_any_source(created, network)
                if address is not None:
                    if kind == socket.SOCK_STREAM:
                        created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    created.bind((address, message["port"]))
                    if kind == socket.SOCK_STREAM:
                        created.listen(1024)
                self.send({"op": "reply", "id": message["id"], "errno": 0}, [created.fileno()])
        except OSError as error:
            self.send({"op": "reply", "id": message["id"], "errno": error.errno or errno.EIO})

    def _op_port(self, message: Message, _: list[int]) -> None:
        sandbox = self._sandboxes.get(message["sandbox"])
        network = None if sandbox is None else sandbox.namespaces.get("net")
        number = 0
        try:
            with _entered_network(network):
                if not is_listening(message["address"], message["port"]):
                    number = errno.ECONNREFUSED
        except OSError as error:
            number = error.errno or errno.EIO
        self.send({"op": "reply", "id": message["id"], "errno": number})

    def _op_address(self, message: Message, _: list[int]) -> None:
        number = 0
        if self._netlink is not None:
            change = self._netlink.add_address
            if message["remove"]:
                change = self._netlink.delete_address
            try:
                change("lo", f"{message['address']}/32")
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.EADDRNOTAVAIL):
                    number = error.errno or errno.EIO
        self.send({"op": "reply", "id": message["id"], "errno": number})

    def _op_filter(self, message: Message, _: list[int]) -> None:
        self._rules = [
            FilterRule(source, destination, PortRange(*ports), is_allowed)
            for source, destination, ports, is_allowed in message["rules"]
        ]
        # Packets between pods with programs do not come through this network.
        pods = {f"{sandbox.config['address']}/32" for sandbox in self._sandboxes.values()}
        number = 0
        try:
            self._filter.replace(rule for rule in self._rules if rule.destination not in pods)
            for sandbox in self._sandboxes.values():
                self._filter_pod(sandbox)
        except OSError as error:
            number = error.errno or errno.EIO
        self.send({"op": "reply", "id": message["id"], "errno": number})

    def _filter_pod(self, sandbox: _Sandbox) -> None:
        """Apply the rules to the connections of a pod that has a network of its own.

        Raises:
            OSError: the kernel refuses them.
        """
        network = sandbox.namespaces.get("net")
        if network is not None and (self._rules or sandbox.filter is not None):
            sandbox.filter = sandbox.filter or PacketFilter(sandbox.config["address"])
            with _entered_network(network):
                sandbox.filter.replace(self._rules)


def _run_logger(control: socket.socket) -> None:
    close_others(control)
    # A system without /proc/self/comm shows the launcher's name.
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write("kwait-logger")
    Logger(control).run()


def _allow_any_source(created: socket.socket, network: int | None) -> None:
    """Let a socket in a pod's network be bound to addresses of others.

    Raises:
        OSError: the pod has no network of its own, or one without routes by mark.
    """
    if network is None or not has_routes_by_mark():
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    created.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
    created.setsockopt(socket.SOL_SOCKET, _SO_MARK, RELAY_MARK)


@contextlib.contextmanager
def _entered_network(namespace: int | None) -> Iterator[None]:
    """Enter a network namespace for a while; None for this process' own."""
    if namespace is None:
        yield
        return
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        setns(namespace)
        try:
            yield
        finally:
            setns(own)
    finally:
        os.close(own)
