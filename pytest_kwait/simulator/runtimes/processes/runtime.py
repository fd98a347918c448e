"""The client of the launcher: sandboxes, containers and exec sessions, on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.runtimes.processes.cgroups import remove_cgroups
from pytest_kwait.simulator.runtimes.processes.intercepted.addresses import Address, AddressTable
from pytest_kwait.simulator.runtimes.processes.intercepted.cluster_socket import (
    listen,
    make_cluster_socket,
)
from pytest_kwait.simulator.runtimes.processes.intercepted.connection_filter import FilterWriter
from pytest_kwait.simulator.runtimes.processes.intercepted.service_routes import RouteWriter
from pytest_kwait.simulator.runtimes.processes.logger import (
    HAS_LOGGER,
    OutputReader,
    hold_one_write,
)
from pytest_kwait.simulator.runtimes.processes.messages import MessageReader, pack_message
from pytest_kwait.simulator.runtimes.processes.processes import (
    get_cluster_name,
    is_listening,
    kill_marked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.simulator.network.filter_rules import FilterRule
    from pytest_kwait.simulator.network.relay import Routes
    from pytest_kwait.simulator.protocol.options import RequestedIsolation

Stream = Literal["stdout", "stderr"]
Kind = Literal["tcp", "udp"]
_STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_READ_BYTES = 65536
_HIGH_WATER = 1 << 18
# Ctrl-D: ends the input of a program that reads a terminal.
_END_OF_TRANSMISSION = b"\x04"
_DETECT_SECONDS = 10
_CLOSE_SECONDS = 10
_CLUSTER_NUMBERS = itertools.count()
LOOPBACK = "127.0.0.1"
_NO_OWNER = "0.0.0.0"  # noqa: S104 - of the loopback interface of nodes
_REMOVE_TRIES, _REMOVE_PAUSE = 50, 0.02
_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from pytest_kwait.simulator.runtimes.processes.supervisor import main; main()"
)


class IsolationRefusedError(OSError):
    """The machine refuses the isolation that was asked for; `str` is its reason."""


@dataclass(frozen=True)
class Isolation:
    """Isolation of programs on this system.

    Args:
        namespaces: False if programs are plain processes on the machine's network and files.
        overlay: whether programs may write to copies of the machine's folders.
        memory: `cgroup v2`, `cgroup v1`, `watcher` (memory of the processes is read) or `none`.
        pids: `cgroup v2`, `cgroup v1`, `rlimit` or `none`.
        any_user: whether any user and group can be set; else all programs have the user of the
            server, shown under the number asked for.
        missing: one sentence per restriction, for the header of a run.
        reason: why there are no namespaces; empty if there are.
        addresses: the file of the table of addresses, where system calls are intercepted.
        lacking: why a part of the isolation is not there, by its name in `ISOLATED_PARTS`; empty
            for plain processes, which have none.
    """

    namespaces: bool
    overlay: bool
    memory: str
    pids: str
    any_user: bool
    missing: tuple[str, ...] = ()
    reason: str = ""
    addresses: str = ""
    lacking: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The isolation, as it is asked for."""
        if self.namespaces:
            return "namespaces"
        return "intercepted" if self.addresses else "none"

    @property
    def refusal(self) -> str:
        """Why programs are plain processes; empty if they are isolated."""
        return "" if self.is_isolated else self.missing[0]

    @property
    def is_isolated(self) -> bool:
        """True if pods have a network and files of their own."""
        return self.namespaces or bool(self.addresses)


@dataclass(frozen=True)
class NetworkConfig:
    """The cluster's network.

    Args:
        pod_gateway: address and prefix length of the bridge (`10.244.0.1/16`); all addresses of
            pods are in its network.
        local: networks whose addresses are all local to the cluster's network namespace: those of
            services, nodes and load balancers.
    """

    pod_gateway: str = "10.244.0.1/16"
    local: tuple[str, ...] = ("10.96.0.0/12",)

    @property
    def gateway(self) -> str:
        """The address of the bridge."""
        return self.pod_gateway.partition("/")[0]

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks of pods, services, nodes and load balancers."""
        return (self.pod_gateway, *self.local)


@dataclass(frozen=True)
class StartFailure:
    """A sandbox, container or exec session that could not be started.

    Args:
        message: the reason in runc's words, after `runc create failed: ` or `exec failed: `, e.g.
            `unable to start container process: exec: "x": executable file not found in $PATH`.
        denied: what the program's user may not do, e.g. `enter /root (mode 0700, owner 0:0)`;
            empty if that is not the reason.
    """

    message: str
    denied: str = ""


@dataclass(frozen=True)
class Exit:
    """The end of a program.

    Args:
        code: the exit code; 128 + n after signal n.
        oom_killed: whether it was killed for its memory limit.
        termination_log: last 4096 bytes of the container's termination log.
        fault: the signal that has ended what intercepts its system calls, as `SIGKILL`; empty if
            nothing has.
    """

    code: int
    oom_killed: bool = False
    termination_log: bytes = b""
    fault: str = ""


@dataclass(frozen=True)
class EmptyDir:
    """An empty folder that the containers of a pod share.

    Args:
        size_bytes: limit; None for the limit of the pod's storage.
        group: group of files created in it (`fsGroup`).
    """

    name: str
    size_bytes: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class Mount:
    """A file or folder within a container.

    Args:
        target: absolute path in the container.
        source: absolute path on the machine; exclusive with `empty_dir`.
        empty_dir: name of one of the sandbox' folders.
        sub_path: path below source or folder; created as a folder where it is missing.
        read_only: True to refuse writes.
        is_of_image: True for a part of the image: a small file is the container's own copy.
    """

    target: str
    source: str | None = None
    empty_dir: str | None = None
    sub_path: str = ""
    read_only: bool = False
    is_of_image: bool = False


@dataclass(frozen=True)
class SandboxConfig:
    """What the launcher makes a pod's namespaces from.

    Args:
        id: unique, e.g. the pod's UID.
        address: the pod's address; ignored with `host_network`.
        share_pids: whether the containers see each other's processes.
        host_network: use the cluster's own network namespace, where the nodes' addresses are.
        storage_bytes: limit of everything that the containers write outside their mounts.
        files: contents by path in every container: `/etc/hosts`, `/etc/resolv.conf`,
            `/etc/hostname`; see `Sandbox.update_file`.
        sysctls: settings of the pod's namespaces by dotted name.
        hidden: paths on the machine that containers must not see.
    """

    id: str
    hostname: str
    address: str
    domainname: str = ""
    share_pids: bool = False
    host_network: bool = False
    storage_bytes: int = 1 << 30
    empty_dirs: tuple[EmptyDir, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerConfig:
    """What the launcher starts a container's program from.

    Args:
        id: unique in its sandbox.
        argv: the program and its arguments.
        env: the whole environment.
        workdir: created where it is missing.
        user: user id; None for root.
        group: group id; None for root's.
        groups: supplementary groups.
        visible: folders on the machine of which a container has a copy, although it has its own
            folder there (`/tmp`, `/run`, `/var/tmp`): those of the mapped program.
        memory_bytes: limit; None for no limit.
        pids: limit of processes and threads; None for the default.
        capabilities_add: names without `CAP_`, or `ALL`.
        capabilities_drop: as above.
        privileged: all capabilities, and writable settings of the pod's network.
        stdin: whether the program's input can be written; else it is `/dev/null`.
        termination_log: path in the container whose last bytes come with its `Exit`.
        process_target: id of a running container of the sandbox whose processes it sees; None for
            its own alone.
    """

    id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str = "/"
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    mounts: tuple[Mount, ...] = ()
    visible: tuple[str, ...] = ()
    read_only_root: bool = False
    no_new_privs: bool = False
    privileged: bool = False
    capabilities_add: tuple[str, ...] = ()
    capabilities_drop: tuple[str, ...] = ()
    memory_bytes: int | None = None
    pids: int | None = None
    tty: bool = False
    stdin: bool = False
    termination_log: str | None = None
    process_target: str | None = None


class InputStream:
    """Input of a program; what is written before `connect` is kept."""

    def __init__(self) -> None:
        self._fd = -1
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._is_writing = self._is_ending = self._is_over = False
        self._drained = asyncio.Event()
        self._drained.set()

    def connect(self, fd: int, *, is_terminal: bool = False) -> None:
        """Write to a pipe or terminal from now on; the descriptor becomes the stream's."""
        self._fd = fd
        os.set_blocking(fd, False)
        if is_terminal:
            self._end_mark = _END_OF_TRANSMISSION
            if self._is_ending:
                self._pending += self._end_mark
        self._send()

    _end_mark = b""

    def write(self, data: bytes) -> None:
        """Send data; no-op once the program has closed its input."""
        if not self._is_over and not self._is_ending:
            self._pending += data
            self._send()

    def close(self) -> None:
        """End the input after what was written."""
        if not self._is_over and not self._is_ending:
            self._pending += self._end_mark
            self._is_ending = True
            self._send()

    def abort(self) -> None:
        """Close at once."""
        if self._fd >= 0:
            if self._is_writing:
                self._loop.remove_writer(self._fd)
            os.close(self._fd)
        self._fd = -1
        self._is_over = True
        self._pending.clear()
        self._drained.set()

    async def drain(self) -> None:
        """Wait until little of what was written is left."""
        await self._drained.wait()

    def _send(self) -> None:
        if self._fd < 0:
            return
        try:
            while self._pending:
                sent = os.write(self._fd, self._pending[:_READ_BYTES])
                del self._pending[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.abort()
            return
        if self._pending and not self._is_writing:
            self._loop.add_writer(self._fd, self._send)
        elif not self._pending and self._is_writing:
            self._loop.remove_writer(self._fd)
        self._is_writing = bool(self._pending)
        if len(self._pending) > _HIGH_WATER:
            self._drained.clear()
        elif not self._pending:
            self._drained.set()
        if self._is_ending and not self._pending:
            self.abort()


class RuntimeProcess:
    """A container's program, or a program of an exec session.

    `on_started` is called with None or the failure, then `on_output` with each piece of output
    (of a terminal: all as stdout), at last `on_exit`. After a failure nothing follows. All are
    called on the event loop, never from within the call that created the process.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        config: ContainerConfig,
        on_started: Callable[[StartFailure | None], None],
        on_output: Callable[[Stream, bytes], None],
        on_exit: Callable[[Exit], None],
    ) -> None:
        self.stdin = InputStream() if config.stdin else None
        self._runtime, self._config = runtime, config
        self._on_started, self._on_output, self._on_exit = on_started, on_output, on_exit
        self._loop = asyncio.get_running_loop()
        self._number = next(runtime.numbers)
        # With None for the connection to the logger, which sends both streams.
        self._outputs: dict[int, Stream | None] = {}
        self._logged = OutputReader()
        self._reading: set[int] = set()
        self._terminal = -1
        self._size: tuple[int, int] | None = None
        self._is_paused = self._is_started = self._is_over = False
        self._exit: Exit | None = None

    def signal(self, number: int) -> None:
        """Send a signal; no-op after the exit. SIGKILL ends all processes of a container."""
        if not self._is_over and self._exit is None:
            self._runtime.send({"op": "signal", "id": self._number, "number": number})

    def resize_terminal(self, columns: int, rows: int) -> None:
        """Set the terminal's size; no-op without one."""
        self._size = (columns, rows)
        if self._terminal >= 0:
            import fcntl
            import termios

            size = struct.pack("HHHH", rows, columns, 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def pause_output(self) -> None:
        """Stop reading output: the program blocks once its pipe is full."""
        self._is_paused = True
        for fd in self._reading:
            self._loop.remove_reader(fd)
        self._reading.clear()

    def resume_output(self) -> None:
        """Read output again."""
        self._is_paused = False
        if self._is_started:
            for fd in self._outputs:
                self._loop.add_reader(fd, self._read, fd)
                self._reading.add(fd)

    def start(self, sandbox: int, container: int | None) -> None:
        """Have the launcher start the program."""
        passed_fds: list[int] = []
        if not self._config.tty:
            if self.stdin is not None:
                read, write = os.pipe()
                passed_fds.append(read)
                self.stdin.connect(write)
            passed_fds += self._make_logged_pipes() if HAS_LOGGER else self._make_pipes()
        self._runtime.add_process(self._number, self)
        config = asdict(self._config)
        message = {
            "op": "start", "id": self._number, "sandbox": sandbox, "container": container,
            "config": config, "is_logged": None in self._outputs.values(),
        }  # fmt: skip
        self._runtime.send(message, passed_fds)

    def _make_pipes(self) -> list[int]:
        """Read both streams here; returns the program's ends."""
        ends = []
        for name in _STREAMS:
            read, write = os.pipe()
            os.set_blocking(read, False)
            self._outputs[read] = name
            ends.append(write)
        return ends

    def _make_logged_pipes(self) -> list[int]:
        """Have the logger read both streams; returns the program's ends and those of the logger."""
        (read_out, write_out), (read_error, write_error) = os.pipe(), os.pipe()
        hold_one_write(write_out)
        hold_one_write(write_error)
        own_socket, logger_socket = socket.socketpair()
        own_socket.setblocking(False)
        self._outputs[own_socket.detach()] = None
        return [write_out, write_error, read_out, read_error, logger_socket.detach()]

    def on_message(self, message: dict[str, Any], fds: list[int]) -> None:
        """Handle a message of the launcher."""
        if message["op"] == "terminal":
            self._set_terminal(fds[0])
        elif message["op"] == "started":
            if message["error"] is None:
                self._is_started = True
                self._on_started(None)
                if not self._is_paused:
                    self.resume_output()
            else:
                self._close()
                self._on_started(StartFailure(message["error"], message.get("denied", "")))
        elif message["op"] == "exit":
            log = message["log"].encode("latin-1")
            self._exit = Exit(message["code"], message["oom_killed"], log, message["fault"])
            self._end_if_drained()

    def fail(self, reason: str) -> None:
        """End without the launcher, which is gone."""
        if self._is_started and not self._is_over:
            for fd in tuple(self._outputs):
                with contextlib.suppress(OSError):
                    while data := os.read(fd, _READ_BYTES):
                        self._add_output(fd, data)
            self._close()
            self._on_exit(self._exit or Exit(137))
        elif not self._is_over:
            self._close()
            self._on_started(StartFailure(reason))

    def _set_terminal(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._terminal = fd
        self._outputs[fd] = "stdout"
        if self.stdin is not None:
            self.stdin.connect(os.dup(fd), is_terminal=True)
        if self._size is not None:
            self.resize_terminal(*self._size)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last process has closed the terminal
            data = b""
        if data:
            self._add_output(fd, data)
        else:
            self._close_output(fd)
            self._end_if_drained()

    def _add_output(self, fd: int, data: bytes) -> None:
        stream = self._outputs[fd]
        if stream is not None:
            self._on_output(stream, data)
            return
        for number, written in self._logged.feed(data):
            self._on_output(_STREAMS[number], written)

    def _close_output(self, fd: int) -> None:
        if fd in self._reading:
            self._loop.remove_reader(fd)
            self._reading.discard(fd)
        del self._outputs[fd]
        if fd == self._terminal:
            self._terminal = -1
        os.close(fd)

    def _end_if_drained(self) -> None:
        if self._exit is not None and not self._outputs and not self._is_over:
            self._close()
            self._on_exit(self._exit)

    def _close(self) -> None:
        self._is_over = True
        self._runtime.remove_process(self._number)
        for fd in list(self._outputs):
            self._close_output(fd)
        if self.stdin is not None:
            self.stdin.abort()


class RuntimeContainer(RuntimeProcess):
    """A container's program."""

    _sandbox = 0

    def start(self, sandbox: int, container: int | None) -> None:
        """Have the launcher start the program."""
        self._sandbox = sandbox
        super().start(sandbox, container)

    def exec(
        self,
        argv: tuple[str, ...],
        *,
        on_started: Callable[[StartFailure | None], None],
        on_output: Callable[[Stream, bytes], None],
        on_exit: Callable[[Exit], None],
        stdin: bool = False,
        tty: bool = False,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
    ) -> RuntimeProcess:
        """Run a program with the container's namespaces, user and rights.

        Args:
            argv: the program and its arguments.
            on_started: called with None or the failure.
            on_output: called with each piece of output.
            on_exit: called at its end.
            stdin: whether its input can be written.
            tty: whether it has a terminal of its own.
            env: the whole environment; None for the container's.
            workdir: None for the container's.
        """
        config = replace(
            self._config,
            argv=argv,
            stdin=stdin,
            tty=tty,
            env=self._config.env if env is None else env,
            workdir=self._config.workdir if workdir is None else workdir,
        )
        process = RuntimeProcess(self._runtime, config, on_started, on_output, on_exit)
        process.start(self._sandbox, self._number)
        return process

    async def update_memory(self, limit: int | None) -> None:
        """Set the memory limit in bytes.

        Raises:
            OSError: the limit is below the current usage.
        """
        await self._runtime.ask({"op": "memory", "process": self._number, "limit": limit})


class Sandbox:
    """A pod's namespaces.

    Args:
        empty_dirs: folders of `SandboxConfig.empty_dirs` as this process opens them, until `stop`.
    """

    def __init__(
        self, runtime: ContainerRuntime, number: int, empty_dirs: Mapping[str, Path], fds: list[int]
    ) -> None:
        self.empty_dirs = empty_dirs
        self._runtime, self._number, self._fds = runtime, number, fds
        self._is_stopped = False

    def create_container(
        self,
        config: ContainerConfig,
        *,
        on_started: Callable[[StartFailure | None], None],
        on_output: Callable[[Stream, bytes], None],
        on_exit: Callable[[Exit], None],
    ) -> RuntimeContainer:
        """Create a container and start its program."""
        container = RuntimeContainer(self._runtime, config, on_started, on_output, on_exit)
        container.start(self._number, None)
        return container

    def update_file(self, path: str, content: bytes) -> None:
        """Replace the content of one of `SandboxConfig.files` in all containers."""
        text = content.decode("latin-1")
        self._runtime.send({"op": "file", "sandbox": self._number, "path": path, "content": text})

    async def connect_socket(self, kind: Kind, *, any_source: bool = False) -> socket.socket:
        """Return an unconnected, non-blocking socket of the pod's own network.

        Args:
            kind: `tcp` or `udp`.
            any_source: whether it may be bound to the address of another pod; TCP alone.

        Raises:
            OSError: the launcher could not make it; ENOTSUP where there are no such sockets.
        """
        return await self._runtime.make_socket(None, 0, kind, self._number, any_source=any_source)

    async def check_port(self, address: str, port: int) -> None:
        """Look for a listening TCP socket, without a connection that a program would see.

        Raises:
            ConnectionRefusedError: there is none at the address.
            OSError: the system does not tell.
        """
        await self._runtime.check_port(self._number, address, port)

    def stop(self) -> None:
        """Kill all processes and remove the namespaces; idempotent. `on_exit` still follows."""
        if self._is_stopped:
            return
        self._is_stopped = True
        for fd in self._fds:
            os.close(fd)
        self._runtime.stop_sandbox(self._number)


class ContainerRuntime:
    """Runs sandboxes and containers of one cluster.

    The launcher starts with the first call that needs it, and ends, with all that it made, when
    this process ends.

    Args:
        folder: the cluster's private folder; everything is made in a folder below it.
        network: the cluster's network.
        on_failed: called with the reason if the launcher ends before `close`.
        isolation: that of programs. None is run where the machine refuses one that is asked for;
            `auto` is the best that it permits.
    """

    def __init__(
        self,
        folder: Path,
        network: NetworkConfig | None = None,
        *,
        on_failed: Callable[[str], None] | None = None,
        isolation: RequestedIsolation = "auto",
    ) -> None:
        self.numbers = itertools.count(1)
        self._folder = folder / "container-runtime"
        self._network, self._requested_isolation = network or NetworkConfig(), isolation
        self._on_failed = on_failed
        self._launcher: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._reader: MessageReader | None = None
        self._lifeline = -1
        self._name = ""
        self._failure = ""
        self._isolation: asyncio.Future[Isolation] | None = None
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._processes: dict[int, RuntimeProcess] = {}
        self._sandboxes: dict[
            int, tuple[SandboxConfig, Callable[[Sandbox | StartFailure], None]]
        ] = {}
        self._replies: dict[int, asyncio.Future[socket.socket | None]] = {}
        self._addresses: AddressTable | None = None
        self._routes: RouteWriter | None = None
        self._filter: FilterWriter | None = None
        # Whose loopback interface is 127.0.0.1 in a sandbox.
        self._owners: dict[int, str] = {}

    @property
    def is_plain(self) -> bool:
        """Return whether programs are known to be plain processes, without namespaces."""
        known = self._isolation
        if known is None or not known.done() or known.exception() is not None:
            return False
        return not known.result().is_isolated

    async def get_isolation(self) -> Isolation:
        """Return the isolation of programs here; starts the launcher.

        Raises:
            OSError: the launcher ended.
        """
        self._start()
        if self._isolation is None:
            raise OSError(self._failure)
        return await asyncio.shield(self._isolation)

    def run_sandbox(
        self, config: SandboxConfig, ready: Callable[[Sandbox | StartFailure], None]
    ) -> None:
        """Create a sandbox; `ready` is called with it or with the failure."""
        number = next(self.numbers)
        self._sandboxes[number] = config, ready
        self._owners[number] = _NO_OWNER if config.host_network else config.address
        message = asdict(config)
        message["files"] = {
            path: content.decode("latin-1") for path, content in config.files.items()
        }
        # A container must not see the cluster's keys and kubeconfig, nor other pods' files.
        message["hidden"] = [*config.hidden, str(self._folder.parent)]
        self.send({"op": "sandbox", "id": number, "config": message})

    async def listen(self, address: str, port: int, kind: Kind) -> socket.socket:
        """Return a bound, non-blocking socket of the cluster's network; a TCP one listens.

        Raises:
            OSError: the address is in use, or none of the network.
        """
        return await self.make_socket(address, port, kind)

    async def is_isolated(self) -> bool:
        """Return whether programs have a network of their own, not the machine's."""
        return (await self.get_isolation()).is_isolated

    async def connect_socket(self, kind: Kind) -> socket.socket:
        """Return an unconnected, non-blocking socket of the cluster's network."""
        return await self.make_socket(None, 0, kind)

    async def make_socket(
        self,
        address: str | None,
        port: int,
        kind: Kind,
        sandbox: int = 0,
        *,
        any_source: bool = False,
    ) -> socket.socket:
        """Return a socket of the cluster's network, or of a sandbox by its number."""
        table = await self._find_addresses()
        if table is not None:
            owner = self._owners.get(sandbox, _NO_OWNER)
            if address is not None:
                return listen(table, (address, port), kind, self._network.networks)
            source = LOOPBACK if owner != _NO_OWNER and not any_source else self._network.gateway
            return make_cluster_socket(table, kind, source=source, owner=owner)
        message = {
            "op": "socket", "address": address, "port": port, "kind": kind, "sandbox": sandbox,
            "any_source": any_source,
        }  # fmt: skip
        created = await self.ask(message)
        if created is None:
            raise OSError("the launcher sent no socket")
        return created

    async def _find_addresses(self) -> AddressTable | None:
        """Return the table of addresses, where system calls are intercepted."""
        path = (await self.get_isolation()).addresses
        if path and self._addresses is None:
            self._addresses = AddressTable(path)
        return self._addresses

    async def route_services(self, routes: Routes) -> None:
        """Let connections to services lead straight to endpoints, where system calls are caught.

        Args:
            routes: addresses and ports of endpoints by those of services: all there are.
        """
        if await self._find_addresses() is not None:
            if self._routes is None:
                self._routes = RouteWriter((await self.get_isolation()).addresses)
            self._routes.write(routes)

    async def filter_connections(self, rules: Sequence[FilterRule]) -> None:
        """Drop new connections of programs as rules say.

        Args:
            rules: all there are.

        Raises:
            OSError: programs are plain processes, or the kernel filters no packets.
        """
        isolation = await self.get_isolation()
        if not isolation.is_isolated:
            raise OSError(errno.ENOTSUP, isolation.refusal)
        table = await self._find_addresses()
        if table is not None:
            if self._filter is None:
                self._filter = FilterWriter(isolation.addresses, table)
            self._filter.write(rules)
            return
        try:
            await self.ask({"op": "filter", "rules": rules})
        except OSError as error:
            raise OSError(error.errno, f"nf_tables: {error.strerror}") from None

    async def add_address(self, address: str) -> None:
        """Make an address of the pods' network local: of an interpreted pod; idempotent."""
        table = await self._find_addresses()
        if table is not None:
            table.add(Address(IPv4Address(address)))
            return
        await self.ask({"op": "address", "address": address, "remove": False})

    async def remove_address(self, address: str) -> None:
        """Remove an address that was added; idempotent."""
        if await self._find_addresses() is not None:
            return  # connections to it are refused once nothing listens
        await self.ask({"op": "address", "address": address, "remove": True})

    async def close(self) -> None:
        """End all processes and remove everything; idempotent."""
        launcher, self._launcher = self._launcher, None
        if launcher is None:
            return
        self._disconnect("the cluster is closed")
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, launcher.wait, _CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.kill()
            await loop.run_in_executor(None, launcher.wait)
        await self._remove_leftovers()

    # -- for processes and sandboxes

    async def check_port(self, sandbox: int, address: str, port: int) -> None:
        """Look for a listening TCP socket of a sandbox; see `Sandbox.check_port`."""
        table = await self._find_addresses()
        if table is None:
            await self.ask({"op": "port", "sandbox": sandbox, "address": address, "port": port})
            return
        host = table.add(Address(IPv4Address(address)))
        if not is_listening(str(host), table.to_machine_port(port)):
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    def send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        """Send a message to the launcher, with descriptors that are closed after it."""
        self._start()
        self._unsent.append((pack_message(message, len(fds or ())), fds or []))
        if self._control is not None and len(self._unsent) == 1:
            self._flush()
        elif self._control is None:
            self._drop_unsent()
            asyncio.get_running_loop().call_soon(self._fail_all)

    async def ask(self, message: dict[str, Any]) -> socket.socket | None:
        """Send a message and wait for its reply.

        Raises:
            OSError: the launcher could not do it.
        """
        number = next(self.numbers)
        reply: asyncio.Future[socket.socket | None] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        self.send({**message, "id": number})
        try:
            return await reply
        finally:
            self._replies.pop(number, None)

    def stop_sandbox(self, number: int) -> None:
        """Kill all processes of a sandbox and remove it."""
        self._owners.pop(number, None)
        self.send({"op": "stop", "sandbox": number})

    def add_process(self, number: int, process: RuntimeProcess) -> None:
        """Pass on messages about a process."""
        self._processes[number] = process

    def remove_process(self, number: int) -> None:
        """Pass on no more messages about a process."""
        self._processes.pop(number, None)

    # -- the launcher

    def _start(self) -> None:
        if self._control is not None or self._failure:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._name = get_cluster_name(os.getpid(), next(_CLUSTER_NUMBERS))
        own_socket, launcher_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        lifeline, self._lifeline = os.pipe()
        options = {
            **asdict(self._network),
            "folder": str(self._folder),
            "name": self._name,
            "isolation": self._requested_isolation,
        }
        package = str(Path(__file__).parents[4])
        arguments = [str(launcher_socket.fileno()), str(lifeline), json.dumps(options)]
        try:
            with (self._folder / "launcher.log").open("wb") as log:
                self._launcher = subprocess.Popen(  # noqa: S603 (our own module)
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, package, *arguments],
                    pass_fds=[launcher_socket.fileno(), lifeline],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        finally:
            launcher_socket.close()
            os.close(lifeline)
        own_socket.setblocking(False)
        self._control, self._reader = own_socket, MessageReader(own_socket)
        loop = asyncio.get_running_loop()
        self._isolation = loop.create_future()
        loop.add_reader(own_socket, self._read)

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        control = self._control
        if control is None:
            return
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                sent = socket.send_fds(control, [data], fds) if fds else control.send(data)
            except BlockingIOError:
                loop.add_writer(control, self._flush)
                return
            except OSError:
                # The end of the connection is handled where it is read.
                self._drop_unsent()
                break
            for fd in fds:
                os.close(fd)
            if sent < len(data):
                self._unsent[0] = data[sent:], []
            else:
                self._unsent.popleft()
        loop.remove_writer(control)

    def _drop_unsent(self) -> None:
        for _, fds in self._unsent:
            for fd in fds:
                os.close(fd)
        self._unsent.clear()

    def _read(self) -> None:
        messages = self._reader.read() if self._reader is not None else None
        if messages is None:
            self._on_launcher_ended()
            return
        for message, fds in messages:
            self._dispatch(message, fds)

    def _dispatch(self, message: dict[str, Any], fds: list[int]) -> None:
        operation = message.pop("op")
        if operation == "isolation" and "refused" in message:
            if self._isolation is not None and not self._isolation.done():
                self._isolation.set_exception(IsolationRefusedError(message["refused"]))
                # Retrieved here: it may be that nothing waits for it.
                self._isolation.exception()
        elif operation == "isolation":
            message["missing"] = tuple(message["missing"])
            if self._isolation is not None and not self._isolation.done():
                self._isolation.set_result(Isolation(**message))
        elif operation == "sandbox":
            self._on_sandbox(message, fds)
        elif operation == "reply":
            self._on_reply(message, fds)
        else:
            process = self._processes.get(message["id"])
            if process is not None:
                process.on_message({"op": operation, **message}, fds)
            else:
                _close_all(fds)

    def _on_sandbox(self, message: dict[str, Any], fds: list[int]) -> None:
        config, ready = self._sandboxes.pop(message["id"])
        if message["error"] is not None:
            _close_all(fds)
            ready(StartFailure(message["error"]))
            return
        empty_dirs = {
            empty_dir.name: Path(f"/proc/self/fd/{fd}")
            if sys.platform == "linux"
            else self._folder / str(message["id"]) / "empty" / empty_dir.name
            for empty_dir, fd in zip(config.empty_dirs, fds, strict=True)
        }
        ready(Sandbox(self, message["id"], empty_dirs, fds))

    def _on_reply(self, message: dict[str, Any], fds: list[int]) -> None:
        reply = self._replies.get(message["id"])
        if reply is None or reply.done():
            _close_all(fds)
        elif message["errno"]:
            reply.set_exception(OSError(message["errno"], os.strerror(message["errno"])))
        elif fds:
            created = socket.socket(fileno=fds[0])
            created.setblocking(False)
            reply.set_result(created)
        else:
            reply.set_result(None)

    def _on_launcher_ended(self) -> None:
        """Fail everything after the launcher was killed; the kernel has ended the programs."""
        launcher, self._launcher = self._launcher, None
        self._disconnect("the launcher of programs has ended")
        self._ending = asyncio.ensure_future(self._end(launcher))

    async def _end(self, launcher: subprocess.Popen[bytes] | None) -> None:
        if launcher is not None:
            await asyncio.get_running_loop().run_in_executor(None, launcher.wait)
        reason = self._failure
        with contextlib.suppress(OSError):
            lines = (self._folder / "launcher.log").read_text(errors="replace").splitlines()
            reason = f"{reason}: {lines[-1]}" if lines else reason
        await self._remove_leftovers()
        if self._on_failed is not None:
            self._on_failed(reason)

    def _disconnect(self, reason: str) -> None:
        self._failure = reason
        control, self._control = self._control, None
        if control is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(control)
            loop.remove_writer(control)
            control.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        if self._addresses is not None:
            self._addresses.close()
            self._addresses = None
        if self._filter is not None:
            self._filter.close()
            self._filter = None
        self._drop_unsent()
        if self._isolation is not None and not self._isolation.done():
            self._isolation.set_exception(OSError(reason))
            # Retrieved here: it may be that nothing waits for it.
            self._isolation.exception()
        self._fail_all()

    def _fail_all(self) -> None:
        sandboxes, self._sandboxes = self._sandboxes, {}
        for _, ready in sandboxes.values():
            ready(StartFailure(self._failure))
        for process in list(self._processes.values()):
            process.fail(self._failure)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(OSError(self._failure))

    async def _remove_leftovers(self) -> None:
        """Remove what a killed launcher and supervisor left."""
        for _ in range(_REMOVE_TRIES):
            if not kill_marked(self._name) and remove_cgroups(self._name):
                break
            await async_sleep(_REMOVE_PAUSE)
        _remove_tree(self._folder)


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _remove_tree(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


async def detect_isolation(requested: RequestedIsolation = "auto") -> Isolation:
    """Return the isolation of programs on this system; takes about 50 ms.

    Args:
        requested: the isolation that was asked for.

    Raises:
        OSError: the launcher ended or did not answer in time, or the machine refuses the isolation.
    """
    with tempfile.TemporaryDirectory(prefix="kwait-") as folder:
        # As that of a cluster, which programs of any user enter.
        Path(folder).chmod(0o711)
        runtime = ContainerRuntime(Path(folder), isolation=requested)
        try:
            return await asyncio.wait_for(runtime.get_isolation(), _DETECT_SECONDS)
        finally:
            await runtime.close()
