"""Containers as the kubelet sees them: instances in a container runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import format_time
from pytest_kwait.simulator.kubelet.cri import SIGKILL_EXIT_CODE, ContainerState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytest_kwait.simulator.busybox.os.streams import ProcessSession
    from pytest_kwait.simulator.kubelet.cri import (
        ContainerConfig,
        ContainerRequest,
        ContainerStats,
        ContainerStatus,
        LinuxContainerResources,
        RuntimeService,
    )
    from pytest_kwait.simulator.kubelet.logs import ContainerLog
    from pytest_kwait.simulator.objects import Obj


class Container:
    """One instance of a container; a restart creates another.

    Args:
        runtime: the runtime that has it.
        id: its id there.
        log: its log, which the runtime writes.
    """

    __slots__ = ("_final", "_runtime", "id", "image_id", "log", "name", "restart_count")

    def __init__(
        self, runtime: RuntimeService, id: str, config: ContainerConfig, log: ContainerLog
    ) -> None:
        self.id = id
        self.name = config.name
        self.restart_count = config.attempt
        self.image_id = config.image.id
        self.log = log
        self._runtime = runtime
        self._final: ContainerStatus | None = None

    # -- state

    @property
    def container_id(self) -> str:
        """The `containerID` of container statuses."""
        return f"containerd://{self.id}"

    @property
    def status(self) -> ContainerStatus:
        """The status; the last one, once it is removed."""
        return self._final or self._runtime.container_status(self.id)

    @property
    def running(self) -> bool:
        """Return whether it has started and not ended."""
        return self.status.state is ContainerState.RUNNING

    @property
    def exited(self) -> bool:
        """Return whether it has ended."""
        return self.status.state is ContainerState.EXITED

    @property
    def exit_code(self) -> int | None:
        """The exit code; None until the end."""
        return self.status.exit_code

    @property
    def finished_at(self) -> float | None:
        """Seconds since the epoch of its end; None until then."""
        return self.status.finished_at

    def measure(self) -> ContainerStats:
        """Return the usage."""
        return self._runtime.container_stats(self.id)

    def state(self) -> Obj:
        """Return the `state` for the pod's status."""
        status = self.status
        if status.finished_at is not None:
            terminated: Obj = {"exitCode": status.exit_code, "reason": status.reason}
            if status.message:
                terminated["message"] = status.message
            terminated["startedAt"] = format_time(status.started_at or 0.0)
            terminated["finishedAt"] = format_time(status.finished_at)
            terminated["containerID"] = self.container_id
            return {"terminated": terminated}
        if status.started_at is not None:
            return {"running": {"startedAt": format_time(status.started_at)}}
        return {"waiting": {}}

    # -- the end

    def stop(self, grace: float) -> None:
        """Send the stop signal, and SIGKILL after `grace` seconds."""
        self._runtime.stop_container(self.id, grace)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._runtime.stop_container(self.id, 0)

    def finish(self, code: int, reason: str, message: str) -> None:
        """End with a given exit code, reason and message, if it runs."""
        if self.running:
            self._runtime.inject_exit(
                self.id, code, reason or ("Completed" if code == 0 else "Error"), message
            )

    def run_out_of_memory(self) -> bool:
        """OOM-kill the container; False if it does not run."""
        ran = self.running
        if ran:
            self._runtime.inject_exit(self.id, SIGKILL_EXIT_CODE, "OOMKilled")
        return ran

    def remove(self) -> None:
        """Remove it from its runtime; status and log stay."""
        if self._final is None:
            self._final = self.status
            self._runtime.remove_container(self.id)

    def update_resources(self, resources: LinuxContainerResources) -> None:
        """Set the resources."""
        self._runtime.update_container_resources(self.id, resources)

    # -- requests and sessions

    def answer(self, request: ContainerRequest) -> None:
        """Let its runtime answer a request of a probe or hook."""
        self._runtime.answer_request(self.id, request)

    def run(self, argv: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start another command in the container.

        Raises:
            StartError: it cannot be started.
        """
        return self._runtime.exec(self.id, argv, stdin=stdin, tty=tty)

    def attach(self, *, stdin: bool) -> ProcessSession:
        """Attach to the program."""
        return self._runtime.attach(self.id, stdin=stdin)

    def follow(self) -> AsyncIterator[tuple[float, bytes]]:
        """Yield the lines of the log until the container ends."""
        return self.log.follow()
