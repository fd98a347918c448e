"""The container of all runtimes here: status, log, attached clients, the end."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_kwait.simulator.kubelet.cri import (
    SIGKILL_EXIT_CODE,
    ContainerState,
    ContainerStats,
    ContainerStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession, Sink
    from pytest_kwait.simulator.clock import ScheduledCall, SimClock
    from pytest_kwait.simulator.kubelet.cri import (
        ContainerConfig,
        ContainerRequest,
        LinuxContainerResources,
    )

START_FAILED_EXIT_CODE = 128
"""The exit code of a container whose program could not be started."""

_MAX_MESSAGE = 4096
TERMINATION_LOG = "/dev/termination-log"
"""The default file of the termination message."""
# Limits of a termination message from the log; source: kuberuntime_container.go,
# `MaxContainerTerminationMessageLogLength`, `...Lines`.
_MAX_LOGGED_MESSAGE = 2048
_MAX_MESSAGE_LINES = 80


def format_spec_error(why: str) -> str:
    """Return containerd's error of a container whose configuration it cannot make.

    Source: containerd internal/cri/server/container_create.go, `createContainer`.
    """
    return (
        f'failed to generate container "{secrets.token_hex(32)}" spec: '
        f"failed to generate spec: {why}"
    )


def format_start_error(why: str) -> str:
    """Return containerd's error of a container that runc cannot start."""
    return (
        "failed to create containerd task: failed to create shim task: "
        f"OCI runtime create failed: runc create failed: {why}: unknown"
    )


def format_exec_error(why: str) -> str:
    """Return containerd's error of a command that runc cannot start."""
    return (
        f'failed to exec in container: failed to start exec "{secrets.token_hex(32)}": '
        f"OCI runtime exec failed: exec failed: {why}: unknown"
    )


class RuntimeContainer(ABC):
    """One container of a runtime.

    Args:
        on_stopped: called once, with its id, at the end.
    """

    def __init__(
        self, clock: SimClock, config: ContainerConfig, on_stopped: Callable[[str], None]
    ) -> None:
        self.clock = clock
        self.config = config
        self.id = secrets.token_hex(32)
        self.status = ContainerStatus()
        self.resources = config.resources
        self.attached_sinks: list[Sink] = []
        self._on_stopped = on_stopped
        self._kill: ScheduledCall | None = None

    @property
    def running(self) -> bool:
        """Return whether it has started and not ended."""
        return self.status.state is ContainerState.RUNNING

    # -- what runtimes differ in

    @abstractmethod
    def stop(self, grace: float) -> None:
        """Send the stop signal, and SIGKILL after `grace` seconds."""

    @abstractmethod
    def kill(self) -> None:
        """Send SIGKILL."""

    @abstractmethod
    def run(self, argv: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start a command in the container, as `RuntimeService.exec`."""

    @abstractmethod
    def attach(self, *, stdin: bool) -> ProcessSession:
        """Attach to the program."""

    @abstractmethod
    def read_written_message(self) -> bytes:
        """Return the contents of the file of the termination message."""

    @abstractmethod
    def kill_processes(self) -> None:
        """Kill the processes that are left at the end."""

    @abstractmethod
    def close(self) -> None:
        """Free what the container has used; its termination message was read."""

    def measure(self) -> ContainerStats:
        """Return the usage."""
        return ContainerStats()

    def update_resources(self, resources: LinuxContainerResources) -> None:
        """Set the resources."""
        self.resources = resources

    def answer(self, request: ContainerRequest) -> None:
        """Send a request to the program."""
        request.send()

    # -- output of the program

    def write(self, stream: int, data: bytes) -> None:
        """Log output, and pass it to attached sessions."""
        for sink_attached in self.attached_sinks:
            sink_attached.write(stream, data)
        self.config.log.write(self.clock.time(), stream, data)

    def must_wait(self, resume: Callable[[], None]) -> bool:
        """Never block: a log takes everything."""
        del resume
        return False

    def end(self, code: int) -> None:
        """End with the program."""
        self.exit(code, "Completed" if code == 0 else "Error")

    # -- the end

    def begin(self, at: float) -> None:
        """Record the start."""
        self.status = replace(self.status, state=ContainerState.RUNNING, started_at=at)

    def fail_to_start(self, why: str) -> None:
        """Record that the program could not be started."""
        self.begin(0.0)
        self.exit(START_FAILED_EXIT_CODE, "StartError", why)

    def exit(self, code: int, reason: str, message: str = "") -> None:
        """Record the end; no-op after it."""
        if self.status.state is ContainerState.EXITED:
            return
        now = self.clock.time()
        if self._kill is not None:
            self._kill.cancel()
        self.status = replace(
            self.status, state=ContainerState.EXITED, finished_at=now, exit_code=code, reason=reason
        )
        self.kill_processes()
        self.config.log.end(now)
        self.status = replace(self.status, message=message or self._read_termination_message(code))
        self.close()
        sinks, self.attached_sinks = self.attached_sinks, []
        for sink_attached in sinks:
            sink_attached.end(0)
        self._on_stopped(self.id)

    def _read_termination_message(self, code: int) -> str:
        """Return the termination message.

        Source: kuberuntime_container.go, `getTerminationMessage`.
        """
        written = self.read_written_message()
        if written or not self.config.termination_message_from_log or code == 0:
            return written[:_MAX_MESSAGE].decode(errors="replace")
        text = self.config.log.read_end(_MAX_MESSAGE_LINES)
        return text[-_MAX_LOGGED_MESSAGE:].decode(errors="replace")

    def inject_exit(self, code: int, reason: str, message: str) -> None:
        """End with a given exit code, reason and message, if it runs."""
        if self.running:
            self.exit(code, reason, message)

    def exit_killed(self) -> None:
        """End with SIGKILL, if it runs."""
        self.inject_exit(SIGKILL_EXIT_CODE, "Error", "")
