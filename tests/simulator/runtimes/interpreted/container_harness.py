"""A container on a manual clock, with clients that attach and run commands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_kwait.simulator.busybox.os.machine import Machine
from pytest_kwait.simulator.busybox.os.network import Network
from pytest_kwait.simulator.kubelet.environment import make_resolver_config
from pytest_kwait.simulator.kubelet.logs import ContainerLog
from pytest_kwait.simulator.runtimes.interpreted.container import (
    InterpretedContainer,
    make_container_files,
)
from tests.simulator.manual_clock import ManualClock
from tests.simulator.runtimes.configs import make_config

if TYPE_CHECKING:
    from pytest_kwait.simulator.busybox.os.network import ExternalNetwork
    from pytest_kwait.simulator.image_reference import ImageReference
    from pytest_kwait.simulator.kubelet_api import Session
    from pytest_kwait.simulator.objects import Obj

POD: Obj = {"metadata": {"name": "host", "namespace": "default"}, "spec": {}}


def take_output(session: Session) -> dict[int, bytes]:
    """Return the output of an ended process by stream, after its exit code."""

    async def take() -> dict[int, bytes]:
        found = {1: b"", 2: b""}
        while (piece := await asyncio.wait_for(session.output.take(), 30)) is not None:
            found[piece[0]] += piece[1]
        return found

    return asyncio.run(take())


class ContainerHarness:
    """A container on a manual clock.

    Args:
        argv: its program.
        stdin: whether it has an input.
        tty: whether the input is a terminal.
        memory: its memory limit in bytes.
        env: its variables.
        external: the network outside its pod.
        clock: its clock; a new one by default.
        machine: the machine that it shares with others; a new one by default.
        pod: its pod, for its DNS policy.
        image: its image; busybox by default.
        target: the container whose processes it sees; none by default.
        files: its initial files.
    """

    def __init__(
        self,
        *argv: str,
        stdin: bool = False,
        tty: bool = False,
        memory: int | None = None,
        env: dict[str, str] | None = None,
        external: ExternalNetwork | None = None,
        clock: ManualClock | None = None,
        machine: Machine | None = None,
        pod: Obj | None = None,
        image: ImageReference | None = None,
        target: InterpretedContainer | None = None,
        **files: bytes,
    ) -> None:
        self.clock = clock or ManualClock()
        self.network = Network()
        self.machine = machine or Machine(self.clock)
        self.log = ContainerLog()
        env = {"PATH": "/bin", "HOME": "/root", **(env or {})}
        config = make_config(self.log, image, memory=memory, stdin=stdin, tty=tty, envs=env)
        self.container = InterpretedContainer(
            self.machine, config, lambda _: None, self.network, target
        )
        self.network.address, self.network.external = "10.244.0.9", external
        contents = {f"/{name}": content for name, content in files.items()}
        contents["/etc/resolv.conf"] = make_resolver_config(pod or POD).encode()
        self.files = make_container_files(self.clock.time, "host", self.network, contents, {}, [])
        argv = argv or ("sleep", "999")
        self.failure = self.container.launch(list(argv), self.files, "host")

    def run(self, *argv: str, stdin: bytes | None = None, tty: bool = False) -> Session:
        """Start a command; `stdin` is its whole input."""
        session = self.container.run(list(argv), stdin=stdin is not None, tty=tty)
        if stdin is not None and session.stdin is not None:
            session.stdin.send(stdin)
            session.stdin.close()
        self.clock.advance()
        return session

    def sh(self, script: str) -> str:
        """Return the output of a script that ends at once."""
        return take_output(self.run("sh", "-c", script))[1].decode()

    def ask(self, port: int, data: bytes, *, close: bool = False) -> bytes | None:
        """Return the output of a port's server; None if the connection is refused."""
        session = self.network.connect(port)
        if session is None or session.stdin is None:
            return None
        session.stdin.send(data)
        if close:
            session.stdin.close()
        self.clock.advance()
        return take_output(session)[1]
