"""Runs programs in a runtime of their own, and collects what the runtime reports."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.runtimes.processes.runtime import (
    ContainerConfig,
    ContainerRuntime,
    Exit,
    NetworkConfig,
    RuntimeContainer,
    RuntimeProcess,
    Sandbox,
    SandboxConfig,
    StartFailure,
    Stream,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.protocol.options import RequestedIsolation

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
PYTHON = "/usr/bin/python3"
LIMIT_SECONDS = 20
LOAD_BALANCERS = "127.250.0.0/16"
"""The network of load balancers, which is of the loopback interface elsewhere."""
Scenario = Callable[["Programs"], Awaitable[None]]


class Program:
    """A container or exec session and what has come from it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.output: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        self.pieces: list[tuple[Stream, bytes]] = []
        self.started: asyncio.Future[StartFailure | None] = loop.create_future()
        self.exited: asyncio.Future[Exit] = loop.create_future()
        self.process: RuntimeProcess | None = None
        self._grown = asyncio.Event()

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_started": self.started.set_result,
            "on_output": self._add,
            "on_exit": self.exited.set_result,
        }

    def _add(self, stream: Stream, data: bytes) -> None:
        self.output[stream] += data
        self.pieces.append((stream, data))
        self._grown.set()

    @property
    def container(self) -> RuntimeContainer:
        assert isinstance(self.process, RuntimeContainer)
        return self.process

    @property
    def stdout(self) -> str:
        return self.output["stdout"].decode()

    @property
    def stderr(self) -> str:
        return self.output["stderr"].decode()

    async def wait_for(self, text: str) -> None:
        """Wait until the output contains a text."""
        while text not in self.stdout:
            self._grown.clear()
            await self._grown.wait()

    async def get_failure(self) -> str:
        """Wait for the start to fail, and return its message."""
        failure = await self.started
        assert failure is not None, await self.exited
        return failure.message

    async def get_denied(self) -> str:
        """Wait for the start to fail, and return what the program's user may not do."""
        failure = await self.started
        assert failure is not None, await self.exited
        return failure.denied

    async def wait(self) -> Exit:
        """Wait for the exit."""
        failure = await self.started
        assert failure is None, failure
        return await self.exited

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.signal(number)

    def exec(self, *argv: str, **options: Any) -> Program:
        """Run a program in this one's container."""
        program = Program()
        program.process = self.container.exec(argv, **options, **program.callbacks())
        return program


class Programs:
    """Sandboxes and containers of one runtime."""

    def __init__(self, runtime: ContainerRuntime, folder: Path) -> None:
        self.runtime, self.folder = runtime, folder
        self._sandboxes = 0
        self._containers = 0

    async def create_sandbox(self, **config: Any) -> Sandbox:
        made = await self.try_sandbox(**config)
        assert isinstance(made, Sandbox), made
        return made

    async def try_sandbox(self, **config: Any) -> Sandbox | StartFailure:
        self._sandboxes += 1
        ready: asyncio.Future[Sandbox | StartFailure] = asyncio.get_running_loop().create_future()
        given = {
            "id": f"pod-{self._sandboxes}",
            "hostname": f"web-{self._sandboxes}",
            "address": f"10.244.1.{self._sandboxes}",
            **config,
        }
        self.runtime.run_sandbox(SandboxConfig(**given), ready.set_result)
        return await ready

    def start(self, sandbox: Sandbox, *argv: str, **config: Any) -> Program:
        self._containers += 1
        program = Program()
        given = {"id": f"c{self._containers}", "env": ENV, **config}
        program.process = sandbox.create_container(
            ContainerConfig(argv=argv, **given), **program.callbacks()
        )
        return program

    def shell(self, sandbox: Sandbox, script: str, **config: Any) -> Program:
        """Start a shell script."""
        return self.start(sandbox, "/bin/sh", "-c", script, **config)

    async def run_shell(self, script: str, **config: Any) -> str:
        """Run a shell script in a pod of its own; returns its output."""
        sandbox = await self.create_sandbox()
        program = self.shell(sandbox, script, **config)
        assert (await program.wait()).code == 0, program.stderr
        sandbox.stop()
        return program.stdout


def list_loggers() -> list[int]:
    """Return the processes that read the output of programs of this process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            name = (process / "comm").read_text().strip()
        except OSError:
            continue
        if name == "kwait-logger" and f"kwait-{os.getpid()}-".encode() in command:
            found.append(int(process.name))
    return found


def find_parent(pid: int) -> int:
    """Return the parent of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def list_sleeps(text: str) -> list[bytes]:
    """Return the commands of all `sleep` on the machine that contain a text."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"sleep") and text.encode() in command:
            found.append(command)
    return found


def run_scenario(scenario: Scenario, *, isolation: RequestedIsolation = "auto") -> None:
    """Run a scenario on a runtime, and check that nothing of it stays."""

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="kwait-") as folder:
            before = list_leftovers(os.getpid(), Path(folder).name)
            network = NetworkConfig(local=(*NetworkConfig().local, LOAD_BALANCERS))
            runtime = ContainerRuntime(Path(folder), network, isolation=isolation)
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    await scenario(Programs(runtime, Path(folder)))
            finally:
                await runtime.close()
            assert list(Path(folder).iterdir()) == []
            assert list_leftovers(os.getpid(), Path(folder).name) <= before

    asyncio.run(run())


def list_leftovers(pid: int, folder: str) -> set[str]:
    """Return mounts, cgroups and processes of the runtimes of a server.

    Args:
        pid: the server's.
        folder: the name of its folder.
    """
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if folder in line:
            found.add(f"mount {line.split()[4]}")
    name = f"kwait-{pid}-"
    for parent, names, _ in os.walk("/sys/fs/cgroup"):
        found |= {f"cgroup {parent}/{each}" for each in names if each.startswith(name)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            environ = (process / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if name in command or name in environ:
            found.add(f"process {process.name} {command}")
    return found
