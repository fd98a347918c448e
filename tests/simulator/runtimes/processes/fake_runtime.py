"""A container runtime on a manual clock that starts no process."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, cast

from pytest_kwait.simulator.runtimes.processes import program_container
from pytest_kwait.simulator.runtimes.processes.runtime import Exit, StartFailure

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

    from pytest_kwait.simulator.runtimes.processes.runtime import (
        ContainerConfig,
        ContainerRuntime,
        Sandbox,
        SandboxConfig,
        Stream,
    )
    from tests.simulator.manual_clock import ManualClock


class _Input:
    def __init__(self) -> None:
        self.data = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    async def drain(self) -> None:
        """Everything is taken at once."""


class FakeProcess:
    """A program whose output and end the test decides."""

    def __init__(
        self,
        argv: tuple[str, ...],
        on_output: Callable[[Stream, bytes], None],
        on_exit: Callable[[Exit], None],
        *,
        stdin: bool,
    ) -> None:
        self.argv = argv
        self.write = on_output
        self._on_exit = on_exit
        self.stdin = _Input() if stdin else None
        self.signals: list[int] = []
        self.sizes: list[tuple[int, int]] = []
        self.paused = False
        self.ended = False

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if number == signal.SIGKILL:
            self.exit(137)

    def exit(
        self, code: int, *, oom_killed: bool = False, message: bytes = b"", fault: str = ""
    ) -> None:
        if not self.ended:
            self.ended = True
            self._on_exit(Exit(code, oom_killed, message, fault))

    def resize_terminal(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    def pause_output(self) -> None:
        self.paused = True

    def resume_output(self) -> None:
        self.paused = False


class FakeContainer(FakeProcess):
    """A container; commands that run in it are recorded."""

    def __init__(self, runtime: FakeRuntime, config: ContainerConfig, **calls: Any) -> None:
        self._runtime = runtime
        self.config = config
        self.commands: list[FakeProcess] = []
        self.limits: list[int | None] = []
        super().__init__(config.argv, calls["on_output"], calls["on_exit"], stdin=config.stdin)

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
    ) -> FakeProcess:
        process = FakeProcess(argv, on_output, on_exit, stdin=stdin)
        self.commands.append(process)
        self._runtime.start(argv, on_started)
        return process

    async def update_memory(self, limit: int | None) -> None:
        self.limits.append(limit)


class FakeSandbox:
    """A sandbox whose empty folders are below a folder of the test."""

    def __init__(self, runtime: FakeRuntime, config: SandboxConfig) -> None:
        self._runtime = runtime
        self.config = config
        self.stopped = False
        self.empty_dirs: dict[str, Path] = {}
        for one in config.empty_dirs:
            path = runtime.folder / config.id / one.name
            path.mkdir(parents=True)
            self.empty_dirs[one.name] = path

    def create_container(
        self,
        config: ContainerConfig,
        *,
        on_started: Callable[[StartFailure | None], None],
        on_output: Callable[[Stream, bytes], None],
        on_exit: Callable[[Exit], None],
    ) -> FakeContainer:
        made = FakeContainer(self._runtime, config, on_output=on_output, on_exit=on_exit)
        self._runtime.containers.append(made)
        self._runtime.start(config.argv, on_started)
        return made

    def update_file(self, path: str, content: bytes) -> None:
        """Files of a pod do not change in these tests."""

    async def is_isolated(self) -> bool:
        return True

    async def connect_socket(self, kind: str, *, any_source: bool = False) -> socket.socket:
        raise OSError("there is no network")

    def stop(self) -> None:
        self.stopped = True


class FakeRuntime:
    """Records sandboxes and containers; each starts with the next step of the clock."""

    def __init__(self, clock: ManualClock, folder: Path) -> None:
        self._clock = clock
        self.folder = folder
        self.sandboxes: list[FakeSandbox] = []
        self.containers: list[FakeContainer] = []
        self.sandbox_failure = ""
        self.is_plain = False
        self.failures: dict[str, str] = {}
        """Why a program cannot be started, by its name."""
        self.denied = ""
        """What the user of such a program may not do."""

    def run_sandbox(
        self, config: SandboxConfig, ready: Callable[[Sandbox | StartFailure], None]
    ) -> None:
        answer: object = StartFailure(self.sandbox_failure)
        if not self.sandbox_failure:
            answer = FakeSandbox(self, config)
            self.sandboxes.append(answer)
        self._clock.call_soon(ready, answer)

    def start(
        self, argv: tuple[str, ...], on_started: Callable[[StartFailure | None], None]
    ) -> None:
        why = self.failures.get(argv[0])
        self._clock.call_soon(on_started, StartFailure(why, self.denied) if why else None)

    @property
    def last(self) -> FakeContainer:
        """The newest container."""
        return self.containers[-1]


def use_fake_runtime(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, folder: Path
) -> FakeRuntime:
    """Let programs of clusters run in a fake runtime, which is returned."""
    runtime = FakeRuntime(clock, folder)

    def get_runtime(programs: program_container.ClusterPrograms) -> ContainerRuntime:
        return cast("ContainerRuntime", runtime)

    monkeypatch.setattr(program_container.ClusterPrograms, "runtime", property(get_runtime))
    return runtime
