"""Containers whose program is interpreted: their processes, files, memory and terminals."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.applets import APPLETS, find_exec_error, run_program
from pytest_kwait.simulator.busybox.os.fds import DeviceEnd, OpenFile, PipeEnd
from pytest_kwait.simulator.busybox.os.files import File, FileSystem
from pytest_kwait.simulator.busybox.os.memory import MemoryAccount
from pytest_kwait.simulator.busybox.os.process_table import ProcessTable
from pytest_kwait.simulator.busybox.os.streams import OutputBuffer, Pipe, ProcessSession, Terminal
from pytest_kwait.simulator.busybox.os.syscalls import (
    SIGNALS,
    Process,
    ProcessContext,
    ProcessCredentials,
    Sleep,
    Task,
)
from pytest_kwait.simulator.kubelet.cri import SIGKILL_EXIT_CODE, ContainerStats
from pytest_kwait.simulator.kubelet_api import StartError
from pytest_kwait.simulator.runtimes.container import (
    TERMINATION_LOG,
    RuntimeContainer,
    format_exec_error,
    format_start_error,
)
from pytest_kwait.simulator.runtimes.interpreted.images import is_busybox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kwait.simulator.busybox.os.files import Directory, Inode
    from pytest_kwait.simulator.busybox.os.machine import Machine
    from pytest_kwait.simulator.busybox.os.network import Network
    from pytest_kwait.simulator.busybox.os.streams import Input, Sink
    from pytest_kwait.simulator.image_reference import ImageReference
    from pytest_kwait.simulator.kubelet.cri import (
        ContainerConfig,
        ContainerRequest,
        FileContent,
        LinuxContainerSecurityContext,
    )

# Files that cannot be a working directory.
_NODE_FILES = ("/etc/group", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")
_NOBODY = 65534


def find_start_error(
    image: ImageReference, context: ProcessContext, argv: list[str], directory: str = ""
) -> str:
    """Return why the container runtime cannot start the program; empty if it can."""
    if not is_busybox(image):
        return ""
    if directory.rstrip("/") in _NODE_FILES:
        why = f"error during container init: mkdir {directory}: not a directory"
        why = f"unable to start container process: {why}"
    else:
        why = _describe_start_error(context, argv[0]) if argv else ""
    return format_start_error(why) if why else ""


def _describe_start_error(context: ProcessContext, program: str) -> str:
    """Return why a program cannot be started, in the runtime's words; empty if it can."""
    fault = find_exec_error(context, program)
    if not fault:
        return ""
    if "/" in program and fault != "Permission denied":
        fault = f"stat {program}: {fault[0].lower()}{fault[1:]}"
    elif "/" in program:
        fault = "permission denied"
    return f'unable to start container process: exec: "{program}": {fault}'


def find_credentials(context: LinuxContainerSecurityContext) -> ProcessCredentials:
    """Return the user and groups of a container; root by default.

    Source: containerd pkg/oci/spec_opts.go, `WithUserID`, `WithAdditionalGIDs`.
    """
    user, group = context.run_as_user or 0, context.run_as_group
    # An image's own user has the group of its entry in /etc/passwd, as 65534 has in busybox.
    own = user if user == _NOBODY else 0
    return ProcessCredentials(
        user, own if group is None else group, context.supplemental_groups, context.privileged
    )


def _make_file(content: FileContent, now: Callable[[], float]) -> File:
    return File(content() if callable(content) else content, mtime=now())


def make_container_files(
    now: Callable[[], float],
    hostname: str,
    network: Network,
    contents: Mapping[str, FileContent],
    mounts: Mapping[str, Inode],
    read_only: Sequence[str],
    kernel_files: Mapping[str, Callable[[], Inode]] = MappingProxyType({}),
) -> FileSystem:
    """Return the file system of a container, built on first use.

    Args:
        contents: contents of files by path.
        mounts: volumes by path; they replace files of the kernel.
        read_only: folders that the container may not write to.
        kernel_files: functions that make the files of the kernel, by path.
    """

    def root() -> Directory:
        # Loaded on first use: most containers never look at their files.
        from pytest_kwait.simulator.busybox.applets import make_root

        return make_root(hostname, lambda: network.address)

    files = FileSystem(now, root)
    volumes = {path: lambda node=node: node for path, node in mounts.items()}
    for path, make in {**kernel_files, **volumes}.items():
        files.mount(path, make)
    for path, data in contents.items():
        files.mount(path, partial(_make_file, data, now))
    for path in read_only:
        files.protect(path)
    return files


def _serve_forever() -> Process:
    yield Sleep(math.inf)
    return 0


class InterpretedContainer(RuntimeContainer):
    """A container whose program is interpreted.

    Args:
        machine: the machine that it runs on.
        network: the network namespace of the pod.
        target: the container whose processes it sees; None for its own alone.
    """

    def __init__(
        self,
        machine: Machine,
        config: ContainerConfig,
        on_stopped: Callable[[str], None],
        network: Network,
        target: InterpretedContainer | None = None,
    ) -> None:
        super().__init__(machine.clock, config, on_stopped)
        self.context = ProcessContext(self.clock.time)
        self._image = config.image.spec.image
        self._network = network
        self._account = MemoryAccount(
            config.resources.memory_limit_in_bytes,
            lambda counted_files: self.context.files.measure_memory(counted_files),
            machine.memory, self._on_out_of_memory,
        )  # fmt: skip
        self._tasks: ProcessTable = ProcessTable(
            machine.cpu_scheduler, network, self._account, self._on_out_of_memory,
            None if target is None or not target.running else target._tasks,
        )  # fmt: skip
        self._pid = 1
        self._stdin: Pipe | None = None
        self.is_assumed = False
        """True if nothing is known of the program: it serves every request until SIGTERM."""

    def launch(self, argv: list[str], files: FileSystem, hostname: str) -> str:
        """Run `argv`, or the image's entry point if empty; return why it failed, or ""."""
        config, env = self.config, dict(self.config.envs)
        self._stdin = Pipe() if config.stdin else None
        directory = config.working_dir.rstrip("/") or "/"
        self.context = ProcessContext(
            self.clock.time, env, files, hostname, tty=config.stdin and config.tty, cwd=directory,
            network=self._network, user=find_credentials(config.security_context),
        )  # fmt: skip
        files.reserve_bytes = self._account.reserve
        files.assumes_folders = not is_busybox(self._image)
        failure = find_start_error(self._image, self.context, argv, config.working_dir)
        if failure:
            self.fail_to_start(failure)
            return failure
        if directory != "/" and files.find(directory) is None:
            files.make_directory(directory, parents=True)
        if not argv:
            # The image's entry point is a shell; without input it ends at once.
            argv = ["sh"] if is_busybox(self._image) else []
        program = self._make_program(argv)
        self.begin(self.clock.time())
        self._pid = self._follow(program, self.context, argv, self._stdin, self).pid
        return ""

    def _make_program(self, argv: list[str]) -> Callable[[ProcessContext], Process]:
        program = argv[0].rpartition("/")[2] if argv else ""
        if program in APPLETS or is_busybox(self._image):
            return lambda context: run_program(context, argv)
        self.is_assumed = True
        return lambda _: _serve_forever()

    def _follow(
        self, make: Callable[[ProcessContext], Process], context: ProcessContext, argv: list[str],
        stdin: Pipe | None, sink: Sink,
    ) -> Task:  # fmt: skip
        source: OpenFile = PipeEnd(stdin) if stdin is not None else DeviceEnd("null")
        return self._tasks.follow(make, context, " ".join(argv), source, sink)

    def _on_out_of_memory(self) -> None:
        """OOM-kill the container."""
        self.inject_exit(SIGKILL_EXIT_CODE, "OOMKilled", "")

    # -- the end

    def kill_processes(self) -> None:
        """Kill the processes that are left at the end."""
        self._tasks.clear(SIGKILL_EXIT_CODE)

    def read_written_message(self) -> bytes:
        """Return the contents of the file of the termination message."""
        path, files = self.config.termination_message_path or TERMINATION_LOG, self.context.files
        if path == TERMINATION_LOG and files.is_untouched(path):
            # It is empty in every image. Most programs use no file, so none is made for this.
            return b""
        return files.read(path) or b""

    def close(self) -> None:
        """Free files and memory."""
        self.context.files.close()
        self._account.close()

    def measure(self) -> ContainerStats:
        """Return the usage."""
        return ContainerStats(self._account.held, self.context.files.measure_disk())

    def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after `grace` seconds.

        Process 1 ignores SIGTERM without a handler. Then the outcome is certain, so the wait is
        scaled; with a handler the grace period is real.
        """
        if not self.running or self._kill is not None:
            return
        if self.is_assumed:
            self.exit(0, "Completed")
            return
        handled = self._tasks.handles(self._pid, SIGNALS["TERM"])
        self._tasks.signal(self._pid, SIGNALS["TERM"])
        self._kill = self.clock.call_later(grace, self.kill, scaled=not handled)

    def kill(self) -> None:
        """End with SIGKILL."""
        self.exit_killed()

    # -- requests and sessions

    def answer(self, request: ContainerRequest) -> None:
        """Send a request to the program, or let it succeed if nothing is known of that."""
        if self.is_assumed:
            request.assume_success()
        else:
            super().answer(request)

    def run(self, argv: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start another command in the container.

        Raises:
            StartError: the program does not exist.
        """
        error = _describe_start_error(self.context, argv[0]) if argv else "args must not be empty"
        if error:
            raise StartError(format_exec_error(error))
        words = list(argv)
        output = OutputBuffer()
        pipe = Pipe() if stdin else None
        context = replace(self.context, tty=tty)

        def make(inner: ProcessContext) -> Process:
            return run_program(inner, words)

        if not tty:
            started = self._follow(make, context, words, pipe, output)
            return ProcessSession(
                pipe, output, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE)
            )
        terminal = Terminal(pipe, output)
        started = self._follow(make, context, words, pipe, terminal)
        terminal.interrupted = lambda: self._tasks.interrupt(started)
        return ProcessSession(
            terminal, output, lambda: self._tasks.stop(started, SIGKILL_EXIT_CODE)
        )

    def attach(self, *, stdin: bool) -> ProcessSession:
        """Attach to the program, through its terminal if it has one."""
        output = OutputBuffer()
        pipe = self._stdin if stdin else None
        sink: Sink = output
        program_input: Input | None = pipe
        if self.config.tty:
            sink = program_input = Terminal(pipe, output)
        self.attached_sinks.append(sink)

        def leave() -> None:
            if sink in self.attached_sinks:
                self.attached_sinks.remove(sink)

        return ProcessSession(program_input, output, leave)
